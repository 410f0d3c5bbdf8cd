"""Workflows, templates and metadata of releases, as far as they can be tried here."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINNED = re.compile(r"- uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps_of(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_little_and_run_what_is_pinned(path):
    workflow, text = read(path), path.read_text(encoding="utf-8")
    assert workflow["permissions"] == {"contents": "read"}
    used = [line.strip() for line in text.splitlines() if "uses:" in line]
    assert used
    assert [line for line in used if not PINNED.fullmatch(line)] == []
    assert "secrets." not in text
    assert "pull_request_target" not in text
    for job in workflow["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 120
    for step in steps_of(workflow):
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
        # What others write is no part of a command.
        assert "github.event" not in step.get("run", "")


def test_the_gate_is_the_script():
    workflow = read(GITHUB / "workflows" / "ci.yml")
    assert workflow["jobs"]["gate"]["steps"][-1] == {"run": ".ci/run"}


def test_only_publishing_proves_who_it_is():
    jobs = read(GITHUB / "workflows" / "release.yml")["jobs"]
    asking = {
        name: job["permissions"] for name, job in jobs.items() if "permissions" in job
    }
    assert asking == {"publish": {"id-token": "write"}}
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert not [step for step in jobs["publish"]["steps"] if "run" in step]


def test_a_tag_that_is_not_the_version_fails():
    steps = steps_of(read(GITHUB / "workflows" / "release.yml"))
    (command,) = [
        step["run"] for step in steps if "GITHUB_REF_NAME" in step.get("run", "")
    ]
    pattern = re.search(r'"(version = .*)" pyproject', command)[1].replace("\\", "")
    line = pattern.replace("${GITHUB_REF_NAME#v}", PROJECT["project"]["version"])
    assert line in (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()


def test_wheels_are_built_as_the_gate_lists_them():
    pinned = re.compile(r"cibuildwheel==([\d.]+)")
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    release = (GITHUB / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert set(pinned.findall(gate)) == set(pinned.findall(release)) != set()


def test_a_release_tries_its_files_as_anyone_can():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    jobs = read(GITHUB / "workflows" / "release.yml")["jobs"]
    assert "make dist" in [step.get("run") for step in jobs["sdist"]["steps"]]
    tried = re.search(r"^dist:\n\t(.+)$", makefile, re.M)[1]
    assert ".ci/dist" in tried
    script = (ROOT / ".ci" / "dist").read_text(encoding="utf-8")
    for part in ("-m build", "-m twine check", ".ci/check_wheel.py", "-P -m pytest"):
        assert part in script


def test_other_sites_are_asked_by_a_schedule_only():
    """A gate must not fail because a site is away."""
    workflow = read(GITHUB / "workflows" / "links.yml")
    assert set(workflow[True]) == {"schedule", "workflow_dispatch"}  # "on" of YAML
    assert {"run": "make linkcheck"} in steps_of(workflow)
    gates = [ROOT / ".ci" / "run", GITHUB / "workflows" / "ci.yml"]
    assert not [one for one in gates if "linkcheck" in one.read_text(encoding="utf-8")]


@pytest.mark.parametrize(
    "path", sorted((GITHUB / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda x: x.stem
)
def test_forms_ask_something(path):
    form = read(path)
    assert {"name", "description", "labels", "body"} == set(form)
    names = [field["id"] for field in form["body"]]
    assert len(names) == len(set(names)) > 0
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_what_builds_the_package_is_bounded_and_pinned():
    pins = dict(
        re.findall(
            r"^([\w-]+)==(\S+?);?$", (ROOT / "constraints.txt").read_text(), re.M
        )
    )
    pins = {name.replace("_", "-").lower(): version for name, version in pins.items()}
    for text in PROJECT["build-system"]["requires"]:
        needed = Requirement(text)
        assert {one.operator for one in needed.specifier} == {">=", "<"}
        assert Version(pins[needed.name]) in needed.specifier


def test_groups_are_the_extras_of_their_names():
    extras = PROJECT["project"]["optional-dependencies"]
    for name, listed in PROJECT["dependency-groups"].items():
        assert listed == [f"skconvgp[{name}]"]
        assert name in extras


def test_what_is_promised_is_the_same_everywhere():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    policy = (ROOT / "docs" / "deprecation.rst").read_text(encoding="utf-8")
    assert "for two minor versions" in changelog
    assert "two minor versions" in policy
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md"):
        assert "within two weeks" in (ROOT / name).read_text(encoding="utf-8")
