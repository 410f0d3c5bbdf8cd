"""The noise variance chosen is the one that brute force chooses."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from skconvgp import ConvNetGPRegressor
from skconvgp.inference import EqualInputs, select_noise
from skconvgp.kernels import rbf
from tests.helpers.dense_gp import noisy, problem, refit_without_sample

N = 12
ONES = np.ones(N)
# Few are above one: equal targets speak for no noise at all.
COUNTS = np.array([2.0, 1.0, 1.0, 2.0] + [1.0] * 8)
FRACTIONS = np.array([0.3, 0.8, 0.5] + [1.0] * 9)
MIXED = np.array([0.3, 0.8, 1.7, 2.0] + [1.0] * 8)
AMPLITUDE = np.array([0.7, 1.6])
# Eight values to a factor of ten, from ten down.
GRID = {
    torch.float64: 10.0 * 10.0 ** (-np.arange(89) / 8.0),
    torch.float32: 10.0 * 10.0 ** (-np.arange(57) / 8.0),
}
seeds = pytest.mark.parametrize("seed", range(3))
amplitudes = pytest.mark.parametrize("amplitude", [None, AMPLITUDE])


# Where cancellation leaves brute force enough digits.
COARSE = GRID[torch.float64][:56:4]


def choose(gram, targets, weights, criterion, amplitude, dtype=torch.float64, of=None):
    return select_noise(
        *(torch.as_tensor(array) for array in (gram, targets, weights)),
        criterion=criterion,
        amplitude=None if amplitude is None else torch.as_tensor(amplitude),
        precision=dtype,
        inputs=None if of is None else EqualInputs(torch.as_tensor(of)),
    )


def scale_of(gram, targets, weights, noise, amplitude):
    if amplitude is not None:
        return amplitude
    dual = np.linalg.solve(noisy(gram, noise, weights), targets)
    n_outputs = targets.shape[1]
    return np.full(n_outputs, (targets * dual).sum() / (weights.sum() * n_outputs))


def evidence_of_repeated_rows(gram, targets, counts, noise, amplitude):
    scale = scale_of(gram, targets, counts, noise, amplitude)
    again = np.repeat(np.arange(N), counts.astype(int))
    matrix = gram[np.ix_(again, again)] + noise * np.eye(len(again))
    return sum(
        log_density(column, a * matrix)
        for a, column in zip(scale, targets[again].T, strict=True)
    )


def log_density(y, cov):
    """Return log N(y; 0, cov); scipy takes small eigenvalues for zero."""
    logdet = np.linalg.slogdet(2.0 * np.pi * cov)[1]
    return -0.5 * (y @ np.linalg.solve(cov, y) + logdet)


def density_of_refits(gram, targets, weights, noise, amplitude):
    scale = scale_of(gram, targets, weights, noise, amplitude)
    total = 0.0
    for i, weight in enumerate(weights):
        mean, var = refit_without_sample(gram, targets, noise, weights, i)
        density = norm.logpdf(targets[i], mean, np.sqrt(var * scale))
        total += weight * density.sum()
    return total


def assert_best(criterion, score, gram, targets, weights, amplitude):
    """Compare with the score of every value of the grid."""
    chosen = choose(gram, targets, weights, criterion, amplitude)
    grid = GRID[torch.float64]
    scores = [score(gram, targets, weights, noise, amplitude) for noise in grid]
    (index,) = np.flatnonzero(np.isclose(grid, chosen, rtol=1e-9, atol=0.0))
    assert scores[index] == max(scores)


def noisy_problem(seed):
    gram, _, _, targets = problem(N, seed=seed)
    generator = np.random.default_rng(seed)
    return gram, targets + 0.3 * generator.normal(size=targets.shape)


@seeds
@amplitudes
@pytest.mark.parametrize("weights", [ONES, COUNTS], ids=["ones", "counts"])
def test_evidence_chooses_as_brute_force_does(weights, amplitude, seed):
    gram, targets = noisy_problem(seed)
    assert_best(
        "evidence", evidence_of_repeated_rows, gram, targets, weights, amplitude
    )


@seeds
@amplitudes
@pytest.mark.parametrize(
    "weights", [ONES, FRACTIONS, MIXED], ids=["ones", "fractions", "mixed"]
)
def test_leave_one_out_chooses_as_refits_do(weights, amplitude, seed):
    gram, targets = noisy_problem(seed)
    assert_best("loo", density_of_refits, gram, targets, weights, amplitude)


@seeds
@amplitudes
@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_samples_with_equal_inputs_are_chosen_for_as_refits_do(
    criterion, amplitude, seed
):
    gram, targets = noisy_problem(seed)
    of = np.array([0, 0, 1, 2, 0, 2, *range(3, N - 3)])
    targets[1] = targets[0]  # a copy; the others are observed anew
    gram = gram[np.ix_(of, of)]
    score = {"loo": density_without_inputs(of), "evidence": density_of_all}[criterion]
    scores = [score(gram, targets, ONES, noise, amplitude) for noise in COARSE]
    chosen = choose(gram, targets, ONES, criterion, amplitude, of=of)
    # The grid holds the coarse one: its best is the best of those.
    best = score(gram, targets, ONES, chosen, amplitude)
    assert best >= max(scores) - 1e-7
    near = np.abs(np.log10(GRID[torch.float64]) - np.log10(chosen)).argmin()
    for other in GRID[torch.float64][max(near - 1, 0) : near + 2]:
        assert score(gram, targets, ONES, other, amplitude) <= best + 1e-7


def density_without_inputs(of):
    """Return the score of targets that are predicted from other inputs only."""

    def score(gram, targets, weights, noise, amplitude):
        scale = scale_of(gram, targets, weights, noise, amplitude)
        total = 0.0
        for i in range(N):
            rest = np.append(np.flatnonzero(of != of[i]), i)
            mean, var = refit_without_sample(
                gram[np.ix_(rest, rest)], targets[rest], noise, weights[rest], -1
            )
            total += norm.logpdf(targets[i], mean, np.sqrt(var * scale)).sum()
        return total

    return score


@seeds
@amplitudes
@pytest.mark.parametrize("sizes", [(4, 3, 2, 2, 1), (9, 3)], ids=["small", "large"])
def test_groups_are_chosen_for_as_refits_do(sizes, amplitude, seed):
    """Large groups are scored on a part of the grid, around its best value."""
    gram, targets = noisy_problem(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    chosen = select_noise(
        torch.as_tensor(gram),
        torch.as_tensor(targets),
        torch.as_tensor(ONES),
        criterion="loo",
        amplitude=None if amplitude is None else torch.as_tensor(amplitude),
        precision=torch.float64,
        inputs=EqualInputs(torch.arange(N)).with_groups(torch.as_tensor(groups)),
    )
    score = density_without_inputs(groups)
    best = score(gram, targets, ONES, chosen, amplitude)
    scores = [score(gram, targets, ONES, noise, amplitude) for noise in COARSE]
    assert best >= max(scores) - 1e-7
    near = np.abs(np.log10(GRID[torch.float64]) - np.log10(chosen)).argmin()
    for other in GRID[torch.float64][max(near - 1, 0) : near + 2]:
        assert score(gram, targets, ONES, other, amplitude) <= best + 1e-7


def density_of_all(gram, targets, weights, noise, amplitude):
    scale = scale_of(gram, targets, weights, noise, amplitude)
    matrix = noisy(gram, noise, weights)
    return sum(
        log_density(column, a * matrix)
        for a, column in zip(scale, targets.T, strict=True)
    )


@pytest.mark.parametrize("dtype", GRID)
def test_repetitions_that_agree_leave_the_least_noise_to_the_evidence(dtype):
    gram, _, _, targets = problem(N)
    chosen = choose(gram, targets, 9.0 * ONES, "evidence", None, dtype)
    assert chosen == pytest.approx(GRID[dtype][-1], rel=1e-9)


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_targets_that_the_kernel_cannot_explain_take_the_most_noise(criterion):
    targets = 10.0 * (-1.0) ** np.arange(N)[:, None]
    chosen = choose(np.ones((N, N)), targets, ONES, criterion, np.ones(1))
    assert chosen == pytest.approx(10.0, rel=1e-9)


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_more_noise_is_found_in_noisier_targets(criterion):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(120, 1))
    noise = generator.normal(size=120)
    chosen = []
    for deviation in (0.03, 0.1, 0.3):
        gp = ConvNetGPRegressor(rbf(1.0), noise_variance=criterion)
        gp.fit(X, np.sin(2.0 * X[:, 0]) + deviation * noise)
        chosen.append(gp.noise_variance_ * gp.amplitude_)
        assert math.sqrt(chosen[-1]) == pytest.approx(deviation, rel=0.3)
    assert chosen == sorted(chosen)
