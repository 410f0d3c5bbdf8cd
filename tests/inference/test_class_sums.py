"""Sums over the samples of each class against those over all samples."""

import numpy as np
import pytest
import torch

from skconvgp.inference import ClassSums, LabelCode, sum_features
from skconvgp.likelihoods import Beta, Dirichlet
from tests.helpers.tolerances import assert_close

N, R, AMPLITUDE, ADDED = 30, 6, 7.0, 0.02


def samples(n_classes):
    generator = np.random.default_rng(0)
    features = torch.as_tensor(generator.normal(size=(N, R)))
    codes = torch.as_tensor(generator.integers(0, n_classes, N))
    return features, codes, torch.as_tensor(generator.uniform(0.5, 2.0, N))


def sums_of(features, codes, weights, n_classes):
    of_classes = torch.nn.functional.one_hot(codes, n_classes) * weights[:, None]
    moments = torch.einsum("nr,nc,ns->crs", features, of_classes, features)
    return ClassSums(moments, features.mT @ of_classes, of_classes.sum(0))


@pytest.mark.parametrize(
    ("likelihood", "n_classes"),
    [(Dirichlet(), 4), (Dirichlet(0.1), 2), (Beta(0.01), 2)],
)
def test_each_function_has_the_sums_over_all_samples(likelihood, n_classes):
    features, codes, weights = samples(n_classes)
    sums = sums_of(features, codes, weights, n_classes)
    every = torch.arange(n_classes)
    code = LabelCode.of(
        likelihood.targets(every, n_classes, torch.ones(n_classes)), AMPLITUDE, ADDED
    )
    assert code.has_two_levels
    targets = likelihood.targets(codes, n_classes, weights)
    offset = likelihood.targets(every, n_classes, torch.ones(n_classes)).offset
    whole = sums.moments.sum(0)
    for c in range(n_classes):
        wanted = sum_features(
            features,
            (targets.values - offset)[:, [c]],
            targets.noise[:, c] / AMPLITUDE + ADDED,
            weights,
        )
        found = sums.of_function(c, code, whole)
        for name in ("moment", "response", "energy", "log_noise", "weight"):
            assert_close(getattr(found, name).numpy(), getattr(wanted, name).numpy())
        precision = (weights / (targets.noise[:, c] / AMPLITUDE + ADDED)).sum()
        assert_close(code.precision(sums.weights)[c].numpy(), precision.numpy())
    if n_classes == 2:
        second = code.of_second()
        assert second.label_of(0) == 1
        found, wanted = (
            sums.of_function(i, each, whole) for i, each in ((0, second), (1, code))
        )
        assert_close(found.moment.numpy(), wanted.moment.numpy())
        assert_close(found.response.numpy(), wanted.response.numpy())


def test_other_classes_with_different_noise():
    noise = torch.tensor([[1.0, 2.0, 3.0], [5.0, 1.0, 3.0], [4.0, 2.0, 1.0]])
    assert not LabelCode(noise, noise).has_two_levels
    noise[1, 0] = 4.0
    assert LabelCode(noise, noise).has_two_levels
