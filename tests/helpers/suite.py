"""The checks of scikit-learn, fewer of them for variants of a class."""

from functools import cache

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

# Of variants of a class the gate runs the checks that depend on how they compute.
CHECKS_OF_VARIANTS = (
    "check_classifiers_train",
    "check_estimators_dtypes",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_regressors_train",
    "check_sample_weight_equivalence",
    "check_transformer_general",
)


# An estimator is printed once: thousands of cases name it, and it takes milliseconds.
id_of = cache(parametrize_with_checks([]).mark.kwargs["ids"])


def name_of(check):
    """Return the name of a check, which scikit-learn may have bound to arguments."""
    return getattr(check, "func", check).__name__


def is_again(check):
    """Return whether a check is that of another one, from memory that is read only.

    What arrays may be is for the validation that our classes share: the first of them
    stands for it.
    """
    return "readonly_memmap" in getattr(check, "keywords", {})


def cases_of(estimators):
    """Return estimators and checks, those of variants that the gate skips as slow."""
    classes, cases, before = set(), [], None
    for estimator, check in parametrize_with_checks(estimators).mark.args[1]:
        if id_of(estimator) != before:
            is_variant, before = type(estimator) in classes, id_of(estimator)
            classes.add(type(estimator))
        is_run = not is_variant or name_of(check).startswith(CHECKS_OF_VARIANTS)
        in_gate = is_run and (len(classes) == 1 or not is_again(check))
        marks = [] if in_gate else [pytest.mark.slow]
        marks += [pytest.mark.variant] if is_variant else []
        cases.append(pytest.param(estimator, check, marks=marks))
    return cases
