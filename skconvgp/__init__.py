"""Gaussian processes on images: infinite networks as scikit-learn estimators."""

from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from skconvgp.estimators import (
    SKOPS_TRUSTED_TYPES,
    BayesianNetworkClassifier,
    BayesianNetworkRegressor,
    BinaryEncoder,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    ImagePart,
    ImageRegressor,
    KernelEnsembleClassifier,
    KernelFeatures,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
    KernelFlowsWarp,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    as_sklearn_kernel,
    check_precision,
    from_sklearn_kernel,
    gram_diag,
    gram_gradient,
    gram_matrix,
    gram_vjp,
    selection_report,
    show_versions,
)

__version__ = version("skconvgp")

__all__ = [
    "SKOPS_TRUSTED_TYPES",
    "BayesianNetworkClassifier",
    "BayesianNetworkRegressor",
    "BinaryEncoder",
    "ConvNetGPClassifier",
    "ConvNetGPRegressor",
    "ImageClassifier",
    "ImagePart",
    "ImageRegressor",
    "KernelEnsembleClassifier",
    "KernelFeatures",
    "KernelFlowsClassifier",
    "KernelFlowsRegressor",
    "KernelFlowsWarp",
    "NystromCompletedGP",
    "NystromCompletedGPRegressor",
    "PatchGPClassifier",
    "PatchGPRegressor",
    "__version__",
    "as_sklearn_kernel",
    "check_precision",
    "from_sklearn_kernel",
    "gram_diag",
    "gram_gradient",
    "gram_matrix",
    "gram_vjp",
    "selection_report",
    "show_versions",
]

# What no estimator needs is imported when it is asked for.
LATER = ("datasets", "display", "questions", "transforms")


def __getattr__(name: str) -> ModuleType:
    """Return a public module that is not imported yet."""
    if name in LATER:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names of the package, also of modules that are not imported yet."""
    return sorted({*globals(), *LATER})
