"""``demo``: a classifier of digits beside its peers, or of the pictures in a folder."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from skconvgp._command._fit import classes_in, fitted
from skconvgp._command._folder import Folder
from skconvgp._command._peers import peers, scores
from skconvgp._command._sheet import N_SHOWN, Sheet
from skconvgp._command._terminal import count, require_writable, show, tell
from skconvgp.datasets import fetch_mnist, load_digits_images
from skconvgp.metrics import expected_calibration_error
from skconvgp.questions import audit

__all__ = ["add_to"]

DIGITS, MNIST = "digits", "mnist"
N_IMAGES = {DIGITS: (1000, 797), MNIST: (5000, 1000)}  # for the fit and to judge
FEWEST = 10  # a digit of each kind
DESCRIPTION = """
Fit ImageClassifier, which needs no settings, tell how right and how sure it is, and
draw a picture. It classifies handwritten digits beside two other classifiers, or the
pictures of a folder of yours, each predicted from all the others.
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    text = "classify digits, or the pictures in a folder of yours"
    command = commands.add_parser("demo", help=text, description=DESCRIPTION)
    images = command.add_mutually_exclusive_group()
    images.add_argument(
        "--folder", type=Path, help="folder with a folder of pictures for each class"
    )
    images.add_argument(
        "--dataset",
        choices=(DIGITS, MNIST),
        help="scikit-learn's 8x8 digits, the default, or MNIST from mnist.npz in the "
        "folder that the environment variable SKCONVGP_DATA names",
    )
    sizes = "images of a data set for the fit", "images of a data set to judge"
    for name, of_fit in zip(("--n-train", "--n-test"), sizes, strict=True):
        command.add_argument(name, type=count, help=of_fit)
    command.add_argument(
        "--size",
        type=count,
        default=32,
        help="pixels a side at which pictures of a folder are seen; "
        "default: %(default)s",
    )
    command.add_argument(
        "--output",
        type=Path,
        default=Path("demo.png"),
        help="file of the picture, which is overwritten; default: %(default)s",
    )
    command.set_defaults(run=_run)


def _run(options: Any) -> None:
    """Fit, tell and draw."""
    output = options.output.resolve()
    sheet = Sheet()
    sheet.require_format(options.output)
    require_writable(output, options.output)
    if options.folder is None:
        lines = _of_data_set(options, sheet)
    else:
        if options.n_train or options.n_test:
            raise ValueError(
                "--n-train and --n-test are for a data set: leave them out, as each "
                "picture of a folder is predicted from all the others."
            )
        lines = _of_folder(classes_in(options.folder, options.size, output), sheet)
    sheet.save(output)
    for line in (*lines, "", f"the picture: {output}"):
        show(line)


def _of_folder(folder: Folder, sheet: Sheet) -> list[str]:
    """Draw the pictures of a folder, and return what is told of them."""
    gp = fitted(folder.images, folder.labels)
    y_prob = gp.loo_predict_proba()
    wrong = audit(gp).records("wrong_labels")
    sheet.draw(folder.images, y_prob, folder.labels, gp.classes_, wrong)
    top = y_prob.argmax(axis=1)
    share = float(np.mean(gp.classes_[top] == folder.labels))
    error = expected_calibration_error(folder.labels, y_prob, labels=gp.classes_)
    return [
        f"left-out accuracy: {share:.1%}, each picture predicted from all the others",
        f"calibration error: {error:.3f}",
        "",
        *_wrong_labels(folder, wrong),
        "",
        *_least_certain(folder, y_prob.max(axis=1), gp.classes_[top]),
        "",
        str(gp.fit_report_),
        "",
        "more of it on a page: "
        f"python -m skconvgp audit {shlex.quote(str(folder.path))}",
    ]


def _wrong_labels(folder: Folder, wrong: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the clearest of the labels that are likely wrong, and proposals."""
    yield f"likely wrong labels: {len(wrong) or 'none'}"
    for one in wrong[:N_SHOWN]:
        name = folder.name_of(folder.files[one["index"]])
        yield f"  {name}: {one['proposal']}, {one['proposal_probability']:.0%}"


def _least_certain(
    folder: Folder, confidence: NDArray[Any], labels: NDArray[Any]
) -> Iterator[str]:
    """Yield the pictures whose most probable class is least probable."""
    yield "least certain:"
    for index in np.argsort(confidence, kind="stable")[:N_SHOWN]:
        name = folder.name_of(folder.files[index])
        yield f"  {name}: {labels[index]}, {confidence[index]:.0%}"


def _of_data_set(options: Any, sheet: Sheet) -> list[str]:
    """Compare classifiers of a data set, draw, and return a table."""
    X, X_test, y, y_test = _loaded(options)
    name, shape = options.dataset or DIGITS, "x".join(map(str, X.shape[1:]))
    tell(f"{name}: {len(X)} images for the fit, {len(X_test)} to judge, of {shape}")
    start = time.perf_counter()
    gp = fitted(X, y)
    y_prob = gp.predict_proba(X_test)
    rows = [("ImageClassifier", *scores(gp, y_prob, y_test), _since(start))]
    for peer, model in peers().items():
        tell(f"fitting {peer}")
        start = time.perf_counter()
        model.fit(X.reshape(len(X), -1), y)
        prob = model.predict_proba(X_test.reshape(len(X_test), -1))
        rows.append((peer, *scores(model, prob, y_test), _since(start)))
    sheet.draw(X_test, y_prob, y_test, gp.classes_)
    head = f"{'':20}{'accuracy':>10}{'log loss':>10}{'calibration':>13}{'seconds':>9}"
    table = [
        f"{peer:20}{accuracy:>10.2%}{loss:>10.4f}{error:>13.4f}{seconds:>9.1f}"
        for peer, accuracy, loss, error, seconds in rows
    ]
    share = float(np.mean(gp.loo_predict() == y))
    left_out = f"left-out accuracy of the ImageClassifier, in closed form: {share:.2%}"
    return [head, *table, "", left_out, "", str(gp.fit_report_)]


def _loaded(options: Any) -> Any:
    """Return images (n, 1, h, w) and labels, each for the fit and to judge."""
    name = options.dataset or DIGITS
    wanted = options.n_train, options.n_test
    n_train, n_test = map(lambda a, b: a or b, wanted, N_IMAGES[name])
    if name == MNIST:
        X, y = fetch_mnist(n_samples=n_train, return_X_y=True)
        X_test, y_test = fetch_mnist(subset="test", n_samples=n_test, return_X_y=True)
        return X, X_test, y, y_test
    X, y = load_digits_images(return_X_y=True)
    if min(n_train, n_test) < FEWEST or n_train + n_test > len(X):
        raise ValueError(
            f"--n-train and --n-test must be at least {FEWEST}, and there are {len(X)} "
            f"digits for both; got {n_train} and {n_test}."
        )
    sizes = {"train_size": n_train, "test_size": n_test}
    return train_test_split(X, y, stratify=y, random_state=0, **sizes)


def _since(start: float) -> float:
    return time.perf_counter() - start
