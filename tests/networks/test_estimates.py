"""Gradients by random bits, against sums over all codes."""

import itertools
import math

import numpy as np
import pytest
import torch

from skconvgp.kernels import dot_product, optical, rbf
from skconvgp.kernels._feature_maps import KernelSource
from skconvgp.networks import (
    Analytic,
    ClassLosses,
    Feedback,
    Isolated,
    KernelCodes,
    LogitBatch,
    Relaxed,
    Score,
    SignedCodes,
    SquareLosses,
    StraightThrough,
)

N_BITS, N_FEATURES = 3, 5
LOGITS = [[0.4, -0.9, 0.2], [-0.3, 1.1, 0.6]]
CODES = torch.tensor(
    list(itertools.product([0.0, 1.0], repeat=N_BITS)), dtype=torch.float64
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def features_of(kernel):
    source = KernelSource(kernel, (N_BITS, 1, 1), lambda *_: None)
    return KernelCodes(source.feature_map(N_FEATURES, generator(), exact_diag=False))


def head(features, n_outputs, seed=1):
    size = (features.n_features, n_outputs)
    return torch.randn(size, generator=generator(seed), dtype=torch.float64)


def square_losses():
    values = torch.tensor([[0.5], [-1.0]], dtype=torch.float64)
    return SquareLosses(values, values.new_zeros(1), values.new_ones(1))


def class_losses():
    return ClassLosses(torch.tensor([2, 0]), 3)


def batch_of(features, losses, coef, logits, seed=2):
    rows = torch.arange(len(logits))
    return LogitBatch(
        logits,
        features,
        lambda values: values @ coef,
        lambda outputs: losses(outputs, rows),
        generator(seed),
    )


def leaf(values=LOGITS):
    return torch.tensor(values, dtype=torch.float64).requires_grad_()


def probabilities_of(logits):
    """Return the probability of each of the codes, (8, b)."""
    p = logits.sigmoid()
    bits = CODES[:, None]
    return (bits * p + (1.0 - bits) * (1.0 - p)).prod(-1)


def expected_loss(features, losses, coef, logits):
    rows = torch.arange(len(logits))
    each = CODES[:, None].expand(-1, len(logits), -1)
    values = losses(features(each) @ coef, rows)
    return (probabilities_of(logits) * values).sum()


def loss_of_mean(features, losses, coef, logits):
    rows = torch.arange(len(logits))
    each = features(CODES[:, None].expand(-1, len(logits), -1))
    mean = (probabilities_of(logits)[..., None] * each).sum(0)
    return losses(mean @ coef, rows).sum()


def gradient(value, *leaves):
    return torch.autograd.grad(value, leaves)


def many(estimate, features, losses, coef, n_repeats):
    """Return estimates of the gradient by logits, (n_repeats, b, n_bits)."""
    repeated = torch.tensor(LOGITS, dtype=torch.float64).repeat(n_repeats, 1)
    repeated.requires_grad_()
    if isinstance(losses, SquareLosses):
        wide = SquareLosses(
            losses.values.repeat(n_repeats, 1), losses.offset, losses.scale
        )
    else:
        wide = ClassLosses(losses.codes.repeat(n_repeats), losses.n_outputs)
    value = estimate(batch_of(features, wide, coef, repeated)).sum()
    (found,) = gradient(value, repeated)
    return found.reshape(n_repeats, 2, N_BITS)


def assert_unbiased(draws, expected):
    error = draws.std(0) / math.sqrt(len(draws))
    assert ((draws.mean(0) - expected).abs() / error).max() < 4.0


@pytest.mark.parametrize("losses", [square_losses(), class_losses()], ids=["mse", "ce"])
@pytest.mark.parametrize("kernel", [optical(centered=True), rbf(1.0)], ids=str)
@pytest.mark.parametrize("baseline", [True, False])
def test_the_score_function_is_unbiased(kernel, losses, baseline):
    features = features_of(kernel)
    coef = head(features, losses.n_outputs)
    logits = leaf()
    (exact,) = gradient(expected_loss(features, losses, coef, logits), logits)
    draws = many(Score(4, baseline), features, losses, coef, 4000)
    assert_unbiased(draws, exact)


def test_isolated_gradients_are_unbiased_for_squared_errors():
    features, losses = features_of(optical(centered=True)), square_losses()
    coef, logits = head(features, 1), leaf()
    (exact,) = gradient(loss_of_mean(features, losses, coef, logits), logits)
    for baseline in (True, False):
        draws = many(Isolated(3, baseline), features, losses, coef, 4000)
        assert_unbiased(draws, exact)
    # It is the gradient of another loss than the expected one.
    (other,) = gradient(expected_loss(features, losses, coef, logits), logits)
    assert (other - exact).abs().max() > 0.05


def test_isolated_gradients_of_many_draws_are_those_of_cross_entropies():
    features, losses = features_of(optical(centered=True)), class_losses()
    coef, logits = head(features, 3), leaf()
    (exact,) = gradient(loss_of_mean(features, losses, coef, logits), logits)
    draws = many(Isolated(300, True), features, losses, coef, 100)
    assert_unbiased(draws, exact)


@pytest.mark.parametrize("losses", [square_losses(), class_losses()], ids=["mse", "ce"])
@pytest.mark.parametrize(
    "kernel", [optical(centered=True), optical(), dot_product()], ids=str
)
def test_analytic_losses_and_gradients_are_sums_over_all_codes(kernel, losses):
    features = features_of(kernel)
    coef = head(features, losses.n_outputs).requires_grad_()
    logits = leaf()
    expected = loss_of_mean(features, losses, coef, logits)
    found = Analytic()(batch_of(features, losses, coef, logits)).sum()
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        gradient(found, logits, coef), gradient(expected, logits, coef), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_analytic_gradients_are_finite_differences():
    features, losses = features_of(optical(centered=True)), class_losses()
    coef = head(features, 3)
    assert torch.autograd.gradcheck(
        lambda logits: Analytic()(batch_of(features, losses, coef, logits)), leaf()
    )


def test_kernels_without_a_closed_form_say_so():
    probabilities = torch.full((1, N_BITS), 0.5, dtype=torch.float64)
    assert features_of(rbf(1.0)).mean(probabilities) is None
    assert features_of(optical(power=4)).mean(probabilities) is None


def test_baselines_lower_the_variance_of_a_loss_with_an_offset():
    features, losses = features_of(optical(centered=True)), class_losses()
    coef = head(features, 3)
    plain = many(Score(8, False), features, losses, coef, 500)
    better = many(Score(8, True), features, losses, coef, 500)
    assert better.var(0).mean() < plain.var(0).mean()


def test_straight_through_gradients_are_those_of_relaxed_bits():
    features, losses = features_of(optical(centered=True)), class_losses()
    coef, logits = head(features, 3), leaf()
    found = StraightThrough()(batch_of(features, losses, coef, logits))
    hard = (logits > 0.0).double().detach().requires_grad_()
    loss = losses(features(hard) @ coef, torch.arange(2))
    torch.testing.assert_close(found, loss)
    (by_bits,) = gradient(loss.sum(), hard)
    p = logits.sigmoid()
    (by_logits,) = gradient(found.sum(), logits)
    torch.testing.assert_close(by_logits, by_bits * p * (1.0 - p))


def test_feedback_takes_a_matrix_for_the_derivative_of_the_head():
    features, losses = features_of(rbf(1.0)), square_losses()
    coef, logits = head(features, 1), leaf()
    weights = torch.tensor([[0.3, -2.0, 1.0]], dtype=torch.float64)
    found = Feedback(weights)(batch_of(features, losses, coef, logits)).sum()
    error = features((logits > 0.0).double()) @ coef - losses.values
    p = logits.sigmoid()
    (by_logits,) = gradient(found, logits)
    torch.testing.assert_close(by_logits, 2.0 * error * weights * p * (1.0 - p))


@pytest.mark.parametrize(
    "estimate",
    [
        Score(2, True),
        Isolated(2, True),
        Analytic(),
        StraightThrough(),
        Feedback(torch.ones(1, N_BITS, dtype=torch.float64)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_head_gets_the_derivatives_of_its_own_loss(estimate):
    features, losses = features_of(optical(centered=True)), square_losses()
    coef = head(features, 1).requires_grad_()

    def value(coef):
        return estimate(batch_of(features, losses, coef, leaf())).sum()

    assert torch.autograd.gradcheck(value, coef)


def test_steep_autoencoders_have_the_losses_of_thresholded_bits():
    features, losses = SignedCodes(N_BITS), square_losses()
    coef, logits = head(features, 1), leaf()
    batch = batch_of(features, losses, coef, logits)
    hard = losses(features(batch.thresholded()) @ coef, torch.arange(2))
    torch.testing.assert_close(Relaxed(1e3)(batch), hard)
    assert torch.autograd.gradcheck(
        lambda logits: Relaxed(2.0)(batch_of(features, losses, coef, logits)), logits
    )


def test_random_bits_have_their_probabilities():
    logits = leaf([[0.0, 2.0, -1.0]])
    batch = batch_of(features_of(rbf(1.0)), square_losses(), None, logits)
    codes = batch.draw(4000)
    p = logits.sigmoid().detach()
    error = torch.sqrt(p * (1.0 - p) / 4000)
    assert ((codes.mean(0) - p).abs() / error).max() < 4.0
    expected = torch.log(probabilities_of(logits))
    found = batch.log_probabilities(CODES[:, None])
    torch.testing.assert_close(found, expected)
    np.testing.assert_allclose(found.exp().sum().item(), 1.0)
