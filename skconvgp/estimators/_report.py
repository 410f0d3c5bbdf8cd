"""What a fit did: a small read-only record."""

import sys
from dataclasses import dataclass

__all__ = ["FitReport", "peak_memory"]


@dataclass(frozen=True)
class FitReport:
    """What a fit did and what it took; ``print(gp.fit_report_)`` shows it.

    Parameters
    ----------
    n_samples : int
        Training samples used.
    n_pairs : int
        Distinct entries of the Gram matrix that were evaluated.
    gram_seconds, solve_seconds : float
        Time for the Gram matrix; time for noise selection, factorisation and solves.
    backend, device, dtype : str
        Where and in which precision tiles were computed.
    jitter : float
        What had to be added to the diagonal, as a share of its mean; 0 if nothing.
    peak_memory : int
        Largest resident size of the process so far, bytes; 0 where unknown.

    Examples
    --------
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.kernels import rbf
    >>> gp = ConvNetGPRegressor(rbf()).fit([[0.0], [1.0]], [0.0, 1.0])
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
    jitter: float
    peak_memory: int

    def __str__(self) -> str:
        """Return the record as a few lines of text."""
        rate = self.n_pairs / max(self.gram_seconds, 1e-9)
        return "\n".join(
            [
                f"samples      {self.n_samples}",
                f"Gram         {self.n_pairs} pairs in {self.gram_seconds:.2f} s "
                f"({rate:.3g} pairs/s)",
                f"solve        {self.solve_seconds:.2f} s, jitter {self.jitter:.3g}",
                f"computed on  {self.device}, {self.backend} backend, {self.dtype}",
                f"peak memory  {self.peak_memory / 2**20:.0f} MiB",
            ]
        )


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
