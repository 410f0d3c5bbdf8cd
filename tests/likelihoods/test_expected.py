"""Expected log likelihoods: integrals of scipy, central differences, wide limits."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import log_expit, log_softmax
from scipy.stats import norm

from skconvgp._protocols import Likelihood, LinkLikelihood, VariationalLikelihood
from skconvgp.likelihoods import Bernoulli, RobustMax, Softmax

EPSILON = 0.03
MEAN = np.array([[0.3, -1.2, 0.8], [2.0, 1.5, -0.5], [-0.7, 0.1, 0.2]])
VAR = np.array([[0.4, 1.5, 0.9], [2.5, 0.3, 0.7], [1.1, 1.1, 0.2]])
CODES = torch.tensor([0, 1, 2])
LINKS = {"probit": norm.logcdf, "logit": log_expit}


def tensor(array):
    return torch.as_tensor(array, dtype=torch.float64)


def sites(likelihood, mean=MEAN, var=VAR, codes=CODES):
    return likelihood.expected_sites(tensor(mean), tensor(var), codes)


def by_differences(likelihood, mean, var, codes):
    """Return first and second derivatives by the means, given first ones exactly."""
    step, slopes, bends = 1e-5, np.empty_like(mean), np.empty_like(mean)
    for c in range(mean.shape[1]):
        shift = step * (np.arange(mean.shape[1]) == c)
        up, down = (
            sites(likelihood, mean + sign * shift, var, codes) for sign in (1, -1)
        )
        slopes[:, c] = (up.log_prob - down.log_prob) / (2 * step)
        bends[:, c] = (up.gradient - down.gradient)[:, c] / (2 * step)
    return slopes, bends


@pytest.mark.parametrize("likelihood", [Softmax(), RobustMax(), Bernoulli()], ids=repr)
def test_is_a_likelihood_for_variational_inference_only(likelihood):
    assert isinstance(likelihood, VariationalLikelihood)
    assert not isinstance(likelihood, Likelihood | LinkLikelihood)


@pytest.mark.parametrize("link", LINKS)
def test_one_latent_is_an_integral(link):
    mean, var = MEAN.reshape(-1, 1), VAR.reshape(-1, 1)
    codes = torch.arange(len(mean)) % 2
    found = sites(Bernoulli(link), mean, var, codes)
    for i, code in enumerate(codes.tolist()):
        sign, deviation = 2 * code - 1, np.sqrt(var[i, 0])

        def integrand(z, i=i, sign=sign, deviation=deviation):
            return LINKS[link](sign * (mean[i, 0] + deviation * z)) * norm.pdf(z)

        assert float(found.log_prob[i]) == pytest.approx(
            quad(integrand, -12, 12, epsabs=1e-13)[0], abs=1e-9
        )


def test_two_classes_are_one_latent_of_their_difference():
    mean, var, codes = MEAN[:, :2], VAR[:, :2], torch.tensor([0, 1, 1])
    both = sites(Softmax(), mean, var, codes)
    one = sites(
        Bernoulli("logit"),
        mean[:, 1:] - mean[:, :1],
        var.sum(1, keepdims=True),
        codes,
    )
    np.testing.assert_allclose(both.log_prob, one.log_prob, rtol=1e-12)
    np.testing.assert_allclose(both.gradient[:, 1:], one.gradient, rtol=1e-12)
    np.testing.assert_allclose(both.gradient.sum(1), 0.0, atol=1e-14)


def test_softmax_of_three_is_a_mean_over_many_draws():
    noise = np.random.default_rng(0).normal(size=(400_000, 1, 3))
    latents = MEAN + np.sqrt(VAR) * np.concatenate([noise, -noise])
    logs = log_softmax(latents, axis=2)
    found = sites(Softmax())
    own = logs[:, np.arange(3), CODES.numpy()]
    np.testing.assert_allclose(found.log_prob, own.mean(0), atol=0.02)
    one_hot = np.eye(3)[CODES.numpy()]
    probs = np.exp(logs)
    np.testing.assert_allclose(found.gradient, (one_hot - probs).mean(0), atol=0.01)
    np.testing.assert_allclose(
        found.curvature, (probs * (1 - probs)).mean(0), atol=0.01
    )
    more = sites(Softmax(n_draws=1 << 14))
    np.testing.assert_allclose(more.log_prob, own.mean(0), atol=0.003)


def largest(mean, var, code):
    """Return the probability that a latent is the largest, by adaptive quadrature."""

    def integrand(z):
        value = mean[code] + np.sqrt(var[code]) * z
        below = norm.cdf((value - mean) / np.sqrt(var))
        return np.prod(np.delete(below, code)) * norm.pdf(z)

    return quad(integrand, -12, 12, epsabs=1e-13)[0]


def test_robustmax_is_an_integral():
    found = sites(RobustMax(EPSILON))
    for i, code in enumerate(CODES.tolist()):
        right = largest(MEAN[i], VAR[i], code)
        wanted = right * np.log1p(-EPSILON) + (1 - right) * np.log(EPSILON / 2)
        assert float(found.log_prob[i]) == pytest.approx(wanted, abs=1e-4)
    probs = RobustMax(EPSILON).probabilities(tensor(MEAN), tensor(VAR))
    wanted = [
        [largest(m, v, c) for c in range(3)] for m, v in zip(MEAN, VAR, strict=True)
    ]
    wanted = np.array(wanted) * (1 - 1.5 * EPSILON) + EPSILON / 2
    np.testing.assert_allclose(probs, wanted, atol=1e-4)
    np.testing.assert_allclose(probs.sum(1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("likelihood", [Softmax(), RobustMax(EPSILON)], ids=repr)
def test_derivatives_of_many_classes_are_differences(likelihood):
    found = sites(likelihood)
    slopes, bends = by_differences(likelihood, MEAN, VAR, CODES)
    np.testing.assert_allclose(found.gradient, slopes, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(
        found.curvature, np.clip(-bends, 0.0, None), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("link", LINKS)
def test_derivatives_of_one_latent_are_differences(link):
    mean, var, codes = MEAN[:, :1], VAR[:, :1], torch.tensor([0, 1, 1])
    found = sites(Bernoulli(link), mean, var, codes)
    slopes, bends = by_differences(Bernoulli(link), mean, var, codes)
    np.testing.assert_allclose(found.gradient, slopes, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.curvature, -bends, rtol=1e-6, atol=1e-8)


def test_robustmax_somewhere_bends_upwards_and_counts_as_flat():
    far = np.array([[-4.0, 3.0, 2.0]])
    ones, code = np.ones((1, 3)), torch.tensor([0])
    _, bends = by_differences(RobustMax(EPSILON), far, ones, code)
    assert bends[0, 0] > 0.0
    found = sites(RobustMax(EPSILON), far, ones, code)
    assert float(found.curvature[0, 0]) == 0.0


@pytest.mark.parametrize("likelihood", [Softmax(), RobustMax(), Bernoulli()], ids=repr)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3])
@pytest.mark.parametrize("var", [0.0, 1.0, 1e5])
def test_extreme_latents_stay_finite(likelihood, scale, var):
    k = likelihood.n_latents(2)
    mean = scale * tensor([[-1.0, 1.0], [1.0, 1.0]])[:, :k]
    found = likelihood.expected_sites(
        mean, torch.full_like(mean, var), torch.tensor([0, 1])
    )
    for part in (found.log_prob, found.gradient, found.curvature):
        assert torch.isfinite(part).all()
    assert (found.curvature >= 0.0).all()
    assert (found.log_prob <= 0.0).all()


@pytest.mark.parametrize(
    ("likelihood", "n_classes", "match"),
    [
        (Softmax(n_draws=3), 3, "'n_draws' parameter of Softmax.*even int"),
        (RobustMax(epsilon=0.0), 3, "'epsilon' parameter of RobustMax"),
        (RobustMax(epsilon=1.0), 3, "'epsilon' parameter of RobustMax"),
        (Bernoulli(link="cauchit"), 2, "'link' parameter of Bernoulli.*probit"),
        (Bernoulli(), 3, r"Bernoulli\(\) is for two classes, got 3.*softmax"),
    ],
)
def test_wrong_settings_are_refused(likelihood, n_classes, match):
    with pytest.raises(ValueError, match=match):
        likelihood.n_latents(n_classes)
