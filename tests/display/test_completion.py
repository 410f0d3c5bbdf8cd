"""The picture of errors and scores against the share of the entries."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, NystromCompletedGP
from skconvgp.completion import Nystrom, SubsetOfData
from skconvgp.display import CompletionErrorDisplay
from skconvgp.exceptions import CompletionError
from skconvgp.kernels import rbf

FRACTIONS = [0.1, 0.4]
SPLIT = ShuffleSplit(1, test_size=0.25, random_state=0)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)


def classifier(**settings):
    return ConvNetGPClassifier(rbf(1.5), random_state=0, **settings)


def drawn(axes):
    """Return the curves of axes by name."""
    return {line.get_label(): np.asarray(line.get_ydata()) for line in axes.lines}


def test_scores_and_errors_are_those_of_single_fits(data):
    X, y = data
    display = CompletionErrorDisplay.from_estimator(
        classifier(),
        X,
        y,
        completions={"columns": Nystrom(), "subset": SubsetOfData()},
        fractions=FRACTIONS,
        cv=SPLIT,
    )
    train, test = next(SPLIT.split(X))
    for name, part in (("columns", Nystrom()), ("subset", SubsetOfData())):
        for place, fraction in enumerate(FRACTIONS):
            gp = classifier(completion=part, observed_fraction=fraction)
            gp.fit(X[train], y[train])
            assert display.scores[name][place] == gp.score(X[test], y[test])
            np.testing.assert_equal(
                display.errors[name][place], gp.fit_report_.relative_rmse
            )
    exact = classifier().fit(X[train], y[train])
    assert display.exact_score == exact.score(X[test], y[test])
    assert np.isfinite(display.errors["columns"]).all()
    assert np.isnan(display.errors["subset"]).all()


def test_draws_what_it_holds():
    scores = {"a": [0.5, 0.75], "b": [0.25, 1.0]}
    errors = {"b": [0.1, 0.01]}
    display = CompletionErrorDisplay(
        FRACTIONS, scores, errors=errors, exact_score=0.9, score_name="accuracy"
    ).plot()
    left, right = map(drawn, display.axes_)
    assert list(left) == ["b"]
    np.testing.assert_array_equal(left["b"], errors["b"])
    assert list(right) == ["a", "b", "exact"]
    np.testing.assert_array_equal(right["a"], scores["a"])
    np.testing.assert_array_equal(right["exact"], [0.9, 0.9])
    assert display.axes_[1].get_ylabel() == "accuracy"
    colors = [
        next(line for line in axes.lines if line.get_label() == "b").get_color()
        for axes in display.axes_
    ]
    assert colors[0] == colors[1]


@pytest.mark.parametrize(
    ("fractions", "scale"), [([0.1, 0.9], "linear"), ([0.02, 0.9], "log")]
)
def test_small_fractions_are_drawn_apart(fractions, scale):
    display = CompletionErrorDisplay(fractions, {"a": [0.5, 0.6]}).plot()
    assert display.axes_[1].get_xscale() == scale
    display.figure_.canvas.draw()


def test_takes_the_completion_of_the_estimator(data):
    display = CompletionErrorDisplay.from_estimator(
        classifier(completion=Nystrom(landmarks="kmeans")),
        *data,
        fractions=0.3,
        cv=SPLIT,
        figure=(figure := plt.figure()),
    )
    assert list(display.scores) == ["Nystrom(landmarks='kmeans')"]
    assert display.figure_ is figure


@pytest.mark.parametrize(
    ("estimator", "scoring", "name"),
    [
        (classifier(), None, "accuracy"),
        (ConvNetGPRegressor(rbf(1.0), random_state=0), None, "R²"),
        (classifier(), "neg_log_loss", "negative log loss"),
        (classifier(), lambda gp, X, y: 0.5, "score"),
    ],
)
def test_names_the_score(data, estimator, scoring, name):
    display = CompletionErrorDisplay.from_estimator(
        estimator,
        *data,
        completions=[Nystrom()],
        fractions=[0.5],
        cv=SPLIT,
        scoring=scoring,
    )
    assert display.axes_[1].get_ylabel() == name


@pytest.mark.parametrize(
    ("estimator", "settings", "message"),
    [
        (classifier(), {}, "no completion to draw"),
        (classifier(), {"completions": []}, "no completion to draw"),
        (classifier(), {"completions": [Nystrom(), Nystrom()]}, "are the same"),
        (NystromCompletedGP(), {}, "no parameter completion and observed_fraction"),
        (make_pipeline(classifier()), {}, "without a pipeline"),
    ],
)
def test_refuses_what_it_cannot_draw(data, estimator, settings, message):
    with pytest.raises(ValueError, match=message):
        CompletionErrorDisplay.from_estimator(estimator, *data, **settings)


def test_names_the_smallest_usable_fraction(data):
    with pytest.raises(CompletionError, match="smallest"):
        CompletionErrorDisplay.from_estimator(
            classifier(), *data, completions=[Nystrom()], fractions=[1e-4], cv=SPLIT
        )


def test_refuses_curves_of_another_length():
    with pytest.raises(
        ValueError, match=r"`scores` of 'a' must hold .* got shape \(3,\)"
    ):
        CompletionErrorDisplay(FRACTIONS, {"a": [1, 2, 3]})


def test_says_how_to_get_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"\.\[display\]"):
        CompletionErrorDisplay(FRACTIONS, {"a": [0.1, 0.2]}).plot()
