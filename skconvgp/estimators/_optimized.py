"""BaseOptimizedGP: a process whose kernel is chosen on all samples before the fit."""

from functools import partial

from sklearn.exceptions import ConvergenceWarning

from skconvgp._protocols import Objective, Step
from skconvgp.estimators._base import Problem
from skconvgp.estimators._inputs import Work
from skconvgp.estimators._learning import BaseLearningGP, Search
from skconvgp.estimators._progress import ProgressLine
from skconvgp.estimators._resolve import (
    reject,
    resolve_amplitude,
    resolve_noise,
    resolve_verbose,
)
from skconvgp.estimators._resolve_choice import (
    Choice,
    resolve_choice,
    resolve_restarts,
)
from skconvgp.estimators._warn import warn_caller
from skconvgp.flows import FlowResult, Rho
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._restarts import minimize_from_many
from skconvgp.flows._search import ALL_DONE

__all__ = ["BaseOptimizedGP"]


class BaseOptimizedGP(BaseLearningGP):
    """What classifier and regressor have in common."""

    optimizer: object
    n_restarts_optimizer: object

    optimizer_result_: FlowResult

    def _fit_problem(self, problem: Problem) -> None:
        """Choose the hyperparameters, if that is asked for, and fit."""
        self.__dict__.pop("optimizer_result_", None)  # of another fit
        self._learned_noise = None
        choice = resolve_choice(self, self.optimizer)
        n_restarts = resolve_restarts(self, self.n_restarts_optimizer)
        if choice is None:
            super()._fit_problem(problem)
            return
        self._require_learnable(problem)
        result = self._find(problem, self._search(problem, choice, n_restarts))
        self._warn_of(result)
        if choice.is_usual and result.message == ALL_DONE:
            warn_caller(
                f"The search for hyperparameters has not converged in "
                f"{choice.optimizer!r}: the best ones so far are used. Start from "
                "others, or hold some of them.",
                ConvergenceWarning,
            )
        self.optimizer_result_ = result
        self._learned_noise = self._noise_from(result, choice)
        start = self._network()
        self._fit_with(problem, start, result.theta)

    def _require_learnable(self, problem: Problem) -> None:
        """Raise for what a search on all samples cannot do."""
        self._require_free("optimizer=None")
        self._require_samples(problem)
        if not (problem.weights == 1.0).all():
            raise ValueError(
                f"optimizer={self.optimizer!r} takes no sample weights other than 0 "
                "and 1: repeat samples, or fit with optimizer=None and the kernel "
                "that was chosen without weights."
            )
        amplitude = resolve_amplitude(self, self.amplitude)
        if amplitude != "profile":
            expected = "'profile' with an optimizer, which maximises over it too"
            reject(self, "amplitude", expected, amplitude)

    def _search(self, problem: Problem, choice: Choice, n_restarts: int) -> Search:
        """Return a search on one batch, which is all samples."""
        verbose = resolve_verbose(self, self.verbose)
        progress = ProgressLine(choice.criterion, verbose, "steps")

        def watch(step: Step) -> bool:
            progress(step.index + 1, step.total)
            return False

        return Search(
            objective=partial(self._objective, problem, choice),
            minimize=partial(minimize_from_many, choice.optimizer, n_restarts),
            sizes=(len(problem.rows),),
            n_fixed=1,
            watch=watch,
        )

    def _objective(self, problem: Problem, choice: Choice, work: Work) -> Objective:
        """Return what judges a kernel; where a word is the noise, it is learned too.

        So it is where labels fix the noise: the kernel is chosen by label regression.
        """
        noise = resolve_noise(self, self.noise_variance)
        if not (isinstance(noise, str) or self._label_models(problem)):
            return Rho(choice.kind, noise_variance=noise)
        return self._with_noise(Rho(choice.kind), problem, work)

    def _noise(self) -> float | str:
        return super()._noise() if self._learned_noise is None else self._learned_noise

    def _noise_from(self, result: FlowResult, choice: Choice) -> float | None:
        """Return the noise that was learned, None where it is to be chosen anew.

        So it is where the word asks for the other criterion, and with a completion,
        whose matrix is another one.
        """
        is_same = self.noise_variance == choice.criterion and self.completion is None
        return result.values[NOISE_LABEL] if is_same else None
