"""The kernel of optical random features: moduli of complex projections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Generator, Tensor

from skconvgp._tensors import normals
from skconvgp._typing import ImageShape
from skconvgp.kernels._vectors import VectorKernel

__all__ = ["OpticalFeatures", "optical"]

LEAST_POWER, LARGEST_POWER = 1.0, 16.0
N_TERMS = 64  # of the series, which ends earlier for even powers


@dataclass(frozen=True)
class OpticalFeatures:
    """Powers of moduli of complex random projections."""

    # Real and imaginary parts (d, r) of the projections, each of variance 1/2.
    real: Tensor
    imaginary: Tensor
    power: float
    centered: bool  # whether the mean of the powers is subtracted

    @property
    def n_features(self) -> int:
        """Number of features of a sample."""
        return self.real.shape[1]

    @property
    def n_values(self) -> int:
        """Number of values that are held at once for each sample."""
        return 4 * self.n_features

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features of images."""
        vectors = images.reshape(len(images), -1)
        first, second = (vectors @ part.to(images) for part in self._parts)
        values = _to_power(first * first + second * second, self.power)
        if self.centered:
            lengths = (vectors * vectors).sum(1, keepdim=True)
            values = values - _moment(self.power) * _to_power(lengths, self.power)
        return values / math.sqrt(self.n_features)

    def mean_of_bits(self, probabilities: Tensor) -> Tensor | None:
        r"""Return the mean features (n, r) of independent bits; None unless m = 2.

        For bits that are 1 with probabilities p it is
        :math:`|p^\top r|^2 + \sum_i |r_i|^2 p_i (1 - p_i)`.
        """
        if self.power != 2.0:
            return None
        variances = probabilities * (1.0 - probabilities)
        first, second = (part.to(probabilities) for part in self._parts)
        values = (probabilities @ first).square() + (probabilities @ second).square()
        values = values + variances @ (first.square() + second.square())
        if self.centered:
            values = values - probabilities.sum(1, keepdim=True)
        return values / math.sqrt(self.n_features)

    @property
    def _parts(self) -> tuple[Tensor, Tensor]:
        return self.real, self.imaginary


@dataclass(repr=False)
class optical(VectorKernel):
    r"""Kernel of optical random features, :math:`E[|r^H x|^m |r^H x'|^m]`.

    The entries of r are independent complex normal numbers of variance 1: a scattering
    medium multiplies light by such numbers, and a camera sees the squared modulus,
    m = 2. With :math:`t = x^\top x' / (\|x\| \|x'\|)`,

    .. math:: k(x, x') = \Gamma(\tfrac m2 + 1)^2 (\|x\| \|x'\|)^m
              \, {}_2F_1(-\tfrac m2, -\tfrac m2; 1; t^2),

    which is :math:`\|x\|^2 \|x'\|^2 + (x^\top x')^2` for m = 2.

    Parameters
    ----------
    power : float, default=2
        Power m of the modulus, from 1 to 16.
    centered : bool, default=False
        Whether the mean of a feature, which depends on the length of x only, is
        subtracted. It drops the term :math:`\Gamma(\tfrac m2 + 1)^2 (\|x\| \|x'\|)^m`
        from the kernel; for m = 2 it leaves :math:`(x^\top x')^2`.

    Notes
    -----
    If m / 2 is no whole number, the first 64 terms of the series are summed, and what
    they leave out at t = 1 is added to the next term: variances are exact, and
    covariances for m = 1 are wrong by less than 1e-4 of them.

    References
    ----------
    Saade et al., "Random projections through multiple optical scattering", 2016.
    Ohana et al., "Kernel computations from large-scale random features obtained by
    optical processing units", 2020.

    Examples
    --------
    >>> import skconvgp
    >>> from skconvgp.kernels import optical
    >>> skconvgp.gram_matrix(optical(), [[1.0, 0.0], [1.0, 1.0]])
    array([[2., 3.],
           [3., 8.]])
    """

    power: float = 2
    centered: bool = False

    def feature_map(
        self,
        image_shape: ImageShape,
        n_features: int,
        generator: Generator,
        *,
        orthogonal: bool,
    ) -> OpticalFeatures:
        """Return random features of samples of a shape."""
        shape = (2, math.prod(image_shape), n_features)
        parts = normals(shape, generator)
        real, imaginary = parts / math.sqrt(2.0)
        return OpticalFeatures(real, imaginary, float(self.power), bool(self.centered))

    def _check_settings(self) -> None:
        power, is_flag = self.power, isinstance(self.centered, bool)
        is_number = isinstance(power, Real) and not isinstance(power, bool)
        if not (is_number and LEAST_POWER <= power <= LARGEST_POWER):
            raise ValueError(
                f"`power` must be a number from {LEAST_POWER:g} to {LARGEST_POWER:g}, "
                f"got {power!r}."
            )
        if not is_flag:
            raise ValueError(
                f"`centered` must be True or False, got {self.centered!r}."
            )

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        scale = norm1 * norm2
        is_zero = scale <= 0.0
        square = inner * inner / torch.where(is_zero, 1.0, scale)
        total = torch.zeros_like(square)
        first, *others = _coefficients(float(self.power))
        for coefficient in reversed([0.0 if self.centered else first, *others]):
            total = total * square.clamp(max=1.0) + coefficient  # Horner
        size = torch.where(is_zero, 0.0, torch.where(is_zero, 1.0, scale))
        return total * _moment(self.power) ** 2 * size ** (float(self.power) / 2.0)


def _to_power(squares: Tensor, power: float) -> Tensor:
    """Return powers of numbers from their squares, with finite derivatives at 0."""
    if power < 2.0:
        squares = squares.clamp_min(torch.finfo(squares.dtype).tiny)
    return squares ** (power / 2.0)


def _moment(power: float) -> float:
    """Return the mean of a power of the modulus of a normal number of variance 1."""
    return math.gamma(power / 2.0 + 1.0)


def _coefficients(power: float) -> list[float]:
    """Return coefficients of the series of the hypergeometric function in t^2."""
    a, values, binomial = power / 2.0, [], 1.0
    for k in range(N_TERMS):
        values.append(binomial * binomial)
        binomial *= (a - k) / (k + 1)
        if binomial == 0.0:
            return values
    whole = math.gamma(1.0 + power) / math.gamma(1.0 + a) ** 2
    return [*values, whole - sum(values)]
