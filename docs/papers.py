"""Links to papers: each title of papers.csv that stands in quotes becomes one.

So docstrings and pages cite papers as plain text: authors, the title in quotes, the
year. The table has an address of a paper unless it has none: a thesis, or an old book.
"""

import csv
import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["PAPERS", "address_of", "list_of_papers", "setup", "with_links"]

TABLE = Path(__file__).parent / "papers.csv"


class Paper(NamedTuple):
    """A row of the table. An address is a DOI, arXiv:NUMBER, or begins with https."""

    authors: str
    year: str
    title: str
    address: str


with TABLE.open(encoding="utf-8", newline="") as lines:
    PAPERS = {row["title"]: Paper(**row) for row in csv.DictReader(lines)}

# Texts may break lines within a title.
FLEXIBLE = "|".join(re.escape(title).replace(r"\ ", r"\s+") for title in PAPERS)
QUOTED = re.compile(rf'"({FLEXIBLE})"')


def address_of(paper: Paper) -> str:
    """Return the address of a paper, empty without one."""
    if paper.address.startswith("arXiv:"):
        return f"https://arxiv.org/abs/{paper.address.removeprefix('arXiv:')}"
    is_doi = paper.address.startswith("10.")
    return f"https://doi.org/{paper.address}" if is_doi else paper.address


def with_links(text: str) -> str:
    """Return a text with a link at each title in quotes that the table has."""

    def link(found: re.Match[str]) -> str:
        title = " ".join(found[1].split())
        address = address_of(PAPERS[title])
        return f'`"{title}" <{address}>`__' if address else found[0]

    return QUOTED.sub(link, text)


def list_of_papers() -> str:
    """Return a list of all papers, in the order of their authors."""
    entries = [
        f'- {paper.authors}, "{paper.title}", {paper.year}.'
        for paper in sorted(PAPERS.values(), key=lambda paper: paper[0].casefold())
    ]
    return with_links("\n".join(entries)) + "\n"


def main(target: Path) -> None:
    """Write the list for the page "Citing"."""
    target.write_text(list_of_papers(), encoding="utf-8")


def read_page(_app, _docname, content):
    """Link titles of a page."""
    content[0] = with_links(content[0])


def read_docstring(_app, _what, _name, _object, _options, lines):
    """Link titles of a docstring."""
    lines[:] = with_links("\n".join(lines)).split("\n")


def ask_registry(_app, uri):
    """Ask, of a DOI, only whether it exists: publishers refuse programs."""
    doi = uri.removeprefix("https://doi.org/")
    return uri if doi == uri else f"https://doi.org/api/handles/{doi}"


def setup(app):
    """Connect all."""
    app.connect("linkcheck-process-uri", ask_registry)
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", read_docstring)
    return {"parallel_read_safe": True}
