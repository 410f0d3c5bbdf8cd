"""Evidence against scipy's density, leave-one-out against literal refits."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from skconvgp import ConvNetGPRegressor
from skconvgp.inference import (
    UNINFORMED,
    informative,
    leave_one_out,
    log_marginal_likelihood,
    missing_quadratic,
    moment_amplitude,
    profiled_amplitude,
)
from skconvgp.kernels import rbf
from tests.helpers.dense_gp import noisy, problem, refit_without_sample
from tests.helpers.tolerances import assert_close

NOISE = 0.1
N, N_OUTPUTS = 20, 2
ONES = np.ones(N)
ALL = torch.ones(N_OUTPUTS, dtype=torch.bool)
COUNTS = np.random.default_rng(1).integers(1, 5, N).astype(float)
MIXED = np.concatenate([[0.2, 0.7, 1.0, 1.5, 2.0, 7.3], COUNTS[6:]])


def solved(weights):
    """Return Y, dual, quadratic, logdet, inverse diagonal, weights as tensors."""
    gram, _, _, targets = problem(N, N_OUTPUTS)
    matrix = noisy(gram, NOISE, weights)
    dual = np.linalg.solve(matrix, targets)
    arrays = {
        "targets": targets,
        "dual": dual,
        "quadratic": (targets * dual).sum(0),
        "logdet": np.linalg.slogdet(matrix)[1],
        "inverse_diag": np.diag(np.linalg.inv(matrix)).copy(),
        "weights": weights,
    }
    return {name: torch.as_tensor(array) for name, array in arrays.items()}


def evidence(weights, amplitude):
    system = solved(weights)
    return log_marginal_likelihood(
        system["quadratic"],
        system["logdet"],
        torch.as_tensor(amplitude),
        NOISE,
        system["weights"],
    )


def density_of_repeated_rows(counts, amplitude):
    """Return the log density of the targets with each row as often as it counts."""
    gram, _, _, targets = problem(N, N_OUTPUTS)
    again = np.repeat(np.arange(N), counts.astype(int))
    matrix = gram[np.ix_(again, again)] + NOISE * np.eye(len(again))
    return [
        multivariate_normal(cov=scale * matrix).logpdf(targets[again, k])
        for k, scale in enumerate(amplitude)
    ]


@pytest.mark.parametrize("weights", [ONES, COUNTS], ids=["ones", "counts"])
def test_evidence_is_the_density_of_the_targets(weights):
    amplitude = np.array([1.0, 2.5])
    expected = density_of_repeated_rows(weights, amplitude)
    assert_close(evidence(weights, amplitude), expected, kind="solve")


@pytest.mark.parametrize(
    "weights", [ONES, COUNTS, MIXED], ids=["ones", "counts", "mixed"]
)
def test_profiled_amplitude_is_the_best_one(weights):
    system = solved(weights)
    shared = profiled_amplitude(system["quadratic"], system["weights"], ALL)
    best = float(shared[0])
    assert (shared == best).all()

    def total(amplitude):
        return float(evidence(weights, np.full(N_OUTPUTS, amplitude)).sum())

    factors = np.concatenate([np.logspace(-2, 2, 21), [0.999, 1.001]])
    others = [total(best * factor) for factor in factors if factor != 1.0]
    assert total(best) > max(others)
    steps = total(best * 1.001), total(best * 0.999)
    assert abs(steps[0] - steps[1]) < 1e-6  # flat there


def test_profiled_amplitude_of_repeated_rows():
    gram, _, _, targets = problem(N, N_OUTPUTS)
    again = np.repeat(np.arange(N), COUNTS.astype(int))
    matrix = gram[np.ix_(again, again)] + NOISE * np.eye(len(again))
    y = targets[again]
    expected = (y * np.linalg.solve(matrix, y)).sum() / y.size
    system = solved(COUNTS)
    actual = profiled_amplitude(system["quadratic"], system["weights"], ALL)
    assert actual.tolist() == pytest.approx([expected] * N_OUTPUTS, rel=1e-9)


def test_profiled_amplitude_of_targets_that_are_zero_is_positive():
    zero, ones = torch.zeros(3, 1, dtype=torch.float64), torch.ones(3).double()
    assert informative(zero).tolist() == [True]
    assert profiled_amplitude(zero[0], ones, informative(zero)) > 0.0
    assert moment_amplitude(zero, 0.1, ones, informative(zero)) > 0.0


def test_outputs_without_targets_change_no_amplitude():
    y = torch.tensor([[0.0, 2.0], [0.0, 0.0], [0.0, -1.0]], dtype=torch.float64)
    informs, ones = informative(y), torch.ones(3).double()
    assert informs.tolist() == [False, True]
    assert informative(y.square().sum(0)).tolist() == [False, True]
    found = profiled_amplitude(y.square().sum(0), ones, informs)
    assert found.tolist() == [UNINFORMED, pytest.approx(5.0 / 3.0)]
    found = moment_amplitude(y, 0.5, ones, informs)
    assert found.tolist() == [UNINFORMED, pytest.approx(5.0 / 4.5)]


@pytest.mark.parametrize("weights", [ONES, MIXED], ids=["ones", "mixed"])
def test_moment_amplitude_is_that_of_targets_from_the_model(weights):
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.1, 1.0, N)
    gram = problem(N, 1)[0]
    gram = gram / np.average(np.diag(gram), weights=weights)
    root = np.linalg.cholesky(3.0 * (gram + np.diag(noise / weights)))
    targets = root @ rng.normal(size=(N, 100_000))
    values = torch.from_numpy(targets)
    of_samples = map(torch.from_numpy, (noise, weights))
    found = moment_amplitude(values, *of_samples, informative(values))
    assert float(found[0]) == pytest.approx(3.0, rel=0.02)
    assert (found == found[0]).all()


def test_missing_quadratic_is_above_what_iterates_lack():
    gram, _, _, targets = problem(N, N_OUTPUTS)
    noise = np.full(N, 0.05)
    matrix = gram + np.diag(noise)
    y = targets[:, 0]
    _, vectors = np.linalg.eigh(matrix)
    for rank in range(N):  # the best of a subspace, as conjugate gradients find it
        basis = vectors[:, N - rank :]
        x = basis @ np.linalg.solve(basis.T @ matrix @ basis, basis.T @ y)
        residual = np.linalg.norm(y - matrix @ x) / np.linalg.norm(y)
        lacks = y @ np.linalg.solve(matrix, y) - y @ x
        bound = missing_quadratic(
            torch.from_numpy(y[:, None]), residual, torch.from_numpy(noise)
        )
        assert lacks <= float(bound[0]) * (1.0 + 1e-9)


@pytest.mark.parametrize(
    "weights", [ONES, COUNTS, MIXED], ids=["ones", "counts", "mixed"]
)
def test_leave_one_out_is_that_of_refits(weights):
    gram, _, _, targets = problem(N, N_OUTPUTS)
    system = solved(weights)
    loo = leave_one_out(
        system["targets"],
        system["dual"],
        system["inverse_diag"],
        NOISE,
        system["weights"],
    )
    refits = [refit_without_sample(gram, targets, NOISE, weights, i) for i in range(N)]
    means, variances = zip(*refits, strict=True)
    assert_close(loo.mean, np.array(means), kind="solve")
    assert_close(loo.var, np.array(variances), kind="solve")


def data(n=15):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 2))
    return X, 3.0 * np.sin(X).sum(1) + 10.0


def regressor(normalize_y=False):
    settings = {"noise_variance": 1e-2, "amplitude": 2.0}
    return ConvNetGPRegressor(rbf(1.5), normalize_y=normalize_y, **settings)


@pytest.mark.parametrize("normalize_y", [True, False])
def test_evidence_of_a_regressor_is_the_density_of_its_targets(normalize_y):
    X, y = data()
    y = y - y.mean()
    gp = regressor(normalize_y=normalize_y).fit(X, y)
    square = ((X[:, None] - X[None]) ** 2).sum(-1)
    matrix = np.exp(-square / 2.0 / 1.5**2) + 1e-2 * np.eye(len(X))
    amplitude = 2.0 * (y.var() if normalize_y else 1.0)
    expected = multivariate_normal(cov=amplitude * matrix).logpdf(y)
    assert gp.log_marginal_likelihood() == pytest.approx(expected, rel=1e-9)


def test_leave_one_out_of_a_regressor_is_that_of_refits():
    X, y = data()
    y = y - y.mean()
    gp = regressor().fit(X, y)
    mean, std = gp.loo_predict(return_std=True)
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        refit = regressor()
        refit.fit(X[rest], y[rest])
        expected = refit.predict_latent(X[[i]], return_std=True, noise=True)
        # A fit subtracts the mean of its targets, if only in the last digits.
        shift = y[rest].mean() if refit.y_mean_ else 0.0
        assert mean[i] == pytest.approx(expected[0][0], rel=1e-8, abs=abs(shift))
        assert std[i] == pytest.approx(expected[1][0], rel=1e-8)
