"""The doors for arrays: they check samples and turn them into values of the package."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import host_numbers, host_values
from skconvgp.estimators._given import (
    checked_pair,
    checked_rows,
    host_samples,
    images_to_rows,
    rows_of,
)
from skconvgp.estimators._groups import read_groups
from skconvgp.estimators._intervals import LeftOutErrors
from skconvgp.estimators._repeats import marks_of, marks_of_rows, warn_of_repeats
from skconvgp.estimators._scale import mean_squares, warn_of_scale, warn_of_weights
from skconvgp.estimators._shown import ShownSamples
from skconvgp.estimators._validation import (
    check_same_shape,
    check_weights,
    random_source,
    require_many,
    require_symmetric,
    shape_of_rows,
)
from skconvgp.estimators.compute._kept_tiles import warn_of_unknown
from skconvgp.estimators.settings._checks import as_kernel, is_precomputed
from skconvgp.estimators.settings._compute import Compute
from skconvgp.processes import (
    Basis,
    FittedProcess,
    KernelBasis,
    MatrixBasis,
    NewRows,
)

# What is expected as a kernel.
OR_A_MATRIX = "None, a kernel of skconvgp.kernels or 'precomputed'"

# Returns weights of samples, given y and the weights (n,) that were passed.
Reweigh: TypeAlias = Callable[[NDArray[Any], FloatArray], FloatArray]

LEAST_OTHERS = 20  # weight of samples that are no landmarks, to judge new ones by


@dataclass(frozen=True)
class Training:
    """Record that an estimator keeps of its training samples.

    Parameters
    ----------
    kept : ndarray of shape (n,)
        Indices of the samples that the process uses: their weights are not 0, and a
        completion has not left them out.
    n_given : int
        Number of samples that were given.
    mean_squares : tuple of float
        The smallest and the largest mean square of a sample.
    codes : ndarray of shape (n,) or None, default=None
        Class codes of the kept samples, if there are classes.
    is_informed : bool, default=True
        Whether any target of a regression differs from the prior mean.
    is_single : bool, default=False
        Whether the targets of a regression came without a dimension of outputs.
    marks : ndarray of shape (n,) or None, default=None
        Numbers that equal samples share; None for a given matrix, and if the estimator
        has no `partial_fit`.
    shown : ShownSamples or None, default=None
        Some samples with their contrasts and prior variances, if probabilities are
        calibrated.
    errors : LeftOutErrors or None, default=None
        Errors of left-out targets, for intervals of a regressor.
    landmarks : ndarray of shape (m,) or None, default=None
        Numbers of the rows of landmarks; None if there are none.
    are_landmarks : ndarray of shape (n,) or None, default=None
        Whether each kept sample has the inputs of a landmark.
    offsets : ndarray of shape (n, n_outputs) or None, default=None
        What the prior mean predicts of each kept sample, in units of y; None if there
        is no such mean.
    left_out_offsets : ndarray of shape (n, n_outputs) or None, default=None
        The same by a mean that is fitted without the sample.
    mean_factor : float, default=1.0
        How much larger the latter's errors are: the mean knows its own samples.
    """

    kept: NDArray[np.intp]
    n_given: int
    mean_squares: tuple[float, float]
    codes: NDArray[np.intp] | None = None
    is_informed: bool = True
    is_single: bool = False
    marks: NDArray[np.uint64] | None = None
    shown: ShownSamples | None = None
    errors: LeftOutErrors | None = None
    landmarks: NDArray[np.uint64] | None = None
    are_landmarks: NDArray[np.bool_] | None = None
    offsets: FloatArray | None = None
    left_out_offsets: FloatArray | None = None
    mean_factor: float = 1.0

    def targets(self, scaled: FloatArray, scale: Any, mean: Any) -> FloatArray:
        """Return the targets (n, k) of the fit in units of y, from scaled ones."""
        targets: FloatArray = scaled * scale + mean
        return targets if self.offsets is None else targets + self.offsets

    def take(self, used: NDArray[np.intp]) -> Training:
        """Return this record for a subset of the kept samples."""
        codes = None if self.codes is None else self.codes[used]
        marks = None if self.marks is None else self.marks[used]
        are_landmarks, left_out = self.are_landmarks, self.left_out_offsets
        return replace(
            self,
            kept=self.kept[used],
            codes=codes,
            marks=marks,
            are_landmarks=None if are_landmarks is None else are_landmarks[used],
            offsets=None if self.offsets is None else self.offsets[used],
            left_out_offsets=None if left_out is None else left_out[used],
        )

    def with_landmarks(
        self, rows: NDArray[Any], landmarks: NDArray[np.uint64]
    ) -> Training:
        """Return this record with landmarks, given the kept rows (n, d)."""
        are_landmarks = np.isin(marks_of_rows(rows), landmarks)
        return replace(self, landmarks=landmarks, are_landmarks=are_landmarks)

    def with_landmarks_at(
        self, rows: NDArray[Any], indices: NDArray[np.intp]
    ) -> Training:
        """Return this record with landmarks: their indices, among rows (n, d)."""
        rows = rows[: len(self.kept)]  # further versions of images follow
        places = np.searchsorted(self.kept, indices)
        return self.with_landmarks(rows, marks_of_rows(rows[places]))

    def weights_as_new(
        self, indices: NDArray[np.intp], weights: FloatArray
    ) -> FloatArray:
        """Return weights (m,) of left-out samples that are 0 for landmarks.

        Features leave nothing of a landmark out. If nearly all samples are landmarks,
        there is little that they leave out of others, and all count.
        """
        if self.are_landmarks is None:
            return weights
        others: FloatArray = weights * ~self.are_landmarks[indices]
        return others if others.sum() >= LEAST_OTHERS else weights

    def new_codes(self, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the codes of classes that no sample so far has."""
        new: NDArray[np.intp] = np.setdiff1d(codes, self.codes)  # type: ignore[arg-type]
        return new

    def join(self, further: Training, rows: NDArray[Any] | None = None) -> Training:
        """Return the record of these samples and of further ones.

        The rows (n, d) of the further ones say which of them are like landmarks.
        """
        if self.landmarks is not None and rows is not None:
            further = further.with_landmarks(rows, self.landmarks)
        (least, other_least), (largest, other_largest) = zip(
            self.mean_squares, further.mean_squares, strict=True
        )
        return replace(
            self,
            kept=np.concatenate([self.kept, self.n_given + further.kept]),
            n_given=self.n_given + further.n_given,
            mean_squares=(min(least, other_least), max(largest, other_largest)),
            codes=_concatenated(self.codes, further.codes),
            marks=_concatenated(self.marks, further.marks),
            are_landmarks=_concatenated(self.are_landmarks, further.are_landmarks),
            offsets=_concatenated(self.offsets, further.offsets),
            left_out_offsets=_concatenated(
                self.left_out_offsets, further.left_out_offsets
            ),
            is_informed=self.is_informed or further.is_informed,
        )


def _concatenated(
    one: NDArray[Any] | None, other: NDArray[Any] | None
) -> NDArray[Any] | None:
    """Return the values of samples and of further ones, if both are known."""
    return None if one is None or other is None else np.concatenate([one, other])


@dataclass(frozen=True)
class Samples:
    """Training samples of positive weight.

    Parameters
    ----------
    basis : KernelBasis or MatrixBasis
        The samples and their covariances.
    y : ndarray of shape (n, ...)
        Labels or targets.
    weights : ndarray of shape (n,)
        Sample weights, > 0.
    training : Training
        Record that an estimator keeps about them.
    groups : ndarray of shape (n,) or None, default=None
        Numbers that samples share which are left out together.
    """

    basis: KernelBasis | MatrixBasis
    y: NDArray[Any]
    weights: FloatArray
    training: Training
    groups: NDArray[np.intp] | None = None

    def less(self, offsets: FloatArray, left_out: FloatArray, factor: float) -> Samples:
        """Return the samples with what is left of their targets by offsets (n, k).

        Those that are left out, and the factor, are as in `Training`.
        """
        training = replace(
            self.training,
            offsets=offsets,
            left_out_offsets=left_out,
            mean_factor=factor,
        )
        y = self.y - offsets.reshape(self.y.shape)
        return replace(self, y=y, training=training)

    def with_groups(self, groups: NDArray[np.intp] | None) -> Samples:
        """Return the samples with groups (n_given,) of all that were given, if any."""
        if groups is None:
            return self
        return replace(self, groups=groups[self.training.kept])

    @property
    def is_nothing(self) -> bool:
        """Whether no sample counts, which only a later batch may say."""
        return not len(self.weights)

    @property
    def image_shape(self) -> ImageShape | None:
        """Shape (c, h, w) as which a row is read; None for a given matrix."""
        basis = self.basis.kernel_basis
        return None if basis is None else basis.image_shape

    @property
    def rows(self) -> NDArray[Any]:
        """Inputs (n, d), or the Gram matrix (n, n)."""
        assert self.basis.rows is not None
        return self.basis.rows


def read_training(
    estimator: Any,
    settings: Compute,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    *,
    read_y: Callable[[Any], NDArray[Any]] = np.asarray,
    reweigh: Reweigh | None = None,
    groups: Any = None,
    keeps_rows: bool = True,
    **options: Any,
) -> Samples:
    """Return training samples; set the attributes that describe the columns of X.

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_` and, if X has names, `feature_names_in_`.
    settings : Compute
        Its settings.
    X, y, sample_weight : array-like
        As in `fit`.
    read_y : callable
        Returns checked labels or targets, or raises an error.
    reweigh : callable, optional
        Returns weights of samples, given y and the weights that were passed.
    groups : array-like of shape (n,), optional
        Groups of samples that are left out together.
    keeps_rows : bool, default=True
        Whether a fitted model keeps all training inputs.
    **options : object
        For :func:`sklearn.utils.validation.validate_data`.
    """
    random_source(settings["random_state"])  # an error even if nothing is drawn
    X, y = host_samples(X), host_values(y, "y")
    rows, given = rows_of(X)
    rows, y = checked_pair(estimator, rows, y, **options)
    y = read_y(y)
    own = None if groups is None else read_groups(groups, len(rows))
    if is_precomputed(settings["kernel"]):
        return _read_matrix(rows, y, sample_weight, reweigh).with_groups(own)
    if keeps_rows and np.may_share_memory(rows, np.asarray(X)):
        rows = rows.copy()  # the caller may change X later
    default = type(estimator)._default_kernel()
    kernel = settings.read("kernel", as_kernel, expected=OR_A_MATRIX, usual=default)
    kernel = copy.deepcopy(kernel)
    warn_of_unknown(settings.folder, kernel)
    shape = shape_of_rows(kernel, settings["image_shape"], rows.shape[1], given)
    n_given = len(rows)
    weights, kept = _weigh(sample_weight, rows, y, reweigh)
    if len(kept) < n_given:
        rows, y = rows[kept], y[kept]
    squares = mean_squares(rows)
    basis = KernelBasis(kernel, rows, kept, shape).resolved()
    marks = marks_of(rows, y) if hasattr(estimator, "partial_fit") else None
    training = Training(kept, n_given, squares, marks=marks)
    return Samples(basis, y, weights, training).with_groups(own)


def read_further(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    basis: KernelBasis | MatrixBasis,
    training: Training,
    *,
    reweigh: Reweigh | None = None,
    **options: Any,
) -> Samples:
    """Return further samples; raise unless they have the shape of `fit`.

    Rows of a precomputed kernel hold covariances with the samples of `fit`. Parameters
    are those of `read_training`; `basis` and `training` are of the samples so far.
    """
    rows, given = images_to_rows(X)
    if estimator.image_shape_ is not None:
        check_same_shape(estimator.image_shape_, estimator.image_shape, given)
    y = host_values(y, "y")
    rows, y = checked_pair(estimator, rows, y, reset=False, **options)
    squares, marks = training.mean_squares, None
    weights, kept = _weigh(sample_weight, rows, y, reweigh, can_be_zero=True)
    if basis.knows_variances and len(kept):
        warn_of_scale(rows[kept], squares)
        squares, marks = mean_squares(rows[kept]), marks_of(rows[kept], y[kept])
        warn_of_repeats(marks, training.marks)
    record = Training(kept, len(rows), squares, marks=marks)
    basis = replace(basis, rows=rows[kept], indices=kept)
    return Samples(basis, y[kept], weights, record)


def read_new(estimator: Any, X: Any) -> NDArray[Any]:
    """Return new samples of a fitted estimator as rows."""
    X = host_samples(X)
    rows, given = rows_of(X)
    if estimator.image_shape_ is not None:
        require_many(tuple(getattr(X, "shape", ())), estimator.image_shape_)
        check_same_shape(estimator.image_shape_, estimator.image_shape, given)
    return checked_rows(estimator, rows, reset=False)


def _read_matrix(
    gram: NDArray[Any],
    y: NDArray[Any],
    sample_weight: ArrayLike | None,
    reweigh: Reweigh | None,
) -> Samples:
    if gram.shape[0] != gram.shape[1]:
        raise ValueError(
            "With kernel='precomputed', X in `fit` must be the square Gram "
            f"matrix K(X, X), got shape {gram.shape!r}."
        )
    require_symmetric(gram)
    weights, kept = _weigh(sample_weight, gram, y, reweigh)
    training = Training(kept, len(gram), (0.0, np.inf))
    if len(kept) < len(gram):
        gram, y = gram[np.ix_(kept, kept)], y[kept]
    return Samples(MatrixBasis(gram, kept), y, weights, training)


def _weigh(
    sample_weight: ArrayLike | None,
    rows: NDArray[Any],
    y: NDArray[Any],
    reweigh: Reweigh | None,
    *,
    can_be_zero: bool = False,
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the weights > 0, and the indices of their samples."""
    weights = check_weights(sample_weight, rows, can_be_zero=can_be_zero)
    if reweigh is not None:
        weights = reweigh(y, weights)
    kept = np.flatnonzero(weights)
    if len(kept):
        warn_of_weights(weights[kept])
    return weights[kept], kept


def new_rows(
    basis: Basis, rows: NDArray[Any], diag: Any, *, is_needed: bool
) -> NewRows:
    """Return new samples, with the prior variances `diag` (n,) for a given matrix.

    Raises
    ------
    ValueError
        If variances are needed and not known, or have another shape.
    """
    if diag is None:
        if is_needed and not basis.knows_variances:
            raise ValueError(
                "With kernel='precomputed' standard deviations need the prior "
                "variances of the samples: pass `diag`, an array of k(x, x) for "
                "each row of X, to `predict_latent` or `predict_interval`. "
                "Probabilities by a likelihood that reads variances need a kernel "
                "object."
            )
        return NewRows(rows)
    values = host_numbers(diag, "diag")
    if values.shape != (len(rows),):
        raise ValueError(
            f"`diag` must have shape {(len(rows),)!r}, one prior variance for each row "
            f"of X, got {values.shape!r}."
        )
    return NewRows(rows, values)


def process_of(estimator: Any) -> FittedProcess:
    """Return the process of an estimator; raise an AttributeError before `fit`."""
    try:
        process: FittedProcess = estimator._process
    except AttributeError:
        owner = type(estimator).__name__
        raise AttributeError(f"{owner} is not fitted yet.") from None
    return process


def training_of(estimator: Any) -> Training:
    """Return the record of the training samples of a fitted estimator."""
    training: Training = estimator._training
    return training
