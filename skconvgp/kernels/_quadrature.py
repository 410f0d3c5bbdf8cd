"""Hermite coefficients of an activation by quadrature, and their error."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from skconvgp._typing import Prepared

__all__ = ["Series", "hermite_series", "series_error"]

# Trapezoidal rules with these numbers of panels, over WIDEST standard deviations. They
# are exact to rounding if panels are short compared with the scale of the activation,
# 1.
RULES = (512, 1024, 2048)
WIDEST, CHECKED = 12.8, 11.0
LONGEST = 0.25  # longest panel of a rule, in units of the activation
AT_ONCE = 2**20  # values of the activation
NEGLIGIBLE = 1e-12  # share of the variance; less is rounding


class Series(NamedTuple):
    """Series of an activation for each position of the images."""

    var: Tensor  # variances (h, w, n)
    coefficients: Tensor  # (k, h, w, n), of Hermite polynomials, lowest degree first
    # (n,), bound on the error of the variances after the layer, as a share of them.
    error: Tensor


def hermite_series(
    function: Callable[[Tensor], Tensor], var: Tensor, n_terms: int
) -> Series:
    r"""Return :math:`\alpha_k = E[\phi(\sqrt a z) He_k(z)] / \sqrt{k!}`, and two more.

    `var` (h, w, n) holds the variances a. The series has `n_terms` + 2 coefficients:
    the part of the variance that the first ones do not cover is assigned to the next
    even and the next odd coefficient, so that variances are exact. The error is that
    part, and the difference from a rule with half as many nodes.
    """
    flat = var.reshape(-1)
    panel = 2.0 * WIDEST / LONGEST * flat.detach().clamp(min=0.0).sqrt()
    rule = sum((panel > n_panels).long() for n_panels in RULES[:-1])
    assert isinstance(rule, Tensor)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for number, n_panels in enumerate(RULES):
        same_rule = (rule == number).nonzero().reshape(-1)
        for indices in torch.split(same_rule, AT_ONCE // n_panels):
            series = _coefficients(function, flat[indices], n_terms, n_panels)
            parts += [(indices, *series)]
    orders, columns, lacks = zip(*parts, strict=True)
    back = torch.argsort(torch.cat(orders))
    coefficients = torch.cat(columns, 1)[:, back].reshape(-1, *var.shape)
    moment = coefficients.detach().square().sum((0, 1, 2))
    lost = torch.cat(lacks)[back].reshape(var.shape).sum((0, 1))
    error = torch.where(moment > 0.0, lost / moment, torch.zeros_like(moment))
    return Series(var, coefficients, error)


def series_error(prepared: Prepared) -> float:
    """Return the largest error of the series in a prepared set; 0 without series."""
    if isinstance(prepared, Series):
        return float(prepared.error.max()) if prepared.error.numel() else 0.0
    if isinstance(prepared, tuple):
        return max(map(series_error, prepared), default=0.0)
    return 0.0


def _coefficients(
    function: Callable[[Tensor], Tensor], var: Tensor, n_terms: int, n_panels: int
) -> tuple[Tensor, Tensor]:
    """Return coefficients (n_terms + 2, m) of variances (m,), and their error."""
    nodes, basis, weights, coarse = (
        torch.as_tensor(array, device=var.device, dtype=var.dtype)
        for array in _rule(n_terms, n_panels)
    )
    blank = var <= 0.0
    deviation = torch.where(blank, 0.0, torch.where(blank, 1.0, var).sqrt())
    deviation = deviation + 0.0 * var  # NaN if a variance is not representable
    values = function(nodes[:, None] * deviation)
    coefficients = basis @ values
    squares = values.detach().square()
    off = (weights @ squares - coarse @ squares).abs()
    mirrored = values.flip(0)
    lacks = []
    for parity in (n_terms % 2, 1 - n_terms % 2):
        part = (values + mirrored) / 2.0 if parity == 0 else (values - mirrored) / 2.0
        total = weights @ part.square()
        lack = total - coefficients[parity::2].square().sum(0)
        is_there = lack > NEGLIGIBLE * total
        lacks.append(torch.where(is_there, lack, 0.0))
        root = torch.where(is_there, torch.where(is_there, lack, 1.0).sqrt(), 0.0)
        coefficients = torch.cat([coefficients, root[None]])
    return coefficients, off + lacks[0].detach() + lacks[1].detach()


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
