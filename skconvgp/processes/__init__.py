"""Fitted processes: frozen values, and the functions that fit them."""

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
from skconvgp.processes._linear_trend import LinearTrend
from skconvgp.processes._model import Model
from skconvgp.processes._plan import (
    EXACT,
    GRAM_COPIES,
    ITERATIVE,
    SUBSET,
    Fitted,
    FittedProcess,
    Parts,
    Plan,
    Route,
    in_precision,
    iterative_route,
    missing_memory,
    placement_of_fit,
    prepare_fit,
)
from skconvgp.processes._planner import Planner
from skconvgp.processes._problem import (
    Latent,
    Problem,
    Record,
    Settings,
    entries,
    knows_class,
)
from skconvgp.processes._process import (
    CodedLabels,
    Growth,
    KeptLeftOut,
    Labels,
    LeftOutValues,
    Process,
    RepeatedTargets,
)
from skconvgp.processes._run import (
    COVARIANCES,
    FEATURES,
    FLOPS,
    IMAGES,
    MILLISECONDS,
    NOISE,
    PAIRS,
    SOLVING,
    VARIANCES,
    Resources,
    Run,
    Stage,
)
from skconvgp.processes.basis._basis import Basis, NewRows
from skconvgp.processes.basis._chosen_patches import (
    INDUCING,
    flops_of_choice,
    values_of_choice,
)
from skconvgp.processes.basis._completed import complete
from skconvgp.processes.basis._expansion import ExpansionBasis, expand, expanded
from skconvgp.processes.basis._feature_room import require_features
from skconvgp.processes.basis._folded import (
    NOT_KEPT,
    FoldedBasis,
    FoldedKernel,
    FoldedPatches,
    FoldedTerm,
)
from skconvgp.processes.basis._inducing import (
    Inducing,
    InducingSet,
    place_locations,
)
from skconvgp.processes.basis._inducing_sum import (
    InducingSum,
    Term,
    TermChoice,
    choose_inducing,
    terms_of,
)
from skconvgp.processes.basis._landmark_features import LandmarkFeatures
from skconvgp.processes.basis._parts import KernelPart, MirroredPart
from skconvgp.processes.basis._parts_basis import PartsBasis
from skconvgp.processes.basis._patch_basis import PatchBasis
from skconvgp.processes.basis._patch_part import PatchPart
from skconvgp.processes.basis._places import has_places, place_maps
from skconvgp.processes.basis._plain import (
    KernelBasis,
    MatrixBasis,
    PlainBasis,
)
from skconvgp.processes.basis._summed import GramBasis, SummedBasis
from skconvgp.processes.basis._views import FitView, View
from skconvgp.processes.fits._coded_choice import require_columns, require_two_levels
from skconvgp.processes.fits._exact import scaled_gram
from skconvgp.processes.fits._feature_rows import FeatureRows, Reservoir
from skconvgp.processes.fits._growing import can_grow, extend_process
from skconvgp.processes.fits._held_rows import HeldLeftOut, HeldRows
from skconvgp.processes.fits._label_models import LabelModel, LinkModel, NoisyModel
from skconvgp.processes.fits._landmark_plan import plan_landmarks
from skconvgp.processes.fits._observations import Observations
from skconvgp.processes.fits._part_choice import PartChoice
from skconvgp.processes.fits._parts_fit import HELD, PartsFit, judged_images
from skconvgp.processes.fits._parts_landmarks import LandmarkFit
from skconvgp.processes.fits._patch_noise import LEAST_NOISE
from skconvgp.processes.fits._patches import plan_patches
from skconvgp.processes.fits._requirements import (
    require_added_noise,
    require_common_noise,
)
from skconvgp.processes.fits._trended_fit import with_linear_trend
from skconvgp.processes.fits._variational_fit import (
    LearnedPosterior,
    Steps,
    Variational,
    start_posterior,
)
from skconvgp.processes.posterior._alike import (
    AlikeSamples,
    alike_samples,
    why_not_alike,
)
from skconvgp.processes.posterior._coefficients import (
    CoefficientPosterior,
    CoefficientState,
)
from skconvgp.processes.posterior._label_pool import LabelledLeftOut
from skconvgp.processes.posterior._labelled import Labelled, LabelState
from skconvgp.processes.posterior._left_out_images import (
    ImageRows,
    PatchImages,
    PatchLeftOut,
)
from skconvgp.processes.posterior._means_alone import (
    MeansAlone,
    NothingLeftOut,
    fold,
    for_prediction,
)
from skconvgp.processes.posterior._neighbor_labels import LocalLabels
from skconvgp.processes.posterior._neighbors import (
    NeighborProcess,
    left_out_neighborhoods,
)
from skconvgp.processes.posterior._one_more import Question, Scored
from skconvgp.processes.posterior._pool import Choice
from skconvgp.processes.posterior._posterior import Draws
from skconvgp.processes.posterior._representers import (
    is_expansion,
    representer_samples,
    representer_values,
)
from skconvgp.processes.posterior._shared import Leaving
from skconvgp.processes.posterior._solved import Solved, SolvedLeftOut
from skconvgp.processes.posterior._trended import LinearMean, TrendedLeftOut

__all__ = [
    "COVARIANCES",
    "EXACT",
    "FEATURES",
    "FLOPS",
    "GRAM_COPIES",
    "HELD",
    "IMAGES",
    "INDUCING",
    "ITERATIVE",
    "LEAST_NOISE",
    "MILLISECONDS",
    "NOISE",
    "NOT_KEPT",
    "PAIRS",
    "SOLVING",
    "SUBSET",
    "VARIANCES",
    "AlikeSamples",
    "Basis",
    "BoundMoving",
    "Choice",
    "Clipped",
    "CodedLabels",
    "CoefficientPosterior",
    "CoefficientState",
    "Draws",
    "Exceeded",
    "ExpansionBasis",
    "Fact",
    "FeatureRows",
    "FitView",
    "Fitted",
    "FittedProcess",
    "FoldedBasis",
    "FoldedKernel",
    "FoldedPatches",
    "FoldedTerm",
    "GramBasis",
    "Growth",
    "HeldLeftOut",
    "HeldRows",
    "ImageRows",
    "Inducing",
    "InducingSet",
    "InducingSum",
    "Inexact",
    "Jittered",
    "KeptLeftOut",
    "KernelBasis",
    "KernelPart",
    "LabelModel",
    "LabelState",
    "Labelled",
    "LabelledLeftOut",
    "Labels",
    "LandmarkFeatures",
    "LandmarkFit",
    "Latent",
    "LearnedPosterior",
    "Leaving",
    "LeftOutValues",
    "LinearMean",
    "LinearTrend",
    "LinkModel",
    "LocalLabels",
    "MatrixBasis",
    "MeansAlone",
    "MirroredPart",
    "Model",
    "NeighborProcess",
    "NewRows",
    "NewtonStopped",
    "NoisyModel",
    "NothingLeftOut",
    "Observations",
    "PartChoice",
    "Parts",
    "PartsBasis",
    "PartsFit",
    "PatchBasis",
    "PatchImages",
    "PatchLeftOut",
    "PatchPart",
    "PlainBasis",
    "Plan",
    "Planner",
    "Problem",
    "Process",
    "Question",
    "Record",
    "RepeatedTargets",
    "Reservoir",
    "Resources",
    "Route",
    "Run",
    "Scored",
    "Settings",
    "Solved",
    "SolvedLeftOut",
    "Stage",
    "Steps",
    "SummedBasis",
    "Term",
    "TermChoice",
    "TooFewPatches",
    "TrendedLeftOut",
    "Undrawn",
    "Unexplained",
    "Unfinished",
    "Unsolved",
    "Variational",
    "View",
    "alike_samples",
    "can_grow",
    "choose_inducing",
    "complete",
    "entries",
    "expand",
    "expanded",
    "extend_process",
    "flops_of_choice",
    "fold",
    "for_prediction",
    "has_places",
    "in_precision",
    "is_expansion",
    "iterative_route",
    "judged_images",
    "knows_class",
    "left_out_neighborhoods",
    "missing_memory",
    "place_locations",
    "place_maps",
    "placement_of_fit",
    "plan_landmarks",
    "plan_patches",
    "prepare_fit",
    "representer_samples",
    "representer_values",
    "require_added_noise",
    "require_columns",
    "require_common_noise",
    "require_features",
    "require_two_levels",
    "scaled_gram",
    "start_posterior",
    "terms_of",
    "values_of_choice",
    "why_not_alike",
    "with_linear_trend",
]
