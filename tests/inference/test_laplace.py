"""Laplace approximation: dense twin, scikit-learn, leave-one-out by refits."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_triangular
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skconvgp.inference import (
    _laplace_states,
    fit_laplace,
    laplace_matrices,
    laplace_slopes,
    leave_one_out_laplace,
)
from skconvgp.likelihoods import Laplace
from skconvgp.likelihoods._expectations import (
    logit_expectation,
    probit_expectation,
    softmax_expectation,
)
from tests.helpers.dense_laplace import dense_laplace
from tests.helpers.memory import needs_peak, peak_memory
from tests.helpers.oracles import seeded
from tests.helpers.tolerances import assert_close

LINKS = [("softmax", 3), ("logit", 2), ("probit", 2)]
ATOL = 1e-6  # of the length of a step, in posterior standard deviations


def squared_exponential(X1, X2):
    square = ((X1[:, None] - X2[None]) ** 2).sum(-1)
    return torch.as_tensor(np.exp(-square / 2.0))


def inputs(n=25, n_new=6, n_classes=3, seed=0):
    """Return inputs, new inputs and class codes that are noisy functions of them."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n + n_new, 2))
    score = X[:, 0] + 0.5 * generator.normal(size=n + n_new)
    codes = np.digitize(score, np.linspace(-1.0, 1.0, n_classes + 1)[1:-1])
    codes[:n_classes] = np.arange(n_classes)
    return X[:n], X[n:], torch.as_tensor(codes[:n])


def laplace(gram, codes, n_classes, link, **settings):
    part = Laplace(link)
    return fit_laplace(gram, codes, part.n_latents(n_classes), part.sites, **settings)


def fitted(link, n_classes, amplitude, seed=0, **settings):
    X, _, codes = inputs(n_classes=n_classes, seed=seed)
    gram = amplitude * squared_exponential(X, X)
    return gram, codes, laplace(gram, codes, n_classes, link, **settings)


@pytest.mark.parametrize(
    "amplitude", [0.01, 1.0, 30.0, pytest.param(1e3, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("link", "n_classes"), LINKS)
def test_mode_evidence_and_covariances_are_those_of_dense_matrices(
    link, n_classes, amplitude
):
    X, X_new, codes = inputs(n_classes=n_classes)
    gram = amplitude * squared_exponential(X, X)
    cross = amplitude * squared_exponential(X, X_new)
    prior = amplitude * squared_exponential(X_new, X_new)
    fit = laplace(gram, codes, n_classes, link)
    twin = dense_laplace(gram, codes, fit.dual.shape[1], link)
    assert fit.converged
    assert_close(gram @ fit.dual, twin.mode, kind="solve")
    assert fit.evidence == pytest.approx(twin.evidence, abs=ATOL)
    expected = twin.covariance(gram, cross, prior)
    cov = fit.state.covariance(cross, prior.diagonal())
    assert cov.shape == (6, fit.dual.shape[1], fit.dual.shape[1])
    np.testing.assert_allclose(
        cov, torch.einsum("bkbl->bkl", expected), rtol=0, atol=ATOL * amplitude
    )
    joint = fit.state.joint_covariance(cross, prior)
    np.testing.assert_allclose(
        joint, torch.einsum("bkck->bck", expected), rtol=0, atol=ATOL * amplitude
    )


@pytest.mark.parametrize("amplitude", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(("link", "n_classes"), [*LINKS, ("softmax", 2)])
def test_slopes_are_differences_of_the_dense_evidence(link, n_classes, amplitude):
    gram, codes, fit = fitted(link, n_classes, amplitude)
    slopes = laplace_slopes(gram, codes, Laplace(link).sites, fit)
    assert torch.equal(slopes, slopes.mT)
    half = torch.randn(len(gram), 3, generator=seeded(), dtype=torch.float64)
    change = amplitude * half @ half.mT
    step = 1e-5
    ahead, behind = (
        dense_laplace(gram + sign * step * change, codes, fit.dual.shape[1], link)
        for sign in (1.0, -1.0)
    )
    expected = (ahead.evidence - behind.evidence) / (2.0 * step)
    assert float((slopes * change).sum()) == pytest.approx(expected, rel=1e-5)


def test_slopes_where_a_label_is_certain_are_finite():
    gram = torch.eye(1, dtype=torch.float64)
    certain = torch.full((1, 1), 60.0, dtype=torch.float64)  # 60 deviations
    codes = torch.ones(1, dtype=torch.int64)
    fit = laplace(gram, codes, 2, "probit")
    slopes = laplace_slopes(
        gram, codes, Laplace("probit").sites, replace(fit, dual=certain)
    )
    assert slopes.isfinite().all()


@pytest.mark.parametrize("amplitude", [0.5, 20.0])
def test_logit_is_that_of_scikit_learn(amplitude):
    X, X_new, codes = inputs(n=60, n_classes=2)
    kernel = ConstantKernel(amplitude, "fixed") * RBF(1.0, "fixed")
    peer = GaussianProcessClassifier(kernel, optimizer=None).fit(X, codes)
    inner = peer.base_estimator_
    gram = amplitude * squared_exponential(X, X)
    cross = amplitude * squared_exponential(X, X_new)
    fit = laplace(gram, codes, 2, "logit")
    # It stops when its evidence changes by less than 1e-10.
    dual = inner.y_train_ - inner.pi_
    np.testing.assert_allclose(fit.dual[:, 0], dual, atol=1e-5)
    evidence = peer.log_marginal_likelihood_value_
    assert fit.evidence == pytest.approx(evidence, abs=1e-5)
    half = solve_triangular(inner.L_, inner.W_sr_[:, None] * cross.numpy(), lower=True)
    prior = torch.full((len(X_new),), amplitude, dtype=torch.float64)
    var = fit.state.covariance(cross, prior)[:, 0, 0]
    np.testing.assert_allclose(var, amplitude - (half**2).sum(0), rtol=1e-4)
    proba = logit_expectation((cross.mT @ fit.dual)[:, 0], var)
    # It averages a sum of five error functions fitted to the logistic function.
    np.testing.assert_allclose(proba, peer.predict_proba(X_new)[:, 1], atol=2e-3)


@pytest.mark.parametrize("amplitude", [0.1, 1.0, 50.0])
def test_softmax_of_two_classes_is_logit_with_twice_the_amplitude(amplitude):
    X, X_new, codes = inputs(n=40, n_classes=2)
    gram = amplitude * squared_exponential(X, X)
    cross = amplitude * squared_exponential(X, X_new)
    prior = torch.full((len(X_new),), amplitude, dtype=torch.float64)
    two = laplace(gram, codes, 2, "softmax")
    one = laplace(2.0 * gram, codes, 2, "logit")
    assert_close(two.dual[:, 1] - two.dual[:, 0], 2.0 * one.dual[:, 0], kind="solve")
    assert two.evidence == pytest.approx(one.evidence, abs=ATOL)
    difference = torch.tensor([-1.0, 1.0]).double()
    cov = two.state.covariance(cross, prior)
    var = torch.einsum("k,bkl,l->b", difference, cov, difference)
    expected = one.state.covariance(2.0 * cross, 2.0 * prior)[:, 0, 0]
    np.testing.assert_allclose(var, expected, rtol=1e-6)


@st.composite
def problems(draw):
    link, n_classes = draw(st.sampled_from([*LINKS, ("softmax", 2), ("softmax", 5)]))
    n = draw(st.integers(1, 8))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = generator.normal(size=(n, 2)) * draw(st.sampled_from([0.01, 1.0, 5.0]))
    amplitude = 10.0 ** draw(st.floats(-6.0, 3.0))
    codes = torch.as_tensor(generator.integers(0, n_classes, n))
    return amplitude * squared_exponential(X, X), codes, n_classes, link


@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_any_problem_has_its_mode_where_the_gradient_is_zero(problem):
    gram, codes, _, link = problem
    fit = laplace(*problem)
    assert fit.converged
    twin = dense_laplace(gram, codes, fit.dual.shape[1], link)
    # The gradient of the log posterior by the latents is g - K^-1 f.
    largest = float(fit.dual.abs().max())
    np.testing.assert_allclose(fit.dual, fit.sites.gradient, atol=1e-7 * largest)
    assert fit.evidence == pytest.approx(twin.evidence, abs=ATOL, rel=1e-9)


@pytest.mark.parametrize(("link", "n_classes"), LINKS)
def test_without_a_prior_variance_classes_are_as_likely_as_each_other(link, n_classes):
    gram, codes, fit = fitted(link, n_classes, 1e-6)
    assert fit.converged
    assert fit.evidence == pytest.approx(-len(codes) * math.log(n_classes), abs=1e-4)
    mean, cov = leave_one_out_laplace(gram, fit)
    assert float(mean.abs().max()) < 1e-4
    eye = torch.eye(fit.dual.shape[1]).expand_as(cov)
    np.testing.assert_allclose(cov, 1e-6 * eye, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("amplitude", [1e5, 1e6])
@pytest.mark.parametrize(("link", "n_classes"), LINKS)
def test_huge_amplitudes_give_finite_numbers(link, n_classes, amplitude, seed):
    gram, _, fit = fitted(link, n_classes, amplitude, seed)
    assert fit.converged
    assert math.isfinite(fit.evidence)
    assert float((fit.dual - fit.sites.gradient).abs().max()) < 1e-8
    cov = fit.state.covariance(gram, gram.diagonal())
    mean, left_out = leave_one_out_laplace(gram, fit)
    for values in (cov, mean, left_out):
        assert bool(values.isfinite().all())
    # The label of a sample makes its latents no less certain.
    own, without = (part.diagonal(dim1=1, dim2=2) for part in (cov, left_out))
    assert bool((own <= without + 1e-6 * amplitude).all())
    assert bool((without <= amplitude * (1.0 + 1e-6)).all())


@pytest.mark.parametrize("amplitude", [1e8, 1e10, 1e14])
@pytest.mark.parametrize(("link", "n_classes"), LINKS)
def test_what_rounding_errors_spoil_has_not_converged(link, n_classes, amplitude):
    X, _, codes = inputs(n=80, n_classes=n_classes)
    gram = amplitude * squared_exponential(X, X)
    fit = laplace(gram, codes, n_classes, link, max_iter=30)
    assert math.isfinite(fit.evidence)
    gap = float((fit.dual - fit.sites.gradient).abs().max())
    assert not fit.converged or gap < 1e-6


@pytest.mark.parametrize(("link", "n_classes"), LINKS)
def test_a_start_changes_the_way_and_not_the_mode(link, n_classes):
    gram, codes, cold = fitted(link, n_classes, 20.0)
    _, _, near = fitted(link, n_classes, 10.0)
    warm = laplace(gram, codes, n_classes, link, start=near.dual)
    assert warm.n_iter < cold.n_iter
    far = laplace(gram, codes, n_classes, link, start=-1e6 * cold.dual)
    for other in (warm, far):
        assert other.converged
        assert_close(gram @ other.dual, gram @ cold.dual, kind="solve")
        assert other.evidence == pytest.approx(cold.evidence, abs=ATOL)


@pytest.mark.parametrize(("link", "n_classes"), LINKS)
def test_too_few_iterations_are_reported(link, n_classes):
    _, _, fit = fitted(link, n_classes, 100.0, max_iter=1)
    assert not fit.converged
    assert fit.n_iter == 1
    assert math.isfinite(fit.evidence)


@pytest.mark.parametrize(("link", "n_classes"), LINKS)
def test_blocks_of_new_samples_do_not_matter(link, n_classes, monkeypatch):
    gram, _, fit = fitted(link, n_classes, 3.0)
    whole = fit.state.covariance(gram, gram.diagonal())
    monkeypatch.setattr(_laplace_states, "VALUES", 7 * len(gram) * n_classes)
    parts = fit.state.covariance(gram, gram.diagonal())
    assert_close(parts, whole)


@pytest.mark.parametrize(("link", "n_classes"), LINKS)
def test_gram_is_left_as_it_is(link, n_classes):
    X, _, codes = inputs(n_classes=n_classes)
    gram = squared_exponential(X, X)
    before = gram.clone()
    leave_one_out_laplace(gram, laplace(gram, codes, n_classes, link))
    assert torch.equal(gram, before)


@pytest.mark.parametrize(("link", "n_classes"), LINKS)
def test_independent_samples_have_their_prior_without_their_label(link, n_classes):
    variances = torch.tensor([0.01, 1.0, 5.0, 100.0]).double()
    gram = variances.diag()
    fit = laplace(gram, torch.tensor([0, 1, 1, 0]), n_classes, link)
    mean, cov = leave_one_out_laplace(gram, fit)
    np.testing.assert_allclose(mean / variances.sqrt()[:, None], 0.0, atol=ATOL)
    unit = cov / variances[:, None, None]
    eye = torch.eye(mean.shape[1]).expand_as(cov)
    np.testing.assert_allclose(unit, eye, atol=ATOL)


def log_density(link, mean, cov, codes):
    """Return the log predictive density of each label."""
    if link == "softmax":
        probs = softmax_expectation(mean, cov)
        return probs.gather(1, codes[:, None])[:, 0].log()
    expectation = logit_expectation if link == "logit" else probit_expectation
    return expectation((2 * codes - 1) * mean[:, 0], cov[:, 0, 0]).log()


@pytest.mark.parametrize("amplitude", [1.0, 10.0])
@pytest.mark.parametrize(("link", "n_classes"), LINKS)
def test_leave_one_out_is_near_that_of_refits(link, n_classes, amplitude):
    gram, codes, fit = fitted(link, n_classes, amplitude)
    left_out = log_density(link, *leave_one_out_laplace(gram, fit), codes)
    cov = fit.state.covariance(gram, gram.diagonal())
    seen = log_density(link, gram @ fit.dual, cov, codes)
    refits = torch.empty_like(seen)
    for i in range(len(codes)):
        rest = torch.arange(len(codes)) != i
        refit = laplace(gram[rest][:, rest], codes[rest], n_classes, link)
        mean = gram[i, rest] @ refit.dual
        cov = refit.state.covariance(gram[rest][:, [i]], gram[i, i][None])
        refits[i] = log_density(link, mean[None], cov, codes[[i]])[0]
    # Other sites move when a sample goes; that is a small part of what its label does.
    off = abs(float(left_out.mean() - refits.mean()))
    assert off < 0.1 * float(seen.mean() - refits.mean())
    assert off < 0.02


SETUP = """
import torch
from skconvgp.inference import fit_laplace, leave_one_out_laplace
from skconvgp.likelihoods import Laplace

torch.set_num_threads(1)

def laplace(gram, codes, n_classes, link, **settings):
    part = Laplace(link)
    return fit_laplace(gram, codes, part.n_latents(n_classes), part.sites, **settings)

def problem(n):
    X = torch.linspace(-3.0, 3.0, n, dtype=torch.float64)[:, None]
    codes = (torch.arange(n) * 7919) % {n_classes}
    return 5.0 * torch.exp(-0.5 * (X - X.mT) ** 2), codes

laplace(*problem(60), {n_classes}, "{link}")
gram, codes = problem(1200)
"""


@needs_peak
@pytest.mark.parametrize(("link", "n_classes"), [("softmax", 4), ("logit", 2)])
def test_memory_is_what_is_said(link, n_classes):
    setup = SETUP.format(link=link, n_classes=n_classes)
    # Each factorisation holds the same, so a few tell.
    call = f"laplace(gram, codes, {n_classes}, {link!r}, max_iter=2)"
    peak = peak_memory(setup, call, is_second=True)
    matrices = peak / (1200 * 1200 * 8)
    said = laplace_matrices(Laplace(link).n_latents(n_classes))
    assert said - 0.5 < matrices < said + 0.5


@needs_peak
def test_covariances_take_tables_and_no_copies_of_the_factor():
    setup = SETUP.format(link="softmax", n_classes=4) + (
        "from skconvgp.inference import _laplace_states as states\n"
        "states.VALUES = 4 * 1200 * 50\n"
        "state = laplace(gram, codes, 4, 'softmax', max_iter=1).state\n"
    )
    call = "state.covariance(gram, gram.diagonal())"
    peak = peak_memory(setup, call, is_second=True)
    assert peak < 1.5 * 1200 * 1200 * 8
