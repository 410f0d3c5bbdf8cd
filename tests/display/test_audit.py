"""The sheet of images of an audit."""

import sys
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor
from skconvgp.display import AuditDisplay
from skconvgp.kernels import rbf
from skconvgp.questions import Audit, audit
from tests.helpers.estimators import digits


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def found(n_wrong=3):
    """Return an audit of 20 images, with some wrong labels, a pair and no outliers."""
    wrong = [
        {"index": 10 + i, "label": "cat", "proposal": "dog"} for i in range(n_wrong)
    ]
    doubtful = [{"index": 4, "label": "cow", "proposal": "cat"}]
    pair = {"index": 7, "other": 2, "label": "cat", "other_label": "cow"}
    return Audit(20, wrong, [pair], [], [], [], doubtful)


IMAGES = np.random.default_rng(0).uniform(size=(20, 1, 6, 5))


def titles(display, name):
    return [axes.get_title() for axes in display.axes_[name]]


def test_images_have_indices_labels_and_proposals():
    display = AuditDisplay.from_audit(found(), IMAGES)
    assert display.shown_ == {
        "wrong_labels": [10, 11, 12],
        "doubtful_labels": [4],
        "near_copies": [7, 2],
        "outliers": [],
    }
    assert titles(display, "wrong_labels")[0] == "10\ncat → dog"
    assert titles(display, "doubtful_labels") == ["4\ncow → cat"]
    assert titles(display, "near_copies") == ["7\ncat", "2\ncow"]
    for name, shown in display.shown_.items():
        for axes, index in zip(display.axes_[name], shown, strict=True):
            drawn = np.asarray(axes.images[0].get_array())
            np.testing.assert_array_equal(drawn, IMAGES[index, 0])


def test_parts_say_how_many_were_found():
    display = AuditDisplay.from_audit(found(9), IMAGES, n_images=4)
    assert len(display.axes_["wrong_labels"]) == 4
    headings = [part.get_suptitle() for part in display.figure_.subfigs]
    assert headings == [
        "Likely wrong labels: 9",
        "Worth a look: 1",
        "Near copies: 1",
        "Unlike the others: none",
    ]
    unknown = replace(found(), near_copies=None)
    display = AuditDisplay.from_audit(unknown, IMAGES)
    assert display.figure_.subfigs[2].get_suptitle() == "Near copies: unknown"
    assert display.axes_["near_copies"] == []


def test_findings_without_images_have_a_heading_alone():
    figure = AuditDisplay.from_audit(found(), IMAGES).figure_
    *shown, empty = figure.subfigs
    assert all(part.axes for part in shown)
    assert empty.axes == []
    assert empty.bbox.height < 0.3 * shown[0].bbox.height
    nothing = AuditDisplay.from_audit(Audit(20, [], None, [], [], []), IMAGES)
    assert nothing.figure_.get_figheight() < figure.get_figheight() / 3
    assert not any(nothing.axes_.values())


def test_a_blank_image_has_a_frame():
    display = AuditDisplay.from_audit(found(), np.zeros((20, 1, 6, 5)))
    canvas = display.figure_.canvas
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3]
    for axes in display.axes_["wrong_labels"] + display.axes_["near_copies"]:
        left, low, right, high = axes.get_window_extent().extents.round().astype(int)
        middle, centre = (low + high) // 2, (left + right) // 2
        assert (pixels[middle, centre] == 255).all()
        for line in (
            pixels[middle, left - 2 : left + 3],
            pixels[middle, right - 2 : right + 3],
            pixels[low - 2 : low + 3, centre],
            pixels[high - 2 : high + 3, centre],
        ):
            assert line.min() < 230


def test_rows_and_colors_are_drawn():
    display = AuditDisplay.from_audit(found(), np.repeat(IMAGES, 3, axis=1))
    drawn = display.axes_["wrong_labels"][0].images[0].get_array()
    assert drawn.shape == (6, 5, 3)
    display = AuditDisplay.from_audit(found(), IMAGES[:, 0])
    assert display.images.shape == IMAGES.shape


@pytest.mark.parametrize("form", ["rows", "4-D"])
def test_an_estimator_is_audited(form):
    X, y = digits(80)
    X[50] = X[20]
    gp = ConvNetGPClassifier(rbf(2.0), image_shape=(8, 8)).fit(X.reshape(80, -1), y)
    given = X.reshape(80, -1) if form == "rows" else X
    display = AuditDisplay.from_estimator(gp, given, n_images=6)
    assert display.shown_["near_copies"] == [50, 20]
    told = [one["index"] for one in audit(gp).records("wrong_labels")]
    assert display.shown_["wrong_labels"] == told[:6]
    doubtful = [one["index"] for one in audit(gp).records("doubtful_labels")]
    assert len(doubtful) > 1
    assert display.shown_["doubtful_labels"] == doubtful


def test_targets_are_drawn_in_few_digits():
    X, y = digits(80)
    y = y + 0.001 * np.arange(80)
    y[33] += 40.0
    gp = ConvNetGPRegressor(rbf(2.0), noise_variance=0.1).fit(X, y)
    title = titles(AuditDisplay.from_estimator(gp, X), "wrong_labels")[0]
    index, text = title.split("\n")
    assert index == "33"
    assert text.startswith(f"{y[33]:.3g} → ")


def test_figure_of_the_user_is_drawn_on(tmp_path):
    figure = plt.figure(layout="constrained")
    display = AuditDisplay.from_audit(found(), IMAGES, figure=figure)
    assert display.figure_ is figure
    figure.savefig(tmp_path / "audit.png")
    assert (tmp_path / "audit.png").stat().st_size > 1000


def test_images_of_another_set_are_refused():
    with pytest.raises(ValueError, match=r"`images` must have all images.* 20, got 5"):
        AuditDisplay.from_audit(found(), IMAGES[:5])
    with pytest.raises(ValueError, match=r"`images` must have shape"):
        AuditDisplay.from_audit(found(), IMAGES.repeat(2, axis=1))


@pytest.mark.parametrize("n_images", [0, 1, 2.5, None])
def test_a_pair_is_the_least_that_is_shown(n_images):
    with pytest.raises(ValueError, match="`n_images` must be an int >= 2"):
        AuditDisplay.from_audit(found(), IMAGES, n_images=n_images)


def test_without_matplotlib_the_error_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"AuditDisplay.*pip install"):
        AuditDisplay.from_audit(found(), IMAGES)
