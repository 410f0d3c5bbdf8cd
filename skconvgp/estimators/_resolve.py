"""From settings to parts: the only place that reads string options."""

import math
import re
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any, NoReturn, TypeGuard

import numpy as np
import torch

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
from skconvgp.backends import BACKENDS
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

PRECOMPUTED = "precomputed"
MOST_STEPS = 10**9  # that end at no criterion: nobody waits for more
MOST_BATCHES = 10**6  # for comparing kernels; all are drawn first
DIRECT_SOLVERS = ("auto", "cholesky")
AUTO = "auto"
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


def reject(owner: object, name: str, expected: str, got: object) -> NoReturn:
    """Raise an error with scikit-learn's sentence about a wrong parameter."""
    title = owner if isinstance(owner, str) else type(owner).__name__
    raise ValueError(
        f"The {name!r} parameter of {title} must be {expected}. Got {shown(got)} "
        "instead."
    )


def is_precomputed(kernel: object) -> bool:
    """Return whether X is a Gram matrix."""
    return isinstance(kernel, str) and kernel == PRECOMPUTED


def is_kernel(given: object) -> TypeGuard[Kernel]:
    """Return whether a kernel object was given, and not a matrix or anything else."""
    return isinstance(given, Kernel)


def require_kernel(owner: object, name: str, given: object, expected: str) -> Kernel:
    """Return a setting that must be a kernel object."""
    if not is_kernel(given):
        reject(owner, name, expected, given)
    return given


def resolve_kernel(owner: object, kernel: object, default: Kernel) -> Kernel:
    """Return the kernel object: the default for None."""
    if kernel is None:
        return default
    expected = "None, a kernel of skconvgp.kernels or 'precomputed'"
    return require_kernel(owner, "kernel", kernel, expected)


def resolve_device(owner: object, device: object, needed: int = 0) -> Placement:
    """Return the device, which need not exist; "auto" asks for `needed` bytes."""
    if not isinstance(device, str):
        reject(owner, "device", "a str such as 'auto', 'cpu' or 'cuda:1'", device)
    if device == "auto":
        return choose_placement(needed, gpu_memory())
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        reject(owner, "device", "'auto', 'cpu', 'cuda' or 'cuda:<number>'", device)
    return Placement(torch.device(device))


def device_exists(device: torch.device) -> bool:
    """Return whether a device exists on this machine."""
    if device.type == "cpu":
        return True
    return torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()


def resolve_backend(owner: object, backend: object) -> str:
    """Return the backend as a string."""
    if not isinstance(backend, str) or backend not in BACKENDS:
        reject(owner, "backend", "'auto', 'torch' or 'fused'", backend)
    return backend


def resolve_dtype(
    owner: object, dtype: object, device: torch.device, backend: str
) -> torch.dtype:
    """Return the precision of tiles; "auto": float64 by torch on the CPU, else float32.

    On the CPU the last bit of torch's float32 depends on the position in a tile.
    """
    if isinstance(dtype, str) and dtype == "auto":
        is_coarse = backend == "fused" or device.type != "cpu"
        return torch.float32 if is_coarse else torch.float64
    if not isinstance(dtype, str) or dtype not in DTYPES:
        reject(owner, "dtype", "'auto', 'float32' or 'float64'", dtype)
    return DTYPES[str(dtype)]


def resolve_solve_dtype(owner: object, dtype: object) -> torch.dtype:
    """Return the precision of solves."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        reject(owner, "solve_dtype", "'float32' or 'float64'", dtype)
    return DTYPES[str(dtype)]


def resolve_memory_budget(
    owner: object,
    budget: object,
    device: torch.device,
    reserved: int,
    n_workers: int,
) -> int:
    """Return a budget in bytes; None is half of the free memory after `reserved`.

    Several workers on "cuda" have a GPU each: the GPU with the least free memory
    counts.
    """
    expected = "None, a positive number of bytes or a str such as '2 GiB'"
    if budget is None:
        free = [free_memory(device) - reserved]
        if device.type == "cuda" and n_workers > 1:
            free += [free_memory(torch.device("cuda", i)) for i in range(n_workers)]
        return max(0, min(free)) // BUDGET_SHARE
    n_bytes = _bytes_of(budget) if isinstance(budget, str) else as_float(budget)
    is_whole = isinstance(budget, str) or n_bytes.is_integer()
    if 1.0 <= n_bytes < math.inf and is_whole:
        return int(n_bytes)
    reject(owner, "memory_budget", expected, budget)


def resolve_jobs(owner: object, n_jobs: object) -> int | None:
    """Return the number of jobs, counted as joblib does."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) and n_jobs != 0:
        return int(n_jobs)
    reject(owner, "n_jobs", "None or an int other than 0", n_jobs)


def resolve_verbose(owner: object, verbose: object) -> int:
    """Return how much progress is shown."""
    if isinstance(verbose, Integral | np.bool_) and int(verbose) >= 0:
        return int(verbose)
    reject(owner, "verbose", "an int >= 0", verbose)


def resolve_word(owner: object, name: str, word: object, words: Iterable[str]) -> str:
    """Return a string option; raise unless it is one of `words`."""
    *others, last = words
    if isinstance(word, str) and word in (*others, last):
        return word
    reject(owner, name, f"{', '.join(map(repr, others))} or {last!r}", word)


def is_auto(given: object) -> bool:
    """Return whether a setting is the word "auto"."""
    return isinstance(given, str) and given == AUTO


def resolve_flag(owner: object, name: str, flag: object) -> bool:
    """Return a boolean setting."""
    if isinstance(flag, bool | np.bool_):
        return bool(flag)
    reject(owner, name, "True or False", flag)


def resolve_solver(owner: object, solver: object) -> Solver[Any]:
    """Return the solver: "auto" is the direct one."""
    match solver:
        case "auto" | "cholesky":
            return Cholesky()
        case "cg":
            return ConjugateGradient()
        case "lsqr":
            return Lsqr()
        case Solver() if not isinstance(solver, type):
            return solver
        case _:
            expected = "'auto', 'cholesky', 'cg', 'lsqr' or a solver object"
            reject(owner, "solver", expected, solver)


def is_direct(solver: object) -> bool:
    """Return whether a setting stands for a direct solver."""
    if isinstance(solver, str):
        return solver in DIRECT_SOLVERS
    return type(solver) is Cholesky


def resolve_completion(
    owner: object, completion: object
) -> Completion | Expansion | SubsetOfData | CoarseKernel | Localization | None:
    """Return the strategy that completes or replaces the Gram matrix, or None."""
    if completion is None:
        return None
    strategies = Completion | Expansion | SubsetOfData | CoarseKernel | Localization
    if not isinstance(completion, type) and isinstance(completion, strategies):
        return completion
    expected = "None or a strategy of skconvgp.completion"
    reject(owner, "completion", expected, completion)


def resolve_fraction(owner: object, fraction: object) -> float:
    """Return the share of distinct entries that may be evaluated."""
    number = as_float(fraction)
    if 0.0 < number <= 1.0:
        return number
    reject(owner, "observed_fraction", "a number > 0 and <= 1", fraction)


def resolve_likelihood(
    owner: object, likelihood: object
) -> Likelihood | LinkLikelihood | VariationalLikelihood:
    """Return the likelihood object."""
    every = LIKELIHOODS | VARIATIONAL_LIKELIHOODS
    if isinstance(likelihood, str) and likelihood in every:
        return every[likelihood]()
    if not isinstance(likelihood, type) and isinstance(
        likelihood, Likelihood | LinkLikelihood | VariationalLikelihood
    ):
        return likelihood
    words = ", ".join(repr(word) for word in every)
    reject(owner, "likelihood", f"{words} or a likelihood object", likelihood)


def resolve_count(
    owner: object, name: str, value: object, also: str = "", most: float = math.inf
) -> int:
    """Return a count, one or more; `also` names what else is allowed in an error."""
    if isinstance(value, Integral) and is_int(value):
        if int(value) <= most:
            return int(value)
        reject(owner, name, f"{also}an int from 1 to {most}", value)
    reject(owner, name, f"{also}an int >= 1", value)


def resolve_rate(owner: object, rate: object) -> float | None:
    """Return a rate of learning; None for "auto"."""
    if isinstance(rate, str) and rate == AUTO:
        return None
    number = as_float(rate)
    if 0.0 < number <= 1.0:
        return number
    reject(owner, "learning_rate", "'auto' or a number > 0 and <= 1", rate)


def resolve_tolerance(owner: object, tol: object) -> float:
    """Return a change below which an iteration has converged."""
    number = as_float(tol)
    if 0.0 <= number < math.inf:
        return number
    reject(owner, "tol", "a finite number >= 0", tol)


def resolve_noise(owner: object, noise: object) -> float | str:
    """Return the relative noise variance, or the string option that chooses it."""
    if isinstance(noise, str) and noise in NOISE_WORDS:
        return noise
    number = as_float(noise)
    if 0.0 <= number < math.inf:
        return number
    *most, last = map(repr, NOISE_WORDS)
    expected = f"a finite number >= 0, {', '.join(most)} or {last}"
    reject(owner, "noise_variance", expected, noise)


def resolve_amplitude(owner: object, amplitude: object) -> float | str | None:
    """Return the amplitude, "profile" or None."""
    if amplitude is None or (isinstance(amplitude, str) and amplitude == "profile"):
        return amplitude
    number = as_float(amplitude)
    if 0.0 < number < math.inf:
        return number
    reject(owner, "amplitude", "'profile', a finite number > 0 or None", amplitude)


def _bytes_of(text: str) -> float:
    """Return the bytes of a text such as "2 GiB", or NaN for any other text."""
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in UNITS:
        return math.nan
    return float(match[1]) * UNITS[match[2].upper()]
