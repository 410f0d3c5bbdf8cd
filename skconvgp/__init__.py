"""Gaussian processes on images: infinite networks as scikit-learn estimators."""

from importlib.metadata import version

from skconvgp.estimators import (
    SKOPS_TRUSTED_TYPES,
    BayesianNetworkClassifier,
    BayesianNetworkRegressor,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    ImageRegressor,
    KernelEnsembleClassifier,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
    KernelFlowsWarp,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    as_sklearn_kernel,
    check_precision,
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
    "ConvNetGPClassifier",
    "ConvNetGPRegressor",
    "ImageClassifier",
    "ImageRegressor",
    "KernelEnsembleClassifier",
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
    "gram_diag",
    "gram_gradient",
    "gram_matrix",
    "gram_vjp",
    "selection_report",
    "show_versions",
]
