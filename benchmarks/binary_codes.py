"""Learned binary codes of images, beside tables 3.3 and 3.6 of Kozyrskiy (2023).

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python benchmarks/binary_codes.py

Trains encoders on images of MNIST or CIFAR-10, with the gradients of BinaryEncoder. Two
classifiers judge the codes of test images: a Gaussian process of optical random
features, which is the source's system without its device, and the five nearest codes.
Test images are the first ones. Table 3.3 has the encoder "lenet", table 3.6 "resnet".
The source trains on all images, and does not say how long, nor with how many features.
Rows are written to benchmarks/results/binary_codes.json at once; old ones are skipped.
Some minutes on a core; all of table 3.3 on MNIST, for which a GPU is recommended:

    python benchmarks/binary_codes.py --train 60000 --test 10000 --epochs 50
        --features 4000
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from calibrating.source import Figures
from completing.report import dated, put, read, save
from peers.machine import machine, versions
from peers.report import find
from sklearn.neighbors import KNeighborsClassifier

from skconvgp import BinaryEncoder, ConvNetGPClassifier
from skconvgp.completion import RandomFeatures
from skconvgp.datasets import fetch_cifar10, fetch_mnist
from skconvgp.kernels import optical

RESULTS = Path(__file__).parent / "results" / "binary_codes.json"
FETCH = {"mnist": fetch_mnist, "cifar10": fetch_cifar10}
# Test errors of the source: table 3.3 (lenet, 400 bits), table 3.6 (resnet). Its other
# autoencoder, LBAE, is a network of another kind.
REPORTED = {
    ("lenet", "mnist"): {"autoencoder": 0.06, "feedback": 0.31, "score": 0.01},
    ("lenet", "cifar10"): {"autoencoder": 0.55, "feedback": 0.81, "score": 0.32},
    ("resnet", "mnist"): {"autoencoder": 0.15, "score": 0.01},
    ("resnet", "cifar10"): {"autoencoder": 0.63, "score": 0.17},
}
AUTOENCODER = "autoencoder"
METHODS = (
    AUTOENCODER,
    "feedback",
    "straight_through",
    "score",
    "isolated",
    "analytic",
)
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


def measure(named: Figures, train: tuple, test: tuple) -> Figures:
    """Return the figures of one encoder."""
    method, is_alone = named["method"], named["method"] == AUTOENCODER
    encoder = BinaryEncoder(
        named["n_bits"],
        encoder=named["encoder"],
        n_features=named["n_features"],
        gradient="auto" if is_alone else method,
        max_iter=named["epochs"],
        learning_rate=named["learning_rate"],
        dtype="float32",
        random_state=0,
    )
    cpu, start = time.process_time(), time.perf_counter()
    encoder.fit(train[0], None if is_alone else train[1])
    seconds = time.perf_counter() - start, time.process_time() - cpu
    codes = encoder.transform(train[0]), encoder.transform(test[0])
    return {
        "test_error": 1.0
        - classifier(named).fit(codes[0], train[1]).score(codes[1], test[1]),
        "nearest_error": 1.0
        - neighbours().fit(codes[0], train[1]).score(codes[1], test[1]),
        "n_test": len(test[1]),
        "n_iter": encoder.n_iter_,
        "fit_seconds": seconds[0],
        "fit_cpu_seconds": seconds[1],
        "device": encoder.device_,
    }


def classifier(named: Figures) -> Any:
    """Return the Gaussian process that reads optical features of codes."""
    part = RandomFeatures(named["n_features"])
    kernel = optical(centered=True)
    return ConvNetGPClassifier(kernel, completion=part, random_state=1)


def neighbours() -> Any:
    """Return the search among codes."""
    return KNeighborsClassifier(5, metric="hamming")


def table(rows: list[Figures]) -> str:
    """Return the rows as a table, beside the errors of the source."""
    lines = [
        f"{'data':8} {'encoder':7} {'gradient':16} {'images':>6} {'bits':>4} "
        f"{'epochs':>6} {'error':>6} {'5 near':>6} {'source':>6} {'CPU s':>6}"
    ]
    for row in rows:
        reported = REPORTED.get((row["encoder"], row["data"]), {})
        source = reported.get(row["method"])
        lines.append(
            f"{row['data']:8} {row['encoder']:7} {row['method']:16} "
            f"{row['n_train']:6d} {row['n_bits']:4d} {row['epochs']:6d} "
            f"{row['test_error']:6.3f} {row['nearest_error']:6.3f} "
            f"{'' if source is None else source:>6} {row['fit_cpu_seconds']:6.0f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=FETCH, default=["mnist"])
    parser.add_argument(
        "--encoders", nargs="+", choices=["lenet", "resnet"], default=["lenet"]
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--bits", type=int, default=400)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--again", action="store_true", help="measure old rows anew")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    record = {"codes": []} | read(options.output)
    record = {"codes": record["codes"], "versions": versions(), "machine": machine()}
    rows = record["codes"]
    for data in options.data:
        train = images(data, "train", options.train)
        test = images(data, "test", options.test)
        for encoder in options.encoders:
            for method in options.methods:
                named = {"data": data, "encoder": encoder, "method": method}
                named |= {"n_train": options.train, "n_bits": options.bits}
                named |= {"n_features": options.features, "epochs": options.epochs}
                named |= {"learning_rate": options.rate}
                if not options.again and find(rows, **named):
                    continue
                row = named | measure(named, train, test)
                put(rows, dated(row), *KEYS)
                save(options.output, record)
                print(row, flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
