"""Real images, where they are on this machine."""

import os
from pathlib import Path

import pytest

from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import fetch_mnist
from skconvgp.kernels import convnet, rbf

FOLDER = os.environ.get("SKCONVGP_DATA")
HAS_MNIST = FOLDER is not None and (Path(FOLDER) / "mnist.npz").is_file()
pytestmark = pytest.mark.skipif(
    not HAS_MNIST, reason="SKCONVGP_DATA names no folder with mnist.npz"
)


def test_vectors_of_a_thousand_digits():
    X_train, y_train = fetch_mnist(n_samples=1000, return_X_y=True)
    X_test, y_test = fetch_mnist(subset="test", n_samples=500, return_X_y=True)
    gp = ConvNetGPClassifier(rbf(lengthscale=7.0)).fit(X_train, y_train)
    assert gp.score(X_test, y_test) >= 0.9
    assert (gp.loo_predict() == y_train).mean() >= 0.9


@pytest.mark.slow
def test_images_of_three_hundred_digits():
    X_train, y_train = fetch_mnist(n_samples=300, return_X_y=True)
    X_test, y_test = fetch_mnist(subset="test", n_samples=100, return_X_y=True)
    gp = ConvNetGPClassifier(convnet(depth=1)).fit(X_train, y_train)
    assert gp.image_shape_ == (1, 28, 28)
    assert (gp.loo_predict() == y_train).mean() >= 0.85
    assert gp.score(X_test, y_test) >= 0.75
