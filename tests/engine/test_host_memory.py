"""What the system, containers and limits of the process leave."""

import gc
import os

import numpy as np
import pytest
import torch

from skconvgp import ConvNetGPRegressor, gram_matrix
from skconvgp.engine import _host_memory, free_memory, on_device
from skconvgp.engine._devices import TileSide
from skconvgp.engine._host_memory import free_host_memory
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import rbf

resource = pytest.importorskip("resource")  # Windows has none
CPU = torch.device("cpu")
PAGE = resource.getpagesize()


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Return a folder that takes the place of the system's files; it is empty."""
    monkeypatch.setattr(_host_memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(_host_memory, "SIZES", tmp_path / "statm")
    monkeypatch.setattr(_host_memory, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(_host_memory, "CGROUP", tmp_path)
    monkeypatch.setattr(os, "sysconf_names", {})
    return tmp_path


def tell_available(system, kilobytes):
    text = f"MemTotal: 99999 kB\nMemFree: 1 kB\nMemAvailable:   {kilobytes} kB\n"
    (system / "meminfo").write_text(text)


def limit_container(system, limit, used):
    (system / "memory.max").write_text(f"{limit}\n")
    (system / "memory.current").write_text(f"{used}\n")


def test_free_memory_is_what_the_system_calls_available(system):
    tell_available(system, 5000)
    assert free_host_memory() == 5000 * 1024


def test_a_container_limits_free_memory(system):
    tell_available(system, 5000)
    limit_container(system, limit=3_000_000, used=1_000_000)
    assert free_host_memory() == 2_000_000


def test_a_full_container_has_no_free_memory(system):
    limit_container(system, limit=3_000_000, used=3_000_001)
    assert free_host_memory() == 0


def test_a_container_without_limit_does_not_count(system):
    tell_available(system, 5000)
    limit_container(system, limit="max", used=1)
    assert free_host_memory() == 5000 * 1024


def test_a_limit_without_usage_does_not_count(system):
    tell_available(system, 5000)
    (system / "memory.max").write_text("1000\n")
    assert free_host_memory() == 5000 * 1024


def test_without_meminfo_the_free_pages_count(system, monkeypatch):
    names = {"SC_AVPHYS_PAGES": 7, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf_names", names)
    monkeypatch.setattr(os, "sysconf", names.get)
    assert free_host_memory() == 7 * 4096


def test_free_memory_is_assumed_where_the_system_does_not_tell(system):
    assert free_host_memory() == 4 * 2**30


def test_meminfo_without_the_line_falls_back(system):
    (system / "meminfo").write_text("MemTotal: 99999 kB\n")
    assert free_host_memory() == 4 * 2**30


def test_free_memory_of_this_machine_is_positive():
    assert free_host_memory() > 0


def make_group(folder, limit, used, droppable=0):
    """Make a group of version 2."""
    folder.mkdir(parents=True, exist_ok=True)
    limit_container(folder, limit, used)
    (folder / "memory.stat").write_text(f"anon 7\ninactive_file {droppable}\n")


def make_old_group(folder, limit, used, droppable=0):
    """Make a group of version 1."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    stat = f"inactive_file 1\ntotal_inactive_file {droppable}\n"
    (folder / "memory.stat").write_text(stat)


@pytest.mark.parametrize("narrow", ["", "user", "user/job", "user/job/task"])
def test_the_narrowest_group_around_the_process_counts(narrow, system):
    (system / "cgroup").write_text("0::/user/job/task\n")
    for name in ("", "user", "user/job", "user/job/task", "other"):
        make_group(system / name, "max" if name == "" else 9000, 1000)
    make_group(system / "user/none", 10, 10)  # the process is in neither
    make_group(system / narrow, 5000, 2000, droppable=500)
    assert free_host_memory() == 3500


@pytest.mark.parametrize("narrow", ["", "user", "user/job"])
def test_groups_of_version_1_count(narrow, system):
    lines = "5:cpu,cpuacct:/elsewhere\n4:hugetlb,memory:/user/job\n1:name=systemd:/\n"
    (system / "cgroup").write_text(lines + "0::/\n")
    root = system / "memory"
    for name in ("", "user", "user/job", "elsewhere"):
        make_old_group(root / name, 2**63 - 4096, 1000)
    make_old_group(root / "elsewhere", 10, 10)
    make_old_group(root / narrow, 5000, 2000, droppable=500)
    assert free_host_memory() == 3500


@pytest.mark.parametrize("path", ["/../..", "/docker/0123", "/a:b"])
def test_a_path_outside_of_the_container_leaves_its_root(path, system):
    root = system / "one/two"
    make_group(root, 5000, 2000)
    make_group(system, 10, 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_host_memory, "CGROUP", root)
        (system / "cgroup").write_text(f"0::{path}\n")
        assert free_host_memory() == 3000


@pytest.fixture(scope="module")
def tidy():
    """Let nothing be given back while the limit stands."""
    gc.collect()


@pytest.fixture
def narrow(tidy):
    """Return what leaves a number of bytes to this process, until the test ends."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # each takes room

    def limit(n_bytes):
        used = int(_host_memory.SIZES.read_text().split()[0]) * PAGE
        resource.setrlimit(resource.RLIMIT_AS, (used + n_bytes, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_AS, before)
    torch.set_num_threads(n_threads)


linux_only = pytest.mark.skipif(
    not _host_memory.SIZES.exists(), reason="Linux tells the size of a process."
)


@linux_only
def test_a_limit_of_the_process_counts(narrow):
    narrow(2**27)
    assert 2**26 < free_memory(CPU) <= 2**27


@pytest.mark.parametrize(("name", "field"), [("RLIMIT_AS", 0), ("RLIMIT_DATA", 5)])
def test_limits_are_of_what_they_limit(name, field, system, monkeypatch):
    sizes = [0] * 7
    sizes[field] = 3
    (system / "statm").write_text(" ".join(map(str, sizes)))
    limits = {getattr(resource, name): (10 * PAGE, -1)}
    infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda one: limits.get(one, infinite))
    assert free_host_memory() == 7 * PAGE
    sizes[field] = 11
    (system / "statm").write_text(" ".join(map(str, sizes)))
    assert free_host_memory() == 0


TORCH_AND_NUMPY = [
    lambda n_bytes: torch.empty(n_bytes, dtype=torch.uint8),
    lambda n_bytes: np.empty(n_bytes, dtype=np.uint8),
]


@linux_only
@pytest.mark.parametrize("take", TORCH_AND_NUMPY)
def test_the_host_without_memory_is_told(take, narrow):
    narrow(2**27)
    told = r"'cpu' has run out of memory.*limits of the process"
    with pytest.raises(TileMemoryError, match=told), on_device(CPU):
        take(2**30)


@linux_only
@pytest.mark.parametrize("take", TORCH_AND_NUMPY)
def test_tiles_that_the_host_has_no_memory_for_are_halved(take, narrow):
    sides = []

    def compute(side):
        sides.append(side)
        return len(take(side * side * 2**10))

    narrow(2**27)
    assert TileSide(CPU).shrink_to_fit(compute, 1024) == 2**26
    assert sides == [1024, 512, 256]


@linux_only
@pytest.mark.parametrize("n_samples", [300, 6000, 9000, 20_000, 50_000])
def test_a_matrix_is_computed_or_the_lack_of_memory_told(n_samples, narrow):
    X = np.arange(float(n_samples))[:, None]
    narrow(2**28)
    if n_samples == 300:
        assert gram_matrix(rbf(1.0), X).shape == (300, 300)
        return
    for compute in (
        lambda: gram_matrix(rbf(1.0), X),
        lambda: ConvNetGPRegressor(rbf(1.0), solver="cholesky").fit(X, X[:, 0]),
    ):
        with pytest.raises(TileMemoryError, match=r"memory_budget|fewer samples"):
            compute()


@linux_only
def test_a_matrix_that_was_planned_and_does_not_fit_is_told(narrow, monkeypatch):
    monkeypatch.setattr("skconvgp.engine._devices.free_memory", lambda _: 2**40)
    X = np.arange(9000.0)[:, None]
    narrow(2**28)
    for compute in (
        lambda: gram_matrix(rbf(1.0), X, memory_budget="64 MiB"),
        lambda: ConvNetGPRegressor(
            rbf(1.0), solver="cholesky", memory_budget="64 MiB"
        ).fit(X, X[:, 0]),
    ):
        with pytest.raises(TileMemoryError, match="'cpu' has run out of memory"):
            compute()
