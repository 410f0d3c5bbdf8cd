"""What the site has beside its pages, and that each page is listed with a sentence."""

import importlib
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import skconvgp

DOCS = Path(__file__).parents[1] / "docs"
SITE = "https://docs.example.org/"
SECTIONS = [
    *("Start", "Use", "Judge", "Questions about your data", "Many images"),
    *("Study kernels", "Coming from", "Reference", "Project"),
]


@pytest.fixture
def site_files(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("site_files")


def test_pages_are_listed_in_the_order_of_a_reader(site_files):
    listed = site_files.listed_pages()
    assert list(dict.fromkeys(section for section, *_ in listed)) == SECTIONS
    assert listed[0][1] == "user_guide/install"
    for _, page, sentence in listed:
        assert (DOCS / f"{page}.rst").exists(), page
        assert len(sentence) > 10


def test_each_page_of_the_guide_is_listed_once(site_files):
    listed = [page for _, page, _ in site_files.listed_pages()]
    assert len(listed) == len(set(listed))
    pages = {
        path.relative_to(DOCS).with_suffix("").as_posix()
        for path in DOCS.glob("user_guide/**/*.rst")
    }
    assert pages - set(listed) == {"user_guide/index"}


def test_lists_and_menus_have_the_same_pages(site_files):
    for index in site_files.INDICES:
        text = (DOCS / f"{index}.rst").read_text(encoding="utf-8")
        listed = re.findall(r"^- :doc:`([\w/]+)`", text, flags=re.M)
        assert listed == re.findall(r"^   ([a-z_/]+)$", text, flags=re.M)


def test_the_gallery_has_each_example_once_in_a_section(site_files):
    text = site_files.GALLERY.read_text(encoding="utf-8")
    listed = re.findall(r"^   (plot_\w+)$", text, flags=re.M)
    examples = [path.stem for path in site_files.GALLERY.parent.glob("*.py")]
    assert sorted(listed) == sorted(examples)
    assert sorted(examples, key=site_files.place_in_gallery) == listed
    pictures = re.findall(
        r"^   ../examples/(\w+).py$", site_files.with_pictures(text), re.M
    )
    assert pictures == listed


def test_programs_find_a_line_for_each_page(site_files):
    text = site_files.llms_text(SITE)
    assert text.startswith("# skconvgp\n\n> ")
    links = re.findall(r"^- \[([^]]+)\]\(([^)]+)\): \S.*$", text, flags=re.M)
    assert len(links) == len(site_files.listed_pages())
    assert f"{SITE}user_guide/folder.html" in {link for _, link in links}
    assert "`" not in text


def test_a_sitemap_has_all_pages(site_files):
    root = ET.fromstring(site_files.sitemap_text(["a", "b/c&d"], SITE))
    found = [one.text for one in root.iter() if one.tag.endswith("loc")]
    assert found == [f"{SITE}a.html", f"{SITE}b/c&d.html"]


def test_the_menu_of_versions_has_the_newest_at_the_address(site_files):
    text = site_files.versions_text("## 0.2.0 (unreleased)\n\n## 0.1.0\n", SITE)
    assert json.loads(text) == [
        {"version": "0.2.0", "url": SITE},
        {"version": "0.1.0", "url": f"{SITE}0.1.0/"},
    ]
    changelog = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = json.loads(site_files.versions_text(changelog, SITE))[0]
    assert newest["version"] == skconvgp.__version__


def test_without_an_address_there_is_no_menu_of_versions(site_files):
    assert site_files.theme_options("0.1.0", "") == {}
    options = site_files.theme_options("0.1.0", SITE)
    assert options["switcher"]["version_match"] == "0.1.0"
    assert options["switcher"]["json_url"] == f"{SITE}{site_files.VERSIONS}"
    assert "version-switcher" in options["navbar_end"]


def test_tags_state_no_address_without_one(site_files):
    tags = site_files.tags_of("A <b>", 'says "so"', "")
    assert 'name="description" content="says &quot;so&quot;"' in tags
    assert "<b>" not in tags
    assert "http" not in tags
    assert f"{SITE}{site_files.PICTURE}" in site_files.tags_of("A", "b", SITE)
    assert (DOCS / site_files.PICTURE).exists()


class Node:
    """A node of a page, as docutils has them."""

    def __init__(self, tagname, text="", *children):
        self.tagname, self.text, self.children = tagname, text, children

    def findall(self):
        return iter((self, *self.children))

    def astext(self):
        return self.text


def test_a_page_is_described_by_its_first_paragraph(site_files):
    def described(*nodes):
        return site_files.description_of(Node("document", "", *nodes))

    text = Node("#text", "Title")
    assert (
        described(text, Node("paragraph", "one\ntwo"), Node("paragraph")) == "one two"
    )
    assert described(Node("title", "Title")) == site_files.ABOUT
    long = described(Node("paragraph", "word " * 99))
    assert long == "word " * 32 + "…"


def test_the_citation_names_the_version(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "figures"))
    cite = importlib.import_module("cite")
    text = cite.SOURCE.read_text(encoding="utf-8")
    found = cite.entry(text)
    assert found.startswith("@software{skconvgp,\n  title = {skconvgp: ")
    assert f"  version = {{{skconvgp.__version__}}},\n" in found
    assert "url" not in cite.entry(re.sub("(?m)^(url|repository-code).*\n", "", text))
    assert f"  url = {{{SITE}}},\n" in cite.entry(f'{text}url: "{SITE}"\n')


def test_the_page_of_benchmarks_names_every_file_of_rows(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "figures"))
    page = importlib.import_module("benchmarks_page")
    pages = page.pages_of_questions()
    assert ":doc:`/user_guide/speed`" in pages["fused_cpu"]
    line = page.as_text("**A** (`B`; [c.json](d/c.json); `e f`)")
    assert line == "**A** (``B``; ``d/c.json``; ``e f``)"
