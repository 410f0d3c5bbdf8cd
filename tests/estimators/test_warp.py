"""KernelFlowsWarp: what it reaches, and how it behaves as a transformer."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skconvgp import (
    SKOPS_TRUSTED_TYPES,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsWarp,
    gram_matrix,
)
from skconvgp.datasets import make_swissroll_cheesecake, make_three_bumps
from skconvgp.flows import Rho
from skconvgp.kernels import convnet, rbf
from tests.helpers.estimators import blobs, digits, wave
from tests.helpers.suite import cases_of, id_of

BUMPS = rbf(lengthscale=4.0)
WARPS = [KernelFlowsWarp(n_steps=10), KernelFlowsWarp(solver="rk45", n_steps=2)]


# A list, as pytest 9 warns of the generator that scikit-learn 1.6 gives.
@pytest.mark.parametrize(("estimator", "check"), cases_of(WARPS), ids=id_of)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def ridge_error(X, y, X_test, y_test):
    """Return the mean squared error of a ridge fit with the kernel of the bumps."""
    gram = gram_matrix(BUMPS, X, dtype="float64") + 1e-4 * np.eye(len(X))
    cross = gram_matrix(BUMPS, X_test, X, dtype="float64")
    return np.mean((cross @ np.linalg.solve(gram, y) - y_test) ** 2)


def test_three_bumps_are_fitted_after_the_warp():
    X, y = make_three_bumps(80)
    X_test, y_test = make_three_bumps(200)
    assert ridge_error(X, y, X_test, y_test) == pytest.approx(6.870, abs=5e-4)
    warp = KernelFlowsWarp(kernel=BUMPS, random_state=0).fit(X, y)
    error = ridge_error(warp.transform(X), y, warp.transform(X_test), y_test)
    assert error < 0.05  # the source's is 0.504
    assert warp.is_monotone_
    assert (np.diff(warp.transform(X_test)[:, 0]) > 0.0).all()


@pytest.mark.parametrize(
    "settings",
    [pytest.param({"solver": "rk45"}, marks=pytest.mark.slow), {"random_state": 1}],
    ids=str,
)
def test_three_bumps_with_another_solver_or_seed(settings):
    X, y = make_three_bumps(80)
    X_test, y_test = make_three_bumps(200)
    warp = KernelFlowsWarp(BUMPS, **{"random_state": 0} | settings).fit(X, y)
    moved = warp.transform(X)
    assert ridge_error(moved, y, warp.transform(X_test), y_test) < 0.05
    assert warp.is_monotone_


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_cheesecake_is_separated_by_a_line(seed):
    X, y = make_swissroll_cheesecake(120)
    X_new, y_new = make_swissroll_cheesecake(500)
    warp = KernelFlowsWarp(
        rbf(lengthscale=0.5),
        objective=Rho(kind="l2", noise_variance=0.1),
        n_steps=400,
        random_state=seed,
    )
    line = make_pipeline(StandardScaler(), LogisticRegression(C=1e4, max_iter=1000))
    assert line.fit(X, y).score(X, y) < 0.6
    moved = warp.fit_transform(X, y)
    assert line.fit(moved, y).score(moved, y) == 1.0
    assert line.score(warp.transform(X_new), y_new) == 1.0
    assert warp.is_monotone_ is None


def test_original_scheme_lets_points_cross():
    X, y = make_three_bumps(80)
    warp = KernelFlowsWarp(
        BUMPS,
        objective="ratio",
        step="original",
        interpolation="original",
        n_steps=50,
        batch_size=64,
        random_state=0,
    ).fit(X, y)
    assert not warp.is_monotone_
    complete = clone(warp).set_params(interpolation="complete").fit(X, y)
    assert complete.is_monotone_


def test_objective_falls_and_each_step_is_kept():
    X, y = make_three_bumps(80)
    warp = KernelFlowsWarp(BUMPS, n_steps=60, random_state=0).fit(X, y)
    assert warp.rho_trace_.shape == (60,)
    assert warp.rho_trace_[-1] < 0.1 * warp.rho_trace_[0]
    assert warp.n_steps_ == 60
    np.testing.assert_allclose(warp.transform(X), warp.embedding_, rtol=1e-10)


def test_no_steps_leave_samples_where_they_are():
    X, y = wave(20)
    warp = KernelFlowsWarp(n_steps=0).fit(X, y)
    np.testing.assert_array_equal(warp.transform(X), X)
    assert warp.n_steps_ == 0
    assert warp.is_monotone_


@pytest.mark.parametrize("kind", [float, int])
def test_a_constant_target_moves_nothing_and_is_told(kind):
    X, _ = wave(20)
    with pytest.warns(UserWarning, match="has moved nothing"):
        warp = KernelFlowsWarp(n_steps=3).fit(X, np.ones(20, dtype=kind))
    np.testing.assert_array_equal(warp.embedding_, X)
    assert warp.n_steps_ == 0
    assert np.isnan(warp.rho_trace_).all()


def test_staged_transform_ends_where_transform_does():
    X, y = wave(30)
    warp = KernelFlowsWarp(n_steps=5, random_state=0).fit(X, y)
    stages = list(warp.staged_transform(X[:7]))
    assert len(stages) == 6
    np.testing.assert_array_equal(stages[0], X[:7])
    np.testing.assert_allclose(stages[-1], warp.transform(X[:7]), rtol=1e-12)


def test_fit_transform_is_fit_and_transform():
    X, y = wave(30)
    warp = KernelFlowsWarp(n_steps=5, random_state=0)
    both = warp.fit_transform(X, y)
    np.testing.assert_array_equal(both, clone(warp).fit(X, y).transform(X))


def test_same_random_state_same_result():
    X, y = blobs(30)
    settings = {"n_steps": 4, "batch_size": 10}
    first = KernelFlowsWarp(**settings, random_state=0).fit(X, y)
    same = KernelFlowsWarp(**settings, random_state=0).fit(X, y)
    other = KernelFlowsWarp(**settings, random_state=1).fit(X, y)
    np.testing.assert_array_equal(first.embedding_, same.embedding_)
    assert not np.allclose(first.embedding_, other.embedding_)


@pytest.mark.parametrize("solver", ["euler", "rk45"])
def test_pickle_keeps_the_way(solver):
    X, y = blobs(30)
    warp = KernelFlowsWarp(rbf(1.0), solver=solver, n_steps=3, random_state=0).fit(X, y)
    loaded = pickle.loads(pickle.dumps(warp))
    np.testing.assert_array_equal(loaded.transform(X), warp.transform(X))


def test_skops_trusts_what_a_warp_holds():
    sio = pytest.importorskip("skops.io")
    X, y = blobs(30)
    warp = KernelFlowsWarp(rbf(1.0), objective=Rho(), n_steps=3, random_state=0).fit(
        X, y
    )
    loaded = sio.loads(sio.dumps(warp), trusted=SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(loaded.transform(X), warp.transform(X))


def test_labels_are_a_column_for_each_class():
    X, labels = blobs(30, n_classes=3)
    named = np.array(["a", "b", "c"])[labels]
    columns = np.eye(3)[labels]
    warp = KernelFlowsWarp(n_steps=4, batch_size=30, random_state=0)
    of_labels = clone(warp).fit(X, labels).embedding_
    of_names = clone(warp).fit(X, named).embedding_
    np.testing.assert_allclose(of_labels, of_names, rtol=1e-6)
    assert not np.allclose(of_labels, clone(warp).fit(X, labels * 1.0).embedding_)
    assert clone(warp).fit(X, columns).embedding_.shape == (30, 2)


def test_labels_in_a_column_are_labels():
    X, y = blobs(30)
    flat = KernelFlowsWarp(rbf(1.0), n_steps=3, random_state=0).fit(X, y)
    with pytest.warns(DataConversionWarning):
        column = KernelFlowsWarp(rbf(1.0), n_steps=3, random_state=0).fit(X, y[:, None])
    np.testing.assert_array_equal(column.embedding_, flat.embedding_)


def test_units_of_targets_do_not_matter():
    X, _ = blobs(30)
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2])
    warp = KernelFlowsWarp(n_steps=4, random_state=0)
    one = clone(warp).fit(X, Y).embedding_
    two = clone(warp).fit(X, Y * [1e6, 1.0] + [0.0, 1e3]).embedding_
    np.testing.assert_allclose(one, two, rtol=1e-6)


def test_images_come_back_as_images():
    X, y = digits(40)
    kernel = convnet(depth=1, kernel_size=3)
    warp = KernelFlowsWarp(kernel, n_steps=3, random_state=0).fit(X, y)
    assert warp.image_shape_ == (1, 8, 8)
    moved = warp.transform(X)
    assert moved.shape == (40, 1, 8, 8)
    *_, last = warp.staged_transform(X)
    np.testing.assert_array_equal(last, moved)
    flat = clone(warp).set_params(image_shape=(1, 8, 8)).fit(X.reshape(40, 64), y)
    rows = moved.reshape(40, 64)
    np.testing.assert_array_equal(flat.transform(X.reshape(40, 64)), rows)
    frame = clone(warp).set_output(transform="pandas").fit(X, y).transform(X)
    np.testing.assert_array_equal(frame.to_numpy(), rows)
    gp = ConvNetGPClassifier(kernel)
    after = make_pipeline(clone(warp), gp).fit(X[..., :6], y)
    assert after[-1].image_shape_ == (1, 8, 6)
    assert warp.rho_trace_[-1] < warp.rho_trace_[0]
    # As they come, whatever the kernel makes of them.
    one = clone(warp).set_params(image_shape=None).fit(X, y).transform(X)
    assert one.shape == X.shape
    assert warp.transform(X[:, 0]).shape == (40, 8, 8)
    assert flat.transform(list(X)).shape == X.shape
    with pytest.raises(ValueError, match=r"\(1, 4, 16\).*\(1, 8, 8\)"):
        warp.transform(X.reshape(40, 1, 4, 16))


def test_settings_of_the_field_that_have_no_effect_are_told():
    X, y = digits(20)
    idle = convnet(depth=1, kernel_size=3, radius=5)
    warp = KernelFlowsWarp(field_kernel=idle, n_steps=1, random_state=0)
    with pytest.warns(UserWarning, match="`radius`=5 has no effect"):
        warp.fit(X, y)


def test_float32_is_moved_in_float64():
    X, y = blobs(30)
    warp = KernelFlowsWarp(n_steps=3, random_state=0).fit(X.astype(np.float32), y)
    moved = warp.transform(X.astype(np.float32))
    assert moved.dtype == np.float64
    np.testing.assert_allclose(moved, warp.transform(X), rtol=1e-4, atol=1e-5)


def test_names_of_features_stay():
    X, y = blobs(20)
    frame = pd.DataFrame(X, columns=["a", "b"])
    warp = KernelFlowsWarp(n_steps=2, random_state=0).set_output(transform="pandas")
    moved = warp.fit_transform(frame, y)
    assert list(moved.columns) == ["a", "b"]
    assert list(warp.get_feature_names_out()) == ["a", "b"]


def test_pipeline_in_a_grid_search():
    X, y = make_three_bumps(80, noise=0.1, random_state=0)
    order = np.random.default_rng(0).permutation(80)
    model = Pipeline(
        [
            ("warp", KernelFlowsWarp(BUMPS, random_state=0)),
            ("gp", ConvNetGPRegressor(BUMPS, noise_variance="evidence")),
        ]
    )
    grid = {"warp__n_steps": [0, 50], "warp__kernel__lengthscale": [2.0, 4.0]}
    search = GridSearchCV(model, grid, cv=2).fit(X[order], y[order])
    assert search.best_params_["warp__n_steps"] == 50
    assert search.best_score_ > 0.9


def test_field_kernel_and_objective_are_nested():
    warp = KernelFlowsWarp(
        rbf(1.0), field_kernel=rbf(2.0), objective=Rho(noise_variance=1e-3)
    )
    warp.set_params(field_kernel__lengthscale=3.0, objective__sample_fraction=0.25)
    assert warp.field_kernel.lengthscale == 3.0
    assert warp.objective.sample_fraction == 0.25


def test_verbose_shows_progress(capsys):
    X, y = wave(20)
    KernelFlowsWarp(n_steps=2, verbose=1).fit(X, y)
    assert "fit: 100%" in capsys.readouterr().err


def test_transform_needs_a_fit():
    with pytest.raises(NotFittedError):
        KernelFlowsWarp().transform([[0.0]])
    with pytest.raises(NotFittedError):
        next(KernelFlowsWarp().staged_transform([[0.0]]))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("kernel", "precomputed", "None or a kernel"),
        ("field_kernel", rbf, "None or a kernel"),
        ("solver", "rk4", "'euler' or 'rk45'"),
        ("n_steps", -1, "an int >= 0"),
        ("n_steps", 2.5, "an int >= 0"),
        ("step_size", 0.0, "a finite number > 0"),
        ("step", "relative", "'spread' or 'original'"),
        ("batch_size", 21, "2 to the number of samples, 20"),
        ("batch_size", 1, "2 to the number of samples, 20"),
        ("batch_size", "all", "'auto' or an int"),
        ("objective", 3, "None, a kind of skconvgp.flows.Rho or an objective"),
        ("objective", Rho, "None, a kind of skconvgp.flows.Rho or an objective"),
        ("objective", Rho(noise_variance=1e-6), "noise_variance >= 1e-05"),
        ("field_noise", -1.0, "a finite number > 0"),
        ("interpolation", "none", "'complete' or 'original'"),
        ("verbose", -1, "an int >= 0"),
    ],
)
def test_wrong_settings_are_named(name, value, expected):
    X, y = wave(20)
    pattern = f"The '{name}' parameter of KernelFlowsWarp must be .*{expected}"
    with pytest.raises(ValueError, match=pattern):
        KernelFlowsWarp(**{name: value}).fit(X, y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sample_fraction", 0.0),
        ("sample_fraction", 1.0),
        ("sample_fraction", -0.5),
        ("noise_variance", "loo"),
        ("kind", "rho"),
    ],
)
def test_wrong_settings_of_the_objective_are_named(name, value):
    X, y = wave(20)
    with pytest.raises(ValueError, match=f"'{name}' parameter of Rho"):
        KernelFlowsWarp(objective=Rho(**{name: value})).fit(X, y)


def test_objective_may_be_a_word():
    X, y = wave(30)
    warp = KernelFlowsWarp(n_steps=4, random_state=0)
    word, part, usual = (
        clone(warp).set_params(objective=objective).fit(X, y).embedding_
        for objective in ("ratio", Rho("ratio", noise_variance=1e-5), None)
    )
    np.testing.assert_array_equal(word, part)
    assert not np.allclose(word, usual)


def test_a_batch_too_small_for_the_classes_is_told():
    X, y = digits(60)
    with pytest.raises(ValueError, match="no room for 10 classes"):
        KernelFlowsWarp(rbf(3.0), batch_size=9, n_steps=1).fit(X, y)


def test_original_interpolation_is_of_euler_only():
    X, y = wave(20)
    warp = KernelFlowsWarp(interpolation="original", solver="rk45")
    with pytest.raises(ValueError, match="'euler' with interpolation='original'"):
        warp.fit(X, y)
