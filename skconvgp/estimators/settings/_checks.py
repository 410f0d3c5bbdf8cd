"""Settings as they were given, and the checks of their values.

A check returns what a value stands for, or raises an `UnfitError`.
"""

import copy
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, NoReturn, Self, TypeGuard, TypeVar

import numpy as np
import torch
from sklearn.gaussian_process.kernels import Kernel as TheirKernel

from skconvgp._protocols import (
    Completion,
    Expansion,
    Likelihood,
    LinkLikelihood,
    Localization,
    Solver,
    VariationalLikelihood,
)
from skconvgp._settings import as_float, is_int, shown
from skconvgp.completion import CoarseKernel, SubsetOfData
from skconvgp.engine import Placement, choose_placement, free_memory, gpu_memory
from skconvgp.kernels import Kernel
from skconvgp.likelihoods import (
    Bernoulli,
    Beta,
    Dirichlet,
    Gaussian,
    Laplace,
    RobustMax,
    Softmax,
)
from skconvgp.solvers import Cholesky, ConjugateGradient, Lsqr

Value = TypeVar("Value")

PRECOMPUTED = "precomputed"
KERNELS = "None or a kernel of skconvgp.kernels"  # that are expected
MOST_STEPS = 10**9  # that end at no criterion: nobody waits for more
MOST_BATCHES = 10**6  # for comparing kernels; all are drawn first
DIRECT_SOLVERS = ("auto", "cholesky")
AUTO = "auto"
BALANCED = "balanced"
NOISE_WORDS = (AUTO, "loo", "evidence")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
LIKELIHOODS: dict[str, Callable[[], Likelihood | LinkLikelihood]] = {
    "gaussian": Gaussian,
    "dirichlet": Dirichlet,
    "beta": Beta,
    "laplace": Laplace,
}
VARIATIONAL_LIKELIHOODS: dict[str, Callable[[], VariationalLikelihood]] = {
    "softmax": Softmax,
    "robustmax": RobustMax,
    "bernoulli": Bernoulli,
}
UNITS = {"": 1, "B": 1}
UNITS |= {f"{u}IB": 2 ** (10 * i) for i, u in enumerate("KMGT", 1)}
UNITS |= {f"{u}B": 10 ** (3 * i) for i, u in enumerate("KMGT", 1)}
BUDGET_SHARE = 2  # half of the free memory
# Values of settings that some classes and functions do not have.
USUAL: dict[str, Any] = {
    "kernel": None,
    "backend": AUTO,
    "dtype": AUTO,
    "solve_dtype": "float64",
    "memory_budget": None,
    "n_jobs": None,
    "cache_dir": None,
    "verbose": 0,
    "class_weight": None,
}


class UnfitError(Exception):
    """A value that a setting may not have, with the expected ones.

    By default the latter is the value.
    """


@dataclass(frozen=True)
class Given:
    """Settings as they were given to a class or a function."""

    owner: str  # name of the class or the function, for messages
    values: Mapping[str, Any]

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Return the settings that an estimator has now."""
        return cls(type(estimator).__name__, USUAL | vars(estimator))

    @classmethod
    def to(cls, function: str, **values: object) -> Self:
        """Return the settings of a call of a function."""
        return cls(function, USUAL | values)

    def but(self, **others: object) -> Self:
        """Return the settings with others in their place."""
        return replace(self, values={**self.values, **others})

    def __getitem__(self, name: str) -> Any:
        """Return a setting as it was given."""
        return self.values[name]

    def read(self, name: str, check: Callable[..., Value], **options: Any) -> Value:
        """Return the value that a check makes of a setting; raise if it is unfit.

        The options are those of the check.
        """
        value = self.values[name]
        try:
            return check(value, **options)
        except UnfitError as unfit:
            expected, got = unfit.args if len(unfit.args) > 1 else (*unfit.args, value)
            raise ValueError(self._sentence(name, expected, got)) from None

    def reject(self, name: str, expected: str, *got: object) -> NoReturn:
        """Raise an error about a wrong setting, or about what it stands for."""
        (value,) = got or (self[name],)
        raise ValueError(self._sentence(name, expected, value))

    def _sentence(self, name: str, expected: str, got: object) -> str:
        """Return scikit-learn's sentence about a wrong parameter."""
        return (
            f"The {name!r} parameter of {self.owner} must be {expected}. Got "
            f"{shown(got)} instead."
        )


def is_precomputed(kernel: object) -> bool:
    """Return whether X is a Gram matrix."""
    return isinstance(kernel, str) and kernel == PRECOMPUTED


def is_kernel(given: object) -> TypeGuard[Kernel]:
    """Return whether a kernel object was given, and not a matrix or anything else."""
    return isinstance(given, Kernel)


def is_auto(given: object) -> bool:
    """Return whether a setting is the word "auto"."""
    return isinstance(given, str) and given == AUTO


def is_direct(solver: object) -> bool:
    """Return whether a setting stands for a direct solver."""
    if isinstance(solver, str):
        return solver in DIRECT_SOLVERS
    return type(solver) is Cholesky


def word_of(words: Iterable[str]) -> Callable[[object], str]:
    """Return the check of a string option."""

    def check(value: object) -> str:
        *others, last = words
        if isinstance(value, str) and value in (*others, last):
            return value
        raise UnfitError(f"{', '.join(map(repr, others))} or {last!r}")

    return check


def as_kernel(
    kernel: object, expected: str = KERNELS, usual: Kernel | None = None
) -> Kernel:
    """Return a kernel object; None stands for the usual one, if there is one."""
    if kernel is None and usual is not None:
        return usual
    if is_kernel(kernel):
        return kernel
    raise UnfitError(expected + way_to_kernel(kernel))


def way_to_kernel(given: object) -> str:
    """Return how a kernel of scikit-learn becomes one of this package."""
    if isinstance(given, TheirKernel):
        return " (`from_sklearn_kernel` makes one of a kernel of scikit-learn)"
    return ""


def as_placement(device: object, needed: int = 0) -> Placement:
    """Return the device, which need not exist; "auto" asks for `needed` bytes."""
    if not isinstance(device, str):
        raise UnfitError("a str such as 'auto', 'cpu' or 'cuda:1'")
    if device == AUTO:
        return choose_placement(needed, gpu_memory())
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise UnfitError("'auto', 'cpu', 'cuda' or 'cuda:<number>'")
    return Placement(torch.device(device))


def as_dtype(dtype: object, device: torch.device, backend: str) -> torch.dtype:
    """Return the precision of tiles; "auto": float64 by torch on the CPU, else float32.

    On the CPU the last bit of torch's float32 depends on the position in a tile.
    """
    if is_auto(dtype):
        is_coarse = backend == "fused" or device.type != "cpu"
        return torch.float32 if is_coarse else torch.float64
    return DTYPES[word_of((AUTO, *DTYPES))(dtype)]


def as_budget(
    budget: object, device: torch.device, reserved: int, n_workers: int
) -> int:
    """Return a budget in bytes; None is half of the free memory after `reserved`.

    Several workers on "cuda" have a GPU each: the GPU with the least free memory
    counts.
    """
    if budget is None:
        free = [free_memory(device) - reserved]
        if device.type == "cuda" and n_workers > 1:
            free += [free_memory(torch.device("cuda", i)) for i in range(n_workers)]
        return max(0, min(free)) // BUDGET_SHARE
    n_bytes = _bytes_of(budget) if isinstance(budget, str) else as_float(budget)
    is_whole = isinstance(budget, str) or n_bytes.is_integer()
    if 1.0 <= n_bytes < math.inf and is_whole:
        return int(n_bytes)
    raise UnfitError("None, a positive number of bytes or a str such as '2 GiB'")


def as_jobs(n_jobs: object) -> int | None:
    """Return the number of jobs, counted as joblib does."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) and n_jobs != 0:
        return int(n_jobs)
    raise UnfitError("None or an int other than 0")


def as_folder(cache_dir: object) -> Path | None:
    """Return the folder of all caches, and make it; None if no tiles are kept."""
    if cache_dir is None:
        return None
    name = os.fspath(cache_dir) if isinstance(cache_dir, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise UnfitError("None or the path of a folder")
    try:
        folder = Path(name).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            "`cache_dir` must be a folder, or the path of one that can be made, got "
            f"{cache_dir!r}: {error}."
        ) from error
    return folder


def as_verbose(verbose: object) -> int:
    """Return how much progress is shown."""
    if isinstance(verbose, Integral | np.bool_) and int(verbose) >= 0:
        return int(verbose)
    raise UnfitError("an int >= 0")


def as_flag(value: object) -> bool:
    """Return a boolean setting."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise UnfitError("True or False")


def as_solver(solver: object) -> Solver[Any]:
    """Return a copy of the solver: "auto" is the direct one."""
    match solver:
        case "auto" | "cholesky":
            return Cholesky()
        case "cg":
            return ConjugateGradient()
        case "lsqr":
            return Lsqr()
        case Solver() if not isinstance(solver, type):
            return copy.deepcopy(solver)
        case _:
            raise UnfitError("'auto', 'cholesky', 'cg', 'lsqr' or a solver object")


def as_completion(
    completion: object,
) -> Completion | Expansion | SubsetOfData | CoarseKernel | Localization | None:
    """Return the strategy that completes or replaces the Gram matrix, or None."""
    if completion is None:
        return None
    strategies = Completion | Expansion | SubsetOfData | CoarseKernel | Localization
    if not isinstance(completion, type) and isinstance(completion, strategies):
        return completion
    raise UnfitError("None or a strategy of skconvgp.completion")


def as_fraction(fraction: object) -> float:
    """Return the share of distinct entries that may be evaluated."""
    number = as_float(fraction)
    if 0.0 < number <= 1.0:
        return number
    raise UnfitError("a number > 0 and <= 1")


def as_likelihood(
    likelihood: object,
) -> Likelihood | LinkLikelihood | VariationalLikelihood:
    """Return a copy of the likelihood object."""
    every = LIKELIHOODS | VARIATIONAL_LIKELIHOODS
    if isinstance(likelihood, str) and likelihood in every:
        return every[likelihood]()
    if not isinstance(likelihood, type) and isinstance(
        likelihood, Likelihood | LinkLikelihood | VariationalLikelihood
    ):
        return copy.deepcopy(likelihood)
    words = ", ".join(repr(word) for word in every)
    raise UnfitError(f"{words} or a likelihood object")


def as_class_weight(class_weight: object) -> str | Mapping[Any, float] | None:
    """Return the weights of classes: by label, "balanced", or None for none."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == BALANCED:
        return class_weight
    if not isinstance(class_weight, Mapping) or not class_weight:
        raise UnfitError("None, 'balanced' or a dict of a weight for each label")
    weights = {label: as_float(weight) for label, weight in class_weight.items()}
    if all(0.0 <= weight < math.inf for weight in weights.values()):
        return weights
    raise UnfitError("a dict whose values are finite numbers >= 0")


def as_count(
    value: object, also: str = "", least: int = 1, most: float = math.inf
) -> int:
    """Return a count within bounds; `also` names what else is allowed in an error."""
    if isinstance(value, Integral) and is_int(value, least):
        if int(value) <= most:
            return int(value)
        raise UnfitError(f"{also}an int from {least} to {most}")
    raise UnfitError(f"{also}an int >= {least}")


def as_positive(
    value: object, *, allows_zero: bool = False, most: float | None = None
) -> float:
    """Return a number > 0, or >= 0, and not above the largest allowed."""
    number = as_float(value)
    is_within = number < math.inf if most is None else number <= most
    if is_within and (number > 0.0 or (allows_zero and number == 0.0)):
        return number
    sign, bound = ">=" if allows_zero else ">", ""
    if most is not None:
        bound = f" and <= {most:g}"
    raise UnfitError(f"a finite number {sign} 0{bound}")


def as_rate(rate: object) -> float | None:
    """Return a rate of learning; None for "auto"."""
    if is_auto(rate):
        return None
    number = as_float(rate)
    if 0.0 < number <= 1.0:
        return number
    raise UnfitError("'auto' or a number > 0 and <= 1")


def as_noise(noise: object) -> float | str:
    """Return the relative noise variance, or the string option that chooses it."""
    if isinstance(noise, str) and noise in NOISE_WORDS:
        return noise
    number = as_float(noise)
    if 0.0 <= number < math.inf:
        return number
    *most, last = map(repr, NOISE_WORDS)
    raise UnfitError(f"a finite number >= 0, {', '.join(most)} or {last}")


def as_amplitude(amplitude: object) -> float | str | None:
    """Return the amplitude, "profile" or None."""
    if amplitude is None or (isinstance(amplitude, str) and amplitude == "profile"):
        return amplitude
    number = as_float(amplitude)
    if 0.0 < number < math.inf:
        return number
    raise UnfitError("'profile', a finite number > 0 or None")


def _bytes_of(text: str) -> float:
    """Return the bytes of a text such as "2 GiB", or NaN for any other text."""
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in UNITS:
        return math.nan
    return float(match[1]) * UNITS[match[2].upper()]
