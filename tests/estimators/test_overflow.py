"""Numbers that a precision does not hold: right, or an error, never a silent NaN."""

import numpy as np
import pytest
import torch

from skconvgp import (
    BayesianNetworkClassifier,
    BinaryEncoder,
    ConvNetGPRegressor,
    ImageClassifier,
    PatchGPClassifier,
    gram_matrix,
)
from skconvgp.exceptions import NotFiniteError
from skconvgp.kernels import (
    GELU,
    Abs,
    Conv2d,
    Dense,
    Elementwise,
    Erf,
    Flatten,
    Identity,
    LeakyReLU,
    MaxNormalization,
    PatchKernel,
    ReLU,
    Sequential,
    Sigmoid,
    SiLU,
    Sin,
    Softplus,
    Tanh,
    arcsine,
    convnet,
    dot_product,
    matern,
    polynomial,
    rbf,
)
from tests.helpers.estimators import digits
from tests.helpers.tolerances import TOLERANCES

ACTIVATIONS = [
    ReLU(),
    LeakyReLU(slope=0.3),
    Abs(),
    Identity(),
    Erf(),
    GELU(),
    Sin(),
    Tanh(),
    Sigmoid(),
    SiLU(),
    Softplus(),
    Elementwise(torch.tanh),
]
KERNELS = [
    rbf(1.0),
    matern(1.0, nu=0.5),
    matern(1.0, nu=1.5),
    matern(1.0, nu=2.5),
    arcsine(),
    dot_product(),
    polynomial(degree=3),
    convnet(depth=2, kernel_size=3),
    MaxNormalization(convnet(depth=2, kernel_size=3)),
    rbf(1.0) * matern(1.0) + 0.5 * arcsine(),
]
KERNELS += [Sequential(Flatten(), Dense(), layer, Dense()) for layer in ACTIVATIONS]
KERNELS += [
    Sequential(Conv2d((1, 3), bias_variance=1.0), layer, Flatten(), Dense())
    for layer in ACTIVATIONS
]
# The largest number is far beyond the square root of what the precision holds, near
# it, or so large that only products of variances are not held.
LARGE = {"float32": [1e20, 1e18, 1e12], "float64": [1e160, 1e153, 1e80]}
pytestmark = pytest.mark.filterwarnings("ignore:An .Elementwise. of")
HELD = 1e30  # in double precision all kernels hold the squares of numbers of this size


def samples(size):
    return np.array([[1.0, 2.0, 1.0], [2.0, -1.0, 0.5], [1e-9, 1e-9, 0.0]]) * size


def matrix(kernel, X, **settings):
    """Return the matrix, or nothing where an error says that numbers are too large."""
    try:
        return gram_matrix(kernel, X, image_shape=(1, 1, 3), **settings)
    except ValueError as error:
        if "not finite" not in str(error):
            raise
        return None


@pytest.mark.parametrize("dtype", list(LARGE))
@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_large_numbers_are_right_or_refused(kernel, backend, dtype):
    for size in LARGE[dtype]:
        X = samples(size)
        found = matrix(kernel, X, backend=backend, dtype=dtype)
        if found is None:
            continue
        # Saturated kernels are those of smaller numbers, others grow with them.
        like = min(size, HELD)
        expected = matrix(kernel, samples(like), backend="torch", dtype="float64")
        deviations = np.sqrt(np.diag(expected))
        assert np.isfinite(found).all()
        if like < size:
            grown = np.sqrt(np.diag(found))
            found, expected = (
                found / np.outer(grown, grown),
                expected / np.outer(deviations, deviations),
            )
            deviations = np.ones(3)
        error = np.abs(found - expected) / np.outer(deviations, deviations)
        # Angles of nearly equal samples are roots of rounding errors.
        assert error.max() < TOLERANCES[getattr(torch, dtype)].root


@pytest.mark.parametrize("layer", ACTIVATIONS, ids=repr)
def test_a_weight_of_zero_does_not_hide_what_is_not_held(layer):
    kernel = Sequential(Flatten(), Dense(0.0, bias_variance=1.0), layer, Dense())
    with pytest.raises(ValueError, match="2 of 3 samples is not finite"):
        gram_matrix(kernel, samples(1e20), dtype="float32", image_shape=None)


def test_pairs_that_are_not_held_are_refused():
    # The centre of the samples is far from half of them: distances overflow, not norms.
    X = np.array([[9e153], [9e153], [-9e153], [-9e153]])
    with pytest.raises(ValueError, match="not finite"):
        gram_matrix(rbf(1.0), X)


def test_a_fitted_model_refuses_samples_that_are_not_held():
    kernel = Sequential(Flatten(), Dense(), Elementwise(torch.tanh), Dense())
    gp = ConvNetGPRegressor(kernel, dtype="float32", image_shape=None)
    gp.fit(samples(1.0), [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="not finite in"):
        gp.predict(samples(1e20))


@pytest.mark.parametrize(
    "estimator",
    [
        PatchGPClassifier(PatchKernel(rbf(1.0), patch_size=3), n_inducing=8),
        ImageClassifier("patches"),
        BinaryEncoder(4, max_iter=1),
        BayesianNetworkClassifier(max_iter=1),
    ],
    ids=lambda one: type(one).__name__,
)
def test_samples_whose_squares_overflow_are_refused(estimator):
    """Clustering of such patches by scipy reads memory that is not its own."""
    X, y = digits(24)
    with pytest.raises(NotFiniteError, match=r"overflow: scale X to numbers near 1"):
        estimator.fit(X * 1e300, y % 3)
