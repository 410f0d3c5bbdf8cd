r"""Activations made of hyperbolic tangents, in closed form for scaled error functions.

.. math:: \tanh x \approx \sum_j w_j \, \mathrm{erf}(\lambda_j x)

with an error of at most 3e-8 of tanh x everywhere. The expectations are exact for the
sum, so that no error grows with the variance: that of V(c, a, b) is at most 6e-8 of
:math:`\sqrt{V(a, a, a) V(b, b, b)}`, by the inequality of Cauchy and Schwarz.

Below, :math:`\rho = c / \sqrt{ab}`, and for each term of one side
:math:`p = 1 + 2 \lambda^2 a`, :math:`x = 2 \lambda^2 a / p` and :math:`y = 1 / p`. With
x' and y' of a term of the other side :math:`T = \rho \sqrt{x x'}` is what the arcsine
is taken of, and :math:`1 - T^2 = y + x y' + x x' (1 - \rho^2)`, which is no difference
of large numbers.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from skconvgp.kernels._activations import Activation
from skconvgp.kernels._expectations import Formula, correlation, expect

__all__ = ["SiLU", "Sigmoid", "Softplus", "Tanh"]

# Minimax fit: the relative error has the same size, with changing signs, at 15 points.
RATES = (
    0.36384160907732265,
    0.48315577112241383,
    0.63548709632114217,
    0.83457262468905752,
    1.0916240335004510,
    1.4225512943686612,
    1.8674057086132456,
)
WEIGHTS = (
    0.0047406742863741972,
    0.065127697296437838,
    0.22712079570213113,
    0.35035707307451342,
    0.26553569960645430,
    0.081476983790014706,
    0.0056410486029636758,
)
TWO_OVER_PI = 2.0 / math.pi


class Side(NamedTuple):
    """Factors of one side in a term, which depend on its variance a."""

    weight: float  # of the term
    rate: float  # of the term
    x: Tensor  # share of the variance that saturates
    y: Tensor  # the rest of the variance


class Joint(NamedTuple):
    """A term of each side."""

    one: Side
    two: Side
    sine: Tensor  # T
    cosine: Tensor  # the root of 1 - T^2

    @property
    def weight(self) -> float:
        """Return the weight of the product."""
        return self.one.weight * self.two.weight

    @property
    def slope(self) -> Tensor:
        """Return the derivative of T by c."""
        roots = self.one.y.sqrt() * self.two.y.sqrt()
        return roots * (2.0 * self.one.rate * self.two.rate)


@dataclass(frozen=True)
class Mixture:
    """Sum of weighted error functions that is tanh(x / width)."""

    width: float  # 1, or 2 for the tanh in a logistic function

    def sides(self, a: Tensor) -> list[Side]:
        """Return the factors of one side in each term."""
        sides = []
        for weight, rate in zip(WEIGHTS, RATES, strict=True):
            scaled = 2.0 * (rate / self.width) ** 2 * a
            y = 1.0 / (1.0 + scaled)
            sides.append(Side(weight, rate / self.width, scaled * y, y))
        return sides

    def joints(self, c: Tensor, a: Tensor, b: Tensor) -> Iterator[Joint]:
        """Yield the terms of both sides."""
        rho = correlation(c, a, b)
        one_minus_square = (1.0 - rho) * (1.0 + rho)
        others = self.sides(b)
        for one in self.sides(a):
            root = rho * one.x.sqrt()
            for two in others:
                square = one.y + one.x * two.y + (one.x * two.x) * one_minus_square
                yield Joint(one, two, root * two.x.sqrt(), square.sqrt_())

    def arcsines(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return the sum of w w' arcsin(T): that of E[erf(l u) erf(l' v)], pi / 2."""
        rho = correlation(c, a, b)
        total = torch.zeros_like(rho)
        roots = [(side.weight, side.x.sqrt()) for side in self.sides(b)]
        for one in self.sides(a):
            root = rho * one.x.sqrt()
            for weight, other in roots:
                total.add_((root * other).asin_(), alpha=one.weight * weight)
        return total


class TanhFormula(Mixture):
    """E[t(u) t(v)] of the sum t."""

    def value(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b)."""
        return self.arcsines(c, a, b).mul_(TWO_OVER_PI)

    def partials(
        self, c: Tensor, a: Tensor, b: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the derivatives by c, a and b."""
        by_c, by_a, by_b = (torch.zeros_like(c) for _ in "cab")
        for joint in self.joints(c, a, b):
            one, two = joint.one, joint.two
            slope = joint.slope / joint.cosine * (joint.weight * TWO_OVER_PI)
            by_c += slope
            by_a -= slope * c * (one.rate**2 * one.y)
            by_b -= slope * c * (two.rate**2 * two.y)
        return by_c, by_a, by_b


class SoftplusFormula(Mixture):
    """E[g(u) g(v)] of g' = t with the sum t, g(0) = 2 log 2, and width 2.

    E[h(u) h'(v)] = 2 / pi (c arcsin T + sqrt(1 - T^2) / k), where k = dT / dc, for
    h(u) = u erf(l u) + exp(-l^2 u^2) / (l sqrt(pi)), whose derivative is erf(l u).
    """

    @property
    def offset(self) -> float:
        """Return the difference of g and the sum of w h for large arguments."""
        terms = zip(WEIGHTS, RATES, strict=True)
        return 2.0 * math.log(2.0) - sum(
            weight * self.width / (rate * math.sqrt(math.pi)) for weight, rate in terms
        )

    def value(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b)."""
        total = c * self.arcsines(c, a, b)
        for joint in self.joints(c, a, b):
            total += joint.cosine / joint.slope * joint.weight
        means = self.offset + self._mean(a) + self._mean(b)
        return total * TWO_OVER_PI + self.offset * means

    def partials(
        self, c: Tensor, a: Tensor, b: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the derivatives by c, a and b."""
        by_c = self.arcsines(c, a, b).mul_(TWO_OVER_PI)
        by_a, by_b = (torch.zeros_like(c) for _ in "ab")
        for joint in self.joints(c, a, b):
            one, two = joint.one, joint.two
            cosine = joint.cosine * (joint.weight / math.pi)
            ratio = (one.y / two.y).sqrt() * (one.rate / two.rate)
            by_a += cosine * ratio
            by_b += cosine / ratio
        return by_c, by_a + self._mean_slope(a), by_b + self._mean_slope(b)

    def _mean(self, a: Tensor) -> Tensor:
        """Return E of the sum of w h."""
        total = torch.zeros_like(a)
        for weight, rate, _, y in self.sides(a):
            total += weight / (rate * math.sqrt(math.pi)) / y.sqrt()
        return total

    def _mean_slope(self, a: Tensor) -> Tensor:
        """Return the derivative of that by a, times the offset."""
        total = torch.zeros_like(a)
        for weight, rate, _, y in self.sides(a):
            total += (self.offset * weight * rate / math.sqrt(math.pi)) * y.sqrt()
        return total


class SiLUFormula(Mixture):
    """E[u t(u) v t(v)] of the sum t.

    E[u erf(l u) v erf(l' v)] = 2 / pi sqrt(ab) (rho arcsin T
    + sqrt(x x') G / sqrt(1 - T^2)), where G = 1 - rho^2 + rho^2 (y + y').
    """

    def value(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b)."""
        rho = correlation(c, a, b)
        total = rho * self.arcsines(c, a, b)
        for joint in self.joints(c, a, b):
            root = joint.one.x.sqrt() * joint.two.x.sqrt()
            total += root * _gap(joint, rho) / joint.cosine * joint.weight
        return total.mul_(a.sqrt()).mul_(b.sqrt() * TWO_OVER_PI)

    def partials(
        self, c: Tensor, a: Tensor, b: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the derivatives by c, a and b."""
        rho = correlation(c, a, b)
        by_c = self.arcsines(c, a, b).mul_(TWO_OVER_PI)
        by_a, by_b = (torch.zeros_like(c) for _ in "ab")
        for joint in self.joints(c, a, b):
            one, two = joint.one, joint.two
            weight = joint.weight * TWO_OVER_PI
            fall = _gap(joint, rho) / joint.cosine.square()
            turn = 2.0 * (one.y + two.y) - 1.0 + one.x * two.x * fall
            by_c += joint.sine / joint.cosine * turn * weight
            slope = joint.slope / joint.cosine * weight
            by_a += slope * b * _rise(one, rho, fall)
            by_b += slope * a * _rise(two, rho, fall)
        return by_c, by_a, by_b


def _gap(joint: Joint, rho: Tensor) -> Tensor:
    """Return G of a term of each side."""
    one_minus_square = (1.0 - rho) * (1.0 + rho)
    return one_minus_square + rho.square() * (joint.one.y + joint.two.y)


def _rise(side: Side, rho: Tensor, fall: Tensor) -> Tensor:
    """Return the derivative of sqrt(x x') G / sqrt(1 - T^2) by a, in its units."""
    return 1.0 - rho.square() * side.x * (0.5 + side.y) - side.x / 2.0 * fall


TANH, HALF_TANH = TanhFormula(width=1.0), TanhFormula(width=2.0)
SOFTPLUS, SILU = SoftplusFormula(width=2.0), SiLUFormula(width=2.0)


class _Saturating(Activation):
    """Sum of error functions, a linear function and a constant.

    Its covariance is `share` times the covariance of the error functions, plus `linear`
    times the covariance of the inputs, plus `constant`.
    """

    formula: ClassVar[Formula]
    share: ClassVar[float] = 0.25
    linear: ClassVar[float] = 0.0
    constant: ClassVar[float] = 0.0

    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b); `a` and `b` broadcast against `c`."""
        of_sum = self.share * expect(c, a, b, self.formula)
        return self.constant + self.linear * c + of_sum

    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a)."""
        return self.expectation(a, a, a) + 0.0 * a  # NaN if a is not representable

    def derivative(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return the derivative of V(c, a, b) by c."""
        return self.linear + self.share * self.formula.partials(c, a, b)[0]


@dataclass(repr=False)
class Tanh(_Saturating):
    r"""Hyperbolic tangent, :math:`\phi(x) = \tanh x`.

    .. math:: V = \frac2\pi \sum_{ij} w_i w_j \arcsin
              \frac{2 \lambda_i \lambda_j c}
              {\sqrt{(1 + 2 \lambda_i^2 a)(1 + 2 \lambda_j^2 b)}}

    with :math:`\tanh x = \sum_j w_j \, \mathrm{erf}(\lambda_j x)`, seven terms, to 3e-8
    of its value everywhere. Therefore the error of V is at most 6e-8 of the standard
    deviations, for variances of any size.

    References
    ----------
    Williams, "Computing with infinite networks", 1997, equation 11. Monahan and
    Stefanski, "Normal scale mixture approximations to the logistic distribution with
    applications", in the Handbook of the logistic distribution, 1992.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.kernels import Tanh
    >>> a = torch.tensor(1.0, dtype=torch.float64)
    >>> round(float(Tanh().second_moment(a)), 6)
    0.394294
    """

    formula: ClassVar = TANH
    share: ClassVar = 1.0

    def function(self, maps: Tensor) -> Tensor:
        """Apply the activation."""
        return torch.tanh(maps)


@dataclass(repr=False)
class Sigmoid(_Saturating):
    r"""Logistic function, :math:`\phi(x) = 1 / (1 + e^{-x}) = (1 + \tanh(x/2)) / 2`.

    See Also
    --------
    Tanh : How it is computed, and how well.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.kernels import Sigmoid
    >>> a = torch.tensor(1.0, dtype=torch.float64)
    >>> round(float(Sigmoid().second_moment(a)), 6)
    0.293379
    """

    def function(self, maps: Tensor) -> Tensor:
        """Apply the activation."""
        return torch.sigmoid(maps)

    formula: ClassVar = HALF_TANH
    constant: ClassVar = 0.25


@dataclass(repr=False)
class SiLU(_Saturating):
    r"""Sigmoid linear unit, :math:`\phi(x) = x / (1 + e^{-x})`, also known as swish.

    See Also
    --------
    Tanh : How it is computed, and how well.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.kernels import SiLU
    >>> a = torch.tensor(1.0, dtype=torch.float64)
    >>> round(float(SiLU().second_moment(a)), 6)
    0.355776
    """

    def function(self, maps: Tensor) -> Tensor:
        """Apply the activation."""
        return torch.nn.functional.silu(maps)

    formula: ClassVar = SILU
    linear: ClassVar = 0.25


@dataclass(repr=False)
class Softplus(_Saturating):
    r"""Smooth rectifier, :math:`\phi(x) = \log(1 + e^x)`.

    See Also
    --------
    Tanh : How it is computed, and how well.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.kernels import Softplus
    >>> a = torch.tensor(1.0, dtype=torch.float64)
    >>> round(float(Softplus().second_moment(a)), 6)
    0.921246
    """

    def function(self, maps: Tensor) -> Tensor:
        """Apply the activation."""
        return torch.nn.functional.softplus(maps)

    formula: ClassVar = SOFTPLUS
    linear: ClassVar = 0.25
