"""Print what the package needs with an extra, one requirement a line.

requirements.py EXTRA
"""

import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]


def needs(extra):
    """Yield the requirements of an extra; one that names extras has those of these."""
    for requirement in PROJECT["optional-dependencies"][extra]:
        name, _, extras = requirement.partition("[")
        if name == PROJECT["name"]:
            for each in extras.rstrip("]").split(","):
                yield from needs(each)
        else:
            yield requirement


if __name__ == "__main__":
    print(*PROJECT["dependencies"], *needs(sys.argv[1]), sep="\n")
