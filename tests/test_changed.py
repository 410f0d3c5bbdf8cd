"""Which files count as changed, and so decide what `.ci/run` runs."""

import runpy
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "changed.py"
changed = runpy.run_path(str(SCRIPT))["changed"]
PERSON = ("-c", "user.name=A", "-c", "user.email=a@example.org")


class Checkout:
    """A repository with a file of each letter, committed in alphabetical order."""

    def __init__(self, path):
        self.path = path
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("code/a")
        self.commit("code/b")

    def git(self, *arguments):
        command = ["git", "-C", str(self.path), *PERSON, *arguments]
        subprocess.run(command, check=True)

    def commit(self, name):
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{name}\n")
        self.git("add", name)
        self.git("commit", "--quiet", f"--message={name}")

    def changed(self, *paths):
        return changed(*paths, root=self.path)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.delenv("CI_BASE", raising=False)
    for name in (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
    ):  # of a hook that runs us
        monkeypatch.delenv(name, raising=False)
    return Checkout(tmp_path)


def test_all_files_changed_where_nothing_was_released(checkout):
    checkout.git("tag", "old")  # no release
    assert checkout.changed("code") == ["code/a", "code/b"]


def test_changes_count_from_the_last_release(checkout):
    checkout.git("tag", "v0.1.0")
    checkout.commit("code/c")
    checkout.git("tag", "v0.2.0")
    checkout.commit("code/d")
    checkout.commit("texts/e")
    assert checkout.changed("code") == ["code/d"]
    assert checkout.changed("code", "texts") == ["code/d", "texts/e"]
    assert checkout.changed("elsewhere") == []


def test_a_release_is_compared_with_the_one_before(checkout):
    checkout.git("tag", "v0.1.0")
    checkout.commit("code/c")
    checkout.git("tag", "v0.2.0")
    assert checkout.changed("code") == ["code/c"]


def test_changes_count_from_the_base_that_is_given(checkout, monkeypatch):
    checkout.git("tag", "v0.1.0")
    checkout.commit("code/c")
    monkeypatch.setenv("CI_BASE", "HEAD~2")
    assert checkout.changed("code") == ["code/b", "code/c"]


def test_what_a_branch_that_was_left_changes_does_not_count(checkout, monkeypatch):
    checkout.git("checkout", "--quiet", "-b", "topic")
    checkout.commit("code/c")
    checkout.git("checkout", "--quiet", "main")
    checkout.commit("code/d")
    checkout.git("checkout", "--quiet", "topic")
    monkeypatch.setenv("CI_BASE", "main")
    assert checkout.changed("code") == ["code/c"]


def test_what_is_not_committed_counts(checkout, monkeypatch):
    (checkout.path / "code" / "a").write_text("other\n")
    monkeypatch.setenv("CI_BASE", "HEAD")
    assert checkout.changed("code") == ["code/a"]


def test_an_unknown_base_is_an_error(checkout, monkeypatch):
    monkeypatch.setenv("CI_BASE", "elsewhere")
    with pytest.raises(SystemExit, match="CI_BASE='elsewhere' must be a commit"):
        checkout.changed("code")
