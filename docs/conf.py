"""Sphinx configuration; `make docs` builds offline and treats warnings as errors."""

import os
import re
import runpy
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER / "figures")]

from api_methods import methods_of_estimators  # noqa: E402
from inventories import PROJECTS  # noqa: E402
from site_files import theme_options  # noqa: E402

from skconvgp._addresses import DOCS_URL, PROJECT_URL  # noqa: E402

project = "skconvgp"
author = "The skconvgp developers"
copyright = author
version = release = installed_version("skconvgp")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "mathml",
    "papers",
    "numpydoc",
    "site_files",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_generated", "_templates"]
source_suffix = {".rst": "restructuredtext", ".md": "restructuredtext"}
default_role = "code"
math_number_all = False
math_eqref_format = "({number})"

# `inventories.py` writes these files, so that a build needs no network.
intersphinx_mapping = {
    name: (address, f"inventories/{name}.txt")
    for name, (_, address) in PROJECTS.items()
}
nitpicky = True
# Attributes stand on the page of their class.
nitpick_ignore_regex = [("py:obj", r"\w+_")]

# `make linkcheck` asks other sites; some anchors are made by their scripts.
linkcheck_anchors = False
linkcheck_timeout = 30
linkcheck_retries = 3

autosummary_generate = True
autosummary_context = {"methods_of_estimators": methods_of_estimators()}
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"  # of methods: the column is narrow
numpydoc_show_class_members = False

copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def changed_examples() -> str:
    """Return a pattern of the examples that changed, as `.ci/changed.py` counts."""
    changed = runpy.run_path(str(FOLDER.parent / ".ci" / "changed.py"))["changed"]
    names = {re.escape(Path(name).name) for name in changed("examples")}
    return rf"/({'|'.join(sorted(names))})$"


IS_WHOLE = os.environ.get("SKCONVGP_GALLERY") != "changed"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_" if IS_WHOLE else changed_examples(),
    "copyfile_regex": r"index\.rst",  # sections, and their order
    "minigallery_sort_order": "site_files.place_in_gallery",
    "backreferences_dir": "gen_modules",
    "doc_module": ("skconvgp",),
    "reference_url": {"skconvgp": None},
    "capture_repr": ("__repr__",),
    "image_srcset": ["2x"],
    "abort_on_example_error": True,
    "write_computation_times": False,
    "min_reported_time": 3600,  # times of the building machine mean nothing to readers
    "show_signature": False,
    "log_level": {"backreference_missing": "info"},
}

html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_favicon = "_static/logo.svg"
html_logo = "_static/logo.svg"
html_additional_pages = {"404": "404.html"}
html_context = {"home": f"{DOCS_URL}/" if DOCS_URL else "index.html"}
html_title = f"skconvgp {version}"
html_show_sourcelink = False
html_domain_indices = False
html_show_copyright = False
html_baseurl = f"{DOCS_URL}/" if DOCS_URL else ""
html_theme_options = {
    "logo": {"text": "skconvgp"},
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    **theme_options(version, html_baseurl),
}
if PROJECT_URL:
    link = {"name": "Source", "url": PROJECT_URL, "icon": "fa-solid fa-code"}
    html_theme_options["icon_links"] = [link]
PLAIN_PAGES = ["index", "api", "benchmarks", "reference", "notation", "maths"]
PLAIN_PAGES += ["project", "cite", "deprecation", "how_it_is_built", "testing"]
PLAIN_PAGES += ["changelog", "sources"]
html_sidebars: dict[str, list[str]] = {page: [] for page in PLAIN_PAGES}


def with_tables(lines: list[str]) -> Iterator[str]:
    """Yield lines with the tables of Markdown as list tables, without their rules."""
    inside = False
    for line in lines:
        if not line.startswith("| "):
            inside = False
            yield line
            continue
        cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
        if not inside:
            yield from ("", ".. list-table::", "   :header-rows: 1", "")
        inside = True
        if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            starts = ["   * - ", *["     - "] * (len(cells) - 1)]
            yield from map(str.__add__, starts, cells)


def to_restructuredtext(text: str) -> str:
    """Turn the Markdown of our changelog and decisions into reStructuredText."""
    lines: list[str] = []
    for line in text.splitlines():
        heading = re.match(r"(#+) +(.*)", line)
        is_item = re.match(r"([-*]|\d+\.) ", line)
        if is_item and lines and lines[-1] and not re.match(r"[-*\d ]", lines[-1]):
            lines.append("")
        if heading:
            title = heading[2]
            lines += [title, "=-~^"[len(heading[1]) - 1] * len(title)]
        else:
            lines.append(line)
    text = "\n".join(with_tables(lines)) + "\n"
    body = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", text)
    return re.sub(r"\[([^\]]+)\]\((https?://[^)]+)\)", r"`\1 <\2>`__", body)


def read_markdown(app, docname, content):
    """Convert pages that are Markdown files."""
    if Path(app.env.doc2path(docname)).suffix == ".md":
        # Who searches for a subject wants its page, not how it was decided.
        content[0] = ":nosearch:\n\n" + to_restructuredtext(content[0])


def include_markdown(_app, path, _docname, content):
    """Convert Markdown files that pages include."""
    if path.suffix == ".md":
        content[0] = to_restructuredtext(content[0])


# Modules of docs/figures, and one beside this file, that write what pages include.
FIGURES = (
    "accuracy_seconds",
    "cache",
    "five_marks",
    "floors",
    "query_curves",
    "roofline",
    "warp",
)
TABLES = (
    "benchmarks_page",
    "calibration_table",
    "cite",
    "codes_table",
    "completion_table",
    "features_table",
    "flow_tables_table",
    "flows_table",
    "gpu_table",
    "image_regression_table",
    "image_seconds_table",
    "neighbors_table",
    "networks_table",
    "papers",
    "pooling_table",
    "questions_table",
    "robustness_table",
    "small_data_table",
    "sources_page",
    "speed_table",
    "strange_table",
    "threads_table",
)


def write_figures(_app):
    """Draw the figures; what needs a benchmark says so where it was not run."""
    target = FOLDER / "_generated"
    target.mkdir(exist_ok=True)
    for name in FIGURES:
        with mpl.rc_context():
            import_module(name).main(target / f"{name}.svg")
    for name in TABLES:
        import_module(name).main(target / f"{name}.rst.inc")


def setup(app):
    """Connect the converters."""
    app.connect("builder-inited", write_figures)
    app.connect("source-read", read_markdown)
    app.connect("include-read", include_markdown)
