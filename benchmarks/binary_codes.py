"""Learned binary codes of images, beside tables 3.3 and 3.6 of Kozyrskiy (2023).

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python benchmarks/binary_codes.py

Trains encoders on images of MNIST or CIFAR-10, with the gradients of BinaryEncoder. Two
classifiers judge the codes of test images: a Gaussian process of optical random
features, which is the source's system without its device, and the five nearest codes.
Test images are the first ones. Table 3.3 has the encoder "lenet", table 3.6 "resnet".
The source trains on all images, and does not say how long, nor with how many features.
Three further rows have codes without such a training: signs of random directions of the
images, and of their projection by linear discriminant analysis or by neighbourhood
components, both of scikit-learn, which read the labels.
Rows are written to benchmarks/results/binary_codes.json at once; old ones are skipped.
Some minutes on a core; both tables, which take an hour and a half of it:

    python benchmarks/binary_codes.py --whole

Parts can run in several processes, whose files a last call puts together:

    python benchmarks/binary_codes.py --merge one.json two.json
"""

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from calibrating.source import Figures
from completing.report import dated, put, read, save
from drawing.place import ran_on
from peers.machine import machine, versions
from peers.pipe import Stopwatch
from peers.report import find
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from skconvgp import BinaryEncoder, ConvNetGPClassifier
from skconvgp.completion import RandomFeatures
from skconvgp.datasets import fetch_cifar10, fetch_mnist
from skconvgp.kernels import optical

RESULTS = Path(__file__).parent / "results" / "binary_codes.json"
FETCH = {"mnist": fetch_mnist, "cifar10": fetch_cifar10}
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
    "score",
    "isolated",
    "analytic",
)
# For table 3.6; methods without an encoder have the rows of "lenet".
OF_RESNET = (AUTOENCODER, "straight_through", "score", "analytic")
KEYS = (
    "data",
    "encoder",
    "method",
    "n_train",
    "n_bits",
    "n_features",
    "epochs",
    "learning_rate",
)


def images(data: str, subset: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images in [0, 1], (n, c, h, w), and their labels."""
    X, y = FETCH[data](subset=subset, n_samples=count, return_X_y=True)
    return X.astype(np.float32), y


def measure(named: Figures, train: tuple, test: tuple, device: str) -> Figures:
    """Return the figures of one way to make codes."""
    watch = Stopwatch()
    if named["method"] in PEERS:
        codes, told = _signs(named, train, test), {"device": "cpu"}
    else:
        codes, told = _learned(named, train, test, device)
    seconds = watch.read()
    gp = classifier(named, device).fit(codes[0], train[1])
    is_near = nearest(*codes, train[1], told["device"]) == test[1]
    row = {
        "test_error": 1.0 - gp.score(codes[1], test[1]),
        "nearest_error": float(1.0 - is_near.mean()),
        "n_test": len(test[1]),
        "fit_seconds": seconds["seconds"],
        "fit_cpu_seconds": seconds["cpu_seconds"],
    }
    return row | told | ran_on(told["device"])


def _learned(named: Figures, train: tuple, test: tuple, device: str) -> tuple:
    """Return the codes of an encoder, and what is known of its training."""
    method, is_alone = named["method"], named["method"] == AUTOENCODER
    encoder = BinaryEncoder(
        named["n_bits"],
        encoder=named["encoder"],
        n_features=named["n_features"],
        gradient="auto" if is_alone else method,
        max_iter=named["epochs"],
        learning_rate=named["learning_rate"],
        dtype="float32",
        device=device,
        random_state=0,
    )
    encoder.fit(train[0], None if is_alone else train[1])
    codes = encoder.transform(train[0]), encoder.transform(test[0])
    return codes, {"n_iter": encoder.n_iter_, "device": encoder.device_}


def _signs(named: Figures, train: tuple, test: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Return signs of random directions, of images or of a projection of them."""
    rows = [X.reshape(len(X), -1).astype(np.float64) for X, _ in (train, test)]
    rows = [one - rows[0].mean(0) for one in rows]
    if named["method"] != SIGNS:
        n = len(rows[0])
        projection: Any = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")
        if named["method"] == COMPONENTS:
            n = min(n, MOST_PAIRS)
            projection = NeighborhoodComponentsAnalysis(
                N_COMPONENTS, init="pca", max_iter=50, random_state=0
            )
        projection.fit(rows[0][:n], train[1][:n])
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


def table(rows: list[Figures]) -> str:
    """Return the rows as a table, beside the errors of the source."""
    lines = [
        f"{'data':8} {'encoder':7} {'gradient':27} {'images':>6} {'bits':>4} "
        f"{'epochs':>6} {'error':>6} {'5 near':>6} {'source':>6} {'CPU s':>6}"
    ]
    for row in rows:
        reported = REPORTED[row["encoder"]][row["data"]]
        source = reported.get(row["method"])
        lines.append(
            f"{row['data']:8} {row['encoder']:7} {row['method']:27} "
            f"{row['n_train']:6d} {row['n_bits']:4d} {row['epochs']:6d} "
            f"{row['test_error']:6.3f} {row['nearest_error']:6.3f} "
            f"{'' if source is None else source:>6} {row['fit_cpu_seconds']:6.0f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print and save."""
    options = parse()
    record = {"codes": []} | read(options.output)
    record = {"codes": record["codes"], "versions": versions(), "machine": machine()}
    record["reported"] = REPORTED
    rows = record["codes"]
    for path in options.merge:
        for row in json.loads(path.read_text())["codes"]:
            put(rows, row, *KEYS)
    if options.merge:
        save(options.output, record)
        options.data = []
    for data in options.data:
        train = images(data, "train", options.train)
        test = images(data, "test", options.test)
        for encoder, method in product(options.encoders, options.methods):
            named = {"data": data, "encoder": encoder, "method": method}
            named |= {"n_train": len(train[1]), "n_bits": options.bits}
            epochs = EPOCHS[data, encoder] if options.whole else options.epochs
            named |= {"n_features": options.features, "epochs": epochs}
            named |= {"learning_rate": options.rate or RATES[encoder]}
            is_left_out = (
                options.whole and encoder == "resnet" and method not in OF_RESNET
            )
            if is_left_out or (not options.again and find(rows, **named)):
                continue
            row = named | measure(named, train, test, options.device)
            put(rows, dated(row), *KEYS)
            save(options.output, record)
            print(row, flush=True)
    print(table(rows))


def parse() -> Any:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=FETCH, help="mnist, or both")
    parser.add_argument("--encoders", nargs="+", choices=RATES, help="lenet, or both")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--bits", type=int, default=400)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rate", type=float, help="the same for all encoders")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--whole", action="store_true", help="the tables of the source")
    parser.add_argument("--merge", nargs="*", type=Path, default=[])
    parser.add_argument("--again", action="store_true", help="measure old rows anew")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    usual = (list(FETCH), list(RATES)) if options.whole else (["mnist"], ["lenet"])
    options.data = options.data or usual[0]
    options.encoders = options.encoders or usual[1]
    if options.whole:
        vars(options).update(WHOLE)
    return options


if __name__ == "__main__":
    main()
