"""Expectations with their derivatives in closed form, for autograd."""

import math
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = [
    "Formula",
    "LeakyFormula",
    "LeakySlope",
    "correlation",
    "expect",
    "reciprocal_sqrt",
]


class Formula(Protocol):
    """V(c, a, b) of an activation; `a` and `b` broadcast against `c`."""

    def value(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b)."""
        ...

    def partials(
        self, c: Tensor, a: Tensor, b: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the derivatives by c, a and b; finite at c = a = b."""
        ...


def expect(c: Tensor, a: Tensor, b: Tensor, formula: Formula) -> Tensor:
    """Return V(c, a, b), differentiable once, backward and forward."""
    return _Expectation.apply(c, a, b, formula)  # type: ignore[no-any-return, no-untyped-call]


class _Expectation(torch.autograd.Function):
    """V with derivatives from a formula (docs/maths.rst, "Derivatives").

    Autograd's derivatives are singular at c = a = b, and store every step.
    """

    @staticmethod
    def forward(c: Tensor, a: Tensor, b: Tensor, formula: Formula) -> Tensor:
        return formula.value(c, a, b)

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Formula], _output: Tensor
    ) -> None:
        c, a, b, ctx.formula = inputs
        ctx.save_for_backward(c, a, b)
        ctx.save_for_forward(c, a, b)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        c, a, b = ctx.saved_tensors
        by_c, by_a, by_b = ctx.formula.partials(c, a, b)
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
        partials = ctx.formula.partials(c, a, b)
        tangents = (c_tangent, a_tangent, b_tangent)
        for partial, direction in zip(partials, tangents, strict=True):
            if direction is not None:
                tangent = tangent + partial * direction
        return tangent


class LeakyFormula:
    """Expectations of leaky ReLUs.

    With the ReLU's expectation V_0, that of slope s is (1 - s)^2 V_0 + s c.
    """

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def value(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return V(c, a, b)."""
        t, q, theta = _angle(c, a, b)
        scale = (1.0 - self.slope) ** 2 / (2.0 * math.pi)
        value = theta.neg_().add_(math.pi).mul_(t).add_(q)
        value.mul_(a.sqrt()).mul_(b.sqrt() * scale)
        return value.add_(c, alpha=self.slope) if self.slope else value

    def partials(
        self, c: Tensor, a: Tensor, b: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the derivatives by c, a and b."""
        _, q, theta = _angle(c, a, b)
        scale = (1.0 - self.slope) ** 2 / (2.0 * math.pi)
        by_c = (math.pi - theta) * scale + self.slope
        # s / (4 pi a) with s = sqrt(a b) q
        by_a = q * (b.sqrt() * reciprocal_sqrt(a)) * (scale / 2.0)
        by_b = q * (a.sqrt() * reciprocal_sqrt(b)) * (scale / 2.0)
        return by_c, by_a, by_b


class LeakySlope:
    """Derivatives by c of expectations of leaky ReLUs of slope s: E[phi'(u) phi'(v)].

    Their slope by c is infinite at |c| = sqrt(a b), where 0 is returned instead.
    """

    def __init__(self, slope: float) -> None:
        self.slope = slope
        self.scale = (1.0 - slope) ** 2 / (2.0 * math.pi)

    def value(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return the derivative of V(c, a, b) by c."""
        t, q = self._angle(c, a, b)
        return (math.pi - torch.atan2(q, t)) * self.scale + self.slope

    def partials(
        self, c: Tensor, a: Tensor, b: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the derivatives by c, a and b."""
        t, q = self._angle(c, a, b)
        by_t = torch.where(q > 0.0, self.scale / torch.where(q > 0.0, q, 1.0), 0.0)
        root_a, root_b = reciprocal_sqrt(a), reciprocal_sqrt(b)
        by_log = by_t * t / -2.0
        return by_t * root_a * root_b, by_log * root_a**2, by_log * root_b**2

    def _angle(self, c: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin, exactly 1 and 0 if both arguments are one variable."""
        is_one = (c == a) & (c == b) & (a > 0.0)
        t = torch.where(is_one, 1.0, correlation(c, a, b))
        return t, ((1.0 - t) * (1.0 + t)).sqrt()


def correlation(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return c / sqrt(a b); never forms a * b."""
    return (c * reciprocal_sqrt(a)).mul_(reciprocal_sqrt(b)).clamp_(-1.0, 1.0)


def reciprocal_sqrt(a: Tensor) -> Tensor:
    """Return 1 / sqrt(a), and 0 where a = 0 (a blank pixel without bias)."""
    positive = a > 0.0
    return torch.where(positive, torch.where(positive, a, 1.0).rsqrt(), 0.0)


def _angle(c: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return cos, sin and value of the angle."""
    t = correlation(c, a, b)
    q = (1.0 - t).mul_(1.0 + t).sqrt_()
    return t, q, torch.atan2(q, t)
