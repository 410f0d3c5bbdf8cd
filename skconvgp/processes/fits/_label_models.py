"""Models of labels that determine the noise of their targets, or have none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import Likelihood, LinkLikelihood, Targets
from skconvgp._tensors import int_range
from skconvgp.inference import (
    LABEL_COPIES,
    EqualInputs,
    LaplaceFit,
    fit_labels,
    fit_laplace,
    laplace_matrices,
    laplace_slopes,
    leave_one_out_laplace,
)


@dataclass(frozen=True)
class LabelPosterior:
    """Latent functions of classes, fitted to labels."""

    # (n, k): means minus the offset are prior covariances times these.
    dual: Tensor
    evidence: float
    state: Any  # has ``covariance`` and ``joint_covariance`` of new samples
    loo_mean: Tensor  # (n, k), leave-one-out means, without the offset
    # (n, k) variances, or (n, k, k) covariances between the functions.
    loo_cov: Tensor
    converged: bool = True  # whether the tolerance was met
    jitter: float = 0.0  # largest jitter that had to be added to a diagonal; 0 if none
    # Least noise of a sample; larger jitter changes the model.
    least_noise: float = math.inf


class HasLikelihood(Protocol):
    """A likelihood, with prior means of its latent functions."""

    @property
    def likelihood(self) -> Any:
        """The likelihood."""
        ...

    @property
    def offset(self) -> Any:
        """Prior means (k,) of the latent functions."""
        ...


class LabelModel(HasLikelihood, Protocol):
    """A likelihood, with the labels to which it is fitted."""

    @property
    def has_one_latent(self) -> bool:
        """Whether two classes share one function: the first has its negative."""
        ...

    def n_copies(self) -> int:
        """Return how many matrices of the size of the Gram matrix are held at once."""
        ...

    def take(self, indices: Tensor) -> LabelModel:
        """Return the model of the samples at these indices."""
        ...

    def evidence(self, gram: Tensor, nugget: float) -> float:
        """Return the log evidence, given prior covariances (n, n) and added noise."""
        ...

    def fit(self, gram: Tensor, nugget: float) -> LabelPosterior:
        """Fit with prior covariances (n, n), which are overwritten, and added noise."""
        ...


@dataclass(frozen=True)
class NoisyModel:
    """Regression on targets whose noise variances follow from the labels."""

    likelihood: Likelihood  # it made the targets
    targets: Targets  # with noise variances (n, k)
    weights: Tensor  # (n,), sample weights
    inputs: EqualInputs  # which samples have equal inputs

    @property
    def offset(self) -> Tensor:
        """Prior means (k,)."""
        return self.targets.offset

    @property
    def noise(self) -> Tensor:
        """Noise variances (n, k)."""
        assert self.targets.noise is not None
        return self.targets.noise

    @property
    def has_one_latent(self) -> bool:
        """Whether the targets of two classes are each other's negatives."""
        values, noise = self.targets.values, self.noise
        if values.shape[1] != 2:
            return False
        is_same = torch.equal(noise[:, 0], noise[:, 1])
        return is_same and torch.equal(values[:, 0], -values[:, 1])

    def n_copies(self) -> int:
        """Return how many matrices are held at once."""
        return 1 + LABEL_COPIES  # the first is the matrix for amplitude 1

    def take(self, indices: Tensor) -> NoisyModel:
        """Return the model of the samples at these indices; the offset stays."""
        values = self.targets.values[indices]
        targets = Targets(values, self.offset, self.noise[indices])
        inputs = self.inputs.take(indices)
        return NoisyModel(self.likelihood, targets, self.weights[indices], inputs)

    def evidence(self, gram: Tensor, nugget: float) -> float:
        """Return the log evidence of the targets."""
        return float(self.fit(gram, nugget).evidence)

    def fit(self, gram: Tensor, nugget: float) -> LabelPosterior:
        """Fit by one factorisation."""
        values = self.targets.values - self.targets.offset
        noise, weights = self.noise.to(gram) + nugget, self.weights.to(gram)
        inputs = self.inputs.to(gram.device)
        fit = fit_labels(gram, values.to(gram), noise, weights, inputs)
        # Two latent functions that are negatives of each other are one function with
        # one set of targets: its evidence counts once.
        evidences = fit.evidence[:1] if self.has_one_latent else fit.evidence
        return LabelPosterior(
            fit.dual,
            float(evidences.sum()),
            fit.state,
            fit.loo_mean,
            fit.loo_var,
            jitter=fit.state.jitter,
            least_noise=float((noise / weights[:, None]).min()),
        )


class LinkModel:
    """Class labels with a link likelihood, by Laplace's approximation.

    Parameters
    ----------
    likelihood : LinkLikelihood
        Likelihood of the labels given the latent functions.
    codes : Tensor of shape (n,)
        Class codes.
    n_classes : int
        Number of classes.
    """

    def __init__(
        self, likelihood: LinkLikelihood, codes: Tensor, n_classes: int
    ) -> None:
        self.likelihood = likelihood
        self._codes, self._n_classes = codes, n_classes
        self._n_latents = likelihood.n_latents(n_classes)
        # Dual coefficients of the last mode, from which the next search begins.
        self._start: Tensor | None = None

    @property
    def offset(self) -> Tensor:
        """Prior means (k,), all zero."""
        return torch.zeros(self._n_classes, dtype=torch.float64, device="cpu")

    @property
    def has_one_latent(self) -> bool:
        """Whether there is a single latent function."""
        return self._n_latents == 1

    def n_copies(self) -> int:
        """Return how many matrices are held at once."""
        # The matrices for amplitude 1 and for the present amplitude.
        return 2 + laplace_matrices(self._n_latents)

    def take(self, indices: Tensor) -> LinkModel:
        """Return the model of the samples at these indices."""
        return self.with_labels(self._codes[indices])

    def with_labels(self, codes: Tensor) -> LinkModel:
        """Return the model of samples with these class codes."""
        return LinkModel(self.likelihood, codes, self._n_classes)

    def has_labels(self, codes: Tensor) -> bool:
        """Return whether the model has these class codes."""
        return torch.equal(codes, self._codes)

    def evidence(self, gram: Tensor, nugget: float) -> float:
        """Return the approximate log evidence of the labels."""
        return self._fit(gram, nugget).evidence

    def slopes(self, gram: Tensor, nugget: float) -> tuple[float, Tensor]:
        """Return `evidence`, and its derivatives (n, n) by the prior covariances."""
        fit = self._fit(gram, nugget)
        codes = self._codes.to(gram.device)
        return fit.evidence, laplace_slopes(gram, codes, self.likelihood.sites, fit)

    def fit(self, gram: Tensor, nugget: float) -> LabelPosterior:
        """Fit by Newton's method; the nugget is a noise of the latent functions."""
        fit = self._fit(gram, nugget)
        mean, cov = leave_one_out_laplace(gram, fit)
        variances = cov.diagonal(dim1=1, dim2=2)
        variances.sub_(nugget).clamp_(min=0.0)  # of the functions without nugget
        dual = fit.dual
        if dual.shape[1] == 1:  # of the second class; the first has its negative
            dual, mean = _of_two_classes(dual), _of_two_classes(mean)
            cov = cov[:, :, 0].expand(-1, 2)
        return LabelPosterior(
            dual,
            fit.evidence,
            fit.state,
            mean,
            cov,
            fit.converged,
            jitter=fit.state.jitter,
            least_noise=1.0,  # the factored matrix is I + W^1/2 K W^1/2
        )

    def _fit(self, gram: Tensor, nugget: float) -> LaplaceFit:
        gram.diagonal().add_(nugget)
        codes = self._codes.to(gram.device)
        sites = self.likelihood.sites
        fit = fit_laplace(gram, codes, self._n_latents, sites, start=self._start)
        self._start = fit.dual
        return fit


def left_out_loss(
    model: HasLikelihood,
    mean: Tensor,
    cov: Tensor,
    codes: Tensor,
    weights: Tensor,
    knows_variances: bool,
) -> float:
    """Return the mean log loss of leave-one-out probabilities.

    They are calibrated first, if the likelihood has a calibration: with variances, if
    those of new samples will be known. Means (n, k) lack the offset; `cov` has
    variances (n, k) or covariances (n, k, k).
    """
    mean = mean.to("cpu", torch.float64) + model.offset
    cov, weights = cov.to(mean), weights.to(mean)
    if hasattr(model.likelihood, "calibrate"):
        var = cov if knows_variances else None
        calibration = model.likelihood.calibrate(mean, var, codes, weights)
        mean, cov = calibration.latents(mean, cov)
    probabilities = model.likelihood.probabilities(mean, cov)
    of_label = probabilities.gather(1, codes[:, None])[:, 0]
    loss = -of_label.clamp(min=torch.finfo(of_label.dtype).tiny).log()
    return float((loss * weights).sum() / weights.sum())


def spread_over_classes(codes: NDArray[Any], most: int) -> Tensor:
    """Return sorted indices of at most so many samples, in the same class shares."""
    n = len(codes)
    if n <= most:
        return int_range(n)
    by_class = np.argsort(codes, kind="stable")
    return torch.from_numpy(np.sort(by_class[np.linspace(0, n - 1, most).astype(int)]))


def with_variances(cov: Tensor, more: Tensor) -> Tensor:
    """Return variances (n, k) or covariances (n, k, k), with more (n,) variance."""
    if cov.ndim == 2:
        return cov + more[:, None]
    return cov + torch.diag_embed(more[:, None].expand(cov.shape[:2]))


def _of_two_classes(columns: Tensor) -> Tensor:
    """Return the columns of both classes, given the columns of the second."""
    return torch.cat([-columns, columns], dim=1)
