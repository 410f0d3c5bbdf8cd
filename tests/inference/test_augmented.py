"""Left-out quantities of a set with one more sample, against dense refits."""

import numpy as np
import pytest
import torch

from skconvgp.inference import Addition, LeftOutInputs
from tests.helpers.conformal import all_left_out

N, N_NEW, K, NOISE, JITTER = 40, 3, 2, 0.05, 1e-3


def problem(seed=0):
    """Return a Gram matrix of all samples, and targets of the first ones."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(N + N_NEW, 3))
    squares = np.square(points[:, None] - points[None]).sum(2)
    return np.exp(-squares / 4.0), rng.normal(size=(N, K))


def addition_of(gram, noise, targets, units=None):
    """Return the new samples, added to the first N, which have noise (n,)."""
    inverse = np.linalg.inv(gram[:N, :N] + np.diag(noise))
    dual, cross = inverse @ targets, gram[:N, N:]
    values = [torch.from_numpy(one) for one in (targets, dual, noise)]
    if units is None:
        diag = torch.from_numpy(inverse.diagonal().copy())
        inputs = LeftOutInputs.alone(*values[:2], diag, values[2], NOISE)
    else:
        blocks = []
        for unit in np.unique(units):
            members = np.flatnonzero(units == unit)
            block = inverse[np.ix_(members, members)]
            blocks.append((torch.tensor(members[None]), torch.tensor(block[None])))
        inputs = LeftOutInputs.together(*values[:2], blocks, values[2], NOISE)
    solved = inverse @ cross
    var = gram[N:, N:].diagonal() - (cross * solved).sum(0)
    given = (torch.from_numpy(one) for one in (solved, cross.T @ dual, var))
    return Addition(inputs, *given, NOISE, JITTER)


@pytest.mark.parametrize("weight", [1.0, 3.0])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_one_more_sample_is_a_refit(size, weight):
    gram, targets = problem()
    noise = NOISE / (1.0 + np.arange(N) % 3) + JITTER
    units = np.random.default_rng(1).permutation(N) // size
    addition = addition_of(gram, noise, targets, None if size == 1 else units)
    augmented = addition.observed(weight)
    new_targets = np.random.default_rng(2).normal(size=(N_NEW, K))
    means = augmented.means(torch.from_numpy(new_targets))
    new_noise = NOISE / weight + JITTER
    for i in range(N_NEW):
        some = np.append(np.arange(N), N + i)
        noises = np.append(noise, new_noise)
        mean, var = all_left_out(
            gram[np.ix_(some, some)],
            noises,
            np.vstack([targets, new_targets[i]]),
            np.append(units, N),
        )
        close = {"rtol": 1e-9, "atol": 1e-9}
        np.testing.assert_allclose(means[i], mean[:-1], **close)
        np.testing.assert_allclose(augmented.var[i], var[:-1] + noise, **close)
        np.testing.assert_allclose(augmented.new_mean[i], mean[-1], **close)
        np.testing.assert_allclose(augmented.new_var[i], var[-1] + new_noise, **close)


def test_a_target_that_is_the_mean_changes_what_others_say():
    gram, targets = problem()
    addition = addition_of(gram, np.full(N, NOISE), targets)
    augmented = addition.observed()
    means = augmented.means(augmented.new_mean)
    torch.testing.assert_close(means, augmented.start)
    # Without a sample the new one is predicted otherwise, and its target says so.
    assert float((means - addition.inputs.mean).abs().max()) > 1e-3


def test_a_far_sample_changes_nothing():
    gram, targets = problem()
    gram[N:, :N] = gram[:N, N:] = 0.0
    addition = addition_of(gram, np.full(N, NOISE), targets)
    augmented = addition.observed()
    means = augmented.means(augmented.new_mean + 5.0)
    torch.testing.assert_close(means, addition.inputs.mean.expand_as(means))
    torch.testing.assert_close(
        augmented.var, addition.inputs.var.expand_as(augmented.var)
    )
