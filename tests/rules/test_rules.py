"""Rules that hold for every public class, each tried on every case of one list."""

import pickle
import random

import numpy as np
import pytest
import torch

from skconvgp import SKOPS_TRUSTED_TYPES, gram_matrix
from tests.helpers.estimators import digits
from tests.helpers.public import (
    CASES,
    FUNCTIONS,
    KERNELS,
    N_NEW,
    as_arrays,
    assert_near,
    assert_same_bits,
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


def states_of_generators():
    """Return the states of the generators that all code of a process shares."""
    of_numpy = np.random.get_state(legacy=False)  # noqa: NPY002  (what users set)
    state = of_numpy["state"]
    of_torch = torch.get_rng_state().tolist()
    return random.getstate(), state["key"].tolist(), state["pos"], of_torch


@every_case
def test_a_seed_says_all_and_the_shared_generators_are_left_alone(case):
    _, expected = fitted_and_results(case)
    random.seed(1)
    np.random.seed(2)  # noqa: NPY002  (what users set)
    torch.manual_seed(3)
    before = states_of_generators()
    found = case.results(case.fit())
    assert states_of_generators() == before
    assert_same_bits(found, expected)


@every_case
def test_samples_and_labels_are_not_changed(case):
    X, y, new = case.data()
    copies = [part.copy() for part in (X, y, new)]
    fitted = case.new().fit(X, y)
    for name in ("predict", "predict_proba", "transform", "latent_gradient"):
        if offers(fitted, name):
            try:
                getattr(fitted, name)(new)
            except ValueError:
                continue  # of settings that do not give this
    for part, copy in zip((X, y, new), copies, strict=True):
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


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_repeat_and_leave_shared_generators_alone(name):
    expected = as_arrays(FUNCTIONS[name]())
    before = states_of_generators()
    found = as_arrays(FUNCTIONS[name]())
    assert states_of_generators() == before
    assert_same_bits({name: found}, {name: expected})


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_covariances_of_a_sample_alone_are_those_among_others(kernel):
    X, _ = digits(8)
    copy = X.copy()
    whole = gram_matrix(kernel, X)
    for i in range(0, len(X), 3):
        alone = gram_matrix(kernel, X[i : i + 1], X)
        assert_near({"gram": [alone[0]]}, {"gram": [whole[i]]}, rtol=1e-5)
    np.testing.assert_array_equal(X, copy)
