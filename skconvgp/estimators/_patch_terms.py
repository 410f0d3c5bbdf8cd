"""Terms of the kernel of an estimator of patches, and their inducing variables."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from skconvgp._settings import is_int
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.estimators.settings._checks import (
    Given,
    UnfitError,
    is_auto,
    word_of,
)
from skconvgp.kernels import Kernel, PatchKernel
from skconvgp.kernels._patch_grid import PatchGrid
from skconvgp.processes import INDUCING, Inducing, TermChoice, terms_of

OF_A_SUM = "; for a sum, a list may have one for each term"


def patches_of_terms(basis: Any) -> FloatArray | list[FloatArray]:
    """Return the inducing patches of a basis; of a sum, of each term."""
    inducing: Inducing = basis.inducing
    patches = [term.patches for term in inducing.terms]
    return patches if len(patches) > 1 else patches[0]


def places_of_terms(basis: Any) -> FloatArray | list[FloatArray | None]:
    """Return the places of the patches of a basis; of a sum, of each term.

    A kernel of whole images has none.
    """
    inducing: Inducing = basis.inducing
    if len(inducing.terms) == 1:
        return inducing.terms[0].locations
    return [
        variables.locations if isinstance(term.kernel, PatchKernel) else None
        for variables, term in zip(
            inducing.terms, terms_of(basis.kernel_basis.kernel), strict=True
        )
    ]


def refuse_kernel(owner: str, kernel: object) -> NoReturn:
    """Raise an error that says which kernels work."""
    raise ValueError(
        f"`kernel` of {owner} must be None, a PatchKernel, or a sum "
        "of PatchKernels and kernels of whole images, each of which may be multiplied "
        f"by a number and averaged over flips, got {kernel!r}. Products with a "
        "PatchKernel work in ConvNetGPClassifier and ConvNetGPRegressor, and kernels "
        "without one in NystromCompletedGP and NystromCompletedGPRegressor, too."
    )


def read_terms(
    given: Given, kernel: Kernel, shape: ImageShape
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
        refuse_kernel(given.owner, kernel)
    each = (
        _for_each(given, name, len(terms))
        for name in ("inducing", "n_inducing", "n_locations")
    )
    return tuple(
        TermChoice(
            how.read("inducing", _as_inducing, grid=_grid(term, shape)),
            n_patches.read("n_inducing", _as_number),
            n_places.read("n_locations", _as_places),
        )
        for term, how, n_patches, n_places in zip(terms, *each, strict=True)
    )


def _for_each(given: Given, name: str, n_terms: int) -> list[Given]:
    """Return the settings of each term of a kernel: a list has one for each."""
    value = given[name]
    are_patches = n_terms == 1 and name == "inducing"
    if are_patches or not isinstance(value, list):
        return [given] * n_terms
    if len(value) != n_terms:
        pair = ", such as a tuple (height, width)" if name == "n_locations" else ""
        expected = (
            f"one setting{pair}, or a list with one for each term of the kernel, "
            f"which has {n_terms}"
        )
        given.reject(name, expected)
    return [given.but(**{name: one}) for one in value]


def _grid(term: Any, shape: ImageShape) -> PatchGrid:
    """Return where the patches of a term lie in images."""
    grid: PatchGrid = term.of_patches(shape).grid(shape)
    return grid


def _as_inducing(given: Any, grid: PatchGrid) -> str | NDArray[Any]:
    if isinstance(given, str):
        return word_of(INDUCING)(given)
    size = (grid.channels, *grid.size)
    expected = (
        f"one of {INDUCING!r}, or an array of finite patches of "
        f"shape (m, {', '.join(map(str, size))}){OF_A_SUM}"
    )
    try:
        patches = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UnfitError(expected) from None
    if patches.ndim < 2 or not len(patches) or patches[0].size != np.prod(size):
        raise UnfitError(expected, f"shape {patches.shape!r}")
    if not np.isfinite(patches).all():
        raise UnfitError(expected, "values that are NaN or infinite")
    return patches.reshape(-1, *size)


def _as_number(m: object) -> int | None:
    if is_auto(m):
        return None
    if isinstance(m, Integral) and is_int(m):
        return int(m)
    raise UnfitError(f"'auto' or an int >= 1{OF_A_SUM}")


def _as_places(wanted: Any) -> Any:
    if is_auto(wanted):
        return wanted
    pair = wanted if isinstance(wanted, tuple) else (wanted, wanted)
    if len(pair) == 2 and all(map(is_int, pair)):
        return tuple(int(one) for one in pair)
    raise UnfitError(f"'auto', an int >= 1 or a tuple (height, width) of two{OF_A_SUM}")
