"""Files of pictures of every mode, read as images."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from skconvgp import SKOPS_TRUSTED_TYPES, ConvNetGPClassifier
from skconvgp.kernels import rbf
from skconvgp.transforms import Downsample, ReadImages

Image = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(0)
COLOURED = RNG.integers(0, 256, (6, 8, 2 * 4, 3), dtype=np.uint8)
GREY = COLOURED[..., 0]
LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R 601
HALF_LEVEL = 0.5 / 255


# Most checks fit to numbers, and are left out by the tags.
@pytest.mark.filterwarnings("ignore:Can't test estimator ReadImages")
def test_scikit_learn_accepts_it():
    check_estimator(ReadImages())


@pytest.fixture
def save(tmp_path):
    """Return a function that writes a picture to a file, and returns its path."""

    def write(picture, name="one.png", **options):
        picture.save(tmp_path / name, **options)
        return tmp_path / name

    return write


def read(*paths, size=8, **settings):
    """Return the images of files."""
    return ReadImages(size, **settings).fit_transform(list(paths))


def grey(i=0):
    return Image.fromarray(GREY[i])


def coloured(i=0):
    return Image.fromarray(COLOURED[i])


def channels_first(pixels):
    return np.moveaxis(pixels, -1, -3) / np.float32(255)


def test_pixels_of_the_wanted_size_are_not_changed(save):
    one, two = save(coloured(0), "one.png"), save(coloured(1), "two.bmp")
    found = read(one, two)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, channels_first(COLOURED[:2]))
    np.testing.assert_array_equal(read(save(grey()))[0, 0], GREY[0] / np.float32(255))


@pytest.mark.parametrize(
    "hold",
    [
        list,
        tuple,
        np.array,
        pd.Series,
        lambda X: [str(one) for one in X],
        lambda X: np.array([str(one) for one in X]),
    ],
    ids=["list", "tuple", "array", "column", "texts", "array of texts"],
)
def test_paths_are_held_by_sequences(save, hold):
    paths = [save(grey(i), f"{i}.png") for i in range(3)]
    found = ReadImages(8).fit(hold(paths)).transform(hold(paths))
    np.testing.assert_array_equal(found, read(*paths))


def opacity(n=8):
    """Return a picture of opacity: none in the left half, half of it in the right."""
    levels = np.zeros((n, n), np.uint8)
    levels[:, n // 2 :] = 128
    return Image.fromarray(levels)


def over(pixels, background):
    """Return levels (h, w) or (h, w, 3) on a background, by `opacity`."""
    share = np.asarray(opacity()) / 255
    share = share if pixels.ndim == 2 else share[..., None]
    return share * pixels / 255 + (1 - share) * background


def with_opacity(picture):
    picture.putalpha(opacity())
    return picture


@pytest.mark.parametrize("background", [1.0, 0.0, 0.25])
@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_what_is_not_opaque_lies_over_a_background(save, mode, background):
    whole, pixels = (grey(), GREY[0]) if mode == "LA" else (coloured(), COLOURED[0])
    path = save(with_opacity(whole))
    found = read(path, background=background)[0]
    expected = np.atleast_3d(over(pixels, background)).transpose(2, 0, 1)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 3 * HALF_LEVEL
    np.testing.assert_array_equal(
        found[..., :4], np.float32(round(255 * background) / 255)
    )


def test_a_colour_or_a_level_may_stand_for_no_opacity(save):
    black = Image.fromarray(np.where(GREY[0] > 127, 0, GREY[0] + 1))
    path = save(black, transparency=0)
    is_clear = np.asarray(black) == 0
    assert (read(path)[0, 0] == 1.0).tolist() == is_clear.tolist()
    picture = coloured()
    clear = tuple(map(int, COLOURED[0, 2, 3]))
    found = read(save(picture, "two.png", transparency=clear), background=0.0)
    assert found[0, :, 2, 3].tolist() == [0.0, 0.0, 0.0]
    deep = Image.fromarray(np.where(GREY[0] > 127, 500, 400).astype(np.uint16))
    found = read(save(deep, "deep.png", transparency=500))[0, 0]
    levels = np.where(GREY[0] > 127, 1.0, 400 / 65535).astype(np.float32)
    np.testing.assert_array_equal(found, levels)


@pytest.mark.parametrize("is_clear", [False, True])
def test_palettes_become_colours(save, is_clear):
    palette = coloured().convert("P", palette=Image.Palette.ADAPTIVE)
    expected = np.asarray(palette.convert("RGB"))
    options = {"transparency": bytes(256)} if is_clear else {}
    found = read(save(palette, **options))[0]
    wanted = np.ones_like(found) if is_clear else channels_first(expected)
    np.testing.assert_array_equal(found, wanted)


def test_black_and_white_is_grey(save):
    bits = Image.fromarray(GREY[0] > 127)
    assert bits.mode == "1"
    np.testing.assert_array_equal(read(save(bits))[0, 0], GREY[0] > 127)


def test_cmyk_becomes_red_green_and_blue(save):
    found = read(save(coloured().convert("CMYK"), "one.tif"))[0]
    np.testing.assert_array_equal(found, channels_first(COLOURED[0]))


def test_lab_becomes_red_green_and_blue_and_then_grey(save):
    path = save(Image.new("LAB", (8, 8), (255, 128, 128)), "one.tif")
    assert (read(path) > 0.99).all()
    assert (read(path, mode="L") > 0.99).all()


@pytest.mark.parametrize("name", ["one.png", "one.tif", "one.pgm"])
def test_sixteen_bits_are_levels_of_65535(save, name):
    levels = RNG.integers(0, 2**16, (8, 8), dtype=np.uint16)
    levels[0, :2] = 0, 65535
    found = read(save(Image.fromarray(levels), name))[0, 0]
    np.testing.assert_array_equal(found, levels / np.float32(65535))
    assert found.max() == 1.0


def test_integers_of_another_byte_order_are_read(save):
    levels = RNG.integers(0, 2**16, (8, 8), dtype=np.uint16)
    big = Image.frombytes("I;16B", (8, 8), levels.astype(">u2").tobytes())
    found = read(save(big, "one.tif"))[0, 0]
    np.testing.assert_array_equal(found, levels / np.float32(65535))


def test_larger_integers_and_floats_are_not_clipped(save):
    whole = np.arange(64, dtype=np.int32).reshape(8, 8) * 65535
    found = read(save(Image.fromarray(whole), "one.tif"))[0, 0]
    np.testing.assert_array_equal(found, np.arange(64).reshape(8, 8))
    floats = RNG.normal(size=(8, 8)).astype(np.float32)
    found = read(save(Image.fromarray(floats), "two.tif"))[0, 0]
    np.testing.assert_array_equal(found, floats)


def test_colours_become_grey_and_grey_becomes_colours(save):
    found = read(save(coloured()), mode="L")[0, 0]
    assert np.abs(found - COLOURED[0] @ LUMA / 255).max() < 1.01 * HALF_LEVEL
    deep = Image.fromarray(RNG.integers(0, 2**16, (8, 8), dtype=np.uint16))
    for path in (save(grey()), save(deep, "two.png"), save(grey(1).convert("1"))):
        channels = read(path, mode="RGB")[0]
        assert channels.shape == (3, 8, 8)
        for channel in channels:
            np.testing.assert_array_equal(channel, read(path)[0, 0])


def test_the_mode_is_chosen_by_the_files_of_fit(save):
    in_grey = [save(grey(), "one.png"), save(with_opacity(grey()), "two.png")]
    in_colour = save(coloured(), "three.png")
    of_grey, of_both = (
        ReadImages(8).fit(in_grey),
        ReadImages(8).fit([*in_grey, in_colour]),
    )
    assert (of_grey.mode_, of_both.mode_) == ("L", "RGB")
    assert (of_grey.output_shape_, of_both.output_shape_) == ((1, 8, 8), (3, 8, 8))
    assert of_grey.transform([in_colour]).shape == (1, 1, 8, 8)
    assert of_both.transform(in_grey).shape == (2, 3, 8, 8)
    fixed = ReadImages(8, mode="L").fit([in_colour])
    np.testing.assert_array_equal(
        fixed.transform([in_colour]), of_grey.transform([in_colour])
    )
    of_grey.set_params(size=4, mode="RGB")  # for the next fit
    assert of_grey.transform(in_grey).shape == (2, 1, 8, 8)


TURNS = {
    1: lambda pixels: pixels,
    2: lambda pixels: pixels[:, ::-1],
    3: lambda pixels: pixels[::-1, ::-1],
    4: lambda pixels: pixels[::-1],
    5: lambda pixels: pixels.transpose(1, 0, 2),
    6: lambda pixels: np.rot90(pixels, -1),
    7: lambda pixels: np.rot90(pixels, 2).transpose(1, 0, 2),
    8: np.rot90,
}


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", ["one.png", "one.jpg"])
def test_what_a_camera_has_turned_is_upright(save, name, turn):
    pixels = np.repeat(COLOURED[0, :6], 16, axis=0).repeat(16, axis=1)  # 96 x 128
    exif = Image.Exif()
    exif[0x0112] = turn
    as_seen = TURNS[turn](pixels)
    turned = save(Image.fromarray(pixels), name, exif=exif)
    upright = save(Image.fromarray(np.ascontiguousarray(as_seen)), "upright.png")
    found, expected = (read(path, size=as_seen.shape[:2]) for path in (turned, upright))
    if name.endswith("png"):
        np.testing.assert_array_equal(found, expected)
    else:
        assert (
            np.abs(found - expected).mean()
            < 0.05
            < np.abs(found[..., ::-1] - expected).mean()
        )


@pytest.mark.parametrize("name", ["one.gif", "one.png", "one.tif"])
def test_the_first_of_several_pictures_is_read(save, name):
    frames = [grey(i) for i in range(3)]
    path = save(frames[0], name, save_all=True, append_images=frames[1:])
    with Image.open(path) as file:
        assert file.n_frames == 3
    np.testing.assert_array_equal(
        read(path, mode="L"), GREY[:1, None] / np.float32(255)
    )


def triangle(n_old, n_new, start=0.0, stop=None):
    """Return the matrix (n_new, n_old) of averages with a triangle."""
    stop = n_old if stop is None else stop
    scale = (stop - start) / n_new
    centres = start + (np.arange(n_new) + 0.5) * scale
    gaps = np.abs(np.arange(n_old) + 0.5 - centres[:, None]) / max(scale, 1.0)
    weights = np.clip(1.0 - gaps, 0.0, None)
    return weights / weights.sum(1, keepdims=True)


def wide(n=64, height=48):
    return RNG.integers(0, 256, (height, n), dtype=np.uint8)


@pytest.mark.parametrize("size", [(12, 10), (48, 64), (100, 90)])
def test_stretching_averages_with_a_triangle(save, size):
    pixels = wide()
    expected = triangle(48, size[0]) @ pixels @ triangle(64, size[1]).T / 255
    found = read(save(Image.fromarray(pixels)), size=size, resize="stretch")[0, 0]
    assert np.abs(found - expected).max() < 3 * HALF_LEVEL
    floats = Image.fromarray((pixels / 255).astype(np.float32))
    found = read(save(floats, "one.tif"), size=size, resize="stretch")[0, 0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [(12, 10), (30, 90)])
def test_cropping_keeps_the_middle(save, size):
    pixels = wide()
    ratio = min(48 / size[0], 64 / size[1])
    rows = triangle(48, size[0], 24 - ratio * size[0] / 2, 24 + ratio * size[0] / 2)
    columns = triangle(64, size[1], 32 - ratio * size[1] / 2, 32 + ratio * size[1] / 2)
    path = save(Image.fromarray((pixels / 255).astype(np.float32)), "one.tif")
    found = read(path, size=size, resize="crop")[0, 0]
    np.testing.assert_allclose(found, rows @ pixels @ columns.T / 255, atol=1e-5)


@pytest.mark.parametrize("padding", [0.0, 0.5])
@pytest.mark.parametrize(
    ("shape", "inside"),
    [
        ((16, 32), np.s_[2:6, :]),
        ((4, 2), np.s_[:, 2:6]),
        ((8, 8), np.s_[:, :]),
        ((1, 1000), np.s_[3:4, :]),
    ],
)
def test_padding_keeps_proportions(save, shape, inside, padding):
    white = Image.new("L", shape[::-1], 255)
    expected = np.full((8, 8), padding, np.float32)
    expected[inside] = 1.0
    np.testing.assert_array_equal(read(save(white), padding=padding)[0, 0], expected)


@pytest.mark.parametrize("resize", ["pad", "crop", "stretch"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (500, 1), (7, 333), (333, 7)])
def test_pictures_of_any_shape_are_read(save, resize, shape):
    picture = Image.new("RGB", shape, "white")
    for size in (1, 3, (5, 17), (64, 2)):
        found = read(save(picture), size=size, resize=resize, padding=1.0)
        assert found.shape[2:] == (size if isinstance(size, tuple) else (size, size))
        assert (found == 1.0).all()


def test_large_photographs_are_decoded_at_a_part_of_their_size(save, monkeypatch):
    smooth = Image.fromarray(COLOURED[0]).resize((1600, 1200), Image.Resampling.BICUBIC)
    path = save(smooth, "one.jpg", quality=95)
    sizes = []
    with Image.open(path) as opened:
        plugin = type(opened)
    load = plugin.load

    def noted(self):
        sizes.append(self.size)
        return load(self)

    monkeypatch.setattr(plugin, "load", noted)
    found = read(path, resize="stretch", size=(30, 40))
    assert sizes[-1] == (400, 300)
    monkeypatch.setattr(plugin, "draft", lambda self, *_: None)
    expected = read(path, resize="stretch", size=(30, 40))
    assert sizes[-1] == (1600, 1200)
    assert np.abs(found - expected).max() <= 2 * 2 * HALF_LEVEL
    assert np.abs(found - expected).mean() < HALF_LEVEL


def damaged(save, tmp_path):
    """Return paths that cannot be read, each with what is told of it."""
    whole = save(coloured().resize((90, 80)), "whole.png").read_bytes()
    files = {
        "cut.png": (whole[: len(whole) // 2], ".*"),
        "empty.png": (b"", "no picture of a kind that Pillow reads"),
        "notes.txt": (b"nothing", "no picture of a kind that Pillow reads"),
    }
    told = {}
    for name, (content, why) in files.items():
        (tmp_path / name).write_bytes(content)
        told[tmp_path / name] = why
    # Ghostscript would run it.
    told[save(coloured(), "page.eps")] = "no picture of a kind that Pillow reads"
    (tmp_path / "folder").mkdir()
    told[tmp_path / "folder"] = "directory|denied"
    told[tmp_path / "missing.png"] = "No such file"
    nan = np.full((8, 8), np.nan, np.float32)
    told[save(Image.fromarray(nan), "nan.tif")] = "not finite"
    return told


def assert_all_are_named(call, told):
    with pytest.raises(ValueError, match="cannot be read as pictures: repair") as found:
        call()
    for path, why in told.items():
        assert found.match(rf"'{path}' \([^)]*({why})[^)]*\)")
    return str(found.value)


def test_all_files_that_cannot_be_read_are_named(save, tmp_path):
    good, told = save(coloured()), damaged(save, tmp_path)
    bad = [good, *told]
    message = assert_all_are_named(
        lambda: ReadImages(8).fit([good]).transform(bad), told
    )
    assert message.startswith(f"{len(told)} of {len(bad)} files")
    assert "one.png" not in message
    del told[tmp_path / "nan.tif"]  # its pixels are what is wrong
    for settings in ({}, {"mode": "L"}):
        assert_all_are_named(lambda s=settings: ReadImages(8, **s).fit(bad), told)


def test_a_fit_that_fails_changes_nothing(save, tmp_path):
    fitted = ReadImages(8).fit([save(grey())])
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match=r"1 of 1 .*gone\.png"):
        fitted.fit([tmp_path / "gone.png"])
    assert vars(fitted) == before


def test_very_many_files_are_not_all_named(tmp_path):
    paths = [tmp_path / f"{i}.png" for i in range(130)]
    with pytest.raises(ValueError, match=r"^130 of 130 .*'.*/99\.png.*and 30 more\.$"):
        ReadImages().fit(paths)


def test_pictures_of_too_many_pixels_are_named(save, monkeypatch):
    path = save(grey())
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
    with pytest.raises(ValueError, match=r"one\.png' \(Image size .* exceeds limit"):
        read(path)


def test_other_samples_than_paths_are_refused(save):
    path = save(grey())
    table = pd.DataFrame({"file": [path, path]})
    wrong = {
        r"single path: pass \[": path,
        r"single picture: pass \[X\]": grey(),
        r"shape \(2, 8, 8\): .*and of an array of images list\(X\)": GREY[:2],
        r"shape \(2, 1\).*pass the column": table,
        r"shape \(2, 1\): ": table.to_numpy(),
        "of Pillow, or of arrays, got generator": (one for one in [path]),
        "holds no pictures": [],
        r"X\[1\] is float": [path, float("nan")],
        r"X\[1\] is an array uint8 of shape \(3, 8, 8\): .*\(h, w, 3\)": [
            COLOURED[0],
            np.moveaxis(COLOURED[0], -1, 0),
        ],
        r"X\[0\] is an array float64 of shape \(8, 8, 3\)": [COLOURED[0] / 255.0],
        r"X\[0\] is an array int64 of shape \(8, 8\)": [GREY[0].astype(np.int64)],
        r"X\[0\] is an array uint8 of shape \(0, 8\)": [GREY[0, :0]],
        r"1 of 2 files and arrays .*X\[1\] \(it has pixels that are not finite\)": [
            path,
            np.full((8, 8), np.nan),
        ],
    }
    fitted = ReadImages().fit([path])
    for told, X in wrong.items():
        with pytest.raises(ValueError, match=told):
            fitted.transform(X)
    with pytest.raises(ValueError, match=r"X\[0\] is list"):
        ReadImages().fit([GREY[0].tolist()])


def test_pictures_in_memory_are_read_as_files_are(save):
    pictures = [coloured(0), grey(1), with_opacity(coloured(2)), coloured(3)]
    pictures[3] = pictures[3].resize((20, 11))
    paths = [save(one, f"{i}.png") for i, one in enumerate(pictures)]
    expected = read(*paths)
    before = [one.copy() for one in pictures]
    np.testing.assert_array_equal(read(*pictures), expected)
    np.testing.assert_array_equal(read(*map(np.asarray, pictures)), expected)
    np.testing.assert_array_equal(read(paths[0], *pictures[1:]), expected)
    for one, old in zip(pictures, before, strict=True):
        assert (one.mode, one.size) == (old.mode, old.size)
        np.testing.assert_array_equal(np.asarray(one), np.asarray(old))
    column = pd.Series(pictures)
    np.testing.assert_array_equal(ReadImages(8).fit_transform(column), expected)


def test_a_photograph_that_is_open_stays_as_it_is(save):
    """Files are decoded at a part of their size; a picture of the user is not."""
    large = Image.fromarray(np.repeat(np.repeat(GREY[0], 40, 0), 40, 1))
    path = save(large, "large.jpg")
    with Image.open(path) as opened:
        found = read(opened)
        assert opened.size == (320, 320)
    assert np.abs(found - read(path)).max() < 0.02


@pytest.mark.parametrize(
    ("pixels", "levels"),
    [
        (GREY[0] > 127, (GREY[0] > 127) * 1.0),
        (GREY[0].astype(np.uint16) * 200, GREY[0] * 200.0 / 65535),
        (GREY[0] / 255.0, GREY[0] / 255.0),
        (np.float32(GREY[0]) / 100, GREY[0] / 100),
        (GREY[0][::-1, ::2], None),
    ],
    ids=["bits", "16 bits", "doubles", "floats", "view"],
)
def test_arrays_of_grey_levels_are_read(pixels, levels):
    found = read(pixels, size=pixels.shape)[0, 0]
    expected = pixels / 255 if levels is None else levels
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_a_pipeline_takes_images_of_several_sizes(tmp_path):
    rng = np.random.default_rng(0)
    sizes, y = rng.integers(9, 30, (40, 2)), np.arange(40) % 2
    X = [
        np.uint8(rng.integers(0, 100, size) + 120 * label)
        for size, label in zip(sizes, y, strict=True)
    ]
    model = make_pipeline(ReadImages(size=8), ConvNetGPClassifier(rbf()))
    model.fit(X[:30], y[:30])
    assert model.score(X[30:], y[30:]) == 1.0
    later = tmp_path / "later.png"
    Image.fromarray(X[31]).save(later)
    np.testing.assert_array_equal(
        model.predict_proba([later]), model.predict_proba([X[31]])
    )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("size", 0, "int >= 1 or two of them"),
        ("size", 2.5, "int >= 1 or two of them"),
        ("size", None, "int >= 1 or two of them"),
        ("size", (8, 8, 3), "int >= 1 or two of them"),
        ("size", (8, True), "int >= 1 or two of them"),
        ("resize", "squash", "'pad', 'crop' or 'stretch'"),
        ("mode", "rgb", "'auto', 'L' or 'RGB'"),
        ("background", 255, "number >= 0 and <= 1"),
        ("background", "white", "number >= 0 and <= 1"),
        ("padding", -0.1, "number >= 0 and <= 1"),
        ("padding", float("nan"), "number >= 0 and <= 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused_before_reading(name, value, expected):
    message = rf"'{name}' parameter of ReadImages must be .*{expected}.*Got "
    with pytest.raises(ValueError, match=message):
        ReadImages(**{name: value}).fit(["missing.png"])


def test_without_pillow_the_remedy_is_told(save, monkeypatch):
    path = save(grey())
    fitted = ReadImages().fit([path])
    monkeypatch.setitem(sys.modules, "PIL", None)
    for call in (ReadImages().fit, fitted.transform):
        with pytest.raises(ImportError, match=r"pip install \"\.\[images\]\""):
            call([path])


def test_data_frames_tell_the_shape(save):
    paths = [save(coloured(i), f"{i}.png") for i in range(2)]
    reading = ReadImages((8, 4)).set_output(transform="pandas")
    frame = reading.fit_transform(paths)
    assert frame.shape == (2, 3 * 8 * 4)
    assert frame.columns[0] == "readimages_3x8x4_0"
    smaller = Downsample(2).fit(frame)
    assert smaller.image_shape_ == (3, 8, 4)


@pytest.fixture
def labelled(save):
    """Return files of six pictures of several sizes, and their labels."""
    pictures = [coloured(i).resize((8 + i, 9)) for i in range(6)]
    return [save(one, f"{i}.png") for i, one in enumerate(pictures)], [0, 1] * 3


def test_a_saved_pipeline_takes_files(labelled, tmp_path):
    paths, y = labelled
    model = make_pipeline(ReadImages(8), ConvNetGPClassifier(rbf())).fit(paths, y)
    images = ReadImages(8).fit_transform(paths)
    expected = ConvNetGPClassifier(rbf()).fit(images, y).predict_proba(images)
    np.testing.assert_array_equal(model.predict_proba(paths), expected)
    skops.io.dump(model, tmp_path / "model.skops")
    by_skops = skops.io.load(tmp_path / "model.skops", trusted=SKOPS_TRUSTED_TYPES)
    for loaded in (by_skops, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(loaded.predict_proba(paths), expected)
        one_by_one = [loaded[0].transform([path])[0] for path in paths]
        np.testing.assert_array_equal(one_by_one, images)


def test_a_search_reaches_the_size(labelled):
    paths, y = labelled
    model = make_pipeline(ReadImages(), ConvNetGPClassifier(rbf()))
    search = GridSearchCV(model, {"readimages__size": [4, (6, 8)]}, cv=2).fit(paths, y)
    assert search.best_estimator_[0].output_shape_ in ((3, 4, 4), (3, 6, 8))
