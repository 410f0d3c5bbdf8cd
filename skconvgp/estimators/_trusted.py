"""Names of our types, for loading files of skops."""

from inspect import isabstract

from sklearn.gaussian_process import kernels as theirs

from skconvgp import (
    augmentation,
    completion,
    image_maps,
    inference,
    kernels,
    likelihoods,
    networks,
    processes,
    solvers,
)
from skconvgp._parts import Part
from skconvgp.estimators._classification import ConvNetGPClassifier
from skconvgp.estimators._doors import Training
from skconvgp.estimators._ensemble import KernelEnsembleClassifier
from skconvgp.estimators._flow_classification import KernelFlowsClassifier
from skconvgp.estimators._flow_regression import KernelFlowsRegressor
from skconvgp.estimators._image_classification import ImageClassifier
from skconvgp.estimators._image_regression import ImageRegressor
from skconvgp.estimators._intervals import LeftOutErrors
from skconvgp.estimators._kernel_features import KernelFeatures
from skconvgp.estimators._nystrom_classification import NystromCompletedGP
from skconvgp.estimators._nystrom_regression import NystromCompletedGPRegressor
from skconvgp.estimators._patch_classification import PatchGPClassifier
from skconvgp.estimators._patch_regression import PatchGPRegressor
from skconvgp.estimators._regression import ConvNetGPRegressor
from skconvgp.estimators._report import FitReport
from skconvgp.estimators._shown import ShownSamples
from skconvgp.estimators._views import TransformedView
from skconvgp.estimators._warp import KernelFlowsWarp
from skconvgp.estimators.functions._from_sklearn import SklearnKernel
from skconvgp.estimators.networks._encoder import BinaryEncoder
from skconvgp.estimators.networks._encoder_head import CodeHead
from skconvgp.estimators.networks._network_classification import (
    BayesianNetworkClassifier,
)
from skconvgp.estimators.networks._network_regression import BayesianNetworkRegressor
from skconvgp.estimators.networks._network_report import NetworkReport
from skconvgp.flows import (
    LBFGS,
    Adam,
    BayesianOptimization,
    FlowResult,
    GradientDescent,
    Rho,
    VariationalBound,
)
from skconvgp.flows._field import WarpStep
from skconvgp.kernels._feature_maps import FEATURE_MAPS
from skconvgp.linalg import (
    BoundedInverse,
    DenseGram,
    FactorInPlace,
    LowRankPlusDiagonal,
    SingleGram,
)

# Classes that a fitted process consists of.
KEPT = [
    "CodedLabels",
    "CoefficientPosterior",
    "CoefficientState",
    "ExpansionBasis",
    "FeatureRows",
    "FoldedBasis",
    "FoldedKernel",
    "FoldedPatches",
    "FoldedTerm",
    "Growth",
    "HeldLeftOut",
    "HeldRows",
    "ImageRows",
    "InducingSet",
    "InducingSum",
    "KeptLeftOut",
    "KernelPart",
    "KernelBasis",
    "LabelState",
    "Labelled",
    "LabelledLeftOut",
    "Labels",
    "Leaving",
    "LinearMean",
    "LinearTrend",
    "LocalLabels",
    "MatrixBasis",
    "MeansAlone",
    "MirroredPart",
    "Model",
    "NeighborProcess",
    "NothingLeftOut",
    "PartsBasis",
    "PatchImages",
    "PatchLeftOut",
    "PatchPart",
    "PatchBasis",
    "Process",
    "Reservoir",
    "Solved",
    "SolvedLeftOut",
    "SummedBasis",
    "TrendedLeftOut",
]

_CLASSES = [getattr(kernels, name) for name in kernels.__all__]
_COMPLETIONS = (getattr(completion, name) for name in completion.__all__)
_CLASSES += [cls for cls in _COMPLETIONS if issubclass(cls, Part) and cls is not Part]
_LIKELIHOODS = (getattr(likelihoods, name) for name in likelihoods.__all__)
_NOT_KEPT = (Part, likelihoods.ExpectedSites, likelihoods.Targets)
_CLASSES += [cls for cls in _LIKELIHOODS if cls not in _NOT_KEPT]
_CLASSES += [getattr(processes, name) for name in KEPT]
_CLASSES += [SklearnKernel]
_CLASSES += [*FEATURE_MAPS, KernelFeatures, processes.LandmarkFeatures]
_CLASSES += [augmentation.Flip, augmentation.Shift]
_CLASSES += [
    Training,
    ShownSamples,
    LeftOutErrors,
    inference.LabelCode,
    inference.LabelState,
    inference.Sites,
]
_CLASSES += [inference.OneLatentState, inference.SoftmaxState]
_CLASSES += [NystromCompletedGP, NystromCompletedGPRegressor]
_CLASSES += [inference.FeatureSums, inference.FlatTrend]
_CLASSES += [solvers.Cholesky]
_CLASSES += [solvers.CholeskyState, solvers.Lsqr]
_CLASSES += [solvers.ConjugateGradient, solvers.ConjugateGradientState]
_CLASSES += [solvers.RefinedCholesky, solvers.RefinedCholeskyState]
_CLASSES += [BoundedInverse, DenseGram, FactorInPlace, LowRankPlusDiagonal, SingleGram]
_CLASSES += [ConvNetGPClassifier, ConvNetGPRegressor, FitReport]
_CLASSES += [PatchGPClassifier, PatchGPRegressor]
_CLASSES += [ImageClassifier, ImageRegressor, TransformedView]
_CLASSES += [KernelFlowsClassifier, KernelFlowsRegressor, FlowResult, Rho]
_CLASSES += [Adam, BayesianOptimization, GradientDescent, LBFGS, VariationalBound]
_CLASSES += [KernelEnsembleClassifier, KernelFlowsWarp, WarpStep]
_CLASSES += [BayesianNetworkClassifier, BayesianNetworkRegressor, NetworkReport]
_CLASSES += [networks.LayeredNetwork, BinaryEncoder, CodeHead]
_CLASSES += [networks.KernelCodes, networks.NamedEncoder, networks.SignedCodes]
_CLASSES += [getattr(image_maps, name) for name in image_maps.__all__]

# These stand above the estimators, which do not import them.
_TRANSFORMERS = [
    "skconvgp.transforms._channels.ChannelScaler",
    "skconvgp.transforms._channels.ChannelWhitening",
    "skconvgp.transforms._files.PictureReader",
    "skconvgp.transforms._reading.ReadImages",
    "skconvgp.transforms._scattering.ScatteringTransform",
    "skconvgp.transforms._whole.ContrastNormalization",
    "skconvgp.transforms._whole.Downsample",
    "skconvgp.transforms._whole.ZCAWhitening",
]

# Kernels of scikit-learn hold numbers and each other. Its regressors are in the list of
# skops, but for trees and neighbours, whose memory a forged file could corrupt.
_CLASSES += [
    cls
    for cls in vars(theirs).values()
    if isinstance(cls, type) and issubclass(cls, theirs.Kernel) and not isabstract(cls)
]

# Pass it as `trusted=` to skops.io.load: the types of this package that a fitted
# estimator holds, and the kernels of scikit-learn. A third-party part has to be trusted
# by its own name.
SKOPS_TRUSTED_TYPES = sorted(
    [f"{cls.__module__}.{cls.__qualname__}" for cls in _CLASSES] + _TRANSFORMERS
)
