"""Threads and single precision change results by what the documentation says."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from skconvgp import gram_diag, gram_gradient, gram_matrix
from tests.helpers.estimators import digits
from tests.helpers.public import (
    CALLS,
    CASES,
    KERNELS,
    as_arrays,
    assert_near,
    fitted_and_results,
    offers,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@contextmanager
def threads(count):
    """Let torch and the compiled code use some threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def values(case, model):
    """Return what a model says of new samples."""
    X, y, new = case.data()
    return {
        name: as_arrays(CALLS[name](model, X, y, new))
        for name in ("predict_latent", "predict_proba", "predict", "transform")
        if offers(model, name)
    }


@every_case
def test_two_threads_compute_what_one_computes(case):
    fitted, _ = fitted_and_results(case)
    with threads(1 if torch.get_num_threads() > 1 else 2):
        found, expected = (values(case, model) for model in (case.fit(), fitted))
    assert_near(found, expected, rtol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_two_threads_compute_the_covariances_of_one(kernel):
    X, _ = digits(9)
    with threads(1):
        expected = gram_gradient(kernel, X)
    with threads(2):
        found = gram_gradient(kernel, X)
    assert_near({"both": found}, {"both": expected}, rtol=1e-5)


def size_of(difference, whole):
    """Return the largest difference, as a share of the largest value."""
    return np.abs(difference).max() / np.abs(whole).max()


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_covariances_in_single_precision_have_six_digits(kernel):
    X, _ = digits(6)
    for function in (gram_matrix, gram_diag):
        single, double = (
            function(kernel, X, dtype=dtype) for dtype in ("float32", "float64")
        )
        assert size_of(single - double, double) < 1e-5


# A search may end elsewhere if its first steps differ.
FITS = [
    case
    for case in CASES
    if "dtype" in case.estimator.get_params() and "Bayesian" not in case.name
]


@pytest.mark.parametrize("case", FITS, ids=lambda case: case.name)
def test_fits_in_single_precision_have_three_digits(case):
    fitted, _ = fitted_and_results(case)
    other = case.fit(dtype="float32" if fitted.dtype_ == "float64" else "float64")
    for name, arrays in values(case, other).items():
        for one, two in zip(arrays, values(case, fitted)[name], strict=True):
            if two.dtype.kind == "f":
                assert size_of(one - two, two) < 1e-3


# Steps of a search, and of a completion that has not converged, enlarge rounding.
SOLVES = [
    case
    for case in CASES
    if {"solve_dtype", "amplitude"} <= set(case.estimator.get_params())
    and "optimizer" not in case.name
    and "max_iter" not in case.name
]


@pytest.mark.parametrize("case", SOLVES, ids=lambda case: case.name)
def test_solves_in_single_precision_take_a_given_amplitude(case):
    given = {"amplitude": 1.0, "noise_variance": 0.1}
    single, double = (
        values(case, case.fit(solve_dtype=dtype, **given))
        for dtype in ("float32", "float64")
    )
    assert_near(single, double, rtol=1e-3)
