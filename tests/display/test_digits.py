"""The picture of the most and the least certain images."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from skconvgp import ConvNetGPClassifier
from skconvgp.display import UncertainDigitsDisplay
from tests.helpers.estimators import digits, tiny_network

MISTAKE = "firebrick"


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def predictions():
    """Return four images and probabilities: certain are 2, 0, 3, 1 in this order."""
    images = np.random.default_rng(0).uniform(size=(4, 8, 8))
    y_prob = np.array([[0.2, 0.8], [0.55, 0.45], [0.95, 0.05], [0.4, 0.6]])
    return images, y_prob


def test_least_and_most_certain_are_shown_in_order():
    display = UncertainDigitsDisplay.from_predictions(*predictions(), n_images=2)
    assert list(display.least_certain_) == [1, 3]
    assert list(display.most_certain_) == [2, 0]
    assert display.axes_.shape == (2, 2)
    np.testing.assert_array_equal(display.labels, [1, 0, 0, 1])
    np.testing.assert_array_equal(display.confidence, [0.8, 0.55, 0.95, 0.6])


def test_every_axes_shows_its_image():
    images, y_prob = predictions()
    display = UncertainDigitsDisplay.from_predictions(images, y_prob, n_images=2)
    shown = [display.least_certain_, display.most_certain_]
    for row, indices in zip(display.axes_, shown, strict=True):
        for axes, index in zip(row, indices, strict=True):
            drawn = np.asarray(axes.images[0].get_array())
            np.testing.assert_array_equal(drawn, images[index])


def test_titles_give_label_and_probability_and_mark_mistakes():
    display = UncertainDigitsDisplay.from_predictions(
        *predictions(), [9, 7, 7, 9], labels=[7, 9], n_images=4
    )
    titles = {
        int(index): axes.title
        for axes, index in zip(display.axes_[0], display.least_certain_, strict=True)
    }
    assert titles[0].get_text() == "9: 80.0%"
    assert titles[1].get_text() == "7: 55.0%"
    assert titles[0].get_color() != MISTAKE
    wrong = UncertainDigitsDisplay.from_predictions(
        *predictions(), [9, 9, 7, 9], labels=[7, 9], n_images=1
    )
    title = wrong.axes_[0, 0].title
    assert title.get_text() == "7: 55.0%\ntrue: 9"
    assert title.get_color() == MISTAKE
    assert wrong.axes_[1, 0].title.get_color() != MISTAKE


def test_no_more_images_than_there_are():
    display = UncertainDigitsDisplay.from_predictions(*predictions(), n_images=50)
    assert display.axes_.shape == (2, 4)


def test_one_image_is_a_picture():
    images, y_prob = predictions()
    display = UncertainDigitsDisplay.from_predictions(images[:1], y_prob[:1])
    assert display.axes_.shape == (2, 1)


def test_color_images_keep_their_channels():
    images = np.random.default_rng(0).uniform(size=(2, 3, 5, 6))
    display = UncertainDigitsDisplay.from_predictions(images, np.eye(2))
    assert display.axes_[0, 0].images[0].get_array().shape == (5, 6, 3)


def test_figure_of_the_user_is_drawn_on_and_can_be_saved(tmp_path):
    figure = plt.figure(layout="constrained")
    display = UncertainDigitsDisplay.from_predictions(*predictions(), figure=figure)
    assert display.figure_ is figure
    figure.savefig(tmp_path / "digits.png")
    assert (tmp_path / "digits.png").stat().st_size > 1000


def test_plot_can_be_repeated():
    display = UncertainDigitsDisplay.from_predictions(*predictions())
    assert display.plot(n_images=1) is display
    assert display.axes_.shape == (2, 1)


@pytest.mark.parametrize("form", ["rows", "3-D", "4-D"])
def test_estimator_is_asked_for_its_probabilities(form):
    X, y = digits(60)
    gp = ConvNetGPClassifier(tiny_network(), image_shape=(8, 8))
    gp.fit(X[:40].reshape(40, -1), np.array(list("abcdefghij"))[y[:40]])
    forms = {"rows": X.reshape(60, -1), "3-D": X[:, 0], "4-D": X}
    display = UncertainDigitsDisplay.from_estimator(
        gp, forms[form][40:], y[40:], n_images=3
    )
    y_prob = gp.predict_proba(X[40:])
    assert display.images.shape == (20, 1, 8, 8)
    np.testing.assert_array_equal(display.labels, gp.classes_[y_prob.argmax(1)])
    order = np.argsort(y_prob.max(1))
    np.testing.assert_array_equal(display.least_certain_, order[:3])
    np.testing.assert_array_equal(display.most_certain_, order[:-4:-1])


@pytest.mark.parametrize("shape", [(4, 64), (4, 2, 8, 8), (4, 8, 8, 3), (4,)])
def test_what_is_no_image_is_refused(shape):
    y_prob = predictions()[1]
    with pytest.raises(ValueError, match=r"`images` must have shape.*1 or 3 channels"):
        UncertainDigitsDisplay.from_predictions(np.ones(shape), y_prob)


def test_other_lengths_are_refused():
    images, y_prob = predictions()
    with pytest.raises(ValueError, match=r"`y_prob`.*4 images, got 3"):
        UncertainDigitsDisplay.from_predictions(images, y_prob[:3])
    with pytest.raises(ValueError, match=r"`labels`.* each of the \d+ columns of"):
        UncertainDigitsDisplay.from_predictions(images, y_prob, labels=["a"])
    with pytest.raises(ValueError, match=r"`y_true`.*4 images, got 5"):
        UncertainDigitsDisplay.from_predictions(images, y_prob, np.zeros(5))


@pytest.mark.parametrize("n_images", [0, -1, 2.5, None])
def test_wrong_number_of_images_is_refused(n_images):
    with pytest.raises(ValueError, match="`n_images` must be an int >= 1"):
        UncertainDigitsDisplay.from_predictions(*predictions(), n_images=n_images)


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install \"\.\[display\]\""):
        UncertainDigitsDisplay.from_predictions(*predictions())
