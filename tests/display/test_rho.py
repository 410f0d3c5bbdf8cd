"""The picture of how a kernel learned itself."""

import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from skconvgp.display import RhoTraceDisplay
from skconvgp.flows import FlowResult

LABELS = ("weight_variance", "bias_variance")
VALUES = np.array([0.9, 0.5, 0.7, np.nan, 0.3, 0.4])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def result(values=VALUES, **others):
    n = len(values)
    rng = np.random.default_rng(0)
    settings = {
        "theta": np.log([2.0, 0.5]),
        "labels": LABELS,
        "rho": 0.35,
        "start_theta": np.zeros(2),
        "start_rho": 0.8,
        "message": "all steps done",
        "theta_trace": rng.normal(size=(n, 2)),
        "rho_trace": values,
        "seconds": 0.5 * np.arange(n) + 0.25,
        "evaluations": 5.0 * np.arange(n) + 5.0,
        "n_evaluations": 5 * n,
        "n_derivatives": n,
    }
    return FlowResult(**settings | others)


def lines(axes):
    """Return the lines of axes by the first word of their labels."""
    return {line.get_label().split(":")[0]: line for line in axes.lines}


@pytest.mark.parametrize(
    ("against", "places"),
    [
        ("evaluations", [5, 10, 15, 20, 25, 30]),
        ("steps", [1, 2, 3, 4, 5, 6]),
        ("seconds", [0.25, 0.75, 1.25, 1.75, 2.25, 2.75]),
    ],
)
def test_values_are_drawn_where_they_were(against, places):
    display = RhoTraceDisplay.from_result(result(), against=against)
    drawn = lines(display.axes_[0])["step"]
    np.testing.assert_array_equal(drawn.get_xdata(), places)
    np.testing.assert_array_equal(drawn.get_ydata(), VALUES)


def test_running_mean_leaves_undefined_values_out():
    display = RhoTraceDisplay.from_result(result(), window=2)
    expected = [0.9, 0.7, 0.6, 0.7, 0.3, 0.35]
    np.testing.assert_allclose(display.running_mean_, expected)
    drawn = lines(display.axes_[0])["mean of 2 steps"]
    np.testing.assert_allclose(drawn.get_ydata(), expected)


def test_mean_of_undefined_values_is_undefined():
    display = RhoTraceDisplay.from_result(result(), window=1)
    np.testing.assert_array_equal(display.running_mean_, VALUES)


def test_window_is_a_twentieth_of_the_steps():
    values = np.random.default_rng(1).uniform(size=60)
    display = RhoTraceDisplay.from_result(result(values))
    assert display.running_mean_[10] == pytest.approx(values[8:11].mean())


def test_start_and_accepted_value_are_horizontal_lines():
    drawn = lines(RhoTraceDisplay.from_result(result()).axes_[0])
    assert list(drawn["start"].get_ydata()) == [0.8, 0.8]
    assert list(drawn["accepted"].get_ydata()) == [0.35, 0.35]
    assert drawn["start"].get_label() == "start: 0.8"


def test_undefined_start_has_no_line():
    display = RhoTraceDisplay.from_result(result(start_rho=np.nan))
    assert "start" not in lines(display.axes_[0])


def test_undefined_steps_are_marked():
    drawn = lines(RhoTraceDisplay.from_result(result()).axes_[0])
    assert list(drawn["undefined"].get_xdata()) == [20]
    whole = RhoTraceDisplay.from_result(result(np.ones(3)))
    assert "undefined" not in lines(whole.axes_[0])


def test_hyperparameters_have_their_paths_below():
    found = result()
    display = RhoTraceDisplay.from_result(found)
    assert display.axes_.shape == (2,)
    drawn = lines(display.axes_[1])
    for i, label in enumerate(LABELS):
        path = np.exp(found.theta_trace[:, i])
        np.testing.assert_allclose(drawn[label].get_ydata(), path)
        np.testing.assert_array_equal(drawn[label].get_xdata(), found.evaluations)
    assert display.axes_[1].get_yscale() == "log"
    ends = [
        line.get_ydata()[0]
        for line in display.axes_[1].lines
        if len(line.get_xdata()) == 1
    ]
    np.testing.assert_allclose(ends, [2.0, 0.5])


def test_paths_can_be_left_out():
    display = RhoTraceDisplay.from_result(result(), hyperparameters=False)
    assert display.axes_.shape == (1,)
    assert display.axes_[0].get_xlabel()


def test_estimator_is_asked_for_its_result():
    found = result()
    estimator = SimpleNamespace(flow_result_=found)
    display = RhoTraceDisplay.from_estimator(estimator, window=3, against="steps")
    assert display.result is found
    assert "mean of 3 steps" in lines(display.axes_[0])
    assert display.axes_[1].get_xlabel() == "step"


def test_result_without_steps_can_be_drawn():
    display = RhoTraceDisplay.from_result(result(np.empty(0)))
    assert display.running_mean_.shape == (0,)
    assert set(lines(display.axes_[0])) >= {"start", "accepted"}


def test_figure_of_the_user_is_drawn_on_and_can_be_saved(tmp_path):
    figure = plt.figure(layout="constrained")
    display = RhoTraceDisplay.from_result(result(), figure=figure)
    assert display.figure_ is figure
    figure.savefig(tmp_path / "rho.png")
    assert (tmp_path / "rho.png").stat().st_size > 1000


def test_plot_can_be_repeated():
    display = RhoTraceDisplay.from_result(result())
    assert display.plot(hyperparameters=False) is display
    assert display.axes_.shape == (1,)


def test_wrong_settings_are_refused():
    with pytest.raises(
        ValueError, match=r"`against` must be one of 'evaluations'.*got"
    ):
        RhoTraceDisplay.from_result(result(), against="time")
    for window in (0, 2.5):
        with pytest.raises(ValueError, match="`window` must be None or an int >= 1"):
            RhoTraceDisplay.from_result(result(), window=window)


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"RhoTraceDisplay.*\.\[display\]"):
        RhoTraceDisplay.from_result(result())
