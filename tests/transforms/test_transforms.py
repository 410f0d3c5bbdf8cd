"""Transformers of images as scikit-learn and its users meet them."""

import pickle

import numpy as np
import pandas as pd
import pytest
import skops.io
import torch
from sklearn.base import clone
from sklearn.pipeline import make_pipeline, make_union
from sklearn.utils.estimator_checks import parametrize_with_checks

from skconvgp import SKOPS_TRUSTED_TYPES, ConvNetGPClassifier
from skconvgp.exceptions import NotFiniteError, TileMemoryError
from skconvgp.image_maps import Scattering
from skconvgp.kernels import convnet, rbf
from skconvgp.transforms import (
    ChannelScaler,
    ChannelWhitening,
    ContrastNormalization,
    Downsample,
    ScatteringTransform,
    ZCAWhitening,
)
from tests.helpers.estimators import digits

TRANSFORMERS = [
    ScatteringTransform(),
    ChannelScaler(),
    ChannelWhitening(),
    ZCAWhitening(),
    ContrastNormalization(),
    Downsample(),
]
TINY = np.finfo(np.float32).tiny
each = pytest.mark.parametrize("transformer", TRANSFORMERS, ids=repr)


@pytest.fixture
def images():
    return np.random.default_rng(0).random((9, 3, 8, 12))


@parametrize_with_checks(TRANSFORMERS)
def test_scikit_learn_accepts_every_transformer(estimator, check):
    check(estimator)


@each
def test_rows_and_images_are_the_same(transformer, images):
    whole = clone(transformer).fit(images)
    rows = images.reshape(9, -1)
    by_rows = clone(transformer).set_params(image_shape=(3, 8, 12)).fit(rows)
    expected = whole.transform(images)
    assert expected.shape == (9, *whole.output_shape_)
    np.testing.assert_array_equal(by_rows.transform(rows), expected)
    np.testing.assert_array_equal(whole.transform(rows), expected)
    np.testing.assert_array_equal(clone(transformer).fit_transform(images), expected)


@each
def test_results_do_not_depend_on_blocks(transformer, images, monkeypatch):
    expected = clone(transformer).fit_transform(images)
    monkeypatch.setattr("skconvgp.transforms._base.MOST_IMAGES", 2)
    monkeypatch.setattr("skconvgp.transforms._base.MOST_FITTED", 2)
    found = clone(transformer).fit_transform(images)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@each
@pytest.mark.parametrize("size", [1e-40, 1e-30, 1e-20, 1e20, 1e30])
def test_sizes_of_images_do_not_matter_in_single_precision(transformer, images, size):
    single = (images * size).astype(np.float32)
    found = clone(transformer).fit_transform(single)
    assert found.dtype == np.float32
    expected = clone(transformer).fit_transform(images)
    unit = size if isinstance(transformer, ScatteringTransform | Downsample) else 1.0
    digits_left = 2e-4 if size < TINY else 2e-5  # of numbers below the normal ones
    error = np.abs(found.astype(np.float64) / unit - expected).max()
    assert error < digits_left * np.abs(expected).max()


@each
def test_results_that_are_no_numbers_are_refused(transformer, images):
    single = images[:1].astype(np.float32)
    fitted = clone(transformer).fit(1e-10 * single)
    if isinstance(transformer, ChannelScaler | ChannelWhitening):
        with pytest.raises(NotFiniteError, match="not finite in float32"):
            fitted.transform(1e36 * single)
    else:
        assert np.isfinite(fitted.transform(1e36 * single)).all()


@each
def test_a_small_budget_is_refused(transformer, images):
    message = "`memory_budget` allows 1000: raise it"
    limited = clone(transformer).set_params(memory_budget=1000)
    with pytest.raises(TileMemoryError, match=message):
        limited.fit_transform(images)
    fitted = clone(transformer).fit(images).set_params(memory_budget=1000)
    with pytest.raises(TileMemoryError, match=message):
        fitted.transform(images)


@pytest.mark.parametrize("n", [8, 12])
def test_a_matrix_of_pixels_or_images_that_does_not_fit_is_refused(n, monkeypatch):
    """By the smaller of the numbers of images and of pixels, 9."""
    small = np.random.default_rng(0).random((n, 1, 3, 3))
    needed = 8 * (4 * min(n, 9) ** 2 + 9 * min(n, 9))
    free = "skconvgp.engine._devices.free_memory"
    monkeypatch.setattr(free, lambda device: needed)
    transformer = ZCAWhitening(memory_budget="1 MiB", device="cpu").fit(small)
    monkeypatch.setattr(free, lambda device: needed - 1)
    with pytest.raises(TileMemoryError, match=rf"{n} images needs {needed} bytes"):
        transformer.fit(small)


@each
def test_precision_is_that_of_the_images(transformer, images):
    fitted = clone(transformer).fit(images)
    single = fitted.transform(images.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, fitted.transform(images), rtol=0, atol=1e-4)


@each
def test_frames_hold_rows(transformer, images):
    frame = pd.DataFrame(images.reshape(9, -1)).rename(columns="pixel{}".format)
    fitted = clone(transformer).set_params(image_shape=(3, 8, 12))
    fitted.set_output(transform="pandas").fit(frame)
    found = fitted.transform(frame)
    assert found.shape == (9, np.prod(fitted.output_shape_))
    assert list(found.columns) == list(fitted.get_feature_names_out())
    plain = clone(transformer).fit_transform(images)
    np.testing.assert_allclose(found, plain.reshape(9, -1), rtol=0, atol=1e-10)


@each
def test_models_are_saved(transformer, images):
    fitted = clone(transformer).fit(images)
    loaded = skops.io.loads(skops.io.dumps(fitted), trusted=SKOPS_TRUSTED_TYPES)
    for copy in (loaded, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(copy.transform(images), fitted.transform(images))


@each
def test_other_images_than_in_fit_are_refused(transformer, images):
    fitted = clone(transformer).fit(images)
    with pytest.raises(ValueError, match=r"shape \(3, 12, 8\).*fitted on"):
        fitted.transform(images.swapaxes(2, 3))
    with pytest.raises(ValueError, match="single image"):
        fitted.transform(images[0])
    with pytest.raises(ValueError, match="NaN"):
        fitted.transform(np.full_like(images, np.nan))
    with pytest.raises(ValueError, match=r"np\.moveaxis"):
        clone(transformer).fit(np.ones((9, 24, 16, 4)))


@pytest.mark.parametrize(
    "transformer", [ChannelScaler(), ChannelWhitening(), ChannelWhitening(None)]
)
def test_images_come_back(transformer, images):
    moved = transformer.fit_transform(images)
    np.testing.assert_allclose(transformer.inverse_transform(moved), images, rtol=1e-9)
    rows = transformer.inverse_transform(moved.reshape(9, -1))
    np.testing.assert_allclose(rows, images, rtol=1e-9)
    with pytest.raises(ValueError, match=r"`transform` returns images of shape"):
        transformer.inverse_transform(moved[:, :2])


def test_scattering_is_that_of_its_map(images):
    found = ScatteringTransform(J=1, L=4, order=1).fit_transform(images)
    expected = Scattering(1, 4, 1)(torch.from_numpy(images)).numpy()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("output", ["default", "pandas"])
@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 7, 7)])
def test_next_steps_read_maps_of_a_single_position_as_such(shape, output):
    X = np.random.default_rng(0).random((9, *shape))
    steps = ScatteringTransform(), ChannelWhitening(), ChannelScaler()
    model = make_pipeline(*steps).set_output(transform=output).fit(X)
    maps = (81 * shape[0], 1, 1)
    assert [step.image_shape_ for _, step in model.steps] == [shape, maps, maps]
    sides = (9, *maps) if output == "default" else (9, maps[0])
    assert np.shape(model.transform(X)) == sides


def test_single_pixels_are_not_changed():
    X = np.random.default_rng(0).random((4, 5))
    np.testing.assert_array_equal(ScatteringTransform().fit_transform(X), X)


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (ScatteringTransform(J=4), r"8 x 12 pixels are smaller than 2\*\*J .* J=4"),
        (ScatteringTransform(J=0), "'J' parameter of ScatteringTransform"),
        (ScatteringTransform(L=1.5), "'L' parameter"),
        (ScatteringTransform(order=3), "'order' parameter .* must be 1 or 2"),
        (ChannelWhitening(offset=0.0), "'offset' parameter"),
        (ChannelWhitening(eps=-1.0), "'eps' parameter"),
        (ZCAWhitening(eps=np.inf), "'eps' parameter"),
        (ContrastNormalization(eps="1"), "'eps' parameter"),
        (Downsample(factor=0), "'factor' parameter"),
        (Downsample(device="gpu"), "'device' parameter"),
        (Downsample(memory_budget="much"), "'memory_budget' parameter"),
    ],
)
def test_wrong_settings_are_refused(transformer, message, images):
    with pytest.raises(ValueError, match=message):
        transformer.fit_transform(images)


def test_a_single_picture_in_colour_is_told_from_small_images():
    with pytest.raises(ValueError, match=r"pass np\.moveaxis\(X, -1, 0\)\[None\]"):
        ScatteringTransform().fit(np.ones((32, 32, 3)))


def test_a_pipeline_predicts_better_than_pixels():
    """What scattering is for: few images, and a kernel that compares positions."""
    X, y = digits(500)
    small = convnet(depth=2, kernel_size=3)
    whitened = make_pipeline(
        ScatteringTransform(J=1), ChannelWhitening(), ConvNetGPClassifier(small)
    )
    plain = ConvNetGPClassifier(small).fit(X[:100], y[:100])
    scores = [
        model.fit(X[:100], y[:100]).score(X[100:], y[100:])
        for model in (whitened, plain)
    ]
    assert scores[0] > scores[1]


def test_images_are_read_from_the_names_of_columns():
    """9 channels of 9 x 9 are a square number of values, and no grey image."""
    X = np.random.default_rng(0).random((12, 36, 36))
    y = np.arange(12) % 2

    def chain():
        small = ConvNetGPClassifier(convnet(depth=1, kernel_size=3), noise_variance=0.1)
        return make_pipeline(ScatteringTransform(L=2), ChannelWhitening(), small)

    framed = chain().set_output(transform="pandas").fit(X, y)
    assert framed[1].image_shape_ == framed[2].image_shape_ == (9, 9, 9)
    assert framed[2].feature_names_in_[-1] == "scatteringtransform_9x9x9_728"
    plain = chain().fit(X, y)
    np.testing.assert_allclose(framed.predict_proba(X), plain.predict_proba(X))


def test_a_setting_goes_before_the_names_of_columns():
    X, y = digits(30)
    frame = Downsample(2).set_output(transform="pandas").fit_transform(X)
    rows = frame.to_numpy()
    kernel = convnet(1, 3)
    shape = (4, 2, 2)
    named = ConvNetGPClassifier(kernel, image_shape=shape).fit(frame, y)
    plain = ConvNetGPClassifier(kernel, image_shape=shape).fit(rows, y)
    assert named.image_shape_ == plain.image_shape_ == shape
    np.testing.assert_array_equal(named.predict_proba(frame), plain.predict_proba(rows))


def test_a_shape_from_names_of_columns_is_a_plain_tuple():
    X, y = digits(30)
    frame = Downsample(2).set_output(transform="pandas").fit_transform(X)
    gp = ConvNetGPClassifier(convnet(1, 3)).fit(frame, y)
    assert type(gp.image_shape_) is tuple
    assert gp.image_shape_ == (1, 4, 4)
    assert not set(skops.io.get_untrusted_types(data=skops.io.dumps(gp))) - set(
        SKOPS_TRUSTED_TYPES
    )


def test_names_of_far_more_values_than_there_are_columns():
    frame = pd.DataFrame(np.eye(12, 2), columns=["video_9999x9999x9999_0", "b"])
    gp = ConvNetGPClassifier(rbf(1.0)).fit(frame, np.arange(12) % 2)
    assert gp.image_shape_ == (2, 1, 1)


@each
def test_names_of_columns_tell_the_shape(transformer, images):
    fitted = clone(transformer).set_output(transform="pandas").fit(images)
    frame = fitted.transform(images)
    again = ChannelScaler().fit(frame)
    assert again.image_shape_ == fitted.output_shape_
    assert list(again.get_feature_names_out()) == list(frame.columns)
    # Columns that are missing or mixed are no image; neither is what a user names.
    for other in (frame.iloc[:, :-1], frame.iloc[:, ::-1]):
        assert ChannelScaler().fit(other).image_shape_[1:] == (1, 1)
    rows = ChannelScaler(image_shape=None).fit(frame)
    assert rows.image_shape_ == (frame.shape[1], 1, 1)


def test_images_beside_each_other_are_one_image(images):
    both = make_union(Downsample(), ScatteringTransform(J=1, L=2))
    frame = both.set_output(transform="pandas").fit_transform(images)
    assert ChannelScaler().fit(frame).image_shape_ == (3 + 9, 4, 6)
    both = make_union(Downsample(3), ScatteringTransform(J=1, L=2))
    frame = both.set_output(transform="pandas").fit_transform(images)
    assert ChannelScaler().fit(frame).image_shape_[1:] == (1, 1)


@each
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"device": "foo"}, "'device' parameter"),
        ({"device": "cuda:99"}, "not on this machine"),
        ({"memory_budget": -1}, "'memory_budget' parameter"),
    ],
)
def test_fit_refuses_devices_and_budgets(transformer, setting, message, images):
    with pytest.raises(ValueError, match=message):
        clone(transformer).set_params(**setting).fit(images)


def test_images_come_back_from_a_data_frame(images):
    scaler = ChannelScaler().set_output(transform="pandas").fit(images)
    back = scaler.inverse_transform(scaler.transform(images))
    np.testing.assert_allclose(back, images)
