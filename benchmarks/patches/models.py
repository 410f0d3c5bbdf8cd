"""What is compared: our estimators, and what a user would try first."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from torch import nn

from benchmarks.data import Array
from benchmarks.models import of_pixels, of_standardized, softmax_of
from benchmarks.report import RESULTS
from skconvgp import ConvNetGPClassifier, NystromCompletedGP, PatchGPClassifier
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.likelihoods import Dirichlet

SIZES = {
    "mnist": [1000, 5000, 20_000, 60_000],
    "cifar10": [1000, 5000, 20_000],
    "rectangles": [1200],
    "mnist 0-1": [12_665],
}
EPOCHS, BATCH, RATE = 20, 64, 1e-3
SUBSET, SHARE_OF_WHOLE = 5000, 0.01
FEW = 500  # images from which inducing patches are learned
PRIOR_COUNT = 1e-6  # docs/adr/likelihoods.md
WEIGHTS = RESULTS / "patch_weights.json"


class Model(NamedTuple):
    """A model that is made for each row."""

    make: Callable[[], Any]
    most: int  # training images that it can take in some minutes
    data: tuple[str, ...]  # sets that it is measured on


@dataclass
class SmallCNN:
    """Two convolutions, two poolings, two dense layers; Adam, 20 epochs."""

    def fit(self, X: Array, y: Array) -> "SmallCNN":
        """Train on images (n, c, h, w) with labels from 0 on."""
        torch.manual_seed(0)
        images, labels = torch.as_tensor(X), torch.as_tensor(y).long()
        side = (X.shape[2] // 2 - 2) // 2
        self.net = nn.Sequential(
            nn.Conv2d(X.shape[1], 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(64 * side**2, 128),
            nn.ReLU(),
            nn.Linear(128, int(y.max()) + 1),
        )
        optimizer = torch.optim.Adam(self.net.parameters(), RATE)
        self.net.train()
        for _ in range(EPOCHS):
            for some in torch.randperm(len(images)).split(BATCH):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self.net(images[some]), labels[some])
                loss.backward()
                optimizer.step()
        return self

    def predict_proba(self, X: Array) -> Array:
        """Return the probabilities (n, k) of labels."""
        return softmax_of(self.net, torch.as_tensor(X))


def _of_kernel(kernel: Any, n_inducing: Any) -> Any:
    return PatchGPClassifier(kernel, n_inducing=n_inducing, random_state=0)


def _invariant(n_inducing: Any, **settings: Any) -> Any:
    """Return patches whose response is the same everywhere."""
    return _of_kernel(PatchKernel(location_lengthscale=None, **settings), n_inducing)


def _weighted(n_inducing: Any = "auto", inducing: Any = "kmeans", **patch: Any) -> Any:
    """Return patches whose weights are learned."""
    return PatchGPClassifier(
        PatchKernel(location_lengthscale=None, weights="learned", **patch),
        n_inducing=n_inducing,
        inducing=inducing,
        random_state=0,
    )


@dataclass
class Staged:
    """A classifier whose settings are learned on a part of the images."""

    learn: Callable[[Array, Array], Any]  # returns what is fitted to all images

    def fit(self, X: Array, y: Array) -> "Staged":
        """Learn, and fit to all images."""
        self.model = self.learn(X, y)
        return self

    def predict_proba(self, X: Array) -> Array:
        """Return the probabilities (n, k) of labels."""
        probabilities: Array = self.model.predict_proba(X)
        return probabilities


def _learned_weights(n_inducing: int) -> Staged:
    """Return weights learned with few patches; a file keeps them for another row."""

    def learn(X: Array, y: Array) -> Any:
        kernel = _weighted(128).fit(X[:SUBSET], y[:SUBSET]).kernel_
        WEIGHTS.write_text(json.dumps(kernel.weights.round(5).tolist()) + "\n")
        return _of_kernel(kernel, n_inducing).fit(X, y)

    return Staged(learn)


def _and_whole(n_inducing: int) -> Staged:
    """Return the kernel with these weights and one of whole images."""

    def learn(X: Array, y: Array) -> Any:
        weights = json.loads(WEIGHTS.read_text())
        kernel = PatchKernel(weights=weights, location_lengthscale=None)
        return _of_kernel(kernel + SHARE_OF_WHOLE * rbf(), n_inducing).fit(X, y)

    return Staged(learn)


def _learned_lengthscale(n_inducing: int) -> Staged:
    """Return a lengthscale learned by leave-one-out, and labels by a softmax."""

    def learn(X: Array, y: Array) -> Any:
        small = _invariant(128).set_params(optimizer="loo")
        kernel = small.fit(X[:SUBSET], y[:SUBSET]).kernel_
        model = _of_kernel(kernel, n_inducing)
        return model.set_params(likelihood="softmax", max_iter=20).fit(X, y)

    return Staged(learn)


def _learned_patches(n_inducing: int, likelihood: str = "gaussian") -> Staged:
    """Return inducing patches and a lengthscale learned by leave-one-out."""

    def learn(X: Array, y: Array) -> Any:
        small = _invariant(n_inducing)
        small.set_params(inducing="learned", optimizer="loo").fit(X[:FEW], y[:FEW])
        model = PatchGPClassifier(
            small.kernel_,
            inducing=small.inducing_patches_,
            likelihood=likelihood,
            random_state=0,
        )
        return model.fit(X, y)

    return Staged(learn)


def _labels(n_inducing: int, likelihood: str) -> Any:
    """Return patches that are invariant, with labels that are modelled."""
    return _invariant(n_inducing).set_params(likelihood=likelihood)


def _places(likelihood: str) -> Any:
    """Return patches at 3x3 places, with labels that are modelled."""
    return PatchGPClassifier(
        n_inducing=128, n_locations=3, likelihood=likelihood, random_state=0
    )


def _sizes(*sizes: int, n_inducing: int) -> Any:
    """Return a sum of patches of several sizes."""
    terms = [PatchKernel(patch_size=s) for s in sizes]
    return _of_kernel(sum(terms[1:], start=terms[0]), n_inducing)


def _counts(classifier: Any) -> Any:
    """Return a classifier whose labels are counts beside a tiny prior count."""
    return classifier.set_params(likelihood=Dirichlet(PRIOR_COUNT))


def _of_color(color: str, n_inducing: int) -> Any:
    """Return patches of single channels; their numbers of features are alike."""
    kernel = PatchKernel(color=color)
    return _of_kernel(kernel, n_inducing)


def _all_different() -> Any:
    kernel = PatchKernel(patch_size=3, location_lengthscale=None)
    return PatchGPClassifier(kernel, inducing="unique", random_state=0)


# Up to how many images of which sets, by the name of a row.
GROUPS: list[tuple[int, tuple[str, ...], dict[str, Callable[[], Any]]]] = [
    (
        60_000,
        tuple(SIZES),
        {
            "patches": lambda: PatchGPClassifier(random_state=0),
            "svc": lambda: of_pixels(SVC(C=10.0)),
            "logistic regression": lambda: of_standardized(
                LogisticRegression(max_iter=200)
            ),
            "small cnn": SmallCNN,
        },
    ),
    (
        60_000,
        ("mnist", "cifar10"),
        {
            "patches, counts": lambda: _counts(PatchGPClassifier(random_state=0)),
            "nystrom convnet": lambda: NystromCompletedGP(random_state=0),
        },
    ),
    (5000, ("mnist", "cifar10"), {"exact convnet": ConvNetGPClassifier}),
    (
        20_000,
        ("cifar10",),
        {
            "patches, n_inducing=256": lambda: _of_kernel(None, 256),
            "patches, channels, 85": lambda: _of_color("channels", 85),
            "patches, additive, 85": lambda: _of_color("additive", 85),
            "patches, stacked, 256": lambda: _of_color("stacked", 256),
        },
    ),
    (
        60_000,
        ("mnist",),
        {
            "patches, 5x5 + 9x9": lambda: _sizes(5, 9, n_inducing=192),
            "patches, 5x5 + 9x9, counts": lambda: _counts(_sizes(5, 9, n_inducing=192)),
            "patches, 5x5 + 9x9, 256": lambda: _sizes(5, 9, n_inducing=256),
            "patches, 5x5 + 7x7 + 9x9, 160": lambda: _sizes(5, 7, 9, n_inducing=160),
            "patches, invariant, 750": lambda: _invariant(750),
            "patches, invariant, 750, learned lengthscale, softmax": lambda: (
                _learned_lengthscale(750)
            ),
            "patches, rbf of whole images, 750": lambda: _invariant(750, patch_size=28),
            "patches, weighted, 750, learned with 128": lambda: _learned_weights(750),
            "patches, weighted + rbf, 750, weights of that row": lambda: _and_whole(
                750
            ),
        },
    ),
    (
        5000,
        ("mnist",),
        {
            "patches, invariant, 256": lambda: _invariant(256),
            "patches, weighted, 256": lambda: _weighted(256),
            "patches, invariant, 256, softmax": lambda: _labels(256, "softmax"),
            "patches, invariant, 256, robustmax": lambda: _labels(256, "robustmax"),
            "patches, invariant, 64": lambda: _invariant(64),
            "patches, invariant, 64, softmax": lambda: _labels(64, "softmax"),
            "patches, invariant, 64, learned": lambda: _learned_patches(64),
            "patches, invariant, 64, learned, softmax": lambda: _learned_patches(
                64, "softmax"
            ),
            "patches, 3x3 places": lambda: _places("gaussian"),
            "patches, 3x3 places, softmax": lambda: _places("softmax"),
            "patches, 3x3 places, robustmax": lambda: _places("robustmax"),
        },
    ),
    (60_000, ("mnist 0-1",), {"patches, invariant, 50": lambda: _invariant(50)}),
    (
        5000,
        ("rectangles",),
        {
            "patches 3x3, invariant, 16": lambda: _invariant(16, patch_size=3),
            "patches 3x3, weighted, all different": lambda: _weighted(
                inducing="unique", patch_size=3
            ),
            "patches 3x3, invariant, all different": _all_different,
        },
    ),
]
MODELS = {
    name: Model(make, most, data)
    for most, data, makers in GROUPS
    for name, make in makers.items()
}
