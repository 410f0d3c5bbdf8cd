"""BaseOptimizedGP: a process whose kernel is chosen on all samples before the fit."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from skconvgp._protocols import Objective, Step
from skconvgp.estimators._base import Problem, Settings, scaled_gram
from skconvgp.estimators._inputs import Size, Work
from skconvgp.estimators._label_evidence import AMPLITUDE_LABEL, LabelEvidence
from skconvgp.estimators._label_models import LinkModel
from skconvgp.estimators._learning import (
    BATCH_COPIES,
    NOISE_START,
    BaseLearningGP,
    Search,
)
from skconvgp.estimators._noise import warn_of_copies
from skconvgp.estimators._progress import ProgressLine
from skconvgp.estimators._resolve import (
    AUTO,
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
from skconvgp.estimators._solving import Route
from skconvgp.estimators._validation import to_tensor
from skconvgp.estimators._warn import warn_caller
from skconvgp.flows import FlowResult, Rho
from skconvgp.flows._iterative import IterativeEvidence
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._restarts import minimize_from_many
from skconvgp.flows._search import ALL_DONE
from skconvgp.inference import select_noise
from skconvgp.solvers import ConjugateGradient

__all__ = ["BaseOptimizedGP"]

# What a solver must have for a search by products.
NEEDED = ("inverse_factors", "logdet", "n_values")
SCORE_COPIES = 1  # of what a solver holds: the factors of derivatives


class BaseOptimizedGP(BaseLearningGP):
    """What classifier and regressor have in common."""

    optimizer: object
    n_restarts_optimizer: object

    optimizer_result_: FlowResult

    # Amplitude that was learned with the kernel; None where none was.
    _learned_amplitude: float | None = None

    def _fit_problem(self, problem: Problem) -> None:
        """Choose the hyperparameters, if that is asked for, and fit."""
        self.__dict__.pop("optimizer_result_", None)  # of another fit
        self._learned_noise = self._learned_amplitude = None
        choice = resolve_choice(self, self.optimizer)
        n_restarts = resolve_restarts(self, self.n_restarts_optimizer)
        if choice is None:
            super()._fit_problem(problem)
            return
        self._require_learnable(problem)
        if choice.criterion == "loo":
            warn_of_copies(problem)
        keeps_noise = self._keeps_noise(problem, choice)
        if keeps_noise:
            self._learned_noise = NOISE_START
        result = self._find(problem, self._search(problem, choice, n_restarts))
        self._warn_of(result)
        if choice.is_usual and result.message == ALL_DONE:
            warn_caller(
                f"The search for hyperparameters has not converged in "
                f"{choice.optimizer!r}: the best ones so far are used. Start from "
                "others, or hold some of them.",
                ConvergenceWarning,
            )
        self._warn_of_bounds(result.at_bounds)
        self.optimizer_result_ = result
        is_found = bool(np.isfinite(result.rho))
        if keeps_noise:
            self._learned_noise = result.values[NOISE_LABEL] if is_found else None
        if is_found and self.completion is None:
            self._learned_amplitude = result.values.get(AMPLITUDE_LABEL)
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

        n = len(problem.rows)
        route = self._route_of_search(problem, choice)
        held = beside = route.size.held if route else None
        link = self._link_model(problem, choice)
        if link is not None:
            held = LabelEvidence(link, 0.0).n_copies() * n**2
        # Where matrices are factored, the start has the best noise of a grid.
        is_graded = route is None and self._learns_noise(problem, choice)
        own_start = NOISE_START if is_graded else None
        search = partial(minimize_from_many, choice.optimizer, n_restarts)
        return Search(
            objective=partial(self._objective, problem, choice, route),
            minimize=partial(search, own_start=own_start),
            sizes=(n,),
            n_fixed=1,
            watch=watch,
            n_held=held,
            n_beside=beside or 0,  # factors of derivatives come back from a GPU
        )

    def _objective(
        self, problem: Problem, choice: Choice, route: Route | None, work: Work
    ) -> Objective | IterativeEvidence:
        """Return what judges a kernel; where a word is the noise, it is learned too.

        Where the labels are the observations, it is their evidence, with an amplitude;
        where they fix the noise of others, that of label regression, with a noise.
        """
        link = self._link_model(problem, choice)
        if link is not None:
            of_labels = self._noise(problem)
            assert not isinstance(of_labels, str)
            return LabelEvidence(link, of_labels)
        noise = resolve_noise(self, self.noise_variance)
        start = NOISE_START if isinstance(noise, str) else noise
        objective: Rho | IterativeEvidence = Rho(choice.kind, noise_variance=start)
        if route is not None:
            objective = IterativeEvidence(route.solver, route.is_held, start)
        if not self._learns_noise(problem, choice):
            return objective
        if route is None:
            start = self._noise_at_start(problem, choice, work)
        return self._with_noise(objective, problem, work, start)

    def _learns_noise(self, problem: Problem, choice: Choice) -> bool:
        """Say whether a noise is learned with the kernel."""
        if self._link_model(problem, choice) is not None:
            return False
        noise = resolve_noise(self, self.noise_variance)
        return isinstance(noise, str) or bool(self._label_models(problem))

    def _noise_at_start(self, problem: Problem, choice: Choice, work: Work) -> float:
        """Return the best noise with the kernel at its start, of a grid."""
        images = self._images(problem.rows, self._network())
        y = to_tensor(problem.targets, work.config.device, work.config.solve_dtype)
        ones = torch.ones_like(y[:, 0])
        try:
            gram, _ = scaled_gram(self._oracle(images, work, "start"), ones)
        except ValueError:  # undefined there, and maybe not elsewhere
            return NOISE_START
        return select_noise(
            gram,
            y,
            ones,
            criterion=choice.criterion,
            amplitude=None,
            precision=self._gram_precision(problem.rows, work),
        )

    def _link_model(self, problem: Problem, choice: Choice) -> LinkModel | None:
        """Return the model of labels whose own evidence is asked for, if it is."""
        for model in self._label_models(problem):
            if choice.criterion == "evidence" and isinstance(model, LinkModel):
                return model
        return None

    def _route_of_search(self, problem: Problem, choice: Choice) -> Route | None:
        """Return how to iterate for the evidence; None where matrices are factored.

        They are while they fit into the free memory, unless the process cannot hold its
        own; which only a process of the whole matrix can do without.
        """
        is_whole = self.completion is None and not self._label_models(problem)
        if choice.criterion != "evidence" or not is_whole:
            return None
        n = len(problem.rows)
        route = self._route(n, self._settings(problem))
        is_iterative = all(hasattr(route.solver, name) for name in NEEDED)
        if not is_iterative:
            if not (isinstance(self.solver, str) and self.solver == "auto"):
                return None
            route = replace(route, solver=ConjugateGradient())
        held = BATCH_COPIES * n**2
        is_tight = is_iterative and not route.is_held
        if not (is_tight or self._missing_memory(Size(held, held, 0))):
            return None
        return self._search_route(route, n)

    def _search_route(self, route: Route, n: int) -> Route:
        """Return a route with what a search holds: solutions, and factors of slopes."""
        found = self._iterative(route, n)
        solver: Any = found.solver
        if hasattr(solver, "deviations"):  # which a search has no use for
            solver = replace(solver, deviations="solve")
        held = found.size.held + SCORE_COPIES * solver.n_values(n)
        return replace(found, solver=solver, size=Size(held, held, held))

    def _settings(self, problem: Problem) -> Settings:
        settings = super()._settings(problem)
        if self._learned_amplitude is None:
            return settings
        return replace(settings, prior=self._learned_amplitude)

    def _noise(self, problem: Problem) -> float | str:
        learned = self._learned_noise
        return super()._noise(problem) if learned is None else learned

    def _keeps_noise(self, problem: Problem, choice: Choice) -> bool:
        """Say whether the process has the noise that is learned with the kernel.

        It is chosen anew where the word asks for the other criterion, and with a
        completion, whose matrix is another one; where labels fix it, no word is taken.
        """
        is_other = self.completion is not None or bool(self._label_models(problem))
        words = (AUTO, choice.criterion)
        return self.noise_variance in words and not is_other
