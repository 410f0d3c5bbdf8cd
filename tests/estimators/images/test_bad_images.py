"""Images that estimators and transformers cannot take: what the error says."""

import numpy as np
import pytest
from sklearn.base import clone

from skconvgp import ImageClassifier, ImageRegressor
from skconvgp.exceptions import ImageShapeWarning, TileMemoryError
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Flatten,
    PatchKernel,
    Sequential,
    convnet,
    rbf,
)
from skconvgp.transforms import (
    ChannelScaler,
    ChannelWhitening,
    ContrastNormalization,
    Downsample,
    ScatteringTransform,
    ZCAWhitening,
)

ESTIMATORS = [ImageClassifier([rbf()]), ImageRegressor([rbf()])]
TRANSFORMERS = [
    ScatteringTransform(J=1),
    ChannelScaler(),
    ChannelWhitening(),
    ZCAWhitening(),
    ContrastNormalization(),
    Downsample(),
]
both = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
every = pytest.mark.parametrize("estimator", ESTIMATORS + TRANSFORMERS, ids=repr)
N = 12
Y = np.arange(N) % 2


class Picture:
    """A picture as imaging packages have it: an array, if one is asked for."""

    def __init__(self, *shape):
        self.pixels = np.zeros(shape)

    def __array__(self, dtype=None, copy=None):
        return self.pixels


def random_images(*shape):
    return np.random.default_rng(0).random((N, *shape))


@every
@pytest.mark.parametrize("cls", [np.zeros, lambda shape: Picture(*shape)])
def test_images_of_different_sizes_are_named(estimator, cls):
    images = [cls((8, 8)) for _ in range(N)]
    images[7] = cls((9, 8))
    expected = r"\(X\[0\] has shape \(8, 8\), X\[7\] has shape \(9, 8\)\)"
    with pytest.raises(ValueError, match=expected):
        clone(estimator).fit(images, Y)


@every
def test_an_array_of_images_of_different_sizes_is_read_as_a_list(estimator):
    images = np.empty(N, dtype=object)
    images[:] = [np.zeros((8, 8 + k)) for k in range(N)]
    with pytest.raises(ValueError, match=r"X\[1\] has shape \(8, 9\)"):
        clone(estimator).fit(images, Y)


@every
def test_channels_in_the_last_axis(estimator):
    images = random_images(6, 5, 3)
    with pytest.raises(ValueError, match=r"np\.moveaxis\(X, -1, 1\)"):
        clone(estimator).fit(images, Y)
    fitted = clone(estimator).fit(np.moveaxis(images, -1, 1), Y)
    method = fitted.predict if hasattr(fitted, "predict") else fitted.transform
    with pytest.raises(ValueError, match=r"pass np\.moveaxis\(X, -1, 1\)"):
        method(images)


@both
def test_images_of_a_few_pixels_have_the_usual_parts(estimator):
    """They are smaller than scattering needs, which the usual sum then leaves out."""
    for shape in [(1, 2), (2, 2), (3, 5)]:
        images = random_images(1, *shape)
        gp = clone(estimator).set_params(parts="auto", random_state=0)
        gp.fit(images, Y)
        assert len(gp.fit_report_.part_weights) == 3
        assert not [view for view, _ in gp.parts_ if view is not None]
        assert np.isfinite(gp.predict(images)).all()


@both
def test_a_part_that_needs_larger_images_is_refused(estimator):
    images = random_images(1, 5, 6)
    window = Sequential(Conv2d(4, padding="valid"), Flatten(), Dense())
    for parts, message in [
        ([(ScatteringTransform(J=3), rbf())], r"5 x 6 .* 2\*\*J .*lower J=3 to 2"),
        (
            [PatchKernel(patch_size=6, location_lengthscale=None)],
            "`patch_size`=6 is larger than images of 5x6",
        ),
        ([(Downsample(2), window)], r"layer0.*`kernel_size`"),
    ]:
        with pytest.raises(ValueError, match=message):
            clone(estimator).set_params(parts=parts).fit(images, Y)


@both
def test_vectors_are_sent_to_the_estimator_that_wants_them(estimator):
    kind = type(estimator).__name__.removeprefix("Image")
    wanted = f"ConvNetGP{kind}(rbf())"
    vectors = random_images(10)
    gp = clone(estimator).set_params(parts="auto", flips=True)
    with pytest.warns(ImageShapeWarning, match="only part is rbf") as warned:
        gp.fit(vectors, Y)
    assert wanted in str(warned[0].message)
    assert wanted in gp.fit_report_.parts_reason
    assert not gp.fit_report_.is_mirrored
    gp = clone(estimator).set_params(parts=[convnet(1, 3), rbf()])
    with pytest.warns(ImageShapeWarning, match="sees a single pixel") as warned:
        gp.fit(vectors, Y)
    assert wanted in str(warned[0].message)
    for kernel in (
        PatchKernel(patch_size=3, location_lengthscale=None),
        Sequential(Conv2d(3, padding="valid"), Flatten(), Dense()),
    ):
        with pytest.raises(ValueError, match="read as a vector") as caught:
            clone(estimator).set_params(parts=[kernel]).fit(vectors, Y)
        assert wanted in str(caught.value)


def test_a_channel_more_is_not_taken_for_the_last_axis():
    gp = ImageClassifier([rbf()]).fit(random_images(3, 4, 4), Y)
    with pytest.raises(ValueError, match=r"\(1, 4, 4\).*\(3, 4, 4\)\.$"):
        gp.predict(random_images(4, 4))


@pytest.mark.parametrize(
    ("shape", "n_scales", "message"),
    [
        (
            (32, 32, 3),
            2,
            r"32 x 3 pixels .*\(32, 32, 3\) .*pass np\.moveaxis\(X, -1, 1",
        ),
        ((1, 10), 1, r"1 x 10 pixels .*: no J fits, .* 2 x 2 pixels or more\.$"),
        ((7, 10), 3, r"7 x 10 pixels are smaller than 2\*\*J .*lower J=3 to 2 or"),
    ],
)
def test_images_that_are_too_small_to_scatter(shape, n_scales, message):
    scattering = ScatteringTransform(J=n_scales, image_shape=shape)
    with pytest.raises(ValueError, match=message):
        scattering.fit(np.zeros((2, *shape)))


@both
def test_a_budget_for_no_image_is_to_be_raised(estimator):
    gp = clone(estimator).set_params(parts="auto", memory_budget="1 KiB")
    with pytest.raises(TileMemoryError, match=r"raise `memory_budget`.* a PatchKernel"):
        gp.fit(random_images(6, 6), Y)


@both
def test_opacity_is_no_colour(estimator):
    images = random_images(4, 5, 6)
    gp = clone(estimator).set_params(parts="auto", flips=False)
    with pytest.warns(ImageShapeWarning, match=r"alpha\), drop it: X\[:, :3\]"):
        gp.fit(images, Y)
    gp.fit(images[:, :3], Y)
    for parts in ("patches", [rbf()]):  # asked for by name
        gp.set_params(parts=parts).fit(images, Y)


@both
def test_a_single_column_has_no_mirror_image(estimator):
    images = random_images(1, 6, 1)
    gp = clone(estimator).set_params(flips=True).fit(images, Y)
    assert not gp.fit_report_.is_mirrored
