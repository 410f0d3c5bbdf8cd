"""Activations without a closed form, by quadrature.

The series: docs/maths.rst, "Dual activations".
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from skconvgp._tensors import reals
from skconvgp._typing import MapShape, Prepared
from skconvgp.kernels._base import split
from skconvgp.kernels._checks import require_positive_int
from skconvgp.kernels._expectations import reciprocal_sqrt
from skconvgp.kernels._layer import Layer, settings_by_name
from skconvgp.kernels._map_layer import Maps
from skconvgp.kernels._quadrature import hermite_series

__all__ = ["Elementwise"]

MAX_NODES = 1024
PROBES = (-1.7, -0.6, 0.0, 0.3, 1.1, 2.4)  # test inputs for an activation


@settings_by_name("The rule of the integrals is not part of a network.")
@dataclass(repr=False)
class Elementwise(Layer):
    r"""Any activation, by quadrature.

    The expectation is the Hermite (Mehler) series

    .. math:: V = \sum_k t^k \alpha_k(a) \alpha_k(b), \quad
              \alpha_k(a) = E[\phi(\sqrt a z) \mathrm{He}_k(z)] / \sqrt{k!},

    with :math:`t = c / \sqrt{ab}`. All terms are positive semi-definite, and so is the
    sum. The coefficients of each image are integrals by a rule whose nodes scale with
    the variance. The part of V(a, a, a) that the first `n_nodes` terms do not cover is
    assigned to the next two.

    If inputs vary by much more than the scale of the activation, so that tanh looks
    like a step or a sine oscillates many times, the series converges slowly. The
    estimators and functions of this package warn if it may be wrong by more than 0.1 %
    of the variances. :class:`Tanh`, :class:`Sigmoid`, :class:`SiLU`, :class:`Softplus`,
    :class:`Erf`, :class:`GELU` and :class:`Sin` have no such limit.

    Parameters
    ----------
    function : callable
        The activation. It maps a tensor to a tensor of the same shape and dtype, each
        number independently, and must use functions of torch. If the estimator will be
        pickled, it must be defined in a module, and not be a lambda.
    n_nodes : int, default=64
        Number of terms of the series, at most 1024. The default suffices for smooth
        activations of moderate inputs; time grows with the number.

    References
    ----------
    Daniely, Frostig and Singer, "Toward deeper understanding of neural networks",
    2016, lemma 11 (dual activation as a Hermite series).

    Examples
    --------
    >>> import torch
    >>> from skconvgp.kernels import Dense, Elementwise, Flatten, Sequential
    >>> net = Sequential(Flatten(), Dense(), Elementwise(torch.tanh), Dense())
    """

    map_strides: ClassVar[tuple[int, int]] = (1, 1)

    function: Callable[[Tensor], Tensor]
    _: KW_ONLY
    n_nodes: int = 64

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: never."""
        return False

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map, which does not change."""
        _require_elementwise(self.function)
        require_positive_int("n_nodes", self.n_nodes, largest=MAX_NODES)
        return shape

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n)."""
        series = hermite_series(self.function, var, self.n_nodes)
        return series.coefficients.square().sum(0), series

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (h, w, n1, n2)."""
        (a, alpha, _), (b, beta, _) = split(one), split(two)
        assert isinstance(a, Tensor)
        assert isinstance(b, Tensor)
        assert isinstance(alpha, Tensor)
        assert isinstance(beta, Tensor)
        over_a, over_b = maps.sides(reciprocal_sqrt(a), reciprocal_sqrt(b))
        t = maps.nngp * over_a * over_b
        total, slope = torch.zeros_like(t), torch.zeros_like(t)
        # Horner's scheme
        for terms in zip(reversed(alpha), reversed(beta), strict=True):
            first, second = maps.sides(*terms)
            if maps.ntk is not None:
                slope = slope * t + total
            total = total * t + first * second
        ntk = None if maps.ntk is None else maps.ntk * slope * over_a * over_b
        return replace(maps, nngp=total, ntk=ntk)


def _kind(value: object) -> str:
    """Return the shape and dtype of a tensor, and the class of any other value."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"tensor of shape {tuple(value.shape)!r} and {value.dtype}"


def _require_elementwise(function: object) -> None:
    """Raise unless a function maps each number of a tensor independently."""
    if not callable(function):
        raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
            f"`function` must be a function of a tensor, got {function!r}."
        )
    if isinstance(function, np.ufunc):
        name = function.__name__
        known = f"torch.{name}" if hasattr(torch, name) else "one of torch"
        raise ValueError(  # noqa: TRY004
            f"`function` must be a function of torch, got numpy's {function!r}: take "
            f"{known}."
        )
    probes = reals(PROBES)
    with torch.no_grad():
        together = function(probes.reshape(2, 3))
        alone = [function(probe[None]) for probe in probes]
    for given, made in [((2, 3), together), *(((1,), value) for value in alone)]:
        expected = f"tensor of shape {given!r} and {torch.float64}"
        if _kind(made) != expected:
            raise ValueError(
                "`function` must return a tensor of the shape and dtype of its "
                f"argument; {function!r} turned a {expected} into a {_kind(made)}."
            )
    if not torch.allclose(together.reshape(-1), torch.cat(alone), equal_nan=True):
        raise ValueError(
            f"`function` must act on each number separately, and {function!r} gives "
            "other results for several numbers than for each of them alone."
        )
