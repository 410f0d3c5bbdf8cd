"""The README: short, with figures of committed results, and a program that runs."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import skconvgp
import skconvgp.datasets
from tests.helpers.estimators import digits

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_LINES = 120
FIRST_SCREEN = 50  # lines, in which the commands are


@pytest.fixture
def headlines(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "figures"))
    return importlib.import_module("headlines")


def test_it_is_short_and_its_first_screen_has_the_commands():
    lines = TEXT.splitlines()
    assert len(lines) <= MOST_LINES
    assert {"make demo", "make test"} <= {
        line.partition("  ")[0] for line in lines[:FIRST_SCREEN]
    }


def test_headlines_are_those_of_the_results(headlines):
    assert headlines.written(TEXT) == TEXT
    emptied = re.sub(r"^- \*\*.*\(\[.*\n", "", TEXT, flags=re.M)
    assert emptied != TEXT
    assert headlines.written(emptied) == TEXT


def test_its_program_runs(monkeypatch, capsys):
    X, y = digits(1000)
    mixed = np.random.default_rng(0).permutation(len(X))  # digits of all writers
    half = {"train": mixed[:200], "test": mixed[200:400]}

    def fetch(subset="train", n_samples=1000, return_X_y=True):
        assert n_samples == 1000
        assert return_X_y
        return X[half[subset]], y[half[subset]]

    monkeypatch.setattr(skconvgp.datasets, "fetch_mnist", fetch)
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    names = {}
    exec(program, names)
    assert names["labels"].shape == names["probabilities"].shape == (200, 10)
    assert names["labels"][range(200), names["y_test"]].mean() > 0.9
    shown = capsys.readouterr().out
    assert re.match(r"right: 0\.9\d+ left out: 0\.9\d+\n", shown)
    assert "proposal" in shown


def test_it_names_classes_that_exist():
    named = set(re.findall(r"`([A-Z]\w*[a-z]\w*(?:Classifier|Regressor))`", TEXT))
    assert len(named) > 3
    assert named <= set(skconvgp.__all__)
