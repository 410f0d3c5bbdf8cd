r"""Potentials of networks: negative log posterior densities, one for each draw.

A potential is the sum of a term of the data and a term of the prior. A draw of
"bootstrap" minimises a potential whose targets and whose prior mean are random; the
formulas are in docs/maths.rst, "Finite networks".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy

from skconvgp._tensors import normals
from skconvgp.linalg import half_solve
from skconvgp.networks._batched import BatchedNetwork, Parameters
from skconvgp.networks._feature_prior import FeaturePrior

__all__ = [
    "CategoricalData",
    "DataTerm",
    "FunctionPrior",
    "GaussianData",
    "Potential",
    "PriorTerm",
    "WeightPrior",
    "sample_functions",
]


class DataTerm(Protocol):
    """Negative log likelihood of the training data, up to a constant."""

    def __call__(self, outputs: Tensor, rows: Tensor | slice) -> Tensor:
        """Return the sums (k,) over these samples, from outputs (k, n, n_outputs)."""
        ...


class PriorTerm(Protocol):
    """Negative log density of the prior, up to a constant."""

    def __call__(self, parameters: Parameters, outputs: Tensor, /) -> Tensor:
        """Return the values (k,), from outputs at all inputs of the potential."""
        ...

    def on_batch(
        self, parameters: Parameters, outputs: Tensor, rows: Tensor, /
    ) -> Tensor:
        """Return unbiased estimates (k,) of these values from outputs at some rows."""
        ...


@dataclass(frozen=True)
class GaussianData:
    """Gaussian noise of known variance."""

    targets: Tensor  # (1 or k, n, n_outputs), one set for all draws or one for each
    noise: Tensor  # variances > 0, (n, 1 or n_outputs)

    def __call__(self, outputs: Tensor, rows: Tensor | slice) -> Tensor:
        """Return the sums (k,) over these samples, from outputs (k, n, n_outputs)."""
        squares = (self.targets[:, rows] - outputs).square() / self.noise[rows]
        return 0.5 * squares.sum(dim=(1, 2))

    def perturbed(self, n_draws: int, generator: Generator) -> GaussianData:
        """Return targets with further noise, drawn for each of `n_draws`."""
        _, n, n_outputs = self.targets.shape
        size = n_draws, n, n_outputs
        draws = normals(size, generator)
        added = draws.to(self.targets) * self.noise.sqrt()
        return GaussianData(self.targets + added, self.noise)


@dataclass(frozen=True)
class CategoricalData:
    """Classes, whose probabilities are the softmax of the scaled outputs."""

    codes: Tensor  # class codes (n,)
    weights: Tensor  # (n,), of the samples
    scale: float = 1.0  # factor of the outputs

    def __call__(self, outputs: Tensor, rows: Tensor | slice) -> Tensor:
        """Return the sums (k,) over these samples, from outputs (k, n, n_classes)."""
        codes = self.codes[rows].expand(outputs.shape[:2])
        losses = cross_entropy(self.scale * outputs.mT, codes, reduction="none")
        return losses @ self.weights[rows]


@dataclass(frozen=True)
class WeightPrior:
    """Independent standard normal parameters, around 0 or around anchors."""

    anchors: Parameters | None = None  # means, for each draw; None is 0

    def __call__(self, parameters: Parameters, outputs: Tensor) -> Tensor:
        """Return half the sum of squares (k,) of the distances to the anchors."""
        total = outputs.new_zeros(len(outputs))
        for name, values in parameters.items():
            gaps = values if self.anchors is None else values - self.anchors[name]
            total = total + 0.5 * gaps.square().reshape(len(gaps), -1).sum(1)
        return total

    def on_batch(
        self, parameters: Parameters, outputs: Tensor, _rows: Tensor
    ) -> Tensor:
        """Return the same: the parameters are known whatever is read."""
        return self(parameters, outputs)


@dataclass(frozen=True)
class FunctionPrior:
    """A Gaussian process for the outputs at all inputs of the potential."""

    factor: Tensor  # (m, m), lower Cholesky factor of the covariance C of the outputs
    # Prior means (1 or k, m, n_outputs); draws of covariance C for "bootstrap".
    means: Tensor

    def __call__(self, _parameters: Parameters, outputs: Tensor) -> Tensor:
        """Return half the quadratic forms (k,) of outputs (k, m, n_outputs)."""
        gaps = (outputs - self.means).transpose(0, 1)  # (m, k, n_outputs)
        whitened = half_solve(self.factor, gaps.flatten(1))
        return 0.5 * whitened.square().sum(0).reshape(gaps.shape[1:]).sum(1)

    def on_batch(
        self, _parameters: Parameters, _outputs: Tensor, _rows: Tensor
    ) -> Tensor:
        """Raise a TypeError: a density of all outputs reads all of them."""
        raise TypeError("Steps on some of the samples need a prior of features.")


@dataclass(frozen=True)
class Potential:
    """Negative log posterior density of each draw, up to a constant."""

    network: BatchedNetwork
    # The n training samples, then further inputs that only the prior reads.
    inputs: Tensor
    n_samples: int  # the number n
    data: DataTerm  # term of the training samples
    prior: PriorTerm

    def __call__(self, parameters: Parameters) -> Tensor:
        """Return the potential (k,) of each draw."""
        outputs = self.network.outputs(parameters, self.inputs)
        data = self.data(outputs[:, : self.n_samples], slice(0, self.n_samples))
        return data + self.prior(parameters, outputs)

    @property
    def n_rows(self) -> int:
        """Number of inputs, which batches are drawn from."""
        return len(self.inputs)

    def on_batch(self, parameters: Parameters, rows: Tensor) -> Tensor:
        """Return unbiased estimates (k,) of the potential from some of the inputs."""
        n_data = len(rows)
        if self.n_rows > self.n_samples:  # samples first, then what the prior reads
            rows = rows.sort().values
            n_data = int((rows < self.n_samples).sum())
        outputs = self.network.outputs(parameters, self.inputs[rows])
        share = self.n_rows / len(rows)
        data = share * self.data(outputs[:, :n_data], rows[:n_data])
        return data + self.prior.on_batch(parameters, outputs, rows)

    def renew(
        self, parameters: Parameters, n_rows: int, generator: Generator | None = None
    ) -> None:
        """Renew the outputs that a prior of features knows; others ignore them.

        The outputs of `n_rows` inputs are computed at once. Without a generator, which
        draws coefficients, the most probable ones are set.
        """
        if not isinstance(self.prior, FeaturePrior):
            return
        with torch.no_grad():
            parts = [
                self.network.outputs(parameters, part)
                for part in torch.split(self.inputs, n_rows)
            ]
            self.prior.renew(torch.cat(parts, dim=1), generator)


def sample_functions(
    factor: Tensor, n_draws: int, n_outputs: int, generator: Generator
) -> Tensor:
    """Return draws (n_draws, m, n_outputs) of covariance L L^T, for L = `factor`."""
    normal = normals((n_draws, len(factor), n_outputs), generator, factor.dtype)
    return factor @ normal.to(factor.device)
