"""The list of all public classes and functions is whole."""

import inspect

import pytest

from skconvgp._addresses import DOCS_URL
from tests.helpers.public import (
    CALLS,
    CASES,
    EXEMPT,
    FUNCTIONS,
    KERNELS,
    MODULES,
    names_in,
)

# What scikit-learn's bases bring, and what sets or describes parameters.
OTHERS = {"fit", "fit_transform", "get_params", "set_params", "get_metadata_routing"}
ALWAYS = ("gram_matrix", "gram_diag", "gram_gradient", "gram_vjp")  # of each kernel


def used_names():
    """Return the public names that cases and functions use."""
    found = {name for name in FUNCTIONS if not name.startswith("kernel ")}
    parts = [case.estimator for case in CASES] + KERNELS
    return found.union(ALWAYS, *map(names_in, parts))


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_used_or_has_a_reason(module):
    public = set(MODULES[module].__all__)
    assert public - used_names() - set(EXEMPT) == set()


def test_reasons_are_for_what_is_not_used():
    public = {name for module in MODULES.values() for name in module.__all__}
    assert set(EXEMPT) <= public
    assert set(EXEMPT).isdisjoint(used_names())


@pytest.mark.parametrize(
    "cls",
    dict.fromkeys(type(case.estimator) for case in CASES),
    ids=lambda cls: cls.__name__,
)
def test_every_public_method_is_called(cls):
    methods = {
        name
        for name, member in inspect.getmembers(cls, callable)
        if not name.startswith(("_", "set_"))
    }
    assert methods - OTHERS <= set(CALLS)


@pytest.mark.parametrize(
    "cls",
    dict.fromkeys(type(case.estimator) for case in CASES),
    ids=lambda cls: cls.__name__,
)
def test_pictures_of_estimators_link_to_their_page(cls, monkeypatch):
    estimator = next(one.estimator for one in CASES if type(one.estimator) is cls)
    if not DOCS_URL:
        assert estimator._get_doc_link() == ""
    monkeypatch.setattr("skconvgp._documented.DOCS_URL", "https://docs.example")
    (module,) = (one for one in MODULES.values() if cls.__name__ in one.__all__)
    page = f"https://docs.example/api/generated/{module.__name__}.{cls.__name__}.html"
    assert estimator._get_doc_link() == page
    assert page in estimator._repr_html_()
    of_user = type("Own", (cls,), {"__module__": "own"})
    assert of_user._get_doc_link(object.__new__(of_user)) == ""


def test_cases_have_different_names():
    assert len({case.name for case in CASES}) == len(CASES)
