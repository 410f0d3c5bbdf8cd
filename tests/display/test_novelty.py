"""Pictures of p-values over time."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import same_color

from skconvgp import ConvNetGPRegressor
from skconvgp.display import NoveltyDisplay
from skconvgp.kernels import rbf
from skconvgp.questions import novelty
from tests.helpers.estimators import wave

P_VALUES = np.array([0.5, 0.05, 0.9, 0.01, 0.02, 1.0])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_points_are_p_values_and_lines_are_shares_of_the_last():
    display = NoveltyDisplay.from_p_values(P_VALUES, window=2)
    points = np.asarray(display.axes_[0].collections[0].get_offsets())
    np.testing.assert_allclose(points, np.stack([np.arange(6), P_VALUES], 1))
    expected = [np.nan, 0.5, 0.5, 0.5, 1.0, 0.5]
    np.testing.assert_array_equal(display.shares_, expected)
    np.testing.assert_array_equal(display.axes_[1].lines[0].get_ydata(), expected)
    colors = display.axes_[0].collections[0].get_facecolors()
    are_new = [same_color(color, "firebrick") for color in colors]
    assert are_new == (P_VALUES <= 0.05).tolist()
    for axes, which in zip(display.axes_, (0, 1), strict=True):
        assert set(axes.lines[which].get_ydata()) == {0.05}


def test_times_and_level_are_those_that_are_given():
    times = np.array("2026-01-01", dtype="datetime64[D]") + np.arange(6)
    display = NoveltyDisplay.from_p_values(P_VALUES, times=times, level=0.2, window=99)
    assert display.axes_[1].get_xlabel() == "time"
    np.testing.assert_array_equal(display.shares_[:-1], np.nan)
    assert display.shares_[-1] == 0.5
    assert "p ≤ 0.2" in display.axes_[1].get_ylabel()


def test_an_estimator_is_asked_for_its_p_values():
    X, y = wave(40)
    gp = ConvNetGPRegressor(rbf(0.5)).fit(X, y)
    new = np.linspace(0.0, 12.0, 30)[:, None]
    display = NoveltyDisplay.from_estimator(gp, new, window=5)
    np.testing.assert_array_equal(display.p_values, novelty(gp, new))


def test_a_figure_of_the_user_is_drawn_on_and_can_be_saved(tmp_path):
    figure = plt.figure(layout="constrained")
    display = NoveltyDisplay.from_p_values(P_VALUES, figure=figure)
    assert display.figure_ is figure
    figure.savefig(tmp_path / "novelty.png")
    assert (tmp_path / "novelty.png").stat().st_size > 1000


def test_wrong_values_are_refused():
    for values in ([], [0.0, 0.5], [1.5], [[0.5]], [np.nan]):
        with pytest.raises(ValueError, match="`p_values` must be one row of numbers"):
            NoveltyDisplay.from_p_values(values)
    with pytest.raises(ValueError, match="`times` must have one time for each of 6"):
        NoveltyDisplay.from_p_values(P_VALUES, times=[1, 2])
    for level in (0.0, 1.0, 5):
        with pytest.raises(ValueError, match="`level` must be between 0 and 1"):
            NoveltyDisplay.from_p_values(P_VALUES, level=level)
    for window in (0, 2.5, None):
        with pytest.raises(ValueError, match="`window` must be an int >= 1"):
            NoveltyDisplay.from_p_values(P_VALUES, window=window)
