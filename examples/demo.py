"""Classify handwritten digits with ImageClassifier, which needs no settings.

    make demo
    make demo ARGS="--dataset mnist --n-train 5000 --n-test 1000"

Fits ImageClassifier beside a logistic regression and an RBF SVM on the same split,
prints accuracy, log loss and calibration error of each, and draws the test digits that
the Gaussian process is least and most certain of. The calibration of the SVM needs
scikit-learn 1.8 or newer. The 8x8 digits are part of scikit-learn. MNIST is read from
the folder that the environment variable SKCONVGP_DATA names.
"""

import argparse
import time
from pathlib import Path

import matplotlib as mpl
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from skconvgp import ImageClassifier
from skconvgp.datasets import fetch_mnist, load_digits_images
from skconvgp.display import UncertainDigitsDisplay
from skconvgp.metrics import expected_calibration_error


def load(options):
    """Return images (n, 1, h, w) and labels of a train and a test part."""
    if options.dataset == "mnist":
        n_train, n_test = options.n_train or 5000, options.n_test or 1000
        X, y = fetch_mnist(n_samples=n_train, return_X_y=True)
        return X, y, *fetch_mnist(subset="test", n_samples=n_test, return_X_y=True)
    X, y = load_digits_images(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X,
        y,
        train_size=options.n_train or 1000,
        test_size=options.n_test or 797,
        stratify=y,
        random_state=0,
    )
    return X, y, X_test, y_test


def make_models():
    """Return the GP with default settings, and its peers, which are cross-validated."""
    logistic = LogisticRegression(max_iter=2000)
    svm = SVC(C=10)
    return {
        "ImageClassifier": ImageClassifier(random_state=0),
        "logistic regression": GridSearchCV(
            logistic, {"C": [0.1, 1, 10]}, cv=3, scoring="neg_log_loss"
        ),
        "RBF SVM": CalibratedClassifierCV(
            GridSearchCV(svm, {"gamma": ["scale", 0.02, 0.1]}, cv=3),
            method="temperature",
            cv=3,
        ),
    }


def main():
    """Fit, compare, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", choices=("digits", "mnist"), default="digits")
    parser.add_argument("--n-train", type=int, help="training images")
    parser.add_argument("--n-test", type=int, help="test images")
    parser.add_argument(
        "--output", type=Path, default=Path("demo.png"), help="the picture to write"
    )
    options = parser.parse_args()
    X, y, X_test, y_test = load(options)
    shape = "x".join(str(size) for size in X.shape[1:])
    print(f"{options.dataset}: {len(X)} training, {len(X_test)} test images of {shape}")

    rows = []
    for name, model in make_models().items():
        is_gp = isinstance(model, ImageClassifier)
        start = time.perf_counter()
        model.fit(X if is_gp else X.reshape(len(X), -1), y)
        y_prob = model.predict_proba(
            X_test if is_gp else X_test.reshape(len(X_test), -1)
        )
        seconds = time.perf_counter() - start
        scores = (
            accuracy_score(y_test, model.classes_[y_prob.argmax(axis=1)]),
            log_loss(y_test, y_prob, labels=model.classes_),
            expected_calibration_error(y_test, y_prob, labels=model.classes_),
        )
        rows.append((name, *scores, seconds))
        if is_gp:
            gp, gp_prob = model, y_prob

    print(f"\n{'':20}{'accuracy':>10}{'log loss':>10}{'calibration':>13}{'seconds':>9}")
    for name, accuracy, loss, error, seconds in rows:
        print(f"{name:20}{accuracy:>10.2%}{loss:>10.4f}{error:>13.4f}{seconds:>9.1f}")
    print(
        f"\nleave-one-out accuracy of the ImageClassifier, in closed form: "
        f"{(gp.loo_predict() == y).mean():.2%}\n\n{gp.fit_report_}"
    )

    mpl.use("agg")
    display = UncertainDigitsDisplay.from_predictions(
        X_test, gp_prob, y_test, labels=gp.classes_
    )
    display.figure_.savefig(options.output, dpi=150)
    print(f"\nleast and most certain test digits: {options.output.resolve()}")


if __name__ == "__main__":
    main()
