"""The seams between floors, and the values that cross them."""

from skconvgp._protocols._flows import (
    Batch,
    Found,
    Landscape,
    Objective,
    Optimizer,
    Score,
    Step,
)
from skconvgp._protocols._inference import (
    Calibration,
    IterativeSolver,
    Likelihood,
    LinkLikelihood,
    Solution,
    Solver,
    Targets,
)
from skconvgp._protocols._matrices import (
    Coarsening,
    CompletedGram,
    Completion,
    GramOperator,
    GramOracle,
    Localization,
    Selection,
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
    "Batch",
    "Calibration",
    "Coarsening",
    "CompletedGram",
    "Completion",
    "Found",
    "GramOperator",
    "GramOracle",
    "IterativeSolver",
    "Landscape",
    "Likelihood",
    "LinkLikelihood",
    "Localization",
    "Objective",
    "Optimizer",
    "PullbackBackend",
    "Pulled",
    "Score",
    "Selection",
    "Solution",
    "Solver",
    "Step",
    "Targets",
    "TileBackend",
    "TileCosts",
    "TileRunner",
    "run_serially",
]
