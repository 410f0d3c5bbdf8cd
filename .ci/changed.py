"""Name the files that changed: since CI_BASE, else since the last release, else all.

CI_BASE is a commit or a branch: what was changed since HEAD left it counts, committed
or not. The last release is the last tag such as v0.1.0 before HEAD. Without both, all
files count as changed. So the commit alone decides, and no clock and no machine.

    python .ci/changed.py PATH...     prints the changed files below these paths
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's name of an empty folder


def git(root, *arguments):
    """Run a command of git; it may fail."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def base(root):
    """Return the commit from which changes count, or `NOTHING`."""
    if given := os.environ.get("CI_BASE"):
        found = git(root, "merge-base", given, "HEAD")
        if found.returncode:
            sys.exit(
                f"CI_BASE={given!r} must be a commit, or a branch, that shares commits "
                f"with HEAD. git says: {found.stderr.strip() or 'none are shared'}"
            )
        return found.stdout.strip()
    release = ("describe", "--tags", "--match=v[0-9]*", "--abbrev=0", "HEAD^")
    return git(root, *release).stdout.strip() or NOTHING


def changed(*paths, root=ROOT):
    """Return the names of the changed files below paths."""
    found = git(root, "diff", "--name-only", base(root), "--", *paths)
    found.check_returncode()
    return found.stdout.splitlines()


if __name__ == "__main__":
    sys.stdout.writelines(f"{name}\n" for name in changed(*sys.argv[1:]))
