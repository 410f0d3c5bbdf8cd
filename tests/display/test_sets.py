"""Pictures of prediction sets."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from skconvgp import ConvNetGPClassifier
from skconvgp.display import PredictionSetDisplay
from skconvgp.questions import prediction_set
from tests.helpers.estimators import digits, tiny_network

SETS = np.array(
    [[1, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0], [1] * 6, [0, 1] * 3]
)
LABELS = np.array(list("uvwxyz"))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def images(n=5):
    return np.random.default_rng(0).uniform(size=(n, 6, 7))


def test_rows_are_the_sizes_of_sets():
    display = PredictionSetDisplay.from_sets(images(), SETS, labels=LABELS)
    shown = {n: found.tolist() for n, found in display.shown_.items()}
    assert shown == {0: [2], 1: [0], 2: [1], 3: [4], 4: [3]}
    titles = {n: axes[0].get_title() for n, axes in display.axes_.items()}
    assert titles == {0: "none", 1: "u", 2: "v, w", 3: "v, x, z", 4: "6 labels"}
    for n, (index,) in shown.items():
        drawn = display.axes_[n][0].images[0].get_array()
        np.testing.assert_array_equal(drawn, images()[index])
    heads = [part.get_suptitle() for part in display.figure_.subfigs]
    assert heads[0] == "No label: 1 image"
    assert heads[-1] == "4 or more labels: 1 image"


def test_true_labels_that_are_missed_are_red():
    y = ["u", "z", "v", "w", "v"]
    display = PredictionSetDisplay.from_sets(images(), SETS, y, labels=LABELS)
    titles = {n: axes[0].title for n, axes in display.axes_.items()}
    assert titles[2].get_text() == "v, w\ntrue: z"
    assert titles[0].get_text() == "none\ntrue: v"
    reds = {n for n, title in titles.items() if title.get_color() == "firebrick"}
    assert reds == {0, 2}


def test_an_estimator_is_asked_for_its_sets():
    X, y = digits(90)
    gp = ConvNetGPClassifier(tiny_network()).fit(X[:60], y[:60])
    options = {"level": 0.8, "n_images": 2}
    display = PredictionSetDisplay.from_estimator(
        gp, X[60:].reshape(30, -1), y[60:], **options
    )
    np.testing.assert_array_equal(display.sets, prediction_set(gp, X[60:], 0.8))
    assert max(map(len, display.shown_.values())) == 2
    np.testing.assert_array_equal(display.labels, gp.classes_)


def test_a_figure_of_the_user_is_drawn_on_and_can_be_saved(tmp_path):
    figure = plt.figure(layout="constrained")
    display = PredictionSetDisplay.from_sets(images(), SETS, figure=figure)
    assert display.figure_ is figure
    figure.savefig(tmp_path / "sets.png")
    assert (tmp_path / "sets.png").stat().st_size > 1000


def test_other_lengths_and_numbers_are_refused():
    with pytest.raises(ValueError, match=r"`sets`.*5 images, got 4"):
        PredictionSetDisplay.from_sets(images(), SETS[:4])
    with pytest.raises(ValueError, match=r"`y_true`.*5 images, got 2"):
        PredictionSetDisplay.from_sets(images(), SETS, [0, 1])
    for labels in ([1, 2], list("uvwxyza"), [["u"] * 6]):
        with pytest.raises(ValueError, match=r"`labels`.* each of the 6 columns of"):
            PredictionSetDisplay.from_sets(images(), SETS, labels=labels)
    with pytest.raises(ValueError, match=r"`sets` must have shape \(n, n_classes\)"):
        PredictionSetDisplay.from_sets(images(), SETS[0])
    with pytest.raises(ValueError, match="`images` must have shape"):
        PredictionSetDisplay.from_sets(np.zeros((5, 2)), SETS)
    for n_images in (0, 1.5, None):
        with pytest.raises(ValueError, match="`n_images` must be an int >= 1"):
            PredictionSetDisplay.from_sets(images(), SETS, n_images=n_images)
