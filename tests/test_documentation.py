"""What the built documentation shows, without building it."""

import re
import runpy
from pathlib import Path

import jinja2
import pytest

import skconvgp
import skconvgp.transforms

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
faults_of_pages = runpy.run_path(str(ROOT / ".ci" / "check_pages.py"))["main"]
ENCODERS = ("BinaryEncoder", "KernelFeatures", "KernelFlowsWarp")
ESTIMATORS = runpy.run_path(str(DOCS / "api_methods.py"))["methods_of_estimators"]()


WIDEST_CODE = 88  # characters that fit on a laptop beside the menu
PAGES = [*DOCS.glob("*.rst"), *DOCS.glob("*/*.rst"), ROOT / "README.md"]


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


def test_code_fits_on_a_laptop():
    code = [
        line
        for page in PAGES
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.lstrip().startswith((">>> ", "... "))
    ]
    assert len(code) > 500
    assert not [line for line in code if len(line) > WIDEST_CODE]


def test_the_page_about_the_source_names_files_that_exist():
    text = (DOCS / "how_it_is_built.rst").read_text(encoding="utf-8")
    package = ROOT / "skconvgp"
    named = set(re.findall(r"``([\w/]+\.(?:py|cpp|hpp))``", text))
    folders = (package, ROOT / "tests")
    paths = {path.as_posix() for folder in folders for path in folder.rglob("*.*")}
    assert len(named) > 20
    assert not {
        name for name in named if not any(path.endswith(f"/{name}") for path in paths)
    }


def test_each_public_estimator_is_among_those_whose_methods_are_shown():
    public = {name for name in skconvgp.__all__ if name[0].isupper()}
    assert public - set(ESTIMATORS) == {"ImagePart", "SKOPS_TRUSTED_TYPES"}
    assert set(skconvgp.transforms.__all__) <= set(ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_page_of_an_estimator_shows_its_methods(name):
    transforms = name in ENCODERS or name in skconvgp.transforms.__all__
    usual = {"fit", "transform" if transforms else "predict"}
    assert usual <= shown(name)
    assert "`get_metadata_routing`" in page_of(name)


def test_what_base_classes_define_is_shown_too():
    assert "inverse_transform" in shown("ChannelScaler")
    expected = {
        *("predict_proba", "predict_latent", "loo_predict", "loo_predict_proba"),
        *("sample_y", "latent_gradient", "score", "decision_function"),
        *("log_marginal_likelihood", "partial_fit"),
    }
    assert expected <= shown("NystromCompletedGP")


LOCAL_PAGE = """<link rel="stylesheet" href="_static/a.css"><script src="a.js"></script>
<a href="https://example.org">elsewhere</a> <img src="a.png" srcset="a.png 1x">
<span class="math"><math><mi>x</mi></math></span>"""


def test_pages_that_load_nothing_pass(tmp_path):
    (tmp_path / "index.html").write_text(LOCAL_PAGE)
    (tmp_path / "a.css").write_text("a { background: url('a.png') }")
    assert faults_of_pages(tmp_path) == ""


@pytest.mark.parametrize(
    "line",
    [
        '<script async src="https://example.org/a.js"></script>',
        '<script src="//example.org/a.js"></script>',
        '<link href="https://example.org/a.css" rel="stylesheet">',
        '<img srcset="a.png 1x, https://example.org/a.png 2x">',
        "<style>@import 'https://example.org/a.css';</style>",
        '<p style="background: url(https://example.org/a.png)">',
    ],
)
def test_pages_that_load_from_the_network_are_found(tmp_path, line):
    (tmp_path / "index.html").write_text(LOCAL_PAGE)
    (tmp_path / "other.html").write_text(LOCAL_PAGE + line)
    found = faults_of_pages(tmp_path)
    assert "other.html loads" in found
    assert "example.org/a" in found
    assert "index.html" not in found


def test_style_sheets_that_load_from_the_network_are_found(tmp_path):
    (tmp_path / "index.html").write_text(LOCAL_PAGE)
    (tmp_path / "a.css").write_text('@font-face { src: url("https://example.org/a") }')
    assert "a.css loads https://example.org/a" in faults_of_pages(tmp_path)


def test_formulas_that_are_not_drawn_are_found(tmp_path):
    (tmp_path / "index.html").write_text(LOCAL_PAGE + '<div class="math">x</div>')
    assert "index.html draws 1 of 2 formulas" in faults_of_pages(tmp_path)


def test_a_folder_without_pages_is_no_success(tmp_path):
    assert "no pages" in faults_of_pages(tmp_path)
