"""Expected probabilities: quadrature of scipy and plain Monte Carlo."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import expit, log_expit, softmax
from scipy.stats import norm

from skconvgp.likelihoods import _expectations
from skconvgp.likelihoods._expectations import (
    antithetic_draws,
    drawn_softmax,
    logit_expectation,
    probit_expectation,
    softmax_expectation,
)

VARIANCES = [0.0, 1e-8, 0.01, 1.0, 1.99, 2.01, 10.0, 100.0, 1e4, 1e6]


def tensors(*arrays):
    return tuple(torch.as_tensor(array, dtype=torch.float64) for array in arrays)


def means_for(var):
    """Return means within a few standard deviations of where the function steps."""
    return np.array([-3.0, -1.0, -0.2, 0.0, 0.5, 2.0]) * np.sqrt(var + 4.0)


def expected_value(function, mean, var):
    """Return E[function(f)] by adaptive quadrature in units of the deviation."""
    deviation = np.sqrt(var)
    step = np.clip(-mean / max(deviation, 1e-12), -12.0, 12.0)
    near = [step + width / max(deviation, 1.0) for width in (-40, -5, 0, 5, 40)]
    edges = np.clip([-12.0, *near, 12.0], -12.0, 12.0)

    def integrand(z):
        return function(mean + deviation * z) * norm.pdf(z)

    return sum(quad(integrand, *piece, epsabs=1e-13)[0] for piece in pairwise(edges))


@pytest.mark.parametrize("var", VARIANCES)
@pytest.mark.parametrize(
    ("actual", "function"),
    [(logit_expectation, expit), (probit_expectation, norm.cdf)],
    ids=["logit", "probit"],
)
def test_expectations_of_one_latent_are_integrals(actual, function, var):
    mean = means_for(var)
    expected = [expected_value(function, value, var) for value in mean]
    result = actual(*tensors(mean, np.full(len(mean), var)))
    np.testing.assert_allclose(result, expected, rtol=0.0, atol=1e-11)


def test_improbable_classes_keep_their_logarithm():
    mean, none = tensors([-30.0, -20.0, -10.0], np.zeros(3))
    np.testing.assert_allclose(
        logit_expectation(mean, none).log(), log_expit(mean.numpy()), rtol=1e-12
    )
    np.testing.assert_allclose(
        probit_expectation(mean, none).log(), norm.logcdf(mean.numpy()), rtol=1e-12
    )


@pytest.mark.parametrize("var", [0.5, 1.99, 2.01, 3.0, 30.0])
@pytest.mark.parametrize("mean", [-20.0, -45.0, -60.0, -300.0])
def test_improbable_classes_of_wide_latents(mean, var):
    # exp(f) sigmoid(-f), with the exponential in the density: its mean moves by var.
    scale = np.sqrt(var)
    rest = quad(
        lambda z: expit(-(mean + var + scale * z)) * norm.pdf(z),
        *(-12.0, 12.0),
        epsabs=1e-13,
        points=[np.clip(-(mean + var) / scale, -12.0, 12.0)],
    )[0]
    expected = mean + var / 2.0 + np.log(rest)
    found = logit_expectation(*tensors([mean], [var]))
    np.testing.assert_allclose(found.log(), [expected], rtol=1e-9)


@pytest.mark.parametrize("actual", [logit_expectation, probit_expectation])
def test_both_signs_add_up_to_one(actual):
    mean, var = tensors(*(part.ravel() for part in np.meshgrid([0, 1, 9], VARIANCES)))
    total = actual(mean, var) + actual(-mean, var)
    np.testing.assert_allclose(total, 1.0, rtol=1e-13)


def latents(n_rows=5, n_classes=4, scale=1.0, seed=0):
    """Return means (b, k) and covariances (b, k, k)."""
    generator = np.random.default_rng(seed)
    mean = 2.0 * generator.normal(size=(n_rows, n_classes))
    root = generator.normal(size=(n_rows, n_classes, n_classes))
    return mean, scale * root @ root.transpose(0, 2, 1)


def test_draws_are_normal_and_antithetic():
    draws = antithetic_draws(10)
    assert draws.shape == (512, 10)
    assert torch.equal(draws[:256], -draws[256:])
    half = draws[:256].numpy()
    assert np.abs(half.mean(0)).max() < 5.0 / np.sqrt(256)
    assert np.abs(half.T @ half / 256 - np.eye(10)).max() < 5.0 * np.sqrt(2.0 / 256)
    assert norm.cdf(half).std() == pytest.approx(np.sqrt(1.0 / 12.0), rel=0.05)


@pytest.mark.slow
def test_draws_are_the_same_in_every_process():
    code = (
        "import torch; torch.manual_seed(5); "
        "from skconvgp.likelihoods._expectations import antithetic_draws; "
        "print(antithetic_draws(3).numpy().tobytes().hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == antithetic_draws(3).numpy().tobytes().hex()


@pytest.mark.parametrize("scale", [1e-4, 0.3, 3.0, 100.0])
@pytest.mark.parametrize("kind", ["variances", "covariances"])
def test_softmax_is_within_the_errors_of_its_draws(kind, scale):
    mean, cov = latents(scale=scale)
    variances = np.einsum("bkk->bk", cov)
    if kind == "variances":
        cov = variances[:, :, None] * np.eye(4)
    n_draws = 200_000
    generator = np.random.default_rng(1)
    given_to = variances if kind == "variances" else cov
    actual = softmax_expectation(*tensors(mean, given_to))
    np.testing.assert_allclose(actual.sum(1), 1.0, rtol=1e-12)
    for row in range(len(mean)):
        draws = generator.multivariate_normal(mean[row], cov[row], n_draws)
        probs = softmax(draws, axis=1)
        # A pair of opposite draws is never worse than one draw.
        error = 4.5 * probs.std(0) * np.sqrt(1.0 / 256 + 1.0 / n_draws)
        assert (np.abs(actual[row].numpy() - probs.mean(0)) <= error + 1e-12).all()


@pytest.mark.parametrize("n_classes", [2, 4])
def test_variances_are_covariances_of_independent_latents(n_classes):
    mean, cov = latents(n_classes=n_classes)
    var = np.einsum("bkk->bk", cov)
    independent = softmax_expectation(*tensors(mean, var))
    diagonal = softmax_expectation(*tensors(mean, var[:, :, None] * np.eye(n_classes)))
    np.testing.assert_allclose(independent, diagonal, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_softmax_of_latents_without_variance_is_the_softmax(n_classes):
    mean, cov = latents(n_classes=n_classes)
    expected = softmax(mean, axis=1)
    for none in (np.zeros_like(mean), np.zeros_like(cov)):
        actual = softmax_expectation(*tensors(mean, none))
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_softmax_of_two_latents_is_the_logistic_function_of_their_difference():
    mean, cov = latents(n_rows=50, n_classes=2)
    side = np.array([-1.0, 1.0])
    var = np.einsum("k,bkl,l->b", side, cov, side)
    exact = logit_expectation(*tensors(mean @ side, var))
    probs = softmax_expectation(*tensors(mean, cov))
    np.testing.assert_allclose(probs[:, 1], exact, rtol=1e-12)
    np.testing.assert_allclose(probs.sum(1), 1.0, rtol=1e-12)
    far = tensors(mean - [0.0, 60.0], np.full_like(mean, 1e-6))
    # exp(-60) and so on: one less what the other has would have no digits left
    expected = np.exp(mean @ side - 60.0 + 1e-6)
    np.testing.assert_allclose(softmax_expectation(*far)[:, 1], expected, rtol=1e-9)


def test_spread_draws_are_better_than_independent_ones():
    mean, cov = latents(n_rows=50, n_classes=3)
    mean[:, 2] -= 1e3  # the other two share the probability
    side = np.array([-1.0, 1.0, 0.0])
    var = np.einsum("k,bkl,l->b", side, cov, side)
    exact = logit_expectation(*tensors(mean @ side, var))
    half = torch.randn(256, 3, generator=torch.Generator().manual_seed(1)).double()
    spread, independent = (
        float((drawn_softmax(*tensors(mean, cov), draws)[:, 1] - exact).square().mean())
        for draws in (antithetic_draws(3), torch.cat([half, -half]))
    )
    assert spread < 0.25 * independent


def test_blocks_of_rows_do_not_matter(monkeypatch):
    mean, cov = tensors(*latents(n_rows=23))
    whole = softmax_expectation(mean, cov)
    monkeypatch.setattr(_expectations, "VALUES", 5 * 4 * _expectations.N_DRAWS)
    np.testing.assert_allclose(softmax_expectation(mean, cov), whole, rtol=1e-13)


def test_no_rows():
    mean, cov = torch.empty(0, 3).double(), torch.empty(0, 3, 3).double()
    assert softmax_expectation(mean, cov).shape == (0, 3)
    assert logit_expectation(mean[:, 0], mean[:, 0]).shape == (0,)
