"""How good are the defaults, beside what they replaced and two lines of others?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz, uci_classification and
        uci_regression> python -m benchmarks defaults

Takes about five minutes on one thread. Measured are noise that is chosen beside the
number of before, 1e-4 for labels and 1e-2 for numbers; the median distance as
lengthscale beside 1; and scikit-learn's models as they come. Then what few samples, and
samples with copies, do to a choice by leave-one-out, and what the choices cost. Each
part can run alone:

    python -m benchmarks defaults --quick
    python -m benchmarks defaults --parts labels --sets mnist magic
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import accuracy_score, log_loss, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC, SVR

from benchmarks import data
from benchmarks.data import Array, Samples
from benchmarks.measure import Record, Stopwatch
from benchmarks.report import Figures, show
from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor
from skconvgp.datasets import fetch_mnist, load_digits_images
from skconvgp.kernels import Kernel, convnet, rbf
from skconvgp.metrics import negative_log_predictive_density

PARTS = {"defaults": ("part", "set", "method")}
LABELS = (*data.FETCH, "digits", "magic")
NUMBERS = ("concrete", "energy", "boston", "yacht")
USUAL = {
    "n_train": 2000,
    "n_test": 500,
    "n_table": 1000,
    "n_vectors": 5000,
    "n_draws": 15,
}
QUICK = {"n_train": 100, "n_test": 50, "n_table": 100, "n_vectors": 200, "n_draws": 2}
N_DIGITS, N_NEW = 900, 500
FEW = (2, 5, 10, 20)
NOISE = {"labels": 1e-4, "numbers": 1e-2}  # the numbers that were the defaults
SCORES = {
    "labels": ("accuracy", "log_loss"),
    "numbers": ("rmse", "nlpd"),
    "few": ("nlpd", "log_loss"),
    "copies": ("rmse",),
    "cost": ("cpu_seconds",),
}


def options(add: Any) -> None:
    sets = [*LABELS, *NUMBERS]
    add("--parts", nargs="+", choices=MEASURES, default=list(MEASURES))
    add("--sets", nargs="+", choices=sets, default=sets, help="of the first two parts")


def run(options: Any, record: Record) -> None:
    torch.set_num_threads(1)
    for part in options.parts:
        print()
        show(part, SCORES[part], 44, 12)
        for name, method, row in MEASURES[part](options):
            record.add("defaults", {"part": part, "set": name, "method": method} | row)
            cells = (row.get(score) for score in SCORES[part])
            show(f"{name}: {method}", cells, 44, 12)


def measure_labels(options: Any) -> Iterator[tuple[str, str, Figures]]:
    """Yield set, method and scores of classifiers."""
    peers = {
        "SVC": SVC(),
        "logistic regression": LogisticRegression(max_iter=2000),
        "random forest": RandomForestClassifier(random_state=0),
    }
    for name in filter(options.sets.__contains__, LABELS):
        table = load_labels(name, options)
        for method, settings in ways(table.X, "labels", has_network=name in data.FETCH):
            gp = ConvNetGPClassifier(**settings)
            yield name, method, fitted(gp, table) | of_labels(gp, table)
        flat = table.flat()
        for method, model in peers.items():
            yield name, method, fitted(model, flat) | of_labels(model, flat)


def measure_numbers(options: Any) -> Iterator[tuple[str, str, Figures]]:
    """Yield set, method and scores of regressors."""
    peers = {
        "SVR": SVR(),
        "ridge regression": RidgeCV(),
        "random forest": RandomForestRegressor(random_state=0),
    }
    for name in filter(options.sets.__contains__, NUMBERS):
        table = data.numbers(name, 0).first(options.n_table)
        for method, settings in ways(table.X, "numbers", has_network=False):
            gp = ConvNetGPRegressor(**settings)
            yield name, method, fitted(gp, table) | of_numbers(gp, table)
        for method, model in peers.items():
            row = fitted(model, table)
            error = root_mean_squared_error(table.y_test, model.predict(table.X_test))
            yield name, method, row | {"rmse": float(error)}


def measure_few(options: Any) -> Iterator[tuple[str, str, Figures]]:
    """Yield sets of few samples, noise, and mean or median scores over draws."""
    draws = {"sine": draw_sine, "noisy sine": draw_noisy_sine, "classes": draw_classes}
    for name, draw in draws.items():
        has_labels = draw is draw_classes
        model = ConvNetGPClassifier if has_labels else ConvNetGPRegressor
        number = NOISE["labels" if has_labels else "numbers"]
        judge = of_labels if has_labels else of_numbers
        for n in FEW:
            for noise in (number, "loo"):
                rows = []
                for seed in range(options.n_draws):
                    table = draw(np.random.default_rng(seed), n)
                    gp = model(rbf(), noise_variance=noise).fit(table.X, table.y)
                    rows.append(judge(gp, table))
                # One noise that is far too small would be the mean of densities.
                row = {score: np.median([r[score] for r in rows]) for score in rows[0]}
                if has_labels:
                    row["log_loss"] = np.mean([r["log_loss"] for r in rows])
                row = {score: float(value) for score, value in row.items()}
                yield f"{name}, {n}", told(noise), row | {"n_draws": options.n_draws}


def measure_copies(options: Any) -> Iterator[tuple[str, str, Figures]]:
    """Yield errors of a choice among samples that count once and twice."""
    X, y = make_friedman1(400 + options.n_test, noise=1.0, random_state=0)
    table = Samples(X[:400], y[:400], X[400:], y[400:])
    for weight in (1.0, 2.0):
        gp = ConvNetGPRegressor(rbf())
        row = fitted(gp, table, sample_weight=np.full(400, weight))
        yield (
            f"friedman1, weights of {weight:g}",
            "default",
            row | of_numbers(gp, table),
        )


def measure_cost(options: Any) -> Iterator[tuple[str, str, Figures]]:
    """Yield CPU seconds of a cheap kernel's fit, and of the median."""
    n = options.n_vectors
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    table = Samples(X, np.sin(X).sum(1) + rng.normal(size=n), X[:1], X[:1, 0])
    for noise in (NOISE["numbers"], "auto"):
        gp = ConvNetGPRegressor(rbf(), noise_variance=noise)
        yield f"rbf, {n} vectors", told(noise), fitted(gp, table)
    for n in (options.n_train // 2, options.n_train * 30):
        X = fetch_mnist(n_samples=n).data
        watch = Stopwatch()
        rbf().resolve(X)
        yield f"mnist, {n} images", "median", watch.read()


def ways(X: Array, part: str, *, has_network: bool) -> Iterator[tuple[str, Figures]]:
    """Yield names and settings of what is compared."""
    number = NOISE[part]
    if has_network:
        for noise in (number, "auto", "evidence"):
            yield (
                f"convnet, {told(noise)}",
                {"kernel": convnet(), "noise_variance": noise},
            )
    median = rbf().resolve(X).lengthscale
    lengths: dict[str, Kernel] = {
        "rbf at 1": rbf(1.0),
        "rbf at half the median": rbf(median / 2.0),
        "rbf": rbf(),
    }
    for noise in (number, "auto"):
        for name, kernel in lengths.items():
            yield f"{name}, {told(noise)}", {"kernel": kernel, "noise_variance": noise}


def told(noise: float | str) -> str:
    """Return how a noise is named in tables."""
    return "default" if noise == "auto" else f"noise {noise}"


def load_labels(name: str, options: Any) -> Samples:
    """Return images with pixels in [0, 1], or a scaled table."""
    n, n_test = options.n_train, options.n_test
    if name in data.FETCH:
        return data.images(name, n, n_test)
    if name == "digits":
        X, y = load_digits_images(return_X_y=True)
        X, X_test, y, y_test = train_test_split(
            X, y, train_size=min(n, N_DIGITS), stratify=y, random_state=0
        )
        return Samples(X, y, X_test, y_test)
    return data.classes(name, 0, n, None)


def draw_sine(rng: np.random.Generator, n: int, scale: float = 0.0) -> Samples:
    """Return n samples of a sine with noise of a given deviation."""
    X = rng.uniform(0.0, 6.0, size=(n + N_NEW, 1))
    y = np.sin(X[:, 0]) + rng.normal(scale=scale, size=len(X))
    return Samples(X[:n], y[:n], X[n:], y[n:])


def draw_noisy_sine(rng: np.random.Generator, n: int) -> Samples:
    """Return n samples of a sine with noise of 0.3."""
    return draw_sine(rng, n, 0.3)


def draw_classes(rng: np.random.Generator, n: int) -> Samples:
    """Return n samples of two classes that overlap, the first two of different ones."""
    y = np.concatenate([[0, 1], rng.integers(2, size=n + N_NEW - 2)])
    X = rng.normal(size=(len(y), 2)) + y[:, None]
    return Samples(X[:n], y[:n], X[n:], y[n:])


def fitted(model: Any, table: Samples, **settings: Any) -> Figures:
    """Fit, and return what that took and chose."""
    watch = Stopwatch()
    model.fit(table.X, table.y, **settings)
    row = watch.read() | {"n_train": len(table.y), "n_test": len(table.y_test)}
    if hasattr(model, "noise_variance_"):
        row["noise_variance"] = float(model.noise_variance_)
        row["kernel"] = repr(model.kernel_)
    return row


def of_labels(model: Any, table: Samples) -> Figures:
    """Return accuracy, and log loss where there are probabilities."""
    row: Figures = {
        "accuracy": accuracy_score(table.y_test, model.predict(table.X_test))
    }
    if hasattr(model, "predict_proba"):
        probabilities = model.predict_proba(table.X_test)
        loss = log_loss(table.y_test, probabilities, labels=model.classes_)
        row["log_loss"] = float(loss)
    return row


def of_numbers(gp: ConvNetGPRegressor, table: Samples) -> Figures:
    """Return the error, and the negative log density of new observations."""
    mean, std = gp.predict_latent(table.X_test, return_std=True, noise=True)
    return {
        "rmse": float(root_mean_squared_error(table.y_test, mean)),
        "nlpd": float(negative_log_predictive_density(table.y_test, mean, std)),
    }


MEASURES = {
    "labels": measure_labels,
    "numbers": measure_numbers,
    "few": measure_few,
    "copies": measure_copies,
    "cost": measure_cost,
}
