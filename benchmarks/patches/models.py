"""What is compared: our estimators, and what a user would try first."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from torch import nn

from benchmarks.models import of_pixels, of_standardized
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
PHOTOGRAPHS_AND_DIGITS = ("mnist", "cifar10")
EPOCHS, BATCH, RATE = 20, 64, 1e-3
SUBSET, SHARE_OF_WHOLE = 5000, 0.01
FEW = 500  # images from which inducing patches are learned
PRIOR_COUNT = 1e-6  # docs/adr/likelihoods.md
WEIGHTS = RESULTS / "patch_weights.json"


class Model(NamedTuple):
    """A model that is made for each row.

    Parameters
    ----------
    make : callable
        Returns a classifier.
    most : int
        Training images that it can take in some minutes.
    data : tuple of str
        Data sets that it is measured on.
    """

    make: Callable[[], Any]
    most: int
    data: tuple[str, ...] = tuple(SIZES)


@dataclass
class SmallCNN:
    """Two convolutions, two poolings, two dense layers; Adam, 20 epochs."""

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> "SmallCNN":
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

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probabilities (n, k) of labels."""
        self.net.eval()
        with torch.no_grad():
            parts = [
                self.net(part).double().softmax(1)
                for part in torch.as_tensor(X).split(500)
            ]
        probabilities: NDArray[Any] = torch.cat(parts).numpy()
        return probabilities


def _svc() -> Any:
    return of_pixels(SVC(C=10.0))


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
class OfLearnedWeights:
    """Weights learned with few patches on a part of the images; fitted to all.

    Parameters
    ----------
    n_inducing : int
        Inducing patches, and inducing images of the kernel of whole images.
    with_whole : bool, default=False
        Whether a kernel of whole images is added. The weights are then those that were
        learned without it, from a file that its row writes.
    """

    n_inducing: int
    with_whole: bool = False

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> "OfLearnedWeights":
        """Learn weights, or read them; fit to all images."""
        if self.with_whole:
            kernel = PatchKernel(
                weights=json.loads(WEIGHTS.read_text()), location_lengthscale=None
            )
            kernel += SHARE_OF_WHOLE * rbf()
        else:
            kernel = _weighted(128).fit(X[:SUBSET], y[:SUBSET]).kernel_
            WEIGHTS.write_text(json.dumps(kernel.weights.round(5).tolist()) + "\n")
        self.model = _of_kernel(kernel, self.n_inducing).fit(X, y)
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probabilities (n, k) of labels."""
        probabilities: NDArray[Any] = self.model.predict_proba(X)
        return probabilities


@dataclass
class OfLearnedLengthscale:
    """A lengthscale learned with few patches on a part of the images; labels modelled.

    Parameters
    ----------
    n_inducing : int
        Inducing patches.
    """

    n_inducing: int

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> "OfLearnedLengthscale":
        """Learn the lengthscale by leave-one-out; fit to all images by a softmax."""
        small = _invariant(128).set_params(optimizer="loo")
        kernel = small.fit(X[:SUBSET], y[:SUBSET]).kernel_
        model = _of_kernel(kernel, self.n_inducing)
        self.model = model.set_params(likelihood="softmax", max_iter=20).fit(X, y)
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probabilities (n, k) of labels."""
        probabilities: NDArray[Any] = self.model.predict_proba(X)
        return probabilities


@dataclass
class OfLearnedPatches:
    """Inducing patches learned on a few of the images, and fitted to all.

    Parameters
    ----------
    n_inducing : int
        Inducing patches.
    likelihood : str, default="gaussian"
        Likelihood of the fit to all images.
    """

    n_inducing: int
    likelihood: str = "gaussian"

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> "OfLearnedPatches":
        """Learn the patches and the lengthscale by leave-one-out; fit to all images."""
        small = _invariant(self.n_inducing)
        small.set_params(inducing="learned", optimizer="loo").fit(X[:FEW], y[:FEW])
        self.model = PatchGPClassifier(
            small.kernel_,
            inducing=small.inducing_patches_,
            likelihood=self.likelihood,
            random_state=0,
        ).fit(X, y)
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probabilities (n, k) of labels."""
        probabilities: NDArray[Any] = self.model.predict_proba(X)
        return probabilities


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


MODELS = {
    "patches": Model(lambda: PatchGPClassifier(random_state=0), 60_000),
    "patches, n_inducing=256": Model(
        lambda: _of_kernel(None, 256), 20_000, ("cifar10",)
    ),
    "patches, channels, 85": Model(
        lambda: _of_color("channels", 85), 20_000, ("cifar10",)
    ),
    "patches, additive, 85": Model(
        lambda: _of_color("additive", 85), 20_000, ("cifar10",)
    ),
    "patches, stacked, 256": Model(
        lambda: _of_color("stacked", 256), 20_000, ("cifar10",)
    ),
    "patches, 5x5 + 9x9": Model(
        lambda: _sizes(5, 9, n_inducing=192), 60_000, ("mnist",)
    ),
    "patches, 5x5 + 9x9, counts": Model(
        lambda: _counts(_sizes(5, 9, n_inducing=192)), 60_000, ("mnist",)
    ),
    "patches, counts": Model(
        lambda: _counts(PatchGPClassifier(random_state=0)),
        60_000,
        PHOTOGRAPHS_AND_DIGITS,
    ),
    "patches, 5x5 + 9x9, 256": Model(
        lambda: _sizes(5, 9, n_inducing=256), 60_000, ("mnist",)
    ),
    "patches, 5x5 + 7x7 + 9x9, 160": Model(
        lambda: _sizes(5, 7, 9, n_inducing=160), 60_000, ("mnist",)
    ),
    "patches, invariant, 750": Model(lambda: _invariant(750), 60_000, ("mnist",)),
    "patches, invariant, 750, learned lengthscale, softmax": Model(
        lambda: OfLearnedLengthscale(750), 60_000, ("mnist",)
    ),
    "patches, invariant, 256": Model(lambda: _invariant(256), 5000, ("mnist",)),
    "patches, weighted, 256": Model(lambda: _weighted(256), 5000, ("mnist",)),
    "patches, invariant, 256, softmax": Model(
        lambda: _invariant(256).set_params(likelihood="softmax"), 5000, ("mnist",)
    ),
    "patches, invariant, 256, robustmax": Model(
        lambda: _invariant(256).set_params(likelihood="robustmax"), 5000, ("mnist",)
    ),
    "patches, invariant, 64": Model(lambda: _invariant(64), 5000, ("mnist",)),
    "patches, invariant, 64, softmax": Model(
        lambda: _invariant(64).set_params(likelihood="softmax"), 5000, ("mnist",)
    ),
    "patches, invariant, 64, learned": Model(
        lambda: OfLearnedPatches(64), 5000, ("mnist",)
    ),
    "patches, invariant, 64, learned, softmax": Model(
        lambda: OfLearnedPatches(64, "softmax"), 5000, ("mnist",)
    ),
    "patches, 3x3 places": Model(lambda: _places("gaussian"), 5000, ("mnist",)),
    "patches, 3x3 places, softmax": Model(lambda: _places("softmax"), 5000, ("mnist",)),
    "patches, 3x3 places, robustmax": Model(
        lambda: _places("robustmax"), 5000, ("mnist",)
    ),
    "patches, rbf of whole images, 750": Model(
        lambda: _invariant(750, patch_size=28), 60_000, ("mnist",)
    ),
    "patches, weighted, 750, learned with 128": Model(
        lambda: OfLearnedWeights(750), 60_000, ("mnist",)
    ),
    "patches, weighted + rbf, 750, weights of that row": Model(
        lambda: OfLearnedWeights(750, with_whole=True), 60_000, ("mnist",)
    ),
    "patches, invariant, 50": Model(lambda: _invariant(50), 60_000, ("mnist 0-1",)),
    "patches 3x3, invariant, 16": Model(
        lambda: _invariant(16, patch_size=3), 5000, ("rectangles",)
    ),
    "patches 3x3, weighted, all different": Model(
        lambda: _weighted(inducing="unique", patch_size=3), 5000, ("rectangles",)
    ),
    "patches 3x3, invariant, all different": Model(
        _all_different, 5000, ("rectangles",)
    ),
    "exact convnet": Model(ConvNetGPClassifier, 5000, PHOTOGRAPHS_AND_DIGITS),
    "nystrom convnet": Model(
        lambda: NystromCompletedGP(random_state=0), 60_000, PHOTOGRAPHS_AND_DIGITS
    ),
    "svc": Model(_svc, 60_000),
    "logistic regression": Model(
        lambda: of_standardized(LogisticRegression(max_iter=200)), 60_000
    ),
    "small cnn": Model(SmallCNN, 60_000),
}
