"""Under attack and away from the data: a process beside a trained network.

    SKCONVGP_DATA=<folder with mnist.npz and cifar10.npz> \\
        python benchmarks/robustness.py

Nearly all of the time is for derivatives by the pixels. A process with the covariance
of three convolutional layers and a small network of as many, trained by gradient
descent, learn from the same MNIST images. Then accuracy, entropy and latent variance
when each pixel is moved by at most epsilon to where the cross-entropy rises, in one
step or many; and how well entropy and deviation tell images of another kind from
digits, as areas under the curve.

    python benchmarks/robustness.py --quick
    python benchmarks/robustness.py --attacks fgsm

Prints tables and writes benchmarks/results/robustness.json. A quick run writes only
what --output names.
"""

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from completing.measure import number
from completing.report import dated, put, save
from numpy.typing import NDArray
from peers.machine import machine, versions
from scipy.stats import entropy
from sklearn.metrics import roc_auc_score
from torch import nn

from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import fetch_cifar10, fetch_mnist
from skconvgp.kernels import three_layer_convnet
from skconvgp.metrics import robustness_curve

RESULTS = Path(__file__).parent / "results" / "robustness.json"
NOISE = 1e-4
EPSILONS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
CHANNELS, EPOCHS, BATCH, RATE = 32, 40, 50, 1e-3
PROCESS, NETWORK = "process", "trained network"
SHIFT = 4  # pixels
LUMINANCE = np.array([0.299, 0.587, 0.114])[:, None, None]
Images = NDArray[Any]


class TrainedNetwork:
    """Three convolutional layers and a readout, as `robustness_curve` asks for."""

    def __init__(self, n_classes: int, side: int) -> None:
        torch.manual_seed(0)
        sizes = (1, CHANNELS, CHANNELS, CHANNELS)
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Conv2d(before, after, 5, stride=2, padding=2), nn.ReLU()]
        for _ in range(3):
            side = -(-side // 2)
        layers += [nn.Flatten(), nn.Linear(CHANNELS * side**2, n_classes)]
        self._layers = nn.Sequential(*layers)

    def fit(self, X: Images, y: Images) -> "TrainedNetwork":
        """Train by Adam on batches, for a fixed number of epochs."""
        self.classes_ = np.unique(y)
        images, codes = _tensor(X), torch.from_numpy(np.searchsorted(self.classes_, y))
        optimizer = torch.optim.Adam(self._layers.parameters(), lr=RATE)
        generator = torch.Generator().manual_seed(0)
        for _ in range(EPOCHS):
            for some in torch.randperm(len(y), generator=generator).split(BATCH):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(
                    self._layers(images[some]), codes[some]
                )
                loss.backward()
                optimizer.step()
        return self

    def predict_latent(self, X: Images, return_std: bool = False) -> Any:
        """Return the outputs; there are no deviations, and these are NaN."""
        with torch.no_grad():
            latent = self._layers(_tensor(X)).numpy().astype(np.float64)
        return (latent, np.full_like(latent, np.nan)) if return_std else latent

    def predict_proba(self, X: Images) -> Images:
        """Return the softmax of the outputs."""
        latent = torch.from_numpy(self.predict_latent(X))
        probabilities: Images = torch.softmax(latent, dim=1).numpy()
        return probabilities

    def latent_gradient(self, X: Images, weights: Images) -> Images:
        """Return the derivatives of weighted sums of the outputs by the inputs."""
        images = _tensor(X).requires_grad_()
        total = (self._layers(images) * torch.from_numpy(weights)).sum()
        (by_images,) = torch.autograd.grad(total, images)
        gradient: Images = by_images.numpy().astype(np.float64)
        return gradient


def main() -> None:
    """Measure, print and save."""
    options = parse()
    X, y = fetch_mnist(n_samples=options.n_train, return_X_y=True)
    X_test, y_test = fetch_mnist(
        subset="test", n_samples=options.n_test, return_X_y=True
    )
    record = {"versions": versions(), "machine": machine(), "curves": [], "kinds": []}
    models = {
        PROCESS: ConvNetGPClassifier(three_layer_convnet(), noise_variance=NOISE).fit(
            X, y
        ),
        NETWORK: TrainedNetwork(10, X.shape[-1]).fit(X, y),
    }
    setting = {"n_train": len(y), "n_test": len(y_test)}
    print(f"{len(y)} training images, {len(y_test)} test images\n")
    print(f"{'':<34}" + "".join(f"{epsilon:>8}" for epsilon in EPSILONS))
    for name, model in models.items():
        for attack in options.attacks:
            curve = robustness_curve(
                model, X_test, y_test, EPSILONS, attack=attack, n_steps=options.n_steps
            )
            row = {"model": name, "attack": attack}
            row |= {key: list(map(number, values)) for key, values in curve.items()}
            put(record["curves"], dated(row | setting), "model", "attack")
            save(options.output, record)
            for key in ("accuracy", "entropy", "variance"):
                told = "".join(f"{value:>8.3f}" for value in curve[key])
                print(f"{f'{name}, {attack}':<24}{key:<10}{told}")
    kinds = other_kinds(X_test)
    print(f"\n{'area under the curve':<28}" + "".join(f"{kind:>12}" for kind in kinds))
    for name, model in models.items():
        own = scores(model, X_test)
        for score in own:
            areas = {
                kind: area(own[score], scores(model, images)[score])
                for kind, images in kinds.items()
            }
            row = {"model": name, "score": score, "areas": areas}
            put(record["kinds"], dated(row | setting), "model", "score")
            save(options.output, record)
            told = "".join(f"{value:>12.3f}" for value in areas.values())
            print(f"{f'{name}, {score}':<28}{told}")
    if options.output:
        print(f"\nwritten to {options.output}")


def parse() -> Any:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--attacks", nargs="+", choices=("fgsm", "pgd"), default=["fgsm", "pgd"])
    add("--n-train", type=int, default=1000, help="training images")
    add("--n-test", type=int, default=100, help="test images")
    add("--n-steps", type=int, default=40, help="of the attack in many steps")
    add("--quick", action="store_true", help="few images and steps: a minute")
    add("--output", type=Path, help="by default results/robustness.json if not quick")
    options = parser.parse_args()
    if options.quick:
        options.n_train, options.n_test, options.n_steps = 200, 20, 3
    elif not options.output:
        options.output = RESULTS
    return options


def other_kinds(X: Images) -> dict[str, Images]:
    """Return as many images of other kinds, of the same size and range."""
    rng = np.random.default_rng(0)
    colours = fetch_cifar10(subset="test", n_samples=len(X)).data
    grey = (colours * LUMINANCE).sum(axis=1, keepdims=True)[:, :, 2:30, 2:30]
    return {
        "shifted": np.roll(X, SHIFT, axis=3),
        "inverted": 1.0 - X,
        "noise": rng.uniform(size=X.shape).astype(X.dtype),
        "CIFAR, grey": grey.astype(X.dtype),
    }


def scores(model: Any, X: Images) -> dict[str, Images]:
    """Return what should be larger for images of another kind."""
    found = {"entropy": entropy(model.predict_proba(X), axis=1)}
    std = model.predict_latent(X, return_std=True)[1]
    if np.isfinite(std).all():
        found["deviation"] = std.mean(axis=1)
    return found


def area(own: Images, others: Images) -> float:
    """Return the share of pairs in the right order."""
    truth = np.repeat([0, 1], [len(own), len(others)])
    return float(roc_auc_score(truth, np.concatenate([own, others])))


def _tensor(X: Images) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))


if __name__ == "__main__":
    main()
