"""BaseConvGP: exact, or with whatever completes or replaces the Gram matrix."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skconvgp._protocols import Coarsening, Completion, Localization, Selection
from skconvgp.estimators._base import Problem, Settings, clock, make_generator
from skconvgp.estimators._features import BaseFeatureGP, entries
from skconvgp.estimators._inputs import Size, Work
from skconvgp.estimators._label_models import LabelModel
from skconvgp.estimators._labels import BaseLabelGP
from skconvgp.estimators._local import BaseLocalGP
from skconvgp.estimators._noise import MOST_INPUTS
from skconvgp.estimators._place import Place, compute_at
from skconvgp.estimators._resolve import (
    is_direct,
    resolve_amplitude,
    resolve_completion,
    resolve_fraction,
    resolve_solver,
)
from skconvgp.estimators._sums import BaseSummedGP, ExactPart
from skconvgp.estimators._validation import to_numpy, to_tensor
from skconvgp.exceptions import TileMemoryError
from skconvgp.inference import mean_variance
from skconvgp.kernels import Kernel

__all__ = ["BaseConvGP"]

Fit: TypeAlias = Callable[[Problem, Settings, Work, Place], NDArray[np.intp]]


class BaseConvGP(BaseSummedGP, BaseFeatureGP, BaseLocalGP, BaseLabelGP):
    """What classifier and regressor have in common."""

    completion: object
    observed_fraction: object

    def _fit_latent(self, problem: Problem) -> NDArray[np.intp]:
        """Fit latent functions; return the numbers of the samples that are used."""
        self.__dict__.pop("landmark_indices_", None)  # of another completion
        self._localization, self._sampled, self._loo = None, None, None
        self._is_label_model, self._label_loo = False, None
        self._has_one_latent, self._is_converged = False, True
        kept = self._kept
        settings, fit, place, needed = self._planned(problem)

        def fit_at(place: Place) -> NDArray[np.intp]:
            self._kept = kept
            work = self._work(
                place,
                is_fitting=True,
                rows=problem.rows,
                reserved=needed,
            )
            return fit(problem, settings, work, place)

        return compute_at(place, fit_at)

    def _planned(self, problem: Problem) -> tuple[Settings, Fit, Place, int]:
        """Return how to fit, where, and the bytes that it takes; raise if it cannot."""
        settings = self._settings(problem)
        self.solver_ = copy.deepcopy(resolve_solver(self, self.solver))
        models = self._label_models(problem)
        if models:
            self._require_labels(settings)
        size, fit = self._way(problem, settings, models)
        return settings, fit, *self._place_of_fit(len(problem.rows), size)

    def _way(
        self, problem: Problem, settings: Settings, models: list[LabelModel]
    ) -> tuple[Size, Fit]:
        """Return how many numbers a fit to a problem holds, and what fits."""
        n = len(problem.rows)
        completion = copy.deepcopy(resolve_completion(self, self.completion))
        fraction = resolve_fraction(self, self.observed_fraction)
        match completion:
            case Selection():
                size = self._dense_size(completion.count(n, fraction), settings, models)
                return size, partial(self._fit_selected, completion, fraction)
            case Completion():
                self._require_feature_solver(completion)
                held = completion.n_values(n, fraction)
                fit = partial(self._fit_completed, completion, fraction)
                if models:
                    return self._label_size(models, n, held), fit
                return Size(held, 0, held), fit
            case Localization():
                self._require_common_noise(repr(completion), models)
                self._require_local(completion, settings)
                held = self._local_size(completion, n)
                return Size(held, held, 0), partial(self._fit_neighbors, completion)
            case Coarsening():
                exact = self.kernel_
                self._coarsen(completion, problem.rows)
                added = getattr(completion, "exact", None)
                if added is not None:
                    assert isinstance(exact, Kernel)
                    size = self._dense_size(n, settings, models)
                    self._require_held(completion, models)
                    count = added.n_values(n, fraction)
                    sizes = (size.held, size.on_gpu, size.beside_gpu)
                    fit = partial(self._fit_sum, completion, fraction, exact)
                    return Size(*(one + count for one in sizes)), fit
        return self._dense_size(n, settings, models), self._fit_all

    def _affords_choice(self, problem: Problem) -> bool:
        """Return whether to choose the noise costs no more than the rest of a fit."""
        n, count = len(problem.rows), problem.inputs.n_inputs
        match resolve_completion(self, self.completion):
            case Selection() as selection:
                fraction = resolve_fraction(self, self.observed_fraction)
                n = count = selection.count(n, fraction)
            case Completion() | Localization():
                return True
        if count > MOST_INPUTS or not is_direct(self.solver):
            return False
        choosing = Settings("loo", resolve_amplitude(self, self.amplitude))
        return not self._missing_memory(self._route(n, choosing).size)

    def _dense_size(self, n: int, settings: Settings, models: list[LabelModel]) -> Size:
        if models:
            return self._label_size(models, n, 0)
        return self._exact_size(n, settings)

    def _fit_all(
        self, problem: Problem, settings: Settings, work: Work, place: Place
    ) -> NDArray[np.intp]:
        self._fit_dense(problem, settings, work, place)
        return np.arange(len(problem.rows))

    def _fit_dense(
        self,
        problem: Problem,
        settings: Settings,
        work: Work,
        place: Place,
        **facts: Any,
    ) -> None:
        """Fit to all samples of a problem, by their Gram matrix."""
        models = self._label_models(problem)
        if models:
            self._fit_label_models(models, problem, settings, work, place, **facts)
        else:
            self._fit_exact(problem, settings, work, place, **facts)

    def _fit_neighbors(
        self,
        localization: Localization,
        problem: Problem,
        settings: Settings,
        work: Work,
        place: Place,
    ) -> NDArray[np.intp]:
        """Fit a process that predicts each sample from its neighbours."""
        self._fit_local(localization, problem, settings, work, place)
        return np.arange(len(problem.rows))

    def _fit_selected(
        self,
        selection: Selection,
        fraction: float,
        problem: Problem,
        settings: Settings,
        work: Work,
        place: Place,
    ) -> NDArray[np.intp]:
        """Fit to some of the samples."""
        n = len(problem.rows)
        oracle = self._sample_oracle(problem, work, selection.count(n, fraction) * n)
        generator = make_generator(self.random_state)
        chosen = np.sort(to_numpy(selection.select(oracle, fraction, generator)))
        is_precomputed = not isinstance(self.kernel_, Kernel)
        self._kept = self._kept[chosen]
        some = problem.take(chosen, is_precomputed=is_precomputed)
        m = len(chosen)
        share = m * (m + 1) / (n * (n + 1))
        self._fit_dense(some, settings, work, place, observed_fraction=share)
        self.landmark_indices_ = self._kept
        return chosen

    def _fit_completed(
        self,
        completion: Completion,
        fraction: float,
        problem: Problem,
        settings: Settings,
        work: Work,
        place: Place,
    ) -> NDArray[np.intp]:
        """Fit through the factor of a completed matrix."""
        n = len(problem.rows)
        start = clock(place.device)
        n_allowed = max(n, int(fraction * n * (n + 1) / 2))
        oracle = self._sample_oracle(problem, work, n_allowed)
        completed = self._complete(completion, oracle, fraction)
        diag = oracle.diag()
        weights = to_tensor(problem.weights, diag.device, diag.dtype)
        least = completed.error / mean_variance(diag, weights)
        least_noise = 0.0 if np.isnan(least) else least
        gram_seconds = clock(place.device) - start
        models = self._label_models(problem)
        if models:
            self._fit_label_models(
                models,
                problem,
                settings,
                work,
                place,
                completed,
                gram_seconds,
                least_noise,
                relative_rmse=completed.relative_rmse,
                observed_fraction=completed.n_evaluated / entries(n),
            )
            return np.arange(n)
        self._fit_features(
            completed,
            diag,
            problem,
            settings,
            work,
            place,
            variance="dtc",
            least_noise=least_noise,
            gram_seconds=gram_seconds,
        )
        return np.arange(n)

    def _fit_sum(
        self,
        coarsening: Any,
        fraction: float,
        kernel: Kernel,
        problem: Problem,
        settings: Settings,
        work: Work,
        place: Place,
    ) -> NDArray[np.intp]:
        """Fit with the sum of the coarse kernel and of one that is completed."""
        start, n = clock(place.device), len(problem.rows)
        self._exact_part = None  # of another place
        exact, exact_work = self._of_whole_images(kernel), self._work_of(kernel, work)
        n_allowed = max(n, int(fraction * entries(n)))
        oracle = exact._sample_oracle(problem, exact_work, n_allowed)
        completed = self._complete(coarsening.exact, oracle, fraction)
        means = [
            mean_variance(diag, to_tensor(problem.weights, diag.device, diag.dtype))
            for diag in (
                oracle.diag(),
                self._training_oracle(problem.rows, work).diag(),
            )
        ]
        share = coarsening.exact_weight
        self._exact_part = ExactPart.of(
            kernel,
            exact_work.config.dtype,
            problem.rows,
            completed,
            oracle.diag(),
            scale=share,
            coarse_scale=(1.0 - share) * means[0] / means[1],
        )
        self._fit_dense(
            problem,
            settings,
            work,
            place,
            gram_seconds=clock(place.device) - start,
            least_noise=share * np.nan_to_num(completed.error) / means[0],
            relative_rmse=completed.relative_rmse,
            observed_fraction=completed.n_evaluated / entries(n),
        )
        self.landmark_indices_ = self._kept[to_numpy(completed.anchors)]
        n_pairs = self.fit_report_.n_pairs + completed.n_evaluated
        n_read = sum(cache.n_pairs_read for cache in work.caches)
        self.fit_report_ = replace(
            self.fit_report_, n_pairs=n_pairs, n_pairs_read=min(n_pairs, n_read)
        )
        return np.arange(n)

    def _coarsen(self, coarsening: Coarsening, rows: NDArray[Any]) -> None:
        """Replace the kernel by a cheaper one that looks at smaller images."""
        # A kernel of its own takes the place of any other, but not of a given matrix.
        own = getattr(coarsening, "kernel", None)
        if own is None or not isinstance(self.kernel_, Kernel):
            self._require_spatial(coarsening, self.kernel_)
        kernel = coarsening.coarsen(self.kernel_)
        self.pool_ = coarsening.pool
        if self.image_shape_ is not None and self.pool_ > min(self.image_shape_[1:]):
            is_vector = self.image_shape_[1:] == (1, 1)
            remedy = "rows are read as vectors, set `image_shape`"
            raise ValueError(
                f"{coarsening!r} averages squares of {self.pool_} x {self.pool_} "
                f"pixels, more than images of shape {self.image_shape_!r} have: "
                f"{remedy if is_vector else 'lower `pool`'}."
            )
        try:
            if isinstance(kernel, Kernel):
                kernel.check(self._map_shape(kernel))
        except ValueError as error:
            raise ValueError(
                f"{coarsening!r} gives {kernel!r}, which cannot be used on images of "
                f"shape {self.image_shape_!r} that are pooled: {error}"
            ) from error
        self._require_spatial(coarsening, kernel)
        self.kernel_ = self._resolved(kernel, rows)

    def _require_held(self, coarsening: Coarsening, models: list[LabelModel]) -> None:
        """Raise where the matrix that features are added to is not held."""
        if not models and not self._is_held:
            raise TileMemoryError(
                f"{coarsening!r} adds a completed matrix to the Gram matrix, which has "
                f"to be held: {self._solver_reason or f'solver={self.solver!r}'}. Use "
                "exact=None, fewer samples, or a larger `memory_budget`."
            )

    def _require_spatial(self, coarsening: Coarsening, kernel: object) -> None:
        if not isinstance(kernel, Kernel) or not kernel.is_spatial:
            raise ValueError(
                f"{coarsening!r} needs a kernel that looks at images, got {kernel!r}."
            )

    def _require_feature_solver(self, completion: Completion) -> None:
        if not is_direct(self.solver):
            raise ValueError(
                f"{completion!r} gives a product of features, which is solved through "
                f"them: use solver='auto', got {self.solver!r}."
            )
