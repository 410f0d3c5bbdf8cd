"""Protocols of inference: solvers and likelihoods."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import torch
from torch import Tensor

from skconvgp._protocols._familiarity import Familiarity
from skconvgp._protocols._matrices import GramOperator

__all__ = [
    "Calibration",
    "ExpectedSites",
    "IterativeSolver",
    "Likelihood",
    "LinkLikelihood",
    "RefiningSolver",
    "SiteFunction",
    "Sites",
    "Solution",
    "Solver",
    "Targets",
    "VariationalLikelihood",
]

State = TypeVar("State")


@dataclass(frozen=True)
class Solution:
    """Result of a solve.

    Parameters
    ----------
    value : Tensor of shape (n, k)
        The solution, converged or not.
    converged : bool
        Whether the tolerance was met.
    stats : dict
        Figures of the solve, such as iterations and residual.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.solvers import Solution
    >>> Solution(torch.zeros(3, 1)).converged
    True
    """

    value: Tensor
    converged: bool = True
    stats: dict[str, float] = field(default_factory=dict)


@runtime_checkable
class Solver(Protocol[State]):
    """Solves M x = rhs with M = gram + diag(noise): factored once, solved many times.

    `init` returns the state: a frozen dataclass of tensors, numbers and such
    dataclasses, with an attribute `jitter`. A fitted model keeps nothing else of the
    training matrix. All methods but `solve` count as exact, even if a solution has not
    converged; a solver for which that is wrong is a `RefiningSolver`.
    """

    def init(self, gram: GramOperator, noise: Tensor) -> State:
        """Factor the matrix; `noise` (n,) is added to its diagonal."""
        ...

    def solve(self, state: State, rhs: Tensor) -> Solution:
        """Solve for right-hand sides (n, k)."""
        ...

    def half_solve(self, state: State, rhs: Tensor) -> Tensor:
        """Return R (m, k) with R^T R = rhs^T M^-1 rhs."""
        ...

    def logdet(self, state: State) -> Tensor:
        """Return log |M|."""
        ...

    def inverse_diag(self, state: State) -> Tensor:
        """Return the diagonal (n,) of M^-1."""
        ...


@runtime_checkable
class FactoredSolver(Solver[State], Protocol[State]):
    """A solver whose state gives the matrix back."""

    def product(self, state: State) -> Tensor:
        """Return M (n, n), with the jitter that had to be added."""
        ...

    def rows(self, state: State, rows: slice) -> Tensor:
        """Return rows (b, m) of M up to its diagonal, where m is their end."""
        ...


@runtime_checkable
class RefiningSolver(Solver[State], Protocol[State]):
    """A solver whose solutions are iterated to a tolerance.

    If a solution has not converged, no other result counts as exact. An entry of the
    diagonal of M^-1 costs a solve, so that few samples are left out where few suffice.
    """

    def inverse_diag_of(self, state: State, indices: Tensor) -> Tensor:
        """Return the entries (m,) of the diagonal of M^-1 at these indices."""
        ...

    def logdet_estimate(self, state: State) -> tuple[Tensor, Tensor]:
        """Return an estimate of log |M| and its error."""
        ...


@runtime_checkable
class IterativeSolver(RefiningSolver[State], Protocol[State]):
    """A solver that needs only products with the matrix, which need not be stored.

    Its state also has the attributes `noise` and `gram`, the operator. If the operator
    stores no matrix, a fitted model sets `gram` to None while it is not used. R^T R of
    `half_solve` may be smaller than rhs^T M^-1 rhs, never larger: predictive variances
    then are upper bounds.
    """

    def n_values(self, n_samples: int) -> int:
        """Return the number of values that it holds at once beside the matrix."""
        ...

    def left_out_variances(self, state: State, indices: Tensor) -> Tensor | None:
        """Return leave-one-out variances (m,) with the bound of `half_solve`.

        They estimate 1 / (M^-1)_ii from above. None if `half_solve` is exact, as then
        1 / `inverse_diag_of` is the same.
        """
        ...

    def inverse_factors(self, state: State) -> tuple[Tensor, Tensor, Tensor]:
        """Return A, B (n, r) and d (n,): A B^T + diag(d) is an estimate of M^-1.

        It gives derivatives of log |M|: by a hyperparameter, the trace of M^-1 dM.
        """
        ...

    def for_search(self) -> "IterativeSolver[State]":
        """Return a cheaper solver for the search for hyperparameters.

        A search calls only `init`, `solve`, `logdet` and `inverse_factors`.
        """
        ...


@dataclass(frozen=True)
class Targets:
    """Regression targets that a likelihood makes of class labels.

    Parameters
    ----------
    values : Tensor of shape (n, k)
        Regression targets, one column for each class.
    offset : Tensor of shape (k,)
        Prior mean of each latent function.
    noise : Tensor of shape (n, k) or None
        Noise variance of a single observation of each target, in its squared units, if
        the labels determine it. None if all targets share the `noise_variance` of the
        classifier.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Targets
    >>> Targets(values=torch.eye(3), offset=torch.zeros(3)).offset
    tensor([0., 0., 0.])
    """

    values: Tensor
    offset: Tensor
    noise: Tensor | None = None


@dataclass(frozen=True)
class Calibration:
    r"""Transformation of latents into logarithms of probabilities.

    .. math::

        z_c = \frac{m_c + b_c}{\sqrt{T^2 + \kappa \bar v}}, \qquad
        y_c = \frac{\mathrm{asinh}(\beta (z_c - \bar z))}{\beta}, \qquad
        p = (1 - \epsilon)\, \mathrm{softmax}(y) + \frac{\epsilon}{C}, \qquad
        p' = \lambda p + \frac{1 - \lambda}{C}

    where m are the latent means and v their variances, and a bar denotes the mean over
    the C classes. If :math:`\beta` is 0, y = z. The share :math:`\lambda` is 1 for
    samples that are like left-out training samples, and falls to 0 for others.

    Parameters
    ----------
    temperature : float, default=1.0
        The divisor T, in units of the latents.
    spread : float, default=0.0
        The factor :math:`\kappa`, by which a large variance shrinks the latents.
    offsets : tuple of float, default=()
        The offsets b, one for each class, in units of the latents; empty for none.
    bend : float, default=0.0
        The factor :math:`\beta`. Odds grow exponentially with latents up to about
        :math:`1 / \beta`, and as a power of larger ones.
    floor : float, default=0.0
        The share :math:`\epsilon` of labels that are any class with equal probability.
    familiarity : Familiarity, optional
        How the share :math:`\lambda` is found; None if it is 1 for all samples.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Calibration
    >>> mean, var = torch.tensor([[0.3, 0.6]]), torch.tensor([[0.16, 0.16]])
    >>> Calibration(temperature=0.3, spread=1.0).latents(mean, var)[0]
    tensor([[0.6000, 1.2000]])
    """

    temperature: float = 1.0
    spread: float = 0.0
    offsets: tuple[float, ...] = ()
    bend: float = 0.0
    floor: float = 0.0
    familiarity: Familiarity | None = field(default=None, repr=False)

    def latents(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        """Return latents whose softmax gives the probabilities, and their variances.

        Bend and floor do not change the variances. `var` may be empty if the spread
        is 0.
        """
        if self.offsets:
            mean = mean + mean.new_tensor(self.offsets)
        if self.spread == 0.0:
            latents, var = mean / self.temperature, var / self.temperature**2
        else:
            common = var.mean(1, keepdim=True)
            square = self.temperature**2 + self.spread * common
            latents, var = mean / square.sqrt(), var / square
        return self._lifted(self._bent(latents)), var

    def _bent(self, latents: Tensor) -> Tensor:
        if self.bend == 0.0:
            return latents
        # A softmax ignores shifts of all classes, asinh does not: hence the centring.
        centred = latents - latents.mean(1, keepdim=True)
        return (self.bend * centred).asinh() / self.bend

    def _lifted(self, latents: Tensor) -> Tensor:
        """Return the logarithms of the probabilities, with the floor."""
        if self.floor == 0.0:
            return latents
        # The sum in log space, as small probabilities would underflow.
        log_probs = torch.log_softmax(latents, dim=1) + math.log1p(-self.floor)
        lowest = math.log(self.floor / latents.shape[1])
        return torch.logaddexp(log_probs, torch.full_like(log_probs, lowest))

    def faded(
        self, probabilities: Tensor, mean: Tensor, var: Tensor, seen: dict[str, Tensor]
    ) -> Tensor:
        """Return probabilities (n, k) that fade for samples unlike those left out.

        `mean` and `var` (n, k) are as for `latents`; `seen` has prior variances and
        contrasts (n,) of the samples, as far as they are known.
        """
        if self.familiarity is None:
            return probabilities
        share = self.familiarity.share(mean, var if var.numel() else None, seen)
        share = share[:, None]
        return share * probabilities + (1.0 - share) / probabilities.shape[1]


@runtime_checkable
class Likelihood(Protocol):
    """A likelihood as regression: labels become targets, latents probabilities.

    Optional method ``calibrate(mean, var, codes, weights) -> Calibration``: fits the
    calibration to leave-one-out means (n, k) and variances (n, k); `var` is None if the
    variances of new samples will not be known.

    Optional method ``candidates() -> sequence of likelihoods``: the classifier fits
    all of them and uses the one with the lowest leave-one-out log loss; the first one
    if the samples are too few to tell.
    """

    def targets(self, codes: Tensor, n_classes: int, weights: Tensor) -> Targets:
        """Turn class codes (n,) into regression targets; weights (n,) of samples."""
        ...

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn calibrated means and variances (n, k) into probabilities (n, k)."""
        ...

    @property
    def needs_variance(self) -> bool:
        """Whether `probabilities` reads the variances; if not, they may be empty."""
        ...


@dataclass(frozen=True)
class Sites:
    """Log likelihood of each observation, and its derivatives by the latents.

    Parameters
    ----------
    log_prob : Tensor of shape (n,)
        Log probability, or log density, of the observation.
    gradient : Tensor of shape (n, k)
        Its first derivatives by the latents.
    curvature : Tensor of shape (n, k)
        One latent function: minus the second derivative, >= 0. Several: the class
        probabilities p; minus the second derivatives then are diag(p) - p p^T.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Laplace
    >>> Laplace().sites(torch.zeros(1, 1), torch.tensor([1])).gradient
    tensor([[0.5000]])
    """

    log_prob: Tensor
    gradient: Tensor
    curvature: Tensor

    def precision(self) -> Tensor:
        """Return minus the second derivatives (n, k, k) of the log likelihood."""
        if self.curvature.shape[1] == 1:
            return self.curvature[:, :, None]
        outer = self.curvature[:, :, None] * self.curvature[:, None, :]
        return torch.diag_embed(self.curvature) - outer


# Called with latents (n, k) and observations (n,).
SiteFunction: TypeAlias = Callable[[Tensor, Tensor], Sites]


@runtime_checkable
class LinkLikelihood(Protocol):
    """A likelihood of the labels themselves, with a link from latents to probabilities.

    The posterior is not Gaussian and is approximated.
    """

    def n_latents(self, n_classes: int) -> int:
        """Return the number k of latent functions: one for each class, or one.

        Two classes may share one latent function. It is the function of the second
        class; that of the first is its negative.
        """
        ...

    def sites(self, latents: Tensor, codes: Tensor) -> Sites:
        """Return the log likelihood of class codes (n,) and its derivatives.

        The latents have the shape (n, k). Compute with torch operations only: learning
        differentiates the evidence through the curvature.
        """
        ...

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn latent means (n, n_classes) into probabilities (n, n_classes).

        `var` holds variances (n, n_classes) if there is one latent function, else
        covariances (n, k, k) of the latents of each sample.
        """
        ...


@dataclass(frozen=True)
class ExpectedSites:
    """Expected log likelihood of each label, and its derivatives by the latent means.

    Parameters
    ----------
    log_prob : Tensor of shape (n,)
        Expectations of the log probabilities of the labels.
    gradient : Tensor of shape (n, k)
        Their first derivatives by the means of the latents.
    curvature : Tensor of shape (n, k)
        Minus their second derivatives, each by the mean of one latent; those below 0
        count as 0.
    by_variance : Tensor of shape (n, k), optional
        Their derivatives by the variances of the latents, half the second derivatives.
        None if they are minus half of `curvature`.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Bernoulli
    >>> zero, label = torch.zeros(1, 1), torch.tensor([1])
    >>> Bernoulli("logit").expected_sites(zero, zero, label).gradient
    tensor([[0.5000]])
    """

    log_prob: Tensor
    gradient: Tensor
    curvature: Tensor
    by_variance: Tensor | None = None

    @property
    def variance_slope(self) -> Tensor:
        """Derivatives (n, k) by the variances."""
        return -0.5 * self.curvature if self.by_variance is None else self.by_variance


@runtime_checkable
class VariationalLikelihood(Protocol):
    """A likelihood of the labels themselves, for variational inference.

    The latent functions are independent under the approximate posterior.
    """

    def n_latents(self, n_classes: int) -> int:
        """Return the number k of latent functions: one for each class, or one.

        Two classes may share one latent function. It is the function of the second
        class; that of the first is its negative.
        """
        ...

    def expected_sites(self, mean: Tensor, var: Tensor, codes: Tensor) -> ExpectedSites:
        """Return the expected log likelihood of class codes (n,), and derivatives.

        Means and variances of the latents have the shape (n, k).
        """
        ...

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn means and variances (n, n_classes) into probabilities (n, n_classes)."""
        ...
