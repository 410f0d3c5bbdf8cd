"""The table of operations: C++ has it as Python has."""

import importlib.util
from pathlib import Path

import pytest

from skconvgp.backends._opcodes import AxisColumn, Column, Kind

BACKENDS = Path(__file__).parents[2] / "skconvgp" / "backends"
HEADER = BACKENDS / "warp" / "opcodes.hpp"


def load_script():
    path = BACKENDS / "native" / "make_opcodes.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = load_script()


def test_the_script_writes_the_header(tmp_path):
    path = tmp_path / "opcodes.hpp"
    SCRIPT.main(path)
    assert path.read_text(encoding="utf-8") == HEADER.read_text(encoding="utf-8")


@pytest.mark.parametrize("table", [Kind, AxisColumn])
def test_numbers_have_no_gaps(table):
    assert [int(member) for member in table] == list(range(len(table)))


def test_an_axis_fits_into_its_columns():
    assert Column.ROWS + len(AxisColumn) == Column.COLS
    assert Column.COLS + len(AxisColumn) == Column.CIRCULAR
