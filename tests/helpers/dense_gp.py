"""Gaussian process regression in dense formulas of numpy, for comparison."""

import numpy as np


def problem(n=20, n_outputs=2, n_new=7, seed=0):
    """Return Gram matrix with mean diagonal 1, cross, prior and targets."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n + n_new, 2))
    square = ((x[:, None] - x[None]) ** 2).sum(-1)
    scale = generator.uniform(0.7, 1.3, n + n_new)
    full = np.exp(-square / 2.0) * np.outer(scale, scale)
    full /= np.diag(full)[:n].mean()
    targets = np.linalg.cholesky(full + 0.05 * np.eye(n + n_new))
    targets = targets @ generator.normal(size=(n + n_new, n_outputs))
    return full[:n, :n], full[n:, :n], full[n:, n:], targets[:n]


def noisy(gram, noise, weights=None):
    """Return M = K + noise diag(1 / w)."""
    weights = np.ones(len(gram)) if weights is None else weights
    return gram + noise * np.diag(1.0 / weights)


def refit_without_sample(gram, targets, noise, weights, i):
    """Return mean (k,) and variance of target i after a fit without its sample.

    The variance is that of an observation, as exact as one unit of weight or, below
    that, as the target that was left out.
    """
    rest = np.delete(np.arange(len(gram)), i)
    matrix = noisy(gram[np.ix_(rest, rest)], noise, weights[rest])
    cross = gram[i, rest]
    mean = cross @ np.linalg.solve(matrix, targets[rest])
    var = gram[i, i] - cross @ np.linalg.solve(matrix, cross)
    return mean, var + noise / min(weights[i], 1.0)
