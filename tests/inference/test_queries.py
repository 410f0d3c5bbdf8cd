"""Choices of samples to label, against posteriors that are computed anew."""

import numpy as np
import torch

from skconvgp.inference import Pool, least_variance


def posterior(gram, noise, observed):
    """Return the covariance of all samples, given observations of some."""
    if not observed:
        return gram
    own = gram[np.ix_(observed, observed)] + np.diag(noise[observed])
    cross = gram[:, observed]
    return gram - cross @ np.linalg.solve(own, cross.T)


def drawn(r, seed=0):
    """Return a covariance of samples, their noise and their weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(r, 2))
    gram = np.exp(-np.square(X[:, None] - X[None]).sum(2))
    return gram, rng.uniform(0.01, 0.3, r), rng.uniform(size=r)


def choose(gram, noise, weights, count, dtype=torch.float64):
    """Return which samples are chosen, and the covariance after it."""
    covariance = torch.tensor(gram, dtype=dtype)
    pool = Pool(covariance[None], covariance.new_tensor(noise)[None, :, None])
    chosen = least_variance(pool, covariance.new_tensor(weights), count)
    return chosen.numpy(), covariance.numpy()


def test_each_choice_leaves_the_least_variance():
    given = gram, noise, weights = drawn(60)
    observed = []
    for one in choose(*given, 8)[0]:
        left = {
            i: weights @ posterior(gram, noise, [*observed, i]).diagonal()
            for i in range(60)
            if i not in observed
        }
        assert one == min(left, key=left.get)
        observed.append(one)
    covariance = choose(*given, 9)[1]  # before the last choice
    expected = posterior(gram, noise, observed)
    np.testing.assert_allclose(covariance, expected, atol=1e-12)


def test_the_first_of_equally_good_candidates_is_chosen():
    gram, noise = np.eye(12), np.full(12, 0.1)
    for dtype in (torch.float64, torch.float32):
        rounding = 1.0 + 3.0 * torch.finfo(dtype).eps * np.arange(12)
        found, _ = choose(gram * rounding, noise, np.ones(12), 12, dtype)
        np.testing.assert_array_equal(found, np.arange(12))


def test_all_candidates_can_be_chosen_without_noise():
    gram, _, weights = drawn(6)
    gram[:, 3] = gram[:, 0]  # copies
    gram[3] = gram[0]
    found, _ = choose(gram, np.zeros(6), weights, 6)
    assert sorted(found) == list(range(6))
    assert max(found.tolist().index(0), found.tolist().index(3)) == 5


def test_variance_that_is_rounding_counts_as_none():
    gram, _, weights = drawn(20)
    for dtype in (torch.float64, torch.float32):
        eps = torch.finfo(dtype).eps
        rounded = np.full((23, 23), 50.0 * eps)
        rounded[3:, 3:] = gram
        rounded[range(3), range(3)] = 0.0, -eps, eps * eps
        given = rounded, np.zeros(23), np.append(np.ones(3), weights)
        found, covariance = choose(*given, 23, dtype)
        expected, _ = choose(gram, np.zeros(20), weights, 6, dtype)
        np.testing.assert_array_equal(found[:6], 3 + expected)
        assert sorted(found) == list(range(23))
        assert np.isfinite(covariance).all()


def test_a_choice_with_labels_has_the_least_expected_variance():
    """The last covariances lack the last choice, each with its most probable label."""
    (gram, noise, weights), other = drawn(12), drawn(12, seed=1)[0]
    grams, table = [gram, 2.0 * other], np.array([[0.1, 2.0], [1.0, 0.3], [3.0, 3.0]])
    chances = np.random.default_rng(2).dirichlet(np.ones(3), 12)
    tensors = torch.tensor(np.stack(grams)), torch.tensor(table.T[:, None])
    pool = Pool(tensors[0].clone(), tensors[1])
    given = torch.tensor(weights), 5, torch.tensor(chances)
    found = least_variance(pool, *given).tolist()
    observed, noises = [], np.empty((0, 2))

    def left(i, label):
        every = np.vstack([noises, table[label]])
        total = 0.0
        for f, one in enumerate(grams):
            noise = np.zeros(12)
            noise[[*observed, i]] = every[:, f]
            total += weights @ posterior(one, noise, [*observed, i]).diagonal()
        return total

    for one in found:
        if len(observed) == 4:
            for f, covariance in enumerate(pool.covariance.numpy()):
                noise = np.zeros(12)
                noise[observed] = noises[:, f]
                expected = posterior(grams[f], noise, observed)
                np.testing.assert_allclose(covariance, expected, atol=1e-12)
        expected = {
            i: sum(chances[i, label] * left(i, label) for label in range(3))
            for i in range(12)
            if i not in observed
        }
        assert one == min(expected, key=expected.get)
        observed.append(one)
        noises = np.vstack([noises, table[chances[one].argmax()]])


def test_a_choice_with_versions_observes_all_of_them():
    gram, _, _ = drawn(30)
    weights, noise = np.random.default_rng(1).uniform(size=10), np.full(30, 0.3)
    covariance = torch.tensor(gram).clone()
    pool = Pool(covariance[None], covariance.new_full((1, 1, 1), 0.3), 3)
    found = least_variance(pool, torch.tensor(weights), 6).tolist()
    observed = []
    for one in found:
        left = {
            i: weights
            @ posterior(gram, noise, [*observed, i, i + 10, i + 20]).diagonal()[:10]
            for i in range(10)
            if i not in observed
        }
        assert one == min(left, key=left.get)
        observed += [one, one + 10, one + 20]
    expected = posterior(gram, noise, observed)
    np.testing.assert_allclose(covariance.numpy(), expected, atol=1e-12)


def test_versions_that_are_copies_are_one_observation_without_noise():
    gram, _, weights = drawn(6)
    every = np.tile(gram, (2, 2))
    covariance = torch.tensor(every)
    pool = Pool(covariance[None], covariance.new_zeros(1, 1, 1), 2)
    found = least_variance(pool, torch.tensor(weights), 6).numpy()
    expected, _ = choose(gram, np.zeros(6), weights, 6)
    np.testing.assert_array_equal(found, expected)
