"""Robustness of a classifier against inputs that are moved on purpose."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import entropy
from sklearn.utils import Bunch, check_array
from sklearn.utils.validation import check_consistent_length, column_or_1d

from skconvgp._ambient import public
from skconvgp._settings import is_int
from skconvgp._typing import FloatArray
from skconvgp.engine import host_numbers, host_values

__all__ = ["robustness_curve"]

EPSILONS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)  # docs/maths.rst, "Robustness"
ATTACKS = ("fgsm", "pgd")
STEP = 0.1  # size of a step of "pgd", as a share of the bound


@public
def robustness_curve(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    epsilons: Sequence[float] = EPSILONS,
    *,
    attack: str = "fgsm",
    n_steps: int = 40,
    clip: tuple[float, float] | None = None,
) -> Bunch:
    r"""Return accuracy and uncertainty of a classifier under attack.

    Each value of an input is moved by at most :math:`\epsilon` in the direction in
    which the cross-entropy of the label rises: once by the sign of the derivatives
    ("fgsm"), or in many small steps ("pgd"). The derivatives through the latent means
    are exact.

    Parameters
    ----------
    estimator : object
        Fitted classifier with ``predict_proba``, ``predict_latent``, ``classes_`` and
        ``latent_gradient(X, weights)``, such as those of this package. Standard
        deviations are computed by ``predict_latent(X, return_std=True)``.
    X : array-like of shape (n, ...)
        Samples.
    y : array-like of shape (n,)
        Labels of the samples, all in ``classes_``.
    epsilons : sequence of float, default=(0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
        Bounds of the moves, >= 0, in units of X.
    attack : {"fgsm", "pgd"}, default="fgsm"
        One step of the whole size, or `n_steps` steps of a tenth of it, each followed
        by a projection to within the bound.
    n_steps : int, default=40
        Number of steps of "pgd".
    clip : tuple of float, default=None
        Smallest and largest value of moved inputs; None is the range of X.

    Returns
    -------
    curve : Bunch
        Arrays of shape (n_epsilons,): ``epsilon``, as given; ``accuracy``; ``entropy``,
        the mean entropy of the probabilities, in nats; ``variance``, the mean variance
        of the latent functions, in their squared units.

    Raises
    ------
    ValueError
        If labels are not in ``classes_``, inputs are not finite, the estimator has no
        ``classes_``, or a setting is wrong.
    TypeError
        If the estimator has no method ``latent_gradient``.

    Notes
    -----
    The attacker knows the classifier. The cross-entropy is differentiated as if the
    probabilities were a softmax of the latent means. Derivatives of the variances are
    left out, so that the direction is one of ascent, but not the steepest.

    References
    ----------
    Goodfellow, Shlens and Szegedy, "Explaining and harnessing adversarial examples",
    2015 (FGSM); Madry et al., "Towards deep learning models resistant to adversarial
    attacks", 2018 (PGD).

    Examples
    --------
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import convnet
    >>> from skconvgp.metrics import robustness_curve
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = ConvNetGPClassifier(convnet(depth=1, kernel_size=3)).fit(X[:200], y[:200])
    >>> curve = robustness_curve(gp, X[200:230], y[200:230], (0.0, 0.2))
    >>> bool(curve.accuracy[1] < curve.accuracy[0])
    True
    """
    if not hasattr(estimator, "latent_gradient"):
        raise TypeError(
            "`estimator` must have `latent_gradient`, as single classifiers of "
            "skconvgp do. For a pipeline, pass the last step with transformed inputs; "
            f"for an ensemble, pass its members. Got {estimator!r}."
        )
    if not hasattr(estimator, "classes_"):
        raise ValueError(f"`estimator` must be a fitted classifier, got {estimator!r}.")
    bounds = _check_bounds(epsilons)
    if not isinstance(attack, str) or attack not in ATTACKS:
        raise ValueError(f"`attack` must be one of {ATTACKS!r}, got {attack!r}.")
    if not is_int(n_steps):
        raise ValueError(f"`n_steps` must be an int >= 1, got {n_steps!r}.")
    inputs = check_array(host_values(X, "X"), dtype=np.float64, allow_nd=True)
    labels = column_or_1d(host_values(y, "y"))
    check_consistent_length(inputs, labels)
    codes = _codes_of(estimator, labels)
    low, high = _check_range((inputs.min(), inputs.max()) if clip is None else clip)
    curve: dict[str, list[float]] = {"accuracy": [], "entropy": [], "variance": []}
    for bound in bounds:
        moved = inputs
        steps = [bound] if attack == "fgsm" else [STEP * bound] * int(n_steps)
        for step in steps if bound > 0.0 else []:
            ahead = moved + step * np.sign(_slope(estimator, moved, codes))
            within = np.clip(ahead, inputs - bound, inputs + bound)
            moved = np.clip(within, np.minimum(low, inputs), np.maximum(high, inputs))
        _judge(estimator, moved, codes, curve)
    arrays = {name: np.array(values) for name, values in curve.items()}
    return Bunch(epsilon=bounds, **arrays)


def _judge(
    estimator: Any, X: FloatArray, codes: NDArray[Any], curve: dict[str, list[float]]
) -> None:
    """Append accuracy, entropy and variance on moved inputs to the curve."""
    probabilities = estimator.predict_proba(X)
    std = estimator.predict_latent(X, return_std=True)[1]
    curve["accuracy"].append(float((probabilities.argmax(axis=1) == codes).mean()))
    curve["entropy"].append(float(entropy(probabilities, axis=1).mean()))
    curve["variance"].append(float((std**2).mean()))


def _slope(estimator: Any, X: FloatArray, codes: NDArray[Any]) -> FloatArray:
    """Return the derivatives of the cross-entropy by the inputs."""
    weights = np.array(estimator.predict_proba(X))
    of_labels = np.arange(len(codes)), codes
    # The weight of the label is p - 1. It is computed as minus the sum of the others,
    # which is exact even if p of the label is rounded to 1.
    weights[of_labels] = 0.0
    weights[of_labels] = -weights.sum(axis=1)
    slope: FloatArray = estimator.latent_gradient(X, weights=weights)
    return slope


def _codes_of(estimator: Any, labels: NDArray[Any]) -> NDArray[np.intp]:
    unknown = np.setdiff1d(labels, estimator.classes_)
    if len(unknown):
        raise ValueError(f"y holds labels that `classes_` does not: {unknown!r}.")
    return np.searchsorted(estimator.classes_, labels)


def _check_range(clip: Any) -> tuple[float, float]:
    values = host_numbers(clip, "clip")
    if values.shape != (2,) or not values[0] <= values[1]:
        raise ValueError(f"`clip` must be a pair (low, high), got {clip!r}.")
    return float(values[0]), float(values[1])


def _check_bounds(epsilons: Sequence[float]) -> FloatArray:
    bounds = np.atleast_1d(host_numbers(epsilons, "epsilons"))
    if bounds.ndim != 1 or not np.isfinite(bounds).all() or (bounds < 0.0).any():
        raise ValueError(f"`epsilons` must be finite numbers >= 0, got {epsilons!r}.")
    return bounds
