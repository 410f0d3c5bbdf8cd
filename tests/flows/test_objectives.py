"""Rho and its kin against inverses, and their derivatives against differences."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from skconvgp._protocols import Objective
from skconvgp.exceptions import NotPSDError
from skconvgp.flows import Rho, rho_path
from tests.helpers.oracles import seeded, smooth
from tests.helpers.tolerances import assert_close

KINDS = (
    "held_out",
    "ratio",
    "l2",
    "loo",
    "evidence",
    "loo_nlpd",
    "polarised",
    "algorithm4",
)
every_kind = pytest.mark.parametrize("kind", KINDS)
N, N_SAMPLE, NOISE = 14, 6, 0.03
SHARE = N_SAMPLE / N


def batch(n=N, n_targets=2, scale=3.7, seed=0):
    """Return a matrix with unequal prior variances, and targets."""
    gram, points = smooth(n, 0.4, seed)
    spread = torch.linspace(0.5, 1.6, n, dtype=torch.float64)
    noise = torch.randn(n, n_targets, dtype=torch.float64, generator=seeded(seed))
    targets = torch.sin(4.0 * points[:, :1] + torch.arange(n_targets)) + 0.2 * noise
    return scale * spread[:, None] * gram * spread, targets


def rho(kind, **settings):
    settings = {"sample_fraction": SHARE, "noise_variance": NOISE} | settings
    return Rho(kind, **settings)


def parts(gram, targets, noise=NOISE):
    """Return K, M = K + noise * mean(diag K) I and Y as arrays."""
    K, Y = gram.numpy(), targets.numpy()
    return K, K + noise * np.diag(K).mean() * np.eye(len(K)), Y


def norm(M, Y):
    """Return <Y, M^-1 Y>."""
    return np.trace(Y.T @ np.linalg.inv(M) @ Y)


def left_out(K, M, Y):
    """Return predictions and variances of each sample from all others, noise in."""
    means, variances = np.empty_like(Y), np.empty(len(Y))
    for i in range(len(Y)):
        rest = np.delete(np.arange(len(Y)), i)
        weights = np.linalg.solve(M[np.ix_(rest, rest)], K[rest, i])
        means[i], variances[i] = weights @ Y[rest], M[i, i] - weights @ K[rest, i]
    return means, variances


def by_ratio(K, M, Y):
    return 1.0 - norm(M[:N_SAMPLE, :N_SAMPLE], Y[:N_SAMPLE]) / norm(M, Y)


def prediction(K, M, Y):
    s = slice(N_SAMPLE)
    return K[:, s] @ np.linalg.inv(M[s, s]) @ Y[s]


def by_held_out(K, M, Y):
    weights = np.linalg.solve(M[:N_SAMPLE, :N_SAMPLE], Y[:N_SAMPLE])
    error = Y[N_SAMPLE:] - K[N_SAMPLE:, :N_SAMPLE] @ weights
    return np.sum(error**2) / np.sum(Y[N_SAMPLE:] ** 2)


def by_l2(K, M, Y):
    return ((Y - prediction(K, M, Y)) ** 2).sum() / (Y**2).sum()


def by_loo(K, M, Y):
    shares = []
    for i in range(len(Y)):
        rest = np.delete(np.arange(len(Y)), i)
        shares.append(1.0 - norm(M[np.ix_(rest, rest)], Y[rest]) / norm(M, Y))
    return np.mean(shares)


def by_evidence(K, M, Y):
    amplitude = norm(M, Y) / Y.size
    logs = [multivariate_normal(cov=amplitude * M).logpdf(y) for y in Y.T]
    return -np.sum(logs) / Y.size


def by_loo_nlpd(K, M, Y):
    means, variances = left_out(K, M, Y)
    amplitude = ((Y - means) ** 2 / variances[:, None]).mean()
    spread = amplitude * variances[:, None]
    logs = -0.5 * np.log(2.0 * np.pi * spread) - (Y - means) ** 2 / (2.0 * spread)
    return -logs.mean()


def by_polarised(K, M, Y):
    whole = np.linalg.inv(M) @ Y
    part = np.zeros_like(Y)
    part[:N_SAMPLE] = np.linalg.inv(M[:N_SAMPLE, :N_SAMPLE]) @ Y[:N_SAMPLE]
    apart = whole - part
    return np.trace(apart.T @ K @ apart) / np.trace(whole.T @ K @ whole)


def by_algorithm4(K, M, Y):
    return 1.0 - (prediction(K, M, Y) ** 2).sum() / norm(M, Y)


TWINS = {kind: globals()[f"by_{kind}"] for kind in KINDS}


@every_kind
@pytest.mark.parametrize("n_targets", [1, 3])
def test_value_is_that_of_the_formula(kind, n_targets):
    gram, targets = batch(n_targets=n_targets)
    score = rho(kind).score(gram, targets)
    expected = TWINS[kind](*parts(gram, targets))
    assert score.value == pytest.approx(expected, rel=1e-9)


def test_amplitudes_of_twins_are_the_best_ones():
    K, M, Y = parts(*batch())
    for kind in ("evidence", "loo_nlpd"):
        twin = TWINS[kind]
        assert twin(2.0 * K, 2.0 * M, Y) == pytest.approx(twin(K, M, Y))
    for factor in (0.9, 1.1):
        amplitude = factor * norm(M, Y) / Y.size
        logs = [multivariate_normal(cov=amplitude * M).logpdf(y) for y in Y.T]
        assert -np.sum(logs) / Y.size > TWINS["evidence"](K, M, Y)


def test_norms_of_targets_add_up():
    gram, targets = batch(n_targets=3)
    _, M, Y = parts(gram, targets)
    wholes = np.array([norm(M, y[:, None]) for y in Y.T])
    singles = [rho("ratio").score(gram, y[:, None]).value for y in targets.mT]
    together = rho("ratio").score(gram, targets).value
    assert together == pytest.approx(np.average(singles, weights=wholes))


@every_kind
def test_order_within_the_sample_and_beside_it_does_not_matter(kind):
    gram, targets = batch()
    order = torch.cat(
        [
            torch.randperm(N_SAMPLE, generator=seeded()),
            N_SAMPLE + torch.randperm(N - N_SAMPLE, generator=seeded()),
        ]
    )
    permuted = rho(kind).score(gram[order][:, order], targets[order])
    score = rho(kind).score(gram, targets)
    assert permuted.value == pytest.approx(score.value, rel=1e-10)
    assert_close(permuted.by_gram, score.by_gram[order][:, order], kind="solve")


def ill_conditioned(n=60, seed=0):
    """Return the RBF matrix of width 3 of points in a square, and rough targets."""
    gram, _ = smooth(n, 3.0, seed)
    return gram, torch.randn(n, 1, dtype=torch.float64, generator=seeded(seed))


@pytest.mark.parametrize("kind", ["ratio", "loo"])
@pytest.mark.parametrize("seed", range(5))
def test_value_is_in_0_1_where_explicit_inverses_leave_it(kind, seed):
    gram, targets = ill_conditioned(seed=seed)
    for noise in (1e-12, 1e-9, 1e-4, 1.0, 1e4):
        for share in (0.01, 0.5, 0.99):
            objective = Rho(kind, sample_fraction=share, noise_variance=noise)
            assert 0.0 <= objective.score(gram, targets).value <= 1.0


def test_value_is_in_0_1_where_the_sample_knows_nothing():
    above = []
    for seed in range(300):
        gram, targets = ill_conditioned(20, seed)
        targets[:10] = 0.0
        above.append(Rho("ratio", noise_variance=1e-4).score(gram, targets).value - 1.0)
        path = rho_path(gram, targets, 1e-4)
        assert path.min() >= 0.0
        assert path.max() <= 1.0
    assert max(above) == 0.0


@pytest.mark.parametrize("noise", [1e-12, 1e-4, 1.0])
def test_path_falls_and_holds_the_values_of_all_sizes(noise):
    gram, targets = ill_conditioned()
    path = rho_path(gram, targets, noise)
    assert path.shape == (59,)
    assert path.dtype == torch.float64
    assert (path.diff() <= 0.0).all()
    assert 0.0 <= float(path[-1]) <= float(path[0]) <= 1.0
    for size in (1, 17, 30, 59):
        objective = Rho("ratio", sample_fraction=size / 60, noise_variance=noise)
        assert objective.count(60) == size
        value = objective.score(gram, targets).value
        assert value == pytest.approx(float(path[size - 1]), rel=1e-9)


def value_of(kind, gram, targets, noise=NOISE):
    return rho(kind).score(gram, targets, noise).value


@every_kind
@pytest.mark.parametrize("n_targets", [1, 2])
def test_derivatives_by_the_matrix(kind, n_targets):
    gram, targets = batch(n_targets=n_targets)
    by_gram = rho(kind).score(gram, targets).by_gram
    assert torch.equal(by_gram, by_gram.mT)
    for seed in range(4):
        change = torch.randn(N, N, dtype=torch.float64, generator=seeded(seed))
        change = change + change.mT
        ends = [value_of(kind, gram + h * change, targets) for h in (1e-5, -1e-5)]
        found = float((by_gram * change).sum())
        assert found == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-7)


@every_kind
@pytest.mark.parametrize("noise", [1e-3, 0.5])
def test_derivative_by_the_logarithm_of_the_noise(kind, noise):
    gram, targets = batch()
    by_noise = rho(kind).score(gram, targets, noise).by_parameter
    ends = [value_of(kind, gram, targets, noise * math.exp(h)) for h in (1e-4, -1e-4)]
    assert by_noise == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("factor", [1e-9, 0.3, 1e12])
def test_scale_of_the_kernel_does_not_matter(kind, factor):
    gram, targets = batch()
    one, two = (rho(kind).score(k, targets) for k in (gram, factor * gram))
    assert two.value == pytest.approx(one.value, rel=1e-9)
    assert two.by_parameter == pytest.approx(one.by_parameter, rel=1e-7)
    assert_close(factor * two.by_gram, one.by_gram, kind="solve")
    slope = float((one.by_gram * gram).sum())
    assert abs(slope) < 1e-9 * float((one.by_gram * gram).abs().sum())


@every_kind
def test_scale_of_the_targets_does_not_matter_but_to_densities(kind):
    gram, targets = batch()
    one, two = (rho(kind).score(gram, y).value for y in (targets, 10.0 * targets))
    is_density = kind in ("evidence", "loo_nlpd")
    assert two - one == pytest.approx(math.log(10.0) if is_density else 0.0, abs=1e-9)


def test_algorithm_4_falls_with_the_amplitude():
    gram, targets = batch()
    one = value_of("algorithm4", gram, targets)
    for factor in (0.2, 5.0, 1e3):
        scaled = value_of("algorithm4", factor * gram, targets)
        assert scaled == pytest.approx(1.0 - factor * (1.0 - one), rel=1e-9)


def test_kernel_that_does_not_fit_is_stuck_at_a_half():
    n = 400
    targets = torch.randn(n, 5, dtype=torch.float64, generator=seeded())
    constant = torch.ones(n, n, dtype=torch.float64)
    for gram in (torch.eye(n, dtype=torch.float64), constant):
        value = Rho("ratio").score(gram, targets).value
        assert value == pytest.approx(0.5, abs=0.03)


def test_kernel_that_fits_is_below_one_that_does_not():
    x = torch.linspace(0.0, 6.0, 40, dtype=torch.float64)
    order = torch.cat([torch.arange(0, 40, 2), torch.arange(1, 40, 2)])
    x, values = x[order], []
    for lengthscale in (0.01, 1.0):
        gram = torch.exp(-0.5 * ((x[:, None] - x) / lengthscale).square())
        values.append(
            {k: value_of(k, gram, torch.sin(x)[:, None], 1e-4) for k in KINDS[:-1]}
        )
    rough, fitting = values
    assert all(fitting[kind] < rough[kind] for kind in KINDS[:-1])
    assert fitting["ratio"] < 0.2
    assert rough["ratio"] > 0.45


@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_matrix_that_is_not_positive_definite_is_named(noise):
    gram = -torch.eye(4, dtype=torch.float64) + 2.0
    with pytest.raises(NotPSDError, match=r"batch of 4 samples .* raise it"):
        Rho("ratio").score(gram, torch.ones(4, 1), noise)
    with pytest.raises(NotPSDError):
        rho_path(gram, torch.ones(4, 1), noise)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_matrix_that_is_not_finite_is_not_positive_definite(value):
    for i, j in ((0, 0), (2, 1)):
        gram = torch.eye(4, dtype=torch.float64)
        gram[i, j] = gram[j, i] = value
        with pytest.raises(NotPSDError):
            Rho("ratio").score(gram, torch.ones(4, 1))


def test_a_noise_that_is_given_stands_in_the_place_of_the_own_one():
    gram, targets = batch()
    own = rho("ratio", noise_variance=0.2).score(gram, targets)
    given = rho("ratio").score(gram, targets, 0.2)
    assert own.value == given.value != rho("ratio").score(gram, targets).value


@pytest.mark.parametrize(
    ("share", "n", "expected"),
    [(0.5, 600, 300), (0.5, 7, 4), (0.01, 10, 1), (0.99, 10, 9), (0.3, 10, 3)],
)
def test_size_of_the_sample(share, n, expected):
    assert Rho(sample_fraction=share).count(n) == expected


def test_batch_of_one_is_refused():
    with pytest.raises(ValueError, match="two samples or more, got 1"):
        Rho().count(1)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (Rho("rho"), "kind"),
        (Rho(kind=None), "kind"),
        (Rho(sample_fraction=0.0), "sample_fraction"),
        (Rho(sample_fraction=1.0), "sample_fraction"),
        (Rho(sample_fraction="half"), "sample_fraction"),
        (Rho(noise_variance=-1e-4), "noise_variance"),
        (Rho(noise_variance=math.inf), "noise_variance"),
        (Rho(noise_variance="loo"), "noise_variance"),
        (Rho(noise_variance_bounds=(1e-3, 1.0)), "noise_variance"),
    ],
    ids=repr,
)
def test_wrong_settings_are_named(part, name):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of Rho must be"):
        part.score(*batch())


@pytest.mark.parametrize("bounds", [(1.0, 1e-4), (0.0, 1.0), "free", None])
def test_wrong_bounds_are_named(bounds):
    with pytest.raises(ValueError, match=r"Bounds of a hyperparameter .* got"):
        Rho(noise_variance_bounds=bounds).score(*batch())


def test_bounds_with_the_noise_within_are_allowed():
    part = Rho(noise_variance_bounds=(1e-4, 1.0))
    assert isinstance(part, Objective)
    assert part.score(*batch()).value < 1.0
