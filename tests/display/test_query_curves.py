"""Curves of scores against numbers of labels."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.metrics import log_loss

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor
from skconvgp.display import QueryCurvesDisplay
from skconvgp.kernels import rbf
from skconvgp.questions import query
from tests.helpers.estimators import wave

NUMBERS = [10, 20, 40]
DRAWS = np.array([[0.5, 0.6, 0.9], [0.7, 0.8, 0.9], [0.6, 1.0, 0.9]])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def classes(n):
    """Return points of three overlapping classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 2)) + 2.0 * y[:, None], np.array(["a", "b", "c"])[y]


def test_curves_are_means_and_bands_are_standard_errors():
    scores = {"random": DRAWS, "margin": DRAWS[0], "my own": DRAWS[:1]}
    display = QueryCurvesDisplay.from_scores(NUMBERS, scores, score_name="accuracy")
    lines, axes = display.ax_.lines, display.ax_
    for line, expected in zip(lines, (DRAWS.mean(0), DRAWS[0], DRAWS[0]), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), NUMBERS)
        np.testing.assert_allclose(line.get_ydata(), expected)
    assert len(axes.collections) == 1  # a single draw has no band
    corners = axes.collections[0].get_paths()[0].vertices
    error = DRAWS.std(0, ddof=1) / np.sqrt(3.0)
    for i, number in enumerate(NUMBERS):
        found = np.unique(corners[corners[:, 0] == number, 1])
        sides = DRAWS.mean(0)[i] + np.array([-1.0, 1.0]) * error[i]
        np.testing.assert_allclose(found, np.unique(sides))
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == list(scores)
    assert axes.get_ylabel() == "accuracy"
    assert len({line.get_color() for line in lines}) == 3


def test_an_estimator_learns_from_what_it_has_chosen():
    X, y = classes(120)
    display = QueryCurvesDisplay.from_estimator(
        ConvNetGPClassifier(rbf(1.0)),
        X,
        y,
        strategies=["random", "uncertain variance"],
        start=8,
        batch=5,
        n_batches=2,
        test_size=40,
        n_draws=2,
        random_state=3,
    )
    assert display.numbers.tolist() == [8, 13, 18]
    assert display.score_name == "accuracy"
    source = np.random.RandomState(3)
    for draw in range(2):
        order = source.permutation(120)
        test, pool = order[:40], order[40:]
        for name in ("random", "uncertain variance"):
            chosen = pool[:8]
            for step in range(3):
                model = ConvNetGPClassifier(rbf(1.0)).fit(X[chosen], y[chosen])
                expected = np.mean(model.predict(X[test]) == y[test])
                assert display.scores[name][draw, step] == expected
                if step < 2:
                    left = np.setdiff1d(pool, chosen)
                    own = left[query(model, X[left], 5, name, random_state=source)]
                    chosen = np.concatenate([chosen, own])


def test_a_score_of_the_user_is_taken():
    def negative_loss(model, X, y):
        return -log_loss(y, model.predict_proba(X))

    X, y = classes(60)
    display = QueryCurvesDisplay.from_estimator(
        ConvNetGPClassifier(rbf(1.0)),
        *(X, y),
        start=24,
        batch=3,
        n_batches=1,
        n_draws=1,
        scoring=negative_loss,
        random_state=0,
    )
    names = ["random", "margin", "variance", "uncertain variance"]
    assert list(display.scores) == names
    assert all((values < 0.0).all() for values in display.scores.values())
    assert display.ax_.get_ylabel() == "score"


def test_a_regressor_chooses_by_variance_and_draws_on_axes_that_are_given():
    X, y = wave(60)
    _, axes = plt.subplots()
    sizes = {"start": 4, "batch": 2, "n_batches": 2, "n_draws": 1}
    display = QueryCurvesDisplay.from_estimator(
        ConvNetGPRegressor(rbf(0.5)), X, y, **sizes, random_state=0, ax=axes
    )
    assert display.ax_ is axes
    assert list(display.scores) == ["random", "variance"]
    assert axes.get_ylabel() == "R²"
    display.figure_.canvas.draw()


def test_wrong_values_are_refused():
    with pytest.raises(ValueError, match="`scores` of 'a' must have a row of 3"):
        QueryCurvesDisplay.from_scores(NUMBERS, {"a": [0.5, 0.6]})
    with pytest.raises(ValueError, match="`scores` must have a strategy"):
        QueryCurvesDisplay.from_scores(NUMBERS, {})
    for numbers in ([20, 10, 30], [[10, 20, 30]], 10):
        with pytest.raises(ValueError, match="`numbers` must be one row of ascending"):
            QueryCurvesDisplay.from_scores(numbers, {"a": DRAWS})
    X, y = classes(60)
    gp = ConvNetGPClassifier(rbf(1.0))
    for name in ("start", "batch", "n_batches", "n_draws", "test_size"):
        for size in (0, 2.5, True):
            with pytest.raises(ValueError, match=f"`{name}` must be an int >= 1"):
                QueryCurvesDisplay.from_estimator(gp, X, y, **{name: size})
    with pytest.raises(ValueError, match=r"ask for 100 labels.*pool of 42.*18 are"):
        QueryCurvesDisplay.from_estimator(gp, X, y)


def test_strategies_are_checked_before_work(monkeypatch):
    monkeypatch.setattr(ConvNetGPClassifier, "fit", None)
    monkeypatch.setattr(ConvNetGPRegressor, "fit", None)
    X, y = classes(60)
    few = {"start": 10, "batch": 5, "n_batches": 1}
    gp = ConvNetGPClassifier(rbf(1.0))
    for strategies in ([], "random"):
        with pytest.raises(ValueError, match="`strategies` must be a list of names"):
            QueryCurvesDisplay.from_estimator(gp, X, y, **few, strategies=strategies)
    with pytest.raises(ValueError, match=r"must be one of .* got 'entropy'"):
        QueryCurvesDisplay.from_estimator(
            gp, X, y, **few, strategies=["random", "entropy"]
        )
    gp = ConvNetGPRegressor(rbf(1.0))
    with pytest.raises(ValueError, match="'margin' is for classifiers"):
        QueryCurvesDisplay.from_estimator(gp, X, y, **few, strategies=["margin"])


def test_says_how_to_get_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"\.\[display\]"):
        QueryCurvesDisplay(NUMBERS, {"a": DRAWS}).plot()
