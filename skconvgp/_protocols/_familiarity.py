"""Familiarity: how much samples are like those that a calibration has seen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Self

import numpy as np
import torch
from torch import Tensor

__all__ = ["Familiarity", "Span"]

LEAST_LEFT_OUT = 60  # fewer left-out samples do not show which numbers are usual
LEAST_WIDTH = 0.01  # of logarithms; smaller differences are no sign of anything
EXTREMES = 20.0  # samples by which a width is larger, as few samples show no extremes
TAIL = 0.1  # share of left-out samples whose values show how far values go
MOST_HEAVY = 0.5  # shape of a tail; its moments say little of a heavier one
# Rarity up to which values are usual: above lie 0.3 % of all, and of prior variances
# and contrasts, whose tails say least of an image, 0.1 %.
RARE, RARE_INPUT = 3.5, 4.5
TINY = float(np.finfo(np.float64).tiny)
LEAST_SEEN = 1e-30  # of prior variances and contrasts, for a finite inverse
STEP = 0.2  # of limits that are tried
PACE = 2.0  # rarity that counts as one
MOST_DISCOUNT = 7.0  # of logarithms; a share of 0 would leave no most probable class
MOST_LOST = 3e-4  # log loss of left-out samples that a span may cost


@dataclass(frozen=True)
class Span:
    r"""Usual values of a number: the tail of its logarithms at left-out samples.

    The largest tenth of the logarithms u, beyond the decile :math:`u_{.9}`, has a
    generalized Pareto distribution. The rarity of a value is minus the logarithm of the
    share of that tail that lies beyond it,

    .. math::

        r = \frac{1}{\xi} \log \left( 1 + \xi \frac{u - u_{.9}}{\sigma} \right),

    and :math:`(u - u_{.9}) / \sigma` for :math:`\xi = 0`. A value is usual up to a
    limit of its rarity.

    Parameters
    ----------
    decile : float
        Ninth decile of the logarithms.
    scale : float
        Scale :math:`\sigma` of the tail.
    shape : float
        Shape :math:`\xi` of the tail: 0 if it falls exponentially, more if it is heavy.
    limit : float
        Rarity up to which a value is usual.

    References
    ----------
    Coles, "An introduction to statistical modeling of extreme values", 2001, section
    4.2.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Span
    >>> Span(0.0, 1.0, 0.0, 3.5).above(torch.tensor([1.0, 40.0, 400.0]))
    tensor([0.0000, 0.0944, 1.2457])
    """

    decile: float
    scale: float
    shape: float
    limit: float

    @classmethod
    def of(cls, values: Tensor, weights: Tensor, rare: float = RARE) -> Self:
        """Return the span of the values (n,) of left-out samples, of weights (n,).

        Moments give scale and shape. The limit is at least `rare`, and so high that
        these samples lose little log loss.
        """
        # Many small steps: a call of numpy costs less than one of torch.
        every, masses = np.log(np.asarray(values).clip(min=TINY)), np.asarray(weights)
        order = every.argsort(kind="stable")
        totals = masses[order].cumsum()
        place = int(np.searchsorted(totals, (1.0 - TAIL) * totals[-1]))
        decile = float(every[order[place]])
        is_tail = every >= decile  # all copies of a sample, or none
        tail, counts = every[is_tail] - decile, masses[is_tail]
        mean, square = (float(counts @ tail**n / counts.sum()) for n in (1, 2))
        variance = max(square - mean**2, mean**2)  # of an exponential tail
        heavy = 0.5 * (1.0 - mean**2 / variance) if variance > 0.0 else 0.0
        shape, few = min(heavy, MOST_HEAVY), 1.0 + EXTREMES / float(totals[-1])
        scale = max(mean * (1.0 - shape), LEAST_WIDTH) * few
        rarities = tail / scale
        if shape > 0.0:
            rarities = np.log1p(shape * rarities) / shape

        def loses_little(limit: float) -> bool:
            above = (rarities - limit).clip(min=0.0) / PACE
            lost = (above**2 / (1.0 + above)).clip(max=MOST_DISCOUNT)
            return float(counts @ lost) <= MOST_LOST * float(totals[-1])

        n_more = max(0, ceil((float(rarities.max()) - rare) / STEP))
        limits = [rare + i * STEP for i in range(1 + n_more)]
        limit = limits[bisect_left(limits, True, key=loses_little)]
        return cls(decile, scale, shape, limit)

    def above(self, values: Tensor) -> Tensor:
        """Return how far the rarity of each value (n,) lies above the limit."""
        places = (_logs(values) - self.decile).clamp(min=0.0) / self.scale
        if self.shape > 0.0:
            places = (self.shape * places).log1p() / self.shape
        return (places - self.limit).clamp(min=0.0) / PACE


@dataclass(frozen=True)
class Familiarity:
    r"""How much a sample is like left-out training samples.

    Five numbers of a sample are compared with those of left-out samples: the variance
    of its latent functions, the distance of its latent means from the nearest centre of
    a class, their norm, and, which may also be too small, the prior variance and the
    contrast, the standard deviation of the values of the sample. If they are above
    their spans by :math:`e` in all, the share

    .. math::

        \lambda = \exp \left( - \frac{e^2}{1 + e} \right)

    of the probability of a class is kept, and the rest is the same for all classes: the
    most probable class stays. A sample within all spans has the share 1.

    Parameters
    ----------
    centres : tuple of tuples of float
        Mean latent means of the left-out samples of each class.
    spans : dict of Span
        Spans of "distance" and "norm" of the latent means, and, if they are known, of
        "variance", "prior" and "contrast", and of the inverse of these two, "1 / prior"
        and "1 / contrast".

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Familiarity, Span
    >>> spans = {name: Span(0.0, 0.5, 0.0, 3.0) for name in ("distance", "norm")}
    >>> usual = Familiarity(((1.0, -1.0), (-1.0, 1.0)), spans)
    >>> usual.share(torch.tensor([[0.9, -0.8], [40.0, -40.0]]), None, {}).round(
    ...     decimals=2
    ... )
    tensor([1.0000, 0.0100])
    """

    centres: tuple[tuple[float, ...], ...] = field(repr=False)
    spans: dict[str, Span]

    @classmethod
    def of(
        cls,
        mean: Tensor,
        var: Tensor | None,
        codes: Tensor,
        weights: Tensor,
        seen: Mapping[str, Tensor],
        of_seen: Tensor,
    ) -> Self | None:
        """Return it for left-out samples; None if there are too few.

        Parameters
        ----------
        mean, var : Tensor of shape (n, k)
            Latent means and variances of the samples; no `var` if it is not known.
        codes : Tensor of shape (n,)
            Codes of the classes of the samples.
        weights : Tensor of shape (n,)
            Sample weights; a weight of 0 leaves a sample out.
        seen : mapping of str to Tensor of shape (m,)
            "prior" and "contrast" of some of the samples, as far as they are known.
        of_seen : Tensor of shape (m,)
            Weights of these samples.
        """
        counts = weights > 0.0
        mean, codes, weights = mean[counts], codes[counts], weights[counts]
        if float(weights.sum()) < LEAST_LEFT_OUT:
            return None
        members = torch.nn.functional.one_hot(codes, mean.shape[1]).to(mean)
        totals, sums = weights @ members, (weights[:, None] * members).mT @ mean
        centres = sums[totals > 0.0] / totals[totals > 0.0, None]
        known = None if var is None else var[counts]
        spans = {
            name: Span.of(values, weights)
            for name, values in _of_latents(mean, known, centres).items()
        }
        spans |= {
            name: Span.of(values, of_seen, RARE_INPUT)
            for name, values in _both_ways(seen).items()
        }
        return cls(tuple(map(tuple, centres.tolist())), spans)

    def share(
        self, mean: Tensor, var: Tensor | None, seen: Mapping[str, Tensor]
    ) -> Tensor:
        """Return the share (n,) of probabilities that samples keep.

        Parameters
        ----------
        mean, var : Tensor of shape (n, k)
            Latent means and variances; no `var` if it is not known.
        seen : mapping of str to Tensor of shape (n,)
            "prior" and "contrast" of the samples, as far as they are known.
        """
        centres = mean.new_tensor(self.centres)
        values = _of_latents(mean, var, centres) | _both_ways(seen)
        found = [
            self.spans[name].above(each)
            for name, each in values.items()
            if name in self.spans
        ]
        return (-_discount(torch.stack(found).sum(0))).exp()


def _of_latents(mean: Tensor, var: Tensor | None, centres: Tensor) -> dict[str, Tensor]:
    """Return numbers (n,) of latent functions by their names."""
    values = {"distance": _distances(mean, centres), "norm": _norms(mean)}
    return values if var is None else values | {"variance": var.mean(1)}


def _both_ways(seen: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return numbers (n,) of samples, and their inverses."""
    values = {name: each.clamp(min=LEAST_SEEN) for name, each in seen.items()}
    return values | {f"1 / {name}": 1.0 / each for name, each in values.items()}


def _discount(above: Tensor) -> Tensor:
    """Return minus the logarithm of the share that is kept."""
    return (above.square() / (1.0 + above)).clamp(max=MOST_DISCOUNT)


def _logs(values: Tensor) -> Tensor:
    return values.clamp(min=torch.finfo(values.dtype).tiny).log()


def _norms(mean: Tensor) -> Tensor:
    """Return the norms (n,) of latent means around their mean over classes."""
    return (mean - mean.mean(1, keepdim=True)).square().sum(1).sqrt()


def _distances(mean: Tensor, centres: Tensor) -> Tensor:
    """Return the distances (n,) of latent means from the nearest centre."""
    one, two = (points - points.mean(1, keepdim=True) for points in (mean, centres))
    # Products would lose the digits of a small distance.
    exact = "donot_use_mm_for_euclid_dist"
    return torch.cdist(one, two, compute_mode=exact).amin(1)
