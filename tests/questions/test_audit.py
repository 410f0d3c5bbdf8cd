"""The audit of a training set, against formulas word for word."""

import itertools
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skconvgp import (
    BayesianNetworkClassifier,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    KernelEnsembleClassifier,
    NystromCompletedGP,
    PatchGPClassifier,
    gram_matrix,
)
from skconvgp.completion import NearestNeighbors, SubsetOfData
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.processes import alike_samples
from skconvgp.processes.posterior import _alike
from skconvgp.questions import audit
from skconvgp.questions._findings import rank_labels
from skconvgp.solvers import Cholesky, ConjugateGradient, RefinedCholesky
from tests.helpers.conformal import all_left_out, count_factors
from tests.helpers.estimators import blobs, digits

NOISE = 0.1


def column(found, finding, name):
    return [one[name] for one in found.records(finding)]


def confident(labels, proba):
    """Return which samples confident learning tells, and how probable their label is.

    Northcutt et al., 2021, section 3.1, in loops.
    """
    n, k = proba.shape
    means = [
        np.mean([proba[i, c] for i in range(n) if labels[i] == c]) for c in range(k)
    ]
    told = []
    for i in range(n):
        enough = [c for c in range(k) if proba[i, c] >= means[c]]
        if not enough:
            continue
        counted = max(enough, key=lambda c: proba[i, c])
        if counted != labels[i] and proba[i].argmax() != labels[i]:
            told.append((proba[i, labels[i]], i))
    return [i for _, i in sorted(told)]


def pairs_of(gram, kinds, near, apart=None):
    """Return near copies as (index, other): in loops, by 1 less the correlation."""
    n = len(gram)
    std = np.sqrt(np.diag(gram))
    distance = 1.0 - gram / np.outer(std, std)
    usual = np.median([distance[i, j] for i in range(n) for j in range(i)])
    found = {}
    for i in range(n):
        for is_kind in (True, False):
            before = [
                j
                for j in range(i)
                if (kinds[i] == kinds[j]) == is_kind
                and not (apart is not None and apart[i] == apart[j])
            ]
            if before:
                j = min(before, key=lambda j: distance[i, j])
                if distance[i, j] < near * usual:
                    found[i, j] = distance[i, j] / usual
    return found


def wrong_blobs(n=80, n_wrong=6):
    X, y = blobs(n)
    y[:n_wrong] = (y[:n_wrong] + 1) % 3
    return X, y


@pytest.mark.parametrize("names", [np.arange(3), np.array(["x", "y", "z"])])
def test_wrong_labels_are_those_of_confident_learning(names):
    X, y = wrong_blobs()
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, names[y])
    found, proba = audit(gp), gp.loo_predict_proba()
    expected = confident(y, proba)
    assert 3 < len(expected) < 40
    assert column(found, "wrong_labels", "index") == expected
    for one in found.records("wrong_labels"):
        of_sample = proba[one["index"]]
        assert one["label"] == names[y[one["index"]]]
        assert one["proposal"] == names[of_sample.argmax()]
        assert one["proposal_probability"] == of_sample.max()
        assert one["probability"] == of_sample[y[one["index"]]]


@pytest.mark.parametrize("names", [np.arange(3), np.array(["x", "y", "z"])])
def test_all_labels_are_ranked_with_what_the_rule_says_of_them(names):
    X, y = wrong_blobs()
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, names[y])
    found, proba = audit(gp), gp.loo_predict_proba()
    own = proba[np.arange(80), y]
    told = confident(y, proba)
    ranking = found.records("labels")
    assert [one["index"] for one in ranking] == sorted(range(80), key=own.__getitem__)
    assert [one["index"] for one in ranking if one["is_told"]] == told
    doubtful = [
        i
        for i in sorted(range(80), key=own.__getitem__)
        if proba[i].argmax() != y[i] and i not in told
    ]
    assert column(found, "doubtful_labels", "index") == doubtful
    assert len(doubtful) > 2
    for one in (*ranking, *found.records("doubtful_labels")):
        of_sample = proba[one["index"]]
        assert one["label"] == names[y[one["index"]]]
        assert one["proposal"] == names[of_sample.argmax()]
        assert one["proposal_probability"] == of_sample.max()
        assert one["probability"] == of_sample[y[one["index"]]]
    assert f"doubtful labels   {len(doubtful)}\n" in str(found)


def test_a_clear_label_below_the_mean_of_its_class_is_worth_a_look():
    """Confident learning asks for the mean of a class, however large that is."""
    codes = np.arange(20) % 2
    for usual, is_told in ((0.9, False), (0.85, True)):
        proba = np.where(np.eye(2)[codes] == 1.0, usual, 1.0 - usual)
        proba[4] = 0.12, 0.88  # labelled 0
        every = np.ones(20)
        found = rank_labels(np.arange(2), codes, proba, every, every.astype(bool))
        assert found["index"][0] == 4
        assert (found["label"][0], found["proposal"][0]) == (0, 1)
        assert found["is_told"].tolist() == [is_told] + 19 * [False]


def test_targets_are_ranked_by_their_distance():
    X, y = blobs(40)
    y = X @ [1.0, -1.0] + 0.1 * np.random.default_rng(0).normal(size=40)
    y[7] += 5.0
    gp = ConvNetGPRegressor(rbf(2.0), noise_variance=0.1).fit(X, y)
    found = audit(gp)
    ranking = found.records("labels")
    size = [abs(one["score"]) for one in ranking]
    assert size == sorted(size, reverse=True)
    assert sorted(one["index"] for one in ranking) == list(range(40))
    assert ranking[0]["index"] == 7
    told = [one["index"] for one in ranking if one["is_told"]]
    assert told == column(found, "wrong_labels", "index")
    assert [value > 3.5 for value in size] == [one["is_told"] for one in ranking]
    assert found.records("doubtful_labels") == []


def test_changed_labels_of_digits_are_found():
    X, y = digits(200)
    rng = np.random.default_rng(0)
    changed = rng.choice(200, 10, replace=False)
    y[changed] = (y[changed] + rng.integers(1, 10, 10)) % 10
    first = column(
        audit(ImageClassifier(random_state=0).fit(X, y)), "wrong_labels", "index"
    )
    assert len(set(first[:10]) & set(changed)) >= 8


def test_a_weight_is_a_number_of_copies():
    """Copies are left out with their sample; thresholds count each of them."""
    X, y = wrong_blobs(60)
    weights = np.arange(60) % 3 + 1.0
    weights[4] = 0.0
    given = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE)
    found = audit(given.fit(X, y, sample_weight=weights))
    again = np.repeat(np.arange(60), weights.astype(int))
    copied = audit(given.fit(X[again], y[again]))
    assert found.n_samples == 59
    of_copies = dict.fromkeys(again[column(copied, "wrong_labels", "index")].tolist())
    assert column(found, "wrong_labels", "index") == list(of_copies)
    assert len(of_copies) > 3


def test_weights_and_copies_have_the_same_outliers_and_confused_classes():
    X, y = wrong_blobs(60)
    X[20], X[50] = 9.0, 12.0
    weights = np.arange(60) % 3 + 1.0
    given = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE)
    found = audit(given.fit(X, y, sample_weight=weights))
    again = np.repeat(np.arange(60), weights.astype(int))
    copied = audit(given.fit(X[again], y[again]))
    of_copies = {
        again[one["index"]]: one["score"] for one in copied.records("outliers")
    }
    of_weights = {one["index"]: one["score"] for one in found.records("outliers")}
    assert {20, 50} <= set(of_weights)
    assert of_weights == pytest.approx(of_copies, rel=1e-9)
    both = found.records("confused_classes"), copied.records("confused_classes")
    assert len(both[0]) > 2
    for name in ("label", "proposal"):
        assert [one[name] for one in both[0]] == [one[name] for one in both[1]]
    np.testing.assert_allclose(*([one["share"] for one in each] for each in both))
    clearest = [one["index"] for one in both[0]]
    assert clearest == [again[one["index"]] for one in both[1]]
    # A count is of the samples that were given.
    best = given.fit(X, y, sample_weight=weights).loo_predict()
    counts = [one["count"] for one in both[0]]
    pairs = [(y == one["label"]) & (best == one["proposal"]) for one in both[0]]
    assert counts == [pair.sum() for pair in pairs]


def test_samples_alone_in_their_class_have_no_scale():
    X, y = digits(12)
    found = audit(ImageClassifier(random_state=0).fit(X, y))
    classes, sizes = np.unique(y, return_counts=True)
    alone = classes[sizes == 1]
    assert len(alone) > 6
    assert not np.isin(y[column(found, "outliers", "index")], alone).any()
    assert max(column(found, "outliers", "score"), default=0.0) < 1e3
    assert not np.isin(column(found, "confused_classes", "label"), alone).any()


def test_a_class_of_one_group_is_not_judged():
    X, y = blobs(60)
    groups = np.where(y == 2, 99, np.arange(60))
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X, y, groups=groups)
    assert (gp.loo_predict()[y == 2] != 2).all()
    found = audit(gp)
    assert 2 not in column(found, "confused_classes", "label")
    assert 2 not in y[column(found, "outliers", "index")]


def test_equal_inputs_count_once_among_outliers():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    X[:30] = X[0]
    X[49] = 30.0
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=NOISE, amplitude=1.0)
    found = audit(gp.fit(X, y))
    var = gp._left_out()[2][29:]
    score = np.log(var) - np.median(np.log(var))
    score /= 1.4826 * np.median(np.abs(score))
    told = column(found, "outliers", "index")
    assert set(told) == set(29 + np.flatnonzero(score > 3.5)) - {29}
    np.testing.assert_allclose(
        column(found, "outliers", "score"), score[np.array(told, int) - 29]
    )


def test_variances_without_a_spread_have_no_outliers():
    given = ConvNetGPRegressor("precomputed", noise_variance=NOISE, amplitude=1.0)
    # Pairs explain each other alike; two samples are alone.
    gram = np.eye(12)
    pairs = np.arange(0, 10, 2)
    gram[pairs, pairs + 1] = gram[pairs + 1, pairs] = 0.9
    assert not len(audit(given.fit(gram, np.arange(12.0))).outliers)


@pytest.mark.parametrize("solver", [Cholesky(), RefinedCholesky(), ConjugateGradient()])
def test_near_copies_are_all_pairs_below_a_distance(solver):
    X, y = blobs(60)
    X[50], X[51], X[52] = X[3], X[4] + 1e-4, X[50]
    y[50], y[52], y[51] = y[3], y[3] + 1, y[4]
    y %= 3
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE, solver=solver)
    gp.fit(X, y)
    found = audit(gp, near=0.02)
    expected = pairs_of(gram_matrix(gp.kernel_, X), y, 0.02)
    assert len(expected) > 6
    pairs = list(
        zip(*(column(found, "near_copies", n) for n in ("index", "other")), strict=True)
    )
    assert set(pairs) == set(expected)
    distances = column(found, "near_copies", "distance")
    assert distances == sorted(distances)
    # The median of an even number of distances is the lower one of two.
    np.testing.assert_allclose(
        distances, [expected[pair] for pair in pairs], rtol=1e-2, atol=1e-6
    )
    labels = [y[[i, j]].tolist() for i, j in pairs]
    told = [column(found, "near_copies", n) for n in ("label", "other_label")]
    assert [list(two) for two in zip(*told, strict=True)] == labels
    assert found.n_compared == found.n_samples == 60
    assert {(50, 3), (52, 3)} <= set(pairs)


@pytest.mark.parametrize("has_features", [False, True])
def test_blocks_find_the_same_near_copies(monkeypatch, has_features):
    X, y = blobs(90)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X, y)
    if has_features:
        gp = NystromCompletedGP(rbf(1.0), n_landmarks=30, random_state=0).fit(X, y)
    whole = audit(gp, near=0.1).records("near_copies")
    assert len(whole) > 10
    monkeypatch.setattr(_alike, "NUMBERS", 7 * 90)
    found = audit(gp, near=0.1).records("near_copies")
    assert [one["index"] for one in found] == [one["index"] for one in whole]
    for one, other in zip(found, whole, strict=True):
        assert one["other"] == other["other"]
        np.testing.assert_allclose(one["distance"], other["distance"])


def test_a_given_matrix_and_its_kernel_have_the_same_findings():
    X, y = wrong_blobs(60)
    X[50], X[20] = X[51] + 1e-4, 20.0
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X, y)
    given = ConvNetGPClassifier("precomputed", noise_variance=NOISE)
    given.fit(gram_matrix(gp.kernel_, X), y)
    one, other = audit(gp), audit(given)
    for name in ("outliers", "near_copies"):
        assert column(one, name, "index") == column(other, name, "index")
    assert column(one, "near_copies", "index")[0] == 51
    assert column(one, "outliers", "index")[0] == 20


@pytest.mark.parametrize("has_features", [False, True])
def test_samples_of_a_group_are_no_near_copies_unless_they_are_equal(has_features):
    X, y = blobs(40)
    X[20:30] = X[:10] + 1e-4
    X[39] = X[38]
    groups = np.arange(40)
    groups[20:30] = groups[:10]
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE)
    if has_features:
        gp = NystromCompletedGP(rbf(1.0), n_landmarks=30, random_state=0)
    assert len(audit(gp.fit(X, y), near=1e-3).near_copies) >= 11
    found = audit(gp.fit(X, y, groups=groups), near=1e-3).records("near_copies")
    assert [(one["index"], one["other"]) for one in found] == [(39, 38)]


def test_features_compare_the_samples_that_they_are_kept_of():
    X, y = blobs(700)
    X[600:] = X[:100] + 1e-5
    gp = NystromCompletedGP(rbf(1.0), n_landmarks=120, random_state=0).fit(X, y)
    found = audit(gp, near=1e-6)
    assert found.n_compared == 500
    assert f"among {found.n_compared} of the samples" in str(found)
    pairs = {(one["index"], one["other"]) for one in found.records("near_copies")}
    assert 20 < len(pairs) <= 100
    assert all(i - j == 600 for i, j in pairs)


@pytest.mark.parametrize("n_landmarks", [1, 10, 60])
def test_features_tell_no_more_than_correlations_in_the_prior(n_landmarks):
    """What landmarks do not explain is no reason to be alike."""
    X, y = digits(200)
    X[150], X[151], y[150] = X[3], X[4], (y[3] + 1) % 10
    gp = NystromCompletedGP(rbf(1.0), n_landmarks=n_landmarks, random_state=0)
    found = audit(gp.fit(X, y)).records("near_copies")
    pairs = [(one["index"], one["other"], one["distance"]) for one in found]
    assert pairs == [(150, 3, 0.0), (151, 4, 0.0)]
    rows = gp._process.growth.reservoir.rows.rows
    features, residual = np.asarray(rows.features), np.asarray(rows.residual_diag)
    gram = features @ features.T + np.diag(residual)
    apart = np.arange(200)
    apart[[150, 151]] = 3, 4
    expected = pairs_of(gram, y, 0.91, apart)
    found = audit(gp, near=0.9).records("near_copies")
    told = {(one["index"], one["other"]): one["distance"] for one in found}
    assert [told[pair] for pair in [(150, 3), (151, 4)]] == [0.0, 0.0]
    told, least, most = (
        {pair: pairs[pair] for pair in pairs if pair[0] not in (150, 151)}
        for pairs in (told, pairs_of(gram, y, 0.89, apart), expected)
    )
    assert len(told) > 2
    assert set(least) <= set(told) <= set(most)
    for pair, distance in told.items():
        np.testing.assert_allclose(distance, most[pair], rtol=1e-2)


def test_features_without_prior_variances_do_not_answer():
    gp = NystromCompletedGP(rbf(1.0), n_landmarks=10, variance="sor", random_state=0)
    found = audit(gp.fit(*blobs(60)))
    assert found.near_copies is None
    assert "keeps no prior variances" in found.unanswered["near_copies"]


@pytest.mark.parametrize("variance", ["dtc", "sor"])
@pytest.mark.parametrize("n_inducing", [1, 12])
def test_copies_of_images_are_found_by_patches(n_inducing, variance):
    X, y = digits(60)
    X[50] = (np.round(255.0 * X[3]) / 255.0).astype(np.float32)  # stored in a file
    kernel = PatchKernel(rbf(1.0), patch_size=3)
    gp = PatchGPClassifier(
        kernel, n_inducing=n_inducing, variance=variance, random_state=0
    )
    found = audit(gp.fit(X, y)).records("near_copies")
    assert [(one["index"], one["other"]) for one in found] == [(50, 3)]


def test_pairs_of_kept_images_have_the_distances_of_the_kernel():
    X, y = digits(60)
    X[50] = X[3]
    kernel = PatchKernel(rbf(1.0), patch_size=3)
    gp = PatchGPClassifier(kernel, n_inducing=30, random_state=0).fit(X, y)
    found = audit(gp, near=0.4).records("near_copies")
    usual = alike_samples(gp._process, y, 0.4, gp._resources()).usual
    gram = gram_matrix(gp.kernel_, X)
    std = np.sqrt(np.diag(gram))
    distance = (1.0 - gram / np.outer(std, std)) / usual
    assert len(found) > 5
    for one in found:
        exact = distance[one["index"], one["other"]]
        np.testing.assert_allclose(one["distance"], exact, rtol=1e-2, atol=1e-6)


def test_copies_are_found_by_landmarks_of_images():
    X, y = digits(120)
    X[50] = (np.round(255.0 * X[3]) / 255.0).astype(np.float32)
    X[51] = X[4]
    gp = ImageClassifier(n_landmarks=5, random_state=0).fit(X, y)
    found = audit(gp).records("near_copies")
    assert [(one["index"], one["other"]) for one in found] == [(51, 4), (50, 3)]


@pytest.mark.parametrize("contrast", [1e-2, 1e-3])
def test_rounding_makes_no_copies(contrast):
    X, y = digits(60)
    X = (0.95 + contrast * X).astype(np.float32)
    X[50] = X[3]
    kernel = PatchKernel(rbf(2.0), patch_size=3)
    found = audit(ConvNetGPClassifier(kernel, dtype="float32").fit(X, y))
    pairs = [(one["index"], one["other"]) for one in found.records("near_copies")]
    assert pairs == [(50, 3)]
    assert column(found, "near_copies", "distance") == [0.0]
    assert max(column(found, "outliers", "score"), default=0.0) < 1e3


@pytest.mark.parametrize("gp", [ImageClassifier(random_state=0), PatchGPClassifier()])
def test_equal_images_are_copies_at_a_distance_of_0(gp):
    X, y = np.zeros((12, 8, 8)), np.arange(12) % 2
    with pytest.warns(UserWarning, match="All 12 training samples are equal"):
        gp.fit(X, y)
    found = audit(gp)
    assert set(column(found, "near_copies", "index")) == set(range(1, 12))
    assert set(column(found, "near_copies", "distance")) == {0.0}


def test_outliers_have_large_left_out_variances_for_their_class():
    X, y = blobs(90)
    X[7], X[50] = [30.0, 30.0], [-9.0, 9.0]
    gp = ConvNetGPClassifier(rbf(2.0), noise_variance=NOISE).fit(X, y)
    gram = gram_matrix(gp.kernel_, X)
    _, var = all_left_out(gram, np.full(90, NOISE), np.zeros((90, 1)), np.arange(90))
    score = np.log(var)
    for code in range(3):
        score[y == code] -= np.median(score[y == code])
    score /= 1.4826 * np.median(np.abs(score))
    expected = np.flatnonzero(score > 3.5)
    found = audit(gp)
    told = column(found, "outliers", "index")
    assert set(told) == set(expected)
    assert {7, 50} <= set(told)
    np.testing.assert_allclose(column(found, "outliers", "score"), score[told])
    assert column(found, "outliers", "label") == y[told].tolist()


def test_landmarks_are_no_outliers():
    X, y = blobs(90)
    gp = NystromCompletedGP(rbf(0.3), n_landmarks=45, random_state=0).fit(X, y)
    is_landmark = gp._training.are_landmarks
    told = column(audit(gp), "outliers", "index")
    assert not is_landmark[told].any()


def test_confused_classes_are_counted():
    X, y = blobs(90)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    proba = gp.loo_predict_proba()
    expected = {}
    for own, other in itertools.permutations(range(3), 2):
        those = (y == own) & (proba.argmax(1) == other)
        if those.any():
            clear = np.where(those, proba[:, other] - proba[:, own], -1.0).argmax()
            expected[own, other] = int(those.sum()), int(clear)
    records = audit(gp).records("confused_classes")
    assert {
        (one["label"], one["proposal"]): (one["count"], one["index"]) for one in records
    } == expected
    counts = [one["count"] for one in records]
    assert counts == sorted(counts, reverse=True)
    for one in records:
        np.testing.assert_allclose(one["share"], one["count"] / 30)


def test_small_classes_count_samples_that_are_left_out_by_themselves():
    X, y = blobs(60)
    y[:] = 0
    y[10:18], y[20:32] = 1, 2
    X[24:32] = X[20:24].repeat(2, axis=0)  # four different ones beside
    y[59] = 3
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    found = audit(gp)
    assert [
        (one["label"], one["count"], one["index"])
        for one in found.records("small_classes")
    ] == [(3, 1, 59), (2, 4, 20), (1, 8, 10)]
    # Nothing is known of a class without its only sample.
    assert 59 not in column(found, "wrong_labels", "index")


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_targets_far_from_left_out_predictions_are_found(n_outputs):
    X = np.linspace(0.0, 6.0, 60)[:, None]
    y = np.sin(X) * np.arange(1.0, n_outputs + 1.0) + 2.0
    y += 0.05 * np.random.default_rng(0).normal(size=y.shape)
    y[17, -1] += 3.0
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y[:, 0] if n_outputs == 1 else y)
    mean, std = (one.reshape(60, -1) for one in gp.loo_predict(return_std=True))
    found = audit(gp)
    score = (y - mean) / std
    first = found.records("wrong_labels")[0]
    assert first["index"] == 17
    assert ("output" in first) == (n_outputs == 2)
    assert first.get("output", 0) == n_outputs - 1
    at = 17, n_outputs - 1
    for name, value in (("target", y), ("proposal", mean), ("score", score)):
        np.testing.assert_allclose(first[name], value[at])
    assert len(found.wrong_labels) == (np.abs(score) > 3.5).sum()
    assert not len(found.confused_classes)
    assert not len(found.small_classes)


def test_regressors_have_outliers_and_copies():
    X = np.linspace(0.0, 6.0, 60)[:, None]
    X[30], X[40] = 40.0, X[41] + 1e-4
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=NOISE).fit(X, X[:, 0])
    found = audit(gp, near=1e-4)
    assert column(found, "outliers", "index")[0] == 30
    near = found.records("near_copies")
    assert [(one["index"], one["other"]) for one in near] == [(41, 40)]
    assert "label" not in near[0]


def test_ensembles_say_what_they_do_not_know():
    X, y = wrong_blobs()
    gp = KernelEnsembleClassifier([("a", rbf(1.0)), ("b", rbf(2.0))]).fit(X, y)
    found = audit(gp)
    assert column(found, "wrong_labels", "index") == confident(
        y, gp.loo_predict_proba()
    )
    assert found.near_copies is None
    assert found.outliers is None
    assert found.records("outliers") == []
    assert "ask one of `estimators_`" in found.unanswered["near_copies"]
    assert "outliers          unknown: it is made of several models" in str(found)


def test_samples_of_a_subset_are_judged_as_all_are():
    X, y = blobs(60)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE, random_state=0)
    gp.set_params(completion=SubsetOfData(), observed_fraction=0.5).fit(X, y)
    kept = gp.landmark_indices_
    X[kept[3]] = 30.0
    np.testing.assert_array_equal(gp.fit(X, y).landmark_indices_, kept)
    whole = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X[kept], y[kept])
    found, expected = audit(gp), audit(whole)
    assert column(found, "outliers", "index") == [
        int(kept[i]) for i in column(expected, "outliers", "index")
    ]
    assert kept[3] in column(found, "outliers", "index")


def test_neighbours_are_not_compared():
    X, y = blobs(60)
    gp = ConvNetGPClassifier(
        rbf(1.0), completion=NearestNeighbors(8), noise_variance=NOISE
    )
    found = audit(gp.fit(X, y))
    assert found.near_copies is None
    assert "keeps no covariances" in found.unanswered["near_copies"]
    assert found.outliers is not None


def test_findings_are_frames_and_records_without_pandas(monkeypatch):
    X, y = wrong_blobs()
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    found = audit(gp)
    assert isinstance(found.wrong_labels, pd.DataFrame)
    monkeypatch.setitem(sys.modules, "pandas", None)
    records = audit(gp)
    assert isinstance(records.wrong_labels, list)
    for name in ("wrong_labels", "near_copies", "outliers", "confused_classes"):
        assert records.records(name) == found.records(name)
        assert getattr(records, name) == found.records(name)
    assert str(records) == str(found)


def test_nothing_is_factored(monkeypatch):
    X, y = blobs(60)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    counted = count_factors(monkeypatch)
    audit(gp)
    assert counted == []


def test_equal_samples_are_all_copies():
    X, y = np.ones((12, 2)), np.arange(12) % 2
    with pytest.warns(UserWarning, match="All 12 training samples are equal"):
        gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X, y)
    found = audit(gp)
    assert set(column(found, "near_copies", "index")) == set(range(1, 12))
    assert set(column(found, "near_copies", "distance")) == {0.0}
    assert not len(found.outliers)


def test_one_sample_is_no_pair():
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=NOISE, amplitude=1.0)
    found = audit(gp.fit([[1.0]], [2.0]))
    assert found.n_samples == 1
    assert not len(found.near_copies)


@pytest.mark.parametrize("near", [0.0, -1.0, 2.0, "near", None])
def test_distances_are_shares(near):
    gp = ConvNetGPClassifier(rbf(1.0)).fit(*blobs(20))
    with pytest.raises(ValueError, match="'near' parameter of audit must be"):
        audit(gp, near)


def test_who_cannot_answer_says_what_to_use():
    X, y = blobs(30)
    gp = ConvNetGPClassifier(rbf(1.0))
    with pytest.raises(NotFittedError):
        audit(gp)
    search = GridSearchCV(gp, {"noise_variance": [0.1, 1.0]}, cv=2).fit(X, y)
    with pytest.raises(ValueError, match=r"`audit`: .* use its `best_estimator_`"):
        audit(search)
    pipeline = make_pipeline(FunctionTransformer(), gp).fit(X, y)
    with pytest.raises(ValueError, match=r"`audit`: .* use its last step"):
        audit(pipeline)
    network = BayesianNetworkClassifier(n_draws=2, max_iter=2, random_state=0)
    with pytest.raises(ValueError, match=r"no left-out predictions: use a ConvNetGP"):
        audit(network.fit(X, y))
