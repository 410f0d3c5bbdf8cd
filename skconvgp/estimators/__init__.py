"""Estimators: the only floor that knows scikit-learn."""

from skconvgp.estimators._classification import ConvNetGPClassifier
from skconvgp.estimators._ensemble import KernelEnsembleClassifier
from skconvgp.estimators._fit_plan import FitPlan, OtherPlan, PlannedStage
from skconvgp.estimators._flow_classification import KernelFlowsClassifier
from skconvgp.estimators._flow_regression import KernelFlowsRegressor
from skconvgp.estimators._image_classification import ImageClassifier
from skconvgp.estimators._image_part import ImagePart
from skconvgp.estimators._image_regression import ImageRegressor
from skconvgp.estimators._kernel_features import KernelFeatures
from skconvgp.estimators._nystrom_classification import NystromCompletedGP
from skconvgp.estimators._nystrom_regression import NystromCompletedGPRegressor
from skconvgp.estimators._patch_classification import PatchGPClassifier
from skconvgp.estimators._patch_regression import PatchGPRegressor
from skconvgp.estimators._regression import ConvNetGPRegressor
from skconvgp.estimators._report import FitReport, show_versions
from skconvgp.estimators._selection import SelectionReport, selection_report
from skconvgp.estimators._trusted import SKOPS_TRUSTED_TYPES
from skconvgp.estimators._warp import KernelFlowsWarp
from skconvgp.estimators.functions._from_sklearn import from_sklearn_kernel
from skconvgp.estimators.functions._gradients import gram_gradient, gram_vjp
from skconvgp.estimators.functions._gram import gram_diag, gram_matrix
from skconvgp.estimators.functions._precision import PrecisionReport, check_precision
from skconvgp.estimators.functions._sklearn_kernel import as_sklearn_kernel
from skconvgp.estimators.networks._encoder import BinaryEncoder
from skconvgp.estimators.networks._network_classification import (
    BayesianNetworkClassifier,
)
from skconvgp.estimators.networks._network_regression import BayesianNetworkRegressor
from skconvgp.estimators.networks._network_report import NetworkReport

__all__ = [
    "SKOPS_TRUSTED_TYPES",
    "BayesianNetworkClassifier",
    "BayesianNetworkRegressor",
    "BinaryEncoder",
    "ConvNetGPClassifier",
    "ConvNetGPRegressor",
    "FitPlan",
    "FitReport",
    "ImageClassifier",
    "ImagePart",
    "ImageRegressor",
    "KernelEnsembleClassifier",
    "KernelFeatures",
    "KernelFlowsClassifier",
    "KernelFlowsRegressor",
    "KernelFlowsWarp",
    "NetworkReport",
    "NystromCompletedGP",
    "NystromCompletedGPRegressor",
    "OtherPlan",
    "PatchGPClassifier",
    "PatchGPRegressor",
    "PlannedStage",
    "PrecisionReport",
    "SelectionReport",
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
