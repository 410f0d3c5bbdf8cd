"""How an estimator is fitted through inducing patches."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skconvgp._protocols import VariationalLikelihood
from skconvgp.estimators._doors import Samples
from skconvgp.estimators._resolve import (
    AUTO,
    PRECOMPUTED,
    reject,
    resolve_count,
    resolve_noise,
    resolve_rate,
    resolve_word,
)
from skconvgp.estimators._settings import amplitude_of, noise_of
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.kernels import PatchKernel
from skconvgp.likelihoods import Gaussian
from skconvgp.processes import (
    INDUCING,
    InducingSet,
    KernelPrior,
    LabelModel,
    Problem,
    Settings,
    Steps,
    Variational,
    plan_patches,
    require_common_noise,
)

__all__ = [
    "bound_of",
    "default_kernel",
    "fit_patches",
    "inducing_of",
    "resolve_variational",
]

VARIANCES = ("dtc", "sor")
COLLAPSED, VARIATIONAL = "collapsed", "variational"


def default_kernel() -> PatchKernel:
    """Return the kernel that None stands for: responses change with the position."""
    return PatchKernel(location_lengthscale="auto")


def inducing_of(estimator: Any) -> InducingSet:
    """Return the inducing patches of a fitted estimator."""
    inducing: InducingSet = estimator._fitted.prior.inducing
    return inducing


def bound_of(estimator: Any) -> float:
    """Return the lower bound of the log evidence of a fitted estimator."""
    check_is_fitted(estimator)
    return float(estimator._process.bound)


def fit_patches(
    estimator: Any,
    problem: Problem,
    samples: Samples,
    models: Sequence[LabelModel] = (),
    variational: Variational | None = None,
) -> None:
    """Fit a process through inducing patches.

    Parameters
    ----------
    estimator : BaseGP
        Has the settings, and gets the fitted attributes.
    problem : Problem
        The problem to fit.
    samples : Samples
        Its samples, as they were given.
    models : sequence of LabelModel
        Models of labels that determine their own noise; they are refused.
    variational : Variational, optional
        Variational inference, if it is asked for.
    """
    require_common_noise(type(estimator).__name__, models)
    prior, resources = samples.prior, EstimatorResources(estimator)
    kernel = prior.kernel if isinstance(prior, KernelPrior) else PRECOMPUTED
    if not (isinstance(prior, KernelPrior) and isinstance(kernel, PatchKernel)):
        raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
            f"`kernel` of {type(estimator).__name__} must be None or a PatchKernel, "
            f"got {kernel!r}: for other kernels use NystromCompletedGP."
        )
    noise = noise_of(
        resolve_noise(estimator, estimator.noise_variance),
        problem,
        has_labels=False,
        affords_choice=lambda: True,
    )
    plan = plan_patches(
        kernel,
        prior,
        Settings(noise, amplitude_of(estimator, samples.training)),
        resolve_word(estimator, "variance", estimator.variance, VARIANCES),
        inducing=_inducing(estimator, kernel, prior.image_shape),
        n_inducing=_n_inducing(estimator),
        n_locations=_n_locations(estimator),
        generator=resources.generator(),
        variational=variational,
    )
    fitted, run = plan.fit(problem, resources)
    estimator._publish(samples.training, fitted, run, resources)


def resolve_variational(estimator: Any, n_classes: int) -> Variational | None:
    """Return the variational inference that a classifier asks for; None for none."""
    likelihood = estimator.likelihood_
    needs_it = isinstance(likelihood, VariationalLikelihood)
    words = (AUTO, COLLAPSED, VARIATIONAL)
    word = resolve_word(estimator, "inference", estimator.inference, words)
    steps = Steps(
        resolve_count(estimator, "batch_size", estimator.batch_size),
        resolve_count(estimator, "max_iter", estimator.max_iter),
        resolve_rate(estimator, estimator.learning_rate),
    )
    if needs_it and word == COLLAPSED:
        raise ValueError(
            f"inference='collapsed' has no closed form for {likelihood!r}: use "
            "inference='variational', or likelihood='gaussian'."
        )
    if word == COLLAPSED or not (needs_it or word == VARIATIONAL):
        return None
    is_profiled = isinstance(estimator.amplitude, str)
    if needs_it:
        n_latents = likelihood.n_latents(n_classes)
        return Variational(likelihood, steps, n_latents, is_profiled)
    if type(likelihood) is not Gaussian:
        raise ValueError(
            f"inference='variational' has no expected log likelihood for "
            f"{likelihood!r}: use likelihood='softmax', 'robustmax', 'bernoulli' or "
            "'gaussian'."
        )
    return Variational(None, steps, n_classes, is_profiled)


def _inducing(estimator: Any, kernel: PatchKernel, shape: Any) -> str | NDArray[Any]:
    given = estimator.inducing
    if isinstance(given, str):
        return resolve_word(estimator, "inducing", given, INDUCING)
    grid = kernel.grid(shape)
    size = (grid.channels, *grid.size)
    expected = (
        f"one of {INDUCING!r}, or an array of finite patches of "
        f"shape (m, {', '.join(map(str, size))})"
    )
    try:
        patches = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        reject(estimator, "inducing", expected, given)
    if patches.ndim < 2 or not len(patches) or patches[0].size != np.prod(size):
        reject(estimator, "inducing", expected, f"shape {patches.shape!r}")
    if not np.isfinite(patches).all():
        reject(estimator, "inducing", expected, "values that are NaN or infinite")
    return patches.reshape(-1, *size)


def _n_inducing(estimator: Any) -> int | None:
    m = estimator.n_inducing
    if isinstance(m, str) and m == "auto":
        return None
    if not _is_count(m):
        reject(estimator, "n_inducing", "'auto' or an int >= 1", m)
    return int(m)


def _n_locations(estimator: Any) -> Any:
    wanted = estimator.n_locations
    if isinstance(wanted, str) and wanted == "auto":
        return wanted
    pair = tuple(wanted) if isinstance(wanted, tuple | list) else (wanted, wanted)
    if len(pair) != 2 or not all(map(_is_count, pair)):
        reject(estimator, "n_locations", "'auto', an int >= 1 or two of them", wanted)
    return tuple(int(one) for one in pair)


def _is_count(value: Any) -> bool:
    is_int = isinstance(value, Integral) and not isinstance(value, bool)
    return is_int and int(value) >= 1
