"""The picture of the eigenvalues of a Gram matrix."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, gram_matrix
from skconvgp.completion import CoarseKernel, Nystrom
from skconvgp.display import SpectrumDisplay
from skconvgp.exceptions import ImageShapeWarning
from skconvgp.kernels import convnet, rbf


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_eigenvalues_of_a_matrix_with_known_ones():
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))
    wanted = np.array([8.0, 4.0, 2.0, 2.0])
    display = SpectrumDisplay.from_gram(
        3.0 * rotation @ np.diag(wanted) @ rotation.T, noise_variance=0.5
    )
    relative = wanted / wanted.mean()
    np.testing.assert_allclose(display.eigenvalues, relative, rtol=1e-12)
    np.testing.assert_allclose(display.line_.get_ydata(), relative, rtol=1e-12)
    expected = (relative / (relative + 0.5)).sum()
    assert display.effective_dimension == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("kernel", "shape"), [(rbf(2.0), (30, 3)), (convnet(2, 3), (30, 1, 8, 8))]
)
def test_effective_dimension_is_the_trace_of_the_smoother(kernel, shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    gp = ConvNetGPRegressor(kernel, noise_variance=0.1).fit(X, rng.normal(size=30))
    K = gram_matrix(kernel, X, dtype="float64")
    K = K / np.diag(K).mean()
    trace = np.trace(np.linalg.solve(K + 0.1 * np.eye(30), K))
    display = SpectrumDisplay.from_estimator(gp, X)
    assert display.effective_dimension == pytest.approx(trace, rel=1e-9)
    assert display.name == str(kernel)


@pytest.mark.parametrize("exact", [None, Nystrom(30)], ids=["coarse", "sum"])
def test_eigenvalues_are_those_of_what_the_process_sees(exact):
    X = np.random.default_rng(0).normal(size=(30, 1, 8, 8))
    y = X[:, 0, 0, 0]
    part = CoarseKernel(depth=1, exact=exact, exact_weight=0.3)
    settings = {"dtype": "float64", "backend": "torch", "random_state": 0}
    gp = ConvNetGPRegressor(convnet(2, 3), completion=part, **settings).fit(X, y)
    pooled = X.reshape(30, 1, 4, 2, 4, 2).mean(axis=(3, 5))
    gram = gram_matrix(convnet(1, 3), pooled, dtype="float64")
    if exact is not None:  # all columns: what is completed is the matrix itself
        whole = gram_matrix(convnet(2, 3), X, dtype="float64")
        gram = 0.7 * gram / np.trace(gram) + 0.3 * whole / np.trace(whole)
    expected = SpectrumDisplay.from_gram(gram).eigenvalues
    found = SpectrumDisplay.from_estimator(gp, X).eigenvalues
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-10)


def test_a_guess_that_was_told_is_not_told_again():
    X = np.random.default_rng(0).normal(size=(10, 64))
    with pytest.warns(ImageShapeWarning):
        gp = ConvNetGPRegressor(convnet(2, 3)).fit(X, X[:, 0])
    assert len(SpectrumDisplay.from_estimator(gp, X).eigenvalues) == 10


def test_precomputed_kernels_give_the_matrix():
    X = np.random.default_rng(0).normal(size=(20, 3))
    K = rbf_matrix(X)
    y = X[:, 0] > 0
    gp = ConvNetGPClassifier("precomputed", noise_variance=0.1).fit(K, y)
    of_matrix = SpectrumDisplay.from_estimator(gp, K, name="mine")
    of_kernel = SpectrumDisplay.from_estimator(
        ConvNetGPClassifier(rbf(1.0), noise_variance=0.1).fit(X, y), X
    )
    np.testing.assert_allclose(of_matrix.eigenvalues, of_kernel.eigenvalues, rtol=1e-8)
    assert of_matrix.name == "mine"


def rbf_matrix(X):
    return np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))


def test_rounding_errors_are_not_drawn():
    display = SpectrumDisplay([1e-14, 1.0, -1e-13, 0.5]).plot()
    np.testing.assert_array_equal(display.line_.get_ydata(), [1.0, 0.5])
    assert display.effective_dimension == 2.0
    assert display.ax_.get_legend() is None


def test_several_share_axes():
    first = SpectrumDisplay([2.0, 1.0], name="a", noise_variance=0.1).plot()
    second = SpectrumDisplay([3.0, 1.0], name="b").plot(ax=first.ax_)
    assert second.figure_ is first.figure_
    labels = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert labels[0] == "a"
    assert labels[1].startswith("noise")
    assert labels[2] == "b"
    first.figure_.canvas.draw()


def test_refuses_what_has_no_spectrum():
    with pytest.raises(NotFittedError):
        SpectrumDisplay.from_estimator(ConvNetGPRegressor(rbf(1.0)), [[1.0]])
    with pytest.raises(ValueError, match="square"):
        SpectrumDisplay.from_gram(np.ones((2, 3)))
    with pytest.raises(ValueError, match="diagonal"):
        SpectrumDisplay.from_gram(-np.eye(3))
    with pytest.raises(ValueError, match=r"array \(n,\)"):
        SpectrumDisplay([[1.0]])
    with pytest.raises(ValueError, match="finite"):
        SpectrumDisplay([1.0, np.nan])


def test_says_how_to_get_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"\.\[display\]"):
        SpectrumDisplay([1.0]).plot()
