"""Samples of a group are left out together, by every class that takes groups."""

import inspect

import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate

import skconvgp as sk
from skconvgp import completion, kernels, solvers
from skconvgp._protocols import lift
from skconvgp.processes import NewRows
from tests.helpers.public import CASES, CONV, PATCHES, Case, N, assert_same_bits

rbf = kernels.rbf
NOISE = 0.05
# Groups of 1 to 5 samples. The last two join those of others by equal inputs.
GROUPS = np.array(list("aabccccddefffffgghiijjkl"))
COPY_OF, COPY = [3, 10], [20, 22]
MERGED = np.where(GROUPS == "j", "c", np.where(GROUPS == "k", "f", GROUPS))
WEIGHTS = np.tile([1.0, 2.0, 0.5, 1.0], N // 4)
REFUSED = ("likelihood=Dirichlet", "likelihood=Laplace", "likelihood=Beta")
REFUSED += ("likelihood=Softmax", "likelihood=RobustMax", "likelihood=Bernoulli")
REFUSED += ("completion=NearestNeighbors",)
# Left-out values of an iterate, and features of samples that are not kept.
INEXACT = ("solver=Lsqr", "SVD", "Impute", "Factorization")
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
)


def takes_groups(case):
    return "groups" in inspect.signature(case.estimator.fit).parameters


def is_named(case, words):
    return any(word in case.name for word in words)


MORE = [
    sk.ConvNetGPClassifier(rbf(2.0), solver="cg"),
    sk.ConvNetGPRegressor(
        CONV, completion=completion.Nystrom(n_landmarks=12), random_state=0
    ),
    sk.ImageClassifier("patches", flips=False, random_state=0),
    sk.ImageRegressor("patches", flips=False, random_state=0),
    sk.ImageClassifier(
        [CONV, PATCHES],
        n_landmarks=12,
        flips=False,
        part_weights=[1.0, 1.0],
        random_state=0,
    ),
    sk.NystromCompletedGP(rbf(2.0), n_landmarks=12, variance="sor", random_state=0),
    sk.PatchGPRegressor(PATCHES, n_inducing=8, variance="sor", random_state=0),
]
TAKING = [case for case in [*CASES, *map(Case, MORE)] if takes_groups(case)]
KNOWING = [case for case in TAKING if not is_named(case, REFUSED)]
EXACT = [case for case in KNOWING if not is_named(case, INEXACT)]


def every(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def with_copies(case):
    """Return samples, two of which are copies of samples in other groups."""
    X, y, new = case.data()
    X[COPY] = X[COPY_OF]
    return X, y, new


def fixed(case):
    """Return a case whose noise is given, as far as it has one."""
    return case.new(noise_variance=NOISE)


def covariances(gp):
    """Return what a process takes for covariances of its samples, and what is left."""
    process, resources = gp._process, gp._resources()
    run = resources.run(resources.placement(0))
    state = process.state
    if not hasattr(state, "factors"):
        rows = gp.X_train_
        left = process.basis.left_out_diag
        left = 0.0 if left is None else left / process.model.mean_diag
        gram = gp._gram_of(rows)
        return gram / np.average(np.diag(gram), weights=process.model.weights), left
    X, _, _ = with_copies(Case(gp))
    new = NewRows(X.reshape(N, -1))
    values = torch.cat(
        [one for one, _ in process.basis.stream(new, run, 0, needs_diag=False)]
    )
    features = (
        values
        if state.lift_map is None
        else lift(values, torch.as_tensor(state.lift_map))
    )
    features = features.double().numpy()
    explained = (features**2).sum(1)
    variance, left = process.posterior.variance, np.zeros(N)
    if variance != "sor":
        prior = process.prior_variances(X.reshape(N, -1), resources)
        left = (prior - explained).clip(min=0.0)
    return features @ features.T, left


def by_hand(gp, merged, X):
    """Return means and variances of samples from those of other groups, by inverses."""
    model, n = gp._process.model, len(merged)
    gram, left = covariances(gp)
    of_rows = np.tile(merged, len(gram) // n)
    single = np.full(len(gram), model.noise)
    if getattr(gp._process.posterior, "variance", "") == "fitc":
        single, left = single + left, 0.0
    noise = single / model.weights
    flat = X.reshape(n, -1)
    mean, var = np.zeros((n, model.targets.shape[1])), np.zeros(n)
    for group in np.unique(merged):
        own, rest = np.flatnonzero(merged == group), np.flatnonzero(of_rows != group)
        inner = np.linalg.inv(gram[np.ix_(rest, rest)] + np.diag(noise[rest]))
        cross = gram[np.ix_(own, rest)] @ inner
        mean[own] = cross @ model.targets[rest]
        var[own] = gram[own, own] - (cross * gram[np.ix_(own, rest)]).sum(1)
    same = (flat[:, None] == flat).all(2)
    weights = same @ model.sample_weights
    return mean, var + left + single[:n] / np.minimum(weights, 1.0)


@every(EXACT)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_groups_are_left_out_as_by_hand(case, weights):
    if weights is not None and "optimizer=" in case.name:
        return  # searches take no weights
    X, y, _ = with_copies(case)
    gp = fixed(case).fit(X, y, sample_weight=weights, groups=GROUPS)
    found = gp._process.leave_out(gp._resources())
    if len(gp._training.kept) < N:
        return  # of a subset, whose samples a test of its own compares
    mean, var = by_hand(gp, MERGED, X)
    scale = np.abs(mean).max()
    np.testing.assert_allclose(found.mean, mean, atol=2e-6 * scale)
    np.testing.assert_allclose(found.var, var, rtol=2e-6)


@every(KNOWING)
def test_groups_of_one_sample_are_none(case):
    X, y, new = with_copies(case)
    weights = None if "optimizer=" in case.name else WEIGHTS
    plain = case.new().fit(X, y, sample_weight=weights)
    single = case.new().fit(X, y, sample_weight=weights, groups=np.arange(N))
    data = X, y, new
    assert_same_bits(case.results(single, data), case.results(plain, data))
    assert single.noise_variance_ == plain.noise_variance_


@every(KNOWING)
def test_groups_change_what_is_left_out_and_no_posterior(case):
    X, y, new = with_copies(case)
    plain = fixed(case).fit(X, y)
    grouped = fixed(case).fit(X, y, groups=GROUPS)
    many = isinstance(case.estimator, sk.ImageClassifier | sk.ImageRegressor)
    if not many:  # weights of parts follow what is left out
        means = [
            gp._process.latent(NewRows(new.reshape(len(new), -1)), gp._resources()).mean
            for gp in (plain, grouped)
        ]
        np.testing.assert_array_equal(*means)
    left_out = [gp._process.leave_out(gp._resources()).mean for gp in (plain, grouped)]
    assert not np.allclose(*left_out)


@every([case for case in TAKING if is_named(case, REFUSED)])
def test_who_leaves_single_samples_out_says_so(case):
    X, y, _ = case.data()
    with pytest.raises(ValueError, match="leaves out single samples, and no `groups`"):
        case.new().fit(X, y, groups=GROUPS)


@pytest.mark.parametrize(
    "estimator",
    [
        sk.ConvNetGPRegressor(rbf(2.0), optimizer="loo"),
        sk.PatchGPClassifier(PATCHES, inference="variational"),
    ],
    ids=repr,
)
def test_settings_that_leave_single_samples_out_are_refused(estimator):
    X, y, _ = Case(estimator).data()
    with pytest.raises(ValueError, match="leaves out single samples, and no `groups`"):
        estimator.fit(X, y, groups=GROUPS)


@every([case for case in KNOWING if case.name.count("completion=") == 0][:12])
def test_wrong_groups_are_refused_before_work(case):
    X, y, _ = case.data()
    ones = np.ones(N)
    for bad, words in (
        (ones[1:], f"`groups` has {N - 1} values, and X has {N} samples"),
        (np.ones((N, 1)), "`groups` must have one dimension"),
        (3, "`groups` must have one dimension"),
        (np.where(np.arange(N) == 1, np.nan, 1.0), "`groups` holds nan"),
        (np.array([None, *"b" * (N - 1)], dtype=object), "`groups` holds None"),
    ):
        new = case.new()
        with pytest.raises(ValueError, match=words):
            new.fit(X, y, groups=bad)
        assert not hasattr(new, "n_features_in_")


def few_groups(seed, n_groups, size):
    """Return vectors of groups of one class each, which differ more than classes."""
    labels = np.arange(n_groups) % 5
    centres = 0.5 * np.random.default_rng(99).normal(size=(5, 20))
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    own = centres[labels] + rng.normal(size=(n_groups, 20))
    rows = own[groups] + 0.5 * rng.normal(size=(len(groups), 20))
    return rows, labels[groups], groups


def test_left_out_answers_of_few_groups_are_those_of_new_groups():
    told, new, losses = [], [], []
    for seed in range(4):
        X, y, groups = few_groups(seed, 15, 7)
        X_test, y_test, _ = few_groups(100 + seed, 200, 3)
        gp = sk.ConvNetGPClassifier(rbf(6.0)).fit(X, y, groups=groups)
        told.append(np.mean(gp.loo_predict() == y))
        new.append(gp.score(X_test, y_test))
        y_prob = gp.predict_proba(X_test)
        losses.append(-np.log(y_prob[np.arange(len(y_test)), y_test]).mean())
    # Uniform probabilities have a log loss of 1.61.
    assert np.mean(new) > 0.4
    assert np.mean(told) == pytest.approx(np.mean(new), abs=0.12)
    assert np.mean(losses) < 1.45


CALIBRATED = [
    case
    for case in EXACT
    if hasattr(case.estimator, "loo_predict_proba") and "optimizer=" not in case.name
]


@every(CALIBRATED)
def test_scores_of_groups_are_restored(case):
    X, y, _ = with_copies(case)
    gp = fixed(case).fit(X, y, groups=GROUPS)
    found = gp._process.leave_out(gp._resources())
    kept = gp._training.kept
    X, y, merged = X[kept], y[kept], MERGED[kept]
    codes = np.searchsorted(gp.classes_, y)
    one_hot = np.eye(len(gp.classes_))[codes]
    off, total = -1.0 / (one_hot.shape[1] - 1), one_hot.sum(0)
    flat = X.reshape(len(X), -1)
    alone = (flat[:, None] == flat).all(2) @ one_hot
    whole = (merged[:, None] == merged) @ one_hot
    with np.errstate(divide="ignore"):
        factors = np.where(total > whole, (total - alone) / (total - whole), 1.0)
    scores = found.mean + gp.latent_offset_ - off
    restored = np.where(scores > 0.0, factors[found.indices] * scores, scores) + off
    np.testing.assert_allclose(gp._left_out()[1], restored, rtol=1e-12, atol=1e-12)


GROWING = [case for case in KNOWING if hasattr(case.estimator, "partial_fit")]


@every([case for case in GROWING if case.name != "ImageClassifier(random_state=0)"])
def test_no_samples_are_added_after_groups(case):
    X, y, _ = case.data()
    fitted = case.new().fit(X, y, groups=GROUPS)
    given = {"classes": np.unique(y)} if is_classifier(fitted) else {}
    with pytest.raises(ValueError, match="was fitted with `groups`, to which"):
        fitted.partial_fit(X, y, **given)


@pytest.mark.parametrize("cls", [sk.ConvNetGPClassifier, sk.PatchGPClassifier])
def test_one_group_chooses_no_noise(cls):
    X, y, new = Case(cls()).data()
    with pytest.warns(UserWarning, match="not calibrated, as all samples are in one"):
        gp = cls(random_state=0).fit(X, y, groups=np.zeros(N))
    assert gp.temperature_ == 1.0
    assert gp.noise_variance_ == 1e-4
    assert "all samples are in one group" in gp.fit_report_.noise_reason
    found = gp.predict_proba(new)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(
        gp.predict(new), cls(random_state=0, noise_variance=1e-4).fit(X, y).predict(new)
    )


def test_two_classes_that_are_groups_are_told_apart_by_the_prior():
    X, y, _ = Case(sk.ConvNetGPClassifier()).data()
    gp = sk.ConvNetGPClassifier(rbf(2.0)).fit(X, y, groups=y)
    assert np.isfinite(gp.loo_predict_proba()).all()
    # Nothing of its class is left to predict a sample from.
    assert (gp.loo_predict() == y).mean() < 0.2


def test_splitters_and_estimators_take_groups():
    X, y, _ = Case(sk.ConvNetGPClassifier()).data()
    search = GridSearchCV(
        sk.ConvNetGPClassifier(rbf(2.0)),
        {"noise_variance": [0.01, 0.1]},
        cv=GroupKFold(3),
    )
    search.fit(X, y, groups=GROUPS)
    with sklearn.config_context(enable_metadata_routing=True):
        gp = sk.ConvNetGPClassifier(rbf(2.0)).set_fit_request(groups=True)
        assert clone(gp).get_metadata_routing().fit.requests["groups"] is True
        found = cross_validate(
            gp, X, y, cv=GroupKFold(3), params={"groups": GROUPS}, return_estimator=True
        )
    for fitted in found["estimator"]:
        assert fitted._process.left_out.groups is not None


@pytest.mark.filterwarnings("ignore:72 of 72 images:UserWarning")
def test_noise_is_chosen_by_what_is_left_out():
    """Copies with noise predict each other, unless their groups are left out."""
    rng = np.random.default_rng(0)
    images, _, _ = Case(sk.ConvNetGPRegressor()).data()
    X = np.concatenate([rng.normal(images, 0.01) for _ in range(3)])
    y = np.tile(rng.normal(size=N), 3)
    groups = np.tile(np.arange(N), 3)
    alone = sk.ConvNetGPRegressor(rbf(2.0), noise_variance="loo").fit(X, y)
    with_groups = clone(alone).fit(X, y, groups=groups)
    # Targets are noise: nothing of a group predicts others.
    assert with_groups.noise_variance_ > 100.0 * alone.noise_variance_
    for settings in ({}, {"solver": solvers.Cholesky()}):
        again = clone(alone).set_params(**settings).fit(X, y, groups=groups.astype(str))
        assert again.noise_variance_ == with_groups.noise_variance_


@pytest.mark.parametrize("cls", [sk.PatchGPClassifier, sk.PatchGPRegressor])
@pytest.mark.parametrize("n_kept", [3, 10])
def test_images_that_are_not_kept_are_left_out_with_their_groups(
    cls, n_kept, monkeypatch
):
    """Groups are kept as a whole, and others are read as a whole later."""
    case = Case(cls(PATCHES, n_inducing=8, noise_variance=NOISE, random_state=0))
    X, y, _ = with_copies(case)
    whole = case.new().fit(X, y, groups=GROUPS)
    monkeypatch.setattr("skconvgp.processes.fits._image_rows.KEPT_IMAGES", n_kept)
    monkeypatch.setattr("skconvgp.processes.posterior._left_out_images.AT_ONCE", 4)
    gp = case.new().fit(X, y, groups=GROUPS)
    resources = gp._resources()
    some = gp._process.leave_out(resources, is_subset_enough=True)
    kept = set(MERGED[some.indices])
    assert 0 < len(some.indices) < N
    assert len(some.indices) == np.isin(MERGED, list(kept)).sum()
    expected = whole._process.leave_out(resources)
    for found in (some, gp._process.leave_out(resources)):
        np.testing.assert_allclose(found.mean, expected.mean[found.indices], atol=1e-6)
        np.testing.assert_allclose(found.var, expected.var[found.indices], rtol=1e-6)


def test_a_subset_keeps_the_groups_of_its_samples():
    part = completion.SubsetOfData(n_samples=15)
    case = Case(sk.ConvNetGPClassifier(rbf(2.0), completion=part, random_state=0))
    X, y, _ = case.data()
    gp = fixed(case).fit(X, y, groups=GROUPS)
    kept = gp._training.kept
    exact = sk.ConvNetGPClassifier(rbf(2.0), noise_variance=NOISE)
    exact.fit(X[kept], y[kept], groups=GROUPS[kept])
    found, expected = (one._process.leave_out(one._resources()) for one in (gp, exact))
    np.testing.assert_allclose(found.var, expected.var)
    # The offset of the targets is that of all samples.
    targets = gp._process.model.targets - exact._process.model.targets
    assert np.ptp(targets, axis=0).max() < 1e-12
    by_group, _ = by_hand(gp, GROUPS[kept], X[kept])
    np.testing.assert_allclose(found.mean, by_group, atol=1e-9)
