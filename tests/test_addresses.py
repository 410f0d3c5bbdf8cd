"""The addresses of the project are constants, and all files agree with them."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import skconvgp
from skconvgp._addresses import DOCS_URL, PROJECT_URL

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / ".ci" / "addresses.py"
FILES = runpy.run_path(str(SCRIPT))["FILES"]
REPOSITORY, SITE = "https://example.org/them/skconvgp", "https://docs.example.org/en"
RELATIVE = re.compile(r"\]\((?!https?:|#)")


def text_of(name, root=ROOT):
    return (root / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_files_state_the_addresses_of_the_constants(name):
    text = text_of(name)
    assert FILES[name](text, PROJECT_URL, DOCS_URL) == text


@pytest.mark.parametrize("name", FILES)
def test_addresses_can_be_written_twice_and_taken_back(name):
    write, text = FILES[name], text_of(name)
    written = write(text, REPOSITORY, SITE)
    assert written != text
    assert write(written, REPOSITORY, SITE) == written
    assert write(written, "", "") == write(text, "", "")


def test_a_script_writes_an_address_everywhere(tmp_path):
    for name in (*FILES, ".ci/addresses.py", "skconvgp/_addresses.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def run(*given):
        command = [sys.executable, str(tmp_path / ".ci" / "addresses.py"), *given]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    assert run(REPOSITORY, SITE).returncode == 0
    urls = tomllib.loads(text_of("pyproject.toml", tmp_path))["project"]["urls"]
    assert urls == {
        "Documentation": SITE,
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
    }
    cited = yaml.safe_load(text_of("CITATION.cff", tmp_path))
    assert (cited["repository-code"], cited["url"]) == (REPOSITORY, SITE)
    shown = text_of("README.md", tmp_path)
    assert RELATIVE.search(text_of("README.md"))
    assert not RELATIVE.search(shown)
    assert f"]({REPOSITORY}/raw/main/docs/_static/" in shown
    assert f"]({REPOSITORY}/blob/main/LICENSE)" in shown
    assert f"git clone {REPOSITORY} && cd skconvgp\nmake demo" in shown
    assert shown.count(SITE) == 1
    constants = runpy.run_path(str(tmp_path / "skconvgp" / "_addresses.py"))
    assert (constants["PROJECT_URL"], constants["DOCS_URL"]) == (REPOSITORY, SITE)
    assert run("", "").returncode == 0
    assert not RELATIVE.search(shown.replace(REPOSITORY, "https://a.b"))
    assert text_of("README.md", tmp_path) == FILES["README.md"](
        text_of("README.md"), "", ""
    )


@pytest.mark.parametrize("url", ["example.org", "https://example.org/", 'https://a.b"'])
def test_what_is_no_address_is_refused(url, tmp_path):
    (tmp_path / ".ci").mkdir()
    (tmp_path / "skconvgp").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci")
    shutil.copy(ROOT / "skconvgp" / "_addresses.py", tmp_path / "skconvgp")
    command = [sys.executable, str(tmp_path / ".ci" / "addresses.py"), url]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "PROJECT_URL must start with https://" in done.stderr
    assert text_of("skconvgp/_addresses.py", tmp_path) == text_of(
        "skconvgp/_addresses.py"
    )


def test_links_of_the_readme_lead_to_files():
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)\)", text_of("README.md"))
    assert len(links) > 3
    assert [one for one in links if not (ROOT / one).exists()] == []


def test_the_citation_has_the_version_of_the_package():
    cited = yaml.safe_load(text_of("CITATION.cff"))
    assert cited["version"] == skconvgp.__version__
    assert cited["license"] == "BSD-3-Clause"
