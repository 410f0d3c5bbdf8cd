"""Samples that are not what they should be: what is said of them."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelEnsembleClassifier,
    KernelFlowsWarp,
    NystromCompletedGP,
    gram_matrix,
)
from skconvgp.estimators import _warn
from skconvgp.exceptions import ImageShapeWarning
from skconvgp.kernels import convnet, rbf
from tests.helpers.estimators import blobs, digits, tiny_network

RNG = np.random.default_rng(0)
LABELS = np.arange(6) % 2


@pytest.mark.parametrize("shape", [(8, 8, 1), (9, 5, 4)])
def test_a_setting_with_channels_last_is_told_for_rows(shape):
    X = RNG.random((6, np.prod(shape)))
    for gp in (
        ConvNetGPRegressor(tiny_network(), image_shape=shape),
        NystromCompletedGP(tiny_network(), image_shape=shape, n_landmarks=3),
        KernelFlowsWarp(tiny_network(), image_shape=shape, n_steps=0),
    ):
        _warn.WARNED.clear()
        with pytest.warns(ImageShapeWarning, match="np.moveaxis"):
            gp.fit(X, LABELS)


@pytest.mark.parametrize(
    "shape",
    [(3, 10, 12), (1, 8, 8), (4, 9, 9), (3, 5, 3), (2, 8, 8), (16, 3, 3), (9, 1, 1)],
)
def test_other_images_are_taken_without_a_word(shape):
    ConvNetGPRegressor(tiny_network()).fit(RNG.random((6, *shape)), LABELS)
    gram_matrix(tiny_network(), RNG.random((2, *shape)))


@pytest.mark.parametrize("shape", [(6, 1, 1, 8, 8), (6, 1, 1, 1, 2, 2)])
def test_more_dimensions_than_images_have(shape):
    message = rf"dim {len(shape)}.*2, 3 or 4 dimensions"
    with pytest.raises(ValueError, match=message):
        ConvNetGPClassifier(rbf(1.0)).fit(np.zeros(shape), LABELS)
    with pytest.raises(ValueError, match=message):
        gram_matrix(rbf(1.0), np.zeros(shape))


@pytest.mark.parametrize("n_channels", [1, 3])
def test_a_single_image_to_predict(n_channels):
    X = RNG.random((6, n_channels, 8, 8))
    gp = ConvNetGPClassifier(tiny_network()).fit(X, LABELS)
    one = X[0] if n_channels > 1 else X[0, 0]
    for method in (gp.predict, gp.predict_proba, gp.latent_gradient):
        with pytest.raises(ValueError, match=r"single image in `fit`.*X\[None\]"):
            method(one)
    assert gp.predict(X[:1]).shape == (1,)
    if n_channels == 1:
        assert gp.predict(X[0]).shape == (1,)  # (1, h, w) is an image of one channel


def test_a_single_row_to_predict():
    X, y = blobs(6)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    with pytest.raises(ValueError, match=r"reshape\(1, -1\)"):
        gp.predict(X[0])


def test_masked_values_are_not_taken():
    X, y = digits(6)
    masked = np.ma.masked_greater(X, 0.9)
    with pytest.raises(ValueError, match=r"masked values.*filled"):
        ConvNetGPRegressor(tiny_network()).fit(masked, y)
    gp = ConvNetGPRegressor(tiny_network()).fit(X, y)
    with pytest.raises(ValueError, match="masked values"):
        gp.predict(masked)
    with pytest.raises(ValueError, match="masked values"):
        gram_matrix(tiny_network(), masked)
    unmasked = np.ma.masked_array(X)
    np.testing.assert_array_equal(gp.predict(unmasked), gp.predict(X))


@pytest.mark.parametrize(
    "fit",
    [
        ConvNetGPRegressor(rbf(1.0)).fit,
        ConvNetGPClassifier(rbf(1.0)).fit,
        KernelEnsembleClassifier([("rbf", rbf(1.0))]).fit,
        KernelFlowsWarp(rbf(1.0), n_steps=1).fit,
        NystromCompletedGP(rbf(1.0), n_landmarks=3).fit,
    ],
)
def test_masked_targets_are_not_taken(fit):
    X, y = blobs(8, 2)
    masked = np.ma.masked_array(y, np.arange(8) == 3)
    with pytest.raises(ValueError, match=r"^y is a masked array.*y\.filled"):
        fit(X, masked)
    fit(X, np.ma.masked_array(y))


def test_other_masked_values_are_not_taken():
    X, y = blobs(8, 2)
    masked = np.ma.masked_array(y, np.arange(8) == 3)
    with pytest.raises(ValueError, match=r"^sample_weight is a masked array"):
        ConvNetGPRegressor(rbf(1.0)).fit(X, y, masked)
    gp = NystromCompletedGP(rbf(1.0), n_landmarks=3).fit(X, y)
    with pytest.raises(ValueError, match=r"^y is a masked array"):
        gp.partial_fit(X, masked)


@pytest.mark.parametrize("to", [np.asarray, torch.as_tensor])
def test_shapes_are_told_as_tuples(to):
    images = [to(np.zeros((8, 8))), to(np.zeros((8, 9)))]
    gp = ConvNetGPRegressor(tiny_network()).fit(digits(6)[0], np.arange(6.0))
    with pytest.raises(ValueError, match=r"shape \(8, 8\), .*shape \(8, 9\)\):"):
        gp.predict(images)
    with pytest.raises(ValueError, match=r"^X has shape \(8, 8\), .*X\[None\]"):
        gp.predict(images[0])


@pytest.mark.parametrize(
    "shapes", [[(8, 8), (9, 9)], [(8, 8), (8, 9)], [(1, 8, 8), (8, 8)]]
)
def test_images_of_different_sizes(shapes):
    images = [np.zeros(shape) for shape in shapes]
    for call in (
        lambda: ConvNetGPClassifier(convnet(1)).fit(images, [0, 1]),
        lambda: gram_matrix(convnet(1), images),
    ):
        with pytest.raises(ValueError, match="different sizes") as caught:
            call()
        assert all(str(shape) in str(caught.value) for shape in shapes)


def test_rows_of_different_lengths():
    with pytest.raises(ValueError, match="different sizes"):
        ConvNetGPClassifier(rbf(1.0)).fit([[1.0, 2.0], [3.0]], [0, 1])


def test_images_in_the_cells_of_a_table():
    images = [np.zeros((8, 8)), np.ones((8, 8))]
    table = pd.DataFrame({"image": images})
    for X in (table, table["image"], table[["image"]].to_numpy()):
        with pytest.raises(ValueError, match=r"arrays of shape \(8, 8\).*np.stack"):
            ConvNetGPClassifier(tiny_network()).fit(X, [0, 1])
    X = np.stack(table["image"])
    assert ConvNetGPClassifier(tiny_network()).fit(X, [0, 1]).predict(X).shape == (2,)


@pytest.mark.parametrize(
    ("labels", "kinds"),
    [
        ([None, "a", "b", "a", "b", "a"], "NoneType, str"),
        ([None, 1, 2, 1, 2, 1], "NoneType, int"),
        ([{}, {}, {}, 1, 1, 1], "dict, int"),
        (np.array([1, "a", 2, "a", 1, 2], dtype=object), "int, str"),
    ],
)
def test_labels_of_no_or_several_kinds(labels, kinds):
    X, _ = blobs(6)
    for gp in (
        ConvNetGPClassifier(rbf(1.0)),
        NystromCompletedGP(rbf(1.0), n_landmarks=3),
    ):
        with pytest.raises(ValueError, match=rf"one kind.*{kinds}.*astype"):
            gp.fit(X, labels)


def test_strings_are_labels_of_one_kind():
    X, y = blobs(6)
    names = np.array(["a", "b", "c"], dtype=object)[y]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp = ConvNetGPClassifier(rbf(1.0)).fit(X, names)
        assert set(gp.predict(X)) <= set(names)
        ConvNetGPClassifier(rbf(1.0)).fit(X, pd.Series(names))
