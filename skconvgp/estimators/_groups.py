"""Groups of samples that are left out together: how they are read, who takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp._protocols import Localization, VariationalLikelihood
from skconvgp.engine import host_values
from skconvgp.estimators.settings._checks import Given

SUPPORTING = (
    "Groups are left out where all targets share one noise variance: exactly, by "
    "landmarks, features or patches, and by sums of parts."
)


def read_groups(groups: Any, n_samples: int) -> NDArray[np.intp]:
    """Return a number (n,) for the group of each sample; raise unless each has one.

    Values of any kind are equal as keys of a dict are.
    """
    values = np.asarray(host_values(groups, "groups"))
    if values.ndim != 1:
        raise ValueError(
            "`groups` must have one dimension, a value for each sample, got shape "
            f"{values.shape!r}."
        )
    if len(values) != n_samples:
        raise ValueError(
            f"`groups` has {len(values)} values, and X has {n_samples} samples: pass "
            "one value for each, the same for samples that are left out together."
        )
    number_of: dict[Any, int] = {}
    numbers = []
    for value in values.tolist():
        if _is_missing(value):
            raise ValueError(
                f"`groups` holds {value!r}: give each sample without a group a value "
                "of its own."
            )
        numbers.append(number_of.setdefault(value, len(number_of)))
    return np.array(numbers, dtype=np.intp)


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, or differs from itself as NaN does."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # a missing value of pandas
        return True


def require_groups_known(given: Given, likelihood: Any, *, has_models: bool) -> None:
    """Raise if settings ask for a fit that leaves no groups out.

    `likelihood` is None for regression, and `has_models` says whether labels determine
    their noise.
    """
    is_variational = isinstance(likelihood, VariationalLikelihood)
    if has_models or is_variational:
        raise ValueError(
            f"{likelihood!r} leaves out single samples, and no `groups`. {SUPPORTING} "
            "Use likelihood='gaussian'."
        )
    refused = {"optimizer": "loo", "inference": "variational"}
    for name, word in refused.items():
        value = given.values.get(name)
        if isinstance(value, str) and value == word:
            raise ValueError(
                f"{name}={word!r} leaves out single samples, and no `groups`. "
                f"{SUPPORTING} Use another `{name}`."
            )
    completion = given.values.get("completion")
    if isinstance(completion, Localization):
        raise ValueError(  # noqa: TRY004  (a wrong combination, not a wrong type)
            f"{completion!r} leaves out single samples, and no `groups`. {SUPPORTING} "
            "Use another `completion`."
        )
