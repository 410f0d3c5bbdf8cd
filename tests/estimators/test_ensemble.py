"""Processes over several kernels, weighted."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skconvgp import (
    SKOPS_TRUSTED_TYPES,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelEnsembleClassifier,
    KernelFlowsClassifier,
    NystromCompletedGP,
    gram_matrix,
    selection_report,
)
from skconvgp.completion import NearestNeighbors, SubsetOfData
from skconvgp.kernels import convnet, dense, rbf
from skconvgp.likelihoods import Dirichlet, Gaussian, Laplace
from skconvgp.solvers import ConjugateGradient
from tests.helpers.estimators import blobs, digits, label_targets

WIDTHS = (0.3, 1.0, 3.0)


def processes(widths=WIDTHS, **settings):
    settings = {"noise_variance": 0.1} | settings
    return [
        (f"rbf{i}", ConvNetGPClassifier(rbf(width), **settings))
        for i, width in enumerate(widths)
    ]


def ensemble(**settings):
    return KernelEnsembleClassifier(processes(), **settings)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_by_evidence_are_posterior_probabilities(n_classes):
    X, y = blobs(30, n_classes)
    fitted = ensemble(weights="evidence").fit(X, y)
    # The columns of the code sum to zero: orthonormal contrasts say the same once.
    contrasts = np.linalg.qr(np.eye(n_classes) - 1.0 / n_classes)[0][:, :-1]
    targets = label_targets(y) @ contrasts
    alone = []
    for _, gp in processes():
        settings = gp.get_params(deep=False)
        regressor = ConvNetGPRegressor(
            settings["kernel"],
            noise_variance=settings["noise_variance"],
            normalize_y=False,
        )
        alone.append(regressor.fit(X, targets).log_marginal_likelihood())
    expected = np.exp(alone) / np.exp(alone).sum()
    np.testing.assert_allclose(fitted.weights_, expected, rtol=1e-7)


def test_stacking_has_the_least_leave_one_out_loss():
    X, y = blobs(60)
    fitted = ensemble().fit(X, y)
    alone = [gp.fit(X, y).loo_predict_proba() for _, gp in processes()]
    loss = log_loss(y, fitted.loo_predict_proba())
    grid = np.linspace(0.0, 1.0, 21)
    others = [
        log_loss(y, np.tensordot([a, b, 1.0 - a - b], alone, axes=1))
        for a in grid
        for b in grid
        if a + b <= 1.0
    ]
    assert loss <= min(others) + 1e-7
    assert loss >= min(others) - 1e-3


def test_predictions_are_mixtures():
    X, y = blobs(40)
    X_test, _ = blobs(20, seed=1)
    words = np.array(["no", "yes", "maybe"])[y]
    fitted = ensemble().fit(X, words)
    alone = [gp.fit(X, words).predict_proba(X_test) for _, gp in processes()]
    expected = sum(w * p for w, p in zip(fitted.weights_, alone, strict=True))
    np.testing.assert_allclose(fitted.predict_proba(X_test), expected, rtol=1e-10)
    labels = fitted.classes_[expected.argmax(1)]
    np.testing.assert_array_equal(fitted.predict(X_test), labels)
    assert fitted.loo_predict().shape == (40,)
    assert set(fitted.loo_predict()) <= set(words)


def test_evidence_selects_where_stacking_mixes():
    X, X_test, y, y_test = train_test_split(
        *digits(1797), train_size=300, stratify=digits(1797)[1], random_state=0
    )
    trio = [
        ("rbf", ConvNetGPClassifier(rbf(2.0))),
        ("dense", ConvNetGPClassifier(dense(2))),
        ("network", ConvNetGPClassifier(convnet(depth=3, kernel_size=3))),
    ]
    selected = KernelEnsembleClassifier(trio, weights="evidence").fit(X, y)
    mixed = KernelEnsembleClassifier(trio).fit(X, y)
    np.testing.assert_allclose(selected.weights_, [1.0, 0.0, 0.0], atol=1e-30)
    assert np.sort(mixed.weights_)[1] > 0.2
    losses = [log_loss(y_test, gp.predict_proba(X_test)) for gp in mixed.estimators_]
    loss = log_loss(y_test, mixed.predict_proba(X_test))
    assert loss < min(losses)


@pytest.mark.parametrize("weights", ["stacking", "evidence"])
def test_sample_weights_are_repetitions(weights):
    X, y = blobs(30)
    counts = np.arange(30) % 4
    weighted = ensemble(weights=weights).fit(X, y, counts)
    rows = np.repeat(np.arange(30), counts)
    repeated = ensemble(weights=weights).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-6)
    assert len(weighted.loo_predict()) == np.count_nonzero(counts)


def test_images_pipelines_completions_and_matrices():
    X, y = digits(60)
    pair = [
        ("network", ConvNetGPClassifier(convnet(depth=1, kernel_size=3))),
        ("near", ConvNetGPClassifier(rbf(2.0), completion=NearestNeighbors(20))),
        ("landmarks", NystromCompletedGP(rbf(2.0), n_landmarks=20)),
    ]
    fitted = KernelEnsembleClassifier(pair).fit(X, y)
    assert fitted.predict_proba(X).shape == (60, 10)
    assert fitted.n_features_in_ == 64
    scaled = make_pipeline(StandardScaler(), ConvNetGPClassifier(rbf(8.0)))
    rows = X.reshape(60, 64)[:, ::2]
    both = [("raw", ConvNetGPClassifier(rbf(2.0))), ("scaled", scaled)]
    for weights in ("stacking", "evidence"):
        mixed = KernelEnsembleClassifier(both, weights=weights).fit(rows, y)
        assert mixed.score(rows, y) > 0.9
        assert mixed.loo_predict_proba().shape == (60, 10)
    gram = gram_matrix(rbf(2.0), rows, dtype="float64")
    matrix = KernelEnsembleClassifier([("one", ConvNetGPClassifier("precomputed"))])
    assert matrix.__sklearn_tags__().input_tags.pairwise
    assert matrix.fit(gram, y).score(gram, y) == 1.0


def test_parameters_are_nested_and_found_by_name():
    gp = ensemble()
    assert gp.get_params()["rbf1__kernel__lengthscale"] == 1.0
    assert set(gp.get_params(deep=False)) == {"estimators", "weights"}
    gp.set_params(rbf1__kernel__lengthscale=5.0, weights="evidence")
    assert gp.estimators[1][1].kernel.lengthscale == 5.0
    gp.set_params(rbf0=ConvNetGPClassifier(rbf(7.0)))
    assert gp.estimators[0][1].kernel.lengthscale == 7.0
    copy = clone(gp)
    copy.set_params(rbf0__kernel__lengthscale=1.0)
    assert gp.estimators[0][1].kernel.lengthscale == 7.0
    with pytest.raises(ValueError, match="rbf9"):
        gp.set_params(rbf9__kernel=None)


def test_search_names_and_pickle():
    X, y = blobs(40)
    grid = {"rbf0__kernel__lengthscale": [0.1, 0.5], "weights": ["stacking"]}
    fitted = GridSearchCV(ensemble(), grid, cv=2).fit(X, y).best_estimator_
    assert fitted.named_estimators_.rbf0 is fitted.estimators_[0]
    assert list(fitted.named_estimators_) == ["rbf0", "rbf1", "rbf2"]
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert not hasattr(fitted.estimators[0][1], "classes_")  # clones are fitted


def test_skops_trusts_what_is_in_a_file():
    sio = pytest.importorskip("skops.io")
    X, y = blobs(30)
    fitted = ensemble().fit(X, y)
    loaded = sio.loads(sio.dumps(fitted), trusted=SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert list(loaded.named_estimators_) == list(fitted.named_estimators_)


@pytest.mark.parametrize("weights", ["stacking", "evidence"])
def test_a_kernel_stands_for_the_process_of_the_selection_report(weights):
    X, y = blobs(30, 3)
    kernels = [("short", rbf(0.5)), ("long", rbf(3.0))]
    fitted = KernelEnsembleClassifier(kernels, weights=weights).fit(X, y)
    gps = [
        (name, ConvNetGPClassifier(kernel, noise_variance="evidence"))
        for name, kernel in kernels
    ]
    expected = KernelEnsembleClassifier(gps, weights=weights).fit(X, y)
    np.testing.assert_array_equal(fitted.weights_, expected.weights_)
    np.testing.assert_array_equal(fitted.predict_proba(X), expected.predict_proba(X))
    report = selection_report(dict(kernels), X, y)
    evidences = report.values[:, report.scores.index("evidence")]
    alone = [gp.log_marginal_likelihood() for gp in fitted.estimators_]
    np.testing.assert_allclose(evidences, alone, rtol=1e-12)


def test_kernels_stay_as_given_and_are_searched():
    X, y = blobs(40)
    kernels = [("one", rbf(1.0)), ("other", dense(depth=1))]
    gp = KernelEnsembleClassifier(kernels)
    copy = clone(gp)
    assert copy.get_params()["one__lengthscale"] == 1.0
    copy.set_params(one__lengthscale=2.0)
    assert gp.estimators is kernels
    assert kernels[0][1] == rbf(1.0)
    grid = {"one__lengthscale": [0.5, 2.0], "other": [dense(depth=2)]}
    fitted = GridSearchCV(gp, grid, cv=2).fit(X, y).best_estimator_
    assert fitted.estimators[1][1] == dense(depth=2)
    used = [one.kernel_ for one in fitted.estimators_]
    assert used == [one for _, one in fitted.estimators]
    assert fitted.named_estimators_.one.kernel is not kernels[0][1]
    assert fitted.loo_predict_proba().shape == (40, 3)


def test_kernels_take_images_and_mix_with_estimators():
    X, y = digits(30)
    pair = [("rows", rbf(2.0)), ("images", ConvNetGPClassifier(convnet(1, 3)))]
    gp = KernelEnsembleClassifier(pair)
    assert gp.__sklearn_tags__().input_tags.three_d_array
    assert gp.fit(X, y).score(X, y) == 1.0


class OtherClasses(ConvNetGPClassifier):
    """Knows a class that nobody has."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y)
        self.classes_ = np.append(self.classes_, 99)
        return self


class OtherLikelihood(Gaussian):
    """The same by another name."""


@pytest.mark.parametrize(
    ("estimators", "message"),
    [
        ([], "'estimators' parameter"),
        (None, "'estimators' parameter"),
        ([rbf(1.0)], "'estimators' parameter.*estimator or kernel"),
        ([("a", rbf)], "'estimators' parameter"),
        ([ConvNetGPClassifier()], "'estimators' parameter"),
        ([*processes(), ("a", ConvNetGPClassifier)], r"tuple or more. Got \('a', <cl"),
        ([(1, ConvNetGPClassifier())], r"tuple or more. Got \(1, Conv"),
        ([("mix", KernelEnsembleClassifier(processes()))], "single classifiers"),
        (2 * processes(), "not unique"),
        ([("a__b", ConvNetGPClassifier())], "must not contain __"),
        ([("weights", ConvNetGPClassifier())], "conflict"),
        ([("gp", ConvNetGPRegressor())], "takes single classifiers.*'gp'"),
        ([("svc", SVC())], "with the method 'loo_predict_proba'"),
        ([("gp", OtherClasses(rbf(1.0)))], "know the same classes.*99"),
        (
            [("gp", ConvNetGPClassifier(rbf(1.0), completion=SubsetOfData()))],
            r"same samples.*'gp' uses 13 of 30",
        ),
    ],
)
def test_bad_estimators_are_told(estimators, message):
    X, y = blobs(30)
    with pytest.raises(ValueError, match=message):
        KernelEnsembleClassifier(estimators).fit(X, y)


def test_latents_and_evidence_are_those_of_the_mixture():
    X, y = blobs(60)
    fitted = ensemble().fit(X[:40], y[:40])
    mean, std = fitted.predict_latent(X[40:], return_std=True)
    np.testing.assert_array_equal(fitted.predict_latent(X[40:]), mean)
    rng, draws = np.random.default_rng(0), []
    for weight, gp in zip(fitted.weights_, fitted.estimators_, strict=True):
        own, spread = gp.predict_latent(X[40:], return_std=True)
        n_draws = round(200_000 * weight)
        draws.append(own + spread * rng.normal(size=(n_draws, *own.shape)))
    drawn = np.concatenate(draws)
    np.testing.assert_allclose(mean, drawn.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(std, drawn.std(axis=0), rtol=0.02)


def test_covariances_are_those_of_the_mixture():
    X, y = blobs(60)
    fitted = ensemble().fit(X[:40], y[:40])
    mean, cov = fitted.predict_latent(X[40:], return_cov=True)
    np.testing.assert_array_equal(fitted.predict_latent(X[40:]), mean)
    rng, draws = np.random.default_rng(0), []
    for weight, gp in zip(fitted.weights_, fitted.estimators_, strict=True):
        own, spread = gp.predict_latent(X[40:], return_cov=True)
        of_first = rng.multivariate_normal(
            own[:, 0], spread[:, :, 0], size=round(200_000 * weight), method="cholesky"
        )
        draws.append(of_first)
    drawn = np.cov(np.concatenate(draws), rowvar=False)
    np.testing.assert_allclose(cov[:, :, 0], drawn, atol=0.02 * drawn.max())
    _, std = fitted.predict_latent(X[40:], return_std=True)
    np.testing.assert_allclose(np.diagonal(cov).T, std**2)


def test_noise_is_that_of_each_classifier():
    X, y = blobs(60)
    fitted = ensemble().fit(X[:40], y[:40])
    _, without = fitted.predict_latent(X[40:], return_std=True)
    _, noisy = fitted.predict_latent(X[40:], return_std=True, noise=True)
    added = sum(
        weight * gp.noise_variance_ * np.asarray(gp.amplitude_)
        for weight, gp in zip(fitted.weights_, fitted.estimators_, strict=True)
    )
    np.testing.assert_allclose(noisy**2 - without**2, added, rtol=1e-6)


def test_deviations_or_covariances_not_both():
    X, y = blobs(40)
    fitted = ensemble().fit(X, y)
    with pytest.raises(ValueError, match="cannot both be True"):
        fitted.predict_latent(X, return_std=True, return_cov=True)


@pytest.mark.parametrize(
    ("n_classes", "likelihood", "share"),
    [(3, "gaussian", 2 / 3), (2, "gaussian", 1 / 2), (2, "beta", 1.0)],
)
def test_evidence_is_that_of_the_mixture(n_classes, likelihood, share):
    # Of columns that sum to zero one follows from the others.
    X, y = blobs(40, n_classes)
    named = [
        (str(scale), ConvNetGPClassifier(rbf(scale), likelihood=likelihood))
        for scale in (0.9, 1.0)
    ]
    fitted = KernelEnsembleClassifier(named, weights="evidence").fit(X, y)
    alone = np.array([gp.log_marginal_likelihood() for gp in fitted.estimators_])
    first = alone[0]
    of_one_set = np.exp(share * (alone - first))
    np.testing.assert_allclose(fitted.weights_, of_one_set / of_one_set.sum())
    expected = first + np.log(of_one_set.mean()) / share
    assert fitted.log_marginal_likelihood() == pytest.approx(expected)


def test_latents_of_other_targets_are_not_mixed():
    X, y = blobs(30)
    named = [
        (word, ConvNetGPClassifier(rbf(1.0), likelihood=word, noise_variance=0.1))
        for word in ("gaussian", "laplace")
    ]
    fitted = KernelEnsembleClassifier(named).fit(X, y)
    with pytest.raises(ValueError, match=r"Latent functions of different targets"):
        fitted.predict_latent(X)
    with pytest.raises(ValueError, match=r"Evidences of different targets"):
        fitted.log_marginal_likelihood()


def test_latents_of_other_links_are_not_mixed():
    X, y = blobs(30, 2)
    named = [
        (link, ConvNetGPClassifier(rbf(1.0), likelihood=Laplace(link)))
        for link in ("logit", "softmax")
    ]
    fitted = KernelEnsembleClassifier(named).fit(X, y)
    with pytest.raises(ValueError, match=r"of Laplace.*scales.*predict_proba"):
        fitted.predict_latent(X)
    assert np.isfinite(fitted.log_marginal_likelihood())


def test_unknown_labels_are_mistakes():
    X, y = blobs(30)
    fitted = ensemble().fit(X, y)
    assert fitted.score(X, y) > 0.5
    with pytest.warns(UserWarning, match="count as mistakes"):
        assert fitted.score(X, y + 5) == 0.0


def test_what_evidence_cannot_compare_is_told():
    X, y = blobs(30)

    def fit(*estimators):
        named = list(zip("ab", estimators, strict=False))
        KernelEnsembleClassifier(named, weights="evidence").fit(X, y)

    with pytest.raises(ValueError, match=r"'log_marginal_likelihood'.*'a'"):
        fit(DummyClassifier())
    other = ConvNetGPClassifier(rbf(1.0), likelihood=OtherLikelihood())
    with pytest.raises(ValueError, match=r"Gaussian\(\), .*OtherLikelihood"):
        fit(ConvNetGPClassifier(rbf(1.0)), other)
    counts = [
        ConvNetGPClassifier(rbf(1.0), likelihood=Dirichlet(count))
        for count in (0.1, 0.01)
    ]
    with pytest.raises(ValueError, match=r"alpha_eps=0\.1.*make different targets"):
        fit(*counts)
    with pytest.raises(ValueError, match="uses 13 of 30"):
        fit(ConvNetGPClassifier(rbf(1.0), completion=SubsetOfData()))
    with pytest.raises(ValueError, match="'weights' parameter"):
        ensemble(weights="equal").fit(X, y)


@pytest.mark.parametrize(
    "estimator",
    [make_pipeline(StandardScaler(), ConvNetGPClassifier()), KernelFlowsClassifier()],
    ids=["pipeline", "flows"],
)
def test_estimators_that_take_no_weights_are_named(estimator):
    X, y = blobs(30)
    named = [("gp", ConvNetGPClassifier(rbf(1.0))), ("other", estimator)]
    with pytest.raises(ValueError, match="'other' takes no `sample_weight`"):
        KernelEnsembleClassifier(named).fit(X, y, sample_weight=np.ones(30))


def unsolved(**settings):
    """Return an ensemble whose first two classifiers end before a solution."""
    solver = ConjugateGradient(rank=1, max_iter=8, tolerance=1e-12)
    return KernelEnsembleClassifier(
        [
            ("one", ConvNetGPClassifier(rbf(2.0), solver=solver, noise_variance=0.1)),
            ("two", ConvNetGPClassifier(rbf(3.0), solver=solver, noise_variance=0.1)),
            ("exact", ConvNetGPClassifier(rbf(1.0), noise_variance=0.1)),
        ],
        **settings,
    )


def test_what_several_classifiers_warn_of_is_told_once():
    X, y = blobs(30)
    names, figures = "concerns 2 of 3 estimators, 'one', 'two'", "figures are those of"
    with pytest.warns(ConvergenceWarning, match="best iterate|inexact") as told:
        candidate = unsolved().fit(X, y)
    assert {one.filename for one in told} == {__file__}
    messages = {str(one.message) for one in told}
    (unsolved_ones,) = (one for one in messages if "best iterate" in one)
    (inexact_ones,) = (one for one in messages if "standard deviations" in one)
    assert messages == {unsolved_ones, inexact_ones}
    assert names in unsolved_ones
    assert f"{figures} 'one'" in unsolved_ones
    assert names in inexact_ones
    assert figures not in inexact_ones  # both say the same
    with pytest.warns(ConvergenceWarning, match="standard deviations") as told:
        candidate.predict_latent(X, return_std=True)
    assert [str(one.message) for one in told] == [inexact_ones]


def test_what_classifiers_warn_of_is_told_if_another_one_fails():
    X, y = blobs(30)
    candidate = unsolved()
    candidate.set_params(exact__noise_variance=-1.0)
    with (
        pytest.warns(ConvergenceWarning, match="2 of 3 estimators, 'one', 'two'"),
        pytest.raises(ValueError, match="noise_variance"),
    ):
        candidate.fit(X, y)
