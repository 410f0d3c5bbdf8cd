"""How good are numbers of images, and do their intervals cover?

    SKCONVGP_DATA=<folder of images> python -m benchmarks image_regression

Five numbers: the area of discs, the angle of a rotated three, the ink of a digit, the
contrast of colours of a photograph, the number of blobs. Each model is fitted to 300
images of ten draws and judged on 1000 others: root mean squared error, and the share of
them that intervals of 50, 80, 90 and 95 % contain. Ridge regression, a support vector
machine, a random forest and a small network stand beside, without intervals. Takes
about an hour on a core. Rows that are there are not measured again:

    python -m benchmarks image_regression --tasks area --draws 0 1 --again
"""

from typing import Any

import numpy as np
import torch
from scipy.ndimage import gaussian_filter, rotate
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVR
from torch import nn

from benchmarks.data import Array, Samples, images
from benchmarks.measure import Record, Stopwatch
from benchmarks.models import flatten
from benchmarks.report import AGAIN, Figures, Target, mean, show
from skconvgp import (
    ConvNetGPRegressor,
    ImageRegressor,
    KernelFlowsRegressor,
    NystromCompletedGPRegressor,
    PatchGPRegressor,
)
from skconvgp.completion import NearestNeighbors

PART, KEYS = "image_regression", ("task", "draw", "method")
PARTS = {PART: KEYS}
DRAWS = range(10)
N_TRAIN, N_TEST = 300, 1000
SIDE = 24
LEVELS = (0.5, 0.8, 0.9, 0.95)
LARGEST_GAP = 0.02  # of mean coverage and level
THREE = 3

OURS = {
    "ImageRegressor": ImageRegressor(random_state=0),
    "PatchGPRegressor": PatchGPRegressor(random_state=0),
    "ConvNetGPRegressor": ConvNetGPRegressor(random_state=0),
    "NystromCompletedGPRegressor": NystromCompletedGPRegressor(
        n_landmarks=100, random_state=0
    ),
    "NearestNeighbors": ConvNetGPRegressor(
        completion=NearestNeighbors(50), random_state=0
    ),
    "KernelFlowsRegressor": KernelFlowsRegressor(random_state=0),
}
PEERS = ("ridge", "SVR", "random forest", "small CNN")
SHOWN = ("rmse", *(f"coverage_{level:g}" for level in LEVELS), "fit_cpu_seconds")


def options(add: Any) -> None:
    add("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    add("--methods", nargs="+", choices=(*OURS, *PEERS), default=[*OURS, *PEERS])
    add("--draws", nargs="+", type=int, default=DRAWS)
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> list[Target]:
    for task in options.tasks:
        for draw in options.draws:
            places = [
                dict(zip(KEYS, (task, draw, method), strict=True))
                for method in options.methods
            ]
            missing = [place for place in places if record.missing(PART, **place)]
            some = drawn(task, draw) if missing else None
            for place in missing:
                record.add(PART, place | measure(place["method"], some))
        print(f"\n{task}: means over draws")
        show("", SHOWN, 30, 15)
        for method in options.methods:
            rows = record.rows(PART, task=task, method=method)
            shown = SHOWN if method in OURS else ("rmse",)
            show(method, (mean(rows, score) for score in shown), 30, 15)
    return [
        target
        for method in OURS
        for target in targets(method, record.rows(PART, method=method))
    ]


def targets(method: str, rows: list[Figures]) -> list[Target]:
    """Return the gaps of coverage of a class, over tasks and draws."""
    gaps = {level: abs(mean(rows, f"coverage_{level:g}") - level) for level in LEVELS}
    return [
        (f"{method}, {level:.0%}", gap, "at most", LARGEST_GAP)
        for level, gap in gaps.items()
    ]


def measure(method: str, some: Samples) -> Figures:
    """Return the scores of one method."""
    watch = Stopwatch()
    if method not in OURS:
        predicted = peer(method, some)
        return {"rmse": rmse(some.y_test, predicted)} | watch.read("fit_")
    gp = clone(OURS[method]).fit(some.X, some.y)
    row = watch.read("fit_")
    low, high = gp.predict_interval(some.X_test, LEVELS[-1]).T
    middle, half = (high + low) / 2.0, (high - low) / 2.0
    row["rmse"] = rmse(some.y_test, middle)
    for level in LEVELS:
        # Half widths of all images are in proportion to those of one.
        one_low, one_high = gp.predict_interval(some.X_test[:1], level)[0]
        wide = half * (one_high - one_low) / (high[0] - low[0])
        is_in = np.abs(some.y_test - middle) <= wide
        row[f"coverage_{level:g}"] = float(is_in.mean())
    row["deviation_factor"] = gp.fit_report_.deviation_factors[0]
    return row


def rmse(y: Array, predicted: Array) -> float:
    """Return the root mean squared error."""
    return float(np.sqrt(np.mean((y - predicted) ** 2)))


def peer(method: str, some: Samples) -> Array:
    """Return what a model of another kind predicts."""
    if method == "small CNN":
        return network(some)
    model = {
        "ridge": RidgeCV(np.logspace(-3, 5, 17)),
        "SVR": GridSearchCV(SVR(), {"C": (1.0, 10.0, 100.0)}, cv=3),
        "random forest": RandomForestRegressor(300, random_state=0),
    }[method]
    rows = make_pipeline(FunctionTransformer(flatten), StandardScaler(), model)
    scale = some.y.std()
    predicted: Array = rows.fit(some.X, some.y / scale).predict(some.X_test) * scale
    return predicted


def network(some: Samples) -> Array:
    """Return the predictions of three layers of convolutions, 60 epochs of Adam."""
    torch.manual_seed(0)
    channels = some.X.shape[1]
    net = nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(3),
        nn.Flatten(), nn.Linear(576, 64), nn.ReLU(), nn.Linear(64, 1),
    )  # fmt: skip
    X, X_test = (torch.as_tensor(x, dtype=torch.float32) for x in (some.X, some.X_test))
    middle, scale = X.mean(), X.std()
    X, X_test = (X - middle) / scale, (X_test - middle) / scale
    y = torch.as_tensor((some.y - some.y.mean()) / some.y.std(), dtype=torch.float32)
    n_epochs = 60
    optimizer = torch.optim.Adam(net.parameters(), 2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_epochs)
    for _ in range(n_epochs):
        for batch in torch.randperm(len(X)).split(32):
            optimizer.zero_grad()
            (net(X[batch])[:, 0] - y[batch]).square().mean().backward()
            optimizer.step()
        schedule.step()
    net.eval()
    with torch.no_grad():
        found: Array = net(X_test)[:, 0].double().numpy()
    return found * some.y.std() + some.y.mean()


def drawn(task: str, draw: int) -> Samples:
    """Return the images of a task, and their numbers."""
    rng = np.random.default_rng(draw)
    X, y = TASKS[task](N_TRAIN + N_TEST, rng)
    X = X.astype(np.float32)
    return Samples(X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:])


def area(n: int, rng: Any) -> tuple[Array, Array]:
    """Return images of one to four discs, and how many pixels are bright."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    X, y = np.zeros((n, 1, SIDE, SIDE)), np.zeros(n)
    for i in range(n):
        for _ in range(rng.integers(1, 5)):
            radius, (one, two) = rng.uniform(1.5, 3.5), rng.uniform(4, 20, 2)
            disc = np.hypot(rows - one, columns - two) < radius
            X[i, 0] = np.maximum(X[i, 0], disc * rng.uniform(0.6, 1.0))
        y[i] = (X[i] > 0.3).sum()
        X[i, 0] = gaussian_filter(X[i, 0], 0.7)
    return X + rng.normal(scale=0.05, size=X.shape), y


def angle(n: int, rng: Any) -> tuple[Array, Array]:
    """Return rotated threes, and their angles in degrees."""
    threes = digits(18_000, THREE)
    chosen = threes[rng.permutation(len(threes))[:n]]
    y = rng.uniform(-60.0, 60.0, n)
    turned = [
        rotate(image, degrees, reshape=False, order=1)
        for image, degrees in zip(chosen, y, strict=True)
    ]
    return np.array(turned)[:, None], y


def ink(n: int, rng: Any) -> tuple[Array, Array]:
    """Return digits, every other pixel, and the percentage of ink of all pixels."""
    whole = digits(5000, None)
    chosen = whole[rng.permutation(len(whole))[:n]]
    return chosen[:, None, ::2, ::2], 100.0 * chosen.mean((1, 2))


def contrast(n: int, rng: Any) -> tuple[Array, Array]:
    """Return photographs, every other pixel, and the deviation of red minus blue."""
    photographs = images("cifar10", 5000, 1).X
    chosen = photographs[rng.permutation(len(photographs))[:n]][:, :, ::2, ::2]
    return chosen, 100.0 * (chosen[:, 0] - chosen[:, 2]).std((1, 2))


def blobs(n: int, rng: Any) -> tuple[Array, Array]:
    """Return images of bright blobs, and their number, 1 to 9."""
    y = rng.integers(1, 10, n)
    X = np.zeros((n, 1, SIDE, SIDE))
    for image, count in zip(X[:, 0], y, strict=True):
        places = rng.integers(2, SIDE - 2, (count, 2))
        np.add.at(image, tuple(places.T), rng.uniform(6.0, 12.0, count))
        image[:] = gaussian_filter(image, 1.2)
    return X + rng.normal(scale=0.05, size=X.shape), y.astype(float)


def digits(n_read: int, label: int | None) -> Array:
    """Return digits (n, 28, 28) among the first that are read, of one label or all."""
    read = images("mnist", n_read, 1)
    found: Array = read.X[slice(None) if label is None else read.y == label]
    return found.reshape(-1, 28, 28)


TASKS = {
    "area": area,
    "angle": angle,
    "ink": ink,
    "contrast": contrast,
    "blobs": blobs,
}
