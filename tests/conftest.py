"""What must be set before others are imported; what is left out; what tests cost."""

import gc
import os
from collections import Counter

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else array API checks are skipped
os.environ.setdefault("MPLBACKEND", "agg")

import pytest
from hypothesis import settings

from tests.helpers.memory import FORKS_SECONDS, needs_peak

# A gate says the same each time; --hypothesis-profile all draws other examples.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("all", deadline=None)
settings.load_profile("gate")

SHOWN = 20
# Of the processor time of a run of at least so many seconds: more is to be marked slow.
LARGEST_SHARE = 0.09
WHOLE = 200.0
EXCESSES: list[str] = []


def pytest_addoption(parser):
    """Let the arithmetic of another processor be asked for."""
    parser.addoption("--instruction-set", default="", help="that the extension uses")


@pytest.fixture(autouse=True, scope="session")
def instruction_set(request):
    """Compute with what was asked for."""
    # Imported by what runs tests: the process that workers report to starts at once.
    from skconvgp.backends import _fused_cpu

    _fused_cpu.INSTRUCTION_SET = request.config.getoption("--instruction-set")


@pytest.fixture(autouse=True, scope="session")
def telling_arithmetic():
    """Let numpy warn inside of the package as it does outside, so that it is seen."""
    from skconvgp import _ambient

    _ambient.ARITHMETIC = {"all": "warn", "under": "ignore"}


@pytest.fixture(autouse=True)
def forget_warnings():
    """Let each test see what is told once in a process."""
    from skconvgp.estimators import _warn

    _warn.WARNED.clear()


def cpu_seconds():
    """Return the processor's seconds of this process and of those that it began."""
    times = os.times()
    children = times.children_user + times.children_system
    return times.user + times.system + children + sum(FORKS_SECONDS)


MARKS = [cpu_seconds()]
COSTS = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Note what a phase of a test cost: a clock would count other processes too."""
    report = yield
    MARKS.append(cpu_seconds())
    report.cpu_seconds = MARKS[-1] - MARKS.pop(0)
    return report


def pytest_collection_finish():
    """Begin to count: imports and the list of tests are no test's cost.

    They stay until the end, so that the garbage collector need not walk them.
    """
    gc.collect()
    gc.freeze()
    MARKS[:] = [cpu_seconds()]


def pytest_runtest_logreport(report):
    """Add up; with workers this is the process that they report to."""
    COSTS[report.nodeid] += getattr(report, "cpu_seconds", 0.0)


def costs_of_files():
    """Return the seconds of each file."""
    files = Counter()
    for name, seconds in COSTS.items():
        files[name.partition("::")[0]] += seconds
    return files


def pytest_sessionfinish(session):
    """Fail if a file takes more than its share, which no slow machine changes."""
    config, total = session.config, COSTS.total()
    is_whole = config.args_source.name == "TESTPATHS" and total > WHOLE
    is_gate = config.option.markexpr == "not slow"
    if not is_whole or not is_gate or hasattr(config, "workerinput"):
        return
    for name, seconds in costs_of_files().items():
        if seconds > LARGEST_SHARE * total:
            EXCESSES.append(f"{name} takes more than {LARGEST_SHARE:.0%} of all.")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    """Print what the most expensive tests and files cost."""
    terminalreporter.section("processor time")
    for title, costs in (("tests", COSTS), ("files", costs_of_files())):
        terminalreporter.write_line(f"{title}: {costs.total():.0f} s, the most of it:")
        for name, seconds in costs.most_common(SHOWN):
            terminalreporter.write_line(f"{seconds:8.2f} s  {name}")
    for excess in EXCESSES:
        terminalreporter.write_line(excess, red=True)


def starts_processes(item):
    """Return whether a test uses processes that import everything, for seconds."""
    is_peak = needs_peak.mark in item.iter_markers("skipif")
    return is_peak or item.get_closest_marker("processes") is not None


def pytest_collection_modifyitems(config, items):
    """Leave tests for a GPU out, unless the markers that are asked for name it.

    Tests that use the same processes come first: one worker runs all of them, and each
    of these processes starts once.
    """
    items.sort(key=starts_processes, reverse=True)
    if "gpu" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("gpu")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
