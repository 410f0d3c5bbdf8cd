"""What show_versions prints."""

import platform
from importlib.metadata import version

import pytest
import torch

from skconvgp import show_versions


def shown(capfd):
    """Return what is printed, by title and by name."""
    assert show_versions() is None
    out, err = capfd.readouterr()
    assert err == ""
    tables, table = {}, {}
    for line in out.splitlines():
        name, _, value = line.partition(":")
        if line and not line.startswith(" "):
            assert value == "", line
            table = tables[name] = {}
        elif line:
            assert value.strip(), line
            table[name.strip()] = value.strip()
    return tables


def test_titles(capfd):
    titles = ["System", "Dependencies", "torch", "Backends"]
    assert list(shown(capfd)) == titles


def test_system(capfd):
    table = shown(capfd)["System"]
    assert table["python"].startswith(platform.python_version())
    assert set(table) == {"python", "executable", "machine", "cores"}


@pytest.mark.parametrize("name", ["skconvgp", "scikit-learn", "torch", "numpy"])
def test_versions_of_dependencies(name, capfd):
    assert shown(capfd)["Dependencies"][name] == version(name)


def test_dependency_that_is_not_installed(capfd, monkeypatch):
    monkeypatch.setattr("skconvgp.estimators._report.DEPENDENCIES", ["no-such-package"])
    assert shown(capfd)["Dependencies"] == {"no-such-package": "not installed"}


def test_threads_of_torch(capfd):
    assert shown(capfd)["torch"]["threads"] == str(torch.get_num_threads())


def test_torch_with_and_without_cuda(capfd, monkeypatch):
    report = "skconvgp.estimators._report"
    monkeypatch.setattr(f"{report}.missing_compiler", lambda: "it went home")
    monkeypatch.setattr(torch.version, "cuda", None)
    assert shown(capfd)["torch"]["CUDA"] == "not in this build"
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert shown(capfd)["torch"]["CUDA"] == "12.8, 3 devices found"


def test_fused_backend_names_its_instructions_or_what_is_missing(capfd, monkeypatch):
    report = "skconvgp.estimators._report"
    monkeypatch.setattr(f"{report}.missing_extension", lambda: "")
    monkeypatch.setattr(f"{report}.instruction_set", lambda: "avx512")
    assert shown(capfd)["Backends"]["fused"] == "avx512"
    monkeypatch.setattr(f"{report}.missing_extension", lambda: "it was not built")
    assert shown(capfd)["Backends"]["fused"] == "missing: it was not built"


@pytest.mark.parametrize(
    ("missing", "n_gpus", "expected"),
    [
        ("", 1, "sm_90"),
        ("", 2, "sm_90, sm_91"),
        ("", 0, "missing: no GPU was found"),
        ("it went home", 1, "missing: it went home"),
    ],
)
def test_gpus_or_what_their_kernels_miss(missing, n_gpus, expected, capfd, monkeypatch):
    monkeypatch.setattr("skconvgp.estimators._report.missing_compiler", lambda: missing)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda i: (9, i))
    assert shown(capfd)["Backends"]["fused on GPU"] == expected
