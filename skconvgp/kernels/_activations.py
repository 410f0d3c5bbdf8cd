r"""Activations: the expectation of a product of nonlinearities.

The formulas: docs/maths.rst, "Dual activations".

For :math:`(u, v) \sim N(0, [[a, c], [c, b]])` each class states :math:`V(c, a, b) =
E[\phi(u)\phi(v)]` and :math:`V(a, a, a)`. All are differentiable once by autograd,
forward and backward, even at c = a = b.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from skconvgp._typing import MapShape, Prepared
from skconvgp.kernels._checks import require_within
from skconvgp.kernels._expectations import LeakyFormula, LeakySlope, expect
from skconvgp.kernels._layer import Layer
from skconvgp.kernels._map_layer import Maps

__all__ = [
    "GELU",
    "Abs",
    "Activation",
    "Erf",
    "Identity",
    "LeakyReLU",
    "ReLU",
    "Sin",
    "erf_expectation",
]

# Slopes are squared, and the largest number of float64 is 1e308.
LARGEST_SLOPE = 1e100


class Activation(Layer):
    """A nonlinearity with an expectation in closed form."""

    map_strides: ClassVar[tuple[int, int]] = (1, 1)

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: never."""
        return False

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map, which does not change."""
        require_within("slope", getattr(self, "slope", 0.0), LARGEST_SLOPE)
        return shape

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n)."""
        return self.second_moment(var), var

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (h, w, n1, n2)."""
        assert isinstance(one, Tensor)
        assert isinstance(two, Tensor)
        a, b = maps.sides(one, two)
        nngp = self.expectation(maps.nngp, a, b)
        derivative = getattr(self, "derivative", None)
        if maps.ntk is None or derivative is None:
            return maps.with_nngp(nngp)
        c, is_one = maps.nngp, maps.coinciding(one)
        if is_one is not None:  # exactly, since slopes are steep close to it
            c, b = torch.where(is_one, a, c), torch.where(is_one, a, b)
        return replace(maps, nngp=nngp, ntk=maps.ntk * derivative(c, a, b))

    @abstractmethod
    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b); `a` and `b` broadcast against `c`."""

    @abstractmethod
    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a)."""


class _LeakyActivation(Activation):
    """Piecewise linear: max(x, 0) + slope * min(x, 0)."""

    is_homogeneous: ClassVar[bool] = True
    slope: float

    def function(self, maps: Tensor) -> Tensor:
        """Apply the activation."""
        return maps.clamp(min=0.0) + self.slope * maps.clamp(max=0.0)

    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b); `a` and `b` broadcast against `c`."""
        return expect(c, a, b, LeakyFormula(self.slope))

    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a)."""
        return a * ((1.0 + self.slope**2) / 2.0)

    def derivative(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return the derivative of V(c, a, b) by c."""
        return expect(c, a, b, LeakySlope(self.slope))


@dataclass(repr=False)
class ReLU(_LeakyActivation):
    r"""Rectified linear unit, :math:`\phi(x) = \max(x, 0)`.

    .. math:: V = \frac{\sqrt{ab}}{2\pi} (\sin\theta + (\pi - \theta)\cos\theta),
              \quad \cos\theta = c / \sqrt{ab}

    References
    ----------
    Cho and Saul, "Kernel methods for deep learning", 2009, equation 6 (n = 1),
    halved, so that V(a, a, a) = a / 2.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.kernels import ReLU
    >>> c, a, b = (torch.tensor(x, dtype=torch.float64) for x in (0.6, 2.0, 0.7))
    >>> round(float(ReLU().expectation(c, a, b)), 6)
    0.363091
    """

    slope = 0.0


@dataclass(repr=False)
class Abs(_LeakyActivation):
    r"""Absolute value, :math:`\phi(x) = |x|`.

    References
    ----------
    Cho and Saul, "Kernel methods for deep learning", 2009: twice the even part of
    the ReLU expectation.

    Examples
    --------
    >>> from skconvgp.kernels import Abs
    >>> Abs().out_shape((8, 8))
    (8, 8)
    """

    slope = -1.0


@dataclass(repr=False)
class LeakyReLU(_LeakyActivation):
    r"""Leaky rectified linear unit, :math:`\phi(x) = \max(x, 0) + s \min(x, 0)`.

    Parameters
    ----------
    slope : float, default=0.01
        Slope s for negative x.

    References
    ----------
    Tsuchida, Roosta-Khorasani and Gallagher, "Invariance of weight distributions
    in rectified MLPs", 2018, section 3.

    Examples
    --------
    >>> from skconvgp.kernels import LeakyReLU
    >>> LeakyReLU(slope=0.2)
    LeakyReLU(slope=0.2)
    """

    slope: float = 0.01


@dataclass(repr=False)
class Erf(Activation):
    r"""Error function, :math:`\phi(x) = \mathrm{erf}(x)`.

    .. math:: V = \frac2\pi \arcsin\frac{2c}{\sqrt{(1 + 2a)(1 + 2b)}}

    References
    ----------
    Williams, "Computing with infinite networks", 1997, equation 11.

    Examples
    --------
    >>> from skconvgp.kernels import Erf
    >>> Erf().out_shape((8, 8))
    (8, 8)
    """

    def function(self, maps: Tensor) -> Tensor:
        """Apply the activation."""
        return torch.erf(maps)

    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b); `a` and `b` broadcast against `c`."""
        return erf_expectation(c, a, b)

    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a)."""
        return erf_expectation(a, a, a)

    def derivative(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return the derivative of V(c, a, b) by c."""
        return (4.0 / math.pi) / _erf_square(c, a, b).sqrt()


@dataclass(repr=False)
class GELU(Activation):
    r"""Gaussian error linear unit, :math:`\phi(x) = x \Phi(x)`.

    References
    ----------
    Tsuchida, Pearce, van der Heide, Roosta and Gallagher, "Avoiding kernel fixed
    points: computing with ELU and GELU infinite networks", 2021, proposition 2.

    Examples
    --------
    >>> from skconvgp.kernels import GELU
    >>> GELU().out_shape((8, 8))
    (8, 8)
    """

    def function(self, maps: Tensor) -> Tensor:
        """Apply the activation."""
        return torch.nn.functional.gelu(maps)

    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b); `a` and `b` broadcast against `c`."""
        delta2 = 1.0 + a + b + (a * b - c * c).clamp(min=0.0)
        delta = delta2.sqrt()
        over_a, over_b = 1.0 / (1.0 + a), 1.0 / (1.0 + b)  # products would overflow
        fraction = c * over_a * (c * over_b) / delta + a * over_a * (b * over_b) * delta
        return c / 4.0 + (c * torch.atan(c / delta) + fraction) / (2.0 * math.pi)

    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a)."""
        return self.expectation(a, a, a)

    def derivative(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return the derivative of V(c, a, b) by c."""
        delta2 = 1.0 + a + b + (a * b - c * c).clamp(min=0.0)
        delta = delta2.sqrt()
        over_a, over_b = 1.0 / (1.0 + a), 1.0 / (1.0 + b)  # products would overflow
        share = (2.0 + c * c / delta2) * over_a * over_b - a * over_a * (b * over_b)
        angle = torch.atan(c / delta) + c / delta * (1.0 + share)
        return 0.25 + angle / (2.0 * math.pi)


@dataclass(repr=False)
class Sin(Activation):
    r"""Sine, :math:`\phi(x) = \sin x`: :math:`V = e^{-(a+b)/2} \sinh c`.

    References
    ----------
    Pearce, Tsuchida, Zaki, Brintrup and Neely, "Expressive priors in Bayesian
    neural networks: kernel combinations and periodic functions", 2019.

    Examples
    --------
    >>> from skconvgp.kernels import Sin
    >>> Sin().out_shape((8, 8))
    (8, 8)
    """

    def function(self, maps: Tensor) -> Tensor:
        """Apply the activation."""
        return torch.sin(maps)

    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b); `a` and `b` broadcast against `c`."""
        sign = 1.0 - 2.0 * (c < 0.0).to(c.dtype)
        size = sign * c
        # |c| <= (a + b) / 2; rounding must not make the exponent positive
        decay = torch.exp((size - (a / 2.0 + b / 2.0)).clamp(max=0.0))
        return sign * decay * torch.expm1(-2.0 * size) / -2.0

    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a)."""
        return -torch.expm1(-2.0 * a) / 2.0 + 0.0 * a  # NaN if a is not representable

    def derivative(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return the derivative of V(c, a, b) by c."""
        mean = a / 2.0 + b / 2.0
        return (torch.exp(c - mean) + torch.exp(-c - mean)) / 2.0


@dataclass(repr=False)
class Identity(Activation):
    """No nonlinearity.

    Examples
    --------
    >>> from skconvgp.kernels import Identity
    >>> Identity().out_shape((8, 8))
    (8, 8)
    """

    is_homogeneous: ClassVar[bool] = True

    def function(self, maps: Tensor) -> Tensor:
        """Return the maps."""
        return maps

    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b) = c."""
        return c

    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a) = a."""
        return a

    def derivative(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return the derivative of V(c, a, b) by c, 1."""
        return torch.ones_like(c)


def erf_expectation(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return V(c, a, b) for the error function; `a` and `b` broadcast against `c`."""
    # arcsin(x) by atan2, whose derivative stays finite at c = a = b.
    return torch.atan2(2.0 * c, _erf_square(c, a, b).sqrt()) * (2.0 / math.pi)


def _erf_square(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return (1 + 2a)(1 + 2b) - 4c^2."""
    return 1.0 + 2.0 * (a + b) + 4.0 * (a * b - c * c).clamp(min=0.0)
