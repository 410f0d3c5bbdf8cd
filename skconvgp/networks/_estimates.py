r"""Gradients of losses that read random, or thresholded, bits.

An encoder has the logits a; a bit is 1 with probability sigma(a). The loss of a code
has no derivative by a. Each class here returns the losses of a batch with a graph: its
derivatives by a are an estimate, and those by the parameters of the head are exact.
The formulas: docs/maths.rst, "Binary codes".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus

from skconvgp._tensors import uniforms
from skconvgp.networks._codes import CodeFeatures

__all__ = [
    "Analytic",
    "Estimate",
    "Feedback",
    "Isolated",
    "LogitBatch",
    "Relaxed",
    "Score",
    "StraightThrough",
]


@dataclass(frozen=True)
class LogitBatch:
    """A batch, from its logits to its losses."""

    logits: Tensor  # outputs (b, n_bits) of the encoder
    features: CodeFeatures  # of codes
    # The head: outputs (..., b, k) from features (..., b, r).
    outputs: Callable[[Tensor], Tensor]
    # Loss (..., b) of each sample, from outputs (..., b, k).
    losses: Callable[[Tensor], Tensor]
    generator: Generator  # source of random bits

    def draw(self, n_draws: int) -> Tensor:
        """Return random codes (n_draws, b, n_bits)."""
        logits = self.logits.detach()
        size = (n_draws, *logits.shape)
        uniform = uniforms(size, self.generator, logits.dtype)
        return (uniform.to(logits.device) < logits.sigmoid()).to(logits)

    def thresholded(self) -> Tensor:
        """Return the codes (b, n_bits) without chance, 1 for a > 0."""
        return (self.logits > 0.0).to(self.logits)

    def log_probabilities(self, codes: Tensor) -> Tensor:
        """Return the log probabilities (..., b) of codes (..., b, n_bits)."""
        return (codes * self.logits - softplus(self.logits)).sum(-1)

    def losses_of(self, features: Tensor) -> Tensor:
        """Return the losses (..., b) of features (..., b, r)."""
        return self.losses(self.outputs(features))


class Estimate(Protocol):
    """An estimate of the gradient."""

    def __call__(self, batch: LogitBatch, /) -> Tensor:
        """Return the losses (b,), whose derivatives by logits are the estimate."""
        ...


@dataclass(frozen=True)
class Score:
    r"""The score function :math:`E[\ell(z) \nabla \log q(z)]`, of the expected loss."""

    n_draws: int  # number of random codes of a sample
    baseline: bool  # whether from each loss the mean of the other ones is subtracted

    def __call__(self, batch: LogitBatch) -> Tensor:
        """Return the mean losses (b,) of random codes."""
        codes = batch.draw(self.n_draws)
        losses = batch.losses_of(batch.features(codes))
        weights = _against_others(losses.detach(), self.baseline)
        surrogate = (weights * batch.log_probabilities(codes)).mean(0)
        return _with_gradient_of(losses.mean(0), surrogate)


@dataclass(frozen=True)
class Isolated:
    """The loss of mean features, by two independent sets of codes.

    One set gives the mean and the derivative of the loss by it, the other one that of
    the mean by the logits, as a score function.
    """

    n_draws: int  # number of random codes of a sample in each set
    baseline: bool  # as of `Score`

    def __call__(self, batch: LogitBatch) -> Tensor:
        """Return the losses (b,) of the mean features of the first set."""
        mean = batch.features(batch.draw(self.n_draws)).mean(0)
        codes = batch.draw(self.n_draws)
        slopes = _slopes_of(batch.losses_of, mean)
        gains = (batch.features(codes) * slopes).sum(-1)
        weights = _against_others(gains, self.baseline)
        surrogate = (weights * batch.log_probabilities(codes)).mean(0)
        return _with_gradient_of(batch.losses_of(mean), surrogate)


@dataclass(frozen=True)
class Analytic:
    """The loss of mean features, in closed form."""

    def __call__(self, batch: LogitBatch) -> Tensor:
        """Return the losses (b,) of the mean features."""
        mean = batch.features.mean(batch.logits.sigmoid())
        assert mean is not None  # the estimator has asked
        return batch.losses_of(mean)


@dataclass(frozen=True)
class StraightThrough:
    """Derivatives of probabilities stand for derivatives of thresholded bits."""

    def __call__(self, batch: LogitBatch) -> Tensor:
        """Return the losses (b,) of thresholded codes."""
        codes = _with_gradient_of(batch.thresholded(), batch.logits.sigmoid())
        return batch.losses_of(batch.features(codes))


@dataclass(frozen=True)
class Feedback:
    """Direct feedback alignment: errors of outputs, times a fixed random matrix."""

    # The matrix (k, n_bits); its product with the derivatives by the outputs stands for
    # the derivatives by the bits.
    weights: Tensor

    def __call__(self, batch: LogitBatch) -> Tensor:
        """Return the losses (b,) of thresholded codes."""
        outputs = batch.outputs(batch.features(batch.thresholded()))
        errors = _slopes_of(batch.losses, outputs)
        surrogate = ((errors @ self.weights) * batch.logits.sigmoid()).sum(-1)
        return _with_gradient_of(batch.losses(outputs), surrogate)


@dataclass
class Relaxed:
    """Bits of an autoencoder, which are tanh(steepness a) of logits a in training."""

    steepness: float = 1.0  # grows in a training

    def __call__(self, batch: LogitBatch) -> Tensor:
        """Return the losses (b,) of relaxed codes."""
        signed = torch.tanh(self.steepness * batch.logits)
        return batch.losses_of(batch.features(0.5 * (signed + 1.0)))


def _against_others(values: Tensor, baseline: bool) -> Tensor:
    """Return values (m, b), with a baseline minus the mean of the other draws."""
    if not baseline:
        return values
    n_draws = len(values)
    return (values - values.mean(0)) * (n_draws / (n_draws - 1.0))


def _slopes_of(losses: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Return the derivatives of the sum of losses by values, as constants."""
    leaf = values.detach().requires_grad_()
    with torch.enable_grad():
        (slopes,) = torch.autograd.grad(losses(leaf).sum(), leaf)
    return slopes.detach()


def _with_gradient_of(value: Tensor, surrogate: Tensor) -> Tensor:
    """Return a value with the derivatives of both, for a surrogate of any value."""
    return value + (surrogate - surrogate.detach())
