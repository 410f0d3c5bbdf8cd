"""Rules that hold for every public class, each tried on every case of one list."""

import inspect
import io
import pickle
import random

import numpy as np
import pytest
import torch

from skconvgp import SKOPS_TRUSTED_TYPES
from tests.helpers.public import CASES, N_NEW, as_arrays, fitted_and_results, offers

sio = pytest.importorskip("skops.io")

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
)
TINY = 1e-12  # values below it are compared as if they were of this size
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def assert_same_bits(found, expected):
    assert list(found) == list(expected)
    for name, arrays in found.items():
        for one, other in zip(arrays, expected[name], strict=True):
            assert one.dtype == other.dtype, name
            np.testing.assert_array_equal(one, other, err_msg=name)


def assert_near(found, expected, rtol):
    """Compare to a share of the largest value; refusals and names are the same."""
    assert list(found) == list(expected)
    for name, arrays in found.items():
        for one, other in zip(arrays, expected[name], strict=True):
            if other.dtype.kind not in "fc":
                np.testing.assert_array_equal(one, other, err_msg=name)
                continue
            size = max(np.abs(other).max(initial=0.0), TINY)
            np.testing.assert_allclose(
                one, other, rtol=rtol, atol=rtol * size, err_msg=name
            )


def states_of_generators():
    """Return the states of the generators that all code of a process shares."""
    kind, keys, *others = np.random.get_state()
    return random.getstate(), kind, keys.tolist(), others, torch.get_rng_state().tolist()


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


def broken(X, y):
    """Yield samples and labels that no estimator takes."""
    nans = X.copy()
    nans[3, 0, 1, 1] = np.nan
    yield nans, y
    yield X[:, :, :0], y
    yield X[:-1], y


@every_case
def test_a_fit_that_fails_changes_nothing(case):
    fitted, expected = fitted_and_results(case)
    X, y, _ = case.data()
    before = dict(vars(fitted))
    for bad in broken(X, y):
        if "y" not in inspect.signature(fitted.fit).parameters or (
            len(bad[0]) != len(y) and not needs_y(fitted)
        ):
            continue
        with pytest.raises(ValueError):
            fitted.fit(*bad)
        assert vars(fitted).keys() == before.keys()
        assert all(value is before[name] for name, value in vars(fitted).items())


def needs_y(estimator):
    return estimator.__sklearn_tags__().target_tags.required
