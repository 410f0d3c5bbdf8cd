"""How much do learned binary codes of images tell of their classes?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python -m benchmarks binary_codes

Beside tables 3.3 and 3.6 of Kozyrskiy (2023). Trains encoders on images of MNIST or
CIFAR-10, with the gradients of BinaryEncoder. Two classifiers judge the codes of test
images: a Gaussian process of optical random features, which is the source's system
without its device, and the five nearest codes.
Test images are the first ones. Table 3.3 has the encoder "lenet", table 3.6 "resnet".
The source trains on all images, and does not say how long, nor with how many features.
Score functions also without a baseline, as in its figures 3.6 and 3.7.
Three further rows have codes without such a training: signs of random directions of the
images, and of their projection by linear discriminant analysis or by neighbourhood
components, both of scikit-learn, which read the labels.
Rows that are there are not measured again. Some minutes on a core; both tables, which
take an hour and a half of it:

    python -m benchmarks binary_codes --whole

Parts can run in several processes, whose files a last call puts together:

    python -m benchmarks binary_codes --merge one.json two.json
"""

from itertools import product
from typing import Any

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from benchmarks.data import FETCH, Samples, images
from benchmarks.measure import Record, Stopwatch, ran_on
from benchmarks.report import AGAIN, MERGE, Figures, show
from skconvgp import BinaryEncoder, ConvNetGPClassifier
from skconvgp.completion import RandomFeatures
from skconvgp.kernels import optical

PART, KEYS = "codes", ("data", "encoder", "method", "n_train", "n_bits", "n_features")
PARTS = {PART: (*KEYS, "epochs", "learning_rate")}
# Test errors of the source: table 3.3 (lenet, 400 bits), table 3.6 (resnet). Its other
# autoencoder, LBAE, is a network of another kind.
REPORTED = {
    "lenet": {
        "mnist": {"autoencoder": 0.06, "feedback": 0.31, "score": 0.01},
        "cifar10": {"autoencoder": 0.55, "feedback": 0.81, "score": 0.32},
    },
    "resnet": {
        "mnist": {"autoencoder": 0.15, "score": 0.01},
        "cifar10": {"autoencoder": 0.63, "score": 0.17},
    },
}
AUTOENCODER = "autoencoder"
SCORE, NO_BASELINE = "score", "score, no baseline"
SIGNS, DISCRIMINANT = "random signs", "discriminants, random signs"
COMPONENTS = "components, random signs"
PEERS = (SIGNS, DISCRIMINANT, COMPONENTS)
# Neighbourhood components compare all pairs, and have no batches.
MOST_PAIRS, N_COMPONENTS = 2000, 32
N_NEAREST, BLOCK = 5, 500
RATES = {"lenet": 3e-3, "resnet": 1e-3}
# For the tables of the source: images to learn from, or all there are, and to judge,
# optical features, and epochs.
WHOLE = {"train": 60_000, "test": 10_000, "features": 1000}
EPOCHS = {
    ("mnist", "lenet"): 10,
    ("mnist", "resnet"): 3,
    ("cifar10", "lenet"): 20,
    ("cifar10", "resnet"): 10,
}
METHODS = (
    *PEERS,
    AUTOENCODER,
    "feedback",
    "straight_through",
    SCORE,
    NO_BASELINE,
    "isolated",
    "analytic",
)
# For table 3.6; methods without an encoder have the rows of "lenet".
OF_RESNET = (AUTOENCODER, "straight_through", SCORE, "analytic")


def options(add: Any) -> None:
    add("--data", nargs="+", choices=FETCH, help="mnist, or both")
    add("--encoders", nargs="+", choices=RATES, help="lenet, or both")
    add("--methods", nargs="+", choices=METHODS, default=METHODS)
    add("--train", type=int, default=2000)
    add("--test", type=int, default=1000)
    add("--bits", type=int, default=400)
    add("--features", type=int, default=500)
    add("--epochs", type=int, default=10)
    add("--rate", type=float, help="the same for all encoders")
    add("--device", default="auto")
    add("--whole", action="store_true", help="the tables of the source")
    add("--again", **AGAIN)
    add("--merge", **MERGE)


def run(options: Any, record: Record) -> None:
    sets, encoders = (FETCH, RATES) if options.whole else (["mnist"], ["lenet"])
    if options.whole:
        vars(options).update(WHOLE)
    for data, encoder in product(options.data or sets, options.encoders or encoders):
        some = images(data, options.train, options.test)
        methods = set(OF_RESNET if options.whole and encoder == "resnet" else METHODS)
        for method in filter(methods.__contains__, options.methods):
            place = data, encoder, method, len(some.y), options.bits, options.features
            named: Figures = dict(zip(KEYS, place, strict=True))
            epochs = EPOCHS[data, encoder] if options.whole else options.epochs
            named |= {"epochs": epochs, "learning_rate": options.rate or RATES[encoder]}
            if record.missing(PART, **named):
                print(record.add(PART, named | measure(named, some, options.device)))
    record.write(reported=REPORTED)
    show_rows(record.rows(PART))


def show_rows(rows: list[Figures]) -> None:
    """Print the rows beside the errors of the source."""
    keys = ("n_train", "n_bits", "epochs", "test_error", "nearest_error")
    show("", ("images", "bits", "epochs", "error", "5 near", "source", "CPU s"), 44)
    for row in rows:
        source = REPORTED[row["encoder"]][row["data"]].get(row["method"])
        name = f"{row['data']}, {row['encoder']}, {row['method']}"
        show(name, (*(row[key] for key in keys), source, row["fit_cpu_seconds"]), 44)


def measure(named: Figures, some: Samples, device: str) -> Figures:
    """Return the figures of one way to make codes."""
    watch = Stopwatch()
    if named["method"] in PEERS:
        codes, told = _signs(named, some.flat()), {"device": "cpu"}
    else:
        codes, told = _learned(named, some, device)
    seconds = watch.read("fit_")
    gp = classifier(named, device).fit(codes[0], some.y)
    is_near = nearest(*codes, some.y, told["device"]) == some.y_test
    row = {
        "test_error": 1.0 - gp.score(codes[1], some.y_test),
        "nearest_error": float(1.0 - is_near.mean()),
        "n_test": len(some.y_test),
    }
    return row | seconds | told | ran_on(told["device"])


def _learned(named: Figures, some: Samples, device: str) -> tuple:
    """Return the codes of an encoder, and what is known of its training."""
    method, is_alone = named["method"], named["method"] == AUTOENCODER
    gradients = {AUTOENCODER: "auto", NO_BASELINE: SCORE}
    encoder = BinaryEncoder(
        named["n_bits"],
        encoder=named["encoder"],
        n_features=named["n_features"],
        gradient=gradients.get(method, method),
        baseline=method != NO_BASELINE,
        max_iter=named["epochs"],
        learning_rate=named["learning_rate"],
        dtype="float32",
        device=device,
        random_state=0,
    )
    X, X_test = some.X.astype(np.float32), some.X_test.astype(np.float32)
    encoder.fit(X, None if is_alone else some.y)
    codes = encoder.transform(X), encoder.transform(X_test)
    return codes, {"n_iter": encoder.n_iter_, "device": encoder.device_}


def _signs(named: Figures, flat: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Return signs of random directions, of images or of a projection of them."""
    rows = [X.astype(np.float32).astype(np.float64) for X in (flat.X, flat.X_test)]
    rows = [one - rows[0].mean(0) for one in rows]
    if named["method"] != SIGNS:
        n = len(rows[0])
        projection: Any = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")
        if named["method"] == COMPONENTS:
            n = min(n, MOST_PAIRS)
            projection = NeighborhoodComponentsAnalysis(
                N_COMPONENTS, init="pca", max_iter=50, random_state=0
            )
        projection.fit(rows[0][:n], flat.y[:n])
        rows = [projection.transform(one) for one in rows]
        rows = [one - rows[0].mean(0) for one in rows]
    size = rows[0].shape[1], named["n_bits"]
    directions = np.random.default_rng(0).normal(size=size)
    one, two = ((part @ directions > 0.0).astype(np.uint8) for part in rows)
    return one, two


def nearest(
    codes: np.ndarray, new: np.ndarray, labels: np.ndarray, device: str
) -> np.ndarray:
    """Return the most frequent label of the nearest codes, by products of matrices."""
    kept, asked = (torch.from_numpy(one).to(device).float() for one in (codes, new))
    known = torch.from_numpy(np.asarray(labels, np.int64)).to(device)
    counts = kept.sum(1)
    votes = []
    for block in torch.split(asked, BLOCK):
        different = counts - 2.0 * block @ kept.T  # but for the bits of the new code
        near = different.topk(N_NEAREST, largest=False).indices
        votes.append(known[near].mode(1).values)
    return torch.cat(votes).cpu().numpy()


def classifier(named: Figures, device: str) -> Any:
    """Return the Gaussian process that reads optical features of codes."""
    part = RandomFeatures(named["n_features"])
    kernel = optical(centered=True)
    return ConvNetGPClassifier(kernel, completion=part, device=device, random_state=1)
