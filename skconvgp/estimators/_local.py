"""BaseLocalGP: no Gram matrix, a few neighbours for each sample."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from skconvgp._protocols import Localization
from skconvgp.estimators._base import (
    BaseGP,
    Problem,
    Settings,
    Timing,
    clock,
    make_generator,
)
from skconvgp.estimators._inputs import Work
from skconvgp.estimators._jitter import warn_of_jitter
from skconvgp.estimators._noise import require_finite_noise
from skconvgp.estimators._place import Place
from skconvgp.estimators._resolve import is_direct
from skconvgp.estimators._validation import to_numpy
from skconvgp.inference import (
    LeftOut,
    local_spectra,
    mean_variance,
    noise_grid,
)
from skconvgp.kernels import Kernel

__all__ = ["BaseLocalGP"]

# Samples that are left out for what a fit chooses: the standard error of an accuracy
# of 97 % is then a percent, and that of an amplitude some ten percent of it.
LEFT_OUT = 300
LOCAL_COPIES = 3  # matrices of neighbours: it, shifted, and its factor


@dataclass(frozen=True)
class _Chosen:
    """What follows from samples that were left out.

    Parameters
    ----------
    noise : float
        Noise variance.
    amplitude : Tensor of shape (c,)
        Amplitude of each output.
    n_pairs : int
        Covariances that were evaluated.
    jitter : float
        Largest jitter of a matrix.
    """

    noise: float
    amplitude: Tensor
    n_pairs: int = 0
    jitter: float = 0.0


class BaseLocalGP(BaseGP):
    """A process that predicts each sample from its nearest neighbours."""

    def _local_size(self, localization: Localization, n_samples: int) -> int:
        """Return how many numbers a fit holds at once."""
        return LOCAL_COPIES * localization.count(n_samples) ** 2

    def _require_local(self, localization: Localization, settings: Settings) -> None:
        """Raise for settings that need a Gram matrix."""
        if not is_direct(self.solver):
            raise ValueError(
                f"{localization!r} solves a small system for each sample by its "
                f"Cholesky factor: use solver='auto', got {self.solver!r}."
            )
        if settings.noise == "evidence":
            raise ValueError(
                f"{localization!r} does not choose `noise_variance` by 'evidence': use "
                "'loo' or a number."
            )

    def _fit_local(
        self,
        localization: Localization,
        problem: Problem,
        settings: Settings,
        work: Work,
        place: Place,
    ) -> None:
        """Keep the samples; choose what is to be chosen on some that are left out."""
        for stale in ("dual_coef_", "solver_state_", "landmark_indices_"):
            self.__dict__.pop(stale, None)
        start = clock(place.device)
        self._localization, self._features = localization, None
        self._targets, self._weights = problem.targets, problem.weights
        self._scale, self._columns = problem.scale, self._kept
        self._left, self._inputs = problem.left, to_numpy(problem.inputs.of)
        is_kernel = isinstance(self.kernel_, Kernel)
        self.X_train_ = problem.rows if is_kernel else problem.rows.copy()
        y, w = self._observations(work)
        diag = self._local_oracle(work, "fit").diag()
        self._mean_diag = mean_variance(diag, w)
        amplitude = self._fixed_amplitude(settings.prior, y, problem.scale)
        noise = settings.noise
        require_finite_noise((1.0 if isinstance(noise, str) else noise) / w)
        if isinstance(noise, str) or amplitude is None or problem.codes is not None:
            chosen = self._choose_by_neighbors(y, w, noise, amplitude, work)
        else:
            chosen = _Chosen(noise, amplitude)
        self.noise_variance_ = chosen.noise
        warn_of_jitter(chosen.jitter, float((chosen.noise / w).min()), work)
        n = len(y)
        n_pairs = n + chosen.n_pairs
        self._set_fit(
            problem,
            work,
            place,
            Timing(n_pairs, clock(place.device) - start, 0.0),
            chosen.amplitude,
            None,
            jitter=chosen.jitter,
            observed_fraction=min(1.0, n_pairs / (n * (n + 1) / 2)),
        )

    def _choose_by_neighbors(
        self,
        y: Tensor,
        w: Tensor,
        noise: float | str,
        amplitude: Tensor | None,
        work: Work,
    ) -> _Chosen:
        """Return noise and amplitude; keep the predictions of what was left out."""
        generator = make_generator(self.random_state)
        n = len(y)
        numbers = torch.randperm(n, generator=generator)[:LEFT_OUT].sort().values
        left_out, noises, facts = self._leave_out(numbers, y, w, noise, work)
        if amplitude is None:
            amplitudes = left_out.amplitude()[:, None].expand(-1, y.shape[1])
        else:
            amplitudes = amplitude.expand(len(noises), -1)
        best = int(left_out.log_density(amplitudes).argmax())
        loo = left_out.of_noise(best)
        mean, var = to_numpy(loo.mean), to_numpy(loo.var)
        self._loo = (mean, var) if len(numbers) == n else None
        self._sampled = to_numpy(numbers), mean, var
        return _Chosen(float(noises[best]), amplitudes[best], **facts)

    def _leave_out(
        self, numbers: Tensor, y: Tensor, w: Tensor, noise: float | str, work: Work
    ) -> tuple[LeftOut, Tensor, dict[str, Any]]:
        """Return samples as their neighbours predict them, for each noise tried."""
        around, rows = self._other_neighborhoods(numbers, work), self.X_train_
        assert rows is not None
        m, k = around.neighbors.shape
        facts: dict[str, Any] = {"n_pairs": m * (k * (k + 1) // 2)}
        if isinstance(noise, str):
            noises = y.new_tensor(noise_grid(self._gram_precision(rows, work)))
            mean = y.new_empty(m, len(noises), y.shape[1])
            var = y.new_empty(m, len(noises))
            for part, gram in around.grams:
                near = around.neighbors[part].to(y.device)
                mean[part], var[part] = local_spectra(
                    gram / self._mean_diag, y[near], w[near], noises
                )
        else:
            noises = y.new_tensor([noise])
            posterior = self._solve_locally(around, noise, work)
            mean, var = posterior.mean[:, None], posterior.var[:, None]
            facts["jitter"] = posterior.jitter
        own, weights = y[numbers.to(y.device)], w[numbers.to(y.device)]
        others = [
            self._observed(mean[:, i], var[:, i], numbers, float(noise), work)
            for i, noise in enumerate(noises)
        ]
        mean = torch.stack([loo.mean for loo in others], 1)
        var = torch.stack([loo.var for loo in others], 1)
        return LeftOut(own, weights, mean, var), noises, facts
