"""Activations without a closed form, by quadrature.

The series: docs/maths.rst, "Dual activations".
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from torch import Tensor

from skconvgp._typing import MapShape, Prepared
from skconvgp.kernels._base import split
from skconvgp.kernels._checks import require_positive_int
from skconvgp.kernels._expectations import reciprocal_sqrt
from skconvgp.kernels._layer import Layer, settings_by_name
from skconvgp.kernels._map_layer import Maps
from skconvgp.kernels._quadrature import hermite_series

__all__ = ["Elementwise"]

MAX_NODES = 1024
PROBES = (-1.7, -0.6, 0.0, 0.3, 1.1, 2.4)  # an activation is tried with these


@settings_by_name("The rule of the integrals is not part of a network.")
@dataclass(repr=False)
class Elementwise(Layer):
    r"""Any activation, by quadrature.

    The expectation is the Hermite (Mehler) series

    .. math:: V = \sum_k t^k \alpha_k(a) \alpha_k(b), \quad
              \alpha_k(a) = E[\phi(\sqrt a z) \mathrm{He}_k(z)] / \sqrt{k!},

    with :math:`t = c / \sqrt{ab}`. All terms are positive semi-definite, and so is the
    sum. The coefficients of each image come from a rule whose nodes follow the
    variance; what the first `n_nodes` lack of V(a, a, a) is put into the next two.

    Where inputs vary by much more than the scale of the activation, as tanh becomes a
    step and oscillations are many, the series converges slowly. Estimators and
    functions of the package warn where it may be wrong by more than 0.1 % of the
    variances. :class:`Tanh`, :class:`Sigmoid`, :class:`SiLU`, :class:`Softplus`,
    :class:`Erf`, :class:`GELU` and :class:`Sin` have no such limit.

    Parameters
    ----------
    function : callable
        The activation: tensor in, tensor of the same shape and dtype out, each number
        by itself. It must be a function of torch, and of a module, not a lambda, if
        the estimator is to be pickled.
    n_nodes : int, default=64
        Terms of the series, 1024 at most. Smooth activations of moderate inputs need
        no more; time grows with it.

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
        t = (
            maps.nngp
            * reciprocal_sqrt(a).unsqueeze(-1)
            * reciprocal_sqrt(b).unsqueeze(-2)
        )
        total = torch.zeros_like(t)
        for first, second in zip(
            reversed(alpha), reversed(beta), strict=True
        ):  # Horner
            total = total * t + first.unsqueeze(-1) * second.unsqueeze(-2)
        return maps.with_nngp(total)


def _kind(value: object) -> str:
    """Say what a value is: its shape and dtype if it is a tensor, else its class."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"tensor of shape {tuple(value.shape)!r} and {value.dtype}"


def _require_elementwise(function: object) -> None:
    """Raise unless a function takes each number of a tensor by itself."""
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
    probes = torch.tensor(PROBES, dtype=torch.float64)
    with torch.no_grad():
        together = function(probes.reshape(2, 3))
        alone = [function(probe[None]) for probe in probes]
    for given, made in [((2, 3), together), *(((1,), value) for value in alone)]:
        expected = f"tensor of shape {given!r} and {torch.float64}"
        if _kind(made) != expected:
            raise ValueError(
                "`function` must return a tensor of the shape and dtype of the one it "
                f"is given; of a {expected} {function!r} made a {_kind(made)}."
            )
    if not torch.allclose(together.reshape(-1), torch.cat(alone), equal_nan=True):
        raise ValueError(
            f"`function` must take each number by itself, and {function!r} gives other "
            "numbers where it is given several at once."
        )
