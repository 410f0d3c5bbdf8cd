"""Latent functions of classes by features, if each label gives targets and noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skconvgp._protocols import Targets
from skconvgp._tensors import int_range
from skconvgp._typing import FloatArray
from skconvgp.engine import freeze, rows_to_tensor
from skconvgp.inference import (
    ClassSums,
    Coefficients,
    EqualInputs,
    FeaturePosterior,
    FeatureSums,
    LabelCode,
    feature_evidence,
    feature_posterior,
)
from skconvgp.linalg import cholesky_inverse, shifted_cholesky_
from skconvgp.processes._coefficients import CoefficientState
from skconvgp.processes._label_models import NoisyModel
from skconvgp.processes._problem import Problem

LEAST_FOR_MEAN = 3  # functions; the factor of two takes longer than it saves


def model_of_classes(model: NoisyModel, problem: Problem) -> NoisyModel:
    """Return the model of a sample of each class, given the model of all samples."""
    n_classes = len(model.offset)
    every = int_range(n_classes)
    codes = torch.cat([rows_to_tensor(problem.class_codes), every])
    # Classes are added with weights of zero, so that none is missing.
    weights = torch.cat([model.weights, model.weights.new_zeros(n_classes)])
    targets = model.likelihood.targets(codes, n_classes, weights)
    assert targets.noise is not None
    own = Targets(targets.values[-n_classes:], model.offset, targets.noise[-n_classes:])
    return NoisyModel(
        model.likelihood,
        own,
        torch.ones(n_classes, dtype=torch.float64, device="cpu"),
        EqualInputs(every),
    )


@dataclass(frozen=True)
class Candidate:
    """A likelihood, with the amplitude that belongs to it.

    Parameters
    ----------
    model : NoisyModel
        Model of a sample of each class.
    amplitude : float
        Mean prior variance of the latent functions.
    code : LabelCode
        Targets and noise of each label.
    """

    model: NoisyModel
    amplitude: float
    code: LabelCode

    @classmethod
    def of(
        cls, model: NoisyModel, amplitude: float, noise: float, device: torch.device
    ) -> Candidate:
        """Return a model with its code.

        Parameters
        ----------
        model : NoisyModel
            Model of a sample of each class.
        amplitude : float
            Mean prior variance of the latent functions.
        noise : float
            Noise that is added to that of the labels, as a share of the amplitude.
        device : torch.device
            Device of the code.
        """
        code = LabelCode.of(model.targets, amplitude, noise)
        code = code.of_second() if model.has_one_latent else code
        return cls(model, amplitude, code.to(device))

    def sums(self, of_classes: ClassSums, whole: Tensor) -> Iterator[FeatureSums]:
        """Yield the sums of each latent function, given the sums of each class."""
        for i in range(self.code.noise.shape[1]):
            yield of_classes.of_function(i, self.code, whole)


@dataclass(frozen=True)
class Functions:
    """Posterior of k latent functions.

    Parameters
    ----------
    coefficients : Tensor of shape (r, k)
        Posterior means of the coefficients.
    evidence : float
        Log evidence of all of them.
    jitters : ndarray of shape (k,)
        Jitter that had to be added to the diagonal of each precision.
    mean, var : Tensor of shape (q, k)
        Means and variances at samples whose features were given.
    """

    coefficients: Tensor
    evidence: float
    jitters: FloatArray
    mean: Tensor
    var: Tensor


def fit_functions(
    each: Iterable[FeatureSums],
    amplitude: float,
    features: Tensor,
    factors: Tensor | None = None,
) -> Functions:
    """Return the posterior of latent functions, given the sums of each.

    Parameters
    ----------
    each : iterable of FeatureSums
        Sums of the k functions, made one after the other.
    amplitude : float
        Mean prior variance of the functions.
    features : Tensor of shape (q, r)
        Features of samples.
    factors : Tensor of shape (k, r, r), optional
        Overwritten by the Cholesky factors of the precisions, each after its sums have
        been made.
    """
    means, jitters, marginals, evidence = [], [], [], 0.0
    for i, sums in enumerate(each):
        posterior = feature_posterior(sums)
        evidence += float(
            feature_evidence(sums, posterior, sums.energy.new_tensor([amplitude]))[0]
        )
        mean = posterior.mean[:, 0]
        means.append(mean)
        jitters.append(posterior.jitter)
        marginals.append(Coefficients(posterior.factor, mean).marginals(features))
        if factors is not None:
            factors[i] = posterior.factor
    mean, var = (torch.stack(part, 1) for part in zip(*marginals, strict=True))
    return Functions(torch.stack(means, 1), evidence, np.array(jitters), mean, var)


def kept_state(
    factors: Tensor, jitters: FloatArray, n_classes: int, lift_map: Any = None
) -> CoefficientState:
    """Return the factors (k, r, r) that a process keeps, as arrays.

    Factors of the second of two classes alone are copied, so that the moments of the
    first, which lie beside them, are freed. From three functions on, their mean
    covariance has a factor as well.
    """
    few = len(factors) < LEAST_FOR_MEAN
    kept = factors.clone() if len(factors) < n_classes else factors
    mean_factor = None if few else _mean_factor(factors)[None]
    return freeze(CoefficientState(kept, lift_map, jitters, mean_factor))


def _mean_factor(factors: Tensor) -> Tensor:
    """Return the factor of the inverse of the mean of (L L^T)^-1 over factors L."""
    no_shift = factors.new_zeros(factors.shape[1])
    work = torch.zeros_like(factors[0])
    for factor in factors:
        work += cholesky_inverse(factor)
    work = shifted_cholesky_(work.div_(len(factors)), no_shift)[0]
    work = cholesky_inverse(work)
    return shifted_cholesky_(work, no_shift)[0]


def sums_with(
    more: ClassSums,
    code: LabelCode,
    weights: Tensor,
    factors: Tensor,
    coefficients: Tensor,
    jitters: FloatArray,
) -> Iterator[FeatureSums]:
    """Yield the sums of each latent function over earlier and further samples.

    Those over earlier samples are recovered from the posterior that followed from them.

    Parameters
    ----------
    more : ClassSums
        Sums over the further samples.
    code : LabelCode
        Targets and noise of each label.
    weights : Tensor of shape (c,)
        Total weights of the earlier samples of each class.
    factors : Tensor of shape (k, r, r)
        Factors of the precisions of the coefficients, given the earlier samples.
    coefficients : Tensor of shape (r, k)
        Their posterior means.
    jitters : ndarray of shape (k,)
        Jitter that had to be added to the diagonal of each precision.
    """
    energy, log_noise = code.energy(weights), code.log_noise(weights)
    whole = more.moments.sum(0)
    for i, jitter in enumerate(jitters):
        mean = coefficients[:, i : i + 1]
        moment, response = FeaturePosterior(factors[i], mean, float(jitter)).sums()
        before = FeatureSums(
            moment, response, energy[i : i + 1], log_noise[i], weights.sum()
        )
        yield before + more.of_function(i, code, whole)
