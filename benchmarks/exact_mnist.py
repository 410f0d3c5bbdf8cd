"""How accurate is the exact process of a network on MNIST, on tests and left out?

    SKCONVGP_DATA=<folder with mnist.npz> python -m benchmarks exact_mnist

Takes a quarter of an hour on two cores. Prints the expected figures beside ours.
"""

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, log_loss

from benchmarks.data import images
from benchmarks.measure import Record
from benchmarks.report import show
from skconvgp import ConvNetGPClassifier
from skconvgp.kernels import convnet
from skconvgp.metrics import expected_calibration_error

PARTS: dict[str, tuple[str, ...]] = {}
# First 5000 training and 1000 test images, float64, noise 1e-4, Cholesky.
EXPECTED = {"test accuracy": 0.967, "leave-one-out accuracy": 0.975}


def options(add: Any) -> None:
    add("--n-train", type=int, default=5000)
    add("--n-test", type=int, default=1000)
    add("--n-jobs", type=int, default=None)


def run(options: Any, record: Record) -> None:
    digits = images("mnist", options.n_train, options.n_test)
    gp = ConvNetGPClassifier(
        convnet(),
        noise_variance=1e-4,
        dtype="float64",
        n_jobs=options.n_jobs,
        verbose=1,
    )
    gp.fit(digits.X, digits.y)
    y, y_prob = digits.y_test, gp.predict_proba(digits.X_test)
    calibration = expected_calibration_error(y, y_prob, labels=gp.classes_)
    measured = {
        "test accuracy": accuracy_score(y, gp.classes_[y_prob.argmax(axis=1)]),
        "test log loss": log_loss(y, y_prob, labels=gp.classes_),
        "test calibration error": calibration,
        "leave-one-out accuracy": float(np.mean(gp.loo_predict() == digits.y)),
        "leave-one-out log loss": log_loss(digits.y, gp.loo_predict_proba()),
        "temperature": gp.temperature_,
    }
    show("", ("expected", "measured"))
    for name, value in measured.items():
        show(name, (EXPECTED.get(name), float(value)))
    record.write(
        n_train=options.n_train,
        n_test=options.n_test,
        kernel=repr(gp.kernel_),
        measured=measured,
        expected=EXPECTED,
    )
