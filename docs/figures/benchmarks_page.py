"""Write the page "Benchmarks": headlines, and each question with its rows and page.

Run as ``python docs/figures/benchmarks_page.py <target>``; reads benchmarks and pages.
"""

import re
import sys
from pathlib import Path

import headlines
from speed_table import BENCHMARKS, list_table

from benchmarks.report import questions

DOCS = Path(__file__).parents[1]
HEAD = ["Question", "Rows, and the command that measures them", "Page"]
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def main(target: Path) -> None:
    """Write the headlines and the table, and the speed of covariances by itself."""
    told = [f"- {as_text(one())}" for one in headlines.HEADLINES]
    pages = pages_of_questions()
    rows = [HEAD]
    for name, asked in questions().items():
        if (BENCHMARKS / "results" / f"{name}.json").exists():
            rows.append([asked, command_of(name), ", ".join(pages.get(name, []))])
    parts = [*told, "", *list_table("All questions", rows), ""]
    target.write_text("\n".join(parts))
    speed = target.with_name("speed_headline.rst.inc")
    speed.write_text(as_text(headlines.speed()) + "\n")


def command_of(name: str) -> str:
    """Return the command of a question, and its file of rows."""
    return f"``python -m benchmarks {name}``, ``benchmarks/results/{name}.json``"


def as_text(line: str) -> str:
    """Return a line of Markdown without links, as reStructuredText."""
    line = LINK.sub(r"``\2``", line)
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line)


def pages_of_questions() -> dict[str, list[str]]:
    """Return links to the pages of the guide that name the command of a question."""
    found: dict[str, list[str]] = {}
    for path in sorted(DOCS.glob("user_guide/**/*.rst")):
        link = f":doc:`/{path.relative_to(DOCS).with_suffix('')}`"
        text = path.read_text(encoding="utf-8")
        for name in sorted(set(re.findall(r"python -m benchmarks (\w+)", text))):
            found.setdefault(name, []).append(link)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
