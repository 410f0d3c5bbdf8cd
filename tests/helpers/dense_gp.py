"""Gaussian process regression in dense formulas of numpy, for comparison."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import multivariate_normal


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


@dataclass(frozen=True)
class Joint:
    """Training and new samples as one Gaussian, of mean prior variance 1.

    Variances are those of amplitude 1; a weight is that of as many observations.
    """

    gram: np.ndarray  # (n, n), of the training samples
    cross: np.ndarray  # (b, n), of new samples with them
    prior: np.ndarray  # (b, b), of new samples
    own: np.ndarray  # (n,), of training samples if they were new ones
    noise: np.ndarray  # (n,), of a single observation
    weights: np.ndarray  # (n,)
    inputs: np.ndarray  # (n,)

    def mean(self, y):
        return self.cross @ np.linalg.solve(self._noisy(), y)

    def covariance(self):
        return self.prior - self.cross @ np.linalg.solve(self._noisy(), self.cross.T)

    def variance(self):
        return np.diag(self.covariance())

    def left_out(self, y, i):
        """Return mean and variance of function i by a fit without its input."""
        return self.condition(y, np.flatnonzero(self.inputs != self.inputs[i]), i)

    def condition(self, y, rest, i):
        matrix = self._noisy()[np.ix_(rest, rest)]
        gains = np.linalg.solve(matrix, self.gram[rest, i])
        return gains @ y[rest], self.own[i] - gains @ self.gram[rest, i]

    def observed(self, i):
        """Return the noise of a target that is left out with those of its input."""
        together = self.weights[self.inputs == self.inputs[i]].sum()
        return self.noise[i] / min(together, 1.0)

    def profiled(self, y):
        """Return the amplitude with the largest evidence."""
        quadratic = (y * np.linalg.solve(self._noisy(), y)).sum()
        return quadratic / (self.weights.sum() * y.shape[1])

    def evidence(self, y, amplitudes):
        """Return the log density of single observations, for whole weights."""
        each = np.repeat(np.arange(len(y)), self.weights.astype(int))
        matrix = self.gram[np.ix_(each, each)] + np.diag(self.noise[each])
        return sum(
            multivariate_normal(cov=amplitude * matrix).logpdf(column)
            for amplitude, column in zip(amplitudes, y[each].T, strict=True)
        )

    def _noisy(self):
        return noisy(self.gram, self.noise, self.weights)


@dataclass(frozen=True)
class Local(Joint):
    """The same, but each sample follows from the few that are nearest to it."""

    orders: np.ndarray  # (n + b, n), training samples for each, the nearest first
    count: int

    def mean(self, y):
        return np.array([self._new(y, i)[0] for i in range(len(self.cross))])

    def variance(self):
        zeros = np.zeros((len(self.gram), 1))
        return np.array([self._new(zeros, i)[1] for i in range(len(self.cross))])

    def left_out(self, y, i):
        order = self.orders[i]
        near = order[order != i][: self.count]
        return self.condition(y, near[self.inputs[near] != self.inputs[i]], i)

    def profiled(self, y):
        """Return the mean of squared errors of left-out samples."""
        errors = []
        for i in range(len(y)):
            mean, var = self.left_out(y, i)
            errors.append(np.mean((y[i] - mean) ** 2) / (var + self.observed(i)))
        return np.average(errors, weights=self.weights)

    def evidence(self, y, amplitudes):
        """Return the log density of samples that each follow from earlier ones."""
        total = 0.0
        for i in range(len(y)):
            order = self.orders[i]
            mean, var = self.condition(y, order[order < i][: self.count], i)
            n_equal = int(self.weights[i])
            matrix = np.full((n_equal, n_equal), var) + self.noise[i] * np.eye(n_equal)
            for amplitude, value, middle in zip(amplitudes, y[i], mean, strict=True):
                density = multivariate_normal(
                    np.full(n_equal, middle), amplitude * matrix
                )
                total += density.logpdf(np.full(n_equal, value))
        return total

    def _new(self, y, i):
        near = self.orders[len(self.gram) + i][: self.count]
        gains = np.linalg.solve(self._noisy()[np.ix_(near, near)], self.cross[i, near])
        return gains @ y[near], self.prior[i, i] - gains @ self.cross[i, near]
