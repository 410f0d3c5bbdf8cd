r"""A Gaussian process of features as prior, for steps that read some of the samples.

The density of outputs with the covariance :math:`\Phi \Phi^\top + \gamma I` reads all
of them. Given coefficients :math:`\beta` it is a product over samples, and the integral
over standard normal coefficients is the density again: docs/maths.rst, "Finite
networks".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Generator, Tensor

from skconvgp._tensors import int_range, normals
from skconvgp.linalg import back_solve, cholesky_solve, shifted_cholesky_
from skconvgp.networks._batched import Parameters

__all__ = ["FeaturePrior", "feature_prior"]


@dataclass
class FeaturePrior:
    """A Gaussian process with the covariance of features plus a noise.

    The coefficients change during a training, with :meth:`renew`; until then they are
    0.
    """

    features: Tensor  # Phi (m, r), of all inputs of the potential
    noise: float  # variance gamma > 0 that is added at each input
    factor: Tensor  # (r, r), lower Cholesky factor of Phi^T Phi + gamma I
    # Prior means (1 or k, m, n_outputs); draws of the prior for "bootstrap".
    means: Tensor
    coefficients: Tensor = field(init=False)

    def __post_init__(self) -> None:
        """Begin with coefficients of 0."""
        self.coefficients = self.features.new_zeros(
            1, self.features.shape[1], self.means.shape[2]
        )

    def __call__(self, parameters: Parameters, outputs: Tensor) -> Tensor:
        """Return the values (k,) given the coefficients, at all inputs."""
        rows = int_range(len(self.features), outputs.device)
        return self.on_batch(parameters, outputs, rows)

    def on_batch(
        self, _parameters: Parameters, outputs: Tensor, rows: Tensor
    ) -> Tensor:
        """Return unbiased estimates (k,) of these values from outputs at some rows."""
        gaps = outputs - self.means[:, rows] - self.features[rows] @ self.coefficients
        share = 0.5 * len(self.features) / (len(rows) * self.noise)
        penalty = 0.5 * self.coefficients.square().sum((1, 2))
        return share * gaps.square().sum((1, 2)) + penalty

    def renew(self, outputs: Tensor, generator: Generator | None) -> None:
        """Set the coefficients to a draw given outputs at all inputs, or to its mean.

        The outputs are (k, m, n_outputs). Without a generator the mean is set, which
        has the largest density.
        """
        sums = self.features.mT @ (outputs - self.means)  # (k, r, n_outputs)
        n_draws, n_features, n_outputs = sums.shape
        columns = sums.transpose(0, 1).flatten(1)
        means = cholesky_solve(self.factor, columns)
        if generator is not None:
            normal = normals(means.shape, generator, means.dtype)
            spread = back_solve(self.factor, normal.to(means.device))
            means = means + self.noise**0.5 * spread
        split = means.reshape(n_features, n_draws, n_outputs)
        self.coefficients = split.transpose(0, 1)


def feature_prior(
    features: Tensor,
    noise: float,
    n_outputs: int,
    *,
    n_draws: int = 0,
    generator: Generator,
) -> FeaturePrior:
    """Return the prior of features (m, r) of all inputs, with a noise > 0 at each.

    `n_draws` means are drawn from the prior; 0 is one mean, which is 0.
    """
    n_features = features.shape[1]
    factor, _ = shifted_cholesky_(
        features.mT @ features, features.new_full((n_features,), noise)
    )
    means = features.new_zeros(1, 1, n_outputs).expand(1, len(features), n_outputs)
    if n_draws:
        of_features, of_noise = (
            normals((n_draws, size, n_outputs), generator).to(features)
            for size in (n_features, len(features))
        )
        means = features @ of_features + noise**0.5 * of_noise
    return FeaturePrior(features, noise, factor, means)
