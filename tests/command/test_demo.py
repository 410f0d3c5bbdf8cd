"""``python -m skconvgp demo``: digits beside peers, and the pictures of a folder."""

import io
import os
import re
import sys

import numpy as np
import pytest
from PIL import Image

from skconvgp import ImageClassifier
from skconvgp._command import _peers, main
from skconvgp.datasets import load_digits_images
from skconvgp.metrics import expected_calibration_error
from tests.helpers.estimators import digits

WRONG = 20  # of the pictures in the folder


@pytest.fixture(scope="module")
def images():
    """Return digits of three classes, of which one has a wrong label."""
    X, y = digits(200)
    X, y = X[y < 3][:45], y[y < 3][:45].copy()
    y[WRONG] = (y[WRONG] + 1) % 3
    return X, y


@pytest.fixture
def folder(images, tmp_path):
    """Write the digits into folders of their classes."""
    for i, (picture, label) in enumerate(zip(*images, strict=True)):
        path = tmp_path / "own" / "abc"[label] / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * picture[0]).round().astype(np.uint8)).save(path)
    return tmp_path / "own"


def numbers_of(text, name):
    """Return the numbers behind the name of a row."""
    line = next(one for one in text.splitlines() if one.startswith(name))
    return [float(one.rstrip("%")) for one in line.removeprefix(name).split()]


def failing(capsys, *given):
    """Return what a command that fails writes, before any work."""
    assert main(["demo", *map(str, given)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "fit:" not in captured.err
    assert captured.err.splitlines()[-1].startswith("error: ")
    return captured.err


def test_digits_are_classified_beside_peers(tmp_path, capsys):
    output = tmp_path / "digits.png"
    sizes = "--n-train", "120", "--n-test", "60"
    assert main(["demo", *sizes, "--output", str(output)]) == 0
    shown = capsys.readouterr()
    assert "digits: 120 images for the fit, 60 to judge, of 1x8x8" in shown.err
    assert "fit: 100%" in shown.err
    for name in ("ImageClassifier", "logistic regression", "RBF SVM"):
        accuracy, loss, error, _ = numbers_of(shown.out, name)
        assert 80 < accuracy <= 100
        assert 0 < loss < 1
        assert 0 <= error < 0.5
    assert re.search(
        r"left-out accuracy of the ImageClassifier.*: 9\d\.\d\d%", shown.out
    )
    assert "parts " in shown.out
    assert str(output) in shown.out
    with Image.open(output) as picture:
        assert picture.size[0] > picture.size[1] > 500


def test_numbers_are_those_of_the_model(images, folder, tmp_path, capsys):
    output = tmp_path / "own.png"
    given = ["demo", "--folder", str(folder), "--size", "8", "--output", str(output)]
    assert main(given) == 0
    shown = capsys.readouterr().out.splitlines()
    X, y = images
    order = np.argsort(y, kind="stable")
    X, y = (
        np.round(X[order] * 255).astype(np.float32) / 255,
        np.array([*"abc"])[y[order]],
    )
    gp = ImageClassifier(random_state=0).fit(X, y)
    prob = gp.loo_predict_proba()
    share = np.mean(gp.classes_[prob.argmax(axis=1)] == y)
    assert shown[0].startswith(f"left-out accuracy: {share:.1%}, ")
    assert shown[1] == f"calibration error: {expected_calibration_error(y, prob):.3f}"
    start = shown.index("likely wrong labels: 1")
    wrong = np.flatnonzero(order == WRONG)[0]
    true = gp.classes_[prob[wrong].argmax()]
    assert re.fullmatch(rf"  {y[wrong]}/20\.png: {true}, \d+%", shown[start + 1])
    start = shown.index("least certain:")
    least = np.argsort(prob.max(axis=1), kind="stable")[:8]
    names = [f"  {y[i]}/{order[i]:02}.png" for i in least]
    told = shown[start + 1 : start + 9]
    assert [line.partition(":")[0] for line in told] == names
    assert f"more of it on a page: python -m skconvgp audit {folder}" in shown
    assert shown[-1] == f"the picture: {output}"
    with Image.open(output) as picture:
        assert picture.size[1] == pytest.approx(900, abs=2)  # with a row of labels


def test_the_picture_of_an_earlier_run_is_none_of_the_folder(
    folder, capsys, monkeypatch
):
    monkeypatch.chdir(folder)
    for _ in range(2):
        assert main(["demo", "--folder", ".", "--size", "8"]) == 0
        told = capsys.readouterr().err
        assert "45 pictures of 3 classes" in told
        assert "left out" not in told


def test_files_that_cannot_be_read_are_told(folder, tmp_path, capsys):
    (folder / "a" / "notes.txt").write_text("nothing")
    output = str(tmp_path / "own.png")
    given = ["demo", "--folder", str(folder), "--size", "8", "--output", output]
    assert main(given) == 0
    assert f"left out: {folder / 'a' / 'notes.txt'} (" in capsys.readouterr().err


def test_names_that_are_no_text_or_not_of_the_terminal_have_escapes(
    folder, tmp_path, monkeypatch
):
    (folder / "b").rename(folder / "\xfc")
    # Linux has names that are no text.
    (folder / "c").rename(folder / os.fsdecode(b"c\xff"))
    named = folder.rename(tmp_path / "my own")
    written = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", written)
    output = str(tmp_path / "own.png")
    given = "--folder", str(named), "--size", "8", "--output", output
    assert main(["demo", *given]) == 0
    written.flush()
    shown = written.buffer.getvalue().decode("ascii")
    assert ": \\xfc, " in shown
    assert ": c\\xff, " in shown
    assert f"python -m skconvgp audit '{named}'\n" in shown


def test_bad_input_is_told_before_any_work(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "nowhere" in failing(capsys, "--folder", "nowhere")
    told = failing(capsys, "--folder", folder, "--n-train", "100")
    assert "--n-train and --n-test are for a data set" in told
    told = failing(capsys, "--output", "demo.doc")
    assert "--output 'demo.doc' must end in the name of a kind of picture" in told
    assert "png" in told
    told = failing(capsys, "--output", tmp_path / "missing" / "demo.png")
    assert "must be a file that can be written" in told
    for sizes in (("--n-train", 9), ("--n-test", 5), ("--n-train", 1700)):
        told = failing(capsys, *sizes)
        assert "must be at least 10, and there are 1797 digits for both" in told
    monkeypatch.setenv("SKCONVGP_DATA", str(tmp_path))
    assert "mnist.npz" in failing(capsys, "--dataset", "mnist")
    assert not (tmp_path / "demo.png").exists()


def test_folders_of_one_class_are_refused(tmp_path, capsys):
    (tmp_path / "one" / "cats").mkdir(parents=True)
    Image.new("L", (8, 8)).save(tmp_path / "one" / "cats" / "1.png")
    given = ["--folder", str(tmp_path / "one"), "--output", str(tmp_path / "a.png")]
    assert main(["demo", *given]) == 1
    assert "has one class of pictures, 'cats'" in capsys.readouterr().err


def test_a_folder_and_a_data_set_exclude_each_other(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--folder", ".", "--dataset", "digits"])
    assert stopped.value.code == 2
    assert "not allowed with argument --folder" in capsys.readouterr().err


def test_matplotlib_is_asked_for_first(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert "needs matplotlib: install it with" in failing(capsys)


def test_mnist_has_sizes_of_its_own(tmp_path, capsys, monkeypatch):
    X, y = load_digits_images(return_X_y=True)
    wide = np.kron(X[:, 0], np.ones((3, 3)))
    pixels = np.pad(255 * wide, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    arrays = {"x_train": pixels[:150], "y_train": y[:150]}
    arrays |= {"x_test": pixels[150:], "y_test": y[150:]}
    np.savez(tmp_path / "mnist.npz", **arrays)
    monkeypatch.setenv("SKCONVGP_DATA", str(tmp_path))
    sizes = "--n-train", "120", "--n-test", "40"
    output = str(tmp_path / "a.png")
    assert main(["demo", "--dataset", "mnist", *sizes, "--output", output]) == 0
    told = capsys.readouterr().err
    assert "mnist: 120 images for the fit, 40 to judge, of 1x28x28" in told


@pytest.mark.parametrize(
    ("version", "method"), [("1.6.1", "sigmoid"), ("1.10.dev0", "temperature")]
)
def test_peers_are_what_scikit_learn_has(version, method, monkeypatch):
    monkeypatch.setattr("sklearn.__version__", version)
    assert _peers.peers()["RBF SVM"].method == method
