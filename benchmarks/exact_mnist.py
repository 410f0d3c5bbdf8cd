"""Accuracy of the exact ConvNet-GP on MNIST: test set and closed-form leave-one-out.

    SKCONVGP_DATA=<folder with mnist.npz> python benchmarks/exact_mnist.py

Takes a quarter of an hour on two cores. Prints a table with the expected figures beside
ours and writes them to benchmarks/results/exact_mnist.json.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from peers.machine import machine, versions
from sklearn.metrics import accuracy_score, log_loss

from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import fetch_mnist
from skconvgp.kernels import convnet
from skconvgp.metrics import expected_calibration_error

RESULTS = Path(__file__).parent / "results" / "exact_mnist.json"
# First 5000 training and 1000 test images, float64, noise 1e-4, Cholesky.
EXPECTED = {"test accuracy": 0.967, "leave-one-out accuracy": 0.975}


def main() -> None:
    """Fit, predict, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-train", type=int, default=5000)
    parser.add_argument("--n-test", type=int, default=1000)
    parser.add_argument("--n-jobs", type=int, default=None)
    options = parser.parse_args()
    X, y = fetch_mnist(n_samples=options.n_train, return_X_y=True)
    X_test, y_test = fetch_mnist(
        subset="test", n_samples=options.n_test, return_X_y=True
    )

    gp = ConvNetGPClassifier(
        convnet(),
        noise_variance=1e-4,
        dtype="float64",
        n_jobs=options.n_jobs,
        verbose=1,
    )
    gp.fit(X, y)
    y_prob = gp.predict_proba(X_test)

    measured = {
        "test accuracy": accuracy_score(y_test, gp.classes_[y_prob.argmax(axis=1)]),
        "test log loss": log_loss(y_test, y_prob, labels=gp.classes_),
        "test calibration error": expected_calibration_error(
            y_test, y_prob, labels=gp.classes_
        ),
        "leave-one-out accuracy": float(np.mean(gp.loo_predict() == y)),
        "leave-one-out log loss": log_loss(y, gp.loo_predict_proba()),
        "temperature": gp.temperature_,
    }
    print(f"{'':28}{'expected':>10}{'measured':>12}")
    for name, value in measured.items():
        expected = EXPECTED.get(name, "")
        print(f"{name:28}{expected:>10}{value:>12.4g}")
    record = {
        "n_train": options.n_train,
        "n_test": options.n_test,
        "kernel": repr(gp.kernel_),
        "measured": measured,
        "expected": EXPECTED,
        "versions": versions(),
        "machine": machine(),
    }
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
