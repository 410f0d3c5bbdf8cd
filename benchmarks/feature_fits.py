"""Which classifiers by features are right on up to all images of MNIST, and how fast?

    SKCONVGP_DATA=<folder with mnist.npz> python -m benchmarks feature_fits

Gaussian processes of random features and of landmarks, with labels that share a noise
("gaussian") and labels that determine it ("dirichlet"), beside scikit-learn's features
with logistic regression, whose penalty is chosen on the last sixth. The kernel is that
of the distance of pixels. All test images judge. Seconds are those of the processor,
with the choice of noise, penalty and calibration. Rows that are there are not measured
again. Half an hour on a core:

    python -m benchmarks feature_fits --sizes 5000 60000
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from benchmarks.data import Samples, images
from benchmarks.measure import Record, Stopwatch, judge, unwarned
from benchmarks.report import AGAIN, Figures
from skconvgp import ConvNetGPClassifier, NystromCompletedGP
from skconvgp.completion import RandomFeatures
from skconvgp.kernels import rbf

PART, KEYS = "fits", ("n_train", "model")
PARTS = {PART: KEYS}
N_RANDOM, N_LANDMARKS = 2000, 1000
PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # C of logistic regression
N_ITERATIONS = 300


def random_features(kernel: Any, likelihood: str) -> Any:
    """Return a process of random features."""
    settings = {"likelihood": likelihood, "random_state": 0}
    return ConvNetGPClassifier(kernel, completion=RandomFeatures(N_RANDOM), **settings)


def landmarks(kernel: Any, likelihood: str) -> Any:
    """Return a process of landmarks."""
    settings = {"likelihood": likelihood, "random_state": 0}
    return NystromCompletedGP(kernel, n_landmarks=N_LANDMARKS, **settings)


class Regression:
    """Logistic regression of scikit-learn's features, by its own choice of penalty."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def fit(self, X: Any, y: Any) -> Any:
        """Return a pipeline that is fitted."""
        sampler = self.sampler.fit(X)
        features = sampler.transform(X)
        cut = 5 * len(y) // 6
        models = [LogisticRegression(C=c, max_iter=N_ITERATIONS) for c in PENALTIES]
        losses = [
            log_loss(
                y[cut:],
                model.fit(features[:cut], y[:cut]).predict_proba(features[cut:]),
            )
            for model in models
        ]
        return make_pipeline(sampler, models[int(np.argmin(losses))].fit(features, y))


def _gamma(kernel: Any) -> float:
    return float(0.5 / kernel.lengthscale**2)


MODELS: dict[str, Callable[[Any], Any]] = {
    "random features, gaussian": lambda kernel: random_features(kernel, "gaussian"),
    "random features, dirichlet": lambda kernel: random_features(kernel, "dirichlet"),
    "landmarks, gaussian": lambda kernel: landmarks(kernel, "gaussian"),
    "landmarks, dirichlet": lambda kernel: landmarks(kernel, "dirichlet"),
    "RBFSampler, logistic regression": lambda kernel: Regression(
        RBFSampler(gamma=_gamma(kernel), n_components=N_RANDOM, random_state=0)
    ),
    "Nystroem, logistic regression": lambda kernel: Regression(
        Nystroem(gamma=_gamma(kernel), n_components=N_LANDMARKS, random_state=0)
    ),
}


def options(add: Any) -> None:
    add("--sizes", nargs="+", type=int, default=[5000])
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> None:
    for size in options.sizes:
        digits = images("mnist", size, None).flat()
        for name in options.models:
            place = dict(zip(KEYS, (size, name), strict=True))
            if record.missing(PART, **place):
                print(record.add(PART, place | measure(name, digits)), flush=True)


def measure(name: str, digits: Samples) -> Figures:
    """Return the figures of a model."""
    kernel = rbf().resolve(digits.X)
    watch = Stopwatch()
    with unwarned():  # of weak penalties
        model = MODELS[name](kernel).fit(digits.X, digits.y)
    fitted, watch = watch.read("fit_"), Stopwatch()
    probabilities = model.predict_proba(digits.X_test)
    seconds = watch.read()["cpu_seconds"]
    scores = judge(digits.y_test, probabilities)
    names = ("error", "log_loss", "calibration_error")
    shown = {name: scores[name] for name in names}
    return fitted | {"predict_cpu_seconds": seconds} | shown
