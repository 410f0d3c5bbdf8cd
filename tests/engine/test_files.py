"""A tile is read where it was written, as it was written, or not at all."""

import ast
import inspect
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from skconvgp.engine import _cache, _files
from skconvgp.engine._files import read_tile, write_text, write_tile

SHAPE = (3, 5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gram-0-3-0-5.tile"


@pytest.fixture
def values():
    return torch.arange(15, dtype=torch.float64).reshape(SHAPE) / 7


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [SHAPE, (3, 5, 2)])
def test_numbers_are_those_that_were_written(dtype, shape, path):
    numbers = torch.randn(*shape[::-1], dtype=dtype).permute(*range(len(shape))[::-1])
    write_tile(path, numbers)
    again = read_tile(path, shape)
    assert again.dtype == dtype
    assert torch.equal(again, numbers)
    assert list(path.parent.iterdir()) == [path]


def test_a_tile_is_a_line_a_digest_and_numbers(path, values):
    write_tile(path, values)
    line, rest = path.read_bytes().split(b"\n", 1)
    place = f"{path.parent.name}/{path.name}"
    kind = values.numpy().dtype.str
    assert line.decode() == f"skconvgp tile 1: {place} {kind} 3 5"
    assert rest[16:] == values.numpy().tobytes()


@pytest.mark.parametrize("shape", [(5, 3), (15,), (1, 15), (3, 5, 1), (3, 4), ()])
def test_numbers_of_another_shape_are_not_taken(shape, path, values):
    write_tile(path, values)
    assert read_tile(path, shape) is None


def test_numbers_of_another_kind_are_not_taken(path, values):
    write_tile(path, values)
    content = path.read_bytes()
    path.write_bytes(content.replace(values.numpy().dtype.str.encode(), b"<i8", 1))
    assert read_tile(path, SHAPE) is None


@pytest.mark.parametrize("other", ["gram-3-6-0-5.tile", "../other/gram-0-3-0-5.tile"])
def test_a_tile_of_another_place_is_not_taken(other, path, values):
    moved = path.parent / other
    moved.parent.mkdir(exist_ok=True)
    write_tile(path, values)
    moved.write_bytes(path.read_bytes())
    assert read_tile(moved, SHAPE) is None
    assert read_tile(path, SHAPE) is not None


def test_a_bit_that_is_flipped_is_found(path, values):
    write_tile(path, values)
    content = path.read_bytes()
    for i in range(0, len(content), 5):
        path.write_bytes(content[:i] + bytes([content[i] ^ 4]) + content[i + 1 :])
        assert read_tile(path, SHAPE) is None


def test_any_part_of_a_file_is_not_taken(path, values):
    write_tile(path, values)
    content = path.read_bytes()
    for length in (*range(0, len(content), 11), len(content) - 1):
        path.write_bytes(content[:length])
        assert read_tile(path, SHAPE) is None
    path.write_bytes(content + b"0")
    assert read_tile(path, SHAPE) is None


TRACES = []


def leave_trace(text):
    TRACES.append(text)


class Evil:
    """Leaves a trace where it is unpickled."""

    def __reduce__(self):
        return leave_trace, ("a tile was unpickled",)


def test_a_pickle_is_not_looked_into(path, values, monkeypatch):
    def refuse(*_args, **_settings):
        raise AssertionError("a tile was unpickled")

    evil = pickle.dumps(Evil())
    write_tile(path, values)
    head = path.read_bytes().split(b"\n", 1)[0] + b"\n"
    numbers = np.frombuffer(evil.ljust(values.nbytes, b"0")[: values.nbytes], "u1")
    forged = head + _files.digest(head, numbers) + numbers.tobytes()
    for module, name in [
        (pickle, "load"),
        (pickle, "loads"),
        (pickle, "Unpickler"),
        (torch, "load"),
        (np, "load"),
    ]:
        monkeypatch.setattr(module, name, refuse)
    for content in (evil, _files.digest(evil) + evil, head + evil):
        path.write_bytes(content)
        assert read_tile(path, SHAPE) is None
    path.write_bytes(forged)
    assert read_tile(path, SHAPE).numpy().tobytes() == numbers.tobytes()  # no more
    assert not TRACES


@pytest.mark.parametrize("module", [_cache, _files])
def test_no_module_of_the_cache_can_unpickle(module):
    tree = ast.parse(inspect.getsource(module))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.name for alias in node.names)
            names.add(getattr(node, "module", None))
    assert not names & {"pickle", "joblib", "load", "loads", "marshal", "frompyfunc"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="No pipes on Windows.")
def test_a_pipe_is_not_waited_for_and_replaced(path, values):
    os.mkfifo(path)
    assert read_tile(path, SHAPE) is None
    write_tile(path, values)
    assert torch.equal(read_tile(path, SHAPE), values)


@pytest.mark.parametrize("target", ["missing", ".", "/dev/zero", "gram-0-3-0-5.tile"])
def test_a_link_is_replaced_and_what_it_leads_to_left_alone(target, path, values):
    path.symlink_to(target)
    assert read_tile(path, SHAPE) is None
    write_tile(path, values)
    assert torch.equal(read_tile(path, SHAPE), values)
    assert not path.is_symlink()


def test_a_text_does_not_follow_a_link(tmp_path):
    target, about = tmp_path / "letter", tmp_path / "about.json"
    target.write_text("dear")
    about.symlink_to(target)
    write_text(about, "{}")
    assert (target.read_text(), about.read_text()) == ("dear", "{}")


def test_a_folder_in_the_place_of_a_tile_is_told(path, values):
    path.mkdir()
    assert read_tile(path, SHAPE) is None
    with pytest.raises(OSError, match=path.name):
        write_tile(path, values)
    assert list(path.parent.iterdir()) == [path]


def test_who_writes_at_once_leaves_one_whole_file(path, values, monkeypatch):
    replace, parts = os.replace, []

    def late(source, target):  # another process is done in between
        parts.append(Path(source))
        if len(parts) == 1:
            write_tile(path, values)
        replace(source, target)

    monkeypatch.setattr(os, "replace", late)
    write_tile(path, values)
    assert len(set(parts)) == 2
    assert torch.equal(read_tile(path, SHAPE), values)
    assert list(path.parent.iterdir()) == [path]
