"""The lengthscale that follows from training samples, against numpy."""

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.base import clone

from skconvgp.kernels import (
    MaxNormalization,
    arcsine,
    convnet,
    dot_product,
    matern,
    rbf,
)
from skconvgp.kernels._from_data import MEDIAN_ROWS, median_distance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(41, 3))
MEDIAN = float(np.median(pdist(X)))
UNSEEN = r"`lengthscale` of .* is 'median'.*has not seen.*kernel\.resolve\(X_train\)"


def median_of(rows) -> float:
    return median_distance(torch.as_tensor(rows))


@pytest.mark.parametrize("n", [3, 40, 41])
def test_it_is_the_median_of_distances(n):
    assert median_of(X[:n]) == pytest.approx(np.median(pdist(X[:n])), rel=1e-14)


def test_a_distance_counts_once_however_often_the_samples_come():
    often = np.repeat(X, RNG.integers(1, 9, size=len(X)), axis=0)
    assert median_of(often) == median_of(X)


def test_the_order_of_samples_does_not_matter_however_many():
    many = RNG.integers(0, 256, size=(3 * MEDIAN_ROWS, 5)) / 255
    expected = median_of(many)
    for _ in range(3):
        assert median_of(RNG.permutation(many)) == expected
    assert expected == pytest.approx(np.median(pdist(many)), rel=0.03)


def test_more_samples_than_are_compared_may_be_small_whole_numbers():
    # Their digests differ, or many would count as equal.
    many = np.indices((20, 20, 20)).reshape(3, -1).T.astype(np.float64)
    assert median_of(many) == pytest.approx(np.median(pdist(many[::4])), rel=0.03)


@pytest.mark.parametrize("rows", [X[:1], np.ones((5, 2)), [[0.0], [-0.0]]])
def test_it_is_one_where_nothing_is_apart(rows):
    assert median_of(np.array(rows)) == 1.0


def test_single_precision_is_no_other_data():
    exact = np.round(X, 2).astype(np.float32)
    assert median_of(exact) == median_of(exact.astype(np.float64))


@pytest.mark.parametrize("kernel", [rbf, matern])
def test_kernels_take_it_for_their_lengthscale(kernel):
    assert kernel() == kernel("median") == kernel(lengthscale="median")
    assert repr(kernel()) == f"{kernel.__name__}()"
    resolved = kernel().resolve(X)
    assert resolved == kernel(pytest.approx(MEDIAN, rel=1e-14))
    assert resolved.resolve(2.0 * X) is resolved
    assert kernel() == kernel("median")  # it stays what it is


def test_images_are_vectors():
    images = torch.as_tensor(RNG.normal(size=(9, 2, 3, 3)))
    expected = np.median(pdist(images.reshape(9, -1)))
    assert rbf().resolve(images).lengthscale == pytest.approx(expected, rel=1e-14)


def test_parts_of_kernels_take_it():
    kernel = 2.0 * (rbf() + matern(3.0)) * matern(nu=2.5) + dot_product()
    params = kernel.resolve(X).get_params()
    lengths = [params[name] for name in params if name.endswith("__lengthscale")]
    assert sorted(lengths) == pytest.approx(sorted([MEDIAN, 3.0, MEDIAN]), rel=1e-14)
    inside = MaxNormalization(rbf()).resolve(X)
    assert inside.kernel.lengthscale == pytest.approx(MEDIAN, rel=1e-14)


@pytest.mark.parametrize("kernel", [convnet(), arcsine() + rbf(2.0)], ids=repr)
def test_kernels_with_numbers_stay_themselves(kernel):
    assert kernel.resolve(np.zeros((2, 1, 8, 8))) is kernel


@pytest.mark.parametrize("kernel", [rbf(), 2.0 * matern() + convnet()], ids=repr)
def test_it_is_an_error_before_samples_are_seen(kernel):
    kernel.check((3, 8, 8))
    images = torch.zeros(2, 3, 8, 8)
    for use in (
        lambda: kernel.theta,
        lambda: kernel.bounds,
        lambda: kernel.hyperparameters,
        lambda: kernel.with_theta(np.zeros(1)),
        lambda: kernel.prepare(images),
    ):
        with pytest.raises(ValueError, match=UNSEEN):
            use()


def test_rows_may_be_a_view_or_read_only():
    still = X.copy()
    still.flags.writeable = False
    for rows in (X[::-1], still, X.tolist(), torch.as_tensor(X)):
        assert rbf().resolve(rows).lengthscale == rbf().resolve(X).lengthscale


def test_copies_are_equal():
    for copied in (
        clone(rbf()),
        copy.deepcopy(rbf()),
        pickle.loads(pickle.dumps(rbf())),
        rbf(2.0).set_params(lengthscale="median"),
    ):
        assert copied == rbf()
    assert rbf().get_params()["lengthscale"] == "median"
    assert rbf() != rbf(1.0)
    assert rbf() != matern()
