"""Offsets and scales of targets."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from skconvgp._typing import FloatArray
from skconvgp.engine import host_values
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.settings._checks import Given
from skconvgp.inference import UNINFORMED

# Largest targets whose squares, and the sums of these, are finite numbers.
LARGEST_TARGET = 1e150
# Differences of targets whose squares are rounded, or zero.
SMALLEST_TARGET = 1e-150
# Differences of targets, as a share of their size, that rounding may cause.
ROUNDING = 4.0 * np.finfo(np.float64).eps
# Sizes of the targets of a solve. Their squares are divided by the noise, and summed
# over the samples.
RANGE = {torch.float64: (1e-150, 1e140), torch.float32: (1e-15, 1e12)}
MOST_NAMED = 10  # columns in a message


def target_columns(targets: NDArray[Any]) -> FloatArray:
    """Return targets (n, k); raise if their squares are not finite."""
    columns = np.asarray(targets, dtype=np.float64).reshape(len(targets), -1)
    largest = float(np.abs(columns).max())
    if largest > LARGEST_TARGET:
        raise ValueError(
            f"y holds numbers up to {largest:.3g}, whose squares overflow: divide y by "
            "a number of that size, and multiply predictions by it."
        )
    return columns


def scale_targets(
    columns: FloatArray, weights: FloatArray, *, is_scaled: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the offset and the scale of each output, (k,) each.

    They give targets (n, k) with weights (n,) mean 0 and standard deviation 1, or leave
    them as they are. If targets differ by so little that squares vanish, it raises.
    """
    difference = float(np.abs(columns - columns[0]).max())
    if 0.0 < difference < SMALLEST_TARGET:
        raise ValueError(
            f"Targets differ by no more than {difference:.3g}, whose square vanishes: "
            "divide y by a number of that size, and multiply predictions by it."
        )
    n_outputs = columns.shape[1]
    if not is_scaled:
        return np.zeros(n_outputs), np.ones(n_outputs)
    mean = np.average(columns, axis=0, weights=weights)
    spread = np.average((columns - mean) ** 2, axis=0, weights=weights)
    is_varied = varied(columns, mean) & (spread > 0.0)
    return mean, np.where(is_varied, np.sqrt(spread), 1.0)


def common_scale(
    columns: FloatArray, mean: FloatArray, scale: FloatArray
) -> FloatArray:
    """Return one scale for all outputs (k,): that of outputs whose targets differ."""
    is_varied = varied(columns, mean)
    if not is_varied.any():
        return np.ones_like(scale)
    common: FloatArray = np.full_like(scale, np.sqrt(np.mean(scale[is_varied] ** 2)))
    return common


def read_noises(
    settings: Given, n_samples: int, *, is_allowed: bool, is_outline: bool
) -> FloatArray | None:
    """Return a noise variance (n,) for each sample; None for one of all of them.

    Not all estimators allow it. An outline of a fit may be of fewer samples.
    """
    given = settings["noise_variance"]
    found = host_values(given, "noise_variance")
    if isinstance(given, str) or np.ndim(found) == 0:
        return None
    if not is_allowed:
        raise ValueError(
            f"{settings.owner} has one noise variance for all samples, and "
            "`noise_variance` is an array: use a number v and `sample_weight`, for "
            "noise variances v / weight, or ConvNetGPRegressor."
        )
    try:
        noises = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        noises = np.empty(0)
    if is_outline and noises.ndim == 1 and len(noises) > n_samples:
        noises = noises[:n_samples]
    if noises.shape != (n_samples,):
        shape = noises.shape if noises.size else "no numbers"
        raise ValueError(
            "`noise_variance` must be a number, a word, or an array of one variance "
            f"for each of the {n_samples} samples, got {shape}. Where parts of the "
            "samples are fitted, as in cross-validation, use a number v and "
            "`sample_weight`, for noise variances v / weight."
        )
    if not (np.isfinite(noises) & (noises > 0.0)).all():
        raise ValueError(
            "`noise_variance` must hold finite numbers > 0, got "
            f"{noises.min():g} to {noises.max():g}: give exact targets a tiny variance."
        )
    return noises


def in_units(columns: FloatArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Return targets (n, k) in their units; zeros where only rounding differs."""
    scaled: FloatArray = np.where(varied(columns, mean), (columns - mean) / scale, 0.0)
    return scaled


def varied(columns: FloatArray, offset: FloatArray) -> NDArray[np.bool_]:
    """Return for each output whether its targets differ from an offset.

    Differences whose squares vanish beside those of other outputs are none.
    """
    least = np.maximum(ROUNDING * np.abs(columns).max(axis=0), SMALLEST_TARGET)
    is_varied: NDArray[np.bool_] = np.abs(columns - offset).max(axis=0) > least
    return is_varied


def require_range(scaled: FloatArray, dtype: torch.dtype, *, is_first: bool) -> None:
    """Raise if squares of targets (n, k) overflow, or vanish, in the solve.

    Targets are in the units of the fit, and `dtype` is the precision of the solve.
    Small targets may follow larger ones, unless they are the first.
    """
    least, most = RANGE[dtype]
    sizes = np.abs(scaled).max(axis=0)
    too_small = (sizes > 0.0) & (sizes < least) & is_first
    wrong = too_small | (sizes > most)
    if not wrong.any():
        return
    precision = str(dtype).removeprefix("torch.")
    others = [] if dtype == torch.float64 else ["set solve_dtype='float64'"]
    remedies = ["set normalize_y=True", *others, "or scale y"]
    raise ValueError(
        f"Targets{_of_columns(wrong)} have sizes up to {sizes[wrong].max():.3g} in the "
        f"units of the fit, which must be {least:g} to {most:g} with "
        f"solve_dtype={precision!r}, as squares overflow or vanish: "
        f"{', '.join(remedies)}."
    )


def warn_of_constants(
    is_varied: NDArray[np.bool_], used: str, remedy: str = ""
) -> None:
    """Warn if some outputs (k,), or all, determine no prior variance.

    `used` names the part that uses a number instead, `remedy` a setting that gives the
    prior variance.
    """
    if is_varied.all():
        return
    which, beside, remedies = "All targets are the same, or there is only one", "", []
    if is_varied.any():
        which = f"Targets{_of_columns(~is_varied)} are all the same"
        beside = ", and the noise of the other columns"
        remedies = ["leave such columns out"]
    remedies += [remedy] if remedy else ["set normalize_y=False"]
    advice = ", or ".join(remedies)
    warn_caller(
        f"{which}, so that they do not determine a prior variance: {used} uses "
        f"{UNINFORMED:g}, in squared units of y{beside}. "
        f"{advice[0].upper()}{advice[1:]}.",
        UserWarning,
    )


def _of_columns(chosen: NDArray[np.bool_]) -> str:
    """Return words for some of the columns of y, if it has several."""
    if len(chosen) == 1:
        return ""
    indices = np.flatnonzero(chosen).tolist()
    names = ", ".join(map(str, indices[:MOST_NAMED]))
    more = ", ..." if len(indices) > MOST_NAMED else ""
    return f" in column{'s' if len(indices) > 1 else ''} {names}{more} of y"
