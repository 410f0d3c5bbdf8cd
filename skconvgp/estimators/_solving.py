"""BaseSolvingGP: which solver a fit takes, and whether it holds the Gram matrix."""

import copy
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from skconvgp._protocols import GramOperator, Solver
from skconvgp.engine import KernelGram, KernelOracle, free_memory
from skconvgp.estimators._base import (
    GRAM_COPIES,
    BaseGP,
    Settings,
    make_generator,
    scaled_gram,
)
from skconvgp.estimators._inputs import Size, Work
from skconvgp.estimators._place import Place, compute_at, gibibytes
from skconvgp.estimators._resolve import (
    resolve_memory_budget,
    resolve_solve_dtype,
    resolve_solver,
)
from skconvgp.estimators._validation import (
    freeze,
    frozen_bytes,
    rows_to_tensor,
    to_numpy,
    to_tensor,
)
from skconvgp.estimators._warn import warn_caller
from skconvgp.inference import (
    EqualInputs,
    LeaveOneOut,
    leave_one_out,
    leave_one_unit_out,
    mean_variance,
)
from skconvgp.kernels import Kernel
from skconvgp.linalg import DenseGram
from skconvgp.solvers import ConjugateGradient

__all__ = ["SOLVED", "BaseSolvingGP"]

# While the noise is chosen: the matrix, a scaled copy, vectors, and two of work space,
# which is what LAPACK's `syevd` asks for.
SELECTION_COPIES = 5
# Residual up to which solutions tell what is predicted of a sample that is left out;
# share of <y, M^-1 y> that they may lack where they tell the evidence.
SOLVED = 1e-2
# Samples to calibrate probabilities on where a leave-one-out value costs a solution:
# the standard error of an accuracy of 97 % is then below a percent.
LEFT_OUT = 500
# Samples that tell how much too large deviations are; and the least latent variance, as
# a share of that of the observation: less is not told from rounding.
COMPARED, LEAST_LATENT = 16, 1e-4
HOST = torch.device("cpu")
BLOCK = 256  # columns that are solved for at once


@dataclass(frozen=True)
class Route:
    """How a fit solves.

    Parameters
    ----------
    solver : Solver
        The solver.
    size : Size
        How many numbers it holds.
    is_held : bool
        Whether the Gram matrix is among them.
    reason : str
        Why "auto" took this solver; empty where it was asked for.
    """

    solver: Solver[Any]
    size: Size
    is_held: bool
    reason: str


class BaseSolvingGP(BaseGP):
    """A process that solves with its training matrix, held or not."""

    # Whether `fit` holds the training matrix, and why its solver is the one it is.
    _is_held: bool
    _solver_reason: str
    # Number of the input of each training sample.
    _inputs: NDArray[np.intp]

    def _exact_size(self, n_samples: int, settings: Settings) -> Size:
        """Choose how to solve; return how many numbers a fit holds."""
        route = self._route(n_samples, settings)
        self.solver_, self._is_held = route.solver, route.is_held
        self._solver_reason = route.reason
        return route.size

    def _route(self, n: int, settings: Settings) -> Route:
        is_selecting = isinstance(settings.noise, str)
        copies = SELECTION_COPIES if is_selecting else GRAM_COPIES
        solver = copy.deepcopy(resolve_solver(self, self.solver))
        # Of a GPU's work the factor comes back.
        size = Size(copies * n**2, copies * n**2, n**2)
        direct = Route(solver, size, is_held=True, reason="")
        if is_selecting or not isinstance(self.kernel_, Kernel):
            return direct
        if not (isinstance(self.solver, str) and self.solver == "auto"):
            return self._iterative(direct, n) if hasattr(solver, "n_values") else direct
        missing = self._missing_memory(size)
        if missing:
            route = replace(direct, solver=ConjugateGradient(), reason=missing)
            return self._iterative(route, n)
        reason = "the Gram matrix and its factor fit into the free memory"
        return replace(direct, reason=reason)

    def _missing_memory(self, size: Size) -> str:
        """Return why a matrix and its factor cannot be held; empty where they can."""
        itemsize = resolve_solve_dtype(self, self.solve_dtype).itemsize
        place = self._place(is_fitting=True, needed=size.on_gpu * itemsize)
        wanted = {HOST: size.held}
        if place.device != HOST:
            wanted = {place.device: size.on_gpu, HOST: size.beside_gpu}
        for device, count in wanted.items():
            free = free_memory(device)
            if count * itemsize > free:
                return (
                    "the Gram matrix and its factor need "
                    f"{gibibytes(count * itemsize)} and {gibibytes(free)} are free"
                )
        return ""

    def _iterative(self, route: Route, n: int) -> Route:
        """Return the route of a solver that the matrix need not be held for."""
        itemsize = resolve_solve_dtype(self, self.solve_dtype).itemsize
        beside: int = route.solver.n_values(n)  # type: ignore[attr-defined]
        place = self._place(is_fitting=True, needed=beside * itemsize)
        budget = resolve_memory_budget(
            self, self.memory_budget, place.device, beside * itemsize, 1
        )
        room = min(budget, free_memory(place.device) - beside * itemsize)
        is_held = n**2 * itemsize <= room
        held = beside + n**2 if is_held else beside
        return replace(route, size=Size(held, held, held), is_held=is_held)

    def _gram_operator(
        self, rows: NDArray[Any], work: Work, weights: Tensor
    ) -> tuple[GramOperator, float]:
        """Return the Gram matrix with mean diagonal 1, and what it was divided by."""
        oracle = self._training_oracle(rows, work)
        if self._is_held:
            gram, mean_diag = scaled_gram(oracle, weights)
            return DenseGram(gram), mean_diag
        assert isinstance(oracle, KernelOracle)
        mean_diag = mean_variance(oracle.diag(), weights)
        return KernelGram(oracle, mean_diag), mean_diag

    def _kept_state(self, state: Any) -> Any:
        """Return what a model keeps: nothing that belongs to a device or threads."""
        return freeze(state if self._is_held else replace(state, gram=None))

    def _state_at(self, place: Place) -> Any:
        """Return the state of the solver; a matrix that was not held is made again."""
        state = super()._state_at(place)
        if getattr(state, "gram", state) is not None:
            return state
        assert isinstance(self.kernel_, Kernel)
        assert self.X_train_ is not None
        images = self._images(self.X_train_, self.kernel_)
        work = self._work(place, is_fitting=False)
        oracle = self._oracle(images, work, "predict")
        return replace(state, gram=KernelGram(oracle, self._mean_diag))

    def _deviation_excess(self, state: Any) -> float:
        """Return how much too large deviations of left-out samples are, at most."""
        if not self._is_converged:
            return math.nan
        solver = self.solver_
        if not hasattr(solver, "left_out_variances"):
            return 0.0
        if not hasattr(solver, "inverse_diag_of"):
            return math.nan
        noise = state.noise
        # Its own seed: the draws that follow do not depend on what is reported.
        shuffled = torch.randperm(
            len(noise), generator=torch.Generator().manual_seed(0)
        )
        numbers = shuffled[:COMPARED].sort().values.to(noise.device)
        bounds = solver.left_out_variances(state, numbers)
        if bounds is None:
            return 0.0
        exact = solver.inverse_diag_of(state, numbers).reciprocal()
        noise = noise[numbers]
        latent = torch.maximum(exact - noise, LEAST_LATENT * exact)
        ratios = ((bounds - noise) / latent).clamp(min=1.0)
        return float(ratios.max().sqrt()) - 1.0

    @property
    def _has_left_out(self) -> bool:
        return self._is_converged or self.fit_report_.residual <= SOLVED

    def _knows_left_out(self) -> bool:
        if self._has_left_out:
            return True
        warn_caller(
            f"{self.solver_!r} is too far from a solution for left-out predictions: "
            "probabilities are not calibrated.",
            ConvergenceWarning,
        )
        return False

    def _sampled_loo(self) -> tuple[NDArray[np.intp], LeaveOneOut]:
        """Return leave-one-out values: of some samples where each costs a solution."""
        n = len(self._targets)
        if n <= LEFT_OUT or not hasattr(self.solver_, "inverse_diag_of"):
            return super()._sampled_loo()
        generator = make_generator(self.random_state)
        numbers = torch.randperm(n, generator=generator)[:LEFT_OUT].sort().values
        needed = frozen_bytes(self.solver_state_)
        place = self._place(is_fitting=False, needed=needed)
        loo = compute_at(place, partial(self._left_out_at, numbers))
        return to_numpy(numbers), loo

    def _leave_one_out_at(self, place: Place) -> LeaveOneOut:
        state = self._state_at(place)
        everyone = torch.arange(len(self._targets), device=place.device)
        inverse_diag = self._whole_inverse(state, self._equal_inputs(place.device))
        return self._as_predicted(inverse_diag, state, everyone)

    def _left_out_at(self, numbers: Tensor, place: Place) -> LeaveOneOut:
        state = self._state_at(place)
        some = numbers.to(place.device)
        inputs = self._equal_inputs(place.device)
        inverse_diag = self._whole_inverse(state, inputs, some)
        return self._as_predicted(inverse_diag, state, some)

    def _as_predicted(
        self, inverse_diag: Tensor, state: Any, numbers: Tensor
    ) -> LeaveOneOut:
        """Return leave-one-out values, with variances such as new samples get."""
        loo = self._closed_form_loo(inverse_diag, to_numpy(numbers))
        variances = None
        if hasattr(self.solver_, "left_out_variances"):
            variances = self.solver_.left_out_variances(state, numbers)
        if variances is None:
            return loo
        bounded = self._closed_form_loo(1.0 / variances, to_numpy(numbers))
        counts = self._equal_inputs(loo.var.device).counts()[numbers]
        return LeaveOneOut(loo.mean, torch.where(counts > 1, loo.var, bounded.var))

    def _equal_inputs(self, device: torch.device) -> EqualInputs:
        return EqualInputs(rows_to_tensor(self._inputs)).to(device)

    def _whole_inverse(
        self, state: Any, inputs: EqualInputs, numbers: Tensor | None = None
    ) -> Tensor:
        """Return sums of the entries of M^-1 over all samples with the inputs of some.

        Parameters
        ----------
        state : object
            Of the solver.
        inputs : EqualInputs
            Which samples have equal inputs.
        numbers : Tensor of shape (m,), optional
            Samples; by default all.

        Returns
        -------
        sums : Tensor of shape (m,)
            The entry of the diagonal for a sample whose input no other has.
        """
        solver: Any = self.solver_
        if numbers is None:
            sums: Tensor = solver.inverse_diag(state)
            numbers = torch.arange(len(sums), device=sums.device)
        else:
            sums = solver.inverse_diag_of(state, numbers)
        inputs = inputs.to(sums.device)
        own = inputs.of[numbers]
        repeated = torch.unique(own[inputs.counts()[numbers] > 1])
        for start in range(0, len(repeated), BLOCK):
            some = repeated[start : start + BLOCK]
            members = (inputs.of[:, None] == some).to(sums)
            whole = (members * solver.solve(state, members).value).sum(0)
            place = torch.searchsorted(some, own).clamp(max=len(some) - 1)
            sums = torch.where(some[place] == own, whole[place], sums)
        return sums

    def _closed_form_loo(
        self, inverse_diag: Tensor, numbers: NDArray[np.intp]
    ) -> LeaveOneOut:
        """Return predictions of some samples from those with other inputs.

        Parameters
        ----------
        inverse_diag : Tensor of shape (m,)
            Sums of the entries of M^-1 over all samples with the input of each.
        numbers : ndarray of shape (m,)
            The samples.
        """
        own_dual = self.dual_coef_ * self._mean_diag / self._scale
        y, alpha, weights = (
            to_tensor(array, inverse_diag.device, inverse_diag.dtype)
            for array in (self._targets, own_dual, self._weights)
        )
        inputs = self._equal_inputs(inverse_diag.device)
        whole = inputs.merge(y, weights)
        some = torch.from_numpy(numbers).to(inverse_diag.device)
        own, noise = inputs.of[some], self.noise_variance_
        mean, totals = whole.targets[own], whole.weights[own]
        dual = inputs.sum(alpha)[own]
        loo = leave_one_out(mean, dual, inverse_diag, noise, totals)
        staying = inputs.staying(weights)[some]
        return leave_one_unit_out(loo, y[some], mean, noise, totals, staying)
