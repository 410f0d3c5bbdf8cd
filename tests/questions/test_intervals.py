"""Intervals of targets."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageRegressor,
    KernelFlowsRegressor,
    gram_matrix,
)
from skconvgp.completion import SubsetOfData
from skconvgp.flows import Adam
from skconvgp.kernels import rbf
from skconvgp.questions import novelty, prediction_interval
from tests.helpers.conformal import count_factors, target_p_value, units_of
from tests.helpers.estimators import digits

LEVELS = [0.3, 0.8, 0.93]
NOISE = 0.1


def waves(n, seed=0, noise=0.3):
    """Return numbers, and targets that follow a wave."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, size=(n, 1))
    return X, np.sin(X[:, 0]) + noise * rng.normal(size=n)


def check(gp, X, y, new, *, level, weights=None, groups=None, n_points=60):
    """Compare intervals with p-values on a fine grid, by refits."""
    X, y = np.asarray(X), np.asarray(y)
    weights = np.ones(len(X)) if weights is None else weights
    found = prediction_interval(gp, new, level)
    for one, (lower, upper) in zip(new, found, strict=True):
        gram = gram_matrix(gp.kernel_, np.vstack([X, one[None]]))
        width = upper - lower
        assert 0.0 < width < np.inf
        grid = np.linspace(lower - width, upper + width, n_points)
        near = 1e-6 * width
        ends = [lower - near, lower + near, upper - near, upper + near]
        for target in [*grid, *ends]:
            p_value = target_p_value(
                gram / gp._process.model.mean_diag,
                gp.noise_variance_ / weights,
                (y - gp.y_mean_) / gp.y_scale_,
                (target - gp.y_mean_[0]) / gp.y_scale_[0],
                units_of(X, groups),
                weights,
                new_noise=gp.noise_variance_,
            )
            assert (lower <= target <= upper) == (p_value > 1.0 - level + 1e-9)


def test_an_interval_of_a_subset_is_that_of_its_samples():
    X, y = waves(60)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=NOISE, normalize_y=False)
    whole = clone(gp)
    gp.set_params(completion=SubsetOfData(), observed_fraction=0.4, random_state=0)
    kept = gp.fit(X, y).landmark_indices_
    assert 20 < len(kept) < 60
    new = [[0.5], [2.0], [7.0]]
    for ask in (prediction_interval, novelty):
        expected = ask(whole.fit(X[kept], y[kept]), new)
        np.testing.assert_allclose(ask(gp, new), expected, rtol=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_an_interval_has_the_targets_that_refits_keep(level):
    X, y = waves(40)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1).fit(X, y)
    check(gp, X, y, np.array([[0.4], [7.5]]), level=level)


@pytest.mark.parametrize("level", LEVELS[1:])
def test_copies_are_one_unit(level):
    X, y = waves(24)
    X, y = np.vstack([X, X[:6], X[:3]]), np.concatenate([y, y[:6] + 0.5, y[:3] - 1.0])
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1).fit(X, y)
    check(gp, X, y, np.array([[1.3]]), level=level)


@pytest.mark.parametrize("level", LEVELS[:2])
def test_a_group_is_one_unit(level):
    X, y = waves(30)
    groups = np.arange(30) // 3
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1).fit(X, y, groups=groups)
    check(gp, X, y, np.array([[1.3]]), level=level, groups=groups)


@pytest.mark.parametrize("weights", [1.0 + np.arange(30) % 3, 0.5 + np.arange(30) % 2])
def test_weights_are_numbers_of_copies(weights):
    X, y = waves(30)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1)
    gp.fit(X, y, sample_weight=weights)
    new = np.array([[1.3]])
    check(gp, X, y, new, level=0.8, weights=weights)
    if (weights % 1.0).any():
        return
    found = prediction_interval(gp, new)
    times = weights.astype(int)
    # Copies change the mean of targets, in whose units an interval is the same.
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1)
    gp.fit(np.repeat(X, times, 0), np.repeat(y, times))
    np.testing.assert_allclose(prediction_interval(gp, new), found, rtol=1e-9)


def test_outputs_have_intervals_of_their_own():
    X, y = waves(40)
    new = np.array([[0.4], [3.0]])
    both = np.stack([y, np.exp(-y)], 1)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1)
    found = prediction_interval(gp.fit(X, both), new)
    assert found.shape == (2, 2, 2)
    for i in range(2):
        alone = prediction_interval(gp.fit(X, both[:, i]), new)
        np.testing.assert_allclose(found[:, i], alone, rtol=1e-9)


def joint_p_values(gp, X, Y, new, groups=None):
    """Return a function of targets (k,) of a new sample that gives their p-value."""
    gram = gram_matrix(gp.kernel_, np.vstack([X, new[None]]))
    model, ones = gp._process.model, np.ones(len(X))
    given = gram / model.mean_diag, NOISE * ones, (Y - gp.y_mean_) / gp.y_scale_

    def p_value(target):
        return target_p_value(
            *given,
            (target - gp.y_mean_) / gp.y_scale_,
            units_of(X, groups),
            ones,
            new_noise=NOISE,
            deviations=np.sqrt(model.amplitude),
        )

    return p_value


@pytest.mark.parametrize("has_groups", [False, True])
def test_a_joint_box_has_all_targets_that_refits_keep(has_groups):
    X, y = waves(24)
    Y = np.stack([y, 3.0 * np.exp(-y) + 0.1 * X[:, 0]], 1)
    groups = np.arange(24) // 2 if has_groups else None
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=NOISE)
    gp.fit(X, Y, groups=groups)
    new = np.array([1.3])
    box = prediction_interval(gp, new[None], 0.8, joint=True)[0]
    p_value = joint_p_values(gp, X, Y, new, groups)
    around = [np.linspace(1.4 * a - 0.4 * b, 1.4 * b - 0.4 * a, 25) for a, b in box]
    grid = np.stack(np.meshgrid(*around), -1).reshape(-1, 2)
    kept = grid[[p_value(target) > 0.2 + 1e-9 for target in grid]]
    assert len(kept) > 100
    assert (box[:, 0] <= kept).all()
    assert (kept <= box[:, 1]).all()
    # Most of the box is kept.
    inside = ((box[:, 0] <= grid) & (grid <= box[:, 1])).all(1)
    assert len(kept) > 0.5 * inside.sum()


def test_a_joint_box_is_as_small_as_it_can_be_if_one_sample_decides():
    X, y = waves(24)
    Y = np.stack([y, 3.0 * np.exp(-y), X[:, 0] + y], 1)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=NOISE).fit(X, Y)
    new, level = np.array([1.3]), 0.95
    box = prediction_interval(gp, new[None], level, joint=True)[0]
    p_value = joint_p_values(gp, X, Y, new)
    unit = gp.y_scale_ * np.sqrt(gp._process.model.amplitude)
    # Left-out means of the new sample do not depend on its targets.
    mean = gp.predict(new[None])[0]
    for output, side in itertools.product(range(3), range(2)):
        size = (box[output, side] - mean[output]) / unit[output]
        kept = {}
        for share in (1.0 - 1e-6, 1.0 + 1e-6):
            others = itertools.product(abs(size) * np.linspace(-1.0, 1.0, 5), repeat=2)
            rows = [np.insert(np.array(one), output, size) for one in others]
            found = [p_value(mean + share * unit * row) for row in rows]
            kept[share] = max(found) > 1.0 - level + 1e-9
        assert list(kept.values()) == [True, False]


def test_one_output_has_the_interval_of_its_own():
    X, y = waves(40)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=NOISE).fit(X, y)
    new = np.array([[0.4], [3.0]])
    found = prediction_interval(gp, new, joint=True)
    np.testing.assert_allclose(found, prediction_interval(gp, new), rtol=1e-12)


def test_too_few_samples_have_an_infinite_joint_box():
    X, y = waves(5)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=NOISE)
    infinite = gp.fit(X, np.stack([y, y**2], 1))
    with pytest.warns(UserWarning, match="Intervals are infinite"):
        found = prediction_interval(infinite, X, joint=True)
    assert np.isinf(found).all()


@pytest.mark.parametrize("joint", [None, 1, "yes"])
def test_joint_is_a_flag(joint):
    X, y = waves(20)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=NOISE).fit(X, y)
    with pytest.raises(ValueError, match="`joint` must be True or False"):
        prediction_interval(gp, X, joint=joint)


def test_a_given_matrix_has_the_intervals_of_its_kernel():
    X, y = waves(40)
    new = np.array([[0.4], [3.0]])
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1).fit(X, y)
    gram = ConvNetGPRegressor("precomputed", noise_variance=0.1)
    gram.fit(gram_matrix(gp.kernel_, X), y)
    cross = gram_matrix(gp.kernel_, new, X)
    found = prediction_interval(gram, cross, diag=np.ones(2))
    np.testing.assert_allclose(found, prediction_interval(gp, new), rtol=1e-9)


@pytest.mark.parametrize(
    "gp",
    [
        KernelFlowsRegressor(rbf(1.0), optimizer=Adam(max_iter=2), random_state=0),
        ImageRegressor([rbf(2.0), rbf(4.0)]),
    ],
    ids=["flows", "images"],
)
def test_intervals_hold_left_out_targets_about_as_often_as_those_of_the_estimator(gp):
    X, labels = digits(80)
    y = labels.astype(float)
    gp.fit(X[:60], y[:60])
    found, usual = prediction_interval(gp, X[60:]), gp.predict_interval(X[60:])
    mean = gp.predict(X[60:])
    assert (found[:, 0] < mean).all()
    assert (mean < found[:, 1]).all()
    widths = (found[:, 1] - found[:, 0]) / (usual[:, 1] - usual[:, 0])
    assert widths.min() > 0.9
    assert widths.max() < 1.4


@pytest.mark.parametrize("setting", ["dtype", "solve_dtype"])
def test_single_precision_changes_little(setting):
    X, y = waves(40)
    new = np.array([[0.4], [3.0]])
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1, **{setting: "float32"})
    found = prediction_interval(gp.fit(X, y), new)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1).fit(X, y)
    np.testing.assert_allclose(found, prediction_interval(gp, new), rtol=1e-4)


def test_a_copy_without_noise_has_its_target():
    X = np.linspace(0.0, 9.0, 30)[:, None]
    y = np.sin(X[:, 0])
    gp = ConvNetGPRegressor(rbf(0.3), noise_variance=0.0).fit(X, y)
    np.testing.assert_allclose(
        prediction_interval(gp, X[:3]), np.repeat(y[:3, None], 2, 1), atol=1e-5
    )


def test_too_few_samples_give_infinite_intervals():
    X, y = waves(18)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1).fit(X, y)
    assert np.isfinite(prediction_interval(gp, X[:2] + 0.1, 0.94)).all()
    with pytest.warns(UserWarning, match=r"a level of 0\.95 takes 19 training"):
        found = prediction_interval(gp, X[:2] + 0.1, 0.95)
    np.testing.assert_array_equal(found, [[-np.inf, np.inf]] * 2)


def test_two_samples_are_enough_for_a_low_level():
    X, y = [[0.0], [1.0]], [0.0, 1.0]
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1).fit(X, y)
    check(gp, X, y, np.array([[0.3]]), level=0.5)


def test_equal_targets_have_one_point():
    X, _ = waves(30)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1, amplitude=1.0)
    found = prediction_interval(gp.fit(X, np.full(30, 2.0)), [[1.0]])
    np.testing.assert_allclose(found, [[2.0, 2.0]])


def test_a_row_has_the_same_interval_among_others():
    X, y = waves(50)
    new = np.linspace(-1.0, 8.0, 200)[:, None]
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    together = prediction_interval(gp, new)
    apart = [prediction_interval(gp, new[i : i + 1])[0] for i in range(0, 200, 17)]
    np.testing.assert_allclose(together[::17], apart, rtol=1e-9)


@pytest.mark.parametrize("n_draws", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_the_target_is_in_the_interval_as_often_as_promised(n_draws):
    """Draws of models with frozen settings: the bound is of four deviations."""
    n, n_new, level, hits = 39, 5, 0.8, []
    for seed in range(n_draws):
        X, y = waves(n + n_new, seed)
        y += np.random.default_rng(seed).exponential(X[:, 0])  # not Gaussian
        gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.3, normalize_y=False)
        lower, upper = prediction_interval(gp.fit(X[:n], y[:n]), X[n:], level).T
        hits.append(((lower <= y[n:]) & (y[n:] <= upper)).mean())
    deviation = np.std(hits) / np.sqrt(n_draws)
    assert level - 4.0 * deviation <= np.mean(hits)
    assert np.mean(hits) <= level + 1.0 / (n + 1) + 4.0 * deviation


def test_nothing_is_factored_again(monkeypatch):
    X, y = waves(30)
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    counted = count_factors(monkeypatch)
    prediction_interval(gp, X[:3] + 0.1)
    assert counted == []


def test_wrong_arguments_are_refused():
    X, y = waves(30)
    with pytest.raises(NotFittedError):
        prediction_interval(ConvNetGPRegressor(), X)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y > 0.0)
    with pytest.raises(ValueError, match="use `prediction_set`"):
        prediction_interval(gp, X)
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    with pytest.raises(ValueError, match="`level` must be a number between 0 and 1"):
        prediction_interval(gp, X, 90)
