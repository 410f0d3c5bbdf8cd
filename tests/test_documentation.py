"""What the built documentation shows, without building it."""

import runpy
from pathlib import Path

import jinja2
import pytest

import skconvgp

DOCS = Path(__file__).parents[1] / "docs"
ESTIMATORS = runpy.run_path(str(DOCS / "api_methods.py"))["methods_of_estimators"]()


def page_of(name):
    """Return the page of an estimator as autosummary writes it from our template."""
    templates = jinja2.FileSystemLoader(DOCS / "_templates")
    environment = jinja2.Environment(loader=templates)
    environment.filters["underline"] = lambda title: f"{title}\n{'=' * len(title)}"
    return environment.get_template("autosummary/class.rst").render(
        objname=name,
        module="skconvgp",
        attributes=[],
        methods=[],
        inherited_members=[],
        methods_of_estimators=ESTIMATORS,
    )


def shown(name):
    """Return the methods that the page of an estimator describes."""
    lines = page_of(name).splitlines()
    prefix = f"   .. automethod:: {name}."
    return {line.removeprefix(prefix) for line in lines if line.startswith(prefix)}


def test_each_public_estimator_is_among_those_whose_methods_are_shown():
    public = {name for name in skconvgp.__all__ if name[0].isupper()}
    assert public - set(ESTIMATORS) == {"SKOPS_TRUSTED_TYPES"}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_page_of_an_estimator_shows_its_methods(name):
    usual = {"fit", "transform"} if name == "KernelFlowsWarp" else {"fit", "predict"}
    assert usual <= shown(name)
    assert "`get_metadata_routing`" in page_of(name)


def test_what_base_classes_define_is_shown_too():
    expected = {
        *("predict_proba", "predict_latent", "loo_predict", "loo_predict_proba"),
        *("sample_y", "latent_gradient", "score", "decision_function"),
        *("log_marginal_likelihood", "partial_fit"),
    }
    assert expected <= shown("NystromCompletedGP")
