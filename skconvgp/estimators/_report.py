"""FitReport, a read-only record of a fit, and the versions that are installed."""

import math
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import torch

from skconvgp._ambient import public
from skconvgp._threads import allowed_threads
from skconvgp.backends import instruction_set, missing_compiler, missing_extension
from skconvgp.engine import count_gpus

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
    "pillow",
    "skops",
]

LEAST_EXCESS = 1e-3  # of standard deviations; smaller values are not told apart


@dataclass(frozen=True)
class FitReport:
    """Record of a fit: its work, time and memory; ``print(gp.fit_report_)`` shows it.

    Parameters
    ----------
    n_samples : int
        Number of training samples that were used.
    n_rows : int
        Number of rows that these are: with `augment`, an image is several rows.
    kernel_reason : str
        Why the default kernel may suit the samples badly; empty otherwise.
    n_pairs : int
        Number of distinct entries of the Gram matrix that were evaluated; with nearest
        neighbours, the number of all evaluations.
    n_pairs_read : int
        Number of these entries that were read from `cache_dir`.
    gram_seconds, solve_seconds : float
        Time for the Gram matrix; time for the choice of the noise, the factorisation,
        the solves, and the leave-one-out predictions if probabilities are calibrated on
        them. A regressor as `mean` is fitted before, and its time is not in them.
    backend, device, dtype : str
        Backend, device and precision of the covariances.
    backend_reason : str
        Why torch was used; empty for the fused backend, or if torch was asked for.
    device_reason : str
        Why ``device="auto"`` did not use an available GPU; empty otherwise.
    dtype_reason : str
        Why ``dtype="auto"`` is not float32; empty if it is, or float64 for all kernels.
    instruction_set : str
        Instructions of the processor that the fused backend used; empty for others.
    jitter : float
        Number that had to be added to the diagonal, as a share of its mean; 0 if none.
    observed_fraction : float
        Evaluated entries, as a share of all distinct entries of the training samples.
        It is an upper bound if entries are evaluated more than once. For a sum of
        kernels, only the completed kernel is counted.
    relative_rmse : float
        Error of a completed Gram matrix on held-out entries, as a share of their range;
        NaN if no entries were held out.
    solver : str
        Class of the solver; empty for fits by features or nearest neighbours.
    solver_reason : str
        Why ``solver="auto"`` chose this solver; empty if it was asked for.
    is_gram_held : bool
        Whether the Gram matrix was held in memory; otherwise each product evaluated it
        again.
    iterations : int
        Number of iterations of an iterative solver.
    residual : float
        Largest norm of Y - M x, computed from the solution x, as a share of the norm of
        the targets Y; NaN if the solver does not report it.
    evidence_error : float
        Standard error of an estimated evidence, plus the part that may be missing if
        the solver did not converge; 0 if the evidence is exact, infinite if it is NaN.
    deviation_excess : float
        Largest excess of the standard deviations of the latent function at 16 left-out
        training samples, as a share of these deviations; 0 if standard deviations are
        exact, NaN if the solver did not converge or does not report it.
    deviation_factors : tuple of float
        For each output of a regressor, the factor of its standard deviations that
        left-out targets ask for; empty for a classifier.
    deviation_noises : tuple of float
        For each output of a regressor, the noise variance that standard deviations of
        observations have beside `noise_variance_`, in its units: mostly 0, and more if
        targets of equal inputs differ by far more than that says.
    explained_variance : float
        Share of the mean prior variance that inducing patches or, of a sum, landmarks
        explain; NaN for other processes.
    part_weights : tuple of float
        Weights of the parts of a sum; empty for other processes.
    part_names : tuple of str
        What these parts are.
    part_costs : tuple of float
        Milliseconds of a core that each part takes for a new image, about, beside the
        scattering that it shares with others; of parts of yours as they say.
    is_mirrored : bool
        Whether the parts of a sum are averaged over mirror images.
    parts_reason : str
        Why a sum has a single part, or landmarks; empty otherwise.
    n_landmarks : int
        Number of landmarks of a sum of parts; 0 for other processes.
    noise_reason : str
        Why ``noise_variance="auto"`` took the usual number, and weights and flips of a
        sum were not chosen: too few samples say which. Empty otherwise.
    n_position_pairs : int
        Number of pairs of positions whose covariances a pair of samples needs, which
        its time grows with; of a sum, the most that one of its terms needs. It is 0
        without pairs of samples or their kernel: with random features, patches, parts
        or a precomputed matrix.
    n_inducing : tuple of int
        Number of inducing patches of each term of the kernel; empty for other
        processes.
    inducing_reason : str
        Why there are fewer patches than usual or than asked for: so many differ, or
        have room in memory. Empty if there are not.
    peak_memory : int
        Largest resident size of the operating system's process so far, in bytes; 0 if
        unknown.

    Examples
    --------
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.kernels import rbf
    >>> gp = ConvNetGPRegressor(rbf(1.0)).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> gp.fit_report_.n_pairs
    3
    """

    n_samples: int
    n_rows: int
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
    explained_variance: float = math.nan
    n_inducing: tuple[int, ...] = ()
    inducing_reason: str = ""
    part_weights: tuple[float, ...] = ()
    part_names: tuple[str, ...] = ()
    part_costs: tuple[float, ...] = ()
    is_mirrored: bool = False
    parts_reason: str = ""
    n_position_pairs: int = 0
    noise_reason: str = ""
    deviation_factors: tuple[float, ...] = ()
    deviation_noises: tuple[float, ...] = ()
    n_landmarks: int = 0

    def __str__(self) -> str:
        """Return the record as a few lines of text."""
        backend = f"{self.backend} backend"
        if self.instruction_set:
            backend += f" ({self.instruction_set})"
        lines = [
            f"samples      {self._samples()}",
            f"Gram         {self._pairs()}",
            f"solve        {self.solve_seconds:.2f} s{self._solve_details()}",
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
        if not math.isnan(self.explained_variance):
            share = f"{self.explained_variance:.1%} of the prior variance"
            what = "landmarks" if self.n_landmarks else "inducing patches"
            lines.insert(-2, f"explained    {share}, by {what}")
        if self.part_weights:
            lines.insert(1, f"parts        {self._parts()}")
        if self.n_inducing:
            lines.insert(1, f"inducing     {self._patches()}")
        if self.deviation_excess > 0.0:
            lines.insert(-2, f"deviations   {self._excess()}, of samples left out")
        if any(factor != 1.0 for factor in self.deviation_factors):
            lines.insert(-2, f"left out     {self._factors()}")
        reasons = {
            "not direct": "" if self.solver == DIRECT else self.solver_reason,
            "not fused": self.backend_reason,
            "noise": self._noise(),
            "kernel": self.kernel_reason,
            "not float32": self.dtype_reason,
            "not on GPU": self.device_reason,
        }
        lines[-1:-1] = [f"{label:<13}{why}" for label, why in reasons.items() if why]
        return "\n".join(lines)

    def _samples(self) -> str:
        """Return the line on samples: their number, and their rows if these differ."""
        if self.n_rows == self.n_samples:
            return str(self.n_samples)
        return f"{self.n_samples}, as {self.n_rows} rows"

    def _pairs(self) -> str:
        """Return the line on pairs: their number, and the speed of computing them."""
        if self.part_weights:
            pairs = f"{self.n_pairs} pairs of samples"
            return f"{pairs}, of each part, in {self.gram_seconds:.2f} s"
        n_positions = self.n_position_pairs
        each = f", {n_positions} pairs of positions each," if n_positions > 1 else ""
        text = f"{self.n_pairs} pairs{each} in {self.gram_seconds:.2f} s"
        n_computed = self.n_pairs - self.n_pairs_read
        if n_computed:
            text += f" ({n_computed / max(self.gram_seconds, 1e-9):.3g} pairs/s)"
        if self.n_pairs_read:
            text += f", {self.n_pairs_read} of them read from `cache_dir`"
        return text

    def _parts(self) -> str:
        """Return the lines on the parts of a sum: mirror images, weights and names."""
        over = "averaged over" if self.is_mirrored else "without"
        text = f"{over} mirror images"
        if self.parts_reason:
            text += f"; {self.parts_reason}"
        rows = zip(self.part_weights, self.part_names, self.part_costs, strict=True)
        used = sorted((row for row in rows if row[0]), reverse=True)
        lines = [
            text,
            *(f"{share:.2f} {name} ({cost:.2g} ms)" for share, name, cost in used),
        ]
        names = [
            name
            for share, name in zip(self.part_weights, self.part_names, strict=True)
            if not share
        ]
        if names:
            lines.append(f"left out: {', '.join(names)}")
        return f"\n{' ' * 13}".join(lines)

    def _noise(self) -> str:
        """Return why the noise was not chosen; empty if it was."""
        return f"not chosen: {self.noise_reason}" if self.noise_reason else ""

    def _patches(self) -> str:
        """Return the line on inducing patches, term by term."""
        text = f"{' + '.join(map(str, self.n_inducing))} patches"
        reason = self.inducing_reason
        return f"{text}: {reason}" if reason else text

    def _excess(self) -> str:
        """Return the line on standard deviations."""
        if self.deviation_excess < LEAST_EXCESS:
            return f"less than {LEAST_EXCESS:.1%} too large"
        return f"up to {self.deviation_excess:.1%} too large"

    def _factors(self) -> str:
        """Return by what deviations were multiplied."""
        one, *others = sorted(self.deviation_factors)
        text = f"deviations times {one:.2g}"
        text += f" to {others[-1]:.2g}" if others else ""
        most = max(self.deviation_noises, default=0.0)
        return text + (f", with up to {most:.2g} more noise" if most else "")

    def _solve_details(self) -> str:
        """Return the end of the line on the solver."""
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


@public
def show_versions() -> None:
    """Print facts for a bug report: versions, the build of torch, the backends.

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
        "cores": str(os.cpu_count()),
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
    return {"CUDA": cuda, "threads": str(allowed_threads())}


def _backends() -> Mapping[str, str]:
    missing = missing_extension()
    fused = f"missing: {missing}" if missing else instruction_set()
    return {"fused": fused, "fused on GPU": _gpus()}


def _gpus() -> str:
    """Return the compute capability of each GPU, or the reason for none."""
    missing = missing_compiler()
    if missing:
        return f"missing: {missing}"
    capabilities = map(torch.cuda.get_device_capability, range(count_gpus()))
    names = [f"sm_{major}{minor}" for major, minor in capabilities]
    return ", ".join(names) or "missing: no GPU was found"
