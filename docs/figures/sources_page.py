"""Write the page "What the sources report": each table of a source beside ours.

Run as ``python docs/figures/sources_page.py <target>``; reads benchmarks/catalogue and
benchmarks/results.
"""

import sys
from pathlib import Path

from speed_table import list_table

from benchmarks.catalogue import Compared, Entry, entries, number

HEAD = ["", "Reported", "Ours", "Seconds", "Verdict"]


def main(target: Path) -> None:
    """Write all sources."""
    lines = []
    titles = dict.fromkeys(entry.title for entry in entries().values())
    for title in titles:
        lines += [title, "-" * len(title), ""]
        for entry in entries().values():
            if entry.title == title:
                lines += of_entry(entry)
    target.write_text("\n".join(lines))


def of_entry(entry: Entry) -> list[str]:
    """Return the lines of a table, and of the commands that measure it."""
    told = entry.told
    rows = [HEAD, *map(of_figure, entry.figures())]
    whole = f"``python -m benchmarks {told['source']}``"
    return [
        *list_table(f"{told['place']}: {told['what']}", rows),
        "",
        f"``python -m benchmarks run {entry.name}``; at the scale of the source: "
        f"{whole}, ``benchmarks/results/{told['results']}.json``.",
        "",
    ]


def of_figure(one: Compared) -> list[str]:
    """Return the cells of a figure."""
    verdict = f"{one.verdict}: {one.why}" if one.why else one.verdict
    seconds = "" if one.seconds is None else f"{one.seconds:.3g}"
    return [one.what, number(one.reported), number(one.ours), seconds, verdict]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
