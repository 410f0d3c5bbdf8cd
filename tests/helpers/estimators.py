"""Small data, and the dense formulas that the estimators must agree with."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import softmax

from skconvgp.datasets import load_digits_images
from skconvgp.kernels import convnet


def tiny_network():
    return convnet(depth=1, kernel_size=3)


# The data set is a compressed text, which takes longer to read than most fits.
read_digits = cache(load_digits_images)


def all_digits():
    """Return all digits as float32 images (1797, 1, 8, 8), and their labels."""
    images, labels = read_digits(return_X_y=True)
    return images.copy(), labels.copy()


def digits(n, start=0):
    """Return n digits as float64 images (n, 1, 8, 8), and their labels."""
    images, labels = read_digits(return_X_y=True)
    part = slice(start, start + n)
    return images[part].astype(np.float64), labels[part].copy()


def wave(n, seed=0):
    """Return sorted points (n, 1) and a noisy sine (n,) with an offset."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0.0, 6.0, n))[:, None]
    return X, 3.0 + np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


def blobs(n, n_classes=3, seed=0):
    """Return overlapping clouds of points (n, 2) and their labels (n,)."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    angles = 2.0 * np.pi * labels / n_classes
    centres = 1.5 * np.column_stack([np.cos(angles), np.sin(angles)])
    return centres + rng.normal(size=(n, 2)), labels


def label_targets(labels):
    """Return 1 for the class of a sample, else -1 / (number of classes - 1)."""
    classes = np.unique(labels)
    is_own = np.asarray(labels)[:, None] == classes
    return np.where(is_own, 1.0, -1.0 / (len(classes) - 1))


def label_probabilities(gp, mean, var, rows=None):
    """Return the probabilities of latents (n, k) as a fitted classifier has them."""
    found = gp.calibration_
    offsets = np.array(found.offsets) if found.offsets else 0.0
    scaled = (mean + offsets) / np.sqrt(found.temperature**2 + found.spread * var)
    scaled = scaled - scaled.mean(1, keepdims=True)
    if found.bend:
        scaled = np.arcsinh(found.bend * scaled) / found.bend
    kept = (1.0 - found.floor) * share_kept(found.familiarity, mean, var, rows)[:, None]
    return kept * softmax(scaled, axis=1) + (1.0 - kept) / mean.shape[1]


def share_kept(familiarity, mean, var, rows=None):
    """Return the shares (n,) of probabilities that samples of a usual prior keep."""
    if familiarity is None:
        return np.ones(len(mean))
    centred = mean - mean.mean(1, keepdims=True)
    centres = np.array(familiarity.centres)
    centres = centres - centres.mean(1, keepdims=True)
    between = np.linalg.norm(centred[:, None] - centres, axis=2).min(1)
    values = {
        "distance": between,
        "norm": np.linalg.norm(centred, axis=1),
        "variance": np.broadcast_to(var, (len(mean), np.shape(var)[1])).mean(1),
    }
    if rows is not None:
        contrast = np.std(rows, axis=1)
        values |= {"contrast": contrast, "1 / contrast": 1.0 / contrast}
    above = np.zeros(len(mean))
    for name, each in values.items():
        span = familiarity.spans[name]
        rarity = np.maximum(np.log(each) - span.decile, 0.0) / span.scale
        if span.shape > 0.0:
            rarity = np.log1p(span.shape * rarity) / span.shape
        above += np.maximum(rarity - span.limit, 0.0) / 2.0
    return np.exp(-np.minimum(above**2 / (1.0 + above), 7.0))


@dataclass
class DensePosterior:
    """Posterior by the textbook formulas: numpy, no tiles, no factor."""

    gram: np.ndarray  # K(X, X), as the kernel gives it
    targets: np.ndarray  # (n, k)
    noise: float  # relative to the mean prior variance
    weights: np.ndarray | None = None
    amplitude: float | None = None  # None profiles it out
    mean_diag: float | None = None  # mean prior variance; None for that of `gram`

    def __post_init__(self):
        n = len(self.gram)
        self.weights = np.ones(n) if self.weights is None else self.weights
        if self.mean_diag is None:
            self.mean_diag = np.average(np.diag(self.gram), weights=self.weights)
        noise = self.noise * np.diag(1.0 / self.weights)
        self.inverse = np.linalg.inv(self.gram / self.mean_diag + noise)
        if self.amplitude is None:
            quadratic = np.sum(self.targets * (self.inverse @ self.targets))
            total = self.weights.sum() * self.targets.shape[1]
            self.amplitude = quadratic / total

    @property
    def covariance(self):
        """The covariance of the targets themselves (n, n)."""
        return self.amplitude * np.linalg.inv(self.inverse)

    def mean(self, cross):
        return cross / self.mean_diag @ self.inverse @ self.targets

    def cov(self, cross, prior):
        scaled = cross / self.mean_diag
        reduction = scaled @ self.inverse @ scaled.T
        return self.amplitude * (prior / self.mean_diag - reduction)
