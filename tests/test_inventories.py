"""What the documentation links to in other projects is known without the network."""

import importlib
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

DOCS = Path(__file__).parents[1] / "docs"
LINE = re.compile(r"(\S+) (?:class|data|exception|function) (\S+)\.html")


@pytest.fixture
def inventories(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("inventories")


def test_each_project_has_the_objects_that_are_used(inventories):
    used = inventories.used_names()
    for project, (package, address) in inventories.PROJECTS.items():
        assert address.endswith("/")
        path = DOCS / "inventories" / f"{project}.txt"
        head, named, _, *lines = path.read_text(encoding="utf-8").splitlines()
        assert (head, named) == (
            "# Sphinx inventory version 1",
            f"# Project: {project}",
        )
        names = [LINE.fullmatch(line)[1] for line in lines]
        assert names == sorted(set(names))
        assert set(names) <= used
        assert all(not package or name.startswith(f"{package}.") for name in names)
    assert set(inventories.PROJECTS) == {one.stem for one in path.parent.iterdir()}


def test_names_are_found_in_programs(inventories):
    program = """
import numpy as np
import scipy.linalg
from sklearn.svm import SVC as Machine
np.linalg.norm(scipy.linalg.inv(x))
Machine().fit(x).score(x)
"""
    assert inventories.names_in_code(program) >= {
        "numpy.linalg.norm",
        "scipy.linalg.inv",
        "sklearn.svm.SVC",
    }


def test_names_are_found_in_texts(inventories):
    text = """
    :class:`~sklearn.svm.SVC`, :exc:`ValueError`, :func:`~skconvgp.gram_matrix`

    See Also
    --------
    sklearn.metrics.log_loss : A score.
    skconvgp.audit : Ours.
"""
    expected = {"sklearn.svm.SVC", "ValueError", "sklearn.metrics.log_loss"}
    assert inventories.names_in_text(text) == expected


def test_lines_say_what_the_form_implies(inventories):
    """An anchor that is not the name cannot be stated, nor one that is not Python's."""

    def item(uri):
        return SimpleNamespace(uri=uri)

    data = {
        "py:function": {"a.f": item("x.html#a.f"), "a.g": item("x.html#g")},
        "py:class": {"a.C": item("y.html#a.C"), "a.D": item("y.html#a.D")},
        "std:doc": {"a.E": item("z.html#a.E")},
    }
    names = {"a.f", "a.g", "a.C", "a.E"}
    lines = inventories.with_anchors(SimpleNamespace(data=data), names)
    assert sorted(lines) == ["a.C class y.html", "a.f function x.html"]
