"""The commands of a terminal, in this process and in one of their own."""

import base64
import io
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from skconvgp._command import main
from skconvgp.transforms._files import thumbnail
from tests.helpers.estimators import digits
from tests.helpers.sources import PACKAGE

SCRIPT = '<script>alert("1")</script>'.replace("/", "-")
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """What a page has; each element must be closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.attributes, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(self.texts)


def write(path, picture):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((255 * picture).round().astype(np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path):
    """Return a folder of digits: a copy with a wrong label, and a strange picture."""
    X, y = digits(200)
    X, y = X[y < 3][:45, 0], y[y < 3][:45]
    names = [f"zero {SCRIPT}", "one", 'two "&"']
    for i, (picture, label) in enumerate(zip(X, y, strict=True)):
        write(tmp_path / "digits" / names[label] / f"{i:02} {SCRIPT}.png", picture)
    write(tmp_path / "digits" / names[(y[20] + 1) % 3] / "copy'.png", X[20])
    strange = np.random.default_rng(0).uniform(size=(8, 8))
    write(tmp_path / "digits" / names[0] / "noise.png", strange)
    return tmp_path / "digits"


def test_a_page_shows_what_is_wrong_in_a_folder(folder, tmp_path, capsys):
    output = tmp_path / "page.html"
    given = ["audit", str(folder), "--output", str(output), "--size", "8"]
    assert main(given) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "47 pictures of 3 classes" in captured.err
    assert "fit: 100%" in captured.err
    assert captured.err.endswith(f"wrote {str(output)!r}\n")
    text = output.read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in page.tags
    assert "Likely wrong labels: 1" in page.text
    assert "Near copies: 1" in page.text
    assert page.text.count("copy'.png") == 2
    assert f"20 {SCRIPT}.png" in page.text
    assert f"zero {SCRIPT}" in page.text
    assert 'two "&"' in page.text
    assert "noise.png" in page.text
    assert page.text.count("Small classes") == 1
    # Nothing comes from elsewhere, and scripts would not run.
    sources = [value for name, value in page.attributes if name == "src"]
    assert len(sources) > 3
    for source in sources:
        kind, content = source.split(";base64,")
        assert kind == "data:image/png"
        shown = Image.open(io.BytesIO(base64.b64decode(content)))
        assert shown.size == (8, 8)
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text


def test_a_limit_is_of_each_finding(folder, tmp_path, capsys):
    X, _ = digits(40, start=300)
    for i in range(4):
        for copy in "ab":
            write(folder / "one" / f"pair {i}{copy}.png", X[i * 7 + 3, 0])
    output = tmp_path / "page.html"
    given = ["audit", str(folder), "--output", str(output), "--size", "8"]
    assert main([*given, "--limit", "2"]) == 0
    page = Page(output.read_text(encoding="utf-8"))
    assert "Near copies: 5, of which 2 are shown" in page.text
    capsys.readouterr()


def test_commands_run_in_a_process_of_their_own(folder, tmp_path):
    def run(*given):
        command = [sys.executable, "-m", "skconvgp", *map(str, given)]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=PACKAGE.parent
        )

    output = tmp_path / "page.html"
    done = run("audit", folder, "--size", "8", "--output", output)
    assert done.returncode == 0, done.stderr
    assert "Likely wrong labels" in output.read_text(encoding="utf-8")
    missing = run("audit", "nowhere")
    assert missing.returncode == 1
    assert missing.stderr.splitlines()[-1].startswith("error: ")
    assert "nowhere" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_no_command_shows_help(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "usage: python -m skconvgp" in shown
    assert "audit" in shown
    assert "info" in shown


def test_info_tells_versions_and_the_machine(capsys):
    assert main(["info"]) == 0
    shown = capsys.readouterr().out
    for name in ("python", "skconvgp", "torch", "numpy", "scikit-learn"):
        assert re.search(rf"^ *{name}: \S", shown, re.M)
    for name in ("fused", "cores", "threads", "fused on GPU"):
        assert re.search(rf"^ *{name}: \S", shown, re.M)


def failing(capsys, *given):
    """Return what a command that fails writes last."""
    assert main(["audit", *map(str, given)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()[-1]


def test_folders_without_two_classes_are_refused(tmp_path, capsys):
    empty = tmp_path / "empty"
    empty.mkdir()
    output = "--output", tmp_path / "page.html"
    assert "is empty" in failing(capsys, empty, *output)
    write(empty / "flat.png", np.zeros((8, 8)))
    assert "no folders of classes" in failing(capsys, empty, *output)
    single = tmp_path / "single"
    write(single / "cats" / "1.png", np.zeros((8, 8)))
    assert "has one class, 'cats', and it takes two" in failing(capsys, single, *output)
    (single / "dogs").mkdir()
    assert "'dogs' hold no files" in failing(capsys, single, *output)
    (single / "dogs" / "1.png").write_text("bow-wow")
    told = failing(capsys, single, *output)
    assert "1 of 2 files cannot be read as pictures" in told
    assert "1.png" in told
    assert not (tmp_path / "page.html").exists()


def test_where_the_page_goes_is_checked_first(folder, tmp_path, capsys):
    for place in (tmp_path, tmp_path / "missing" / "page.html"):
        assert main(["audit", str(folder), "--output", str(place)]) == 1
        told = capsys.readouterr().err
        assert "must be a file that can be written, in a folder" in told
        assert "reading" not in told


@pytest.mark.parametrize("option", ["--size", "--limit"])
@pytest.mark.parametrize("value", ["0", "-1", "many", "2.5"])
def test_numbers_are_whole(option, value, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["audit", ".", option, value])
    assert stopped.value.code == 2
    assert f"argument {option}: {value!r} is no whole number" in capsys.readouterr().err


def test_large_pictures_become_small_and_small_ones_stay(tmp_path):
    rng = np.random.default_rng(0)
    write(tmp_path / "large.png", rng.uniform(size=(90, 200)))
    small = rng.uniform(size=(9, 7))
    write(tmp_path / "small.png", small)
    Image.fromarray(small.astype(np.float32)).save(tmp_path / "deep.tiff")
    for name, kind, size in (
        ("large.png", "jpeg", (50, 23)),
        ("small.png", "png", (7, 9)),
        ("deep.tiff", "png", (7, 9)),
    ):
        found, content = thumbnail(str(tmp_path / name), 50)
        shown = Image.open(io.BytesIO(content))
        assert found == kind == shown.format.lower()
        assert shown.size == size
        assert shown.mode == "RGB" or name == "deep.tiff"
        if size == (7, 9):
            values = np.asarray(shown.convert("L")) / 255.0
            np.testing.assert_allclose(values, small, atol=1.0 / 255.0)
