"""Fitted processes: frozen values, and the functions that fit them."""

from skconvgp.processes._basis import Basis, NewRows
from skconvgp.processes._coded_choice import require_columns, require_two_levels
from skconvgp.processes._coefficients import CoefficientPosterior, CoefficientState
from skconvgp.processes._completed import complete
from skconvgp.processes._exact import scaled_gram
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
from skconvgp.processes._feature_room import require_features
from skconvgp.processes._feature_rows import FeatureRows, Reservoir
from skconvgp.processes._growing import can_grow, extend_process
from skconvgp.processes._held_rows import HeldRows
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
from skconvgp.processes._labelled import Labelled, LabelState
from skconvgp.processes._landmark_features import LandmarkFeatures
from skconvgp.processes._landmark_plan import plan_landmarks
from skconvgp.processes._left_out_images import ImageRows, PatchImages, PatchLeftOut
from skconvgp.processes._neighbors import NeighborProcess, left_out_neighborhoods
from skconvgp.processes._parts import KernelPart, MirroredPart, PatchPart
from skconvgp.processes._parts_fit import JUDGED, PartChoice, PartsFit
from skconvgp.processes._parts_prior import PartsPrior
from skconvgp.processes._patch_noise import LEAST_NOISE
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._patches import plan_patches
from skconvgp.processes._plan import (
    GRAM_COPIES,
    Fitted,
    FittedProcess,
    Plan,
    Route,
    iterative_route,
    missing_memory,
    placement_of_fit,
    prepare_fit,
)
from skconvgp.processes._planner import Parts, Planner
from skconvgp.processes._posterior import Draws
from skconvgp.processes._prior import (
    KernelPrior,
    MatrixPrior,
    PlainPrior,
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
from skconvgp.processes._process import (
    CodedLabels,
    Growth,
    KeptLeftOut,
    Labels,
    LeftOutValues,
    Process,
)
from skconvgp.processes._requirements import (
    require_added_noise,
    require_common_noise,
)
from skconvgp.processes._run import Resources, Run
from skconvgp.processes._shared import Leaving
from skconvgp.processes._solved import Solved, SolvedLeftOut
from skconvgp.processes._summed import Prior, SummedPrior
from skconvgp.processes._variational_fit import Steps, Variational
from skconvgp.processes._views import FitView, View

__all__ = [
    "GRAM_COPIES",
    "INDUCING",
    "JUDGED",
    "LEAST_NOISE",
    "Basis",
    "BoundMoving",
    "Clipped",
    "CodedLabels",
    "CoefficientPosterior",
    "CoefficientState",
    "Draws",
    "Exceeded",
    "ExpansionPrior",
    "Fact",
    "FeatureRows",
    "FitView",
    "Fitted",
    "FittedProcess",
    "Growth",
    "HeldRows",
    "ImageRows",
    "Inducing",
    "InducingSet",
    "InducingSum",
    "Inexact",
    "Jittered",
    "KeptLeftOut",
    "KernelPart",
    "KernelPrior",
    "LabelModel",
    "LabelState",
    "Labelled",
    "Labels",
    "LandmarkFeatures",
    "Latent",
    "Leaving",
    "LeftOutValues",
    "LinkModel",
    "MatrixPrior",
    "MirroredPart",
    "Model",
    "NeighborProcess",
    "NewRows",
    "NewtonStopped",
    "NoisyModel",
    "PartChoice",
    "Parts",
    "PartsFit",
    "PartsPrior",
    "PatchImages",
    "PatchLeftOut",
    "PatchPart",
    "PatchPrior",
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
    "Solved",
    "SolvedLeftOut",
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
    "View",
    "can_grow",
    "choose_inducing",
    "complete",
    "entries",
    "expand",
    "expanded",
    "extend_process",
    "iterative_route",
    "knows_class",
    "left_out_neighborhoods",
    "missing_memory",
    "place_locations",
    "placement_of_fit",
    "plan_landmarks",
    "plan_patches",
    "prepare_fit",
    "require_added_noise",
    "require_columns",
    "require_common_noise",
    "require_features",
    "require_two_levels",
    "scaled_gram",
    "terms_of",
]
