"""Labels that determine their noise, by columns of features: no matrix of all samples.

The reference is the process that holds it.
"""

import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import skconvgp
from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    NystromCompletedGP,
    PatchGPClassifier,
    gram_matrix,
)
from skconvgp.completion import EnsembleNystrom, Nystrom, RandomFeatures, SoftImpute
from skconvgp.engine import Placement
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import rbf
from skconvgp.likelihoods import Beta, Calibration, Dirichlet, Laplace, Targets
from skconvgp.linalg import half_solve
from skconvgp.processes import CoefficientPosterior, Labelled
from skconvgp.processes.fits._growing import by_columns
from tests.helpers.estimators import blobs, digits
from tests.helpers.memory import needs_peak, peak_memory

KERNEL, HERE = 2.0 * rbf(1.5), Placement(torch.device("cpu"))
PARTS = {"random": RandomFeatures(30), "landmarks": Nystrom(15)}


class Graded(Dirichlet):
    """A likelihood of a third party: three levels of noise of each function."""

    def targets(self, codes, n_classes, weights):
        own = super().targets(codes, n_classes, weights)
        return Targets(own.values, own.offset, own.noise * (1.0 + 0.1 * codes[:, None]))


class Doubting(Dirichlet):
    """A likelihood of a third party: the noise depends on the weights."""

    def targets(self, codes, n_classes, weights):
        own = super().targets(codes, n_classes, weights)
        return Targets(own.values, own.offset, own.noise * (2.0 + weights[:, None]))


LIKELIHOODS = {
    "dirichlet": ("dirichlet", 3),
    "two of dirichlet": ("dirichlet", 2),
    "chosen": (Dirichlet("loo"), 3),
    "beta": ("beta", 2),
    "graded": (Graded(0.1), 3),
}


def samples(n_classes=3, n=40):
    X, labels = blobs(n)
    X = np.vstack([X, X[:5]])  # some are equal
    y = np.unique(labels, return_inverse=True)[1] % n_classes
    weights = np.tile([1.0, 0.4, 3.0], len(X))[: len(X)]
    return X, np.concatenate([y, y[:5]]), weights


def classifier(part, likelihood, **settings):
    settings = {"dtype": "float64", "random_state": 0} | settings
    return ConvNetGPClassifier(
        KERNEL, completion=part, likelihood=likelihood, **settings
    )


def by_a_matrix(monkeypatch, gp, *data):
    """Return the estimator fitted by the matrix of all samples."""
    with monkeypatch.context() as patch:
        patch.setattr("skconvgp.processes._planner.follow_labels", lambda *_: False)
        gp.fit(*data)
    assert isinstance(gp._process.posterior, Labelled)
    return gp


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("amplitude", [None, 3.0, "profile"])
@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("part", PARTS)
def test_all_is_as_by_the_matrix(part, name, amplitude, noise, monkeypatch):
    likelihood, n_classes = LIKELIHOODS[name]
    X, y, weights = samples(n_classes)
    settings = {"amplitude": amplitude, "noise_variance": noise}
    gp = classifier(PARTS[part], likelihood, **settings).fit(X, y, weights)
    dense = classifier(PARTS[part], likelihood, **settings)
    by_a_matrix(monkeypatch, dense, X, y, weights)
    assert isinstance(gp._process.posterior, CoefficientPosterior)
    assert gp.likelihood_ == dense.likelihood_
    new = X[:9] + 0.4
    for mine, other in zip(
        gp.predict_latent(new, return_std=True),
        dense.predict_latent(new, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-7)
    for method in ("predict_proba", "latent_gradient"):
        mine, other = (getattr(one, method)(new) for one in (gp, dense))
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-7)
    for method in ("loo_predict_proba", "loo_predict", "log_marginal_likelihood"):
        mine, other = (getattr(one, method)() for one in (gp, dense))
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-6)
    mine, other = (one._latent(new, None, needs_cov=True) for one in (gp, dense))
    np.testing.assert_allclose(mine.cov, other.cov, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(gp.amplitude_, dense.amplitude_, rtol=1e-6)
    np.testing.assert_allclose(gp.dual_coef_, dense.dual_coef_, rtol=1e-4, atol=1e-6)


def test_few_inputs_leave_single_observations(monkeypatch):
    X = np.repeat(np.eye(3), 8, axis=0)
    y = np.tile([0, 0, 1], 8)
    gp = classifier(RandomFeatures(20), "dirichlet").fit(X, y)
    assert isinstance(gp._process.posterior, CoefficientPosterior)
    dense = by_a_matrix(monkeypatch, classifier(RandomFeatures(20), "dirichlet"), X, y)
    np.testing.assert_allclose(
        gp.loo_predict_proba(), dense.loo_predict_proba(), rtol=1e-6
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_read_the_mean_of_the_variances(n_classes, monkeypatch):
    X, y, weights = samples(n_classes, 60)
    gp = classifier(RandomFeatures(20), "dirichlet")
    gp.partial_fit(X[:50], y[:50], range(n_classes), weights[:50])
    gp.partial_fit(X[50:], y[50:], sample_weight=weights[50:])
    gp.calibration_ = Calibration(temperature=0.5, spread=2.0)
    mean, std = map(torch.from_numpy, gp.predict_latent(X, return_std=True))
    spreads = std.square()
    assert (spreads / spreads.mean(1, keepdim=True) - 1.0).abs().max() > 0.01
    expected = torch.softmax(gp.calibration_.latents(mean, spreads)[0], dim=1)
    solves = []

    def counted(*given):
        solves.append(given)
        return half_solve(*given)

    monkeypatch.setattr(
        "skconvgp.processes.posterior._coefficients.half_solve", counted
    )
    found = gp.predict_proba(X)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert len(solves) == (2 if n_classes == 2 else 1)  # of two, each is read


@pytest.mark.parametrize("part", [SoftImpute(max_iter=30), EnsembleNystrom(2)])
def test_other_completions_fit(part):
    X, y, weights = samples()
    gp = classifier(part, "dirichlet", observed_fraction=0.4).fit(X, y, weights)
    # A strategy that holds the whole matrix may return as many columns as samples.
    has_columns = not isinstance(part, SoftImpute)
    assert isinstance(gp._process.posterior, CoefficientPosterior) == has_columns
    assert gp.score(X, y) > 0.65


@pytest.mark.parametrize("part", [RandomFeatures(200), Nystrom(40)])
def test_many_features_take_the_matrix(part):
    X, y, weights = samples()
    gp = classifier(part, "dirichlet").fit(X, y, weights)
    assert isinstance(gp._process.posterior, Labelled)
    for method in ("pathwise", "bootstrap"):
        assert gp.sample_y(X[:3], 2, 0, method).shape == (3, 3, 2)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_sums_follow_from_the_matrix(name):
    """Samples are added to a fit by the matrix: it becomes one by columns."""
    likelihood, n_classes = LIKELIHOODS[name]
    X, y, weights = samples(n_classes, 60)
    few, more = slice(0, 30), slice(30, None)
    parts = {"amplitude": 3.0}
    gp = classifier(RandomFeatures(60), likelihood, **parts)
    gp.fit(X[few], y[few], weights[few])
    assert isinstance(gp._process.posterior, Labelled)
    before = gp.loo_predict_proba()
    mean, std = gp.predict_latent(X, return_std=True)
    gp._process = by_columns(
        gp._process, gp._training.codes, torch.Generator(), gp._resources().run(HERE)
    )
    np.testing.assert_allclose(gp.predict_latent(X, return_std=True)[1], std, rtol=1e-6)
    np.testing.assert_allclose(gp.predict_latent(X), mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(gp.loo_predict_proba(), before, rtol=1e-6)
    gp.partial_fit(X[more], y[more], sample_weight=weights[more])
    other = classifier(RandomFeatures(60), likelihood, **parts)
    other.fit(X[few], y[few], weights[few])
    other.partial_fit(X[more], y[more], sample_weight=weights[more])
    np.testing.assert_allclose(gp.predict_latent(X), other.predict_latent(X), rtol=1e-6)
    assert gp.fit_report_.n_samples == len(X)


def test_landmarks_of_a_given_matrix(monkeypatch):
    X, y, weights = samples()
    gram = gram_matrix(KERNEL, X)
    own = {"completion": Nystrom(15), "likelihood": "dirichlet", "random_state": 0}
    gp = ConvNetGPClassifier("precomputed", **own).fit(gram, y, weights)
    dense = ConvNetGPClassifier("precomputed", **own)
    by_a_matrix(monkeypatch, dense, gram, y, weights)
    diag = gram.diagonal()
    for mine, other in zip(
        gp.predict_latent(gram, return_std=True, diag=diag),
        dense.predict_latent(gram, return_std=True, diag=diag),
        strict=True,
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_batches_are_a_fit_of_all_samples(name):
    likelihood, n_classes = LIKELIHOODS[name]
    X, y, weights = samples(n_classes, 60)
    if name == "chosen":  # by the first batch, and it stays
        likelihood = Dirichlet(0.1)
    settings = {"amplitude": 3.0}
    gp = classifier(RandomFeatures(40), likelihood, **settings)
    classes = range(n_classes)
    for part in (slice(0, 50), slice(50, 53), slice(53, None)):
        gp.partial_fit(X[part], y[part], classes, weights[part])
    whole = classifier(RandomFeatures(40), likelihood, **settings).fit(X, y, weights)
    shift = whole.latent_offset_ - gp.latent_offset_  # that of the first batch stays
    assert np.abs(shift).max() < 0.5
    assert gp.fit_report_.n_samples == len(X)
    np.testing.assert_allclose(
        *(
            one._process.labels.class_weights(one._process.model.weights)
            for one in (gp, whole)
        )
    )
    std, other = (one.predict_latent(X, return_std=True)[1] for one in (gp, whole))
    np.testing.assert_allclose(std, other, rtol=1e-8)
    np.testing.assert_array_equal(gp.predict(X), whole.predict(X))
    assert gp.score(X, y) > 0.65
    copy = pickle.loads(pickle.dumps(gp))
    copy.partial_fit(X[:3], y[:3])
    assert len(copy.loo_predict()) == len(X) + 3


def test_batches_are_a_fit_where_the_prior_mean_is_the_same():
    X, y, weights = samples(2, 60)
    whole = classifier(RandomFeatures(40), Beta(0.01), amplitude=3.0).fit(X, y, weights)
    gp = classifier(RandomFeatures(40), Beta(0.01), amplitude=3.0)
    for part in (slice(0, 30), slice(30, None)):
        gp.partial_fit(X[part], y[part], [0, 1], weights[part])
    np.testing.assert_allclose(
        gp.log_marginal_likelihood(), whole.log_marginal_likelihood(), rtol=1e-8
    )
    for method in ("predict_latent", "predict_proba"):
        mine, other = (getattr(one, method)(X) for one in (gp, whole))
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-8)
    # Equal samples of different batches are left out one by one.
    distinct = np.arange(5, 60)
    mine, other = (one.loo_predict_proba()[distinct] for one in (gp, whole))
    np.testing.assert_allclose(mine, other, rtol=1e-6)


def test_only_the_reservoir_is_brought_up_to_date(monkeypatch):
    monkeypatch.setattr("skconvgp.processes.fits._held_rows.KEPT_ROWS", 20)
    X, y, _ = samples(2, 60)
    gp = classifier(RandomFeatures(40), "dirichlet").fit(X[:30], y[:30])
    before = gp._process.left_out.mean.copy()
    gp.partial_fit(X[30:], y[30:])
    kept, mean, var = gp._process.left_out.subset
    assert len(kept) == 20
    np.testing.assert_array_equal(gp._process.left_out.mean[kept], mean)
    np.testing.assert_array_equal(gp._process.left_out.var[kept], var)
    others = np.setdiff1d(np.arange(30), kept)
    np.testing.assert_array_equal(gp._process.left_out.mean[others], before[others])
    assert np.isfinite(gp._process.left_out.mean).all()


def test_noise_that_does_not_follow_from_labels_needs_the_matrix():
    X, y, weights = samples()
    gp = classifier(RandomFeatures(40), Doubting(0.1)).fit(X, y, weights)
    assert isinstance(gp._process.posterior, Labelled)
    assert gp.score(X, y) > 0.65
    with pytest.raises(ValueError, match="turns each label into targets"):
        gp.partial_fit(X + 0.1, y, None, weights)
    gp = classifier(RandomFeatures(40), Doubting(0.1))
    with pytest.raises(ValueError, match="turns each label into targets"):
        gp.partial_fit(X, y, [0, 1, 2], weights)
    with pytest.raises(NotFittedError):
        gp.predict(X)


@pytest.mark.parametrize("variance", ["dtc", "sor"])
def test_landmarks_take_further_labels(variance):
    X, y, weights = samples(2, 60)
    settings = {"n_landmarks": 20, "likelihood": Beta(0.01), "variance": variance}
    settings |= {"random_state": 0, "amplitude": 2.0, "dtype": "float64"}
    gp = NystromCompletedGP(KERNEL, **settings)
    gp.partial_fit(X[:30], y[:30], [0, 1], weights[:30])
    gp.partial_fit(X[30:], y[30:], sample_weight=weights[30:])
    other = NystromCompletedGP(KERNEL, **settings)
    other.partial_fit(X[:30], y[:30], [0, 1], weights[:30])
    other.partial_fit(X[30:40], y[30:40], sample_weight=weights[30:40])
    other.partial_fit(X[40:], y[40:], sample_weight=weights[40:])
    for mine, its in zip(
        gp.predict_latent(X, return_std=True),
        other.predict_latent(X, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(mine, its, rtol=1e-6, atol=1e-8)
    assert gp.score(X, y) > 0.75
    assert gp.fit_report_.n_pairs > 20 * len(X) - 20 * 20
    # The exact posterior of the completed matrix of the same landmarks.
    landmarks = X[gp.landmark_indices_]
    near, cross = gram_matrix(KERNEL, landmarks), gram_matrix(KERNEL, X, landmarks)
    completed = cross @ np.linalg.solve(near, cross.T)
    exact = ConvNetGPClassifier("precomputed", likelihood=Beta(0.01))
    # The kernel has variance 2, which is the amplitude; units are those of the fit.
    exact.set_params(amplitude=np.average(completed.diagonal(), weights=weights))
    exact.fit(completed, y, weights)
    np.testing.assert_allclose(
        gp.predict_latent(X), exact.predict_latent(completed), rtol=1e-4, atol=1e-5
    )


def test_landmarks_are_the_completion_of_the_exact_estimator():
    X, y, weights = samples()
    shared = {"likelihood": "dirichlet", "random_state": 0, "dtype": "float64"}
    gp = NystromCompletedGP(KERNEL, n_landmarks=15, **shared).fit(X, y, weights)
    part = Nystrom(15, check_fraction=0.0)
    other = ConvNetGPClassifier(KERNEL, completion=part, **shared).fit(X, y, weights)
    np.testing.assert_array_equal(gp.landmark_indices_, other.landmark_indices_)
    np.testing.assert_allclose(gp.predict_proba(X), other.predict_proba(X), rtol=1e-8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variance": "fitc"}, "variance='fitc' needs one noise variance"),
        ({"noise_variance": "loo"}, "derives its noise from the labels"),
        ({"likelihood": Laplace()}, "turns each label into targets"),
    ],
)
def test_landmarks_refuse(settings, message):
    X, y, _ = samples()
    gp = NystromCompletedGP(KERNEL, likelihood="dirichlet").set_params(**settings)
    with pytest.raises(ValueError, match=message):
        gp.fit(X, y)


def test_files_of_skops_hold_sums(tmp_path):
    skops = pytest.importorskip("skops.io")
    X, y, _ = samples()
    gp = classifier(RandomFeatures(20), "dirichlet").fit(X, y)
    skops.dump(gp, tmp_path / "gp.skops")
    copy = skops.load(tmp_path / "gp.skops", trusted=skconvgp.SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(copy.predict_proba(X), gp.predict_proba(X))
    copy.partial_fit(X[:4], y[:4])
    gp.partial_fit(X[:4], y[:4])
    np.testing.assert_array_equal(copy.predict_proba(X), gp.predict_proba(X))


MANY = """
import numpy as np
from skconvgp import ConvNetGPClassifier
from skconvgp.completion import {part}
from skconvgp.kernels import rbf
X = np.random.default_rng(0).normal(size=(20_000, 2))
y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
gp = ConvNetGPClassifier(
    rbf(1.5), completion={part}(30), likelihood="dirichlet", memory_budget="32 MiB"
)
gp.fit(X[:50], y[:50])
"""


@needs_peak
@pytest.mark.parametrize("part", ["RandomFeatures", "Nystrom"])
def test_a_fit_holds_no_matrix_of_all_samples(part):
    # Features of 4.8 MB, a copy, and some columns; the matrix has 3.2 GB.
    peak = peak_memory(MANY.format(part=part), "gp.fit(X, y)")
    assert peak < 100 * 2**20


def test_a_first_batch_without_a_class_warns():
    X, y, _ = samples()
    some = y != 2
    gp = classifier(RandomFeatures(20), "dirichlet")
    with pytest.warns(UserWarning, match=r"no samples of the classes \[2\]"):
        gp.partial_fit(X[some], y[some], [0, 1, 2])
    gp.partial_fit(X[~some], y[~some])
    assert gp.score(X, y) > 0.65


@pytest.mark.parametrize("likelihood", ["gaussian", Beta(0.01)], ids=str)
def test_small_batches_leave_whole_inputs_out(likelihood):
    X, y, _ = samples(2, 60)
    X, y, weights = X[:60], y[:60], np.full(60, 5.0)
    settings = {"amplitude": 2.0, "noise_variance": 0.1}
    whole = classifier(RandomFeatures(20), likelihood, **settings).fit(X, y, weights)
    gp = classifier(RandomFeatures(20), likelihood, **settings)
    gp.partial_fit(X[:20], y[:20], [0, 1], weights[:20])
    for start in range(20, 60, 8):
        part = slice(start, start + 8)
        gp.partial_fit(X[part], y[part], sample_weight=weights[part])
    for mine, other in zip(gp._left_out()[1:], whole._left_out()[1:], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("variance", ["dtc", "sor"])
def test_samples_without_a_variance_are_left_out_by_their_mean(variance):
    X, y, _ = samples(2, 60)
    gram = gram_matrix(KERNEL, X)
    gp = NystromCompletedGP(
        "precomputed",
        n_landmarks=20,
        likelihood="beta",
        variance=variance,
        random_state=0,
    )
    gp.partial_fit(gram[:40, :40], y[:40], [0, 1])
    gp.partial_fit(gram[40:, :40], y[40:])
    assert np.isfinite(gp.loo_predict_proba()[40:]).all() == (variance == "sor")
    assert (gp.loo_predict() == y).mean() > 0.6
    assert set(gp.loo_predict()[40:]) == {0, 1}


@pytest.mark.filterwarnings("ignore:The sample weights sum to")
def test_tiny_weights_of_further_samples_are_refused():
    X, y, weights = samples()
    gp = classifier(RandomFeatures(20), "dirichlet").fit(X, y)
    with pytest.raises(ValueError, match="set tiny weights to 0"):
        gp.partial_fit(X + 0.1, y, None, 1e-310 * weights)


def test_columns_that_do_not_fit_raise_before_any_work(monkeypatch):
    X, y, _ = samples()
    monkeypatch.setattr("skconvgp.engine._devices.free_memory", lambda _: 10_000)
    evaluated = []
    monkeypatch.setattr(
        "skconvgp.processes.fits._fits.complete", lambda *_: evaluated.append(1)
    )
    with pytest.raises(TileMemoryError):
        classifier(Nystrom(15), "dirichlet").fit(X, y)
    assert not evaluated


@pytest.mark.parametrize("likelihood", ["gaussian", "dirichlet"])
@pytest.mark.parametrize("n_first", [12, 40])  # a matrix of samples, and sums
def test_batches_that_do_not_fit_raise_before_any_work(
    likelihood, n_first, monkeypatch
):
    X, y, _ = samples()
    gp = classifier(RandomFeatures(20), likelihood)
    gp.partial_fit(X[:n_first], y[:n_first], range(3))
    monkeypatch.setattr("skconvgp.engine._devices.free_memory", lambda _: 10_000)
    with pytest.raises(TileMemoryError, match=r"samples are added.*fewer features"):
        gp.partial_fit(X[n_first:], y[n_first:])
    assert gp.fit_report_.n_samples == n_first


def test_a_batch_that_came_before_warns():
    X, y, _ = samples(3, 60)
    gp = classifier(RandomFeatures(20), "dirichlet").partial_fit(X, y, range(3))
    with pytest.warns(UserWarning, match="20 of the 30 different samples"):
        gp.partial_fit(np.vstack([X[:20], X[20:30] + 9.0]), y[:30])
    copy = pickle.loads(pickle.dumps(gp))
    with pytest.warns(UserWarning, match="10 of the 10 different samples"):
        copy.partial_fit(X[20:30] + 9.0, y[20:30])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.partial_fit(np.vstack([X[:3], X[3:9] + 20.0]), y[:9])
        gp.partial_fit(X[:9], y[:9])  # few


def test_landmarks_and_patches_tell_of_batches_that_came_before():
    X, y = digits(60)
    for gp in (
        NystromCompletedGP(rbf(2.0), n_landmarks=20, image_shape=None),
        PatchGPClassifier(n_inducing=20),
    ):
        rows = X.reshape(60, -1) if isinstance(gp, NystromCompletedGP) else X
        gp.partial_fit(rows, y, np.unique(y))
        with pytest.warns(UserWarning, match="60 of the 60 different samples"):
            gp.partial_fit(rows, y)


def test_tables_that_repeat_rows_anyway_do_not_warn():
    random = np.random.default_rng(0)
    X, y = random.integers(0, 2, size=(200, 4)), random.integers(0, 2, size=200)
    settings = np.repeat(np.arange(20.0)[:, None], 2, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp = classifier(RandomFeatures(10), "dirichlet")
        gp.partial_fit(X[:100], y[:100], [0, 1]).partial_fit(X[100:], y[100:])
        measured = ConvNetGPRegressor(rbf(5.0), completion=RandomFeatures(10))
        for _ in range(2):  # the same settings, measured again
            measured.partial_fit(settings, random.normal(size=20))


def test_labels_of_two_kinds_in_a_later_batch_are_a_clear_error():
    X, y, _ = samples(2, 40)
    names = np.array(["red", "green"])
    gp = classifier(RandomFeatures(20), "dirichlet").partial_fit(X, names[y], names)
    mixed = np.array(["red", 1] * 20, dtype=object)
    with pytest.raises(ValueError, match="labels of one kind"):
        gp.partial_fit(X[:40] + 1.0, mixed)


def test_labels_of_text_are_part_of_a_sample():
    X, y, _ = samples(3, 60)
    names = np.array(["red", "green", "blue"])
    gp = classifier(RandomFeatures(20), "dirichlet")
    gp.partial_fit(X, names[y], names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.partial_fit(X[:30], names[(y[:30] + 1) % 3])
    with pytest.warns(UserWarning, match="30 of the 30 different samples"):
        gp.partial_fit(X[30:60], names[y[30:60]])
