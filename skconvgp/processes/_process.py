"""Process: a fitted Gaussian process, which predicts new and left-out samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._tensors import nothing
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    frozen_bytes,
    rows_to_tensor,
    thaw,
    to_numpy,
)
from skconvgp.inference import FeatureSums, LabelCode, posterior_mean
from skconvgp.processes._facts import Clipped, Exceeded, Fact
from skconvgp.processes._model import Model
from skconvgp.processes._problem import Latent
from skconvgp.processes._run import Resources, Run
from skconvgp.processes.basis._basis import Basis, NewRows
from skconvgp.processes.posterior._drawing import NO_BOOTSTRAP, NO_PATHWISE
from skconvgp.processes.posterior._posterior import Draws, Posterior, Spread

CLIP_TOLERANCE = 1e-6  # of the prior variance (docs/maths.rst, "Posterior")


def rounding_facts(basis: Basis, excess: float, clipped: float) -> list[Fact]:
    """Return which variances are wrong by more than rounding.

    Features have explained `excess` more than the prior variance, and a variance of
    -`clipped` became 0.
    """
    facts: list[Fact] = []
    if excess > CLIP_TOLERANCE and not basis.is_projection:
        facts.append(Exceeded(excess))
    if clipped > CLIP_TOLERANCE:
        facts.append(Clipped(clipped))
    return facts


@dataclass(frozen=True)
class Labels:
    """Targets and noise of labels, if the noise follows from them."""

    likelihood: Any  # the one that was chosen
    offset: FloatArray  # (n_outputs,), prior means of the latent functions


@dataclass(frozen=True)
class CodedLabels(Labels):
    """Labels that each give targets and noise, whatever the others are."""

    code: LabelCode = field(repr=False)  # targets and noise of each label, as arrays
    codes: NDArray[np.intp] = field(repr=False)  # (n,), of the samples

    def with_more(self, codes: NDArray[np.intp]) -> Self:
        """Return the labels of these and of further samples (n,)."""
        return replace(self, codes=np.concatenate([self.codes, codes]))

    def class_weights(self, weights: FloatArray) -> Tensor:
        """Return the total weight (c,) of the samples (n,) of each class."""
        n_classes = len(self.offset)
        return rows_to_tensor(np.bincount(self.codes, weights, minlength=n_classes))

    def precision(self, weights: FloatArray) -> float:
        """Return the sum of the precisions of all samples, of weights (n,)."""
        code = thaw(self.code, torch.device("cpu"))
        return float(code.precision(self.class_weights(weights)).sum())


@dataclass(frozen=True)
class Growth:
    """Sums to which further samples are added."""

    reservoir: Any  # random samples of those added so far
    sums: FeatureSums | None = None  # None: they follow from the factors
    coefficients: FloatArray | None = None  # (r, k), if `dual` is of anchors


@dataclass(frozen=True)
class RepeatedTargets:
    """How far targets with equal inputs, which are left out together, differ."""

    # (q, k), weighted sums of squares around the mean of each input, and their number.
    scatter: FloatArray
    units: FloatArray  # (q,), the weight of an input less one: degrees of freedom


@dataclass(frozen=True)
class LeftOutValues:
    """Latent functions of training samples, each given all others."""

    indices: NDArray[np.intp]  # (m,), which samples
    mean: FloatArray  # (m, k), without offsets
    # (m,) in units of the prior, with the noise of an observation; or (m, k), or
    # (m, k, k), without noise.
    var: FloatArray
    has_noise: bool
    facts: list[Fact] = field(default_factory=list)
    repeated: RepeatedTargets | None = None  # None if it is not known


class LeftOut(Protocol):
    """How left-out predictions of a process are found."""

    @property
    def known_means(self) -> FloatArray | None:
        """Means (m, k) that are kept, NaN for those that are not known; or None."""
        ...

    @property
    def keeps_features(self) -> bool:
        """Whether features of samples are kept, if samples can be added."""
        ...

    @property
    def knows_units(self) -> bool:
        """Whether it says, without features, what leaves with each sample."""
        ...

    def has_gram(self, process: Process) -> bool:
        """Return whether a factor gives the Gram matrix back."""
        ...

    def values(
        self, process: Process, resources: Resources, *, is_subset_enough: bool
    ) -> LeftOutValues:
        """Return the predictions; of a subset, if more cost much and it is enough."""
        ...


@dataclass(frozen=True)
class KeptLeftOut:
    """Left-out predictions that a fit has kept.

    After an extension, those of earlier samples are given all samples that had been
    added with each or before it, NaN if they are not known; those of a subset are given
    all samples so far.
    """

    mean: FloatArray
    var: FloatArray
    has_noise: bool
    # Indices of the subset, with its means and variances; None if all are up to date.
    subset: tuple[NDArray[np.intp], FloatArray, FloatArray] | None = None

    keeps_features: ClassVar[bool] = False
    knows_units: ClassVar[bool] = False

    @property
    def known_means(self) -> FloatArray:
        """Means (n, k), NaN for those that are not known."""
        return self.mean

    def values(
        self,
        process: Process,  # noqa: ARG002  (all values are kept)
        resources: Resources,  # noqa: ARG002  (all values are kept)
        *,
        is_subset_enough: bool,
    ) -> LeftOutValues:
        """Return all predictions, or those that are up to date."""
        if is_subset_enough and self.subset is not None:
            return LeftOutValues(*self.subset, self.has_noise)
        every = np.arange(len(self.mean))
        return LeftOutValues(every, self.mean, self.var, self.has_noise)

    def has_gram(self, process: Process) -> bool:  # noqa: ARG002  (no factor is known)
        """Return False."""
        return False

    def followed_by(self, n_more: int, *found: tuple[Any, Any]) -> Self:
        """Return the predictions of these and further samples, some of them found.

        Each of `found` has indices among all and predictions; those of the last are up
        to date. Others of the further samples are not known.
        """
        mean = np.vstack([self.mean, np.full((n_more, self.mean.shape[1]), np.nan)])
        unknown = np.full((n_more, *self.var.shape[1:]), np.nan)
        var = np.concatenate([self.var, unknown])
        for samples, values in found:
            mean[samples], var[samples] = values
        samples, values = found[-1]
        return replace(self, mean=mean, var=var, subset=(samples, *values))


@dataclass(frozen=True)
class Process:
    """A fitted process: a basis, a posterior, and the data."""

    model: Model  # targets, weights, units, noise, amplitude, evidence
    basis: Basis
    posterior: Posterior
    left_out: LeftOut = field(repr=False)
    labels: Labels | None = None  # None if all targets share one noise
    growth: Growth | None = field(default=None, repr=False)  # None: nothing is added
    # Mean prior variance that features leave out, as a share of all.
    unexplained: float = 0.0
    # Whether the function of the first of two classes is the negative of the other's.
    has_one_latent: bool = False
    # A `FoldedBasis`, which gives means alone in less time; None for none.
    folded: Any = field(default=None, repr=False)
    # A `LinearMean` that is integrated out; None for none.
    around: Any = field(default=None, repr=False)

    @property
    def dual(self) -> FloatArray:
        """Dual coefficients: means are the values of the basis times these."""
        return self.posterior.dual

    @property
    def state(self) -> Any:
        """Factors for predictive variances, as arrays."""
        return self.posterior.state

    @property
    def folded_means(self) -> Any:
        """A `FoldedBasis` of the latent means; None if these take the whole basis."""
        if self.basis.gives_means:
            return self.basis
        if self.around is not None:
            return None
        return self.basis.fold(self.dual) if self.folded is None else self.folded

    @property
    def has_left_out(self) -> bool:
        """Whether left-out predictions are exact enough to be used."""
        return self.posterior.is_accurate

    @property
    def bound(self) -> float:
        """Lower bound of the log evidence with all of the prior variance."""
        model, evidence = self.model, self._evidence
        if not self.unexplained:
            return evidence
        if isinstance(self.labels, CodedLabels):
            precision = self.labels.precision(model.weights)
            return evidence - 0.5 * self.unexplained * precision
        left_out = self.unexplained * float(model.weights.sum())
        return evidence - 0.5 * len(model.scale) * left_out / model.noise

    def log_evidence(self, resources: Resources) -> float:  # noqa: ARG002  (is known)
        """Return the log density of the targets."""
        return self._evidence

    @property
    def _evidence(self) -> float:
        assert self.model.log_evidence is not None
        return self.model.log_evidence

    def of_mean_variance(self) -> Self:
        """Return the process for probabilities that follow the mean variance.

        Its one variance is the mean over latent functions, unless that would take as
        long, and covariances may have fewer digits.
        """
        mean_of = getattr(self.posterior, "of_mean_variance", None)
        posterior = self.posterior if mean_of is None else mean_of()
        return replace(self, basis=self.basis.quick(), posterior=posterior)

    def latent(
        self,
        new: NewRows,
        resources: Resources,
        *,
        needs_var: bool = False,
        needs_cov: bool = False,
    ) -> Latent:
        """Return the posterior at new samples, computed a block of rows at a time."""
        basis, unit = self.basis, self.model.mean_diag
        has_state = needs_var or needs_cov
        if self.folded is not None and not has_state:
            mean = self.folded.means(new, resources)
            return Latent(mean, np.empty((0, 1)), np.empty(0))
        needed = frozen_bytes(self.state) if has_state else 0

        def latent_at(placement: Placement) -> Latent:
            run = run_beside(resources, placement, needed)
            around, posterior = self.around, self.posterior
            columns = self.dual if around is None else around.columns(self.dual)
            dual = run.tensor(columns)
            reads_diag = False
            if has_state:
                posterior = posterior.at(basis, run)
                reads_diag = posterior.reads_variances(basis, needs_var=needs_var)
            means, parts, priors = [], [], []
            beyond: list[Tensor | None] = []
            spreads: list[Spread] = []
            blocks = basis.stream(new, run, posterior.width, needs_diag=reads_diag)
            for values, prior in blocks:
                means.append(posterior_mean(values, dual))
                if needs_var:
                    priors.append(prior / unit)
                    spreads.append(posterior.spread(values, prior / unit))
                if needs_cov:
                    part, more = posterior.part(values, prior / unit)
                    parts.append(part)
                    beyond.append(more)
            cov, cov_scale = nothing(0), 0.0
            if needs_cov:
                prior = basis.covariance(new.rows, run, unit)
                cov_scale = float(prior.diagonal().mean())
                cov = posterior.joint(parts, prior)
            var = torch.cat([one.var for one in spreads]) if spreads else nothing(0, 1)
            between = [one.between for one in spreads if one.between is not None]
            excess = _largest([*beyond, *(one.excess for one in spreads)])
            clipped = _largest([one.clipped for one in spreads])
            facts = posterior.facts() if has_state else []
            facts += rounding_facts(basis, excess, clipped)
            found = Latent(
                to_numpy(torch.cat(means)),
                to_numpy(var),
                to_numpy(cov),
                cov_scale,
                to_numpy(torch.cat(between) if between else nothing(0)),
                to_numpy(torch.cat(priors) if reads_diag and priors else nothing(0)),
                facts=facts,
            )
            return found if around is None else around.added(found, new)

        return compute_at(resources.placement(needed), latent_at)

    @property
    def reads_prior_variances(self) -> bool:
        """Whether variances of new samples follow from their prior variances."""
        basis = self.basis
        reads = self.posterior.reads_variances(basis, needs_var=True)
        return basis.knows_variances and reads

    def prior_variances(
        self, rows: NDArray[Any], resources: Resources, run: Run | None = None
    ) -> FloatArray:
        """Return prior variances (n,) of samples, in units of their mean in the fit.

        The run of a fit computes them where it can.
        """

        def variances_at(placement: Placement) -> FloatArray:
            own = run
            if own is None or own.placement != placement:
                own = resources.run(placement)
            return to_numpy(self.basis.variances(rows, own)).astype(np.float64)

        placement = resources.placement(0) if run is None else run.placement
        return compute_at(placement, variances_at) / self.model.mean_diag

    def leave_out(
        self, resources: Resources, *, is_subset_enough: bool = False
    ) -> LeftOutValues:
        """Return latent functions of training samples, each given all others."""
        return self.left_out.values(self, resources, is_subset_enough=is_subset_enough)

    def has_whole_draws(self) -> bool:
        """Return whether draws of functions have all of the posterior variance."""
        return self.around is None and self.posterior.has_whole_draws(self.basis)

    def draws(
        self, rows: NDArray[Any], wanted: Draws, resources: Resources
    ) -> tuple[FloatArray, list[Fact]]:
        """Return draws (n, k, count) of functions at rows (n, d), and their facts.

        A draw is one function: equal generators give equal values at equal samples,
        whatever the other samples are.
        """
        if self.around is not None:
            raise ValueError(NO_BOOTSTRAP if wanted.is_bootstrap else NO_PATHWISE)
        return self.posterior.draws(self.model, self.basis, rows, wanted, resources)


def run_beside(resources: Resources, placement: Placement, needed: int) -> Run:
    """Return how to predict while a state of `needed` bytes is held."""
    # On the CPU the arrays of the state are used without a copy.
    return resources.run(placement, 0 if placement.device.type == "cpu" else needed)


def _largest(values: Sequence[Tensor | float | None]) -> float:
    """Return the largest of numbers of blocks, of which None is 0.

    Those on a GPU are read at once.
    """
    there = [value for value in values if isinstance(value, Tensor)]
    here = [value for value in values if isinstance(value, float)]
    return max([0.0, *here, *([float(torch.stack(there).max())] if there else [])])
