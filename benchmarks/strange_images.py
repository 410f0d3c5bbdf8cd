"""How sure are classifiers of images that are unlike their training images?

    SKCONVGP_DATA=<folder of images> python -m benchmarks strange_images

Five classifiers are fitted to digits, to the digits 0 to 4, to MNIST, to photographs of
CIFAR-10 and to small generated textures, of three draws, and ImageClassifier to the
other sets of `benchmarks.image_sets`. For images of ten kinds, each is asked for its
largest probability: the mean, the largest, and the share above .95, with familiarity
and without it, beside the log loss of ordinary test images. Takes about an hour on a
core. Rows that are there are not measured again:

    python -m benchmarks strange_images --sets textures --draws 0 --again
"""

from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from benchmarks.data import DRAWS, Array, Samples, images
from benchmarks.image_sets import SETS as IMAGE_SETS
from benchmarks.measure import Record
from benchmarks.report import AGAIN, Figures, Target, mean, select, show
from skconvgp import (
    ConvNetGPClassifier,
    ImageClassifier,
    NystromCompletedGP,
    PatchGPClassifier,
)
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import rbf
from skconvgp.transforms import ScatteringTransform

OURS = "ImageClassifier"
PART, KEYS = "strange_images", ("set", "draw", "method", "kind")
PARTS = {PART: KEYS}
N_TEST, N_STRANGE = 1000, 200
CONSTANTS = {"black": 0.0, "grey": 0.5, "white": 1.0}
TEST = "test images"
# Nobody may take these for an image of the set; the others are more like some.
HARD = ("noise", *CONSTANTS, "inverted")
SURE = 0.95
FONTS = ("DejaVuSans.ttf", "DejaVuSerif-Bold.ttf", "DejaVuSansMono.ttf")
LETTERS = "ABCDEFGHKMNPQRTUVWXYabdefghknpqrt"  # that are no digits
SHOWN = ("mean", "mean_before", "largest", "sure", "sure_before")

METHODS = {
    OURS: lambda: ImageClassifier(random_state=0),
    "PatchGPClassifier": lambda: PatchGPClassifier(random_state=0),
    "scattering": lambda: make_pipeline(
        ScatteringTransform(), ConvNetGPClassifier(rbf(), random_state=0)
    ),
    "ConvNetGPClassifier": lambda: ConvNetGPClassifier(random_state=0),
    "NystromCompletedGP": lambda: NystromCompletedGP(n_landmarks=200, random_state=0),
}


def options(add: Any) -> None:
    add("--sets", nargs="+", choices=SETS, default=list(SETS))
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--draws", nargs="+", type=int, default=DRAWS)
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> list[Target]:
    asked = product(options.sets, options.draws, options.methods)
    for name, draw, method in asked:
        if name in OTHERS and method != OURS:
            continue
        place = dict(zip(KEYS, (name, draw, method, TEST), strict=True))
        if record.missing(PART, **place):
            some = SETS[name](draw)
            for row in measure(METHODS[method](), some, kinds(name, some)):
                record.add(PART, place | row)
    for name, method in product(options.sets, options.methods):
        rows = record.rows(PART, set=name, method=method)
        if not rows:
            continue
        print(f"\n{name}, {method}: largest probabilities, means over draws")
        show("", SHOWN, 24, 13)
        for kind in dict.fromkeys(row["kind"] for row in rows):
            of_kind = select(rows, kind=kind)
            show(kind, (mean(of_kind, score) for score in SHOWN), 24, 13)
    return targets(record.rows(PART))


def targets(rows: list[Figures]) -> list[Target]:
    """Return what is required of all sets and methods together."""
    hard = [row for row in rows if row["kind"] in HARD]
    soft = [row for row in rows if row["kind"] not in (*HARD, TEST)]
    ordinary = [row["log_loss"] - row["log_loss_before"] for row in rows_of_test(rows)]
    return [
        ("mean of noise, constants, inverted", mean(hard, "mean"), "at most", 0.7),
        ("share of them above .95", mean(hard, "sure"), "at most", 0.0),
        ("mean of other kinds", mean(soft, "mean"), "at most", 0.8),
        ("share of them above .95", mean(soft, "sure"), "at most", 0.1),
        ("log loss lost", float(np.mean(ordinary)), "at most", 0.002),
    ]


def rows_of_test(rows: list[Figures]) -> list[Figures]:
    """Return the rows of ordinary test images."""
    return select(rows, kind=TEST)


def measure(model: Any, some: Samples, strange: dict[str, Array]) -> list[Figures]:
    """Return a row for each kind of images."""
    groups = {} if some.groups is None else {"groups": some.groups}
    model.fit(some.X, some.y, **groups)
    shown = {TEST: some.X_test} | strange
    after = {kind: model.predict_proba(X) for kind, X in shown.items()}
    gp = model[-1] if hasattr(model, "steps") else model
    gp.calibration_ = replace(gp.calibration_, familiarity=None)
    before = {kind: model.predict_proba(X) for kind, X in shown.items()}
    rows = []
    for kind in shown:
        row: Figures = {"kind": kind, "largest": float(after[kind].max())}
        for end, found in (("", after[kind]), ("_before", before[kind])):
            top = found.max(1)
            row |= {f"mean{end}": float(top.mean()), f"sure{end}": share_sure(top)}
            if kind == TEST:
                losses = log_loss(some.y_test, found, labels=gp.classes_)
                row[f"log_loss{end}"] = float(losses)
        rows.append(row)
    return rows


def share_sure(top: Array) -> float:
    """Return the share of largest probabilities above .95."""
    return float((top > SURE).mean())


def kinds(name: str, some: Samples) -> dict[str, Array]:
    """Return strange images by their kind."""
    shape, rng = some.X.shape[1:], np.random.default_rng(0)
    few = some.X_test[:N_STRANGE]
    found = {"noise": rng.random((N_STRANGE, *shape))}
    found |= {word: np.full((1, *shape), value) for word, value in CONSTANTS.items()}
    found["letters"] = letters(shape, rng)
    if name not in SAME:
        found["inverted"] = 1.0 - few
        found["rotated by 90"] = np.rot90(few, axes=(-2, -1))
    if name == "digits 0-4":
        X, y = load_digits_images(return_X_y=True)
        found["digits 5-9"] = X[y > 4][:N_STRANGE].reshape(-1, *shape)
    if name == "CIFAR-10":
        found["MNIST"] = np.repeat(
            resized(images("mnist", 1, N_STRANGE).X_test, shape), 3, 1
        )
    else:
        photographs = images("cifar10", 1, N_STRANGE).X_test.mean(1, keepdims=True)
        found["photographs"] = np.repeat(resized(photographs, shape), shape[0], 1)
    return {kind: np.ascontiguousarray(X, np.float32) for kind, X in found.items()}


def letters(shape: tuple[int, ...], rng: Any) -> Array:
    """Return letters of three fonts, tilted a little."""
    folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
    channels, side = shape[0], 4 * shape[1]
    found = []
    for _ in range(N_STRANGE):
        letter = str(rng.choice(list(LETTERS)))
        font = ImageFont.truetype(str(folder / rng.choice(FONTS)), int(0.8 * side))
        page = Image.new("L", (side, side))
        place = side // 2, side // 2
        ImageDraw.Draw(page).text(place, letter, fill=255, font=font, anchor="mm")
        tilted = page.rotate(rng.uniform(-12.0, 12.0), Image.Resampling.BILINEAR)
        found.append(np.asarray(tilted.resize(shape[1:], Image.Resampling.BOX)) / 255.0)
    return np.repeat(np.array(found)[:, None], channels, axis=1)


def resized(X: Array, shape: tuple[int, ...]) -> Array:
    """Return grey images of the height and width of a shape."""
    return np.array(
        [
            np.asarray(Image.fromarray(np.uint8(255.0 * x.squeeze())).resize(shape[1:]))
            / 255.0
            for x in X
        ]
    )[:, None]


def of_digits(n: int, labels: int, draw: int) -> Samples:
    """Return digits below a label, and the others of them as test images."""
    rng = np.random.default_rng(draw)
    X, y = load_digits_images(return_X_y=True)
    keeps = y < labels
    return split(X[keeps].reshape(-1, 1, 8, 8), y[keeps], n, rng)


def of_files(name: str, n: int, pool: int, draw: int) -> Samples:
    """Return images of a file, in squares of pixels that are averaged."""
    rng = np.random.default_rng(draw)
    whole = images(name, 20_000, 5000)
    some, other = (
        rng.permutation(len(y))[:count]
        for y, count in ((whole.y, n), (whole.y_test, N_TEST))
    )
    X, X_test = (averaged(x, pool) for x in (whole.X[some], whole.X_test[other]))
    return Samples(X, whole.y[some], X_test, whole.y_test[other])


def averaged(X: Array, pool: int) -> Array:
    """Return the means of squares of pixels."""
    X = X if X.ndim == 4 else X[:, None]
    n, channels, height, width = X.shape
    squares = X.reshape(n, channels, height // pool, pool, width // pool, pool)
    found: Array = squares.mean((3, 5))
    return found


def textures(n: int, draw: int) -> Samples:
    """Return four textures: rough, brushed, waves and dots."""
    rng, side = np.random.default_rng(draw), 16
    y, rows, columns = rng.integers(0, 4, n + N_TEST), *np.mgrid[:side, :side]
    X = np.zeros((len(y), 1, side, side), np.float32)
    for i, label in enumerate(y):
        noise, angle = rng.normal(size=(side, side)), rng.uniform(0.0, np.pi)
        waves = rows * np.cos(angle) + columns * np.sin(angle)
        dots = (rng.random((side, side)) < 0.06).astype(float)
        image = (
            gaussian_filter(noise, 1.0),
            gaussian_filter(noise, (0.3, 2.0)),
            np.sin(waves * rng.uniform(0.8, 1.4) + rng.uniform(0.0, 6.0)) + 0.3 * noise,
            gaussian_filter(dots, 0.8),
        )[label]
        image = (image - image.mean()) / image.std()
        grain = rng.normal(scale=0.05, size=image.shape)
        X[i, 0] = (0.5 + 0.15 * image + grain).clip(0.0, 1.0)
    return split(X, y, n, rng)


def split(X: Array, y: Array, n: int, rng: Any) -> Samples:
    """Return n images to learn from and others to be judged on."""
    order = rng.permutation(len(y))
    some, other = order[:n], order[n : n + N_TEST]
    return Samples(X[some], y[some], X[other], y[other])


SETS = {
    "digits": partial(of_digits, 500, 10),
    "digits 0-4": partial(of_digits, 300, 5),
    "MNIST": partial(of_files, "mnist", 1000, 1),
    "CIFAR-10": partial(of_files, "cifar10", 1000, 2),
    "textures": partial(textures, 300),
}
# Of the other sets of the benchmarks: 64x64 pixels and fewer.
OTHERS = {
    f"benchmark, {name}": partial(made.make, 300, N_TEST)
    for name, made in IMAGE_SETS.items()
    if name not in ("digits", "mnist", "cifar10")
}
SETS |= OTHERS
# Of these most are the same when they are inverted or turned.
SAME = ("textures", "benchmark, textures", "benchmark, shapes")
