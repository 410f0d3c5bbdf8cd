"""Steps that the fits of several processes share."""

from __future__ import annotations

import torch
from torch import Tensor

from skconvgp.engine import KernelOracle, MatrixOracle, SummedOracle
from skconvgp.inference import mean_variance
from skconvgp.processes._basis import Basis
from skconvgp.processes._facts import Fact, Jittered
from skconvgp.processes._run import Run


def fixed_amplitude(
    amplitude: float | str | None, mean_diag: float, y: Tensor
) -> Tensor | None:
    """Return the amplitude (k,) of the scaled targets; None to profile it out.

    Parameters
    ----------
    amplitude : float, str or None
        The setting.
    mean_diag : float
        Mean prior variance of the kernel: the amplitude, if the setting is None.
    y : Tensor of shape (n, k)
        Scaled targets.
    """
    if amplitude == "profile":
        return None
    value = mean_diag if amplitude is None else float(amplitude)
    # In double, as a given number may be out of the range of the targets' precision.
    return torch.full(y.shape[1:], value, dtype=torch.float64, device=y.device)


def require_finite_noise(noise: Tensor) -> None:
    """Raise if the noise of a sample is not finite."""
    if not bool(torch.isfinite(noise).all()):
        raise ValueError(
            "The noise of a sample is `noise_variance` / its weight, which is not "
            "finite for at least one sample: set tiny weights to 0."
        )


def jitter_facts(
    jitter: float, least_noise: float, prior: Basis, run: Run
) -> list[Fact]:
    """Return a fact if jitter exceeds the least noise, as it then changes the model."""
    if jitter <= least_noise:
        return []
    solve_dtype = run.config.solve_dtype
    return [Jittered(jitter, least_noise, prior.tile_dtype, solve_dtype)]


def scaled_gram(
    oracle: KernelOracle | MatrixOracle | SummedOracle, weights: Tensor
) -> tuple[Tensor, float]:
    """Return the Gram matrix with mean diagonal 1, and its divisor."""
    mean_diag = mean_variance(oracle.diag(), weights)
    gram = oracle.gram()
    gram /= mean_diag
    return gram, mean_diag
