"""Types of settings, for those who check their programs with mypy or another tool.

Values are checked when a model is fitted, by `_checks`: a type cannot say that a number
is positive. Words are those that the checks know.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skconvgp._protocols import (
    Augmentation,
    Completion,
    Expansion,
    Likelihood,
    LinkLikelihood,
    Localization,
    Optimizer,
    Solver,
    VariationalLikelihood,
)
from skconvgp.completion import CoarseKernel, SubsetOfData
from skconvgp.flows import VariationalBound
from skconvgp.kernels import Kernel

__all__ = [
    "Amplitude",
    "AnyKernel",
    "AnyLikelihood",
    "AnyNumber",
    "Augment",
    "BackendName",
    "BatchSizes",
    "Budget",
    "CacheFolder",
    "ClassWeight",
    "Count",
    "CountOrAuto",
    "Dtype",
    "Flips",
    "KernelOrMatrix",
    "LabelLikelihood",
    "Mean",
    "NoiseVariance",
    "NystromVariance",
    "OptimizerOrWord",
    "PartWeights",
    "Parts",
    "PatchOptimizer",
    "PatchVariance",
    "RateOrAuto",
    "SampleNoise",
    "ShapeOfImages",
    "SolveDtype",
    "SolverOrWord",
    "Strategy",
]

AnyNumber: TypeAlias = float | np.floating[Any] | np.integer[Any]
Count: TypeAlias = int | np.integer[Any]
CountOrAuto: TypeAlias = Literal["auto"] | Count
RateOrAuto: TypeAlias = Literal["auto"] | AnyNumber
BatchSizes: TypeAlias = CountOrAuto | Sequence[int]

# What a process is.
AnyKernel: TypeAlias = Kernel | None
KernelOrMatrix: TypeAlias = Kernel | Literal["precomputed"] | None
NoiseVariance: TypeAlias = Literal["auto", "loo", "evidence"] | AnyNumber
SampleNoise: TypeAlias = NoiseVariance | Sequence[float] | NDArray[Any]
# Any regressor of scikit-learn.
Mean: TypeAlias = Literal["linear"] | Any | None
Amplitude: TypeAlias = Literal["profile"] | AnyNumber | None
LabelLikelihood: TypeAlias = (
    Literal["gaussian", "dirichlet", "beta", "laplace"] | Likelihood | LinkLikelihood
)
AnyLikelihood: TypeAlias = (
    LabelLikelihood
    | Literal["softmax", "robustmax", "bernoulli"]
    | VariationalLikelihood
)
ClassWeight: TypeAlias = Literal["balanced"] | Mapping[Any, float] | None
NystromVariance: TypeAlias = Literal["dtc", "sor", "fitc"]
PatchVariance: TypeAlias = Literal["auto", "dtc", "sor"]

# What images are, and what is seen of them.
ShapeOfImages: TypeAlias = Literal["auto"] | Sequence[int] | None
Augment: TypeAlias = Augmentation | list[Augmentation] | tuple[Augmentation, ...] | None
Flips: TypeAlias = Literal["auto"] | bool | np.bool_
Parts: TypeAlias = Literal["auto", "patches"] | list[Any] | tuple[Any, ...]
PartWeights: TypeAlias = (
    Literal["auto"] | Mapping[Any, float] | Sequence[float] | NDArray[Any]
)

# How it is computed.
BackendName: TypeAlias = Literal["auto", "torch", "fused"]
Dtype: TypeAlias = Literal["auto", "float32", "float64"]
SolveDtype: TypeAlias = Literal["float32", "float64"]
Budget: TypeAlias = AnyNumber | str | None
CacheFolder: TypeAlias = str | PathLike[str] | None
OptimizerOrWord: TypeAlias = Literal["evidence", "loo"] | Optimizer | None
PatchOptimizer: TypeAlias = (
    Literal["evidence", "loo", "elbo"] | Optimizer | VariationalBound | None
)
SolverOrWord: TypeAlias = Literal["auto", "cholesky", "cg", "lsqr"] | Solver[Any]
Strategy: TypeAlias = (
    Completion | Expansion | SubsetOfData | CoarseKernel | Localization | None
)
