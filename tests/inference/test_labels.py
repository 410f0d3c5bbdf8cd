"""Classes with targets of their own noise: one factorisation against one for each."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from skconvgp.inference import (
    LABEL_COPIES,
    EqualInputs,
    choose_amplitude,
    fit_labels,
)
from skconvgp.likelihoods import Dirichlet
from tests.helpers.dense_gp import noisy, problem, refit_without_sample
from tests.helpers.memory import needs_peak, peak_memory
from tests.helpers.tolerances import assert_close

N_CLASSES = 3


def labelled(seed=0, alpha_eps=0.01, n=20, amplitude=4.0):
    """Return prior covariances, new ones, and targets with their noise."""
    gram, cross, prior, _ = problem(n=n, seed=seed)
    codes = torch.as_tensor(np.random.default_rng(seed).integers(0, N_CLASSES, n))
    targets = Dirichlet(alpha_eps).targets(codes, N_CLASSES, torch.ones(n))
    values = (targets.values - targets.offset).numpy()
    scaled = tuple(amplitude * matrix for matrix in (gram, cross, prior))
    return (*scaled, values, targets.noise.numpy())


def fit(gram, values, noise, weights=None, of=None):
    weights = np.ones(len(gram)) if weights is None else weights
    arrays = (gram, values, noise, weights)
    inputs = None if of is None else EqualInputs(torch.as_tensor(of))
    return fit_labels(
        *(torch.tensor(array, dtype=torch.float64) for array in arrays), inputs
    )


@settings(max_examples=30)
@given(
    seed=st.integers(0, 1000),
    alpha_eps=st.sampled_from([1e-4, 0.01, 0.5]),
    amplitude=st.sampled_from([1e-3, 4.0, 1e4]),
)
def test_one_factorisation_gives_what_one_for_each_class_gives(
    seed, alpha_eps, amplitude
):
    gram, cross, prior, values, noise = labelled(seed, alpha_eps, amplitude=amplitude)
    found = fit(gram, values, noise)
    new = torch.as_tensor(cross.T.copy())
    var = found.state.covariance(new, torch.as_tensor(np.diag(prior).copy()))
    cov = found.state.joint_covariance(new, torch.as_tensor(prior))
    for c in range(N_CLASSES):
        matrix = gram + np.diag(noise[:, c])
        expected = prior - cross @ np.linalg.solve(matrix, cross.T)
        assert_close(
            found.dual[:, c], np.linalg.solve(matrix, values[:, c]), kind="solve"
        )
        np.testing.assert_allclose(cov[:, :, c], expected, atol=1e-9 * prior.max())
        np.testing.assert_allclose(
            var[:, c], np.diag(expected), atol=1e-9 * prior.max()
        )
        density = multivariate_normal(np.zeros(len(gram)), matrix).logpdf(values[:, c])
        assert float(found.evidence[c]) == pytest.approx(density, rel=1e-9)


def test_the_matrix_is_left_as_it_was():
    gram, _, _, values, noise = labelled()
    tensor = torch.tensor(gram)
    fit_labels(tensor, torch.tensor(values), torch.tensor(noise), torch.ones(len(gram)))
    np.testing.assert_array_equal(tensor, gram)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_leave_one_out_is_that_of_refits(is_weighted):
    gram, _, _, values, noise = labelled()
    weights = np.ones(len(gram))
    if is_weighted:
        weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0, 3.0], len(gram))
    found = fit(gram, values, noise, weights)
    for c in range(N_CLASSES):
        # In units in which the noise of every sample is one.
        root = np.sqrt(noise[:, c])
        scaled = gram / np.outer(root, root)
        for i in range(len(gram)):
            mean, var = refit_without_sample(
                scaled, values[:, [c]] / root[:, None], 1.0, weights, i
            )
            expected = float(mean[0]) * root[i], (var - 1.0 / min(weights[i], 1.0))
            assert float(found.loo_mean[i, c]) == pytest.approx(expected[0], abs=1e-9)
            assert float(found.loo_var[i, c]) == pytest.approx(
                expected[1] * root[i] ** 2, abs=1e-9
            )


def test_samples_with_equal_inputs_are_left_out_together():
    gram, _, _, values, noise = labelled()
    n = len(gram)
    of = np.append(np.arange(n - 4), [0, 0, 1, 2])
    gram = gram[np.ix_(of, of)]
    values[n - 4], noise[n - 4] = values[0], noise[0]  # a copy
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0], n)
    found = fit(gram, values, noise, weights, of)
    for c in range(N_CLASSES):
        for i in (0, 1, 2, 5, n - 1):
            rest = of != of[i]
            matrix = gram[np.ix_(rest, rest)] + np.diag(noise[rest, c] / weights[rest])
            gain = np.linalg.solve(matrix, gram[rest, i])
            mean, var = gain @ values[rest, c], gram[i, i] - gain @ gram[rest, i]
            assert float(found.loo_mean[i, c]) == pytest.approx(mean, abs=1e-9)
            assert float(found.loo_var[i, c]) == pytest.approx(var, abs=1e-9)


def test_of_few_inputs_one_unit_is_left_out():
    gram, _, _, values, noise = labelled()
    n = len(gram)
    of = np.arange(n) % 6
    gram = gram[np.ix_(of, of)]
    weights = np.random.default_rng(1).choice([0.5, 1.0, 3.0], n)
    found = fit(gram, values, noise, weights, of)
    for c in range(N_CLASSES):
        for i in range(n):
            left = weights.copy()
            left[i] -= min(left[i], 1.0)
            rest = left > 0.0
            matrix = gram[np.ix_(rest, rest)] + np.diag(noise[rest, c] / left[rest])
            gain = np.linalg.solve(matrix, gram[rest, i])
            mean, var = gain @ values[rest, c], gram[i, i] - gain @ gram[rest, i]
            assert float(found.loo_mean[i, c]) == pytest.approx(mean, abs=1e-9)
            assert float(found.loo_var[i, c]) == pytest.approx(var, abs=1e-9)


def test_weights_are_repetitions():
    gram, cross, prior, values, noise = labelled()
    times = np.random.default_rng(2).integers(1, 4, len(gram))
    again = np.repeat(np.arange(len(gram)), times)
    weighted = fit(gram, values, noise, times.astype(float))
    many = fit(gram[np.ix_(again, again)], values[again], noise[again])
    assert_close(weighted.evidence, many.evidence, kind="solve")
    prior = torch.as_tensor(np.diag(prior).copy())
    one = weighted.state.covariance(torch.as_tensor(cross.T.copy()), prior)
    other = many.state.covariance(torch.as_tensor(cross[:, again].T.copy()), prior)
    assert_close(one, other, kind="solve")


def test_noise_that_all_classes_share_needs_no_corrections():
    gram, _, _, values, noise = labelled()
    same = np.repeat(noise[:, :1], N_CLASSES, axis=1)
    found = fit(gram, values, same)
    assert len(found.state.corrections) == 0
    matrix = noisy(gram, 0.0) + np.diag(noise[:, 0])
    assert_close(found.dual, np.linalg.solve(matrix, values), kind="solve")


def test_a_class_without_members_is_solved_for_too():
    gram, _, _, values, noise = labelled()
    noise[:, 1] = noise.max()
    found = fit(gram, values, noise)
    matrix = gram + np.diag(noise[:, 1])
    assert_close(found.dual[:, 1], np.linalg.solve(matrix, values[:, 1]), kind="solve")


SETUP = """
import torch
from skconvgp.inference import fit_labels

torch.set_num_threads(1)

def problem(n):
    X = torch.linspace(-3.0, 3.0, n, dtype=torch.float64)[:, None]
    gram = 5.0 * torch.exp(-0.5 * (X - X.mT) ** 2)
    noise = torch.full((n, 2), 4.6, dtype=torch.float64)
    noise[torch.arange(n), (torch.arange(n) % 10 == 0).long()] = 0.7
    return gram, torch.sin(X).expand(-1, 2), noise, torch.ones(n, dtype=torch.float64)

fit_labels(*problem(60))
gram, targets, noise, weights = problem(1200)
"""


@needs_peak
def test_memory_is_what_is_said_for_a_class_of_almost_all_samples():
    call = "fit_labels(gram, targets, noise, weights)"
    peak = peak_memory(SETUP, call, is_second=True)
    matrices = 1 + peak / (1200 * 1200 * 8)
    assert LABEL_COPIES - 1.0 < matrices < LABEL_COPIES + 0.25


@pytest.mark.parametrize("best", [0.03, 1.0, 77.0, 2e5])
def test_amplitude_is_the_top_of_the_evidence(best):
    calls = []

    def evidence(amplitude):
        calls.append(amplitude)
        return -(abs(np.log(amplitude / best)) ** 1.5)

    assert choose_amplitude(evidence) == pytest.approx(best, rel=0.05)
    assert len(calls) < 30


def test_amplitude_of_an_evidence_with_two_tops_is_at_the_higher_one():
    def evidence(amplitude):
        x = np.log10(amplitude)
        return np.exp(-((x - 4.3) ** 2)) + 2.0 * np.exp(-((x + 1.2) ** 2))

    assert choose_amplitude(evidence) == pytest.approx(10.0**-1.2, rel=0.05)
