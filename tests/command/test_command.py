"""The commands of a terminal, in this process and in one of their own."""

import base64
import io
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from skconvgp._command import main
from skconvgp.datasets import load_image_folder
from skconvgp.questions import Audit
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
    assert [line for line in captured.err.splitlines() if line[:4] != "fit:"][2:] == [
        "looking for wrong labels, copies and strange pictures",
        "making small pictures for the page",
        f"wrote {str(output)!r}",
    ]
    text = output.read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in page.tags
    assert "Likely wrong labels: 1" in page.text
    headings = ("Likely wrong labels", "Worth a look", "Near copies")
    assert sorted(headings, key=page.text.index) == list(headings)
    assert "Near copies: 1" in page.text
    assert page.text.count("copy'.png") == 3  # wrong, a copy, the clearest
    assert f"20 {SCRIPT}.png" in page.text
    assert f"zero {SCRIPT}" in page.text
    assert 'two "&"' in page.text
    assert "noise.png" in page.text
    assert page.text.count("Small classes") == 1
    assert "Left out" not in page.text
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
    assert "no folders of classes" in failing(capsys, empty, *output)
    write(empty / "flat.png", np.zeros((8, 8)))
    assert "no folders of classes" in failing(capsys, empty, *output)
    single = tmp_path / "single"
    write(single / "cats" / "1.png", np.zeros((8, 8)))
    told = "has one class of pictures, 'cats', and it takes two"
    assert told in failing(capsys, single, *output)
    (single / "dogs").mkdir()
    assert told in failing(capsys, single, *output)
    (single / "dogs" / "1.png").write_text("bow-wow")
    assert told in failing(capsys, single, *output)
    (single / "cats" / "1.png").write_text("meow")
    assert "has no pictures, and it takes two" in failing(capsys, single, *output)
    assert not (tmp_path / "page.html").exists()


def test_what_cannot_be_read_is_left_out_and_told(folder, tmp_path, capsys):
    whole = next((folder / "one").glob("*.png")).read_bytes()
    (folder / "one" / f"half {SCRIPT}.png").write_bytes(whole[: len(whole) // 2])
    (folder / "one" / "notes.txt").write_text("nothing")
    (folder / "empty & <b>").mkdir()
    (folder / "texts").mkdir()
    (folder / "texts" / "a.txt").write_text("nothing")
    output = tmp_path / "page.html"
    given = ["audit", str(folder), "--output", str(output), "--size", "8"]
    assert main(given) == 0
    told = [
        line for line in capsys.readouterr().err.splitlines() if "left out: " in line
    ]
    page = Page(output.read_text(encoding="utf-8"))
    assert "47 pictures of 3 classes" in page.text
    assert "Left out: 5" in page.text
    assert "script" not in page.tags
    for name, reason in (
        (f"one/half {SCRIPT}.png", "truncated"),
        ("one/notes.txt", "no picture of a kind that Pillow reads"),
        ("empty & <b>", "no files"),
        ("texts", "no pictures that can be read"),
        ("texts/a.txt", "no picture of a kind that Pillow reads"),
    ):
        shown = page.texts.index(name)
        assert reason in page.texts[shown + 1]
        line = next(one for one in told if str(folder / name) + " (" in one)
        assert reason in line
    assert len(told) == 5


def test_many_files_that_are_left_out_are_counted(tmp_path, capsys):
    for name in "ab":
        write(tmp_path / "in" / name / "1.png", np.zeros((8, 8)))
    for i in range(30):
        (tmp_path / "in" / "a" / f"{i:02}.txt").write_text("nothing")
    (tmp_path / "in" / "b" / "1.png").unlink()
    failing(capsys, tmp_path / "in", "--output", tmp_path / "page.html")
    main(["audit", str(tmp_path / "in"), "--output", str(tmp_path / "page.html")])
    told = capsys.readouterr().err
    assert told.count("left out: ") == 21
    assert "left out: 11 more\n" in told


def test_confused_classes_show_their_clearest_picture(folder, tmp_path, monkeypatch):
    def ask(model):
        pair = {"label": "one", "proposal": "<i>", "count": 3, "share": 0.25}
        return Audit(47, [], [], [], [{**pair, "index": 17}], [])

    output = tmp_path / "page.html"
    monkeypatch.setattr("skconvgp._command._audit.audit", ask)
    given = ["audit", str(folder), "--output", str(output), "--size", "8"]
    assert main(given) == 0
    page = Page(output.read_text(encoding="utf-8"))
    assert "Confused classes: 1" in page.text
    assert "one → <i>: 3 (25%)" in page.text
    pictures = [value for name, value in page.attributes if name == "alt"]
    path = load_image_folder(folder).filenames[17]
    assert pictures == [str(Path(path).relative_to(folder))]


def test_a_page_in_the_folder_itself_is_written_again(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    for place in ("audit.html", "one/page.html"):
        for _ in range(2):
            assert main(["audit", ".", "--size", "8", "--output", place]) == 0
            told = capsys.readouterr().err
            assert "47 pictures" in told
            assert "left out" not in told
        Path(place).unlink()
    Path("other.html").write_text("")
    assert "'other.html': move these" in failing(capsys, ".")
    assert not Path("audit.html").exists()


def test_an_interruption_is_one_line(folder, tmp_path, monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("skconvgp._command._audit.audit", interrupt)
    output = tmp_path / "page.html"
    output.write_text("earlier")
    given = ["audit", str(folder), "--size", "8", "--output", str(output)]
    assert main(given) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted"
    assert output.read_text() == "earlier"


def test_where_the_page_goes_is_checked_first(folder, tmp_path, capsys):
    (tmp_path / "file").write_text("nothing")
    places = (
        tmp_path,
        tmp_path / "missing" / "page.html",
        tmp_path / "file" / "page.html",
        tmp_path / ("long" * 100),
    )
    for place in places:
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
