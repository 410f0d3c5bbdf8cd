"""Prior means: what another regressor predicts, or a linear function."""

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skconvgp import (
    BayesianNetworkRegressor,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    NystromCompletedGPRegressor,
    flows,
    gram_matrix,
    selection_report,
)
from skconvgp.augmentation import Flip
from skconvgp.completion import (
    CoarseKernel,
    NearestNeighbors,
    Nystrom,
    RandomFeatures,
    SubsetOfData,
)
from skconvgp.kernels import dot_product, rbf
from skconvgp.questions import (
    attribution,
    audit,
    novelty,
    prediction_interval,
    query,
    representer_points,
)
from skconvgp.solvers import ConjugateGradient
from tests.helpers.estimators import digits, tiny_network
from tests.helpers.public import CASES

AMPLITUDE, NOISE = 1.3, 0.05
PLAIN = {"amplitude": AMPLITUDE, "noise_variance": NOISE, "normalize_y": False}


def rising(n=30, d=1, seed=0):
    """Return inputs, targets around a linear function, and new inputs beyond."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (n, d))
    y = 4.0 + X @ np.arange(1.0, d + 1.0) + np.sin(2.0 * X).sum(1)
    new = rng.uniform(-3.0, 12.0, (6, d))
    return X, y + 0.2 * rng.normal(size=n), new


class Flat:
    """Rasmussen and Williams, 2006, section 2.7, by dense algebra."""

    def __init__(self, X, y, new, *, noise, amplitude=AMPLITUDE, kernel=None):
        kernel = rbf(1.0) if kernel is None else kernel
        every, n = np.vstack([X, new]), len(X)
        gram = gram_matrix(kernel, every)
        self.gram, self.a = amplitude * gram, amplitude
        self.noise = np.broadcast_to(noise, n)
        self.matrix = self.gram[:n, :n] + np.diag(self.noise)
        self.h = np.column_stack([np.ones(len(every)), every])
        self.X, self.y, self.n, self.m = X, y, n, self.h.shape[1]
        inverse, h = np.linalg.inv(self.matrix), self.h[:n]
        self.precision = h.T @ inverse @ h
        self.beta = np.linalg.solve(self.precision, h.T @ inverse @ y)
        self.projected = inverse - inverse @ h @ np.linalg.solve(
            self.precision, h.T @ inverse
        )

    def predict(self):
        """Equations 2.41 and 2.42."""
        cross, h = self.gram[self.n :, : self.n], self.h[: self.n]
        solved = np.linalg.solve(self.matrix, cross.T)
        residual = self.h[self.n :] - solved.T @ h
        mean = self.h[self.n :] @ self.beta + solved.T @ (self.y - h @ self.beta)
        cov = self.gram[self.n :, self.n :] - cross @ solved
        return mean, cov + residual @ np.linalg.solve(self.precision, residual.T)

    def evidence(self):
        """Equation 2.45."""
        logdet = (
            np.linalg.slogdet(self.matrix)[1] + np.linalg.slogdet(self.precision)[1]
        )
        quadratic = self.y @ self.projected @ self.y
        return -0.5 * (quadratic + logdet + (self.n - self.m) * np.log(2.0 * np.pi))

    def left_out(self, i, members):
        """Refit without the members, and predict the function at sample i."""
        rest = np.setdiff1d(np.arange(self.n), members)
        amplitude = self.a
        other = Flat(
            self.X[rest],
            self.y[rest],
            self.X[[i]],
            noise=self.noise[rest],
            amplitude=amplitude,
        )
        mean, cov = other.predict()
        return mean[0], cov[0, 0]


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("solver", ["cholesky", ConjugateGradient(tolerance=1e-13)])
def test_a_linear_mean_is_that_of_rasmussen_and_williams(d, solver):
    X, y, new = rising(d=d)
    gp = ConvNetGPRegressor(rbf(1.0), mean="linear", solver=solver, **PLAIN).fit(X, y)
    exact = Flat(X, y, new, noise=AMPLITUDE * NOISE)
    mean, cov = exact.predict()
    np.testing.assert_allclose(gp.predict(new), mean, rtol=1e-9)
    np.testing.assert_allclose(
        gp.predict(new, return_std=True)[1] ** 2, cov.diagonal(), rtol=1e-9
    )
    np.testing.assert_allclose(
        gp.predict(new, return_cov=True)[1], cov, rtol=1e-9, atol=1e-10
    )
    rtol = 1e-9 if solver == "cholesky" else 1e-2  # of an estimate of a determinant
    np.testing.assert_allclose(
        gp.log_marginal_likelihood(), exact.evidence(), rtol=rtol
    )


def test_it_is_the_limit_of_a_wide_linear_kernel():
    X, y, new = rising(d=2)
    gp = ConvNetGPRegressor(rbf(1.0), mean="linear", **PLAIN).fit(X, y)
    kernel = AMPLITUDE * rbf(1.0) + 1e6 * dot_product()
    unit = np.diag(gram_matrix(kernel, X)).mean()
    both = ConvNetGPRegressor(
        kernel,
        noise_variance=AMPLITUDE * NOISE / unit,
        amplitude=None,
        normalize_y=False,
    )
    both.fit(X, y)
    for one, other in zip(
        [*gp.predict(new, return_std=True), *gp.loo_predict(return_std=True)],
        [*both.predict(new, return_std=True), *both.loo_predict(return_std=True)],
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def check_left_out(gp, exact, own_noise):
    mean, std = gp.loo_predict(return_std=True)
    for i in range(exact.n):
        members = np.flatnonzero((exact.X[i] == exact.X).all(1))
        if len(np.unique(exact.X, axis=0)) < 10:
            members = [i]
        expected, var = exact.left_out(i, members)
        np.testing.assert_allclose(mean[i], expected, rtol=1e-9)
        np.testing.assert_allclose(std[i] ** 2, var + own_noise[i], rtol=1e-9)


@pytest.mark.parametrize("kind", ["alone", "copies", "few", "known noise", "both"])
def test_left_out_predictions_are_those_of_refits(kind):
    X, y, new = rising(12 if kind == "few" else 30)
    if kind in ("copies", "few", "both"):
        X[5:8], X[9] = X[0], X[1]
    noise = np.full(len(y), AMPLITUDE * NOISE)
    if kind in ("known noise", "both"):
        noise = np.linspace(0.01, 0.4, len(y))
    gp = ConvNetGPRegressor(rbf(1.0), mean="linear", **PLAIN)
    if kind in ("known noise", "both"):
        gp.set_params(noise_variance=noise)
    check_left_out(gp.fit(X, y), Flat(X, y, new, noise=noise), noise)


def test_a_subset_has_a_mean_of_its_own():
    X, y, new = rising()
    gp = ConvNetGPRegressor(
        rbf(1.0),
        mean="linear",
        completion=SubsetOfData(),
        observed_fraction=0.4,
        **PLAIN,
    )
    gp.fit(X, y)
    kept = gp._training.kept
    assert 5 < len(kept) < 30
    exact = Flat(X[kept], y[kept], new, noise=AMPLITUDE * NOISE)
    np.testing.assert_allclose(gp.predict(new), exact.predict()[0], rtol=1e-9)


def test_a_weight_is_that_of_as_many_equal_samples():
    X, y, new = rising()
    weights = 1 + np.arange(30) % 3
    gp = ConvNetGPRegressor(rbf(1.0), mean="linear", amplitude=AMPLITUDE)
    gp.set_params(noise_variance=NOISE).fit(X, y, sample_weight=weights)
    each = clone(gp).fit(np.repeat(X, weights, 0), np.repeat(y, weights))
    for one, other in zip(
        gp.predict(new, return_std=True),
        each.predict(new, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    np.testing.assert_allclose(
        gp.log_marginal_likelihood(), each.log_marginal_likelihood(), rtol=1e-9
    )


def test_units_of_targets_do_not_matter():
    X, y, new = rising(d=2)
    settings = {"mean": "linear", "noise_variance": NOISE}
    one = ConvNetGPRegressor(rbf(1.0), normalize_y=False, **settings).fit(X, y)
    gp = ConvNetGPRegressor(rbf(1.0), **settings).fit(X, y)
    for name in ("predict", "predict_interval"):
        np.testing.assert_allclose(
            getattr(gp, name)(new), getattr(one, name)(new), rtol=1e-9
        )
    assert gp.amplitude_ == pytest.approx(one.amplitude_, rel=1e-9)
    np.testing.assert_allclose(
        gp.log_marginal_likelihood(), one.log_marginal_likelihood(), rtol=1e-9
    )


def test_the_profiled_amplitude_has_the_largest_evidence():
    X, y, new = rising()
    gp = ConvNetGPRegressor(
        rbf(1.0), mean="linear", noise_variance=NOISE, normalize_y=False
    )
    gp.fit(X, y)
    best, found = gp.amplitude_, gp.log_marginal_likelihood()
    evidences = [
        Flat(X, y, new, noise=a * NOISE, amplitude=a).evidence()
        for a in (best, 1.01 * best, best / 1.01)
    ]
    assert found == pytest.approx(evidences[0], rel=1e-9)
    assert evidences[0] > max(evidences[1:])


def test_several_outputs_are_each_alone():
    X, y, new = rising()
    both = np.stack([y, np.cos(X[:, 0]) - 2.0 * X[:, 0]], 1)
    gp = ConvNetGPRegressor(rbf(1.0), mean="linear", **PLAIN).fit(X, both)
    for i in range(2):
        one = clone(gp).fit(X, both[:, i])
        np.testing.assert_allclose(gp.predict(new)[:, i], one.predict(new), rtol=1e-9)
        np.testing.assert_allclose(gp.loo_predict()[:, i], one.loo_predict(), rtol=1e-9)


def test_features_that_say_nothing_new_do_not_matter():
    X, y, new = rising(d=2)
    more = [np.column_stack([x, x[:, 0] - x[:, 1], np.ones(len(x))]) for x in (X, new)]
    gp = ConvNetGPRegressor(rbf(1.0), mean="linear", **PLAIN)
    kernel = rbf(1.0).on([0, 1])
    found = clone(gp).set_params(kernel=kernel).fit(more[0], y).predict(more[1])
    np.testing.assert_allclose(found, gp.fit(X, y).predict(new), rtol=1e-8)


def test_a_linear_mean_goes_on_where_data_end():
    X, y, _ = rising()
    gp = ConvNetGPRegressor(rbf(1.0), mean="linear").fit(X, y)
    far, std = gp.predict([[30.0], [60.0]], return_std=True)
    assert far[0] == pytest.approx(34.0, abs=6.0)
    assert std[1] > std[0] > gp.predict([[3.0]], return_std=True)[1][0]


def test_joint_draws_have_mean_and_covariance():
    X, y, new = rising()
    gp = ConvNetGPRegressor(rbf(1.0), mean="linear", **PLAIN).fit(X, y)
    mean, cov = gp.predict(new, return_cov=True)
    draws = gp.sample_y(new, 20000, random_state=0)
    size = np.sqrt(cov.diagonal())
    np.testing.assert_allclose(draws.mean(1), mean, atol=0.05 * size.max())
    np.testing.assert_allclose(
        np.cov(draws) / np.outer(size, size), cov / np.outer(size, size), atol=0.05
    )


def test_kernel_flows_have_a_linear_mean():
    X, y, new = rising()
    gp = KernelFlowsRegressor(rbf(1.0), optimizer=flows.Adam(max_iter=2), mean="linear")
    gp.set_params(noise_variance=NOISE, random_state=0, batch_size=20).fit(X, y)
    exact = ConvNetGPRegressor(gp.kernel_, mean="linear", noise_variance=NOISE)
    np.testing.assert_allclose(gp.predict(new), exact.fit(X, y).predict(new), rtol=1e-9)


def test_a_kernel_is_learned_around_a_linear_mean():
    X, y, new = rising(40)
    gp = ConvNetGPRegressor(rbf(3.0), optimizer="evidence", mean="linear").fit(X, y)
    assert 0.3 < gp.kernel_.lengthscale < 2.0
    assert np.isfinite(gp.predict(new)).all()


def folds_of(units):
    return GroupKFold(min(5, len(np.unique(units)))).split(units, groups=units)


def cross_fitted(mean, X, y, units=None, weights=None):
    """Return what a regressor predicts of each sample, from other folds."""
    found = np.empty(y.shape)
    for train, test in folds_of(np.arange(len(X)) if units is None else units):
        more = {} if weights is None else {"sample_weight": weights[train]}
        found[test] = clone(mean).fit(X[train], y[train], **more).predict(X[test])
    return found


@pytest.mark.parametrize(
    "mean",
    [
        LinearRegression(),
        make_pipeline(StandardScaler(), Ridge(0.1)),
        RandomForestRegressor(10, random_state=0),
    ],
)
@pytest.mark.parametrize("completion", [None, NearestNeighbors(8), RandomFeatures(50)])
def test_the_process_learns_what_a_regressor_leaves(mean, completion):
    X, y, new = rising()
    settings = {"completion": completion, "random_state": 0}
    gp = ConvNetGPRegressor(rbf(1.0), mean=mean, **settings).fit(X, y)
    left_out, fitted = cross_fitted(mean, X, y), clone(mean).fit(X, y)
    own, whole = y - fitted.predict(X), fitted.predict(new)
    rest = ConvNetGPRegressor(rbf(1.0), **settings).fit(X, own)
    factor = np.sqrt(np.mean((y - left_out) ** 2) / np.mean(own**2))
    assert factor > 1.0
    np.testing.assert_allclose(gp.predict(new), rest.predict(new) + whole, rtol=1e-9)
    interval, other = gp.predict_interval(new), rest.predict_interval(new)
    np.testing.assert_allclose(interval.mean(1), other.mean(1) + whole)
    np.testing.assert_allclose(np.ptp(interval, axis=1), factor * np.ptp(other, axis=1))
    np.testing.assert_allclose(
        gp.loo_predict(), rest.loo_predict() + left_out, rtol=1e-9
    )
    for option in ("predict", "loo_predict"):
        given = (new,) if option == "predict" else ()
        found, expected = (
            getattr(one, option)(*given, return_std=True)[1] for one in (gp, rest)
        )
        # The factor of deviations has a prior that is worth one of the 30 samples.
        np.testing.assert_allclose(found, factor * expected, rtol=factor / 30)
    assert gp.log_marginal_likelihood() == pytest.approx(
        rest.log_marginal_likelihood(), rel=1e-9
    )
    if not isinstance(completion, NearestNeighbors):
        draws, others = (one.sample_y(new, 3, random_state=0) for one in (gp, rest))
        away = draws - gp.predict(new)[:, None]
        of_rest = others - rest.predict(new)[:, None]
        ratio = gp.predict(new, return_std=True)[1] / rest.predict(new, True)[1]
        np.testing.assert_allclose(away, ratio[:, None] * of_rest, rtol=1e-6)
    assert not hasattr(mean, "n_features_in_")  # a copy was fitted
    np.testing.assert_allclose(gp.mean_.predict(new), whole)


def test_copies_and_groups_are_in_one_fold():
    X, y, _ = rising()
    X[5:8], X[9] = X[0], X[1]
    mean = KNeighborsRegressor(2)  # which copies would tell everything
    gp = ConvNetGPRegressor(rbf(1.0), mean=mean, noise_variance=NOISE).fit(X, y)
    first = np.array([np.flatnonzero((x == X).all(1))[0] for x in X])
    units = np.unique(first, return_inverse=True)[1]
    np.testing.assert_allclose(
        gp._training.left_out_offsets[:, 0], cross_fitted(mean, X, y, units)
    )
    X, y, _ = rising()
    groups = np.arange(30) // 5
    gp.fit(X, y, groups=groups)
    expected = cross_fitted(mean, X, y, groups)
    np.testing.assert_allclose(gp._training.left_out_offsets[:, 0], expected)


def test_predictions_return_to_the_targets_of_training_samples():
    X, y, _ = rising(60)
    for mean in (LinearRegression(), RandomForestRegressor(10, random_state=0)):
        gp = ConvNetGPRegressor(rbf(0.5), mean=mean, noise_variance=1e-3).fit(X, y)
        low, high = gp.predict_interval(X, level=0.9).T
        assert np.mean((low <= y) & (y <= high)) > 0.9


@pytest.mark.parametrize("noise", ["auto", 0.05])
def test_intervals_cover_with_a_flexible_mean(noise):
    covered = []
    for seed in range(4):
        X, y, _ = rising(300, d=2, seed=seed)
        mean = RandomForestRegressor(20, random_state=0)
        gp = ConvNetGPRegressor(rbf(1.0), mean=mean, noise_variance=noise)
        low, high = gp.fit(X[:60], y[:60]).predict_interval(X[60:], level=0.9).T
        covered.append(np.mean((low <= y[60:]) & (y[60:] <= high)))
    assert 0.85 < np.mean(covered) < 0.99


def test_a_mean_that_knows_its_samples_by_heart_is_refused():
    X, y, _ = rising()
    gp = ConvNetGPRegressor(rbf(1.0), mean=KNeighborsRegressor(1))
    with pytest.raises(ValueError, match=r"10 times better than others.*limit it"):
        gp.fit(X, y)


class Unused(DummyRegressor):
    """A regressor that must not be fitted."""

    def fit(self, X, y):
        raise AssertionError("fitted")


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise_variance": np.ones(3)},
        {"noise_variance": -1.0},
        {"amplitude": "large"},
        {"solver": "fast"},
        {"completion": "nystrom"},
        {"completion": Nystrom(), "solver": ConjugateGradient()},
        {"optimizer": "fast"},
        {"optimizer": "loo", "noise_variance": np.ones(30)},
        {"augment": Flip()},
        {"observed_fraction": 2.0},
        {"backend": "fast"},
        {"dtype": "half"},
        {"solve_dtype": "half"},
        {"memory_budget": "all"},
        {"n_jobs": 0},
        {"verbose": "loud"},
    ],
    ids=str,
)
def test_wrong_settings_are_errors_before_the_mean_is_fitted(wrong):
    X, y, _ = rising()
    gp = ConvNetGPRegressor(rbf(1.0), mean=Unused(), **wrong)
    with pytest.raises(ValueError, match=r"|".join(wrong)) as caught:
        gp.fit(X, y)
    with pytest.raises(ValueError, match=r"|".join(wrong)) as alone:
        gp.set_params(mean=None).fit(X, y)
    assert str(caught.value) == str(alone.value)


def test_what_is_right_after_a_mean_is_not_refused_before_it():
    X, y, _ = rising()
    settings = {"normalize_y": False, "solve_dtype": "float32", "noise_variance": NOISE}
    mean = DummyRegressor(strategy="constant", constant=1e14)
    with pytest.raises(ValueError, match="have sizes up to"):
        ConvNetGPRegressor(rbf(1.0), **settings).fit(X, y + 1e14)
    gp = ConvNetGPRegressor(rbf(1.0), mean=mean, **settings).fit(X, y + 1e14)
    assert np.abs(gp.loo_predict() - 1e14).max() < 100.0


def test_random_numbers_are_drawn_once():
    X, y, new = rising()
    settings = {"completion": RandomFeatures(20), "noise_variance": NOISE}
    mean = DummyRegressor(strategy="constant", constant=0.0)
    found = [
        ConvNetGPRegressor(rbf(1.0), random_state=np.random.RandomState(3), **settings)
        .set_params(mean=one)
        .fit(X, y)
        .predict(new)
        for one in (None, mean)
    ]
    np.testing.assert_array_equal(*found)


def test_a_plan_says_what_it_leaves_out():
    X, y, _ = rising()
    mean = Ridge(2.0)
    plan = ConvNetGPRegressor(rbf(1.0), mean=mean).plan(X, y)
    assert plan.beside.startswith("up to 6 fits of Ridge(alpha=2.0)")
    assert plan.beside in str(plan)
    assert plan.as_dict()["beside"] == plan.beside
    assert not hasattr(mean, "n_features_in_")
    for other in (None, "linear"):
        plan = ConvNetGPRegressor(rbf(1.0), mean=other).plan(X, y)
        assert not plan.beside
        assert "beside" not in str(plan)


@pytest.mark.parametrize(
    "call",
    [
        lambda gp, X: gp.predict(X),
        lambda gp, X: gp.predict(X, return_std=True),
        lambda gp, X: gp.sample_y(X, random_state=0),
        lambda gp, X: gp.predict_interval(X),
        prediction_interval,
    ],
    ids=["predict", "std", "draws", "interval", "question"],
)
def test_warnings_about_new_samples_are_given_once(call):
    X, y, new = rising(d=4)
    gp = ConvNetGPRegressor(rbf(1.0), mean=LinearRegression())
    gp.fit(pd.DataFrame(X, columns=list("abcd")), y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(gp, 1e4 * new)
    told = [str(one.message) for one in caught]
    assert len(told) == 1, told
    assert "feature names" in told[0]


def test_a_regressor_is_fitted_with_weights():
    X, y, new = rising()
    weights = 1.0 + np.arange(30) % 3
    weights[4] = 0.0
    kept = weights > 0.0
    gp = ConvNetGPRegressor(rbf(1.0), mean=LinearRegression()).fit(X, y, weights)
    left_out = cross_fitted(LinearRegression(), X[kept], y[kept], None, weights[kept])
    np.testing.assert_allclose(gp._training.left_out_offsets[:, 0], left_out)
    whole = LinearRegression().fit(X[kept], y[kept], weights[kept])
    np.testing.assert_allclose(gp.mean_.predict(new), whole.predict(new))


def test_it_goes_with_known_noise_and_several_outputs():
    X, y, new = rising()
    both, variances = np.stack([y, -y], 1), np.linspace(0.01, 0.2, 30)
    gp = ConvNetGPRegressor(rbf(1.0), mean=LinearRegression(), noise_variance=variances)
    found = gp.fit(X, both).predict(new)
    np.testing.assert_allclose(found[:, 1], -found[:, 0], rtol=1e-9)
    assert gp.loo_predict().shape == (30, 2)


def test_further_samples_are_less_what_the_regressor_predicts():
    X, y, new = rising(60)
    gp = NystromCompletedGPRegressor(rbf(1.0), n_landmarks=12, noise_variance=NOISE)
    gp.set_params(mean=LinearRegression(), random_state=0)
    gp.partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    mean = LinearRegression().fit(X[:30], y[:30])
    offsets = mean.predict(X)
    left_out = np.r_[cross_fitted(mean, X[:30], y[:30]), offsets[30:]]
    rest = clone(gp).set_params(mean=None)
    rest.partial_fit(X[:30], (y - offsets)[:30]).partial_fit(X[30:], (y - offsets)[30:])
    expected = rest.predict(new) + mean.predict(new)
    np.testing.assert_allclose(gp.predict(new), expected, rtol=1e-9)
    np.testing.assert_allclose(gp.loo_predict(), rest.loo_predict() + left_out)


def test_conformal_intervals_move_with_the_regressor():
    X, y, new = rising()
    gp = ConvNetGPRegressor(rbf(1.0), mean=LinearRegression()).fit(X, y)
    rest = ConvNetGPRegressor(rbf(1.0)).fit(X, y - gp.mean_.predict(X))
    whole = LinearRegression().fit(X, y).predict(new)
    np.testing.assert_allclose(
        prediction_interval(gp, new, 0.8),
        prediction_interval(rest, new, 0.8) + whole[:, None],
        rtol=1e-9,
    )


def test_what_looks_at_targets_sees_them_whole():
    X, y, _ = rising(40)
    y[7] += 30.0
    gp = ConvNetGPRegressor(rbf(1.0), mean=LinearRegression(), noise_variance=0.1)
    gp.fit(X, y)
    assert audit(gp).wrong_labels.index[0] == 7 or 7 in np.asarray(
        audit(gp).wrong_labels
    )
    report = selection_report({"one": gp}, X, y, n_batches=1)
    assert np.isfinite(np.asarray(report.values)).any()


@pytest.mark.parametrize("mean", ["linear", LinearRegression()])
def test_questions_are_answered_rightly_or_refused(mean):
    X, y, new = rising()
    gp = ConvNetGPRegressor(rbf(1.0), mean=mean).fit(X, y)
    with pytest.raises(ValueError, match=r"cannot answer|mean='linear'|mean=Linear"):
        gp.latent_gradient(new)
    with pytest.raises(ValueError, match="method='occlusion'"):
        attribution(gp, new)
    occluded = attribution(gp, new, method="occlusion", window=1)
    zeros = gp.predict(new) - gp.predict(np.zeros_like(new))
    np.testing.assert_allclose(occluded.ravel(), zeros, rtol=1e-9)
    values = representer_points(gp, new, n_points=30)[1].sum((1, 2))
    expected = gram_matrix(gp.kernel_, new, X) @ gp.dual_coef_
    np.testing.assert_allclose(values, expected[:, 0], rtol=1e-6, atol=1e-9)
    if mean == "linear":
        for question in (prediction_interval, novelty, partial(query, n=2)):
            with pytest.raises(ValueError, match=r"integrated out.*LinearRegression"):
                question(gp, new)
        with pytest.raises(ValueError, match="pathwise"):
            gp.sample_y(new, method="pathwise")


@pytest.mark.parametrize("mean", ["linear", LinearRegression()])
def test_fits_are_copied_and_pickled(mean):
    X, y, new = rising()
    gp = ConvNetGPRegressor(rbf(1.0), mean=mean).fit(X, y)
    again = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(again.predict(new), gp.predict(new))
    assert repr(clone(gp)) == repr(gp)
    assert gp.plan(X, y).stages
    scores = cross_val_score(gp, X, y, cv=3)
    assert scores.mean() > 0.8
    gp.set_params(mean=None).fit(X, y)
    plain = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    np.testing.assert_array_equal(gp.predict(new), plain.predict(new))
    assert not hasattr(gp, "mean_")


def test_settings_of_the_regressor_are_nested():
    gp = ConvNetGPRegressor(rbf(1.0), mean=Ridge())
    assert gp.set_params(mean__alpha=3.0).mean.alpha == 3.0


@pytest.mark.parametrize(
    "wrong", ["quadratic", LinearRegression, ConvNetGPClassifier(), 1.0, np.ones(3)]
)
def test_wrong_means_are_refused(wrong):
    X, y, _ = rising()
    gp = ConvNetGPRegressor(rbf(1.0), mean=wrong)
    with pytest.raises(ValueError, match="'mean' parameter of ConvNetGPRegressor"):
        gp.fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"completion": Nystrom()}, r"use mean=LinearRegression\(\)"),
        ({"completion": NearestNeighbors(5)}, r"use mean=LinearRegression\(\)"),
        ({"augment": Flip()}, "one row for each image"),
        ({"completion": CoarseKernel(exact=Nystrom())}, "the Gram matrix of all"),
    ],
)
def test_a_linear_mean_needs_solutions(settings, message):
    X, y, _ = rising()
    gp = ConvNetGPRegressor(rbf(1.0), mean="linear", **settings)
    with pytest.raises(ValueError, match=message):
        gp.fit(X, y)


def test_bad_samples_are_refused():
    X, y, _ = rising()
    linear = ConvNetGPRegressor(rbf(1.0), mean="linear")
    with pytest.raises(ValueError, match="leaves out single samples"):
        linear.fit(X, y, groups=np.arange(30) // 2)
    images, labels = digits(12)
    with pytest.raises(ValueError, match=r"12 coefficients.*12 different"):
        linear.fit(images, labels)
    equal = np.ones_like(X)
    with pytest.raises(ValueError, match=r"1 coefficients.*1 different"):
        linear.fit(equal, y)
    mean = ConvNetGPRegressor(rbf(1.0), mean=LinearRegression())
    with pytest.raises(ValueError, match="all inputs are equal"):
        mean.fit(equal, y)
    neighbors = clone(mean).set_params(mean=KNeighborsRegressor())
    with pytest.raises(ValueError, match="takes no `sample_weight`"):
        neighbors.fit(X, y, sample_weight=1.0 + np.arange(30))
    for gp in (linear, mean):
        with pytest.raises(ValueError, match="kernel='precomputed'"):
            clone(gp).set_params(kernel="precomputed").fit(np.eye(30), y)


class Broken(DummyRegressor):
    """A regressor that predicts no numbers."""

    def predict(self, X):
        return np.full(len(X), np.nan)


def test_a_regressor_that_predicts_no_numbers_is_named():
    X, y, _ = rising()
    gp = ConvNetGPRegressor(rbf(1.0), mean=Broken())
    with pytest.raises(ValueError, match=r"Broken\(\).*not finite"):
        gp.fit(X, y)


REGRESSORS = {
    type(case.estimator): case
    for case in reversed(CASES)
    if is_regressor(case.estimator)
    and not isinstance(case.estimator, BayesianNetworkRegressor)
}


@pytest.mark.parametrize("case", REGRESSORS.values(), ids=lambda case: case.name)
def test_each_regressor_has_a_mean(case):
    X, y, new = case.data()
    mean = DummyRegressor(strategy="constant", constant=100.0)
    plain = case.new(normalize_y=False).fit(X, y - 100.0)
    gp = case.new(normalize_y=False, mean=mean).fit(X, y)
    np.testing.assert_allclose(gp.predict(new), plain.predict(new) + 100.0, rtol=1e-6)
    np.testing.assert_allclose(gp.loo_predict(), plain.loo_predict() + 100.0, rtol=1e-6)


@pytest.mark.parametrize("case", REGRESSORS.values(), ids=lambda case: case.name)
def test_each_regressor_checks_its_settings_before_a_mean_is_fitted(case):
    X, y, _ = case.data()
    gp = case.new(mean=Unused(), amplitude="large")
    for name in ("fit", "partial_fit"):
        if hasattr(gp, name):
            with pytest.raises(ValueError, match="'amplitude' parameter"):
                getattr(gp, name)(X, y)


@pytest.mark.parametrize("case", REGRESSORS.values(), ids=lambda case: case.name)
def test_each_regressor_has_a_linear_mean_or_names_the_remedy(case):
    X, y, new = case.data()
    X, new = X[..., 3:5, 3:5], new[..., 3:5, 3:5]
    refusal, gp = "", case.new(mean="linear")
    if "kernel" in gp.get_params(deep=False):
        gp.set_params(kernel=rbf(2.0))
    try:
        gp.fit(X, y)
    except ValueError as error:
        refusal = str(error)
    if refusal:
        assert "use mean=LinearRegression() of scikit-learn" in refusal
        return
    assert np.isfinite(gp.predict(new)).all()


def test_a_network_of_images_has_a_mean():
    X, labels = digits(30)
    gp = ConvNetGPRegressor(tiny_network(), mean=Ridge()).fit(X, labels.astype(float))
    assert np.isfinite(gp.predict(X[:3])).all()
