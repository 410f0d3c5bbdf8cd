"""Titles of images with long names."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest

from skconvgp.display import (
    AttributionDisplay,
    AuditDisplay,
    PredictionSetDisplay,
    UncertainDigitsDisplay,
)
from skconvgp.questions import Audit

NAMES = [f"a very long class name number {i}" for i in range(7)]
NAMES += ["W" * 40, "$5 & $10", "two\nlines"]
N = len(NAMES)
RNG = np.random.default_rng(0)
IMAGES = RNG.uniform(size=(N, 6, 6))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def audited(**options):
    wrong = [
        {"index": i, "label": NAMES[i], "proposal": NAMES[(i + 1) % N]}
        for i in range(N)
    ]
    pairs = [{"index": 1, "other": 7, "label": NAMES[1], "other_label": NAMES[7]}]
    return AuditDisplay.from_audit(
        Audit(N, wrong, pairs, [], [], []), IMAGES, **options
    )


def of_sets(**options):
    sets = np.eye(N, dtype=bool) | (np.arange(N) == np.arange(N)[:, None] // 2)
    return PredictionSetDisplay.from_sets(
        IMAGES, sets, NAMES[::-1], labels=NAMES, **options
    )


def uncertain(**options):
    y_prob = 0.9 * np.eye(N) + 0.1 / N
    return UncertainDigitsDisplay.from_predictions(
        IMAGES, y_prob, NAMES[::-1], labels=NAMES, **options
    )


def attributed(**options):
    points = np.arange(6 * N).reshape(N, 2, 3) % N, RNG.normal(size=(N, 2, 3))
    images = IMAGES[:, None]
    display = AttributionDisplay(images, IMAGES, NAMES, points, images, np.array(NAMES))
    return display.plot(**options)


DISPLAYS = [audited, of_sets, uncertain, attributed]


def titles(display):
    """Return titles of images, by the row that they stand in."""
    axes = [one for part in display.figure_.subfigs for one in part.axes]
    rows = {}
    for one in axes:
        if one.get_title():
            row = round(one.get_window_extent().y0)
            rows.setdefault(row, []).append(one.title)
    return rows.values()


@pytest.mark.parametrize("draw", DISPLAYS)
@pytest.mark.parametrize("width", [None, 7.0])
def test_titles_do_not_overlap(draw, width):
    options = {}
    if width is not None:
        options["figure"] = plt.figure(figsize=(width, 9.0), layout="constrained")
    display = draw(**options)
    display.figure_.canvas.draw()
    n_beside = 0
    for row in titles(display):
        boxes = sorted((one.get_window_extent() for one in row), key=lambda box: box.x0)
        for left, right in pairwise(boxes):
            assert left.x1 <= right.x0
            n_beside += 1
        assert boxes[0].x0 >= -1.0
        assert boxes[-1].x1 <= display.figure_.bbox.width + 1.0
    assert n_beside > 5


@pytest.mark.parametrize("draw", DISPLAYS)
def test_names_keep_their_beginning_and_their_end(draw):
    display = draw()
    display.figure_.canvas.draw()
    told = "\n".join(one.get_text() for row in titles(display) for one in row)
    lines = told.split("\n")
    assert any("a " in line and "…" in line and "ber 3" in line for line in lines)
    assert any("W…W" in line for line in lines)
    assert "$5 & $10" in told
    assert "two lines" in told


def test_what_does_not_fit_stands_below():
    first = audited().axes_["wrong_labels"][0].get_title().split("\n")
    assert first[0] == "0"
    assert first[1].startswith("a ")
    assert first[1].endswith("0 →")
    assert first[2].endswith("1")
    assert len(first) == 3
    display = attributed()
    value = display.axes_[0, 2].get_title().split("\n")
    assert value[0].endswith("0:")
    assert value[1] == f"{display.points[1][0, 0, 0]:+.2g}"
