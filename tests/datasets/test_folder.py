"""Pictures in folders, as arrays."""

import os
import re

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from skconvgp import ImageClassifier
from skconvgp.datasets import load_image_folder
from skconvgp.transforms import ReadImages

Image = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(0)


def save(path, mode="RGB", size=(12, 9)):
    """Write a picture of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return path


@pytest.fixture
def folder(tmp_path):
    """Return a folder of two classes, written in no order."""
    for name in ("dog/b.png", "cat/10.jpg", "dog/a.bmp", "cat/9.png", "cat/Z.png"):
        save(tmp_path / "photos" / name)
    return tmp_path / "photos"


def test_folders_are_classes_and_files_are_in_order(folder):
    found = load_image_folder(folder, size=(6, 8))
    assert found.data.shape == (5, 3, 6, 8)
    assert found.data.dtype == np.float32
    assert found.target.tolist() == [0, 0, 0, 1, 1]
    assert found.target_names.tolist() == ["cat", "dog"]
    names = ["cat/10.jpg", "cat/9.png", "cat/Z.png", "dog/a.bmp", "dog/b.png"]
    paths = [os.path.join(folder, *name.split("/")) for name in names]
    assert found.filenames.tolist() == paths
    assert found.mode == "RGB"
    assert "5 pictures" in found.DESCR
    X, y = load_image_folder(str(folder), size=(6, 8), return_X_y=True)
    np.testing.assert_array_equal(X, found.data)
    np.testing.assert_array_equal(y, found.target)


SETTINGS = [
    {},
    {"size": 5, "resize": "crop", "mode": "L"},
    {"size": (4, 9), "resize": "stretch"},
    {"background": 0.5, "padding": 1.0},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_files_are_read_as_by_the_transformer(folder, settings):
    save(folder / "cat" / "clear.png", "RGBA")
    found = load_image_folder(folder, **settings)
    reading = ReadImages(**settings).fit(found.filenames)
    np.testing.assert_array_equal(reading.transform(found.filenames), found.data)
    assert reading.mode_ == found.mode


def test_predictions_of_files_are_those_of_the_folder(folder):
    for i in range(4):
        save(folder / "cat" / f"more {i}.png")
        save(folder / "dog" / f"more {i}.png")
    loaded = load_image_folder(folder, size=8)
    model = make_pipeline(ReadImages(size=8), ImageClassifier(random_state=0))
    of_files = model.fit(loaded.filenames, loaded.target)
    of_arrays = ImageClassifier(random_state=0).fit(loaded.data, loaded.target)
    few = loaded.filenames[:3]
    np.testing.assert_array_equal(
        of_files.predict_proba(few), of_arrays.predict_proba(loaded.data[:3])
    )


def test_a_folder_without_folders_has_no_labels(tmp_path):
    for name in ("b.png", "a.png"):
        save(tmp_path / name, "L")
    found = load_image_folder(tmp_path)
    assert found.data.shape == (2, 1, 32, 32)
    assert found.mode == "L"
    assert found.target is found.target_names is None
    assert [os.path.basename(one) for one in found.filenames] == ["a.png", "b.png"]


def test_what_is_hidden_is_left_out(folder):
    expected = load_image_folder(folder)
    for name in (
        ".DS_Store",
        "Thumbs.db",
        "desktop.ini",
        "cat/Thumbs.db",
        "dog/._a.bmp",
    ):
        (folder / name).write_text("nothing")
    for name in (".git/config", "__MACOSX/cat/9.png", "cat/.ipynb_checkpoints/9.png"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("nothing")
    found = load_image_folder(folder)
    assert found.filenames.tolist() == expected.filenames.tolist()


def test_all_files_that_are_no_pictures_are_named(folder):
    (folder / "cat" / "notes.txt").write_text("nothing")
    whole = (folder / "dog" / "b.png").read_bytes()
    (folder / "dog" / "b.png").write_bytes(whole[: len(whole) // 2])
    message = r"2 of 6 files .*cat.notes\.txt' \(no picture.*dog.b\.png' \("
    with pytest.raises(ValueError, match=message):
        load_image_folder(folder)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["one.png"], "beside them 'one.png': move these"),
        (["cat/small/9.png"], r"'cat' holds folders itself: load one at a time"),
        (
            ["cat/small/9.png", "dog/x/9.png"],
            r"'cat', 'dog' hold folders themselves: load one at a time",
        ),
    ],
)
def test_folders_that_are_not_classes_of_files_are_refused(folder, names, told):
    for name in names:
        save(folder / name)
    with pytest.raises(ValueError, match=told):
        load_image_folder(folder)


def test_empty_folders_are_refused(folder, tmp_path):
    (folder / "horse").mkdir()
    with pytest.raises(ValueError, match=r"'horse' holds no files: remove it"):
        load_image_folder(folder)
    (folder / "mule").mkdir()
    with pytest.raises(ValueError, match=r"'horse', 'mule' hold no files: remove them"):
        load_image_folder(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty' is empty: name one with pictures"):
        load_image_folder(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_image_folder(tmp_path / "nowhere")


def test_settings_are_those_of_the_function(folder):
    message = re.escape("The 'size' parameter of load_image_folder must be an int >= 1")
    with pytest.raises(ValueError, match=message):
        load_image_folder(folder, size="32")
