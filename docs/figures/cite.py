"""Write CITATION.cff as an entry of BibTeX, for the page "Citing".

Run as ``python docs/figures/cite.py <target>``.
"""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "CITATION.cff"


def main(target: Path) -> None:
    """Write the entry as a block of code."""
    lines = entry(SOURCE.read_text(encoding="utf-8")).splitlines()
    code = "\n".join(f"   {line}" for line in lines)
    target.write_text(f".. code-block:: bibtex\n\n{code}\n")


def entry(text: str) -> str:
    """Return the entry of a file; the version is that of the package."""
    found = dict(re.findall(r'^(?:  - )?([\w-]+): "?(.+?)"?$', text, flags=re.M))
    fields = {
        "title": found["title"],
        "author": f"{{{found['name']}}}",
        "version": found["version"],
        "url": found.get("url", found.get("repository-code", "")),
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join(["@software{skconvgp,", *lines, "}"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
