"""Full conformal prediction word for word: a refit for each left-out unit."""

import numpy as np

from skconvgp.linalg import _cholesky


def left_out(gram, noise, targets, members):
    """Return means and covariances of the targets of members, given all others.

    `gram` is of all samples, `noise` (n,) of each of them; the prior mean is 0.
    """
    others = np.setdiff1d(np.arange(len(gram)), members)
    solved = np.linalg.solve(
        gram[np.ix_(others, others)] + np.diag(noise[others]),
        np.column_stack([targets[others], gram[np.ix_(others, members)]]),
    )
    k = targets.shape[1]
    cross = gram[np.ix_(members, others)]
    cov = gram[np.ix_(members, members)] - cross @ solved[:, k:]
    return cross @ solved[:, :k], cov


def all_left_out(gram, noise, targets, units):
    """Return latent means (n, k) and variances (n,) of samples without their units."""
    mean, var = np.empty_like(targets), np.empty(len(targets))
    for unit in np.unique(units):
        members = np.flatnonzero(units == unit)
        found, cov = left_out(gram, noise, targets, members)
        mean[members], var[members] = found, cov.diagonal()
    return mean, var


def units_of(X, groups):
    """Return what is left out with each sample."""
    _, inputs = np.unique(X, axis=0, return_inverse=True)
    return inputs.ravel() if groups is None else np.asarray(groups)


def unit_shares(units, weights, kinds=None):
    """Return the share of each sample in its unit, or in its kind of the unit."""
    shares = np.empty(len(units))
    for i, unit in enumerate(units):
        together = units == unit
        if kinds is not None:
            together &= kinds == kinds[i]
        shares[i] = weights[i] / weights[together].sum()
    return shares


def margin(mean, code):
    """Return the mean of a label less the largest of others."""
    return mean[code] - np.delete(mean, code).max()


def label_p_values(
    gram,
    noise,
    code_of,
    codes,
    units,
    weights,
    *,
    new_noise,
    by_class=False,
    counted=None,
):
    """Return the p-value of each label of the last sample of a Gram matrix.

    `noise` (n,) and `codes` (n,) are of the others; `new_noise` (k,) is that of the new
    one for each label; `code_of` (k, k) has the targets of each label. Only those that
    are `counted` (n,) have scores; by default all.
    """
    k, found = len(code_of), []
    units = np.append(units, max(units) + 1)
    weights = np.append(weights, 1.0)
    counts = np.ones(len(weights)) if counted is None else np.append(counted, 1.0)
    for label in range(k):
        every = np.append(codes, label)
        noises = np.append(noise, new_noise[label])
        mean, _ = all_left_out(gram, noises, code_of[every], units)
        scores = [-margin(one, code) for one, code in zip(mean, every, strict=True)]
        shares = unit_shares(units, weights, every if by_class else None)
        shares = shares * counts
        if by_class:
            shares = shares * (every == label)
        no_better = np.array(scores) >= scores[-1] - 1e-9
        found.append(shares[no_better].sum() / shares.sum())
    return np.array(found)


def target_p_value(
    gram,
    noise,
    targets,
    new_target,
    units,
    weights,
    *,
    new_noise,
    counted=None,
    deviations=1.0,
):
    """Return the p-value of a target of the last sample of a Gram matrix.

    Of several targets (k,) the largest error counts, in `deviations` (k,).
    """
    every = np.concatenate([np.ravel(targets), np.ravel(new_target)])
    every = every.reshape(len(gram), -1)
    noises = np.append(noise, new_noise)
    units = np.append(units, max(units) + 1)
    weights = np.append(weights, 1.0)
    mean, var = all_left_out(gram, noises, every, units)
    single = var + noises * weights / np.minimum(weights, 1.0)
    scores = (np.abs(every - mean) / deviations).max(1) / np.sqrt(single)
    shares = unit_shares(units, weights)
    if counted is not None:
        shares = shares * np.append(counted, 1.0)
    return shares[scores >= scores[-1] - 1e-12].sum() / shares.sum()


def novelty_p_value(
    gram,
    noise,
    code_of,
    codes,
    units,
    weights,
    *,
    new_noise,
    unexplained=0.0,
    counted=None,
):
    """Return the p-value of the last sample of a Gram matrix by both scores.

    `unexplained` (n + 1,) is variance that the matrix lacks; `counted` is as in
    `label_p_values`.
    """
    units = np.append(units, max(units) + 1)
    weights = np.append(weights, 1.0)
    shares, found = unit_shares(units, weights), []
    if counted is not None:
        shares = shares * np.append(counted, 1.0)

    def share(counts):
        return shares[counts].sum() / shares.sum()

    for label in range(len(code_of)):
        noises = np.append(noise, new_noise[label])
        every = code_of[np.append(codes, label)]
        mean, var = all_left_out(gram, noises, every, units)
        norms, var = np.square(mean).sum(1), var + unexplained
        first = share(var >= var[-1] * (1.0 - 1e-9))
        larger, smaller = norms >= norms[-1] - 1e-9, norms <= norms[-1] + 1e-9
        second = min(1.0, 2.0 * min(share(larger), share(smaller)))
        found.append(min(1.0, 2.0 * min(first, second)))
    return max(found)


def count_factors(monkeypatch):
    """Return a list that has the size of each matrix that is factored from now on."""
    counted, factor = [], _cholesky._factor

    def counting(matrix):
        counted.append(len(matrix))
        return factor(matrix)

    monkeypatch.setattr(_cholesky, "_factor", counting)
    return counted
