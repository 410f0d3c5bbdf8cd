"""What a latent score comes from: maps over the pixels of an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skconvgp._ambient import public
from skconvgp._settings import is_int
from skconvgp._typing import FloatArray
from skconvgp.engine import host_values
from skconvgp.estimators._slopes import require_slopes
from skconvgp.processes import has_places, place_maps
from skconvgp.questions._asked import refuse
from skconvgp.questions._occlusion import as_window, occlusion_maps
from skconvgp.questions._paths import path_maps
from skconvgp.questions._scores import NO_PIXELS, LatentScores

__all__ = ["attribution"]

METHODS = ("auto", "positions", "gradients", "occlusion")
NO_PLACES = (
    "its latent functions are not all sums over positions of patches: use "
    "method='gradients' or 'occlusion'"
)
NO_SLOPES_OF_MEAN = "a regressor as prior mean has no derivatives"
NO_SLOPES = "{}: use method='occlusion', which needs predictions alone"


@public
def attribution(
    gp: Any,
    X: Any,
    target: Any = None,
    *,
    method: str = "auto",
    baseline: ArrayLike | None = None,
    n_steps: int = 16,
    window: int | tuple[int, int] | None = None,
) -> FloatArray:
    r"""Return maps of what the pixels of images contribute to a latent score.

    The score is the mean of the latent function of a class or of an output, as
    `predict_latent` returns it.

    Parameters
    ----------
    gp : classifier or regressor
        Fitted.
    X : array-like of shape (n, h, w), (n, c, h, w) or (n, d)
        Images or vectors.
    target : label, int or array-like of shape (n,), default=None
        Whose score: a class label, or the index of an output, one for all images or
        for each of them. None is the predicted label, or the only output.
    method : {"auto", "positions", "gradients", "occlusion"}, default="auto"
        "positions" is exact, for models whose latent functions are sums over positions
        of patches: what a patch contributes is shared by its pixels. "gradients" are
        integrated from the baseline to the image. "occlusion" is by how much the score
        falls if a window is replaced by the baseline, the mean over windows that cover
        a pixel. "auto" is "positions" for such models, and otherwise "gradients".
    baseline : float or array-like of shape (h, w) or (c, h, w), default=None
        The image that says nothing, or the value of all of its pixels. None is 0, and
        with "positions" there is none.
    n_steps : int, default=16
        Number of derivatives between the baseline and an image, for "gradients".
    window : int, tuple of int or None, default=None
        Height and width of windows, for "occlusion"; each is moved by half of its size.
        None is an eighth of the sides of the image.

    Returns
    -------
    maps : ndarray of shape (n, h, w), or (n, d) for vectors
        Contributions in units of the score; those of all channels of a pixel are added
        up. Positive ones speak for the target.

    Raises
    ------
    ValueError
        For wrong settings, or an estimator that has no such maps.

    Warns
    -----
    UserWarning
        If integrated gradients miss the difference of scores by more than 1 % of the
        sum of the sizes of contributions.

    Notes
    -----
    The sum of a map of "positions" is the score less its prior mean, the offset of
    labels or the mean of targets, and with a baseline less the score of that. The sum
    of a map of "gradients" is the score less that of the baseline, up to an error that
    falls with `n_steps`. Maps of "occlusion" do not add up to anything.

    Positions exist for :class:`~skconvgp.PatchGPClassifier`, for
    :class:`~skconvgp.ImageClassifier` with parts="patches" or a list of patches alone,
    and for their regressors, unless a kernel sees whole images. A position of
    scattering coefficients stands for a cell of pixels, and its coefficients see some
    pixels beyond.

    References
    ----------
    Sundararajan, Taly and Yan, "Axiomatic attribution for deep networks", 2017
    (integrated gradients); Zeiler and Fergus, "Visualizing and understanding
    convolutional networks", 2014 (occlusion).

    Examples
    --------
    >>> from skconvgp import PatchGPClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.questions import attribution
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = PatchGPClassifier(random_state=0).fit(X[:200], y[:200])
    >>> maps = attribution(gp, X[200:202], target=3)
    >>> maps.shape
    (2, 8, 8)
    >>> scores = gp.predict_latent(X[200:202])[:, 3] - gp.latent_offset_[3]
    >>> bool(abs(maps.sum((1, 2)) - scores).max() < 1e-5)
    True
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"`method` must be one of {METHODS!r}, got {method!r}.")
    if not is_int(n_steps):
        raise ValueError(f"`n_steps` must be an int >= 1, got {n_steps!r}.")
    scores = LatentScores.of(gp, X, target, "attribution")
    shape = scores.image_shape
    sides, start = as_window(window, shape), _as_image(baseline, shape)
    way = _way(gp, method)
    if way == "positions":
        maps = _position_maps(scores, start)
    elif way == "gradients":
        maps = path_maps(scores, np.zeros(shape) if start is None else start, n_steps)
    else:
        maps = occlusion_maps(scores, 0.0 if start is None else start, sides)
    return maps[:, 0] if scores.are_vectors else maps


def _way(gp: Any, method: str) -> str:
    """Return the method that is used; raise unless the estimator has it."""
    process = getattr(gp, "_process", None)
    if process is not None and not process.basis.knows_variances:
        refuse(gp, "attribution", NO_PIXELS)
    if method == "occlusion":
        return method
    if hasattr(gp, "mean_"):
        refuse(gp, "attribution", NO_SLOPES.format(NO_SLOPES_OF_MEAN))
    folded = None if process is None else process.folded_means
    if folded is not None and has_places(folded) and method != "gradients":
        return "positions"
    if method == "positions":
        refuse(gp, "attribution", NO_PLACES)
    if not hasattr(gp, "latent_gradient"):
        refuse(gp, "attribution", NO_SLOPES.format("it has no derivatives"))
    try:
        require_slopes(process)
    except ValueError as error:
        refuse(gp, "attribution", NO_SLOPES.format(str(error).rstrip(".")))
    return "gradients"


def _position_maps(scores: LatentScores, start: FloatArray | None) -> FloatArray:
    """Return maps (n, h, w) by the positions of patches, less those of a baseline."""
    gp: Any = scores.estimator
    process, resources, outputs = gp._process, gp._resources(), scores.outputs
    rows = gp._read_new(scores.given)
    folded: Any = process.folded_means
    maps = place_maps(folded, rows, outputs, resources)
    if start is not None:
        every = np.unique(outputs)
        given = np.repeat(start.reshape(1, -1), len(every), 0).astype(rows.dtype)
        maps -= place_maps(folded, given, every, resources)[
            np.searchsorted(every, outputs)
        ]
    found: FloatArray = maps * process.model.scale[outputs, None, None]
    return found


def _as_image(baseline: Any, shape: tuple[int, int, int]) -> FloatArray | None:
    """Return the baseline as an image (c, h, w), if there is one."""
    if baseline is None:
        return None
    try:
        given = np.asarray(host_values(baseline, "baseline"), dtype=np.float64)
        image = given if given.ndim == 0 else given.reshape(shape)
        image = np.array(np.broadcast_to(image, shape))
    except (TypeError, ValueError, OverflowError):
        image = np.full(shape, np.nan)
    if not np.isfinite(image).all():
        raise ValueError(
            f"`baseline` must be None, a finite number, or an image of shape "
            f"{shape!r} (c, h, w) of finite numbers, got {baseline!r}."
        )
    return image
