"""Protocols between the layers of the package, and the values that they exchange."""

from skconvgp._protocols._flows import (
    Batch,
    Landscape,
    Objective,
    Optimizer,
    OptimizerResult,
    Score,
    Step,
)
from skconvgp._protocols._images import Augmentation
from skconvgp._protocols._inference import (
    Calibration,
    ExpectedSites,
    IterativeSolver,
    Likelihood,
    LinkLikelihood,
    SiteFunction,
    Sites,
    Solution,
    Solver,
    Targets,
    VariationalLikelihood,
)
from skconvgp._protocols._matrices import (
    CompletedGram,
    Completion,
    GramOperator,
    GramOracle,
    Localization,
)
from skconvgp._protocols._tiles import (
    PullbackBackend,
    Pulled,
    TileBackend,
    TileCosts,
    TileRunner,
    run_serially,
)

__all__ = [
    "Augmentation",
    "Batch",
    "Calibration",
    "CompletedGram",
    "Completion",
    "ExpectedSites",
    "GramOperator",
    "GramOracle",
    "IterativeSolver",
    "Landscape",
    "Likelihood",
    "LinkLikelihood",
    "Localization",
    "Objective",
    "Optimizer",
    "OptimizerResult",
    "PullbackBackend",
    "Pulled",
    "Score",
    "SiteFunction",
    "Sites",
    "Solution",
    "Solver",
    "Step",
    "Targets",
    "TileBackend",
    "TileCosts",
    "TileRunner",
    "VariationalLikelihood",
    "run_serially",
]
