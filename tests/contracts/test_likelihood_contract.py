"""What every likelihood does, and a third-party one to prove the seam."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import poisson
from scipy.stats import t as student
from sklearn.base import clone

from skconvgp import ConvNetGPClassifier
from skconvgp._protocols import Likelihood, LinkLikelihood, Sites, Targets
from skconvgp.inference import fit_laplace, laplace_slopes, leave_one_out_laplace
from skconvgp.kernels import rbf
from skconvgp.likelihoods import Beta, Calibration, Dirichlet, Gaussian, Laplace
from tests.helpers.estimators import share_kept
from tests.helpers.tolerances import assert_close


class Damped:
    """Third-party likelihood: less sure where the variance is large, no base class.

    Its prior mean is not zero, and it is not calibrated.
    """

    needs_variance = True

    def targets(self, codes, n_classes, weights):
        values = torch.nn.functional.one_hot(codes, n_classes).double()
        return Targets(values, torch.arange(n_classes, dtype=torch.float64) / 10.0)

    def probabilities(self, mean, var):
        return torch.softmax(4.0 * mean / torch.sqrt(1.0 + math.pi / 8.0 * var), dim=1)


class Poisson:
    """Third-party likelihood of counts, with the logarithm of the rate as latent."""

    def n_latents(self, n_classes):
        return 1

    def sites(self, latents, counts):
        counts = counts.to(latents)[:, None]
        rate = latents.exp()
        log_prob = counts * latents - rate - torch.lgamma(counts + 1.0)
        return Sites(log_prob[:, 0], counts - rate, rate)

    def log_density(self, latents, counts):  # by scipy
        return poisson.logpmf(counts, np.exp(latents))


class StudentT:
    """Third-party likelihood of real numbers, some of which are far off.

    It is not log-concave: the curvature is the expected one, which is positive, so that
    the Gaussian is that of Fisher's scoring.
    """

    df, scale = 4.0, 0.3

    def n_latents(self, n_classes):
        return 1

    def sites(self, latents, y):
        df, rest = self.df, y[:, None] - latents
        norm = math.lgamma((df + 1.0) / 2.0) - math.lgamma(df / 2.0)
        norm -= math.log(self.scale) + math.log(math.pi * df) / 2.0
        whole = df * self.scale**2 + rest**2
        tail = (rest / self.scale).square().div(df).log1p()
        log_prob = norm - (df + 1.0) / 2.0 * tail
        expected = (df + 1.0) / ((df + 3.0) * self.scale**2)
        return Sites(
            log_prob[:, 0],
            (df + 1.0) * rest / whole,
            torch.full_like(latents, expected),
        )

    def log_density(self, latents, y):  # by scipy
        return student.logpdf(y, self.df, latents, self.scale)


TRANSFORMS = [Gaussian(), Damped(), Dirichlet(), Beta(0.01)]
LIKELIHOODS = [*TRANSFORMS, Laplace()]
BINARY = (Beta,)


def name(part):
    return type(part).__name__


every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=name)
every_transform = pytest.mark.parametrize("likelihood", TRANSFORMS, ids=name)
of_all_sizes = pytest.mark.parametrize(
    ("likelihood", "n_classes"),
    [
        pytest.param(part, n, id=f"{name(part)}-{n}")
        for part in LIKELIHOODS
        for n in (2, 3, 10)
        if n == 2 or not isinstance(part, BINARY)
    ],
)


def most_classes(likelihood):
    """Return three, or two where there may be no more."""
    return 2 if isinstance(likelihood, BINARY) else 3


def latents(n, n_classes):
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(n, n_classes, generator=generator, dtype=torch.float64)
    return mean, torch.rand(n, n_classes, generator=generator, dtype=torch.float64)


@every_transform
def test_is_a_likelihood(likelihood):
    assert isinstance(likelihood, Likelihood)
    assert isinstance(likelihood.needs_variance, bool)


def test_a_link_is_no_transform():
    assert isinstance(Laplace(), LinkLikelihood)
    assert not isinstance(Laplace(), Likelihood)


@of_all_sizes
def test_targets_are_largest_for_the_class_of_a_sample(likelihood, n_classes):
    if isinstance(likelihood, LinkLikelihood):
        assert likelihood.n_latents(n_classes) == (1 if n_classes == 2 else n_classes)
        return
    codes = torch.arange(2 * n_classes) % n_classes
    targets = likelihood.targets(codes, n_classes, torch.ones(2 * n_classes))
    assert targets.values.shape == (2 * n_classes, n_classes)
    assert targets.offset.shape == (n_classes,)
    assert targets.values.dtype == targets.offset.dtype == torch.float64
    assert torch.equal(targets.values.argmax(1), codes)


@of_all_sizes
def test_rows_of_probabilities_sum_to_one(likelihood, n_classes):
    mean, var = latents(50, n_classes)
    probabilities = likelihood.probabilities(mean, var)
    assert probabilities.shape == mean.shape
    assert (probabilities >= 0.0).all()
    assert_close(probabilities.sum(1), np.ones(50))


@every_likelihood
def test_probabilities_follow_the_classes_when_these_are_permuted(likelihood):
    mean, var = paired_latents(20, most_classes(likelihood))
    order = torch.arange(mean.shape[1]).flip(0)
    permuted = likelihood.probabilities(mean[:, order], var[:, order])
    expected = likelihood.probabilities(mean, var)[:, order]
    np.testing.assert_allclose(permuted, expected, atol=draws_error(likelihood))


@every_likelihood
def test_variance_is_read_only_if_it_is_asked_for(likelihood):
    mean, var = latents(20, most_classes(likelihood))
    if getattr(likelihood, "needs_variance", True):
        more = likelihood.probabilities(mean, 10.0 * var)
        assert not torch.equal(more, likelihood.probabilities(mean, var))
    else:
        empty = torch.empty(0, 3, dtype=torch.float64)
        expected = likelihood.probabilities(mean, var)
        assert torch.equal(likelihood.probabilities(mean, empty), expected)


@every_likelihood
def test_latents_are_left_as_they_were(likelihood):
    mean, var = latents(20, most_classes(likelihood))
    before = mean.clone(), var.clone()
    likelihood.probabilities(mean, var)
    assert torch.equal(mean, before[0])
    assert torch.equal(var, before[1])


def paired_latents(n, n_classes):
    """Return latents; of two classes, one has the negative of the other."""
    mean, var = latents(n, n_classes)
    if n_classes == 2:
        mean, var = torch.stack([-mean[:, 0], mean[:, 0]], 1), var[:, :1].repeat(1, 2)
    return mean, var


def draws_error(likelihood):
    """Return how far the probabilities of a sample are off, by its draws."""
    return 0.05 if hasattr(likelihood, "n_draws") else 1e-12


def problem(n_classes=3):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 2))
    cuts = [-0.7, 0.7] if n_classes == 3 else [0.0]
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + X[:, 1], cuts)]
    return X[:40], y[:40], X[40:], y[40:]


def classifier(likelihood):
    return ConvNetGPClassifier(rbf(2.0), likelihood=likelihood, noise_variance=1e-2)


@every_likelihood
def test_classifier_learns(likelihood):
    X, y, X_new, y_new = problem(most_classes(likelihood))
    gp = clone(classifier(likelihood)).fit(X, y)
    assert gp.score(X_new, y_new) > 0.85
    assert gp.likelihood_ is not gp.likelihood
    for probabilities in (gp.predict_proba(X_new), gp.loo_predict_proba()):
        assert_close(probabilities.sum(1), np.ones(len(probabilities)))


@every_transform
def test_classifier_hands_over_calibrated_latents(likelihood):
    X, y, X_new, _ = problem(most_classes(likelihood))
    gp = classifier(copy.deepcopy(likelihood)).fit(X, y)
    mean, std = gp.predict_latent(X_new, return_std=True)
    latents = gp.calibration_.latents(torch.as_tensor(mean), torch.as_tensor(std**2))
    familiarity = gp.calibration_.familiarity
    share = share_kept(familiarity, mean, std**2)[:, None]
    before = likelihood.probabilities(*latents).numpy()
    expected = share * before + (1.0 - share) / before.shape[1]
    assert_close(gp.predict_proba(X_new), expected, kind="solve")


def test_nothing_is_calibrated_without_the_capability():
    X, y, _, _ = problem()
    gp = classifier(Damped()).fit(X, y)
    assert gp.calibration_ == Calibration()
    assert gp.temperature_ == 1.0


@every_transform
def test_latents_far_from_the_data_return_to_the_offset(likelihood):
    X, y, _, _ = problem(most_classes(likelihood))
    gp = classifier(likelihood).fit(X, y)
    codes = torch.as_tensor(np.unique(y, return_inverse=True)[1])
    offset = likelihood.targets(codes, len(gp.classes_), torch.ones(len(y))).offset
    assert_close(gp.latent_offset_, offset)
    far = gp.predict_latent([[1e3, 1e3]])[0]
    np.testing.assert_allclose(far, offset, rtol=0.0, atol=1e-12)


def test_loo_of_a_likelihood_with_variance_is_that_of_refits():
    X, y, _, _ = problem()
    gp = classifier(Damped()).fit(X, y)
    loo = gp.loo_predict_proba()
    refit = ConvNetGPClassifier(
        rbf(2.0),
        likelihood=Damped(),
        noise_variance=1e-2,
        amplitude=float(gp.amplitude_),
    )
    for i in (0, 7, 39):
        rest = np.arange(len(X)) != i
        expected = refit.fit(X[rest], y[rest]).predict_proba(X[[i]])
        assert_close(loo[[i]], expected, kind="solve")


def observed(likelihood, n=20):
    """Return a prior covariance, and observations of a function from it."""
    generator = np.random.default_rng(0)
    x = np.linspace(0.0, 6.0, n)
    gram = np.exp(-((x[:, None] - x) ** 2) / 2.0) + 1e-2 * np.eye(n)
    latents = 1.0 + np.sin(2.0 * x)
    if isinstance(likelihood, Poisson):
        return gram, generator.poisson(np.exp(latents))
    return gram, latents + 0.3 * generator.standard_t(4.0, n)


def dense_laplace(likelihood, gram, observations):
    """Return the mode by an optimiser, and the evidence by R&W eq. 3.32."""
    lower = np.linalg.cholesky(gram)

    def loss(white):  # f = L w
        log_density = likelihood.log_density(lower @ white, observations)
        return white @ white / 2.0 - log_density.sum()

    def slope(white):
        latents = torch.as_tensor(lower @ white)[:, None]
        sites = likelihood.sites(latents, torch.as_tensor(observations))
        return white - lower.T @ sites.gradient[:, 0].numpy()

    start = np.zeros(len(gram))
    found = minimize(loss, start, jac=slope, method="BFGS", options={"gtol": 1e-9})
    mode = lower @ found.x
    latents = torch.as_tensor(mode)[:, None]
    curvature = likelihood.sites(latents, torch.as_tensor(observations)).curvature
    root = curvature.sqrt().numpy()
    b = np.eye(len(gram)) + root * gram * root.T
    return mode, -float(found.fun) - np.linalg.slogdet(b)[1] / 2.0


def laplace_of(likelihood, gram, observations):
    gram, observations = torch.as_tensor(gram), torch.as_tensor(observations)
    n_latents = likelihood.n_latents(2)
    return fit_laplace(gram, observations, n_latents, likelihood.sites, tolerance=1e-8)


every_observation = pytest.mark.parametrize(
    "likelihood", [Poisson(), StudentT()], ids=name
)


@every_observation
def test_gradients_of_other_observations_are_those_of_scipy(likelihood):
    _, observations = observed(likelihood)
    latents, step = np.linspace(-1.0, 2.0, len(observations)), 1e-6
    sites = likelihood.sites(
        torch.as_tensor(latents)[:, None], torch.as_tensor(observations)
    )
    assert_close(sites.log_prob, likelihood.log_density(latents, observations))
    ahead, behind = (
        likelihood.log_density(latents + sign * step, observations)
        for sign in (1.0, -1.0)
    )
    slopes = (ahead - behind) / (2.0 * step)
    np.testing.assert_allclose(sites.gradient[:, 0], slopes, atol=1e-6)


@every_observation
def test_mode_and_evidence_of_other_observations_are_those_of_dense_matrices(
    likelihood,
):
    gram, observations = observed(likelihood)
    fit = laplace_of(likelihood, gram, observations)
    mode, evidence = dense_laplace(likelihood, gram, observations)
    assert fit.converged
    np.testing.assert_allclose(gram @ fit.dual.numpy()[:, 0], mode, atol=1e-5)
    assert fit.evidence == pytest.approx(evidence, abs=1e-6)


@every_observation
def test_slopes_of_other_observations_are_differences_of_the_evidence(likelihood):
    gram, observations = observed(likelihood)
    fit = laplace_of(likelihood, gram, observations)
    slopes = laplace_slopes(
        torch.as_tensor(gram), torch.as_tensor(observations), likelihood.sites, fit
    )
    half = np.random.default_rng(1).normal(size=(len(gram), 3))
    change, step = half @ half.T, 1e-5
    ahead, behind = (
        laplace_of(likelihood, gram + sign * step * change, observations).evidence
        for sign in (1.0, -1.0)
    )
    expected = (ahead - behind) / (2.0 * step)
    assert float((slopes.numpy() * change).sum()) == pytest.approx(expected, rel=1e-4)


@every_observation
def test_left_out_latents_of_other_observations_are_near_those_of_refits(likelihood):
    gram, observations = observed(likelihood)
    fit = laplace_of(likelihood, gram, observations)
    mean, cov = leave_one_out_laplace(torch.as_tensor(gram), fit)
    assert (cov > 0.0).all()
    for i in (3, 12):
        rest = np.arange(len(gram)) != i
        refit = laplace_of(likelihood, gram[rest][:, rest], observations[rest])
        expected = gram[i, rest] @ refit.dual.numpy()[:, 0]
        assert abs(float(mean[i, 0]) - expected) < 0.2 * float(cov[i, 0, 0]) ** 0.5


@pytest.mark.parametrize("wrong", ["probit", 3, object()])
def test_what_is_no_likelihood_is_refused(wrong):
    X, y, _, _ = problem()
    with pytest.raises(ValueError, match="'likelihood' parameter of ConvNetGPClass"):
        classifier(wrong).fit(X, y)
