"""Terms of the kernel of an estimator of patches, and their inducing variables."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from skconvgp._typing import FloatArray, ImageShape
from skconvgp.estimators._resolve import reject, resolve_word
from skconvgp.kernels import Kernel, PatchKernel
from skconvgp.kernels._patch_grid import PatchGrid
from skconvgp.processes import INDUCING, Inducing, TermChoice, terms_of

OF_A_SUM = "; for a sum, a list may have one for each term"


def patches_of_terms(estimator: Any) -> FloatArray | list[FloatArray]:
    """Return the inducing patches of a fitted estimator; of a sum, of each term."""
    inducing: Inducing = estimator._fitted.prior.inducing
    patches = [term.patches for term in inducing.terms]
    return patches if len(patches) > 1 else patches[0]


def places_of_terms(estimator: Any) -> FloatArray | list[FloatArray | None]:
    """Return the places of a fitted estimator; of a sum, of each term.

    A kernel of whole images has none.
    """
    inducing: Inducing = estimator._fitted.prior.inducing
    if len(inducing.terms) == 1:
        return inducing.terms[0].locations
    return [
        variables.locations if isinstance(term.kernel, PatchKernel) else None
        for variables, term in zip(
            inducing.terms, terms_of(estimator.kernel_), strict=True
        )
    ]


def refuse_kernel(estimator: Any, kernel: object) -> NoReturn:
    """Raise an error that says which kernels work."""
    raise ValueError(
        f"`kernel` of {type(estimator).__name__} must be None, a PatchKernel, or a sum "
        "of PatchKernels and kernels of whole images, each of which may be multiplied "
        f"by a number and averaged over flips, got {kernel!r}. Products with a "
        "PatchKernel work in ConvNetGPClassifier and ConvNetGPRegressor, and kernels "
        "without one in NystromCompletedGP and NystromCompletedGPRegressor, too."
    )


def resolve_terms(
    estimator: Any, kernel: Kernel, shape: ImageShape
) -> tuple[TermChoice, ...]:
    """Return how the inducing variables of each term of a kernel are chosen."""
    terms = terms_of(kernel)
    of_patches = [isinstance(term.kernel, PatchKernel) for term in terms]
    inside = [
        part
        for term, is_patches in zip(terms, of_patches, strict=True)
        for part in term.kernel.get_params().values()
        if not is_patches and isinstance(part, PatchKernel)
    ]
    if inside or not any(of_patches):
        refuse_kernel(estimator, kernel)
    given = (
        _for_each(estimator, name, len(terms))
        for name in ("inducing", "n_inducing", "n_locations")
    )
    return tuple(
        TermChoice(
            _inducing(estimator, how, term.of_patches(shape).grid(shape)),
            _n_inducing(estimator, n_patches),
            _n_locations(estimator, n_places),
        )
        for term, how, n_patches, n_places in zip(terms, *given, strict=True)
    )


def _for_each(estimator: Any, name: str, n_terms: int) -> Sequence[Any]:
    """Return a setting for each term of a kernel: a list has one for each."""
    given = getattr(estimator, name)
    are_patches = n_terms == 1 and name == "inducing"
    if are_patches or not isinstance(given, list):
        return [given] * n_terms
    if len(given) != n_terms:
        pair = ", such as a tuple (height, width)" if name == "n_locations" else ""
        reject(
            estimator,
            name,
            f"one setting{pair}, or a list with one for each term of the kernel, "
            f"which has {n_terms}",
            given,
        )
    return given


def _inducing(estimator: Any, given: Any, grid: PatchGrid) -> str | NDArray[Any]:
    if isinstance(given, str):
        return resolve_word(estimator, "inducing", given, INDUCING)
    size = (grid.channels, *grid.size)
    expected = (
        f"one of {INDUCING!r}, or an array of finite patches of "
        f"shape (m, {', '.join(map(str, size))}){OF_A_SUM}"
    )
    try:
        patches = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        reject(estimator, "inducing", expected, given)
    if patches.ndim < 2 or not len(patches) or patches[0].size != np.prod(size):
        reject(estimator, "inducing", expected, f"shape {patches.shape!r}")
    if not np.isfinite(patches).all():
        reject(estimator, "inducing", expected, "values that are NaN or infinite")
    return patches.reshape(-1, *size)


def _n_inducing(estimator: Any, m: Any) -> int | None:
    if isinstance(m, str) and m == "auto":
        return None
    if not _is_count(m):
        reject(estimator, "n_inducing", f"'auto' or an int >= 1{OF_A_SUM}", m)
    return int(m)


def _n_locations(estimator: Any, wanted: Any) -> Any:
    if isinstance(wanted, str) and wanted == "auto":
        return wanted
    pair = wanted if isinstance(wanted, tuple) else (wanted, wanted)
    if len(pair) != 2 or not all(map(_is_count, pair)):
        expected = f"'auto', an int >= 1 or a tuple (height, width) of two{OF_A_SUM}"
        reject(estimator, "n_locations", expected, wanted)
    return tuple(int(one) for one in pair)


def _is_count(value: Any) -> bool:
    is_int = isinstance(value, Integral) and not isinstance(value, bool)
    return is_int and int(value) >= 1
