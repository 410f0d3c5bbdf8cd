"""Papers that docstrings and pages cite: each is in the table, and so has a link."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCES = sorted((ROOT / "skconvgp").rglob("*.py"))
PAGES = sorted([*DOCS.glob("*.rst"), *DOCS.glob("user_guide/**/*.rst")])
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
# No link is known of a thesis, nor of one book.
WITHOUT_ADDRESS = {"Bin Khalid", "Iglewicz and Hoaglin", "Meinel"}
THESIS = re.compile(r"(Meinel|Bin Khalid|Kozyrskiy)(, (MSc|PhD) thesis)?, 20\d\d")
YEAR = re.compile(r"\b(?:19|20)\d\d\b")


@pytest.fixture
def papers(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("papers")


def references():
    """Return the section of each docstring, by its place."""
    found = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            after = re.split(r"^References\n-+\n", text or "", flags=re.M)[1:]
            if after:
                section = re.split(r"\n\n[A-Z][\w ]+\n-+\n", after[0])[0]
                found[f"{path.name}: {getattr(node, 'name', '')}"] = section
    return found


def footnotes():
    """Return the papers at the end of each page, by their place."""
    entry = re.compile(r"^\.\. \[\w+\] (?:.+\n?(?:   .+\n?)*)", re.M)
    return {
        f"{path.stem}: {found[0][:20]}": found[0]
        for path in PAGES
        for found in entry.finditer(path.read_text(encoding="utf-8"))
    }


def unknown(text, papers):
    """Return what is left of a text without its citations, if a year is left."""
    left = " ".join(text.split())
    for paper in papers.PAPERS.values():
        first = re.split(r",| and | et al", paper.authors)[0]
        authors = rf"(?:{re.escape(paper.authors)}|{re.escape(first)} et al\.)"
        title = re.escape(f'"{paper.title}"')
        # Between a title and its year there may be a journal.
        left = re.sub(rf"{authors}, {title},( [^\";]+,)? {paper.year}", "", left)
    left = THESIS.sub("", left)
    return left if YEAR.search(left) or re.search(r'[a-z], "[A-Z]', left) else ""


def test_each_cited_paper_is_in_the_table(papers):
    """By its authors, its title and its year."""
    docstrings, pages = references(), footnotes()
    assert len(docstrings) > 100
    assert len(pages) > 20
    cited = docstrings | pages
    assert {
        where: left for where in cited if (left := unknown(cited[where], papers))
    } == {}


@pytest.mark.parametrize(
    "text",
    [
        'Cho and Saul, "Kernel methods for deep learning", 2008.',
        'Saul and Cho, "Kernel methods for deep learning", 2009.',
        'Cho and Saul, "Kernel methods for learning", 2009.',
        "Cho and Saul, 2009.",
        'Nobody, "Nothing at all".',
    ],
)
def test_other_citations_are_found(papers, text):
    assert unknown(text, papers)


def test_each_paper_of_the_table_is_cited(papers):
    """Pages name some by first author and year only."""
    texts = [path.read_text(encoding="utf-8") for path in [*SOURCES, *PAGES]]
    everything = " ".join(" ".join(texts).split())

    def is_cited(paper):
        first = re.split(r",| and | et al", paper.authors)[0]
        short = rf"{re.escape(first)}\b[^.;\"]{{,60}}{paper.year}"
        return f'"{paper.title}"' in everything or re.search(short, everything)

    assert [title for title, one in papers.PAPERS.items() if not is_cited(one)] == []


def test_papers_have_addresses(papers):
    known = papers.PAPERS.values()
    assert {one.authors for one in known if not one.address} == WITHOUT_ADDRESS
    address = re.compile(
        r"10\.\d{4,5}/\S+|arXiv:(\d{4}\.\d{4,5}|[\w-]+/\d{7})|https://\S+"
    )
    wrong = [one for one in known if one.address and not address.fullmatch(one.address)]
    assert wrong == []
    links = [papers.address_of(one) for one in known if one.address]
    assert len(links) == len(set(links))
    assert all(link.startswith("https://") for link in links)


def test_a_title_in_quotes_becomes_a_link(papers):
    text = 'Cho and Saul, "Kernel methods\n   for deep learning", 2009; "kmeans".'
    title, address = '"Kernel methods for deep learning"', "https://papers.nips.cc/"
    assert papers.with_links(text).startswith(f"Cho and Saul, `{title} <{address}")
    assert papers.with_links(text).endswith('.html>`__, 2009; "kmeans".')
    book = 'Iglewicz and Hoaglin, "How to detect and handle outliers", 1993.'
    assert papers.with_links(book) == book


def test_addresses_are_those_of_their_kind(papers):
    def link(address):
        return papers.address_of(papers.Paper("A", "2000", "T", address))

    assert link("10.1000/1") == "https://doi.org/10.1000/1"
    assert link("arXiv:1808.05587") == "https://arxiv.org/abs/1808.05587"
    assert link("https://example.org") == "https://example.org"
    assert link("") == ""


def test_all_papers_are_listed_by_their_authors(papers):
    lines = papers.list_of_papers().splitlines()
    assert len(lines) == len(papers.PAPERS)
    assert lines[0].startswith('- Alpaydin and Kaynak, `"Optical recognition')
    assert lines[-1].startswith("- Zhang, Tsang and Kwok, ")
