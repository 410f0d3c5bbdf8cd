"""Hermite coefficients of an activation by quadrature, and how wrong they are."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from skconvgp._typing import Prepared

__all__ = ["Series", "hermite_series", "series_error"]

# Rules: trapezoidal, of so many panels each, over so many standard deviations. They are
# exact to rounding where panels are short beside the scale of the activation, 1.
RULES = (512, 1024, 2048)
WIDEST, CHECKED = 12.8, 11.0
LONGEST = 0.25  # panel, in units of the activation, for which a rule is fine enough
AT_ONCE = 2**20  # values of the activation
NEGLIGIBLE = 1e-12  # share of the variance; less is rounding


class Series(NamedTuple):
    """What a layer keeps of images.

    Parameters
    ----------
    var : Tensor of shape (h, w, n)
        Variances.
    coefficients : Tensor of shape (k, h, w, n)
        Those of Hermite polynomials, lowest degree first.
    error : Tensor of shape (n,)
        What may be wrong with the variances after the layer, as a share of them.
    """

    var: Tensor
    coefficients: Tensor
    error: Tensor


def hermite_series(
    function: Callable[[Tensor], Tensor], var: Tensor, n_terms: int
) -> Series:
    r"""Return :math:`\alpha_k = E[\phi(\sqrt a z) He_k(z)] / \sqrt{k!}`, and two more.

    Parameters
    ----------
    function : callable
        The activation.
    var : Tensor of shape (h, w, n)
        Variances a.
    n_terms : int
        Number of coefficients. What they lack of the variance is put into the next
        even and the next odd one, so that variances are those of the activation.

    Returns
    -------
    series : Series
        With n_terms + 2 coefficients. The error is what they lack, and how far the
        rule is from one of half as many nodes.
    """
    flat = var.reshape(-1)
    panel = 2.0 * WIDEST / LONGEST * flat.detach().clamp(min=0.0).sqrt()
    rule = sum((panel > n_panels).long() for n_panels in RULES[:-1])
    assert isinstance(rule, Tensor)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for number, n_panels in enumerate(RULES):
        alike = (rule == number).nonzero().reshape(-1)
        for some in torch.split(alike, AT_ONCE // n_panels):
            own = _coefficients(function, flat[some], n_terms, n_panels)
            parts += [(some, *own)]
    places, found, lacks = zip(*parts, strict=True)
    back = torch.argsort(torch.cat(places))
    coefficients = torch.cat(found, 1)[:, back].reshape(-1, *var.shape)
    moment = coefficients.detach().square().sum((0, 1, 2))
    lost = torch.cat(lacks)[back].reshape(var.shape).sum((0, 1))
    error = torch.where(moment > 0.0, lost / moment, torch.zeros_like(moment))
    return Series(var, coefficients, error)


def series_error(prepared: Prepared) -> float:
    """Return the largest error of the series in what was prepared; 0 without any."""
    if isinstance(prepared, Series):
        return float(prepared.error.max()) if prepared.error.numel() else 0.0
    if isinstance(prepared, tuple):
        return max(map(series_error, prepared), default=0.0)
    return 0.0


def _coefficients(
    function: Callable[[Tensor], Tensor], var: Tensor, n_terms: int, n_panels: int
) -> tuple[Tensor, Tensor]:
    """Return coefficients (n_terms + 2, m) of variances (m,), and what they lack."""
    nodes, basis, weights, coarse = (
        torch.as_tensor(array, device=var.device, dtype=var.dtype)
        for array in _rule(n_terms, n_panels)
    )
    blank = var <= 0.0
    deviation = torch.where(blank, 0.0, torch.where(blank, 1.0, var).sqrt())
    deviation = deviation + 0.0 * var  # NaN where a variance is not held
    values = function(nodes[:, None] * deviation)
    found = basis @ values
    squares = values.detach().square()
    off = (weights @ squares - coarse @ squares).abs()
    mirrored = values.flip(0)
    lacks = []
    for parity in (n_terms % 2, 1 - n_terms % 2):
        part = (values + mirrored) / 2.0 if parity == 0 else (values - mirrored) / 2.0
        total = weights @ part.square()
        lack = total - found[parity::2].square().sum(0)
        is_there = lack > NEGLIGIBLE * total
        lacks.append(torch.where(is_there, lack, 0.0))
        root = torch.where(is_there, torch.where(is_there, lack, 1.0).sqrt(), 0.0)
        found = torch.cat([found, root[None]])
    return found, off + lacks[0].detach() + lacks[1].detach()


@lru_cache(maxsize=16)
def _rule(
    n_terms: int, n_panels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes, weights times polynomials (k, j), weights, and coarser weights."""
    nodes = np.linspace(-WIDEST, WIDEST, n_panels + 1)
    weights = np.exp(-(nodes**2) / 2.0) * (nodes[1] - nodes[0]) / math.sqrt(2 * math.pi)
    coarse = 2.0 * weights * (np.arange(n_panels + 1) % 2 == 0)
    coarse[np.abs(nodes) > CHECKED] = 0.0
    # With the square root of the weights inside, the recurrence cannot overflow.
    basis = np.empty((n_terms, n_panels + 1))
    basis[0] = np.sqrt(weights)
    previous = np.zeros(n_panels + 1)
    for k in range(1, n_terms):
        following = (nodes * basis[k - 1] - math.sqrt(k - 1) * previous) / math.sqrt(k)
        previous = basis[k - 1]
        basis[k] = following
    return nodes, basis * np.sqrt(weights), weights, coarse
