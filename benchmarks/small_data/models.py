"""What is compared: our estimators, and what a user would try first."""

from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from benchmarks.data import Array
from benchmarks.models import of_pixels, of_standardized, scattering_network
from skconvgp import ConvNetGPClassifier, ImageClassifier, PatchGPClassifier
from skconvgp.kernels import convnet
from skconvgp.transforms import ChannelScaler, ChannelWhitening, ScatteringTransform

FOLDS = 3
OURS, BOOSTING = "ImageClassifier", "gradient boosting"
# Boosting takes hours for larger images.
MOST_NUMBERS = 3072


def scaled_rbf(X: Array, X_fit: Array) -> Array:
    """Return the kernel of `SVC()`, as one product of matrices.

    SVC itself evaluates pairs one by one: with 15 552 coefficients of 5000 images that
    takes many times as long.
    """
    gram: Array = rbf_kernel(X, X_fit, 1.0 / (X_fit.shape[1] * X_fit.var()))
    return gram


def _svc() -> Any:
    """Return a machine whose scores become probabilities by left-out thirds."""
    return CalibratedClassifierCV(
        SVC(C=10.0, kernel=scaled_rbf), method="temperature", cv=FOLDS, ensemble=False
    )


def _logistic() -> Any:
    return LogisticRegressionCV(
        Cs=[0.001, 0.01, 0.1, 1.0],
        cv=FOLDS,
        scoring="neg_log_loss",
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )


def histograms(X: Array) -> Array:
    """Return histograms of gradients, of some 7 x 7 cells of each image."""
    from skimage.feature import hog

    side = max(2, X.shape[2] // 7)
    how = {"pixels_per_cell": (side, side), "cells_per_block": (2, 2)}
    return np.array([hog(x, channel_axis=0, **how) for x in X])


MODELS = {
    "nearest neighbours": lambda: of_pixels(KNeighborsClassifier()),
    "SVC": lambda: of_pixels(_svc()),
    "logistic regression": lambda: of_standardized(_logistic()),
    BOOSTING: lambda: of_pixels(HistGradientBoostingClassifier(random_state=0)),
    "scattering, SVC": lambda: make_pipeline(
        ScatteringTransform(), ChannelScaler(), of_pixels(_svc())
    ),
    "scattering, whitening, SVC": lambda: make_pipeline(
        ScatteringTransform(), ChannelWhitening(), of_pixels(_svc())
    ),
    "network": lambda: ConvNetGPClassifier(convnet()),
    "scattering, network": scattering_network,
    "PatchGPClassifier": lambda: PatchGPClassifier(random_state=0),
    OURS: lambda: ImageClassifier(random_state=0),
}
if find_spec("skimage") is not None:
    MODELS["gradients, SVC"] = lambda: make_pipeline(
        FunctionTransformer(histograms), _svc()
    )
# Trained for so many times the seconds of the fit of ImageClassifier.
TRAINED = {"CNN, same seconds": 1, "CNN, ten times the seconds": 10}
# Those of MODELS and TRAINED that are measured if none are named.
MEASURED = [
    *("SVC", BOOSTING, "scattering, SVC", "gradients, SVC"),
    *("PatchGPClassifier", "scattering, network", OURS, "CNN, ten times the seconds"),
]
