"""Models of landmarks against the dense formulas of sparse Gaussian processes."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skconvgp import (
    ConvNetGPClassifier,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    gram_matrix,
)
from skconvgp.kernels import rbf
from skconvgp.likelihoods import Gaussian, Targets
from tests.helpers.batches import twice
from tests.helpers.estimators import blobs, digits, label_targets, tiny_network
from tests.helpers.memory import needs_peak, peak_memory
from tests.helpers.tolerances import assert_close

NOISE, AMPLITUDE = 0.05, 1.7
N, M, N_NEW = 60, 12, 9
KERNEL = rbf(1.5)
variances = pytest.mark.parametrize("variance", ["dtc", "sor", "fitc"])
classes = pytest.mark.parametrize(
    "cls", [NystromCompletedGP, NystromCompletedGPRegressor]
)


def points(n=N + N_NEW, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    return X, np.column_stack([np.sin(X).sum(1), X[:, 0] * X[:, 1]])


def weights(n=N):
    return np.random.default_rng(5).uniform(0.4, 2.5, n)


class Dense:
    """The sparse models as n x n matrices; the kernel has prior variance 1."""

    def __init__(self, X, Y, landmarks, variance, sample_weight):
        self.X, self.Y, self.variance = X, Y, variance
        self.landmarks = X[landmarks]
        self.inner = np.linalg.pinv(self.gram(self.landmarks), hermitian=True)
        self.explained = self.product(X, X)
        rest = 1.0 - np.diag(self.explained)
        self.unit_noise = NOISE + (rest if variance == "fitc" else 0.0) * np.ones(
            len(X)
        )
        self.matrix = self.explained + np.diag(self.unit_noise / sample_weight)
        self.inverse = np.linalg.inv(self.matrix)

    @staticmethod
    def gram(X, Y=None):
        return gram_matrix(KERNEL, X, Y, dtype="float64")

    def product(self, X, Y):
        left, right = (self.gram(Z, self.landmarks) for Z in (X, Y))
        return left @ self.inner @ right.T

    def mean(self, X):
        return self.product(X, self.X) @ self.inverse @ self.Y

    def cov(self, X):
        cross, prior = self.product(X, self.X), self.product(X, X)
        if self.variance != "sor":
            prior = self.gram(X)
        return prior - cross @ self.inverse @ cross.T


def regressor(variance, **settings):
    settings = {"n_landmarks": M, "noise_variance": NOISE, **settings}
    return NystromCompletedGPRegressor(
        KERNEL,
        variance=variance,
        amplitude=AMPLITUDE,
        normalize_y=False,
        random_state=0,
        dtype="float64",
        **settings,
    )


@variances
def test_posterior_is_that_of_the_dense_formulas(variance):
    X, Y = points()
    gp = regressor(variance).fit(X[:N], Y[:N], sample_weight=weights())
    dense = Dense(X[:N], Y[:N], gp.landmark_indices_, variance, weights())
    mean, std = gp.predict(X[N:], return_std=True)
    cov = gp.predict(X[N:], return_cov=True)[1]
    expected = AMPLITUDE * dense.cov(X[N:])
    assert_close(mean, dense.mean(X[N:]), kind="solve")
    for k in range(2):
        assert_close(cov[:, :, k], expected, kind="solve")
        assert_close(std[:, k] ** 2, np.diag(expected), kind="solve")


@variances
def test_partial_fit_is_one_fit_with_the_landmarks_of_the_first_call(variance):
    X, Y = points()
    gp = regressor(variance).partial_fit(X[:25], Y[:25], weights()[:25])
    gp.partial_fit(X[25:40], Y[25:40], weights()[25:40])
    gp.partial_fit(X[40:N], Y[40:N], weights()[40:N])
    assert gp.landmark_indices_.max() < 25
    dense = Dense(X[:N], Y[:N], gp.landmark_indices_, variance, weights())
    mean, std = gp.predict(X[N:], return_std=True)
    assert_close(mean, dense.mean(X[N:]), kind="solve")
    assert_close(std[:, 0] ** 2, AMPLITUDE * np.diag(dense.cov(X[N:])), kind="solve")
    assert gp.fit_report_.n_samples == N
    assert gp.loo_predict().shape == (N, 2)
    # Of so few samples all leave-one-out predictions are those of one fit.
    for light in np.flatnonzero(weights() <= 1.0):
        rest = np.delete(np.arange(N), light)
        inverse = np.linalg.inv(dense.matrix[np.ix_(rest, rest)])
        expected = dense.explained[light, rest] @ inverse @ Y[rest]
        np.testing.assert_allclose(gp.loo_predict()[light], expected, rtol=1e-6)


def test_partial_fit_without_the_samples_of_weight_zero():
    X, Y = points()
    some = (np.arange(N) % 3 > 0).astype(float)
    gp, other = regressor("dtc"), regressor("dtc")
    for part in (slice(0, 30), slice(30, N)):
        gp.partial_fit(X[part], Y[part], some[part])
        kept = np.arange(N)[part][some[part] > 0]
        other.partial_fit(X[kept], Y[kept])
    assert gp.fit_report_.n_samples == other.fit_report_.n_samples == 40
    np.testing.assert_array_equal(gp.predict(X[N:]), other.predict(X[N:]))


def test_partial_fit_of_labels():
    X, labels = blobs(90)
    words = np.array(["no", "perhaps", "yes"])[labels]
    settings = {"noise_variance": 1e-4, "random_state": 0}
    gp = NystromCompletedGP(KERNEL, n_landmarks=20, **settings)
    first = words[:30] != "yes"
    gp.partial_fit(X[:30][first], words[:30][first], classes=["yes", "no", "perhaps"])
    assert gp.classes_.tolist() == ["no", "perhaps", "yes"]
    assert "yes" not in gp.predict(X)
    gp.partial_fit(X[30:], words[30:], classes=["no", "perhaps", "yes"])
    assert gp.score(X, words) > 0.8
    assert gp.loo_predict().shape == (90 - (~first).sum(),)
    np.testing.assert_allclose(gp.predict_proba(X).sum(1), 1.0)
    with pytest.raises(ValueError, match=r"labels that are not in `classes`.*maybe"):
        gp.partial_fit(X[:2], ["no", "maybe"])
    with pytest.raises(ValueError, match=r"`classes`=.*not the same"):
        gp.partial_fit(X[:2], ["no", "yes"], classes=["no", "yes"])


@variances
def test_probabilities_after_partial_fit_are_those_of_one_fit(variance, monkeypatch):
    X, labels = blobs(141)
    settings = {"n_landmarks": 21, "variance": variance, "random_state": 0}
    settings["noise_variance"] = 1e-4  # else that of the first call
    gp = NystromCompletedGP(KERNEL, **settings)
    gp.partial_fit(X[:21], labels[:21], classes=[0, 1, 2])
    gp.partial_fit(X[21:50], labels[21:50]).partial_fit(X[50:], labels[50:])
    # The landmarks are all samples of the first call, and those are given here.
    uniform = "skconvgp.completion._landmarks._uniform"
    monkeypatch.setattr(uniform, lambda *_: torch.arange(21))
    whole = NystromCompletedGP(KERNEL, **settings).fit(X, labels)
    assert sorted(whole.landmark_indices_) == sorted(gp.landmark_indices_)
    np.testing.assert_allclose(gp.temperature_, whole.temperature_, rtol=1e-2)
    new = X[:40] + 0.3
    for ours, theirs in (
        (gp.predict_proba(new), whole.predict_proba(new)),
        (gp.loo_predict_proba(), whole.loo_predict_proba()),
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


@twice
@classes
def test_a_first_batch_with_too_few_samples_for_the_landmarks_is_told(cls):
    X, labels = blobs(30)
    gp = cls(KERNEL, n_landmarks=40)
    first = {"classes": [0, 1, 2]} if cls is NystromCompletedGP else {}
    gp.partial_fit(X, labels, **first)
    with pytest.warns(
        UserWarning, match=r"which had 30 different .*n_landmarks=40: .*larger"
    ):
        gp.partial_fit(X, labels)
    gp.partial_fit(X, labels)  # told once


def test_calibration_after_partial_fit_is_on_a_sample_of_all():
    X, labels = blobs(1500)
    gp = NystromCompletedGP(KERNEL, n_landmarks=20, random_state=0)
    gp.partial_fit(X[:600], labels[:600], classes=[0, 1, 2])
    for first in range(600, 1500, 300):
        part = slice(first, first + 300)
        gp.partial_fit(X[part], labels[part])
    numbers, mean, _ = gp._process.left_out.subset
    assert len(numbers) == len(set(numbers)) == 500
    share = np.histogram(numbers, bins=5, range=(0, 1500))[0] / 500
    assert np.abs(share - 0.2).max() < 0.08
    # A refit with the same landmarks, of all samples but one.
    one = int(numbers[7])
    rest = np.delete(np.arange(1500), one)
    anchors = gp.landmark_indices_
    K = gram_matrix(KERNEL, X, X[anchors], dtype="float64")
    root = np.linalg.cholesky(K[anchors] + 1e-12 * np.eye(20))
    F = np.linalg.solve(root, K.T).T / np.sqrt(gp._process.model.mean_diag)
    A = F[rest].T @ F[rest] + gp.noise_variance_ * np.eye(20)
    expected = F[one] @ np.linalg.solve(A, F[rest].T @ gp._process.model.targets[rest])
    np.testing.assert_allclose(mean[7], expected, atol=1e-4)
    again = gp.fit(X[:100], labels[:100])
    assert again.loo_predict().shape == (100,)
    assert again._process.left_out.subset is None


def test_first_call_of_partial_fit_needs_the_classes():
    with pytest.raises(ValueError, match="`classes` must have at least two classes"):
        NystromCompletedGP(KERNEL).partial_fit([[0.0], [1.0]], [0, 0], classes=[0])
    X, labels = blobs(20)
    with pytest.raises(ValueError, match="`classes` must be passed on the first call"):
        NystromCompletedGP(KERNEL).partial_fit(X, labels)


def test_a_fit_forgets_earlier_samples():
    X, Y = points()
    gp = regressor("dtc").fit(X[:40], Y[:40])
    again = clone(gp).partial_fit(X[40:N], Y[40:N]).fit(X[:40], Y[:40])
    np.testing.assert_array_equal(gp.predict(X), again.predict(X))


def test_classifier_regresses_on_the_label_targets():
    X, labels = blobs(60)
    gp = NystromCompletedGP(
        KERNEL, n_landmarks=M, noise_variance=NOISE, dtype="float64", random_state=1
    ).fit(X[:50], labels[:50])
    dense = Dense(X[:50], label_targets(labels[:50]), gp.landmark_indices_, "dtc", 1.0)
    assert_close(gp.predict_latent(X[50:]), dense.mean(X[50:]), kind="solve")
    expected = dense.mean(X[50:]).argmax(1)
    np.testing.assert_array_equal(gp.predict(X[50:]), expected)


@pytest.mark.parametrize("word", ["evidence", "loo"])
@variances
def test_noise_that_is_chosen_beats_its_neighbours(variance, word):
    X, Y = points()
    gp = regressor(variance, noise_variance=word).fit(X[:N], Y[:N])

    def score(noise):
        other = regressor(variance, noise_variance=noise).fit(X[:N], Y[:N])
        if word == "evidence":
            return other.log_marginal_likelihood()
        mean, std = other.loo_predict(return_std=True)
        if variance == "dtc":  # chosen with what the features explain
            dense = Dense(X[:N], Y[:N], other.landmark_indices_, "dtc", np.ones(N))
            rest = AMPLITUDE * (1.0 - np.diag(dense.explained))
            std = np.sqrt(std**2 - rest[:, None])
        return -(0.5 * ((Y[:N] - mean) / std) ** 2 + np.log(std)).sum()

    best = gp.noise_variance_
    step = 10.0 ** (1.0 / 8.0)
    assert score(best) >= max(score(best * step), score(best / step))


def test_landmarks_see_the_labels_and_the_samples():
    X, labels = blobs(90)
    settings = {"n_landmarks": 9, "random_state": 0}
    gp = NystromCompletedGP(KERNEL, landmarks="stratified", **settings).fit(X, labels)
    assert np.bincount(labels[gp.landmark_indices_]).tolist() == [3, 3, 3]
    gp = NystromCompletedGP(KERNEL, landmarks="kmeans", **settings).fit(X, labels)
    assert gp.X_train_.shape == (9, 2)
    np.testing.assert_array_equal(gp.X_train_, X[gp.landmark_indices_])
    with pytest.raises(ValueError, match=r"'stratified'.*class codes"):
        regressor("dtc", landmarks="stratified").fit(*points())


@classes
def test_precomputed_is_the_kernel(cls):
    X, labels = blobs(50)
    settings = {"n_landmarks": 10, "random_state": 0, "dtype": "float64"}
    settings["noise_variance"] = NOISE
    gram = gram_matrix(KERNEL, X, dtype="float64")
    gp = cls("precomputed", **settings).fit(gram[:40, :40], labels[:40])
    other = cls(KERNEL, **settings).fit(X[:40], labels[:40])
    assert gp.X_train_ is None
    np.testing.assert_array_equal(gp.landmark_indices_, other.landmark_indices_)
    assert_close(
        gp.predict_latent(gram[40:, :40]), other.predict_latent(X[40:]), kind="solve"
    )
    std = gp.predict_latent(gram[40:, :40], return_std=True, diag=np.ones(10))[1]
    expected = other.predict_latent(X[40:], return_std=True)[1]
    assert_close(std, expected, kind="solve")
    gp.partial_fit(gram[40:, :40], labels[40:])
    other.partial_fit(X[40:], labels[40:])
    assert_close(gp.predict_latent(gram[:, :40]), other.predict_latent(X), kind="solve")


@classes
def test_further_samples_of_weight_zero_are_left_out_of_a_precomputed_kernel(cls):
    X, labels = blobs(50)
    gram = gram_matrix(KERNEL, X, dtype="float64")
    some = np.where(np.arange(30) % 4 == 0, 0.0, 1.0)
    gp, other = (
        cls("precomputed", n_landmarks=10, random_state=0).fit(
            gram[:20, :20], labels[:20]
        )
        for _ in range(2)
    )
    gp.partial_fit(gram[20:, :20], labels[20:], sample_weight=some)
    kept = 20 + np.flatnonzero(some)
    other.partial_fit(gram[kept, :20], labels[kept])
    np.testing.assert_array_equal(
        gp.predict_latent(gram[:, :20]), other.predict_latent(gram[:, :20])
    )


def test_another_number_of_outputs_is_refused_and_changes_nothing():
    X, Y = points()
    gp = regressor("dtc").fit(X[:30], Y[:30, 0])
    before = gp.predict(X)
    with pytest.raises(ValueError, match=r"y has 2 outputs.*first call it had 1"):
        gp.partial_fit(X[30:40], Y[30:40])
    np.testing.assert_array_equal(gp.predict(X), before)


class Frequencies(Gaussian):
    """Label regression around the frequencies of the classes."""

    def targets(self, codes, n_classes, weights):
        own = Gaussian().targets(codes, n_classes, weights)
        return Targets(own.values, own.values.mean(0))


def test_offset_of_the_likelihood_is_that_of_the_first_call():
    X, labels = blobs(60)
    gp = NystromCompletedGP(KERNEL, n_landmarks=10, likelihood=Frequencies())
    gp.partial_fit(X[:20], labels[:20], classes=[0, 1, 2])
    offset = gp.latent_offset_
    few = np.flatnonzero(labels[20:] == 0) + 20
    gp.partial_fit(X[few], labels[few])
    np.testing.assert_array_equal(gp.latent_offset_, offset)
    used = np.concatenate([np.arange(20), few])
    own = label_targets(np.append(labels[used], [0, 1, 2]))[:-3]
    np.testing.assert_allclose(gp._process.model.targets, own - offset)


def test_fitc_takes_no_further_samples_of_a_precomputed_kernel():
    X, labels = blobs(30)
    gram = gram_matrix(KERNEL, X)
    gp = NystromCompletedGP("precomputed", variance="fitc", n_landmarks=5)
    gp.fit(gram, labels)
    with pytest.raises(ValueError, match=r"variance='fitc'.*prior variances"):
        gp.partial_fit(gram, labels)


def test_a_model_keeps_landmarks_and_small_sums():
    X, labels = digits(300)
    gp = NystromCompletedGP(tiny_network(), n_landmarks=20).fit(X, labels)
    arrays = [v for v in vars(gp).values() if isinstance(v, np.ndarray)]
    arrays += [
        *vars(gp.solver_state_).values(),
        *vars(gp._process.growth.sums).values(),
        gp._process.left_out.mean,
        gp._process.left_out.var,
    ]
    largest = max(v.size for v in arrays if isinstance(v, np.ndarray))
    assert largest <= max(300 * 10, 20 * 64)
    assert gp.X_train_.shape == (20, 64)


def test_many_landmarks_are_as_good_as_the_exact_model():
    X, labels = digits(900)
    exact = ConvNetGPClassifier(tiny_network()).fit(X[:600], labels[:600])
    gp = NystromCompletedGP(tiny_network(), n_landmarks=300, random_state=0)
    gp.fit(X[:600], labels[:600])
    assert gp.score(X[600:], labels[600:]) > exact.score(X[600:], labels[600:]) - 0.02
    assert gp.fit_report_.observed_fraction == pytest.approx(0.75, abs=0.01)
    assert "observed" in str(gp.fit_report_)


@pytest.mark.filterwarnings("ignore:All covariances of different samples")
def test_works_in_a_pipeline_and_a_grid_search():
    X, labels = blobs(60)
    search = GridSearchCV(
        NystromCompletedGP(rbf(1.0), random_state=0),
        {"n_landmarks": [1, 30], "kernel__lengthscale": [0.01, 1.0]},
        cv=3,
    ).fit(X, labels)
    assert search.best_params_ == {"n_landmarks": 30, "kernel__lengthscale": 1.0}
    pipeline = make_pipeline(StandardScaler(), NystromCompletedGP(rbf(1.0)))
    assert pipeline.fit(X, labels).score(X, labels) > 0.7


@classes
def test_same_seed_same_model(cls):
    X, labels = blobs(60)
    one, two, other = (
        cls(KERNEL, n_landmarks=10, random_state=seed).fit(X, labels)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.landmark_indices_, two.landmark_indices_)
    np.testing.assert_array_equal(one.predict_latent(X), two.predict_latent(X))
    assert not np.array_equal(one.landmark_indices_, other.landmark_indices_)


@classes
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("n_landmarks", 0),
        ("n_landmarks", 2.5),
        ("n_landmarks", True),
        ("landmarks", "best"),
        ("landmarks", 3),
        ("variance", "vfe"),
        ("variance", None),
    ],
)
def test_wrong_settings_are_refused(cls, name, wrong):
    X, labels = blobs(20)
    with pytest.raises(ValueError, match=rf"The '{name}' parameter of {cls.__name__}"):
        cls(KERNEL, **{name: wrong}).fit(X, labels)


def test_noise_has_a_floor():
    X, Y = points()
    gp = regressor("dtc", noise_variance=0.0).fit(X[:N], Y[:N])
    assert gp.noise_variance_ == 1e-10
    assert np.isfinite(gp.predict(X[N:], return_std=True)).all()


LARGE = """
import numpy as np
from skconvgp import NystromCompletedGP
from skconvgp.kernels import rbf
from skconvgp.likelihoods import Gaussian, Targets

random = np.random.default_rng(0)
X, y = random.normal(size=({n}, 20)), random.integers(0, 3, {n})
gp = NystromCompletedGP(
    rbf(3.0), n_landmarks={m}, landmarks="{landmarks}", variance="{variance}",
    noise_variance={noise}, memory_budget="32 MiB", random_state=0,
)
gp.fit(X[:1000], y[:1000]).predict_latent(X[:10], return_std=True)
"""


KINDS = [
    ("uniform", "dtc", "'loo'"),
    ("uniform", "dtc", "'evidence'"),
    ("kmeans", "fitc", "1e-4"),
    ("random_pivoted", "sor", "1e-4"),
    ("leverage", "fitc", "1e-4"),
]
# Vectors, landmarks, and bytes that they may take: three columns each, and more.
FEW, MANY = (8_000, 100, 64 * 2**20), (20_000, 500, 256 * 2**20)


def peak_of(size, kind, call):
    names = ("n", "m", "landmarks", "variance", "noise")
    return peak_memory(
        LARGE.format(**dict(zip(names, size[:2] + kind, strict=True))), call
    )


@needs_peak
@pytest.mark.parametrize(
    ("size", "kind"),
    [(FEW, KINDS[0]), (FEW, KINDS[2])]
    + [pytest.param(MANY, kind, marks=pytest.mark.slow) for kind in KINDS],
)
def test_vectors_and_landmarks_hold_columns_alone(size, kind):
    call = "gp.fit(X, y).predict_latent(X, return_std=True)"
    assert peak_of(size, kind, call) <= size[2]


@needs_peak
@pytest.mark.parametrize("size", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_appended_rows_hold_columns_alone(size):
    call = "for k in range(4): gp.partial_fit(X[k::4], y[k::4], classes=range(3))"
    assert peak_of(size, ("uniform", "fitc", "1e-4"), call) <= size[2]
