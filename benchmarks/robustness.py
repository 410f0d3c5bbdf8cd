"""What do a process and a trained network say under attack, and away from the data?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python -m benchmarks robustness

Nearly all of the time is for derivatives by the pixels. A process with the covariance
of three convolutional layers and a small network of as many, trained by gradient
descent, learn from the same MNIST images. Then accuracy, entropy and latent variance
when each pixel is moved by at most epsilon to where the cross-entropy rises, in one
step or many; and how well entropy and deviation tell images of another kind from
digits, as areas under the curve.

    python -m benchmarks robustness --quick
    python -m benchmarks robustness --attacks fgsm
"""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import entropy
from sklearn.metrics import roc_auc_score
from torch import nn

from benchmarks.data import images
from benchmarks.measure import Record, number
from benchmarks.report import show
from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import fetch_cifar10
from skconvgp.kernels import three_layer_convnet
from skconvgp.metrics import robustness_curve

PARTS = {"curves": ("model", "attack"), "kinds": ("model", "score")}
USUAL = {"n_train": 1000, "n_test": 100, "n_steps": 40}
QUICK = {"n_train": 200, "n_test": 20, "n_steps": 3}
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


def options(add: Any) -> None:
    add("--attacks", nargs="+", choices=("fgsm", "pgd"), default=["fgsm", "pgd"])
    add("--n-train", type=int, help="training images")
    add("--n-test", type=int, help="test images")
    add("--n-steps", type=int, help="of the attack in many steps")


def run(options: Any, record: Record) -> None:
    digits = images("mnist", options.n_train, options.n_test)
    gp = ConvNetGPClassifier(three_layer_convnet(), noise_variance=NOISE)
    network = TrainedNetwork(10, digits.X.shape[-1])
    models = {PROCESS: gp, NETWORK: network}
    setting = {"n_train": len(digits.y), "n_test": len(digits.y_test)}
    print(f"{setting['n_train']} training images, {setting['n_test']} test images\n")
    show("", EPSILONS, 34, 8)
    for name, model in models.items():
        model.fit(digits.X, digits.y)
        for attack in options.attacks:
            curve = robustness_curve(
                model,
                digits.X_test,
                digits.y_test,
                EPSILONS,
                attack=attack,
                n_steps=options.n_steps,
            )
            row = {"model": name, "attack": attack}
            row |= {key: list(map(number, values)) for key, values in curve.items()}
            record.add("curves", row | setting)
            for key in ("accuracy", "entropy", "variance"):
                show(f"{name}, {attack}, {key}", curve[key], 34, 8)
    kinds = other_kinds(digits.X_test)
    print()
    show("area under the curve", kinds, 28, 12)
    for name, model in models.items():
        for score, own in scores(model, digits.X_test).items():
            areas = {
                kind: area(own, scores(model, others)[score])
                for kind, others in kinds.items()
            }
            row = {"model": name, "score": score, "areas": areas}
            record.add("kinds", row | setting)
            show(f"{name}, {score}", areas.values(), 28, 12)


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
