"""Lists of pictures of Pillow, of every mode, in every public class."""

import numpy as np
import pandas as pd
import pytest

from skconvgp import ConvNetGPClassifier, gram_gradient, gram_matrix, gram_vjp
from skconvgp.kernels import rbf
from tests.helpers.estimators import tiny_network
from tests.helpers.public import CLASSES

Image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
    "ignore::skconvgp.exceptions.ScaleWarning",
    "ignore:KernelFlowsWarp has moved nothing:UserWarning",
)
every_class = pytest.mark.parametrize(
    "case", CLASSES, ids=lambda case: type(case.estimator).__name__
)
COLOURED = np.random.default_rng(0).integers(0, 256, (24, 8, 9, 3), dtype=np.uint8)
GREY = COLOURED[..., 0]
NETWORK = tiny_network()


def coloured(n=24):
    return [Image.fromarray(pixels) for pixels in COLOURED[:n]]


def grey(n=24):
    return [Image.fromarray(pixels) for pixels in GREY[:n]]


def first_result(fitted, X):
    names = ("predict_proba", "predict", "transform")
    name = next(one for one in names if hasattr(fitted, one))
    return np.asarray(getattr(fitted, name)(X))


@every_class
def test_pictures_are_read_as_images_with_channels_first(case):
    _, y, _ = case.data()
    images = np.moveaxis(COLOURED, -1, 1)
    fitted = case.new().fit(coloured(), y)
    expected = case.new().fit(images, y)
    np.testing.assert_array_equal(
        first_result(fitted, coloured(5)), first_result(expected, images[:5])
    )


def gram_of(pictures):
    return gram_matrix(NETWORK, pictures)


@pytest.mark.parametrize(
    "hold",
    [list, tuple, pd.Series, lambda X: pd.Series(X).to_numpy()],
    ids=["list", "tuple", "column", "array"],
)
def test_they_are_held_by_sequences(hold):
    np.testing.assert_array_equal(gram_of(hold(grey(4))), gram_of(GREY[:4]))


def test_derivatives_have_the_shape_of_images():
    images = np.moveaxis(COLOURED[:4], -1, 1)
    for one, other in zip(
        gram_gradient(NETWORK, coloured(4)), gram_gradient(NETWORK, images), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    gp = ConvNetGPClassifier(NETWORK).fit(images, [0, 1, 0, 1])
    assert gp.latent_gradient(coloured(4)).shape == (4, 2, 3, 8, 9)
    _, by_images = gram_vjp(NETWORK, coloured(4), coloured(4), np.eye(4))
    assert by_images.shape == (4, 3, 8, 9)


def with_opacity(picture, mode):
    """Return a picture in a mode that tells opacity, which differs by pixel."""
    opaque = picture.convert(mode)
    opaque.putalpha(Image.fromarray(GREY[-1]))
    return opaque


def palette(picture):
    """Return a picture with a palette of which a colour is transparent."""
    found = picture.convert("P")
    found.info["transparency"] = bytes([0, 128])
    return found


COLOURS = {
    "RGBA": lambda one: with_opacity(one, "RGBA"),
    "RGBX": lambda one: one.convert("RGBX"),
    "CMYK": lambda one: one.convert("CMYK"),
}
GREYS = {
    "LA": lambda one: with_opacity(one, "LA"),
    "I": lambda one: one.convert("I"),
    "F": lambda one: one.convert("F"),
}


@pytest.mark.parametrize("mode", COLOURS)
def test_colours_are_red_green_and_blue(mode):
    found = gram_of([COLOURS[mode](one) for one in coloured(4)])
    np.testing.assert_array_equal(found, gram_of(coloured(4)))


@pytest.mark.parametrize("mode", GREYS)
def test_grey_pictures_have_one_channel(mode):
    found = gram_of([GREYS[mode](one) for one in grey(4)])
    np.testing.assert_array_equal(found, gram_of(grey(4)))


@pytest.mark.parametrize("make", [palette, lambda one: with_opacity(one, "PA")])
def test_palettes_become_colours(make):
    pictures = [make(one.convert("P")) for one in coloured(4)]
    expected = [one.convert("P").convert("RGB") for one in coloured(4)]
    np.testing.assert_array_equal(gram_of(pictures), gram_of(expected))


@pytest.mark.parametrize("mode", ["La", "RGBa", "YCbCr", "HSV", "PA", "LAB"])
def test_other_modes_become_pixels_up_to_255(mode):
    start = with_opacity(grey(1)[0], "LA") if mode == "La" else coloured(1)[0]
    start = start.convert("RGBA") if mode == "RGBa" else start
    pictures = [start.convert(mode), Image.new(mode, (9, 8))]
    found = ConvNetGPClassifier(rbf()).fit(pictures, [0, 1])
    assert found.image_shape_ == ((1 if mode == "La" else 3), 8, 9)
    assert 0.0 <= found.X_train_.min() < found.X_train_.max() <= 255.0


def test_black_and_white_is_grey():
    white = Image.new("1", (9, 8), 1)
    gp = ConvNetGPClassifier(rbf()).fit([white, Image.new("1", (9, 8))], [0, 1])
    assert gp.image_shape_ == (1, 8, 9)
    assert gp.X_train_.max(axis=1).tolist() == [255.0, 0.0]


@pytest.mark.parametrize("mode", ["I;16", "I;16B", "I;16L"])
def test_sixteen_bits_stay(mode):
    pixels = GREY[:2].astype(np.uint16) * 200
    order = ">u2" if mode == "I;16B" else "<u2"
    pictures = [
        Image.frombytes(mode, (9, 8), one.astype(order).tobytes()) for one in pixels
    ]
    np.testing.assert_array_equal(gram_of(pictures), gram_of(pixels.astype(float)))


def test_pictures_that_become_alike_are_read_together():
    first, second = coloured(2)
    np.testing.assert_array_equal(
        gram_of([first, with_opacity(second, "RGBA")]), gram_of([first, second])
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: one.resize((7, 8)), r"X\[2\] has 7 x 8 pixels and mode 'RGB'"),
        (lambda one: one.convert("L"), r"X\[2\] has 9 x 8 pixels and mode 'L'"),
        (lambda one: one.convert("F"), r"X\[2\] has 9 x 8 pixels and mode 'F'"),
    ],
)
@every_class
def test_pictures_of_several_sizes_or_modes_are_refused(case, change, told):
    _, y, _ = case.data()
    pictures = coloured()
    pictures[2] = change(pictures[2])
    message = rf"X\[0\] has 9 x 8 pixels and mode 'RGB', {told}.*by ReadImages"
    with pytest.raises(ValueError, match=message):
        case.new().fit(pictures, y)


def test_grey_numbers_and_bytes_are_of_several_modes():
    with pytest.raises(ValueError, match=r"mode 'L', .* mode 'F'"):
        gram_of([grey(1)[0], grey(1)[0].convert("F")])


def test_what_is_no_list_of_pictures_is_refused():
    gp = ConvNetGPClassifier(NETWORK)
    with pytest.raises(ValueError, match=r"single picture: pass \[X\]"):
        gp.fit(coloured(1)[0], [0])
    with pytest.raises(ValueError, match=r"X\[1\] is ndarray: pass pictures alone"):
        gp.fit([coloured(1)[0], COLOURED[1]], [0, 1])
    table = pd.DataFrame({"image": coloured(2)})
    for X in (table, table.to_numpy()):
        with pytest.raises(ValueError, match=r"pictures in its cells.*list\(X\['image"):
            gp.fit(X, [0, 1])
    assert gp.fit(list(table["image"]), [0, 1]).image_shape_ == (3, 8, 9)


def test_a_picture_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "one.png"
    coloured(1)[0].save(path)
    with Image.open(path) as closed:
        pass
    (tmp_path / "two.png").write_bytes(path.read_bytes()[:120])
    message = r"X\[1\], a picture of mode 'RGB', cannot be read .*open it again"
    with Image.open(tmp_path / "two.png") as damaged:
        for wrong in (closed, damaged):
            with pytest.raises(ValueError, match=message):
                gram_of([coloured(1)[0], wrong])


def test_a_fit_to_pictures_refuses_pictures_of_another_mode():
    gp = ConvNetGPClassifier(NETWORK).fit(coloured(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"\(1, 8, 9\) .*\(3, 8, 9\)"):
        gp.predict(grey(2))
