"""What do figures of the sources show that no other question measures?

    SKCONVGP_DATA=<folder with mnist.npz> python -m benchmarks source_figures

Takes a few minutes on a core. Three bumps and a cheesecake, whose points move by Kernel
Flows, and rho of a kernel that is too wide (Bin Khalid 2022, chapters 4 and 5); time
and spectrum of a Gram matrix of MNIST (Meinel 2020, figures 3.2 and 3.3); a process of
whole images on rectangles (van der Wilk and others, 2017); and the bootstrap of random
features, the penalty of a function by its values, and codes learned with and without a
baseline (Kozyrskiy 2023, figures 4.1, 4.3, 6.1 and 3.6). Each figure can run alone, and
those that are there are not measured again:

    python -m benchmarks source_figures --figures bumps width
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.data import classes, images, numbers
from benchmarks.measure import Record, Stopwatch, judge
from benchmarks.report import AGAIN, Figures, show
from skconvgp import (
    BinaryEncoder,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsWarp,
    gram_matrix,
)
from skconvgp.completion import Nystrom, RandomFeatures
from skconvgp.datasets import (
    make_rectangles,
    make_swissroll_cheesecake,
    make_three_bumps,
)
from skconvgp.flows import Rho
from skconvgp.kernels import convnet, optical, rbf

PART, KEYS = "figures", ("figure", "method")
PARTS = {PART: KEYS}
RIDGE = 1e-4
WIDE = 4.0  # lengthscale of the kernel of three bumps
# As the source moves the points, but for the interpolation: with its own they cross.
AS_THE_SOURCE: Figures = {
    "objective": Rho("ratio"),
    "solver": "rk45",
    "step": "original",
    "field_noise": 1e-4,
    "batch_size": 64,
}
# The same with lengths that are shares of the spread of the points.
BY_SPREAD = AS_THE_SOURCE | {"step": "spread"}
N_ORDERS = 40  # random halves, over which rho is a mean
N_LEADING = 500  # eigenvalues
N_DRAWS = 50  # of a bootstrap
N_CENTRES = 20  # of a function
SPLITS = range(5)


def options(add: Any) -> None:
    add("--figures", nargs="+", choices=MEASURE)
    add("--n-steps", type=int, help="of the source's way to move three bumps")
    add("--n-images", type=int, help="of Gram matrices of MNIST, at most")
    add("--again", **AGAIN)


def is_trial(options: Any) -> bool:
    return bool(options.n_steps or options.n_images)


def run(options: Any, record: Record) -> None:
    for figure in options.figures:
        if not record.missing(PART, figure=figure, method=LAST[figure]):
            continue
        for method, row in MEASURE[figure](options):
            record.add(PART, {"figure": figure, "method": method} | row)
            show(f"{figure}, {method}", [str(row)], 30, 60)


def measure_bumps(options: Any) -> Iterator[tuple[str, Figures]]:
    """Yield the error on three bumps before and after points move."""
    X, y = make_three_bumps(80)
    X_test, y_test = make_three_bumps(200)

    def error(move: Callable[[Any], Any]) -> float:
        gram, cross = (
            gram_matrix(rbf(WIDE), move(one), other, dtype="float64")
            for one, other in ((X, None), (X_test, move(X)))
        )
        found = cross @ np.linalg.solve(gram + RIDGE * np.eye(len(X)), y)
        return float(np.mean((found - y_test) ** 2))

    yield "at the start", {"mse": error(np.asarray)}
    steps = {"n_steps": options.n_steps}
    ways: dict[str, Figures] = {
        "default": {},
        "steps by the spread": BY_SPREAD | steps,
        "as the source": AS_THE_SOURCE | steps,
    }
    for name, settings in ways.items():
        watch = Stopwatch()
        warp = KernelFlowsWarp(rbf(WIDE), random_state=0, **settings).fit(X, y)
        row: Figures = watch.read("fit_") | {"n_steps": warp.n_steps}
        told = {"mse": error(warp.transform), "is_monotone": warp.is_monotone_}
        yield name, row | told


def measure_cheesecake(_options: Any) -> Iterator[tuple[str, Figures]]:
    """Yield how many points of two layers a line separates."""
    X, y = make_swissroll_cheesecake(120)
    objective = Rho(noise_variance=0.1)
    watch = Stopwatch()
    warp = KernelFlowsWarp(
        rbf(0.5), objective=objective, n_steps=400, random_state=0
    ).fit(X, y)
    seconds = watch.read("fit_")
    for name, points in (("at the start", X), ("moved", warp.transform(X))):
        line = LogisticRegression(C=1e4, max_iter=1000)
        line = make_pipeline(StandardScaler(), line).fit(points, y)
        yield name, {"accuracy": float(line.score(points, y))} | seconds


def measure_width(_options: Any) -> Iterator[tuple[str, Figures]]:
    """Yield rho of 64 points of three bumps for a wide and for a good kernel."""
    X, y = make_three_bumps(64)
    for width in (3.0, 0.5):
        gram = torch.from_numpy(gram_matrix(rbf(width), X, dtype="float64"))
        found = []
        for seed in range(N_ORDERS):
            order = np.random.default_rng(seed).permutation(len(X))
            targets = torch.from_numpy(y[order, None])
            part = gram[order][:, order]
            found.append(Rho("ratio", noise_variance=RIDGE).score(part, targets).value)
        yield f"width {width:g}", {"rho": float(np.mean(found))}


def measure_matrix(options: Any) -> Iterator[tuple[str, Figures]]:
    """Yield how the time of a Gram matrix grows, and what share its spectrum leads."""
    X = images("mnist", options.n_images, 1).X
    sizes = [len(X) // 4, len(X) // 2, len(X)]
    gram_matrix(convnet(), X[:200])
    seconds, gram = [], None
    for n in sizes:
        watch = Stopwatch()
        gram = gram_matrix(convnet(), X[:n])
        seconds.append(watch.read()["cpu_seconds"])
    yield "time", growth(sizes, seconds)
    values = np.linalg.eigvalsh(np.asarray(gram, dtype=np.float64))[::-1]
    leading = values[: N_LEADING * len(X) // 5000].sum()
    yield "spectrum", {"leading_share": float(leading / values.sum()), "n": len(X)}


def measure_rectangles(_options: Any) -> Iterator[tuple[str, Figures]]:
    """Yield the scores of a process of whole rectangles."""
    X, y = make_rectangles(1200, random_state=0)
    X_test, y_test = make_rectangles(5000, random_state=1)
    watch = Stopwatch()
    gp = ConvNetGPClassifier(rbf(), optimizer="evidence").fit(X, y)
    row: Figures = watch.read("fit_")
    yield "rbf", row | judge(np.asarray(y_test, int), gp.predict_proba(X_test))


def measure_bootstrap(_options: Any) -> Iterator[tuple[str, Figures]]:
    """Yield deviations of a bootstrap of a curve beside those of its posterior."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(50, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=len(X))
    part, new = RandomFeatures(5000), np.linspace(-5.0, 5.0, 200)[:, None]
    gp = ConvNetGPRegressor(rbf(), completion=part, noise_variance=0.01, random_state=0)
    mean, std = gp.fit(X, y).predict(new, return_std=True)
    for n in (N_DRAWS, 10 * N_DRAWS):
        draws = gp.sample_y(new, n, random_state=0, method="bootstrap")
        row = {
            "ratio": float(np.mean(draws.std(axis=1) / std)),
            "error": float(np.abs(draws.mean(axis=1) - mean).max() / std.max()),
        }
        yield f"{n} draws", row


def measure_features(options: Any) -> Iterator[tuple[str, Figures]]:
    """Yield how seconds grow with random features, and with inducing points."""
    data = classes("magic", 0, options.n_images, N_LEADING)
    parts = {"sparse process": Nystrom, "bootstrap": RandomFeatures}
    sizes = [n for n in (500, 1000, 2000, 4000) if n < len(data.y)]
    gp = ConvNetGPClassifier(rbf(2.0), likelihood="dirichlet")
    gp.fit(data.X[:N_LEADING], data.y[:N_LEADING])  # before any clock
    for name, part in parts.items():
        seconds = []
        for n in sizes:
            gp = ConvNetGPClassifier(
                rbf(2.0), completion=part(n), likelihood="dirichlet", random_state=0
            )
            watch = Stopwatch()
            gp.fit(data.X, data.y)
            if part is RandomFeatures:
                gp.sample_y(data.X_test, N_DRAWS, random_state=0, method="bootstrap")
            else:
                gp.predict_proba(data.X_test)
            seconds.append(watch.read()["cpu_seconds"])
        yield name, growth(sizes, seconds)


def measure_penalty(_options: Any) -> Iterator[tuple[str, Figures]]:
    """Yield the share of a function's squared norm that its values tell, at most."""
    rng = np.random.default_rng(0)
    for size in (5, 20, 100, 400):
        shares = []
        for _ in range(N_CENTRES):
            centres, weights = rng.uniform(-1.0, 1.0, size=(2, N_CENTRES))
            points = rng.uniform(-1.0, 1.0, size=(size, 1))
            gram, own, cross = (
                gram_matrix(rbf(0.5), one, other, dtype="float64")
                for one, other in (
                    (points, None),
                    (centres[:, None], None),
                    (points, centres[:, None]),
                )
            )
            values, jitter = cross @ weights, 1e-9 * np.eye(size)
            told = values @ np.linalg.solve(gram + jitter, values)
            shares.append(float(told / (weights @ own @ weights)))
        row = {"share": float(np.mean(shares)), "largest_share": max(shares)}
        yield f"{size} points", row


def measure_baseline(_options: Any) -> Iterator[tuple[str, Figures]]:
    """Yield losses and errors of codes of boston, learned with a baseline or not."""
    for name, baseline in (("with a baseline", True), ("without a baseline", False)):
        losses, errors = [], []
        for split in SPLITS:
            data = numbers("boston", split)
            unit = data.y.std()
            encoder = BinaryEncoder(
                gradient="score", baseline=baseline, max_iter=50, random_state=0
            )
            gp = ConvNetGPRegressor(optical(centered=True), random_state=0)
            gp.fit(encoder.fit(data.X, data.y / unit).transform(data.X), data.y)
            gaps = gp.predict(encoder.transform(data.X_test)) - data.y_test
            errors.append(float(np.sqrt(np.mean(gaps**2))))
            losses.append(float(min(encoder.loss_curve_)))
        yield name, {"loss": float(np.mean(losses)), "rmse": float(np.mean(errors))}


def growth(sizes: Sequence[int], seconds: list[float]) -> Figures:
    """Return sizes, seconds of the processor, and the power that relates them."""
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    found = {"sizes": list(sizes), "cpu_seconds": seconds}
    return found | {"exponent": float(exponent)}


MEASURE = {
    "bumps": measure_bumps,
    "cheesecake": measure_cheesecake,
    "width": measure_width,
    "matrix": measure_matrix,
    "rectangles": measure_rectangles,
    "bootstrap": measure_bootstrap,
    "features": measure_features,
    "penalty": measure_penalty,
    "baseline": measure_baseline,
}
# The methods that come last: figures that have them are whole.
LAST = {
    "bumps": "as the source",
    "cheesecake": "moved",
    "width": "width 0.5",
    "matrix": "spectrum",
    "rectangles": "rbf",
    "bootstrap": "500 draws",
    "features": "bootstrap",
    "penalty": "400 points",
    "baseline": "without a baseline",
}
USUAL = {"figures": tuple(MEASURE), "n_steps": 1000, "n_images": 5000}
QUICK = {"figures": ("bumps", "width"), "n_steps": 20, "n_images": 400}
