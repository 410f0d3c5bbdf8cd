"""Activations without a closed form, by quadrature (maths.md 2.3, last row)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from skconvgp._typing import MapShape, Prepared
from skconvgp.kernels._base import split
from skconvgp.kernels._checks import require_positive_int
from skconvgp.kernels._expectations import reciprocal_sqrt
from skconvgp.kernels._layer import Layer, settings_by_name
from skconvgp.kernels._quadrature import hermite_coefficients

__all__ = ["Elementwise"]

MAX_NODES = 128  # beyond, the weights of the outer nodes underflow in float64


@settings_by_name("The rule of the integrals is not part of a network.")
@dataclass(repr=False)
class Elementwise(Layer):
    r"""Any activation, by Gauss-Hermite quadrature.

    The expectation is the Hermite (Mehler) series

    .. math:: V = \sum_k t^k \alpha_k(a) \alpha_k(b), \quad
              \alpha_k(a) = E[\phi(\sqrt a z) \mathrm{He}_k(z)] / \sqrt{k!},

    with :math:`t = c / \sqrt{ab}` and the coefficients of each image by quadrature
    with `n_nodes` nodes. All terms are positive semi-definite, and so is the sum.

    Parameters
    ----------
    function : callable
        The activation: tensor in, tensor of the same shape out. It must be a
        function of a module, not a lambda, if the estimator is to be pickled.
    n_nodes : int, default=64
        Nodes of the quadrature and terms of the series. Smooth activations of
        moderate inputs need no more; kinks converge slowly.

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
        if not callable(self.function):
            raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
                f"`function` must be a function of a tensor, got {self.function!r}."
            )
        require_positive_int("n_nodes", self.n_nodes, largest=MAX_NODES)
        return shape

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n)."""
        coefficients = hermite_coefficients(self.function, var, self.n_nodes)
        return (coefficients * coefficients).sum(0), (var, coefficients)

    def pair_pass(self, nngp: Tensor, one: Prepared, two: Prepared) -> Tensor:
        """Pass covariance maps (h, w, n1, n2)."""
        (a, alpha), (b, beta) = split(one), split(two)
        assert isinstance(a, Tensor)
        assert isinstance(b, Tensor)
        assert isinstance(alpha, Tensor)
        assert isinstance(beta, Tensor)
        t = nngp * reciprocal_sqrt(a).unsqueeze(-1) * reciprocal_sqrt(b).unsqueeze(-2)
        total = torch.zeros_like(t)
        for k in reversed(range(self.n_nodes)):  # Horner
            total = total * t + alpha[k].unsqueeze(-1) * beta[k].unsqueeze(-2)
        return total
