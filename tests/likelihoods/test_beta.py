"""Two classes: the transform of labels with exact Beta marginals."""

import numpy as np
import pytest
import torch
from scipy.stats import beta, kstest, norm

from skconvgp.likelihoods import Beta, Dirichlet

# docs/maths.rst, "Two classes"
CENTRES = {0.01: 2.467464, 0.1: 1.568139, 0.2: 1.274799}


def probabilities(alpha_eps, mean, var):
    mean, var = np.atleast_1d(mean), np.atleast_1d(var)
    both = torch.as_tensor(np.stack([-mean, mean], 1).astype(float))
    spread = torch.as_tensor(np.stack([var, var], 1).astype(float))
    return Beta(alpha_eps).probabilities(both, spread).numpy()


@pytest.mark.parametrize("alpha_eps", CENTRES)
def test_targets_are_those_of_the_source(alpha_eps):
    targets = Beta(alpha_eps).targets(torch.tensor([0, 1]), 2, torch.ones(2))
    centre = CENTRES[alpha_eps]
    expected = [[centre, -centre], [-centre, centre]]
    np.testing.assert_allclose(targets.values, expected, atol=5e-7)
    assert (targets.noise == 1.0).all()
    assert not targets.offset.any()


@pytest.mark.parametrize("alpha_eps", CENTRES)
def test_a_label_makes_its_probability_beta_distributed(alpha_eps):
    latent = norm(CENTRES[alpha_eps]).rvs(4000, random_state=0)
    found = probabilities(alpha_eps, latent, np.zeros(4000))
    law = beta(alpha_eps, 1.0 + alpha_eps)  # of the other class, which is small
    assert kstest(law.cdf(found[:, 0]), "uniform").pvalue > 1e-3
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-12)


def test_probability_rises_from_zero_through_one_half_to_one():
    latent = np.linspace(-8.0, 8.0, 201)
    second = probabilities(0.1, latent, np.zeros(201))[:, 1]
    assert np.diff(second).min() > -1e-15  # the last digit of a sum
    assert second[100] == pytest.approx(0.5)
    assert second[0] < 1e-9
    assert second[-1] > 1.0 - 1e-9


@pytest.mark.parametrize("var", [1e-3, 0.7, 30.0, 1e4])
@pytest.mark.parametrize("alpha_eps", [1e-3, 0.01, 1.0])
def test_probabilities_are_averaged_over_the_posterior(alpha_eps, var):
    centre = norm.ppf(beta.cdf(0.5, alpha_eps, 1.0 + alpha_eps))
    latent = np.linspace(-30.0, 0.0, 100_001)
    middle = (latent[1:] + latent[:-1]) / 2.0
    smaller = beta.ppf(norm.cdf(middle + centre), alpha_eps, 1.0 + alpha_eps)
    for mean in (-1.3, 0.0, 0.4, 6.0):
        law = norm(mean, np.sqrt(var))
        below, above = np.diff(law.cdf(latent)), np.diff(law.sf(-latent))
        expected = law.sf(0.0) + smaller @ (below - above)
        found = probabilities(alpha_eps, mean, var)
        assert found[0, 1] == pytest.approx(expected, abs=1e-7)
        assert found[0, 0] == pytest.approx(1.0 - expected, abs=1e-7)


def test_more_than_two_classes_are_refused():
    with pytest.raises(ValueError, match="likelihood='beta' is for two classes, got 3"):
        Beta(0.1).targets(torch.tensor([0, 1, 2]), 3, torch.ones(3))


def test_candidates_are_made_only_where_asked_for():
    assert [one.alpha_eps for one in Beta().candidates()] == [0.01, 0.1, 0.2, 0.5]
    assert Beta(0.2).candidates() == [Beta(0.2)]


@pytest.mark.parametrize("wrong", [0.0, -1.0, "loo", None])
def test_wrong_count_is_refused(wrong):
    with pytest.raises(ValueError, match="'alpha_eps' parameter of Beta"):
        Beta(wrong).targets(torch.tensor([0, 1]), 2, torch.ones(2))


@pytest.mark.parametrize("cls", [Beta, Dirichlet])
def test_words_but_one_name_no_candidates(cls):
    with pytest.raises(ValueError, match=r"'alpha_eps' parameter.*or 'loo'"):
        cls("evidence").candidates()


@pytest.mark.parametrize("cls", [Beta, Dirichlet])
def test_count_that_is_rounded_away_is_refused(cls):
    with pytest.raises(ValueError, match=r"'alpha_eps' parameter.*>= 1e-12"):
        cls(1e-20).targets(torch.tensor([0, 1]), 2, torch.ones(2))
