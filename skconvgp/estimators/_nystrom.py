"""BaseNystromGP: a process that never looks at more than the columns of landmarks."""

from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data
from torch import Tensor

from skconvgp.completion import Nystrom
from skconvgp.completion._landmarks import LANDMARKS
from skconvgp.estimators._base import (
    Problem,
    Settings,
    clock,
    make_generator,
)
from skconvgp.estimators._features import BaseFeatureGP, Featured, entries
from skconvgp.estimators._inputs import Size
from skconvgp.estimators._place import Place, compute_at
from skconvgp.estimators._resolve import reject, resolve_word
from skconvgp.estimators._scale import mean_squares, warn_of_scale
from skconvgp.estimators._validation import (
    check_same_shape,
    freeze,
    images_to_rows,
    require_unmasked,
    thaw,
    to_numpy,
)
from skconvgp.estimators._warn import warn_caller
from skconvgp.inference import FeatureSums, feature_evidence, feature_posterior
from skconvgp.kernels import Kernel

__all__ = ["BaseNystromGP"]

VARIANCES = ("dtc", "sor", "fitc")
# Samples whose features are kept, for leave-one-out values after more have come.
RESERVOIR = 500


@dataclass(frozen=True)
class Reservoir:
    """Some of all samples so far, drawn at random.

    Parameters
    ----------
    numbers : Tensor of shape (r,)
        Their numbers, in increasing order.
    keys : Tensor of shape (r,)
        Random numbers, the smallest of all samples.
    data : Featured
        The samples.
    """

    numbers: Tensor
    keys: Tensor
    data: Featured

    def __add__(self, other: Self) -> Self:
        """Return those of the smallest keys in both."""
        keys = torch.cat([self.keys, other.keys])
        kept = keys.argsort()[:RESERVOIR].sort().values
        columns = (
            torch.cat([getattr(part.data, field.name) for part in (self, other)])[kept]
            for field in fields(Featured)
        )
        numbers = torch.cat([self.numbers, other.numbers])[kept]
        return replace(self, numbers=numbers, keys=keys[kept], data=Featured(*columns))


class BaseNystromGP(BaseFeatureGP):
    """What classifier and regressor have in common."""

    _keeps_rows: ClassVar[bool] = False

    n_landmarks: object
    landmarks: object
    variance: object

    _sums: FeatureSums
    _reservoir: Reservoir

    def _fit_latent(self, problem: Problem) -> NDArray[np.intp]:
        """Fit latent functions; return the numbers of the samples that are used."""
        settings, strategy = self._settings(problem), self._strategy()
        self._require_common_noise(type(self).__name__, self._label_models(problem))
        variance = resolve_word(self, "variance", self.variance, VARIANCES)
        n = len(problem.rows)
        held = strategy.n_values(n, 1.0)
        place, needed = self._place_of_fit(n, Size(held, 0, held))
        fit_at = partial(self._fit_at, problem, settings, strategy, variance, needed)
        compute_at(place, fit_at)
        return np.arange(n)

    def _fit_at(
        self,
        problem: Problem,
        settings: Settings,
        strategy: Nystrom,
        variance: str,
        needed: int,
        place: Place,
    ) -> None:
        n = len(problem.rows)
        work = self._work(
            place,
            is_fitting=True,
            rows=problem.rows,
            reserved=needed,
        )
        start = clock(place.device)
        n_allowed = n * min(n, strategy.n_landmarks or n)
        oracle = self._sample_oracle(problem, work, n_allowed)
        completed = strategy.complete(oracle, 1.0, make_generator(self.random_state))
        data, sums = self._fit_features(
            completed,
            oracle.diag(),
            problem,
            settings,
            work,
            place,
            variance=variance,
            least_noise=0.0,
            gram_seconds=clock(place.device) - start,
        )
        self._sums, self._reservoir = freeze(sums), freeze(self._some_of(data, 0))
        self._sampled = None

    def _affords_choice(self, problem: Problem) -> bool:  # noqa: ARG002
        """Return whether to choose the noise costs no more than the rest of a fit."""
        return self.variance != "fitc"  # which takes a factorisation for each noise

    def _some_of(self, data: Featured, n_before: int) -> Reservoir:
        """Return some of the samples that came after so many."""
        n = n_before + len(data.targets)
        keys = torch.rand(n, generator=make_generator(self.random_state))[n_before:]
        numbers = torch.arange(n_before, n)
        none = Featured(*(getattr(data, field.name)[:0] for field in fields(data)))
        device = data.targets.device
        return Reservoir(numbers[:0].to(device), keys[:0].to(device), none) + Reservoir(
            numbers.to(device), keys.to(device), data
        )

    def _append(self, problem: Problem) -> None:
        """Take more samples in; landmarks, noise and units stay."""
        n_first, wanted = len(self._targets), self._strategy().n_landmarks
        is_second = self._sampled is None
        if is_second and wanted is not None and n_first < wanted:
            warn_caller(
                "Landmarks are samples of the first call of `partial_fit`, which had "
                f"{n_first}, fewer than n_landmarks={wanted}: begin with a larger "
                "batch.",
                UserWarning,
            )
        moment = self._sums.moment
        needed = moment.nbytes + len(problem.rows) * len(moment) * moment.itemsize
        place = self._place(is_fitting=False, needed=needed)
        compute_at(place, partial(self._append_at, problem))

    def _append_at(self, problem: Problem, place: Place) -> None:
        start = clock(place.device)
        device = place.device
        work = self._work(place, is_fitting=False)
        state = thaw(self.solver_state_, device)
        has_prior = isinstance(self.kernel_, Kernel)
        lifted, rests = [], []
        for cross, prior in self._stream(problem.rows, None, work, needs_var=False):
            features = cross @ state.lift_map
            explained = torch.einsum("ij,ij->i", features, features)
            rest = (prior / self._mean_diag - explained).clamp(min=0.0)
            lifted.append(features)
            rests.append(rest if has_prior else torch.full_like(rest, torch.nan))
        data = Featured.of(torch.cat(lifted), problem, torch.cat(rests))
        gram_seconds = clock(device) - start

        start = clock(device)
        sums = thaw(self._sums, device) + self._add_up(data)
        posterior = feature_posterior(sums)
        amplitude = self._fixed_amplitude(
            self._settings(problem).prior, data.targets, problem.scale
        )
        evidence, amplitude = feature_evidence(sums, posterior, amplitude)
        loo = self._feature_loo(data, posterior)
        some = thaw(self._reservoir, device) + self._some_of(data, len(self._targets))
        some_mean, some_var = self._feature_loo(some.data, posterior)

        assert self._loo is not None
        old_mean, old_var = self._loo
        mean, var = np.vstack([old_mean, loo[0]]), np.concatenate([old_var, loo[1]])
        numbers = to_numpy(some.numbers)
        mean[numbers], var[numbers] = some_mean, some_var
        everything = self._with_earlier(problem)

        self._sums, self._reservoir = freeze(sums), freeze(some)
        self._loo, self._sampled = (mean, var), (numbers, some_mean, some_var)
        self.solver_state_ = freeze(
            replace(state, factor=posterior.factor, jitter=posterior.jitter)
        )
        self.dual_coef_ = to_numpy(state.lift_map @ posterior.mean) * problem.scale
        self._set_model(everything, amplitude, evidence)
        self._left = np.concatenate([self._left, problem.left])
        report, n = self.fit_report_, len(self._targets)
        n_pairs = report.n_pairs + len(problem.rows) * (len(self.dual_coef_) + 1)
        self.fit_report_ = replace(
            report,
            jitter=self._jitter_of(posterior, work),
            n_samples=n,
            n_pairs=n_pairs,
            observed_fraction=n_pairs / entries(n),
            gram_seconds=report.gram_seconds + gram_seconds,
            solve_seconds=report.solve_seconds + clock(device) - start,
        )

    def _with_earlier(self, problem: Problem) -> Problem:
        """Return a problem with the targets and weights of earlier samples before."""
        return replace(
            problem,
            targets=np.vstack([self._targets, problem.targets]),
            weights=np.concatenate([self._weights, problem.weights]),
        )

    def _validate_append(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        """Return further samples as rows, if they look like those of `fit`."""
        if self._features == "fitc" and not isinstance(self.kernel_, Kernel):
            raise ValueError(
                "variance='fitc' needs the prior variances of further samples, which "
                "kernel='precomputed' does not give: use a kernel object."
            )
        require_unmasked(y, "y")
        rows, given = images_to_rows(X)
        if self.image_shape_ is not None:
            check_same_shape(given, self.image_shape_)
        dtype = [np.float64, np.float32]
        rows, y = validate_data(self, rows, y, reset=False, dtype=dtype, **options)
        if isinstance(self.kernel_, Kernel):
            warn_of_scale(rows, self._mean_squares)
            both = zip(self._mean_squares, mean_squares(rows), strict=True)
            (least, other_least), (largest, other_largest) = both
            self._mean_squares = min(least, other_least), max(largest, other_largest)
        return rows, y

    def _strategy(self) -> Nystrom:
        m = self.n_landmarks
        if not isinstance(m, Integral) or isinstance(m, bool) or m < 1:
            reject(self, "n_landmarks", "an int >= 1", m)
        landmarks = resolve_word(self, "landmarks", self.landmarks, tuple(LANDMARKS))
        return Nystrom(int(m), landmarks, check_fraction=0.0)
