"""One small model for every cell of bases x labels, by public classes alone.

A basis is what new samples are compared with. `.ci/same_results.py` compares what two
checkouts compute for each cell, and tests try laws that hold for all of them.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

import skconvgp as sk
from skconvgp import augmentation, completion, flows, kernels, likelihoods, solvers
from skconvgp.datasets import load_digits_images
from skconvgp.transforms import Downsample

CLASSES = {"gaussian": 4, "offsets": 4, "dirichlet": 4, "softmax": 4, "robustmax": 4}
CLASSES |= {"beta": 2, "logistic": 2, "bernoulli": 2}
OUTPUTS = {"one target": 1, "two targets": 2}
LIKELIHOODS = {
    "gaussian": likelihoods.Gaussian(),
    "offsets": likelihoods.Gaussian(offsets=True),
    "dirichlet": likelihoods.Dirichlet(),
    "beta": likelihoods.Beta(),
}
LINKS = {
    "softmax": likelihoods.Laplace("softmax"),
    "logistic": likelihoods.Laplace("logit"),
}
BOUNDS = {
    "softmax": likelihoods.Softmax(),
    "robustmax": likelihoods.RobustMax(),
    "bernoulli": likelihoods.Bernoulli(),
}


@dataclass(frozen=True)
class Cell:
    """An estimator that is not fitted, and its kind of labels or targets.

    Parameters
    ----------
    basis, labels : str
        Names; those of labels are keys of `CLASSES` and `OUTPUTS`.
    estimator : estimator
        With all settings but the seed.
    is_matrix : bool
        Whether samples are given by their covariances.
    can_grow : bool
        Whether further samples can be added.
    """

    basis: str
    labels: str
    estimator: BaseEstimator = field(repr=False)
    is_matrix: bool = False

    @property
    def name(self) -> str:
        """Text that tells the cell from others."""
        return f"{self.basis}, {self.labels}"

    @property
    def can_grow(self) -> bool:
        """Whether further samples can be added."""
        return hasattr(self.estimator, "partial_fit")

    @property
    def has_classes(self) -> bool:
        """Whether labels are those of classes."""
        return self.labels in CLASSES

    def new(self, **settings: Any) -> BaseEstimator:
        """Return a copy that is not fitted."""
        copy = clone(self.estimator).set_params(**settings)
        if "random_state" in copy.get_params(deep=False):
            copy.set_params(random_state=0)
        return copy

    def data(self, n: int, n_new: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return n samples, their labels or targets, and new samples."""
        images, digits = load_digits_images(return_X_y=True)
        X, new = images[:n].astype(np.float64), images[-n_new:].astype(np.float64)
        if self.is_matrix:
            X, new = _covariances(X, X), _covariances(new, X)
        return X, self._labels(images[:n], digits[:n]), new

    def batches(self, n: int, *cuts: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return n samples and labels in batches, as `partial_fit` takes them."""
        X, y, _ = self.data(n, 1)
        if self.is_matrix:  # covariances with the samples of the first batch
            X = X[:, : cuts[0]]
        return list(zip(np.split(X, cuts), np.split(y, cuts), strict=True))

    def grow(self, fitted: BaseEstimator, X: np.ndarray, y: np.ndarray) -> None:
        """Add samples to an estimator, which may be its first ones."""
        classes = [range(CLASSES[self.labels])] if self.has_classes else []
        fitted.partial_fit(X, y, *classes)

    def diag(self, n_new: int) -> dict[str, np.ndarray]:
        """Return what variances of new samples need besides."""
        return {"diag": np.ones(n_new)} if self.is_matrix else {}

    def _labels(self, images: np.ndarray, digits: np.ndarray) -> np.ndarray:
        if self.has_classes:
            return digits % CLASSES[self.labels]
        light = images.mean((1, 2, 3))
        both = np.column_stack([np.sin(digits) + light, 3.0 + np.cos(digits)])
        return both[:, 0] if OUTPUTS[self.labels] == 1 else both


def _covariances(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Return covariances of images: 1 for each with itself."""
    one, two = one.reshape(len(one), -1), two.reshape(len(two), -1)
    squares = (one**2).sum(1)[:, None] + (two**2).sum(1) - 2.0 * one @ two.T
    return np.exp(-0.5 * squares / 2.0**2)


NETWORK = kernels.convnet(depth=1, kernel_size=3)
RBF = kernels.rbf(2.0)
PATCHES = kernels.PatchKernel(kernels.rbf(1.0), patch_size=3)
PLACED = kernels.PatchKernel(kernels.rbf(1.0), patch_size=3, location_lengthscale=2.0)
REGRESSIONS = dict.fromkeys(OUTPUTS)
ONE_OF_EACH = {"gaussian": LIKELIHOODS["gaussian"], "one target": None}


def _cells(basis, pair, labels, kernel, is_matrix=False, **settings):
    """Return the cells of a basis, by the classes for labels and for targets."""
    cells = []
    for word, likelihood in labels.items():
        cls, own = pair[word in OUTPUTS], dict(settings)
        if likelihood is not None:
            own["likelihood"] = likelihood
        cells.append(Cell(basis, word, cls(kernel, **own), is_matrix))
    return cells


def _all_cells():
    gp = sk.ConvNetGPClassifier, sk.ConvNetGPRegressor
    landmarks = sk.NystromCompletedGP, sk.NystromCompletedGPRegressor
    patches = sk.PatchGPClassifier, sk.PatchGPRegressor
    parts = sk.ImageClassifier, sk.ImageRegressor
    flowing = sk.KernelFlowsClassifier, sk.KernelFlowsRegressor
    nystrom, coarse = completion.Nystrom(n_landmarks=20), completion.CoarseKernel
    both = coarse(exact=completion.Nystrom(n_landmarks=20))
    every = LIKELIHOODS | LINKS | REGRESSIONS
    noisy = LIKELIHOODS | REGRESSIONS
    some = {word: every[word] for word in ("gaussian", "dirichlet", "softmax")}
    some |= {"one target": None}
    counted = {word: every[word] for word in ("gaussian", "dirichlet", "one target")}
    few = {"n_inducing": 8, "n_locations": 2}
    loose = solvers.ConjugateGradient(rank=10)
    cells = [
        *_cells("kernel", gp, every, NETWORK),
        *_cells("rows", gp, ONE_OF_EACH, RBF, image_shape=None),
        *_cells("matrix", gp, some, "precomputed", is_matrix=True),
        *_cells("coarse", gp, ONE_OF_EACH, NETWORK, completion=coarse()),
        *_cells("sum", gp, some, NETWORK, completion=both),
        *_cells(
            "expansion",
            gp,
            noisy | {"softmax": LINKS["softmax"]},
            RBF,
            completion=completion.RandomFeatures(40),
        ),
        *_cells("nystrom", gp, some, RBF, completion=nystrom),
        *_cells(
            "nystrom of a matrix",
            gp,
            ONE_OF_EACH,
            "precomputed",
            is_matrix=True,
            completion=nystrom,
        ),
        *_cells("augmented", gp, ONE_OF_EACH, NETWORK, augment=augmentation.Flip()),
        *_cells("flips", gp, ONE_OF_EACH, kernels.FlipAverage(RBF)),
        *_cells("gradients", gp, ONE_OF_EACH, RBF, solver=loose, noise_variance=1e-2),
        *_cells(
            "gradients without a matrix",
            gp,
            ONE_OF_EACH,
            RBF,
            solver=loose,
            noise_variance=0.1,
            memory_budget="40 KiB",
        ),
        *_cells("lsqr", gp, {"one target": None}, RBF, solver=solvers.Lsqr()),
        *_cells("landmarks", landmarks, noisy, RBF, n_landmarks=20),
        *_cells(
            "landmarks of a matrix",
            landmarks,
            counted,
            "precomputed",
            is_matrix=True,
            n_landmarks=20,
        ),
        *_cells("patches", patches, noisy, PLACED, **few),
        *_cells(
            "patches, sor", patches, counted, PATCHES, n_inducing=8, variance="sor"
        ),
        *_cells("variational", patches, BOUNDS, PATCHES, n_inducing=8, max_iter=5),
        *_cells(
            "sums of patches",
            patches,
            counted,
            0.5 * PLACED + 0.5 * kernels.rbf(2.0),
            **few,
        ),
        *_cells(
            "parts",
            parts,
            {"gaussian": every["gaussian"], **REGRESSIONS},
            [NETWORK, PATCHES, (Downsample(2), RBF)],
        ),
        *_cells(
            "mirrored parts",
            parts,
            ONE_OF_EACH,
            [NETWORK, PATCHES],
            part_weights=[0.5, 0.5],
            flips=True,
        ),
        *_cells(
            "landmarks of parts",
            parts,
            {"gaussian": every["gaussian"], **REGRESSIONS},
            [NETWORK, PATCHES, (Downsample(2), RBF)],
            n_landmarks=15,
            flips=False,
        ),
        *_cells(
            "landmarks of mirrored parts",
            parts,
            ONE_OF_EACH,
            [NETWORK, PATCHES],
            part_weights=[0.5, 0.5],
            n_landmarks=15,
            flips=True,
        ),
        *_cells("patches alone", parts, ONE_OF_EACH, "patches", flips=True),
        *_cells("by evidence", gp, ONE_OF_EACH, RBF, optimizer="evidence"),
        *_cells("by loo", gp, ONE_OF_EACH, RBF, optimizer="loo"),
        *_cells(
            "links by evidence",
            gp,
            {"logistic": LINKS["logistic"]},
            RBF,
            optimizer=flows.LBFGS(max_iter=3),
        ),
        *_cells(
            "flows",
            flowing,
            ONE_OF_EACH,
            RBF,
            optimizer=flows.Adam(max_iter=5),
            batch_size=20,
        ),
        *_cells(
            "patches by loo", patches, ONE_OF_EACH, PATCHES, optimizer="loo", **few
        ),
    ]
    for variance in ("sor", "fitc"):
        name = f"landmarks, {variance}"
        cells += _cells(
            name, landmarks, ONE_OF_EACH, RBF, n_landmarks=20, variance=variance
        )
    for part in (
        completion.EnsembleNystrom(n_members=2),
        completion.SubsetOfData(),
        completion.IterativeSVD(8, max_iter=5),
        completion.SoftImpute(max_iter=5),
        completion.MatrixFactorization(8, max_iter=5),
        completion.NearestNeighbors(8),
        completion.NearestNeighbors(8, metric="euclidean"),
    ):
        name = " ".join(repr(part).split())
        cells += _cells(name, gp, ONE_OF_EACH, RBF, completion=part)
    return cells


CELLS = _all_cells()
