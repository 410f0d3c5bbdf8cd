"""Which samples to label next."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.engine import to_tensor
from skconvgp.estimators._fact_warnings import warn_of_facts
from skconvgp.estimators._series import warn_of_basis
from skconvgp.estimators._shown import contrasts
from skconvgp.estimators._validation import random_source
from skconvgp.inference import Pool, least_variance
from skconvgp.processes import Choice, Latent
from skconvgp.questions._asked import answering, given_samples, with_versions

__all__ = ["checked_strategy", "query"]

MOST_CANDIDATES = 2000
AUTO, RANDOM, MARGIN = "auto", "random", "margin"
VARIANCE, UNCERTAIN = "variance", "uncertain variance"
STRATEGIES = (AUTO, UNCERTAIN, VARIANCE, MARGIN, RANDOM)
OF_LABELS = (UNCERTAIN, MARGIN)
INSTEAD = (
    "a ConvNetGP, Image, KernelFlows, NystromCompletedGP or PatchGP estimator with "
    "solver='cholesky' and, for labels, likelihood='gaussian', 'dirichlet' or 'beta', "
    "or strategy='random'"
)


@public
def query(
    gp: Any,
    X_pool: Any,
    n: int,
    strategy: str = "auto",
    random_state: Any = None,
) -> NDArray[np.intp]:
    r"""Return which samples of a pool without labels to label next.

    By variance each choice is the candidate whose label most reduces the posterior
    variance of the latent functions, as a mean over the pool, given all choices before
    it. The variance does not depend on labels, so that no model is fitted again: an
    observation changes the posterior covariance of the pool by a matrix of rank one. A
    copy of a chosen sample has little variance left, and is not chosen unless the noise
    is large.

    Parameters
    ----------
    gp : classifier or regressor
        Fitted. For choices by variance with solver="auto" or "cholesky", or with
        features, as NystromCompletedGP and PatchGPClassifier have.
    X_pool : array-like of shape (n_pool, d), (n_pool, h, w) or (n_pool, c, h, w)
        Images or vectors without labels.
    n : int
        How many to choose, at most 2000 by variance.
    strategy : str, default="auto"
        How to choose:

        - "variance": by variance. It needs no probabilities.
        - "uncertain variance": the same, but samples of the mean are weighted by the
          probability :math:`1 - \sum_c p_c^2` that a label drawn by the predicted
          probabilities is wrong. For classifiers.
        - "margin": samples whose two largest probabilities differ least. For
          classifiers, of any kind.
        - "random": at random. For any estimator.
        - "auto": "uncertain variance" for classifiers, and "variance" for regressors.
    random_state : int, RandomState instance or None, default=None
        For random choices, and for those of a pool of more than 2000 samples that are
        looked at: 2000, which are the candidates and stand for the pool in the mean.

    Returns
    -------
    indices : ndarray of shape (n,)
        Rows of `X_pool`, in the order of choice. The first of equally good ones is
        chosen.

    Raises
    ------
    ValueError
        For a wrong setting, or an estimator whose posterior covariance is not known,
        such as one with kernel="precomputed", likelihood="laplace" or nearest
        neighbours.

    Notes
    -----
    With likelihood="dirichlet" the label of a sample decides its noise, and each latent
    function has a covariance of its own. The reduction of the variance is then the mean
    over the predicted probabilities of the labels, exactly, given those of all choices
    before; these are taken to be the most probable ones, as they are not known yet.

    Probabilities are those of `gp` for all choices of a call, since new labels are not
    known. Some 25 choices at a time, followed by a fit to all labels, keep them up to
    date. For several outputs of a regressor choices are the same as for one.

    With features the variance is that which features explain, as no label changes the
    rest. A new label counts as one observation, whatever `class_weight` is.

    A model with `augment` learns a new image with its versions, and chooses so: an
    observation is one of all of them. The mean is over images as they are. Covariances
    are those of all versions, so that fewer candidates fit into memory.

    Covariances of the candidates with the pool take as long as predictions for the
    pool by a model of as many training samples more as there are candidates.

    References
    ----------
    Cohn, Ghahramani and Jordan, "Active learning with statistical models", 1996; Seo,
    Wallat, Graepel and Obermayer, "Gaussian process regression: active data selection
    and test point rejection", 2000; Scheffer, Decomain and Wrobel, "Active hidden
    Markov models for information extraction", 2001 (margin).

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.kernels import rbf
    >>> from skconvgp.questions import query
    >>> pool = np.array([[0.0], [1.4], [1.5], [1.6], [3.0], [3.1]])
    >>> gp = ConvNetGPClassifier(rbf(0.5), noise_variance=0.01)
    >>> gp = gp.fit([[0.0], [4.0]], [0, 1])
    >>> query(gp, pool, 2)
    array([2, 4])
    """
    check_is_fitted(gp)
    strategy = checked_strategy(gp, strategy)
    X = given_samples(X_pool, "X_pool")
    n_pool = len(X)
    source = random_source(random_state)
    is_greedy = strategy in (VARIANCE, UNCERTAIN)
    most = min(n_pool, MOST_CANDIDATES) if is_greedy else n_pool
    _check_number(n, most, n_pool)
    if strategy == RANDOM:
        drawn: NDArray[np.intp] = source.permutation(n_pool)[:n]
        return drawn
    if strategy == MARGIN:
        top = np.sort(gp.predict_proba(X), axis=1)[:, -2:]
        margins = (top[:, 1] - top[:, 0]).round(9)
        return np.argsort(margins, kind="stable")[:n]
    process = answering(gp, "query", INSTEAD, "why_no_pool")
    candidates = np.arange(n_pool)
    if n_pool > MOST_CANDIDATES:
        candidates = np.sort(source.permutation(n_pool)[:MOST_CANDIDATES])
    rows = gp._read_new(_safe_indexing(X, candidates))
    is_weighted = strategy == UNCERTAIN
    chosen = _by_variance(gp, process, rows, int(n), is_weighted=is_weighted)
    found: NDArray[np.intp] = candidates[chosen]
    return found


def _by_variance(
    gp: Any, process: Any, rows: NDArray[Any], count: int, *, is_weighted: bool
) -> NDArray[np.intp]:
    """Return which of rows (n, d) are chosen by variance.

    They may be weighted in the mean by their probabilities.
    """
    known: FloatArray | None = None
    if process.labels is None:
        warn_of_basis(process.basis, rows)
    else:  # functions have a variance each, and labels a noise
        needs, enough = gp._needs_spread, not gp._needs_variances
        latent = gp._latent(rows, None, needs_var=needs, is_mean_enough=enough)
        known = gp._probabilities(*gp._latents(latent))
    posteriors: list[Latent] = []
    n, every = len(rows), with_versions(gp, rows)

    def choose(pool: Pool, latent: Latent) -> Tensor:
        posteriors.append(latent)
        latent = _first(latent, n)
        device, dtype = pool.covariance.device, pool.covariance.dtype
        weights, proba = np.ones(n), known
        if is_weighted and proba is None:
            posterior = replace(latent, contrast=contrasts(rows))
            proba = gp._probabilities(*gp._latents(posterior))
        if is_weighted and proba is not None:
            weights = _doubt(proba)
        chances = None
        if pool.has_labels and proba is not None:
            chances = to_tensor(proba, device, dtype)
        return least_variance(pool, to_tensor(weights, device, dtype), count, chances)

    needs_var = is_weighted and known is None and gp._needs_spread
    choice, resources = Choice(choose, needs_var), gp._resources()
    chosen: NDArray[np.intp]
    chosen = process.left_out.choose(process, every, resources, choice)
    warn_of_facts(posteriors[-1].facts)
    return chosen


def _first(latent: Latent, n: int) -> Latent:
    """Return the posterior at the first n samples, which others follow."""
    return replace(
        latent, mean=latent.mean[:n], var=latent.var[:n], prior=latent.prior[:n]
    )


def _doubt(probabilities: FloatArray) -> FloatArray:
    """Return the probabilities (n,) that a label drawn by them is wrong."""
    found: FloatArray = 1.0 - np.square(probabilities).sum(1)
    return found.clip(min=0.0)


def checked_strategy(gp: Any, strategy: object) -> str:
    """Return the strategy of an estimator; raise unless it has one of the name."""
    if strategy not in STRATEGIES:
        raise ValueError(f"`strategy` must be one of {STRATEGIES}, got {strategy!r}.")
    if strategy in OF_LABELS and not is_classifier(gp):
        raise ValueError(
            f"strategy={strategy!r} is for classifiers, got {type(gp).__name__}: use "
            "strategy='variance'."
        )
    if strategy == AUTO:
        return UNCERTAIN if is_classifier(gp) else VARIANCE
    return str(strategy)


def _check_number(n: object, most: int, n_pool: int) -> None:
    """Raise unless so many samples can be chosen from a pool."""
    is_number = isinstance(n, Integral) and not isinstance(n, bool)
    if is_number and 1 <= n <= most:  # type: ignore[operator]
        return
    more = "" if most == n_pool else ": choose some, label them, fit and ask again"
    raise ValueError(
        f"`n` must be an integer from 1 to {most} for {n_pool} samples{more}. Got "
        f"{n!r}."
    )
