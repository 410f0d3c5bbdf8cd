"""Estimators whose Gram matrix is completed, or has less in its place."""

import math
import pickle
import re
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsClassifier,
    gram_diag,
    gram_matrix,
)
from skconvgp._protocols import CompletedGram
from skconvgp.completion import (
    CoarseKernel,
    EnsembleNystrom,
    IterativeSVD,
    MatrixFactorization,
    Nystrom,
    SoftImpute,
    SubsetOfData,
)
from skconvgp.engine import KernelOracle
from skconvgp.exceptions import CompletionError, TileMemoryError
from skconvgp.flows import Adam
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Flatten,
    ReLU,
    Sequential,
    convnet,
    rbf,
    resnet32,
)
from skconvgp.solvers import Cholesky, Lsqr
from tests.helpers.dense_gp import refit_without_sample
from tests.helpers.deviations import plain, plain_cov
from tests.helpers.estimators import (
    DensePosterior,
    blobs,
    digits,
    label_probabilities,
    label_targets,
    tiny_network,
    wave,
)
from tests.helpers.tolerances import assert_close

CLASSES = [ConvNetGPClassifier, ConvNetGPRegressor]
every_class = pytest.mark.parametrize("cls", CLASSES)
EXACT = {"dtype": "float64", "random_state": 0}  # on any machine
KERNEL = rbf(0.7)
N, M = 40, 15


def points(n=N, n_new=9, seed=0):
    """Return points, smooth targets of mean 0, weights and new points."""
    generator = np.random.default_rng(seed)
    X, weights = generator.normal(size=(n, 2)), generator.uniform(0.3, 3.0, n)
    y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1]
    y -= np.average(y, weights=weights)
    return X, y, weights, generator.normal(size=(n_new, 2))


def regressor(**settings):
    settings = {"completion": Nystrom(M), "normalize_y": False} | EXACT | settings
    return ConvNetGPRegressor(KERNEL, **settings)


def covariances(X, Y=None, kernel=KERNEL):
    return gram_matrix(kernel, X, Y, dtype="float64")


class DenseDtc:
    """A completed model by the textbook formulas, from its landmarks."""

    def __init__(self, gp, X, targets, weights, kernel=KERNEL):
        self.X, self.kernel = X, kernel
        self.chosen = gp.landmark_indices_
        self.square = np.linalg.inv(covariances(X[self.chosen], kernel=kernel))
        diag = gram_diag(kernel, X, dtype="float64")
        self.gram = self.completed(X, X)
        self.mean_diag = np.average(diag, weights=weights)
        self.rest = (diag - np.diag(self.gram)) / self.mean_diag
        self.posterior = DensePosterior(
            self.gram,
            targets,
            gp.noise_variance_,
            weights,
            mean_diag=self.mean_diag,
        )

    def completed(self, X, Y):
        one = covariances(X, self.X[self.chosen], self.kernel)
        two = covariances(Y, self.X[self.chosen], self.kernel)
        return one @ self.square @ two.T

    def mean(self, X):
        return self.posterior.mean(self.completed(X, self.X))

    def cov(self, X):
        prior = covariances(X, kernel=self.kernel)
        return self.posterior.cov(self.completed(X, self.X), prior)

    def left_out(self, i):
        """Return mean and variance of target i when its sample is left out."""
        gram, post = self.gram / self.mean_diag, self.posterior
        mean, var = refit_without_sample(
            gram, post.targets, post.noise, post.weights, i
        )
        return mean, (var + self.rest[i]) * post.amplitude


def test_mean_and_deviation_are_those_of_the_dense_formulas():
    X, y, weights, X_new = points()
    gp = regressor(noise_variance=0.05).fit(X, y, weights)
    assert gp.noise_variance_ == 0.05
    dense = DenseDtc(gp, X, y[:, None], weights)
    mean, std = gp.predict(X_new, return_std=True)
    assert gp.amplitude_ == pytest.approx(dense.posterior.amplitude, rel=1e-9)
    assert_close(mean, dense.mean(X_new)[:, 0], kind="solve")
    std = plain(gp, std)
    assert_close(std, np.sqrt(np.diag(dense.cov(X_new))), kind="solve")
    noisy = plain(gp, gp.predict_latent(X_new, return_std=True, noise=True)[1])
    assert_close(noisy**2 - std**2, np.full(9, 0.05 * gp.amplitude_), kind="solve")


def test_classifier_is_that_of_the_dense_formulas():
    X, labels = blobs(N)
    X_new = blobs(9, seed=1)[0]
    settings = {"completion": Nystrom(M), "noise_variance": 0.05} | EXACT
    gp = ConvNetGPClassifier(KERNEL, **settings).fit(X, labels)
    offset = gp.latent_offset_
    dense = DenseDtc(gp, X, label_targets(labels) - offset, np.ones(N))
    latent = dense.mean(X_new) + offset
    mean, std = gp.predict_latent(X_new, return_std=True)
    assert_close(mean, latent, kind="solve")
    deviation = np.sqrt(np.diag(dense.cov(X_new)))
    assert_close(std, np.tile(deviation[:, None], 3), kind="solve")
    expected = label_probabilities(gp, latent, deviation[:, None] ** 2)
    assert_close(gp.predict_proba(X_new), expected, kind="solve")
    left_out, spread = (
        np.array(each)
        for each in zip(*(dense.left_out(i) for i in range(N)), strict=True)
    )
    left_out = left_out + offset
    var = spread.reshape(N, 1) - gp.noise_variance_ * gp.amplitude_
    expected = label_probabilities(gp, left_out, var)
    assert_close(gp.loo_predict_proba(), expected, kind="solve")
    np.testing.assert_array_equal(gp.loo_predict(), left_out.argmax(1))
    np.testing.assert_array_equal(gp.predict(X_new), latent.argmax(1))


@every_class
def test_all_samples_as_landmarks_give_the_exact_model(cls):
    X, _, _, X_new = points()
    y = (X[:, 0] > 0.0).astype(int) + (X[:, 1] > 0.0)
    kernel = rbf(0.1)  # no eigenvalue is cut off
    exact = cls(kernel, **EXACT).fit(X, y)
    gp = cls(kernel, completion=Nystrom(N), **EXACT).fit(X, y)
    assert sorted(gp.landmark_indices_) == list(range(N))
    assert gp.fit_report_.observed_fraction == 1.0
    for mine, theirs in zip(
        gp.predict_latent(X_new, return_std=True),
        exact.predict_latent(X_new, return_std=True),
        strict=True,
    ):
        assert_close(mine, theirs, kind="solve")
    method = "loo_predict_proba" if cls is ConvNetGPClassifier else "loo_predict"
    assert_close(getattr(gp, method)(), getattr(exact, method)(), kind="solve")
    evidence = exact.log_marginal_likelihood()
    assert gp.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-9)


class AtPoints:
    """Third-party completion: Nyström with landmarks at given points."""

    def __init__(self, landmarks):
        self.landmarks = landmarks

    def complete(self, oracle, observed_fraction, generator):
        away = torch.cdist(torch.as_tensor(self.landmarks), oracle.points())
        anchors = away.argmin(1)
        columns = oracle.block(None, anchors)
        lift_map = torch.linalg.inv(torch.linalg.cholesky(columns[anchors])).mT
        return CompletedGram(columns @ lift_map, anchors, lift_map, columns.numel())

    def n_values(self, n, observed_fraction):
        return 2 * n * len(self.landmarks)


@pytest.mark.parametrize("noise", [0.05, "loo", "evidence"])
@pytest.mark.parametrize("normalize_y", [True, False])
def test_weights_equal_repetitions(normalize_y, noise):
    X, y, _, X_new = points()
    y = y + 0.3 * np.random.default_rng(1).normal(size=N)
    counts = np.random.default_rng(0).integers(0, 3, N)
    landmarks = X[counts > 0][:M]
    settings = {"completion": AtPoints(landmarks), "noise_variance": noise}
    gp = regressor(normalize_y=normalize_y, **settings)
    weighted = clone(gp).fit(X, y, counts)
    many = clone(gp).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert weighted.noise_variance_ == pytest.approx(many.noise_variance_)
    assert weighted.amplitude_ == pytest.approx(many.amplitude_, rel=1e-9)
    for mine, theirs in zip(
        weighted.predict(X_new, return_std=True),
        many.predict(X_new, return_std=True),
        strict=True,
    ):
        assert_close(mine, theirs, kind="solve")
    assert weighted.log_marginal_likelihood() == pytest.approx(
        many.log_marginal_likelihood(), rel=1e-9
    )
    present = counts[counts > 0]
    for mine, theirs in zip(
        weighted.loo_predict(return_std=True),
        many.loo_predict(return_std=True),
        strict=True,
    ):
        assert_close(np.repeat(mine, present), theirs, kind="solve")


@every_class
@pytest.mark.parametrize("part", [Nystrom(8), SubsetOfData(8)], ids=repr)
def test_weights_of_zero_remove_samples(part, cls):
    X, labels = blobs(N)
    weights = np.tile([1.0, 0.0, 2.0, 1.0], N // 4)
    kept = np.flatnonzero(weights)
    gp = cls(KERNEL, completion=part, **EXACT)
    weighted = clone(gp).fit(X, labels, weights)
    without = clone(gp).fit(X[kept], labels[kept], weights[kept])
    np.testing.assert_array_equal(weighted.predict(X), without.predict(X))
    np.testing.assert_array_equal(weighted.loo_predict(), without.loo_predict())
    np.testing.assert_array_equal(
        weighted.landmark_indices_, kept[without.landmark_indices_]
    )
    np.testing.assert_array_equal(weighted.X_train_, X[weighted.landmark_indices_])


@every_class
@pytest.mark.parametrize(
    "part", [Nystrom(8), EnsembleNystrom(2, 9), SubsetOfData(8)], ids=repr
)
@pytest.mark.parametrize("is_weighted", [True, False])
def test_precomputed_matrix_is_that_of_the_kernel(is_weighted, part, cls):
    X, labels = blobs(N)
    X_new = blobs(9, seed=1)[0]
    weights = np.tile([1.0, 0.0, 2.0, 1.0], N // 4) if is_weighted else None
    settings = {"completion": part, "noise_variance": 0.05} | EXACT
    direct = cls(KERNEL, **settings).fit(X, labels, weights)
    gp = cls("precomputed", **settings).fit(covariances(X), labels, weights)
    np.testing.assert_array_equal(gp.landmark_indices_, direct.landmark_indices_)
    assert gp.X_train_ is None
    cross, diag = covariances(X_new, X), gram_diag(KERNEL, X_new, dtype="float64")
    for mine, theirs in zip(
        gp.predict_latent(cross, return_std=True, diag=diag),
        direct.predict_latent(X_new, return_std=True),
        strict=True,
    ):
        assert_close(mine, theirs, kind="solve")
    np.testing.assert_array_equal(gp.predict(cross).shape, direct.predict(X_new).shape)
    evidence = direct.log_marginal_likelihood()
    assert gp.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-9)
    assert gp.fit_report_.n_pairs == direct.fit_report_.n_pairs


def test_outputs_share_the_completion():
    X, y, weights, X_new = points()
    both = np.column_stack([y, y**2 - np.average(y**2, weights=weights)])
    held = {"amplitude": 2.0, "noise_variance": 1e-2}
    gp = regressor(**held).fit(X, both, weights)
    for k in range(2):
        one = regressor(**held).fit(X, both[:, k], weights)
        assert_close(gp.predict(X_new)[:, k], one.predict(X_new), kind="solve")


@pytest.mark.parametrize("word", ["loo", "evidence"])
def test_noise_is_chosen_but_not_below_the_error(word):
    X, y, _, _ = points(120)
    noisy = y + 0.5 * np.random.default_rng(0).normal(size=120)
    gp = regressor(completion=Nystrom(60), noise_variance=word).fit(X, noisy)
    exact = regressor(completion=None, noise_variance=word).fit(X, noisy)
    assert gp.noise_variance_ == pytest.approx(exact.noise_variance_, rel=0.5)
    smooth = regressor(completion=Nystrom(4), noise_variance=word).fit(X, y)
    given = regressor(completion=Nystrom(4), noise_variance=1e-8).fit(X, y)
    assert smooth.noise_variance_ >= given.noise_variance_ > 1e-2


@every_class
@pytest.mark.parametrize(
    "part",
    [
        Nystrom(landmarks="random_pivoted"),
        EnsembleNystrom(landmarks="kmeans"),
        SubsetOfData(),
    ],
    ids=repr,
)
def test_same_random_state_same_result(part, cls):
    X, labels = blobs(N)
    gp = cls(KERNEL, completion=part, random_state=3)
    first, again = (clone(gp).fit(X, labels) for _ in range(2))
    other = clone(gp).set_params(random_state=4).fit(X, labels)
    np.testing.assert_array_equal(first.landmark_indices_, again.landmark_indices_)
    np.testing.assert_array_equal(first.loo_predict(), again.loo_predict())
    assert first.log_marginal_likelihood() == again.log_marginal_likelihood()
    assert set(first.landmark_indices_) != set(other.landmark_indices_)


def test_classifier_takes_as_many_landmarks_of_each_class():
    X, labels = blobs(N)
    for part in (Nystrom(9, "stratified"), SubsetOfData(9, "stratified")):
        gp = ConvNetGPClassifier(KERNEL, completion=part, **EXACT).fit(X, labels)
        assert np.bincount(labels[gp.landmark_indices_]).tolist() == [3, 3, 3]


class Scaled(Nystrom):
    """Tells an error of a quarter of the mean prior variance 3."""

    def complete(self, oracle, observed_fraction, generator):
        completed = super().complete(oracle, observed_fraction, generator)
        return replace(completed, error=0.75)


def test_error_is_a_share_of_the_mean_prior_variance():
    X, y, _, _ = points()
    weights = np.tile([1.0, 3.0], N // 2)
    variances = np.tile([6.0, 2.0], N // 2)  # of a weighted mean of 3
    gram = covariances(X) * np.sqrt(np.outer(variances, variances))
    settings = {"completion": Scaled(M), "noise_variance": 0.01}
    gp = ConvNetGPRegressor("precomputed", **settings).fit(gram, y, weights)
    assert gp.noise_variance_ == pytest.approx(0.25, rel=1e-9)


class Stuck(Nystrom):
    """Does not converge."""

    def complete(self, oracle, observed_fraction, generator):
        completed = super().complete(oracle, observed_fraction, generator)
        return replace(completed, converged=False)


@every_class
def test_completion_that_does_not_converge_warns_the_caller(cls):
    X, labels = blobs(N)
    with pytest.warns(ConvergenceWarning, match=r"Stuck\(.*not converge.*rank") as seen:
        cls(KERNEL, completion=Stuck(n_landmarks=9)).fit(X, labels)
    assert seen[0].filename == __file__


@every_class
def test_completion_that_explains_little_warns_the_caller(cls):
    X, labels = digits(60)
    part = SoftImpute(pattern="random")
    gp = cls(rbf(2.0), completion=part, observed_fraction=0.08, random_state=0)
    with pytest.warns(UserWarning, match=r"Impute\(.*explains 0% of .*`pat") as seen:
        gp.fit(X, labels)
    assert seen[0].filename == __file__
    gp.set_params(completion=Nystrom(), observed_fraction=0.5).fit(X, labels)


@every_class
def test_coarse_kernel_of_its_own_takes_the_place_of_any(cls):
    X, labels = digits(40)
    part = CoarseKernel(kernel=tiny_network())
    settings = {"completion": part, "image_shape": (8, 8)}
    gp, other = (
        cls(kernel, **settings).fit(X, labels) for kernel in (rbf(1.0), tiny_network())
    )
    np.testing.assert_array_equal(gp.predict(X), other.predict(X))


@every_class
def test_solver_that_does_not_converge_warns_the_caller(cls):
    X, labels = blobs(N)
    for part in (None, SubsetOfData(30)):
        gp = cls(KERNEL, completion=part, solver=Lsqr(max_iter=1))
        with pytest.warns(ConvergenceWarning, match=r"Lsqr\(.*not converge") as seen:
            gp.fit(X, labels)
        assert seen[0].filename == __file__


class Inflated(Nystrom):
    """Gives new samples more variance than they have."""

    def complete(self, oracle, observed_fraction, generator):
        completed = super().complete(oracle, observed_fraction, generator)
        return replace(completed, lift_map=1.5 * completed.lift_map)


def test_features_that_exceed_the_prior_variance_warn():
    X, y, _, X_new = points()
    gp = regressor(completion=Inflated(M)).fit(X, y)
    with pytest.warns(UserWarning, match="exceed the prior variance") as seen:
        std = gp.predict(X_new, return_std=True)[1]
    assert seen[0].filename == __file__
    assert np.isfinite(std).all()


@pytest.mark.parametrize("likelihood", ["gaussian", "dirichlet", "laplace"])
def test_deviations_covariances_and_draws_are_of_one_posterior(likelihood):
    X, labels = digits(150)
    gp = ConvNetGPClassifier(
        rbf(3.0),
        completion=SoftImpute(),  # whose features are no projection of the kernel's
        observed_fraction=0.3,
        likelihood=likelihood,
        random_state=0,
    ).fit(X[:120], labels[:120])
    with pytest.warns(UserWarning, match="exceed the prior variance"):
        std = gp.predict_latent(X[120:], return_std=True)[1]
    with pytest.warns(UserWarning, match="exceed the prior variance"):
        cov = gp.predict_latent(X[120:], return_cov=True)[1]
    np.testing.assert_allclose(np.einsum("iik->ik", cov), std**2, rtol=1e-9)
    for c in range(cov.shape[2]):
        values = np.linalg.eigvalsh(cov[:, :, c])
        assert values[0] >= -1e-10 * values[-1]
    with pytest.warns(UserWarning, match="exceed the prior variance"):
        draws = gp.sample_y(X[120:], 2000, random_state=0)
    np.testing.assert_allclose(draws.std(axis=2), std, rtol=0.12)


@pytest.mark.parametrize("likelihood", ["gaussian", "dirichlet"])
def test_given_matrices_have_no_covariances_of_new_samples(likelihood):
    X, labels = blobs(N)
    gram = gram_matrix(KERNEL, X)
    settings = {"completion": Nystrom(9), "likelihood": likelihood, "random_state": 0}
    gp = ConvNetGPClassifier("precomputed", **settings).fit(gram, labels)
    with pytest.raises(ValueError, match="no covariance between the rows of X"):
        gp.predict_latent(gram, return_cov=True)


def test_cholesky_is_cholesky_by_word_and_by_object():
    X, labels = blobs(N)
    for settings in ({"completion": Nystrom(9)}, {"likelihood": "dirichlet"}):
        one, other = (
            ConvNetGPClassifier(KERNEL, solver=solver, random_state=0, **settings)
            for solver in ("cholesky", Cholesky())
        )
        np.testing.assert_array_equal(
            one.fit(X, labels).predict_proba(X), other.fit(X, labels).predict_proba(X)
        )


def test_grid_search_over_strategies_and_their_settings():
    X, labels = blobs(60)
    strategies = [None, Nystrom(n_landmarks=9), SubsetOfData(9)]
    search = GridSearchCV(
        ConvNetGPClassifier(KERNEL, random_state=0), {"completion": strategies}, cv=3
    )
    search.fit(X, labels)
    assert search.best_params_["completion"] in strategies
    nested = {"completion__n_landmarks": [1, 12], "observed_fraction": [0.1, 0.3]}
    gp = ConvNetGPClassifier(KERNEL, completion=Nystrom(), random_state=0)
    search = GridSearchCV(gp, nested, cv=3).fit(X, labels)
    assert search.best_params_["completion__n_landmarks"] == 12
    assert len(search.best_estimator_.X_train_) == 12
    assert gp.completion.n_landmarks is None


@pytest.mark.filterwarnings("ignore:.* of the variance of entries:UserWarning")
@pytest.mark.parametrize("method", [IterativeSVD, SoftImpute, MatrixFactorization])
def test_grid_search_over_settings_of_a_masked_completion(method):
    X, labels = blobs(60)
    nested = {"completion__rank": [1, 5], "observed_fraction": [0.5, 0.8]}
    part = method(pattern="landmarks")
    gp = ConvNetGPClassifier(KERNEL, completion=part, random_state=0)
    search = GridSearchCV(gp, nested, cv=2, error_score="raise").fit(X, labels)
    assert search.best_params_["completion__rank"] == 5
    assert search.best_estimator_.completion == method(pattern="landmarks", rank=5)
    assert search.best_score_ > search.cv_results_["mean_test_score"].min()


def test_pipeline_and_cross_validation():
    X, labels = blobs(60)
    pipeline = make_pipeline(
        StandardScaler(),
        ConvNetGPClassifier(
            KERNEL, completion=Nystrom(), observed_fraction=0.5, random_state=0
        ),
    )
    assert cross_val_score(pipeline, X, labels, cv=3).mean() > 0.6
    precomputed = ConvNetGPClassifier(
        "precomputed", completion=Nystrom(15), random_state=0
    )
    assert cross_val_score(precomputed, covariances(X), labels, cv=3).mean() > 0.6


@every_class
def test_clone_and_pickle(cls):
    X, labels = blobs(N)
    gp = cls(KERNEL, completion=Nystrom(9, check_fraction=0.1), random_state=0)
    gp.fit(X, labels)
    copied = clone(gp)
    assert copied.completion == gp.completion
    assert copied.completion is not gp.completion
    again = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(again.predict(X), gp.predict(X))
    np.testing.assert_array_equal(again.sample_y(X[:3]), gp.sample_y(X[:3]))


@every_class
def test_fitting_again_forgets_the_completion(cls):
    X, labels = blobs(N)
    gp = cls(KERNEL, completion=Nystrom(9), **EXACT).fit(X, labels)
    gp.set_params(completion=None).fit(X, labels)
    expected = cls(KERNEL, **EXACT).fit(X, labels)
    np.testing.assert_array_equal(gp.predict(X), expected.predict(X))
    np.testing.assert_array_equal(gp.loo_predict(), expected.loo_predict())
    assert not hasattr(gp, "landmark_indices_")


def arrays_of(item):
    """Yield all arrays that a fitted estimator keeps."""
    if isinstance(item, np.ndarray):
        yield item
    elif isinstance(item, tuple | list):
        for value in item:
            yield from arrays_of(value)
    elif hasattr(item, "__dict__"):
        yield from arrays_of(list(vars(item).values()))


@every_class
@pytest.mark.parametrize("part", [Nystrom(8), SubsetOfData(8)], ids=repr)
def test_model_keeps_the_anchors_and_no_matrix_of_all_samples(part, cls):
    X, labels = blobs(N)
    gp = cls(KERNEL, completion=part).fit(X, labels)
    np.testing.assert_array_equal(gp.X_train_, X[gp.landmark_indices_])
    assert len(gp.X_train_) == len(gp.dual_coef_) == 8
    assert all(array.size < N * 8 for array in arrays_of(gp))


def test_report_says_what_was_observed():
    X, labels = blobs(N)
    gp = ConvNetGPClassifier(KERNEL, completion=Nystrom(), observed_fraction=0.3)
    report = gp.fit(X, labels).fit_report_
    assert report.n_samples == N
    assert report.n_pairs == report.observed_fraction * N * (N + 1) / 2
    assert 0.2 < report.observed_fraction < 0.3 + 2.0 / N  # the diagonal is free
    assert 0.0 < report.relative_rmse < 1.0
    text = str(report)
    assert f"observed     {report.observed_fraction:.1%} of the entries" in text
    assert f"relative RMSE of the rest {report.relative_rmse:.2g}" in text


def test_report_of_a_subset_has_no_error():
    X, labels = blobs(N)
    gp = ConvNetGPClassifier(KERNEL, completion=SubsetOfData(8)).fit(X, labels)
    report = gp.fit_report_
    assert (report.n_samples, report.n_pairs) == (8, 36)
    assert report.observed_fraction == 36 / (N * (N + 1) / 2)
    assert "observed     4.4% of the entries\n" in str(report)
    exact = ConvNetGPClassifier(KERNEL).fit(X, labels).fit_report_
    assert exact.observed_fraction == 1.0
    assert "observed" not in str(exact)


def test_number_of_landmarks_wins_over_the_share():
    X, y, _, _ = points()
    gp = regressor(completion=Nystrom(20), observed_fraction=0.05).fit(X, y)
    assert len(gp.X_train_) == 20


@every_class
def test_progress_is_shown(cls, capsys):
    X, labels = blobs(N)
    cls(KERNEL, completion=Nystrom(), verbose=1).fit(X, labels)
    assert "fit: 100%" in capsys.readouterr().err


@every_class
@pytest.mark.parametrize("is_weighted", [True, False])
def test_subset_is_the_exact_model_of_the_chosen_samples(is_weighted, cls):
    X, labels = blobs(N)
    weights = np.random.default_rng(0).uniform(0.3, 3.0, N) if is_weighted else None
    gp = cls(KERNEL, completion=SubsetOfData(12, "kmeans"), amplitude=1.0, **EXACT)
    if cls is ConvNetGPRegressor:
        gp.set_params(normalize_y=False)
    gp.fit(X, labels, weights)
    chosen = gp.landmark_indices_
    exact = clone(gp).set_params(completion=None)
    exact.fit(
        X[chosen], labels[chosen], weights if weights is None else weights[chosen]
    )
    X_new = blobs(9, seed=1)[0]
    for mine, theirs in zip(
        gp.predict_latent(X_new, return_std=True),
        exact.predict_latent(X_new, return_std=True),
        strict=True,
    ):
        assert_close(mine, theirs, kind="solve")
    assert_close(gp.loo_predict(), exact.loo_predict(), kind="solve")
    if cls is ConvNetGPClassifier:
        assert gp.temperature_ == pytest.approx(exact.temperature_, rel=1e-9)


def test_class_that_no_chosen_sample_has_stays_a_class():
    X, labels = blobs(N)
    labels[0] = 7
    gp = ConvNetGPClassifier(KERNEL, completion=SubsetOfData(8), random_state=0)
    gp.fit(X, labels)
    assert 0 not in gp.landmark_indices_
    assert list(gp.classes_) == [0, 1, 2, 7]
    assert gp.predict_proba(X).shape == (N, 4)


def pooled(images, side):
    """Average squares of pixels, and what is there of them at the edges."""
    rows = range(0, images.shape[2], side)
    cols = range(0, images.shape[3], side)
    means = [
        [images[:, :, i : i + side, j : j + side].mean((2, 3)) for j in cols]
        for i in rows
    ]
    return np.moveaxis(np.array(means), (0, 1), (2, 3))


@every_class
@pytest.mark.parametrize("side", [1, 2, 3, 8])
def test_coarse_kernel_is_the_network_on_pooled_images(side, cls):
    X, y = digits(50)
    part = CoarseKernel(side, depth=2, kernel_size=2)
    gp = cls(convnet(3, 5), completion=part, dtype="float64").fit(X[:40], y[:40])
    small = pooled(X, side)
    assert small.shape[2:] == (-(-8 // side),) * 2
    exact = cls(convnet(2, 2), dtype="float64").fit(small[:40], y[:40])
    assert gp.kernel_ == convnet(2, 2)
    assert gp.pool_ == side
    mean, std = gp.predict_latent(X[40:], return_std=True)
    expected, expected_std = exact.predict_latent(small[40:], return_std=True)
    assert_close(mean, expected, kind="solve")
    # Images that are equal once they are small are left out together.
    assert_close(plain(gp, std), plain(exact, expected_std), kind="solve")
    assert gp.fit_report_.observed_fraction == 1.0
    assert gp.X_train_.shape == (40, 64)


def test_coarse_kernel_of_images_that_are_rows():
    X, y = digits(40)
    part = CoarseKernel(3, depth=1)
    gp = ConvNetGPClassifier(completion=part).fit(X, y)
    flat = ConvNetGPClassifier(completion=part, image_shape=(8, 8))
    flat.fit(X.reshape(40, -1), y)
    expected = gp.predict_proba(X)
    np.testing.assert_array_equal(flat.predict_proba(X.reshape(40, -1)), expected)
    again = clone(gp).set_params(completion=None, kernel=tiny_network()).fit(X, y)
    assert again.pool_ == 1
    assert (again.predict_proba(X) != expected).any()


@dataclass
class Columns:
    """The textbook's Nyström completion of the first samples' columns."""

    n_columns: int

    def complete(self, oracle, observed_fraction, generator):
        anchors = torch.arange(self.n_columns)
        columns = oracle.block(None, anchors)
        values, vectors = torch.linalg.eigh(columns[anchors])
        lift_map = vectors / values.sqrt()
        n_evaluated = columns.numel() + oracle.n_samples
        return CompletedGram(
            columns @ lift_map, anchors, lift_map, n_evaluated, error=self.error
        )

    def n_values(self, n, observed_fraction):
        return 2 * n * self.n_columns

    error = math.nan


SMALL_NETWORK = convnet(2, 2)


def summed(X, n_train, weight, n_columns, exact=None):
    """Return the summed covariances of all samples, as textbooks have them."""
    if exact is None:
        exact = gram_matrix(tiny_network(), X, dtype="float64")
    coarse = gram_matrix(SMALL_NETWORK, pooled(X, 2), dtype="float64")
    columns = exact[:, :n_columns]
    nystrom = columns @ np.linalg.solve(columns[:n_columns], columns.T)
    means = [np.diag(one)[:n_train].mean() for one in (exact, coarse)]
    own = (1.0 - weight) * means[0] / means[1] * coarse
    total = own + weight * nystrom
    prior = own + weight * (nystrom + np.diag(np.diag(exact - nystrom)))
    return total, prior


SUM = CoarseKernel(2, depth=2, kernel_size=2, exact=Columns(12), exact_weight=0.3)


def sum_of(cls, **settings):
    defaults = {"kernel": tiny_network(), "completion": SUM, **EXACT}
    return cls(**defaults | settings)


@every_class
def test_sum_of_a_coarse_kernel_and_a_completed_one(cls):
    X, y = digits(50)
    gp = sum_of(cls, noise_variance=0.01).fit(X[:40], y[:40])
    total, prior = summed(X, 40, 0.3, 12)
    targets = label_targets(y[:40]) if cls is ConvNetGPClassifier else y[:40, None]
    offset = targets.mean(0) if cls is ConvNetGPRegressor else 0.0
    dense = DensePosterior(
        total[:40, :40],
        targets - offset,
        0.01,
        mean_diag=np.diag(prior)[:40].mean(),
    )
    mean = dense.mean(total[40:, :40]) + offset
    cov = dense.cov(total[40:, :40], prior[40:, 40:])
    found, std = gp.predict_latent(X[40:], return_std=True)
    _, joint = gp.predict_latent(X[40:], return_cov=True)
    shape = found.shape
    np.testing.assert_allclose(found, mean.reshape(shape), rtol=1e-6, atol=1e-8)
    std, joint = plain(gp, std), plain_cov(gp, joint)
    one = std if std.ndim == 1 else std[:, 0]
    np.testing.assert_allclose(one**2, np.diag(cov), rtol=1e-6)
    one = joint if joint.ndim == 2 else joint[:, :, 0]
    np.testing.assert_allclose(one, cov, rtol=1e-6, atol=1e-9)
    assert gp.kernel_ == SMALL_NETWORK
    np.testing.assert_array_equal(gp.landmark_indices_, np.arange(12))
    n_exact = 40 * 12 + 40
    assert gp.fit_report_.n_pairs == 40 * 41 // 2 + n_exact
    assert gp.fit_report_.observed_fraction == n_exact / (40 * 41 // 2)


def test_noise_of_a_sum_is_not_below_the_error_of_the_completion():
    X, y = digits(40)
    rough = Columns(12)
    mean = gram_diag(tiny_network(), X, dtype="float64").mean()
    rough.error = 0.1 * mean
    part = replace(SUM, exact=rough)
    for noise in (1e-4, "loo"):
        gp = sum_of(ConvNetGPClassifier, completion=part, noise_variance=noise)
        assert gp.fit(X, y).noise_variance_ == pytest.approx(0.03)
    gp = sum_of(ConvNetGPClassifier, completion=part, noise_variance=0.5).fit(X, y)
    assert gp.noise_variance_ == 0.5


@pytest.mark.filterwarnings("ignore:.*explains")
def test_deviations_of_a_sum_are_those_of_its_covariance():
    # Features of some completions explain more than there is.
    X, y = digits(50)
    part = CoarseKernel(depth=1, exact=SoftImpute(), exact_weight=0.9)
    gp = sum_of(ConvNetGPRegressor, completion=part, observed_fraction=0.3)
    gp.fit(X[:40], y[:40])
    _, std = gp.predict(X[40:], return_std=True)
    _, cov = gp.predict(X[40:], return_cov=True)
    np.testing.assert_allclose(std**2, np.diag(cov), rtol=1e-6)
    assert std.min() > 0.0


@pytest.mark.filterwarnings("ignore:The hyperparameters .* are at a bound")
def test_a_fit_after_a_sum_is_a_first_one():
    X, _ = digits(60)
    y = X.reshape(60, -1)[:, 20:30].mean(axis=1)
    learned = {"optimizer": Adam(2), "noise_variance": "evidence"}
    gp = sum_of(ConvNetGPRegressor, dtype="float32", **learned).fit(X, y)
    later = gp.set_params(dtype="float64", completion=None).fit(X, y)
    first = clone(later).fit(X, y)
    assert later.noise_variance_ == first.noise_variance_
    np.testing.assert_array_equal(later.predict(X), first.predict(X))


def test_a_sum_evaluates_each_entry_once(monkeypatch):
    X, y = digits(40)
    rough = Columns(12)
    rough.error = 1e3
    counts = []
    gram = KernelOracle.gram
    monkeypatch.setattr(
        KernelOracle, "gram", lambda self: counts.append(1) or gram(self)
    )
    gp = sum_of(
        ConvNetGPRegressor, completion=replace(SUM, exact=rough), noise_variance="loo"
    ).fit(X, y)
    mean = gram_diag(tiny_network(), X, dtype="float64").mean()
    assert gp.noise_variance_ == pytest.approx(300.0 / mean)
    assert len(counts) == 1


def test_a_sum_tells_what_was_read(tmp_path, monkeypatch):
    monkeypatch.setattr("skconvgp.engine._cache.FEWEST_PAIRS", 1)
    X, y = digits(60)
    part = replace(SUM, exact=Nystrom(20))
    gp = sum_of(ConvNetGPRegressor, completion=part, cache_dir=tmp_path)
    assert gp.fit(X, y).fit_report_.n_pairs_read == 0
    report = gp.fit(X, y).fit_report_
    assert report.n_pairs - 60 <= report.n_pairs_read <= report.n_pairs


@pytest.mark.parametrize("part", [SUM, Columns(12)], ids=["sum", "completion"])
@pytest.mark.parametrize("word", ["dirichlet", "laplace"])
def test_left_out_labels_have_what_features_leave_out(part, word):
    X, y = digits(60)
    gp = sum_of(ConvNetGPClassifier, completion=part, likelihood=word, amplitude=50.0)
    found = gp.fit(X, y).loo_predict_proba()[59]  # no anchor
    rest = clone(gp).fit(X[:59], y[:59])
    rest.calibration_ = gp.calibration_  # that of 59 samples may be another mode
    (expected,) = rest.predict_proba(X[59:])
    np.testing.assert_allclose(found, expected, atol=0.01)
    fitted = gp.predict_proba(X[59:])[0]
    assert np.abs(fitted - expected).max() > 0.02  # what its own label says


def test_sums_can_be_searched_and_saved():
    X, y = digits(60)
    part = replace(SUM, exact=Nystrom())
    grid = {
        "completion__exact__landmarks": ["uniform", "stratified"],
        "completion__exact_weight": [0.2, 0.8],
        "observed_fraction": [0.3],
    }
    gp = sum_of(ConvNetGPClassifier, completion=part)
    search = GridSearchCV(gp, grid, cv=2).fit(X, y)
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    best = search.best_estimator_
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.predict_proba(X), best.predict_proba(X))
    alone = clone(best).set_params(completion=None).fit(X, y)
    refitted = best.set_params(completion=None).fit(X, y)
    np.testing.assert_array_equal(refitted.predict_proba(X), alone.predict_proba(X))


def test_a_sum_of_a_network_and_of_a_kernel_for_vectors():
    X, y = digits(50)
    part = CoarseKernel(kernel=SMALL_NETWORK, exact=Columns(12), exact_weight=0.3)
    gp = ConvNetGPRegressor(
        rbf(3.0), completion=part, noise_variance=0.01, image_shape=(8, 8), **EXACT
    )
    gp.fit(X[:40].reshape(40, -1), y[:40])
    rows = X.reshape(50, -1)
    total, prior = summed(
        X, 40, 0.3, 12, exact=gram_matrix(rbf(3.0), rows, dtype="float64")
    )
    dense = DensePosterior(
        total[:40, :40],
        y[:40, None] - y[:40].mean(),
        0.01,
        mean_diag=np.diag(prior)[:40].mean(),
    )
    mean = dense.mean(total[40:, :40])[:, 0] + y[:40].mean()
    np.testing.assert_allclose(gp.predict(rows[40:]), mean, rtol=1e-6)


def test_kernels_of_a_sum_are_learned():
    X, y = digits(60)
    flow = KernelFlowsClassifier(
        tiny_network(), completion=SUM, optimizer=Adam(max_iter=2), random_state=0
    )
    learned = flow.fit(X[:50], y[:50])
    fixed = sum_of(
        ConvNetGPClassifier,
        kernel=tiny_network().with_theta(learned.flow_result_.theta[:2]),
        noise_variance=learned.noise_variance_,
        dtype=learned.dtype_,
    ).fit(X[:50], y[:50])
    np.testing.assert_allclose(
        learned.predict_latent(X[50:]), fixed.predict_latent(X[50:]), rtol=1e-6
    )


def test_a_sum_of_what_is_not_held_is_refused():
    X, y = digits(30)
    gp = sum_of(ConvNetGPClassifier, solver="cg", memory_budget="1 KiB")
    with pytest.raises(TileMemoryError, match=r"has to be held.*exact=None"):
        gp.fit(X, y)


@every_class
@pytest.mark.parametrize(
    "part", [Nystrom(9), SubsetOfData(9), CoarseKernel(depth=1), SUM], ids=repr
)
def test_images_of_another_size_are_refused(part, cls):
    X, y = digits(20)
    gp = cls(tiny_network(), completion=part).fit(X, y)
    with pytest.raises(ValueError, match="8, 8"):
        gp.predict(X.reshape(20, 1, 16, 4))
    with pytest.raises(ValueError, match="36 features"):
        gp.predict(X[:, :, 1:7, 1:7].reshape(20, -1))


@pytest.fixture
def no_work(monkeypatch):
    """Fail if an entry is evaluated."""

    def evaluate(*args, **kwargs):
        pytest.fail("an entry was evaluated")

    for method in ("block", "gram"):
        monkeypatch.setattr(KernelOracle, method, evaluate)


VALID = Sequential(Conv2d(3, padding="valid"), ReLU(), Flatten(), Dense())
GRAM = np.eye(20)
BAD_SETTINGS = [
    ({"completion": "nystrom"}, r"'completion' parameter of \w+ must be None or"),
    ({"completion": Nystrom}, "'completion' parameter"),
    ({"completion": convnet()}, "'completion' parameter"),
    ({"observed_fraction": 0}, "'observed_fraction' parameter"),
    ({"observed_fraction": 1.5}, "'observed_fraction' parameter.*> 0 and <= 1"),
    ({"observed_fraction": "x"}, "'observed_fraction' parameter.*Got 'x'"),
    ({"observed_fraction": None}, "'observed_fraction' parameter"),
    ({"observed_fraction": True}, "'observed_fraction' parameter"),
    ({"observed_fraction": 1e-3}, "smallest usable value"),
    (
        {"completion": SubsetOfData(), "observed_fraction": 1e-3},
        "smallest usable value",
    ),
    ({"solver": "lsqr"}, r"Nystrom\(\).*solver='auto', got 'lsqr'"),
    ({"solver": Lsqr()}, r"solver='auto', got Lsqr\(\)"),
    ({"completion": Nystrom(5, rank=6)}, "'rank' parameter of Nystrom.*5 landmarks"),
    ({"completion": Nystrom(0)}, "'n_landmarks' parameter of Nystrom"),
    ({"completion": Nystrom("few")}, "'n_landmarks' parameter of Nystrom"),
    ({"completion": Nystrom(landmarks="best")}, "'landmarks' parameter of Nystrom"),
    ({"completion": EnsembleNystrom(0)}, "'n_members' parameter of EnsembleNys"),
    (
        {"completion": EnsembleNystrom(n_landmarks="few")},
        "'n_landmarks' parameter of EnsembleNystrom",
    ),
    ({"completion": EnsembleNystrom("x")}, "'n_members' parameter of EnsembleNys"),
    ({"completion": SubsetOfData("x")}, "'n_samples' parameter of SubsetOfData"),
    (
        {"completion": SubsetOfData(selection="leverage")},
        "'selection' parameter of SubsetOfData",
    ),
    ({"completion": CoarseKernel(0)}, "'pool' parameter of CoarseKernel"),
    ({"completion": CoarseKernel(2.0)}, "'pool' parameter of CoarseKernel"),
    ({"completion": CoarseKernel(exact=2)}, "'exact' parameter.*such as Nystrom"),
    ({"completion": CoarseKernel(exact=Nystrom)}, "'exact' parameter of CoarseKernel"),
    ({"completion": CoarseKernel(exact=SubsetOfData())}, "'exact' parameter"),
    ({"completion": CoarseKernel(exact_weight=1)}, "'exact_weight' parameter.*< 1"),
    ({"completion": CoarseKernel(exact_weight=0.0)}, "'exact_weight' parameter"),
    (
        {"completion": CoarseKernel(exact=Nystrom()), "observed_fraction": 1e-3},
        "smallest usable value",
    ),
    ({"completion": CoarseKernel(9, depth=1)}, r"9 x 9 pixels.*\(1, 8, 8\).*lower"),
    (
        {"completion": CoarseKernel(depth=1), "image_shape": None},
        r"shape \(64, 1, 1\) have: rows are read as vectors, set `image_shape`",
    ),
    ({"completion": CoarseKernel(), "kernel": rbf(2.0)}, r"looks at images, got rbf\("),
    ({"completion": CoarseKernel(kernel=rbf(2.0))}, r"looks at images, got rbf\("),
    ({"completion": CoarseKernel(kernel="small")}, "looks at images, got 'small'"),
    (
        {"completion": CoarseKernel(), "kernel": resnet32()},
        "no setting 'depth'.*`kernel=`.*depth=None",
    ),
    (
        {"completion": CoarseKernel(4, kernel=VALID)},
        r"CoarseKernel\(pool=4.*images of shape \(1, 8, 8\).*map of size 2x2",
    ),
    (
        {"completion": CoarseKernel(), "kernel": convnet(3, 3).unshared()},
        r"CoarseKernel\(\) gives.*must have 6 values.*got 4",
    ),
]


@every_class
@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS, ids=str)
def test_bad_settings_are_refused_before_any_work(settings, message, cls, no_work):
    X, y = digits(20)
    settings = {"kernel": tiny_network(), "completion": Nystrom()} | settings
    with pytest.raises(ValueError, match=message):
        cls(**settings).fit(X, y)


@pytest.mark.filterwarnings("ignore:.*of the variance of entries:UserWarning")
@every_class
@pytest.mark.parametrize(
    "part",
    [
        Nystrom(),
        EnsembleNystrom(4),
        SubsetOfData(),
        IterativeSVD(),
        MatrixFactorization(pattern="landmarks"),
        SoftImpute(pattern="random"),
    ],
    ids=repr,
)
def test_smallest_usable_fraction_is_usable(part, cls):
    X, y = blobs(60)
    gp = cls(rbf(1.0), completion=part, observed_fraction=1e-5, random_state=11)
    with pytest.raises(CompletionError) as error:
        gp.fit(X, y)
    told = re.search(r"smallest usable (value|fraction) is (0\.\d+)", str(error.value))
    gp.set_params(observed_fraction=float(told.group(2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp.fit(X, y)


@every_class
@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Nystrom(9, "kmeans"), "landmarks='kmeans' of Nystrom needs the samples"),
        (SubsetOfData(9, "kmeans"), "selection='kmeans' of SubsetOfData needs the sam"),
    ],
    ids=repr,
)
def test_kmeans_of_a_precomputed_matrix_is_refused(part, message, cls):
    with pytest.raises(CompletionError, match=message):
        cls("precomputed", completion=part).fit(GRAM, np.arange(20) % 2)


@every_class
def test_coarse_kernel_of_a_precomputed_matrix_is_refused(cls):
    with pytest.raises(ValueError, match="looks at images, got 'precomputed'"):
        cls("precomputed", completion=CoarseKernel()).fit(GRAM, np.arange(20) % 2)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Nystrom(9, "stratified"), "landmarks='stratified' of Nystrom needs the class"),
        (SubsetOfData(9, "stratified"), "selection='stratified' of Subset.*uniform"),
    ],
    ids=repr,
)
def test_regressor_has_no_classes(part, message, no_work):
    X, y = wave(20)
    with pytest.raises(CompletionError, match=message):
        ConvNetGPRegressor(rbf(1.0), completion=part).fit(X, y)


@every_class
def test_settings_of_no_use_are_checked_too(cls):
    X, labels = blobs(N)
    with pytest.raises(ValueError, match="'observed_fraction' parameter"):
        cls(KERNEL, observed_fraction=2.0).fit(X, labels)


@every_class
def test_completions_of_few_samples(cls):
    X, labels = blobs(3)
    for part in (Nystrom(), EnsembleNystrom(), SubsetOfData()):
        gp = cls(KERNEL, completion=part, observed_fraction=1.0, dtype="float64")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert gp.fit(X, labels).predict(X).shape == (3,)


def test_subset_is_in_the_order_of_the_data():
    X, y = wave(40)
    gp = ConvNetGPRegressor(rbf(1.0), completion=SubsetOfData(15), random_state=0)
    gp.fit(X, y)
    assert (np.diff(gp.landmark_indices_) > 0).all()
    error = gp.loo_predict() - y[gp.landmark_indices_]
    assert np.sqrt((error**2).mean()) < 0.4 * y.std()


@pytest.mark.parametrize(
    "completion",
    [
        IterativeSVD(rank=20, max_iter=5),
        IterativeSVD(rank=20, max_iter=5, rule="row_regression"),
        MatrixFactorization(rank=20, max_iter=5, ridge=1e-9),
        SoftImpute(max_iter=5),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings(
    "ignore:.*did not converge",
    "ignore:Features of the",
    "ignore:.*of the variance of entries",
)
def test_masks_are_completed_in_single_precision_too(completion):
    X, y = digits(80)
    gp = ConvNetGPClassifier(
        tiny_network(), completion=completion, solve_dtype="float32", random_state=0
    )
    assert np.isfinite(gp.fit(X, y).predict_latent(X)).all()


def test_progress_of_two_samples(capsys):
    ConvNetGPRegressor(rbf(1.0), completion=Nystrom(n_landmarks=1), verbose=1).fit(
        [[0.0], [1.0]], [0.0, 1.0]
    )
    assert "fit: 100%" in capsys.readouterr().err
