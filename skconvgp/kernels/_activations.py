r"""Activations: the expectation of a product of nonlinearities (maths.md 2.3).

For :math:`(u, v) \sim N(0, [[a, c], [c, b]])` each class states
:math:`V(c, a, b) = E[\phi(u)\phi(v)]` and :math:`V(a, a, a)`. All are
differentiable once by autograd, forward and backward, also where c = a = b.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from skconvgp._typing import MapShape, Prepared
from skconvgp.kernels._checks import require_within
from skconvgp.kernels._layer import Layer

__all__ = [
    "GELU",
    "Abs",
    "Erf",
    "Identity",
    "LeakyReLU",
    "ReLU",
    "Sin",
    "erf_expectation",
    "reciprocal_sqrt",
]

# Squares of slopes are taken; float64 ends at 1e308.
LARGEST_SLOPE = 1e100


class _Activation(Layer):
    """A nonlinearity with an expectation in closed form."""

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

    def pair_pass(self, nngp: Tensor, one: Prepared, two: Prepared) -> Tensor:
        """Pass covariance maps (h, w, n1, n2)."""
        assert isinstance(one, Tensor)
        assert isinstance(two, Tensor)
        return self.expectation(nngp, one.unsqueeze(-1), two.unsqueeze(-2))

    @abstractmethod
    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b); `a` and `b` broadcast against `c`."""

    @abstractmethod
    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a)."""


class _LeakyActivation(_Activation):
    """Piecewise linear: max(x, 0) + slope * min(x, 0)."""

    slope: float

    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b); `a` and `b` broadcast against `c`."""
        return _LeakyExpectation.apply(c, a, b, self.slope)  # type: ignore[no-any-return, no-untyped-call]

    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a)."""
        return a * ((1.0 + self.slope**2) / 2.0)


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
class Erf(_Activation):
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

    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b); `a` and `b` broadcast against `c`."""
        return erf_expectation(c, a, b)

    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a)."""
        return erf_expectation(a, a, a)


@dataclass(repr=False)
class GELU(_Activation):
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


@dataclass(repr=False)
class Sin(_Activation):
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

    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b); `a` and `b` broadcast against `c`."""
        sign = 1.0 - 2.0 * (c < 0.0).to(c.dtype)
        size = sign * c
        # |c| <= (a + b) / 2; rounding must not make the exponent positive
        decay = torch.exp((size - (a / 2.0 + b / 2.0)).clamp(max=0.0))
        return sign * decay * torch.expm1(-2.0 * size) / -2.0

    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a)."""
        return -torch.expm1(-2.0 * a) / 2.0 + 0.0 * a  # NaN where a is not held


@dataclass(repr=False)
class Identity(_Activation):
    """No nonlinearity.

    Examples
    --------
    >>> from skconvgp.kernels import Identity
    >>> Identity().out_shape((8, 8))
    (8, 8)
    """

    def expectation(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b) = c."""
        return c

    def second_moment(self, a: Tensor) -> Tensor:
        """Return V(a, a, a) = a."""
        return a


def erf_expectation(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return V(c, a, b) for the error function; `a` and `b` broadcast against `c`."""
    # arcsin(x) as atan2, whose derivative stays finite where c = a = b.
    rest = 1.0 + 2.0 * (a + b) + 4.0 * (a * b - c * c).clamp(min=0.0)
    return torch.atan2(2.0 * c, rest.sqrt()) * (2.0 / math.pi)


class _LeakyExpectation(torch.autograd.Function):
    """V of leaky ReLUs with its derivatives in closed form (maths.md 2.3, 2.5).

    With the ReLU's expectation V_0, that of slope s is (1 - s)^2 V_0 + s c. The
    derivatives by a and b have no singularity at c = a = b, autograd's would.
    """

    @staticmethod
    def forward(c: Tensor, a: Tensor, b: Tensor, slope: float) -> Tensor:
        t, q, theta = _angle(c, a, b)
        value = theta.neg_().add_(math.pi).mul_(t).add_(q)
        value.mul_(a.sqrt()).mul_(b.sqrt() * ((1.0 - slope) ** 2 / (2.0 * math.pi)))
        return value.add_(c, alpha=slope) if slope else value

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, float], _output: Tensor
    ) -> None:
        c, a, b, ctx.slope = inputs
        ctx.save_for_backward(c, a, b)
        ctx.save_for_forward(c, a, b)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        c, a, b = ctx.saved_tensors
        by_c, by_a, by_b = _leaky_partials(c, a, b, ctx.slope)
        grad_a = (grad * by_a).sum_to_size(a.shape)
        grad_b = (grad * by_b).sum_to_size(b.shape)
        return grad * by_c, grad_a, grad_b, None

    @staticmethod
    def jvp(
        ctx: Any,
        c_tangent: Tensor | None,
        a_tangent: Tensor | None,
        b_tangent: Tensor | None,
        _: None,
    ) -> Tensor:
        c, a, b = ctx.saved_tensors
        tangent = torch.zeros_like(c)
        partials = _leaky_partials(c, a, b, ctx.slope)
        tangents = (c_tangent, a_tangent, b_tangent)
        for partial, direction in zip(partials, tangents, strict=True):
            if direction is not None:
                tangent = tangent + partial * direction
        return tangent


def _angle(c: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return cos, sin and value of the angle; never forms a * b."""
    t = (c * reciprocal_sqrt(a)).mul_(reciprocal_sqrt(b)).clamp_(-1.0, 1.0)
    q = (1.0 - t).mul_(1.0 + t).sqrt_()
    return t, q, torch.atan2(q, t)


def _leaky_partials(
    c: Tensor, a: Tensor, b: Tensor, slope: float
) -> tuple[Tensor, Tensor, Tensor]:
    _, q, theta = _angle(c, a, b)
    scale = (1.0 - slope) ** 2 / (2.0 * math.pi)
    by_c = (math.pi - theta) * scale + slope
    # s / (4 pi a) with s = sqrt(a b) q
    by_a = q * (b.sqrt() * reciprocal_sqrt(a)) * (scale / 2.0)
    by_b = q * (a.sqrt() * reciprocal_sqrt(b)) * (scale / 2.0)
    return by_c, by_a, by_b


def reciprocal_sqrt(a: Tensor) -> Tensor:
    """Return 1 / sqrt(a), and 0 where a = 0 (a blank pixel without bias)."""
    positive = a > 0.0
    return torch.where(positive, torch.where(positive, a, 1.0).rsqrt(), 0.0)
