"""Natural gradients against closed forms, dense formulas and differences."""

import numpy as np
import pytest
import torch
from scipy.special import log_expit

from skconvgp.inference import NaturalPosterior, gaussian_sites
from skconvgp.likelihoods import Bernoulli, Softmax
from tests.helpers.tolerances import assert_close

N, R, K = 12, 5, 3
RNG = np.random.default_rng(0)
F = torch.as_tensor(RNG.normal(size=(N, R)))
Y = torch.as_tensor(RNG.normal(size=(N, K)))
CODES = torch.arange(N) % K
NOISE = torch.tensor([0.3, 0.7, 1.1], dtype=torch.float64)


def start(k=K, seed=1):
    rng = np.random.default_rng(seed)
    half = torch.as_tensor(rng.normal(size=(R, R)))
    return NaturalPosterior.near(
        half @ half.mT, torch.as_tensor(rng.normal(size=(R, k)))
    )


def marginals(posterior, features=F):
    pairs = [one.marginals(features) for one in posterior.coefficients()]
    return tuple(torch.stack(parts, 1) for parts in zip(*pairs, strict=True))


def divergence(posterior):
    return float(sum(one.divergence() for one in posterior.coefficients()))


def bound(posterior, likelihood, codes=CODES):
    sites = likelihood.expected_sites(*marginals(posterior), codes)
    return float(sites.log_prob.sum()) - divergence(posterior)


def step(posterior, likelihood, rate, codes=CODES):
    mean, var = marginals(posterior)
    sites = likelihood.expected_sites(mean, var, codes)
    posterior.step_(F, mean, sites.gradient, sites.curvature, rate=rate)


def test_marginals_and_divergence_are_those_of_dense_formulas():
    posterior = start()
    mean, var = marginals(posterior)
    total = 0.0
    for c in range(K):
        S = np.linalg.inv(posterior.precision[c].numpy())
        m = S @ posterior.shift[c].numpy()
        assert_close(mean[:, c], F.numpy() @ m)
        assert_close(var[:, c], np.diag(F.numpy() @ S @ F.numpy().T))
        total += np.trace(S) + m @ m - R - np.linalg.slogdet(S)[1]
    assert divergence(posterior) == pytest.approx(total / 2, rel=1e-10)


def test_a_whole_step_with_gaussian_noise_is_the_closed_form():
    posterior = start()
    mean, var = marginals(posterior)
    sites = gaussian_sites(mean, var, Y, NOISE)
    posterior.step_(F, mean, sites.gradient, sites.curvature, rate=1.0)
    evidence = 0.0
    mean, var = marginals(posterior)
    for c, one in enumerate(posterior.coefficients()):
        precision = np.eye(R) + F.numpy().T @ F.numpy() / float(NOISE[c])
        weights = np.linalg.solve(precision, F.numpy().T @ Y[:, c].numpy())
        assert_close(posterior.precision[c], precision)
        assert_close(one.mean, weights / float(NOISE[c]))
        cov = F.numpy() @ F.numpy().T + float(NOISE[c]) * np.eye(N)
        y = Y[:, c].numpy()
        logdet = np.linalg.slogdet(2.0 * np.pi * cov)[1]
        evidence -= 0.5 * (logdet + y @ np.linalg.solve(cov, y))
    sites = gaussian_sites(mean, var, Y, NOISE)
    found = float(sites.log_prob.sum()) - divergence(posterior)
    assert found == pytest.approx(evidence, rel=1e-10)


def test_small_steps_raise_the_bound_as_the_natural_gradient_says():
    """In the mean parameters the gradient is the difference of natural parameters."""
    likelihood, rate = Softmax(n_draws=1 << 14), 1e-4
    before, after = start(), start()
    step(after, likelihood, rate)
    rise = (bound(after, likelihood) - bound(before, likelihood)) / rate
    wanted = 0.0
    pairs = zip(before.coefficients(), after.coefficients(), strict=True)
    for c, (old, new) in enumerate(pairs):
        moments = [
            torch.cholesky_inverse(one.factor) + torch.outer(one.mean, one.mean)
            for one in (old, new)
        ]
        change = (after.shift - before.shift)[c] / rate
        bend = (after.precision - before.precision)[c] / rate
        wanted += float(change @ (new.mean - old.mean)) / rate
        wanted -= 0.5 * float((bend * (moments[1] - moments[0])).sum()) / rate
    assert rise == pytest.approx(wanted, rel=2e-3)
    assert rise > 0.0


@pytest.mark.parametrize("likelihood", [Softmax(), Bernoulli("logit")], ids=repr)
def test_the_bound_rises_to_where_its_gradient_is_zero(likelihood):
    k = likelihood.n_latents(2)
    codes = CODES % 2
    posterior = start(k)
    bounds = [bound(posterior, likelihood, codes)]
    for _ in range(250):
        step(posterior, likelihood, 0.5, codes)
        bounds.append(bound(posterior, likelihood, codes))
    assert (np.diff(bounds) > -1e-10).all()
    mean, var = marginals(posterior)
    sites = likelihood.expected_sites(mean, var, codes)
    for c, one in enumerate(posterior.coefficients()):
        np.testing.assert_allclose(
            one.mean, F.mT @ sites.gradient[:, c], rtol=1e-7, atol=1e-9
        )
        scaled = F * sites.curvature[:, c : c + 1]
        wanted = torch.eye(R, dtype=F.dtype) + F.mT @ scaled
        np.testing.assert_allclose(posterior.precision[c], wanted, rtol=1e-7, atol=1e-9)


def test_steps_of_batches_are_steps_of_all_samples_on_average():
    likelihood, batches = Softmax(), torch.arange(N).split(4)
    mean, var = marginals(start())
    sites = likelihood.expected_sites(mean, var, CODES)
    whole = start()
    whole.step_(F, mean, sites.gradient, sites.curvature, rate=0.3)
    ends = []
    for batch in batches:
        part = start()
        own = likelihood.expected_sites(mean[batch], var[batch], CODES[batch])
        scale = N / len(batch)
        part.step_(
            F[batch],
            mean[batch],
            scale * own.gradient,
            scale * own.curvature,
            rate=0.3,
        )
        ends.append(part)
    for name in ("precision", "shift"):
        average = torch.stack([getattr(end, name) for end in ends]).mean(0)
        assert_close(average, getattr(whole, name))


def test_the_bound_is_below_the_evidence_of_two_samples():
    """The evidence by quadrature over both latent functions."""
    features = torch.tensor([[1.5, 0.0], [0.9, 1.1]], dtype=torch.float64)
    codes, likelihood = torch.tensor([1, 0]), Bernoulli("logit")
    nodes, shares = np.polynomial.hermite_e.hermegauss(80)
    shares = shares / shares.sum()
    u = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    f = u @ features.numpy().T
    density = np.exp(log_expit(f[:, 0]) + log_expit(-f[:, 1]))
    evidence = np.log(density @ np.outer(shares, shares).ravel())
    posterior = NaturalPosterior.near(
        torch.zeros(2, 2, dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64)
    )
    for _ in range(50):
        mean, var = marginals(posterior, features)
        sites = likelihood.expected_sites(mean, var, codes)
        found = float(sites.log_prob.sum()) - divergence(posterior)
        assert found < evidence
        posterior.step_(features, mean, sites.gradient, sites.curvature, rate=0.7)
    assert found == pytest.approx(evidence, abs=0.02)
