"""The losses that the training of an encoder minimises, and that say when to stop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Generator, Tensor

from skconvgp.networks._batched import Parameters
from skconvgp.networks._codes import CodeFeatures
from skconvgp.networks._encoders import Encoder
from skconvgp.networks._estimates import Estimate, LogitBatch

__all__ = [
    "ClassLosses",
    "Coding",
    "CodingTask",
    "CodingValidation",
    "SampleLosses",
    "SquareLosses",
    "encoder_values",
    "joined_parameters",
]

ENCODER, COEF, INTERCEPT = "encoder.", "head.coef", "head.intercept"


class SampleLosses(Protocol):
    """Losses of single samples."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs k of the head."""
        ...

    def __call__(self, outputs: Tensor, rows: Tensor, /) -> Tensor:
        """Return losses (..., b) of some samples, from outputs (..., b, k)."""
        ...


@dataclass(frozen=True)
class ClassLosses:
    """Cross-entropies of classes."""

    codes: Tensor  # class codes (n,)
    n_outputs: int  # number of classes

    def __call__(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Return losses (..., b) of some samples, from outputs (..., b, k)."""
        codes = self.codes[rows].expand(outputs.shape[:-1])[..., None]
        return outputs.logsumexp(-1) - outputs.gather(-1, codes)[..., 0]


@dataclass(frozen=True)
class SquareLosses:
    """Mean squares of errors, in units of a scale."""

    values: Tensor  # targets (n, k)
    offset: Tensor  # (k,), subtracted from the targets
    scale: Tensor  # (k,), by which the differences are divided

    @property
    def n_outputs(self) -> int:
        """Number of outputs of the head."""
        return self.values.shape[1]

    def __call__(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Return losses (..., b) of some samples, from outputs (..., b, k)."""
        scaled = (self.values[rows] - self.offset) / self.scale
        return (outputs - scaled.to(outputs)).square().mean(-1)


@dataclass(frozen=True)
class Coding:
    """An encoder, and the head that reads its codes."""

    encoder: Encoder
    features: CodeFeatures  # of codes
    inputs: Tensor  # samples (n, ...), rows or images
    losses: SampleLosses  # of these samples
    dtype: torch.dtype

    def batch(
        self, parameters: Parameters, rows: Tensor, generator: Generator
    ) -> LogitBatch:
        """Return some of the samples, from their logits to their losses."""
        inputs = self.inputs[rows].to(self.dtype)
        logits = self.encoder.logits(encoder_values(parameters), inputs)
        coef, intercept = parameters[COEF][0], parameters[INTERCEPT][0]

        def outputs(features: Tensor) -> Tensor:
            return features @ coef + intercept

        losses = partial(_losses_of, self.losses, rows)
        return LogitBatch(logits, self.features, outputs, losses, generator)


def _losses_of(losses: SampleLosses, rows: Tensor, outputs: Tensor) -> Tensor:
    return losses(outputs, rows)


@dataclass(frozen=True)
class CodingTask:
    """The mean loss and penalties, which a training minimises."""

    coding: Coding
    rows: Tensor  # indices (m,) of the samples to learn from
    estimate: Estimate  # how gradients are estimated
    # Factors of the sum of squares of weights of the encoder, and of the head.
    penalties: tuple[float, float]
    batch_size: int  # samples whose features are held at once
    generator: Generator  # source of random bits

    @property
    def n_rows(self) -> int:
        """Number of samples to learn from."""
        return len(self.rows)

    def __call__(self, parameters: Parameters) -> Tensor:
        """Return the value (1,) on all samples."""
        blocks = torch.split(self.rows, self.batch_size)
        sums = [self._losses(parameters, block).sum() for block in blocks]
        mean = torch.stack(sums).sum() / self.n_rows
        return (mean + self._penalty(parameters))[None]

    def on_batch(self, parameters: Parameters, rows: Tensor) -> Tensor:
        """Return an estimate (1,) of this value from some of the samples."""
        mean = self._losses(parameters, self.rows[rows]).mean()
        return (mean + self._penalty(parameters))[None]

    def _losses(self, parameters: Parameters, rows: Tensor) -> Tensor:
        return self.estimate(self.coding.batch(parameters, rows, self.generator))

    def _penalty(self, parameters: Parameters) -> Tensor:
        of_encoder, of_head = self.penalties
        total = of_head * parameters[COEF].square().sum()
        for values in encoder_values(parameters).values():
            if values.ndim > 1:  # a weight, and not a bias
                total = total + of_encoder * values.square().sum()
        return total


@dataclass(frozen=True)
class CodingValidation:
    """The mean loss of thresholded codes, of samples that training does not see."""

    coding: Coding
    rows: Tensor  # indices (m,) of the samples that are held out
    batch_size: int  # samples whose features are held at once
    generator: Generator  # not drawn from

    def losses(self, parameters: Parameters) -> Tensor:
        """Return the loss (1,)."""
        return torch.stack(list(self._sums(parameters))).sum()[None] / len(self.rows)

    def _sums(self, parameters: Parameters) -> Iterator[Tensor]:
        for block in torch.split(self.rows, self.batch_size):
            batch = self.coding.batch(parameters, block, self.generator)
            yield batch.losses_of(batch.features(batch.thresholded())).sum()


def encoder_values(parameters: Parameters) -> dict[str, Tensor]:
    """Return the parameters of the encoder, by their names in its module."""
    return {
        name.removeprefix(ENCODER): values[0]
        for name, values in parameters.items()
        if name.startswith(ENCODER)
    }


def joined_parameters(
    values: dict[str, Tensor], n_features: int, n_outputs: int, like: Tensor
) -> Parameters:
    """Return the parameters of an encoder and of a head, which are zeros."""
    parameters = {
        f"{ENCODER}{name}": one.to(like)[None] for name, one in values.items()
    }
    parameters[COEF] = like.new_zeros(1, n_features, n_outputs)
    parameters[INTERCEPT] = like.new_zeros(1, n_outputs)
    return parameters
