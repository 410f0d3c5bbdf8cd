"""Which samples to label next, against refits with each candidate."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    PatchGPClassifier,
    gram_matrix,
)
from skconvgp.augmentation import Flip, Shift
from skconvgp.completion import RandomFeatures
from skconvgp.inference import CovarianceUpdate, least_variance
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.likelihoods import Beta, Dirichlet
from skconvgp.questions import _query, query
from skconvgp.solvers import ConjugateGradient
from tests.helpers.conformal import count_factors
from tests.helpers.estimators import digits

NOISE = 0.1
BY_VARIANCE = ("variance", "uncertain variance")


def clouds(n, seed=0):
    """Return points in the plane, around a centre for each of three classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    angles = 2.0 * np.pi * y / 3
    centres = 1.5 * np.stack([np.cos(angles), np.sin(angles)], 1)
    return centres + rng.normal(size=(n, 2)), y


X, Y = clouds(20)
POOL, _ = clouds(30, seed=1)


def in_turn(gram, noise, n_train, weights, count):
    """Return which samples are chosen: each time a refit with each candidate.

    The matrix (n, n) and the noise (n,) are of training samples and of the pool.
    """
    n = len(gram)
    observed, chosen = list(range(n_train)), []
    for _ in range(count):
        left = {}
        for one in np.setdiff1d(np.arange(n - n_train), chosen):
            own = [*observed, n_train + one]
            solved = np.linalg.solve(
                gram[np.ix_(own, own)] + np.diag(noise[own]), gram[own]
            )
            var = gram.diagonal() - (gram[own] * solved).sum(0)
            left[one] = weights @ var[n_train:]
        least = min(left.values())
        chosen.append(next(i for i, var in left.items() if var <= least + 1e-12))
        observed.append(n_train + chosen[-1])
    return np.array(chosen)


def weights_of(gp, pool, strategy):
    """Return the weights of a pool in the mean."""
    if strategy == "variance":
        return np.ones(len(pool))
    return 1.0 - np.square(gp.predict_proba(pool)).sum(1)


def unit_gram(gp, every):
    """Return the covariances of samples in units of the prior of a fit."""
    return gram_matrix(gp.kernel_, every) / gp._process.model.mean_diag


@pytest.mark.parametrize("strategy", BY_VARIANCE)
def test_choices_are_those_of_refits(strategy):
    weight = 1.0 + np.arange(26) % 3
    train, y = np.vstack([X, X[:6]]), np.concatenate([Y, Y[:6]])
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE)
    gp.fit(train, y, sample_weight=weight)
    noise = np.concatenate([NOISE / weight, np.full(30, NOISE)])
    gram = unit_gram(gp, np.vstack([train, POOL]))
    expected = in_turn(gram, noise, 26, weights_of(gp, POOL, strategy), 8)
    found = query(gp, POOL, 8, strategy)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(query(gp, POOL, 5, strategy), expected[:5])
    assert len(set(query(gp, POOL, 30, strategy))) == 30


@pytest.mark.parametrize("strategy", BY_VARIANCE)
@pytest.mark.parametrize("variance", ["dtc", "sor", "fitc"])
def test_choices_by_landmarks_are_those_of_refits(variance, strategy):
    train, y = clouds(40)
    gp = NystromCompletedGP(
        rbf(1.0),
        variance=variance,
        n_landmarks=8,
        random_state=0,
        noise_variance=NOISE,
    ).fit(train, y)
    every = np.vstack([train, POOL])
    cross = gram_matrix(gp.kernel_, every, gp.X_train_)
    gram = cross @ np.linalg.solve(gram_matrix(gp.kernel_, gp.X_train_), cross.T)
    gram /= gp._process.model.mean_diag
    noise = np.full(70, NOISE)
    if variance == "fitc":
        noise += 1.0 / gp._process.model.mean_diag - gram.diagonal()
    expected = in_turn(gram, noise, 40, weights_of(gp, POOL, strategy), 8)
    np.testing.assert_array_equal(query(gp, POOL, 8, strategy), expected)


def test_choices_by_random_features_are_those_of_refits():
    gp = ConvNetGPClassifier(
        rbf(1.0), completion=RandomFeatures(60), noise_variance=NOISE, random_state=0
    ).fit(X, Y)
    gram = gp._gram_of(np.vstack([X, POOL]))  # in units of the prior
    expected = in_turn(gram, np.full(50, NOISE), 20, np.ones(30), 8)
    np.testing.assert_array_equal(query(gp, POOL, 8, "variance"), expected)


@pytest.mark.parametrize("flips", [False, True])
def test_choices_of_images_by_parts_are_those_of_refits(flips):
    images, y = digits(60)
    kernel = PatchKernel(rbf(2.0), patch_size=3)
    gp = ImageClassifier(
        [rbf(2.0), kernel], flips=flips, dtype="float64", random_state=0
    ).fit(images[:20], y[:20] % 3)
    gram = gp._gram_of(images)  # in units of the prior
    noise = np.full(60, gp.noise_variance_)
    pool = images[20:]
    expected = in_turn(gram, noise, 20, weights_of(gp, pool, "uncertain"), 6)
    np.testing.assert_array_equal(query(gp, pool, 6, "uncertain variance"), expected)


def test_choices_by_patches_are_those_of_refits():
    images, y = digits(60)
    kernel = PatchKernel(rbf(2.0), patch_size=3)
    gp = PatchGPClassifier(
        kernel,
        n_inducing=30,
        variance="sor",
        noise_variance=NOISE,
        random_state=0,
        dtype="float64",
    ).fit(images[:20], y[:20] % 3)
    cov = gp.predict_latent(images[20:], return_cov=True)[1][..., 0]
    cov /= gp._process.model.function_variances[0]
    expected = in_turn(cov, np.full(40, NOISE), 0, np.ones(40), 8)
    np.testing.assert_array_equal(query(gp, images[20:], 8, "variance"), expected)


def test_landmarks_alone_answer():
    gp = NystromCompletedGPRegressor(
        rbf(1.0), n_landmarks=20, variance="sor", noise_variance=NOISE
    ).fit(X, X[:, 0])
    cov = gp.predict_latent(POOL, return_cov=True)[1]
    cov /= gp._process.model.function_variances[0] * gp.y_scale_[0] ** 2
    expected = in_turn(cov, np.full(30, NOISE), 0, np.ones(30), 5)
    np.testing.assert_array_equal(query(gp, POOL, 5), expected)


def test_targets_of_a_regression_do_not_matter():
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=NOISE)
    gram = unit_gram(gp.fit(X, X[:, 0]), np.vstack([X, POOL]))
    expected = in_turn(gram, np.full(50, NOISE), 20, np.ones(30), 8)
    np.testing.assert_array_equal(query(gp, POOL, 8), expected)
    gp.fit(X, np.exp(X) * [1.0, 100.0])
    np.testing.assert_array_equal(query(gp, POOL, 8, "variance"), expected)


@pytest.mark.parametrize("strategy", BY_VARIANCE)
def test_copies_of_chosen_samples_are_not_chosen(strategy):
    gp = ConvNetGPClassifier(rbf(0.5), noise_variance=1e-4).fit(X, Y)
    found = query(gp, np.vstack([POOL, POOL]), 20, strategy)
    assert len(set(found % 30)) == 20
    assert (found < 30).all()  # the first of equally good samples


@pytest.mark.parametrize("solve_dtype", ["float64", "float32"])
def test_without_noise_what_is_known_is_chosen_last(solve_dtype):
    pool = np.vstack([X[:6], POOL, POOL[:5]])
    gp = ConvNetGPRegressor(rbf(0.4), noise_variance=0.0, solve_dtype=solve_dtype)
    gp.fit(X, X[:, 0])
    weights = np.ones(30)
    weights[:5] = 2.0  # those with a copy
    gram = unit_gram(gp, np.vstack([X, POOL]))
    expected = in_turn(gram, np.zeros(50), 20, weights, 12)
    found = query(gp, pool, 41)
    np.testing.assert_array_equal(found[:12], 6 + expected)
    assert sorted(found[:30]) == list(range(6, 36))
    np.testing.assert_array_equal(found[30:], [*range(6), *range(36, 41)])


def test_more_choices_than_unknown_samples_are_distinct():
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.0).fit([[0.0], [3.0]], [0, 1])
    np.testing.assert_array_equal(query(gp, [[0.0], [1.5], [1.5]], 3), [1, 0, 2])


def test_large_pools_are_drawn_from(monkeypatch):
    monkeypatch.setattr(_query, "MOST_CANDIDATES", 15)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=NOISE).fit(X, X[:, 0])
    drawn = np.sort(np.random.RandomState(3).permutation(30)[:15])
    gram = unit_gram(gp, np.vstack([X, POOL[drawn]]))
    chosen = in_turn(gram, np.full(35, NOISE), 20, np.ones(15), 5)
    found = query(gp, POOL, 5, random_state=3)
    np.testing.assert_array_equal(found, drawn[chosen])
    assert set(found) != set(query(gp, POOL, 5, random_state=4))
    with pytest.raises(ValueError, match="from 1 to 15 for 30 samples: choose some"):
        query(gp, POOL, 16)


def test_margins_are_those_of_probabilities():
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, Y)
    pool = np.vstack([POOL, POOL])
    top = np.sort(gp.predict_proba(POOL), axis=1)
    order = np.argsort(top[:, 2] - top[:, 1])
    found = query(gp, pool, 6, "margin")
    np.testing.assert_array_equal(found[::2], order[:3])
    np.testing.assert_array_equal(found[1::2], order[:3] + 30)
    search = GridSearchCV(gp, {"noise_variance": [0.1]}, cv=2).fit(X, Y)
    assert len(set(query(search, POOL, 6, "margin"))) == 6


def test_random_choices_differ_and_are_repeated():
    gp = ConvNetGPClassifier("precomputed").fit(np.eye(20), Y)
    found = query(gp, np.zeros((30, 20)), 30, "random", random_state=0)
    assert sorted(found) == list(range(30))
    again = query(gp, np.zeros((30, 20)), 10, "random", random_state=0)
    np.testing.assert_array_equal(again, found[:10])


def test_pools_of_other_types_and_little_memory_change_nothing():
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X, Y)
    expected = query(gp, POOL, 6)
    for pool in (torch.tensor(POOL), POOL.tolist()):
        np.testing.assert_array_equal(query(gp, pool, 6), expected)
    images, y = digits(90)
    settings = {"random_state": 0, "flips": True}
    kernel = PatchKernel(rbf(2.0), patch_size=3)
    expected, found = (
        query(
            ImageClassifier([rbf(2.0), kernel], memory_budget=budget, **settings).fit(
                images[:20], y[:20] % 3
            ),
            images[20:],
            5,
        )
        for budget in ("1GB", "1MB")
    )
    np.testing.assert_array_equal(found, expected)


def test_nothing_is_factored(monkeypatch):
    exact = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X, Y)
    by_landmarks = NystromCompletedGP(
        rbf(1.0), n_landmarks=8, noise_variance=NOISE, random_state=0
    ).fit(X, Y)
    counted = count_factors(monkeypatch)
    for gp in (exact, by_landmarks):
        query(gp, POOL, 10)
    assert counted == []


def test_probabilities_come_from_the_covariances_of_the_pool(monkeypatch):
    images, y = digits(60)
    kernel = PatchKernel(rbf(2.0), patch_size=3)
    settings = {"dtype": "float64", "random_state": 0}
    every = (
        ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE),
        NystromCompletedGP(rbf(1.0), n_landmarks=8, random_state=0),
        NystromCompletedGP(rbf(1.0), n_landmarks=8, variance="sor", random_state=0),
        ImageClassifier([rbf(2.0), kernel], **settings),
    )
    told = []

    def record(probabilities):
        told.append(probabilities)
        return probabilities[:, 0]

    monkeypatch.setattr(_query, "_doubt", record)
    for gp in every:
        is_of_images = isinstance(gp, ImageClassifier)
        pool, train = (images[20:], images[:20]) if is_of_images else (POOL, X)
        gp.fit(train, y[:20] % 3 if is_of_images else Y)
        expected = gp.predict_proba(pool)
        with monkeypatch.context() as patched:
            patched.setattr(type(gp), "predict_proba", None)
            query(gp, pool, 3)
        np.testing.assert_allclose(told[-1], expected, rtol=1e-9)


def test_variances_that_are_wrong_by_more_than_rounding_are_told(monkeypatch):
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X, Y)
    gp.calibration_ = replace(gp.calibration_, spread=0.5)
    clipped = 0.1 * torch.ones(30, dtype=torch.float64), 1e-3
    monkeypatch.setattr(CovarianceUpdate, "variance", lambda *_: clipped)
    with pytest.warns(UserWarning, match="Posterior variances down to"):
        query(gp, POOL, 3)
    # Of choices by variance alone none is read.
    query(gp, POOL, 3, "variance")


@pytest.mark.parametrize("n", [0, 31, 2.0, True, "5", None])
def test_wrong_numbers_are_refused(n):
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="`n` must be an integer from 1 to 30"):
        query(gp, POOL, n)


def test_wrong_strategies_and_estimators_are_refused():
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="`strategy` must be one of"):
        query(gp, POOL, 3, "entropy")
    for strategy in ("uncertain variance", "margin"):
        with pytest.raises(ValueError, match="use strategy='variance'"):
            query(gp, POOL, 3, strategy)
    with pytest.raises(ValueError, match="random_state must be"):
        query(gp, POOL, 3, random_state="a")
    with pytest.raises(NotFittedError):
        query(ConvNetGPClassifier(), POOL, 3)
    gram = ConvNetGPClassifier("precomputed").fit(gram_matrix(rbf(1.0), X), Y)
    cross = gram_matrix(rbf(1.0), POOL, X)
    with pytest.raises(ValueError, match=r"`query`: .* fit with a kernel object"):
        query(gram, cross, 3)
    assert len(query(gram, cross, 3, "random")) == 3
    iterative = ConvNetGPRegressor(
        rbf(1.0), solver=ConjugateGradient(), noise_variance=0.1
    ).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"`query`: .* fit with solver='cholesky'"):
        query(iterative, POOL, 3)


def of_labels(grams, noise, n_train, weights, chances, count):
    """Return which samples are chosen if labels have a noise each: by refits.

    There is a matrix (n, n) for each function, of training samples and of the pool. The
    noise is a function of labels: of samples (n_train, f), and of each label (c, f).
    """
    own_noise, of_label = noise
    observed, noises, chosen = list(range(n_train)), [*own_noise], []

    def left(extra, noise_of):
        own = [*observed, *extra]
        total = 0.0
        for f, gram in enumerate(grams):
            noise = [one[f] for one in [*noises, *noise_of]]
            solved = np.linalg.solve(gram[np.ix_(own, own)] + np.diag(noise), gram[own])
            var = gram.diagonal() - (gram[own] * solved).sum(0)
            total += weights @ var[n_train:]
        return total

    for _ in range(count):
        expected = {
            one: sum(
                chance * left([n_train + one], [of_label[label]])
                for label, chance in enumerate(chances[one])
            )
            for one in np.setdiff1d(np.arange(len(chances)), chosen)
        }
        least = min(expected.values())
        one = next(i for i, var in expected.items() if var <= least + 1e-10)
        chosen.append(one)
        observed.append(n_train + one)
        noises.append(of_label[chances[one].argmax()])
    return np.array(chosen)


def code_noise(gp, n_functions):
    """Return the noise (c, f) of labels in units of the prior, and of the samples."""
    likelihood, k = gp.likelihood_, len(gp.classes_)
    made = likelihood.targets(torch.arange(k), k, torch.ones(k)).noise.numpy()
    table = made / gp._process.model.amplitude[0] + gp.noise_variance_
    table = table[:, k - n_functions :]
    return table, table[np.searchsorted(gp.classes_, Y % k)]


LABELS = {
    "dirichlet": (Dirichlet(0.1), 3, 3),
    "two classes": (Dirichlet(0.01), 2, 2),
    "beta": (Beta(0.1), 2, 1),
}


@pytest.mark.parametrize("strategy", BY_VARIANCE)
@pytest.mark.parametrize("kind", LABELS)
def test_choices_with_noise_of_labels_are_those_of_refits(kind, strategy):
    likelihood, k, n_functions = LABELS[kind]
    gp = ConvNetGPClassifier(rbf(1.0), likelihood=likelihood).fit(X, Y % k)
    gram = unit_gram(gp, np.vstack([X, POOL]))
    table, own = code_noise(gp, n_functions)
    weights, chances = weights_of(gp, POOL, strategy), gp.predict_proba(POOL)
    found = query(gp, POOL, 6, strategy)
    given = (own, table), 20, weights, chances, 6
    np.testing.assert_array_equal(found, of_labels([gram] * n_functions, *given))


@pytest.mark.parametrize("strategy", BY_VARIANCE)
@pytest.mark.parametrize("kind", LABELS)
def test_choices_by_features_with_noise_of_labels_are_those_of_refits(kind, strategy):
    likelihood, k, n_functions = LABELS[kind]
    gp = NystromCompletedGP(rbf(1.0), n_landmarks=8, likelihood=likelihood)
    gp.set_params(random_state=0).fit(X, Y % k)
    every = np.vstack([X, POOL])
    cross = gram_matrix(gp.kernel_, every, gp.X_train_)
    gram = cross @ np.linalg.solve(gram_matrix(gp.kernel_, gp.X_train_), cross.T)
    gram /= gp._process.model.mean_diag
    table, own = code_noise(gp, n_functions)
    weights, chances = weights_of(gp, POOL, strategy), gp.predict_proba(POOL)
    found = query(gp, POOL, 6, strategy)
    given = (own, table), 20, weights, chances, 6
    np.testing.assert_array_equal(found, of_labels([gram] * n_functions, *given))


@pytest.mark.parametrize("kind", LABELS)
def test_covariances_of_a_pool_are_those_of_each_function(kind, monkeypatch):
    likelihood, k, n_functions = LABELS[kind]
    weight = 1.0 + np.arange(20) % 3
    gp = ConvNetGPClassifier(rbf(1.0), likelihood=likelihood)
    gp.fit(X, Y % k, sample_weight=weight)
    seen = []

    def record(pool, *given):
        seen.append((pool.covariance.clone().numpy(), pool.noise.numpy()))
        return least_variance(pool, *given)

    monkeypatch.setattr(_query, "least_variance", record)
    query(gp, POOL, 1)
    covariances, noise = seen[0]
    gram = unit_gram(gp, np.vstack([X, POOL]))
    table, own = code_noise(gp, n_functions)
    assert len(covariances) == n_functions
    for f, found in enumerate(covariances):
        matrix = gram[:20, :20] + np.diag(own[:, f] / weight)
        cross = gram[:20, 20:]
        expected = gram[20:, 20:] - cross.T @ np.linalg.solve(matrix, cross)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        n_labels = noise.shape[2]  # one, if all have the same noise
        np.testing.assert_allclose(noise[f, 0], table[:n_labels, f], rtol=1e-12)
        assert n_labels == len(np.unique(table.round(9), axis=0))


def test_labels_with_noise_are_also_chosen_for_patches():
    images, y = digits(60)
    kernel = PatchKernel(rbf(2.0), patch_size=3)
    gp = PatchGPClassifier(
        kernel, n_inducing=30, variance="sor", likelihood="dirichlet", dtype="float64"
    )
    gp.set_params(random_state=0).fit(images[:20], y[:20] % 3)
    cov = gp.predict_latent(images[20:], return_cov=True)[1]
    cov = np.moveaxis(cov / gp._process.model.function_variances, -1, 0)
    made = gp.likelihood_.targets(torch.arange(3), 3, torch.ones(3)).noise.numpy()
    table = made / gp._process.model.amplitude[0] + gp.noise_variance_
    given = (np.empty((0, 3)), table), 0, np.ones(40), gp.predict_proba(images[20:]), 5
    expected = of_labels(cov, *given)
    np.testing.assert_array_equal(query(gp, images[20:], 5, "variance"), expected)


def test_approximate_posteriors_of_labels_are_refused():
    gp = ConvNetGPClassifier(rbf(1.0), likelihood="laplace").fit(X, Y)
    with pytest.raises(ValueError, match="'gaussian', 'dirichlet' or 'beta'"):
        query(gp, POOL, 3)
    assert len(query(gp, POOL, 3, "margin")) == 3


def with_versions(gram, noise, n_train, n_pool, weights, count):
    """Return which images are chosen if each is observed with its versions: by refits.

    The matrix is of training rows, and then of the pool, of its first versions, and so
    on. The noise (n,) is of all rows.
    """
    observed, chosen = list(range(n_train)), []
    first = n_train + np.arange(n_pool)
    for _ in range(count):
        left = {}
        for one in np.setdiff1d(np.arange(n_pool), chosen):
            own = [*observed, *range(n_train + one, len(gram), n_pool)]
            solved = np.linalg.solve(
                gram[np.ix_(own, own)] + np.diag(noise[own]), gram[np.ix_(own, first)]
            )
            var = gram.diagonal()[first] - (gram[np.ix_(own, first)] * solved).sum(0)
            left[one] = weights @ var
        least = min(left.values())
        one = next(i for i, var in left.items() if var <= least + 1e-12)
        chosen.append(one)
        observed += range(n_train + one, len(gram), n_pool)
    return np.array(chosen)


def all_versions(images, parts):
    """Return images, and after them the versions that parts make of all of them."""
    found = [torch.from_numpy(images)]
    for part in parts:
        found += [new for old in found for new in part.versions(old)]
    return torch.cat(found).numpy()


@pytest.mark.parametrize("strategy", BY_VARIANCE)
@pytest.mark.parametrize("parts", [[Flip()], [Shift(1), Flip()]], ids=str)
def test_images_are_chosen_with_their_versions(parts, strategy):
    images, y = digits(44)
    train, pool, y = images[:14], images[14:], y[:14] % 3
    weight = 1.0 + np.arange(14) % 2
    gp = ConvNetGPClassifier(rbf(2.0), augment=parts, noise_variance=NOISE)
    gp.fit(train, y, sample_weight=weight)
    rows, more = all_versions(train, parts), all_versions(pool, parts)
    count = len(more) // 30
    gram = unit_gram(gp, np.concatenate([rows, more]).reshape(-1, 64))
    noise = (
        NOISE
        * count
        * np.concatenate([1.0 / np.tile(weight, count), np.ones(len(more))])
    )
    weights = weights_of(gp, pool, strategy)
    expected = with_versions(gram, noise, len(rows), 30, weights, 6)
    np.testing.assert_array_equal(query(gp, pool, 6, strategy), expected)
    mirrored = np.concatenate([pool, pool[..., ::-1]])
    assert len(set(query(gp, mirrored, 8, strategy) % 30)) == 8


def test_regressors_are_asked_with_versions_and_without_noise():
    images, y = digits(30)
    symmetric = images + images[..., ::-1]  # whose versions are copies
    gp = ConvNetGPRegressor(rbf(2.0), augment=Flip(), noise_variance=0.0)
    gp.fit(images[:10], y[:10].astype(float))
    found = query(gp, np.concatenate([images[:4], symmetric[10:]]), 24)
    assert sorted(found[20:]) == [0, 1, 2, 3]  # which are known


def test_other_versions_than_those_of_the_fit_are_refused():
    images, y = digits(20)
    gp = ConvNetGPClassifier(rbf(2.0), augment=Flip()).fit(images[:14], y[:14] % 3)
    gp.augment = Shift(1)
    with pytest.raises(ValueError, match=r"is not that of `fit`.* 2 versions: set it"):
        query(gp, images[14:], 2)
