"""Fitted processes: frozen values, and the functions that fit them."""

from skconvgp.processes._coded_labels import CodedLabelProcess
from skconvgp.processes._coefficients import CoefficientState
from skconvgp.processes._completed import complete
from skconvgp.processes._exact import ExactProcess
from skconvgp.processes._expansion import ExpansionPrior, expand, expanded
from skconvgp.processes._facts import (
    BoundMoving,
    Clipped,
    Exceeded,
    Fact,
    Inexact,
    Jittered,
    NewtonStopped,
    TooFewPatches,
    Undrawn,
    Unexplained,
    Unfinished,
    Unsolved,
)
from skconvgp.processes._feature_label_fit import require_columns
from skconvgp.processes._feature_labels import FeatureLabelProcess
from skconvgp.processes._feature_room import require_features
from skconvgp.processes._feature_samples import (
    FeatureSamples,
    FeatureSites,
    Reservoir,
)
from skconvgp.processes._features import FeatureProcess, FeatureState
from skconvgp.processes._fits import Fitted, Parts, Process
from skconvgp.processes._fitting import scaled_gram
from skconvgp.processes._growing import can_grow, extend_features
from skconvgp.processes._inducing import (
    INDUCING,
    Inducing,
    InducingSet,
    place_locations,
)
from skconvgp.processes._inducing_sum import (
    InducingSum,
    Term,
    TermChoice,
    choose_inducing,
    terms_of,
)
from skconvgp.processes._label_models import LabelModel, LinkModel, NoisyModel
from skconvgp.processes._labels import LabelProcess, LabelState
from skconvgp.processes._landmark_features import LandmarkFeatures
from skconvgp.processes._landmark_plan import plan_landmarks
from skconvgp.processes._neighbors import NeighborProcess, left_out_neighborhoods
from skconvgp.processes._parts import KernelPart, MirroredPart, PatchPart
from skconvgp.processes._parts_fit import JUDGED, PartChoice, PartsPlan
from skconvgp.processes._parts_prior import PartsPrior
from skconvgp.processes._patch_growing import extend_patches
from skconvgp.processes._patch_images import PatchImages, PatchReservoir
from skconvgp.processes._patch_labels import PatchLabelProcess
from skconvgp.processes._patch_noise import LEAST_NOISE
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._patches import PatchPlan, plan_patches
from skconvgp.processes._pathwise import (
    bootstrap_draws,
    has_whole_draws,
    pathwise_draws,
)
from skconvgp.processes._plan import (
    Plan,
    Planner,
    placement_of_fit,
    prepare_fit,
)
from skconvgp.processes._prior import (
    AnyPrior,
    KernelPrior,
    MatrixPrior,
    PlainPrior,
    Prior,
    SummedPrior,
)
from skconvgp.processes._problem import (
    Latent,
    Model,
    Problem,
    Record,
    Settings,
    entries,
    knows_class,
)
from skconvgp.processes._requirements import (
    require_added_noise,
    require_common_noise,
)
from skconvgp.processes._routes import (
    GRAM_COPIES,
    Route,
    iterative_route,
    missing_memory,
)
from skconvgp.processes._run import Resources, Run
from skconvgp.processes._variational import VariationalProcess
from skconvgp.processes._variational_fit import Steps, Variational
from skconvgp.processes._views import FitView, View

__all__ = [
    "GRAM_COPIES",
    "INDUCING",
    "JUDGED",
    "LEAST_NOISE",
    "AnyPrior",
    "BoundMoving",
    "Clipped",
    "CodedLabelProcess",
    "CoefficientState",
    "ExactProcess",
    "Exceeded",
    "ExpansionPrior",
    "Fact",
    "FeatureLabelProcess",
    "FeatureProcess",
    "FeatureSamples",
    "FeatureSites",
    "FeatureState",
    "FitView",
    "Fitted",
    "Inducing",
    "InducingSet",
    "InducingSum",
    "Inexact",
    "Jittered",
    "KernelPart",
    "KernelPrior",
    "LabelModel",
    "LabelProcess",
    "LabelState",
    "LandmarkFeatures",
    "Latent",
    "LinkModel",
    "MatrixPrior",
    "MirroredPart",
    "Model",
    "NeighborProcess",
    "NewtonStopped",
    "NoisyModel",
    "PartChoice",
    "Parts",
    "PartsPlan",
    "PartsPrior",
    "PatchImages",
    "PatchLabelProcess",
    "PatchPart",
    "PatchPlan",
    "PatchPrior",
    "PatchReservoir",
    "PlainPrior",
    "Plan",
    "Planner",
    "Prior",
    "Problem",
    "Process",
    "Record",
    "Reservoir",
    "Resources",
    "Route",
    "Run",
    "Settings",
    "Steps",
    "SummedPrior",
    "Term",
    "TermChoice",
    "TooFewPatches",
    "Undrawn",
    "Unexplained",
    "Unfinished",
    "Unsolved",
    "Variational",
    "VariationalProcess",
    "View",
    "bootstrap_draws",
    "can_grow",
    "choose_inducing",
    "complete",
    "entries",
    "expand",
    "expanded",
    "extend_features",
    "extend_patches",
    "has_whole_draws",
    "iterative_route",
    "knows_class",
    "left_out_neighborhoods",
    "missing_memory",
    "pathwise_draws",
    "place_locations",
    "placement_of_fit",
    "plan_landmarks",
    "plan_patches",
    "prepare_fit",
    "require_added_noise",
    "require_columns",
    "require_common_noise",
    "require_features",
    "scaled_gram",
    "terms_of",
]
