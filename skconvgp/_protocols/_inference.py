"""Seams of inference: solvers and likelihoods."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import torch
from torch import Tensor

from skconvgp._protocols._matrices import GramOperator

__all__ = [
    "Calibration",
    "IterativeSolver",
    "Likelihood",
    "LinkLikelihood",
    "SiteFunction",
    "Sites",
    "Solution",
    "Solver",
    "Targets",
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
        What happened: iterations, residual.

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
    """Solves (gram + diag(noise)) x = rhs: factored once, solved many times.

    `init` returns the state: a frozen dataclass of tensors, numbers and such
    dataclasses, with an attribute `jitter`. A fitted model keeps nothing else of the
    training matrix. The results of the methods other than `solve` count as exact, even
    if a solution has not converged.
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
class IterativeSolver(Solver[State], Protocol[State]):
    """A solver that needs only products with the matrix, which need not be held.

    Its state has two more attributes: the operator `gram` and the `noise`. If the
    operator holds no matrix, a fitted model removes it from the state and puts it back
    when it is needed. If a solution has not converged, no other result of the solver
    counts as exact. The products R^T R of `half_solve` may be too small but never too
    large, so that standard deviations are upper bounds.
    """

    def n_values(self, n_samples: int) -> int:
        """Return how many numbers it holds at once, apart from the matrix."""
        ...

    def inverse_diag_of(self, state: State, numbers: Tensor) -> Tensor:
        """Return the entries (m,) of the diagonal of M^-1 of samples by number."""
        ...

    def left_out_variances(self, state: State, numbers: Tensor) -> Tensor | None:
        """Return 1 / (M^-1)_ii (m,) as computed by `half_solve`, which may be a bound.

        None if `half_solve` is exact.
        """
        ...

    def logdet_estimate(self, state: State) -> tuple[Tensor, Tensor]:
        """Return an estimate of log |M| and its error."""
        ...

    def inverse_factors(self, state: State) -> tuple[Tensor, Tensor, Tensor]:
        """Return A, B (n, r) and d (n,): A B^T + diag(d) is an estimate of M^-1.

        The derivative of log |M| by a hyperparameter is the trace of M^-1 dM.
        """
        ...

    def for_search(self) -> "IterativeSolver[State]":
        """Return a cheaper solver for a search for hyperparameters.

        A search uses only solutions, the determinant and `inverse_factors`.
        """
        ...


@dataclass(frozen=True)
class Targets:
    """What a likelihood asks the latent regression to fit.

    Parameters
    ----------
    values : Tensor of shape (n, k)
        Regression targets, one column for each class.
    offset : Tensor of shape (k,)
        Prior mean of each latent function.
    noise : Tensor of shape (n, k) or None
        Noise variance of a single observation of each target, in its squared units,
        where the labels fix it. None for one that all share, the `noise_variance` of
        the classifier.

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
    r"""What latents go through before they become probabilities.

    .. math::

        z_c = \frac{m_c + b_c}{\sqrt{T^2 + \kappa \bar v}}, \qquad
        y_c = \frac{\mathrm{asinh}(\beta (z_c - \bar z))}{\beta}, \qquad
        p = (1 - \epsilon)\, \mathrm{softmax}(y) + \frac{\epsilon}{C}

    with means over the classes, and y = z where :math:`\beta` is 0.

    Parameters
    ----------
    temperature : float, default=1.0
        The divisor T, in units of the latents.
    spread : float, default=0.0
        The factor :math:`\kappa`: how much less a mean of large variance counts.
    offsets : tuple of float, default=()
        Numbers b, one for each class, in units of the latents; empty for none.
    bend : float, default=0.0
        The number :math:`\beta`: odds grow exponentially up to a latent of about its
        inverse, and as a power beyond.
    floor : float, default=0.0
        The share :math:`\epsilon` of labels that fall on any class alike.

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

    def latents(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        """Return latents whose softmax are the probabilities, and their variances.

        These are divided, and neither bent nor lifted; they need not be given without
        a spread.
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
        centred = latents - latents.mean(1, keepdim=True)
        return (self.bend * centred).asinh() / self.bend

    def _lifted(self, latents: Tensor) -> Tensor:
        if self.floor == 0.0:
            return latents
        log_probs = torch.log_softmax(latents, dim=1) + math.log1p(-self.floor)
        lowest = math.log(self.floor / latents.shape[1])
        return torch.logaddexp(log_probs, torch.full_like(log_probs, lowest))


@runtime_checkable
class Likelihood(Protocol):
    """Pure functions of labels and latents; no linear algebra.

    Capability ``calibrate(mean, var, codes, weights) -> Calibration``: on leave-one-out
    latents (n, k) and their variances (n, k), which are None where those of new samples
    will not be known.

    Capability ``candidates() -> sequence of likelihoods``: the one with the least
    leave-one-out log loss is taken in its place.
    """

    def targets(self, codes: Tensor, n_classes: int, weights: Tensor) -> Targets:
        """Turn class codes (n,) into regression targets; weights (n,) of samples."""
        ...

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn calibrated means and variances (n, k) into probabilities (n, k)."""
        ...

    @property
    def needs_variance(self) -> bool:
        """Whether `probabilities` reads the variance; if not, it may be empty."""
        ...


@dataclass(frozen=True)
class Sites:
    """Log probabilities of the observations given their latents, with derivatives.

    Parameters
    ----------
    log_prob : Tensor of shape (n,)
        Log probability, or log density, of the observation.
    gradient : Tensor of shape (n, k)
        Its derivatives by the latents.
    curvature : Tensor of shape (n, k)
        For one latent function minus the second derivative, nowhere negative; for
        several the probabilities p of the classes, of which it is diag(p) - p p^T.

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
        """Return minus the second derivatives (n, k, k)."""
        if self.curvature.shape[1] == 1:
            return self.curvature[:, :, None]
        outer = self.curvature[:, :, None] * self.curvature[:, None, :]
        return torch.diag_embed(self.curvature) - outer


# Of latents (n, k) and observations (n,).
SiteFunction: TypeAlias = Callable[[Tensor, Tensor], Sites]


@runtime_checkable
class LinkLikelihood(Protocol):
    """A likelihood of the labels themselves: the posterior is approximated."""

    def n_latents(self, n_classes: int) -> int:
        """Return how many latent functions there are: one for each class, or one.

        The latter is for two classes: the function of the second, and that of the first
        is its negative.
        """
        ...

    def sites(self, latents: Tensor, codes: Tensor) -> Sites:
        """Return what class codes (n,) say of latents (n, k), k being `n_latents`.

        Its operations are those of torch: evidences are differentiated through the
        curvature.
        """
        ...

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn latent means (n, n_classes) into probabilities (n, n_classes).

        `var` holds the variances, of the same shape, if there is one latent function,
        else the covariances (n, k, k) between those of a sample.
        """
        ...
