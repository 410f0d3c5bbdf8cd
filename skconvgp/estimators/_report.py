"""What a fit did, a small read-only record, and what is installed."""

import math
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import torch

from skconvgp.backends import instruction_set, missing_compiler, missing_extension
from skconvgp.engine import count_gpus

__all__ = ["FitReport", "peak_memory", "show_versions"]

DIRECT = "Cholesky"
DEPENDENCIES = [
    "skconvgp",
    "scikit-learn",
    "numpy",
    "scipy",
    "torch",
    "joblib",
    "scikit-optimize",
    "matplotlib",
    "skops",
]

LEAST_EXCESS = 1e-3  # of deviations; less is not told apart


@dataclass(frozen=True)
class FitReport:
    """What a fit did and what it took; ``print(gp.fit_report_)`` shows it.

    Parameters
    ----------
    n_samples : int
        Training samples used.
    kernel_reason : str
        Why the default kernel may suit the samples badly; empty otherwise.
    n_pairs : int
        Distinct entries of the Gram matrix that were evaluated; where samples have
        neighbours of their own, all evaluations.
    n_pairs_read : int
        Those of them that `cache_dir` had.
    gram_seconds, solve_seconds : float
        Time for the Gram matrix; time for noise selection, factorisation, solves, and
        leave-one-out values where probabilities are calibrated on them.
    backend, device, dtype : str
        What computed the tiles, where and in which precision.
    backend_reason : str
        Why torch computed; empty for the fused backend, or if torch was asked for.
    device_reason : str
        Why ``device="auto"`` did not use the GPU that is there; empty otherwise.
    dtype_reason : str
        Why ``dtype="auto"`` is not float32; empty if it is, or float64 for all kernels.
    instruction_set : str
        Instructions of the processor that the fused backend used; empty for others.
    jitter : float
        What had to be added to the diagonal, as a share of its mean; 0 if nothing.
    observed_fraction : float
        Evaluated entries, as a share of the distinct ones of all training samples; an
        upper bound where entries are evaluated again. Of a sum of kernels those of the
        one that is completed.
    relative_rmse : float
        Error of a completed Gram matrix on entries that were held out, as a share of
        their range; NaN where none were.
    solver : str
        Class of the solver; empty where features or neighbours are solved with.
    solver_reason : str
        Why ``solver="auto"`` took it; empty if it was asked for.
    is_gram_held : bool
        Whether the Gram matrix was held; if not, each product evaluated it anew.
    iterations : int
        Iterations of a solver that iterates.
    residual : float
        Largest norm of Y - M x, computed from the solution x, as a share of that of the
        targets; NaN for a solver that does not tell.
    evidence_error : float
        Standard error of an evidence that is an estimate, and what may lack where the
        solver did not converge; 0 where it is none, infinite where it is NaN.
    deviation_excess : float
        How much too large deviations of the latent function are, at most, of 16
        training samples that are left out, as a share; 0 where deviations are exact,
        NaN where the solver did not converge or does not tell.
    peak_memory : int
        Largest resident size of the process so far, bytes; 0 where unknown.

    Examples
    --------
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.kernels import rbf
    >>> gp = ConvNetGPRegressor(rbf(1.0)).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> gp.fit_report_.n_pairs
    3
    """

    n_samples: int
    n_pairs: int
    gram_seconds: float
    solve_seconds: float
    backend: str
    device: str
    dtype: str
    backend_reason: str
    device_reason: str
    instruction_set: str
    jitter: float
    peak_memory: int
    n_pairs_read: int = 0
    dtype_reason: str = ""
    observed_fraction: float = 1.0
    relative_rmse: float = math.nan
    solver: str = ""
    solver_reason: str = ""
    is_gram_held: bool = True
    iterations: int = 0
    residual: float = math.nan
    evidence_error: float = 0.0
    deviation_excess: float = 0.0
    kernel_reason: str = ""

    def __str__(self) -> str:
        """Return the record as a few lines of text."""
        backend = f"{self.backend} backend"
        if self.instruction_set:
            backend += f" ({self.instruction_set})"
        lines = [
            f"samples      {self.n_samples}",
            f"Gram         {self._pairs()}",
            f"solve        {self.solve_seconds:.2f} s{self._way()}",
            f"computed on  {self.device}, {backend}, {self.dtype}",
            f"peak memory  {self.peak_memory / 2**20:.0f} MiB",
        ]
        if self.observed_fraction < 1.0:
            completed = f"observed     {self.observed_fraction:.1%} of the entries"
            if not math.isnan(self.relative_rmse):
                completed += f", relative RMSE of the rest {self.relative_rmse:.2g}"
            lines.insert(2, completed)
        if not self.is_gram_held:
            lines[1] = "Gram         not held, evaluated anew for each product"
        if self.deviation_excess > 0.0:
            lines.insert(-2, f"deviations   {self._excess()}, of samples left out")
        reasons = {
            "not direct": "" if self.solver == DIRECT else self.solver_reason,
            "not fused": self.backend_reason,
            "kernel": self.kernel_reason,
            "not float32": self.dtype_reason,
            "not on GPU": self.device_reason,
        }
        lines[-1:-1] = [f"{what:<13}{why}" for what, why in reasons.items() if why]
        return "\n".join(lines)

    def _pairs(self) -> str:
        """Return what is to be said of pairs: how fast, of those that were computed."""
        text = f"{self.n_pairs} pairs in {self.gram_seconds:.2f} s"
        n_computed = self.n_pairs - self.n_pairs_read
        if n_computed:
            text += f" ({n_computed / max(self.gram_seconds, 1e-9):.3g} pairs/s)"
        if self.n_pairs_read:
            text += f", {self.n_pairs_read} of them read from `cache_dir`"
        return text

    def _excess(self) -> str:
        """Return what is to be said of deviations."""
        if self.deviation_excess < LEAST_EXCESS:
            return f"less than {LEAST_EXCESS:.1%} too large"
        return f"up to {self.deviation_excess:.1%} too large"

    def _way(self) -> str:
        """Return what is to be said of the solver."""
        text = f" by {self.solver}" if self.solver else ""
        if self.iterations:
            text += f", {self.iterations} iterations"
        text += f", jitter {self.jitter:.3g}"
        if not math.isnan(self.residual):
            text += f", residual {self.residual:.2g}"
        return text


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def show_versions() -> None:
    """Print what a report of a problem needs: versions, torch's build, backends.

    Examples
    --------
    >>> from skconvgp import show_versions
    >>> show_versions()
    <BLANKLINE>
    System:
               python: ...
    <BLANKLINE>
    Dependencies:
             skconvgp: ...
    <BLANKLINE>
    torch:
                 CUDA: ...
    <BLANKLINE>
    Backends:
                fused: ...
         fused on GPU: ...
    """
    tables = {
        "System": _system(),
        "Dependencies": {name: _version(name) for name in DEPENDENCIES},
        "torch": _torch_build(),
        "Backends": _backends(),
    }
    for title, table in tables.items():
        sys.stdout.write(f"\n{title}:\n")
        for name, value in table.items():
            sys.stdout.write(f"{name:>17}: {value}\n")


def _system() -> Mapping[str, str]:
    return {
        "python": " ".join(sys.version.split()),
        "executable": sys.executable,
        "machine": platform.platform(),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _torch_build() -> Mapping[str, str]:
    if torch.version.cuda is None:
        cuda = "not in this build"
    else:
        cuda = f"{torch.version.cuda}, {torch.cuda.device_count()} devices found"
    return {"CUDA": cuda, "threads": str(torch.get_num_threads())}


def _backends() -> Mapping[str, str]:
    missing = missing_extension()
    fused = f"missing: {missing}" if missing else instruction_set()
    return {"fused": fused, "fused on GPU": _gpus()}


def _gpus() -> str:
    """Return the compute capability of each GPU, or what there is not."""
    missing = missing_compiler()
    if missing:
        return f"missing: {missing}"
    capabilities = map(torch.cuda.get_device_capability, range(count_gpus()))
    found = [f"sm_{major}{minor}" for major, minor in capabilities]
    return ", ".join(found) or "missing: no GPU was found"
