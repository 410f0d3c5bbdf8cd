"""The posterior through features against the dense one of F F^T + D."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm

from skconvgp.inference import (
    EqualInputs,
    feature_evidence,
    feature_leave_one_out,
    feature_posterior,
    select_feature_noise,
    select_fitc_noise,
    select_noise,
    sum_features,
)
from tests.helpers.dense_gp import noisy, problem, refit_without_sample
from tests.helpers.tolerances import assert_close

N, N_NEW, N_OUTPUTS, RANK = 20, 7, 2, 6
NOISE = 0.1
ONES = np.ones(N)
COUNTS = np.random.default_rng(1).integers(1, 5, N).astype(float)
MIXED = np.concatenate([[0.2, 0.7, 1.0, 1.5, 2.0, 7.3], COUNTS[6:]])
AMPLITUDE = np.array([0.7, 1.6])
GRID = 10.0 * 10.0 ** (-np.arange(89) / 8.0)  # eight values to a factor of ten
WEIGHTS = {"ones": ONES, "counts": COUNTS, "mixed": MIXED}
VARIANCES = ["dtc", "fitc"]  # what they count as noise

every_weight = pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
every_count = pytest.mark.parametrize("weights", [ONES, COUNTS], ids=["ones", "counts"])
every_variance = pytest.mark.parametrize("variance", VARIANCES)
amplitudes = pytest.mark.parametrize("amplitude", [None, AMPLITUDE])


class Data:
    """Features of the first samples of a problem, and of new ones."""

    def __init__(self, variance="dtc", n=N, rank=RANK, seed=0):
        gram, cross, _, self.targets = problem(n, N_OUTPUTS, N_NEW, seed)
        values, vectors = np.linalg.eigh(gram[:rank, :rank])
        root = vectors / np.sqrt(values)
        self.features, self.new = gram[:, :rank] @ root, cross[:, :rank] @ root
        self.gram = self.features @ self.features.T
        self.cross = self.new @ self.features.T
        self.rest = np.diag(gram) - np.diag(self.gram)
        self.rest[:rank] = 0.0
        counted = self.rest if variance == "fitc" else np.zeros(n)
        self.unit = counted + NOISE

    def sums(self, weights, some=slice(None)):
        arrays = self.features, self.targets, self.unit, weights
        return sum_features(*(torch.as_tensor(array[some]) for array in arrays))


def dense(gram, unit, weights):
    """Return M = F F^T + D."""
    return gram + np.diag(unit / weights)


@every_variance
@every_weight
def test_mean_is_that_of_the_dense_matrix(weights, variance):
    data = Data(variance)
    posterior = feature_posterior(data.sums(weights))
    matrix = dense(data.gram, data.unit, weights)
    expected = data.cross @ np.linalg.solve(matrix, data.targets)
    assert posterior.jitter == 0.0
    assert_close(torch.as_tensor(data.new) @ posterior.mean, expected, kind="solve")


@every_variance
@every_weight
def test_half_is_a_root_of_the_posterior_covariance(weights, variance):
    data = Data(variance)
    half = feature_posterior(data.sums(weights)).half(torch.as_tensor(data.new))
    matrix = dense(data.gram, data.unit, weights)
    prior = data.new @ data.new.T
    expected = prior - data.cross @ np.linalg.solve(matrix, data.cross.T)
    assert half.shape == (RANK, N_NEW)
    assert_close(half.mT @ half, expected, kind="solve")


@every_variance
@every_count
def test_evidence_is_the_density_of_repeated_rows(weights, variance):
    data = Data(variance)
    sums = data.sums(weights)
    evidence, used = feature_evidence(
        sums, feature_posterior(sums), torch.as_tensor(AMPLITUDE)
    )
    again = np.repeat(np.arange(N), weights.astype(int))
    matrix = data.gram[np.ix_(again, again)] + np.diag(data.unit[again])
    expected = [
        multivariate_normal(cov=scale * matrix).logpdf(data.targets[again, k])
        for k, scale in enumerate(AMPLITUDE)
    ]
    assert_close(used, AMPLITUDE)
    assert_close(evidence, expected, kind="solve")


@every_variance
@every_weight
def test_profiled_amplitude_is_the_best_one(weights, variance):
    data = Data(variance)
    sums = data.sums(weights)
    posterior = feature_posterior(sums)
    best, amplitude = feature_evidence(sums, posterior, None)
    matrix = dense(data.gram, data.unit, weights)
    quadratic = (data.targets * np.linalg.solve(matrix, data.targets)).sum()
    expected = quadratic / weights.sum() / N_OUTPUTS
    assert_close(amplitude, np.full(N_OUTPUTS, expected), kind="solve")
    for factor in (0.1, 0.99, 1.01, 10.0):
        other, _ = feature_evidence(sums, posterior, factor * amplitude)
        assert float(other.sum()) < float(best.sum())


def test_targets_that_are_zero_have_a_positive_amplitude():
    data = Data()
    data.targets = np.zeros_like(data.targets)
    sums = data.sums(ONES)
    evidence, amplitude = feature_evidence(sums, feature_posterior(sums), None)
    assert (amplitude > 0.0).all()
    assert evidence.isfinite().all()


@every_variance
@every_weight
def test_leave_one_out_is_that_of_refits(weights, variance):
    data = Data(variance)
    tensors = [
        torch.as_tensor(array)
        for array in (data.features, data.targets, data.unit, weights)
    ]
    loo = feature_leave_one_out(*tensors, feature_posterior(data.sums(weights)))
    # Refits know one noise only: what is left out of a variance is of its sample.
    expected = [refit(data, weights, i) for i in range(N)]
    means, variances = zip(*expected, strict=True)
    assert_close(loo.mean, np.array(means), kind="solve")
    assert_close(loo.var, np.array(variances), kind="solve")


def refit(data, weights, i):
    """Return mean and variance of target i without its sample, noise included."""
    scaled = weights / (data.unit / NOISE)  # of the common noise
    rest = np.delete(np.arange(N), i)
    matrix = noisy(data.gram[np.ix_(rest, rest)], NOISE, scaled[rest])
    cross = data.gram[i, rest]
    mean = cross @ np.linalg.solve(matrix, data.targets[rest])
    var = data.gram[i, i] - cross @ np.linalg.solve(matrix, cross)
    return mean, var + data.unit[i] / min(weights[i], 1.0)


def test_leave_one_out_of_some_samples():
    data = Data()
    some = torch.arange(3, 9)
    arrays = data.features, data.targets, data.unit, MIXED
    tensors = [torch.as_tensor(array) for array in arrays]
    posterior = feature_posterior(data.sums(MIXED))
    whole = feature_leave_one_out(*tensors, posterior)
    part = feature_leave_one_out(*(tensor[some] for tensor in tensors), posterior)
    assert_close(part.mean, whole.mean[some])
    assert_close(part.var, whole.var[some])


@every_variance
def test_sums_of_two_parts_add_up(variance):
    data = Data(variance)
    total = data.sums(MIXED, slice(0, 8)) + data.sums(MIXED, slice(8, None))
    for name, expected in vars(data.sums(MIXED)).items():
        assert_close(getattr(total, name), expected)


@pytest.mark.parametrize("rows", [1, 7, 19])
def test_blocks_of_rows_do_not_matter(rows, monkeypatch):
    data = Data("fitc")
    arrays = data.features, data.targets, data.unit, MIXED
    tensors = [torch.as_tensor(array) for array in arrays]
    whole = data.sums(MIXED)
    loo = feature_leave_one_out(*tensors, feature_posterior(whole))
    monkeypatch.setattr("skconvgp.inference._features.ROWS", rows)
    cut = data.sums(MIXED)
    assert_close(cut.moment, whole.moment)
    again = feature_leave_one_out(*tensors, feature_posterior(cut))
    assert_close(again.mean, loo.mean, kind="solve")
    assert_close(again.var, loo.var, kind="solve")


def test_what_is_given_is_left_as_it_was():
    data = Data("fitc")
    before = [array.copy() for array in (data.features, data.targets, data.unit)]
    sums = data.sums(MIXED)
    moment = sums.moment.clone()
    feature_evidence(sums, feature_posterior(sums), None)
    assert torch.equal(sums.moment, moment)
    now = data.features, data.targets, data.unit
    for after, then in zip(now, before, strict=True):
        np.testing.assert_array_equal(after, then)


def scale_of(matrix, targets, weights, amplitude):
    if amplitude is not None:
        return amplitude
    quadratic = (targets * np.linalg.solve(matrix, targets)).sum()
    return np.full(N_OUTPUTS, quadratic / (weights.sum() * N_OUTPUTS))


def log_density(y, cov):
    """Return log N(y; 0, cov); scipy takes small eigenvalues for zero."""
    logdet = np.linalg.slogdet(2.0 * np.pi * cov)[1]
    return -0.5 * (y @ np.linalg.solve(cov, y) + logdet)


def evidence_of_repeated_rows(gram, targets, unit, counts, amplitude):
    scale = scale_of(dense(gram, unit, counts), targets, counts, amplitude)
    again = np.repeat(np.arange(len(gram)), counts.astype(int))
    matrix = gram[np.ix_(again, again)] + np.diag(unit[again])
    return sum(
        log_density(column, a * matrix)
        for a, column in zip(scale, targets[again].T, strict=True)
    )


def density_of_refits(gram, targets, unit, weights, amplitude):
    matrix = dense(gram, unit, weights)
    scale = scale_of(matrix, targets, weights, amplitude)
    total = 0.0
    for i, weight in enumerate(weights):
        own = weights * unit[i] / unit  # of a noise that is the same for all
        own[i] = weight
        mean, var = refit_without_sample(gram, targets, unit[i], own, i)
        total += weight * norm.logpdf(targets[i], mean, np.sqrt(var * scale)).sum()
    return total


SCORES = {"evidence": evidence_of_repeated_rows, "loo": density_of_refits}
SMALL = 12
FEW = {
    "ones": np.ones(SMALL),
    "counts": np.array([2.0, 1.0, 1.0, 2.0] + [1.0] * 8),
    "fractions": np.array([0.3, 0.8, 0.5] + [1.0] * 9),
}
CASES = [
    ("evidence", "ones"),
    ("evidence", "counts"),
    ("loo", "ones"),
    ("loo", "counts"),
    ("loo", "fractions"),
]


def noisy_data(seed):
    data = Data(n=SMALL, rank=5, seed=seed)
    generator = np.random.default_rng(seed)
    data.targets = data.targets + 0.3 * generator.normal(size=data.targets.shape)
    return data


def choose(select, data, weights, criterion, amplitude, dtype=torch.float64, of=None):
    arrays = [data.features, data.targets, weights]
    if select is select_fitc_noise:
        arrays.insert(1, data.rest)
    return select(
        *(torch.as_tensor(array) for array in arrays),
        criterion=criterion,
        amplitude=None if amplitude is None else torch.as_tensor(amplitude),
        precision=dtype,
        inputs=None if of is None else EqualInputs(of),
    )


@pytest.mark.parametrize("seed", range(3))
@amplitudes
@pytest.mark.parametrize(("criterion", "weights"), CASES)
def test_noise_is_chosen_as_brute_force_does(criterion, weights, amplitude, seed):
    data, w = noisy_data(seed), FEW[weights]
    chosen = choose(select_feature_noise, data, w, criterion, amplitude)
    scores = [
        SCORES[criterion](data.gram, data.targets, np.full(SMALL, noise), w, amplitude)
        for noise in GRID
    ]
    assert chosen == pytest.approx(GRID[np.argmax(scores)], rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
@amplitudes
@pytest.mark.parametrize(("criterion", "weights"), CASES)
def test_noise_of_fitc_is_chosen_as_brute_force_does(
    criterion, weights, amplitude, seed
):
    data, w = noisy_data(seed), FEW[weights]
    chosen = choose(select_fitc_noise, data, w, criterion, amplitude)
    scores = [
        SCORES[criterion](data.gram, data.targets, data.rest + noise, w, amplitude)
        for noise in GRID
    ]
    assert chosen == pytest.approx(GRID[np.argmax(scores)], rel=1e-9)


@amplitudes
@pytest.mark.parametrize("criterion", ["loo", "evidence"])
@pytest.mark.parametrize("select", [select_feature_noise, select_fitc_noise])
def test_equal_inputs_are_left_out_together_as_with_the_matrix(
    select, criterion, amplitude
):
    data = noisy_data(1)
    of = torch.tensor([0, 0, 0, 1, 2, 2, *range(3, SMALL - 3)])
    data.features, data.rest = data.features[of], np.zeros(SMALL)
    data.targets[1] = data.targets[0]  # a copy; the others are observed anew
    weights = FEW["counts"]
    chosen = choose(select, data, weights, criterion, amplitude, of=of)
    arrays = data.features @ data.features.T, data.targets, weights
    expected = select_noise(
        *(torch.as_tensor(array) for array in arrays),
        criterion=criterion,
        amplitude=None if amplitude is None else torch.as_tensor(amplitude),
        precision=torch.float64,
        inputs=EqualInputs(of),
    )
    assert chosen == pytest.approx(expected, rel=1e-9)


def test_fitc_leaves_equal_inputs_out_with_what_features_do_not_explain():
    data, of = noisy_data(2), torch.tensor([0, 0, 1, 1, 1, *range(2, SMALL - 3)])
    data.features, data.rest = data.features[of], data.rest[of]
    data.targets = data.targets[of]  # copies, all of them
    chosen = choose(select_fitc_noise, data, np.ones(SMALL), "loo", None, of=of)
    first = [0, 2, *range(5, SMALL)]
    for name in ("features", "rest", "targets"):
        setattr(data, name, getattr(data, name)[first])
    assert chosen == choose(select_fitc_noise, data, of.bincount(), "loo", None)


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_precision_limits_the_smallest_noise(criterion):
    data = Data(n=SMALL, rank=5)
    data.targets = data.features[:, :N_OUTPUTS]  # explained without any noise
    weights = 9.0 * np.ones(SMALL)
    for dtype, least in ((torch.float64, 1e-10), (torch.float32, 1e-6)):
        chosen = choose(select_feature_noise, data, weights, criterion, None, dtype)
        assert chosen == pytest.approx(least, rel=1e-9)


def test_features_that_depend_on_each_other_choose_the_same_noise():
    data, weights = noisy_data(0), FEW["fractions"]
    expected = choose(select_feature_noise, data, weights, "loo", None)
    rotated = np.hstack([0.6 * data.features, 0.8 * data.features])
    data.features = rotated
    assert choose(select_feature_noise, data, weights, "loo", None) == expected


def test_as_many_features_as_samples_choose_as_the_matrix_does():
    data, weights = Data(n=SMALL, rank=SMALL), FEW["counts"]
    chosen = choose(select_feature_noise, data, weights, "evidence", None)
    scores = [
        evidence_of_repeated_rows(
            data.gram, data.targets, np.full(SMALL, noise), weights, None
        )
        for noise in GRID
    ]
    assert chosen == pytest.approx(GRID[np.argmax(scores)], rel=1e-9)
