"""Transformers and estimators of images on a GPU: the values of the processor."""

import numpy as np
import pytest
from sklearn.base import clone

from skconvgp import ImageClassifier
from skconvgp.transforms import (
    ChannelScaler,
    ChannelWhitening,
    ContrastNormalization,
    Downsample,
    ScatteringTransform,
    ZCAWhitening,
)
from tests.helpers.estimators import digits

pytestmark = pytest.mark.gpu
TRANSFORMERS = [
    ScatteringTransform(J=1),
    ChannelScaler(),
    ChannelWhitening(),
    ZCAWhitening(),
    ContrastNormalization(),
    Downsample(),
]


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=repr)
def test_transformers_are_those_of_the_processor(transformer):
    images = np.random.default_rng(0).random((9, 3, 8, 12))
    on_gpu, on_cpu = (
        clone(transformer).set_params(device=device).fit_transform(images)
        for device in ("cuda", "cpu")
    )
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-6, atol=1e-9)


def test_a_sum_of_parts_is_that_of_the_processor():
    X, y = digits(80)
    settings = {"dtype": "float64", "noise_variance": 1e-2, "random_state": 0}
    settings |= {"part_weights": [1, 1, 1], "flips": True}
    on_gpu, on_cpu = (
        ImageClassifier(device=device, **settings).fit(X[:60], y[:60])
        for device in ("cuda", "cpu")
    )
    assert on_gpu.device_.startswith("cuda")
    found, expected = (gp.predict_proba(X[60:]) for gp in (on_gpu, on_cpu))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_array_equal(found.argmax(1), expected.argmax(1))
