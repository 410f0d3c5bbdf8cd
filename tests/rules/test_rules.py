"""Rules that hold for every public class, each tried on every case of one list."""

import pickle

import numpy as np
import pytest

from skconvgp import SKOPS_TRUSTED_TYPES, gram_matrix
from tests.helpers.estimators import digits
from tests.helpers.public import (
    CASES,
    KERNELS,
    N_NEW,
    as_arrays,
    assert_near,
    assert_same_bits,
    data_of_fit,
    fitted_and_results,
    offers,
)

sio = pytest.importorskip("skops.io")

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_samples_and_labels_are_not_changed(case):
    fitted_and_results(case)
    for part, copy in zip(data_of_fit(case), case.data(), strict=True):
        np.testing.assert_array_equal(part, copy)


def through_pickle(fitted):
    return pickle.loads(pickle.dumps(fitted))


def through_skops(fitted):
    text = sio.dumps(fitted)
    return sio.loads(text, trusted=SKOPS_TRUSTED_TYPES)


@pytest.mark.parametrize("way", [through_pickle, through_skops])
@every_case
def test_saved_models_are_the_same(case, way):
    fitted, expected = fitted_and_results(case)
    assert_same_bits(case.results(way(fitted)), expected)


ROWS = ("predict_proba", "decision_function", "predict", "transform")
ROWS += ("predict_latent", "predict_interval", "bit_probabilities", "latent_gradient")


@every_case
def test_a_sample_alone_is_as_among_others(case):
    fitted, _ = fitted_and_results(case)
    _, _, new = case.data()
    for name in ROWS:
        if not offers(fitted, name):
            continue
        method = getattr(fitted, name)
        try:
            whole = as_arrays(method(new))
        except ValueError:
            continue  # of settings that do not give this
        for i in range(N_NEW):
            alone = as_arrays(method(new[i : i + 1]))
            assert_near(
                {name: alone}, {name: [one[i : i + 1] for one in whole]}, rtol=1e-4
            )


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_covariances_of_a_sample_alone_are_those_among_others(kernel):
    X, _ = digits(8)
    copy = X.copy()
    whole = gram_matrix(kernel, X)
    for i in range(0, len(X), 3):
        alone = gram_matrix(kernel, X[i : i + 1], X)
        assert_near({"gram": [alone[0]]}, {"gram": [whole[i]]}, rtol=1e-5)
    np.testing.assert_array_equal(X, copy)
