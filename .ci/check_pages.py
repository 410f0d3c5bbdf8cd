"""Check built pages: none loads anything from the network, and formulas are drawn.

usage: check_pages.py FOLDER
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "preconnect"}
LOADED_LINKS |= {"dns-prefetch", "manifest", "prefetch"}
REMOTE = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
REMOTE_STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?\s*((?:https?:)?//[^\s\"')]+)")


class Page(HTMLParser):
    """Collects what a page loads from the network, and counts its formulas."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.n_formulas = self.n_drawn = 0
        self.is_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at what a tag loads."""
        values = {name: value or "" for name, value in attrs}
        self.is_style = tag == "style"
        self.n_drawn += tag == "math"
        self.n_formulas += "math" in values.get("class", "").split()
        self.loaded += REMOTE_STYLE.findall(values.get("style", ""))
        if tag == "link" and LOADED_LINKS & set(values.get("rel", "").split()):
            self._look_at(values.get("href", ""))
        for name in ("src", "poster", "data"):
            self._look_at(values.get(name, ""))
        for source in values.get("srcset", "").split(","):
            self._look_at(source)

    def handle_data(self, data: str) -> None:
        """Look at what a style sheet within the page loads."""
        if self.is_style:
            self.loaded += REMOTE_STYLE.findall(data)

    def _look_at(self, address: str) -> None:
        if REMOTE.match(address):
            self.loaded.append(address.strip())


def faults_of(path: Path) -> list[str]:
    """Return what is wrong with a page or a style sheet."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return [f"loads {address}" for address in REMOTE_STYLE.findall(text)]
    page = Page()
    page.feed(text)
    faults = [f"loads {address}" for address in page.loaded]
    if page.n_drawn < page.n_formulas:
        faults.append(f"draws {page.n_drawn} of {page.n_formulas} formulas")
    return faults


def main(folder: Path) -> str:
    """Return what is wrong with the pages of a folder, nothing if they are right."""
    pages = sorted(folder.rglob("*.html"))
    if not pages:
        return f"There are no pages in {folder}."
    found = [
        f"{path.relative_to(folder)} {fault}"
        for path in [*pages, *sorted(folder.rglob("*.css"))]
        for fault in faults_of(path)
    ]
    if not found:
        return ""
    heading = "Pages must be readable without the network, and some are not:"
    return "\n".join([heading, *found])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) or None)
