"""Write which objects of other projects the documentation links to, and where they are.

Their full inventories are megabytes and on the network, where a build must not look. So
`docs/inventories` has a small file for each project, which Sphinx reads: a line is a
name, its kind and its page. Run this after a new object of theirs is used:

    python docs/inventories.py            reads the inventories on the network
    python docs/inventories.py FOLDER     reads NAME.inv, such as numpy.inv, in a folder
"""

import ast
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

__all__ = ["PROJECTS", "names_in_code", "names_in_text", "used_names", "with_anchors"]

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
PROJECTS = {
    "matplotlib": ("matplotlib", "https://matplotlib.org/stable/"),
    "numpy": ("numpy", "https://numpy.org/doc/stable/"),
    "pillow": ("PIL", "https://pillow.readthedocs.io/en/stable/"),
    "python": ("", "https://docs.python.org/3/"),
    "scipy": ("scipy", "https://docs.scipy.org/doc/scipy/"),
    "sklearn": ("sklearn", "https://scikit-learn.org/stable/"),
    "torch": ("torch", "https://docs.pytorch.org/docs/stable/"),
}
ROLE = re.compile(r":(?:class|exc|func|meth|attr|data|mod):`~?([\w.]+)`")
SEE_ALSO = re.compile(r"^    +(\w+\.[\w.]+) : ", re.M)


def names_in_text(text: str) -> set[str]:
    """Return what roles and entries of "See Also" name, without this package's."""
    names = {*ROLE.findall(text), *SEE_ALSO.findall(text)}
    return {name for name in names if not name.startswith("skconvgp")}


def names_in_code(text: str) -> set[str]:
    """Return what a program uses of what it imports, as dotted names."""
    tree, known, found = ast.parse(text), {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(one.asname or one.name.split(".")[0], one) for one in node.names]
            known |= {name: one.name if one.asname else name for name, one in names}
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                known[one.asname or one.name] = f"{node.module}.{one.name}"
    for node in ast.walk(tree):
        parts, inner = [], node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in known:
            found.add(".".join([known[inner.id], *parts]))
    return found


def used_names() -> set[str]:
    """Return names of other projects in docstrings, on pages and in the gallery."""
    found = set()
    pages = [*FOLDER.glob("*.rst"), *FOLDER.glob("user_guide/**/*.rst")]
    pages += [*FOLDER.glob("extending/*.rst"), *ROOT.glob("skconvgp/**/*.py")]
    for path in pages:
        found |= names_in_text(path.read_text(encoding="utf-8"))
    for path in ROOT.glob("examples/*.py"):
        found |= names_in_code(path.read_text(encoding="utf-8"))
    return found


def with_anchors(inventory, names: set[str]) -> Iterator[str]:
    """Yield lines for the names that an inventory has.

    The form of the lines implies that the anchor of an object is its name.
    """
    for kind, items in sorted(inventory.data.items()):
        for name in sorted(names & set(items)) if kind.startswith("py:") else ():
            page, _, anchor = items[name].uri.partition("#")
            if anchor == name:
                yield f"{name} {kind.removeprefix('py:')} {page}"


def main(source: str = "") -> None:
    """Write all files."""
    from sphinx.util.inventory import InventoryFile

    names = used_names()
    for project, (package, address) in PROJECTS.items():
        if source:
            content = (Path(source) / f"{project}.inv").read_bytes()
        else:
            with urlopen(posixpath.join(address, "objects.inv")) as reply:
                content = reply.read()
        inventory = InventoryFile.loads(content, uri="")
        own = {name for name in names if not package or name.startswith(f"{package}.")}
        head = ["# Sphinx inventory version 1", f"# Project: {project}", "# Version:"]
        lines = [*head, *sorted(with_anchors(inventory, own))]
        target = FOLDER / "inventories" / f"{project}.txt"
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
