"""Samples and targets of `BinaryEncoder`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length

from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import host_values, slices, to_tensor
from skconvgp.estimators._columns import require_distinct_names
from skconvgp.estimators._given import checked_rows, images_to_rows
from skconvgp.estimators._labels import (
    as_labels,
    kind_of,
    require_classes,
    require_one_kind,
)
from skconvgp.estimators._scale import mean_squares
from skconvgp.estimators._targets import scale_targets, target_columns
from skconvgp.estimators._validation import random_source, read_shape
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.networks._encoder_head import BLOCK
from skconvgp.estimators.networks._encoder_settings import (
    CLASSES,
    NUMBERS,
    EncoderSettings,
)
from skconvgp.estimators.settings._checks import AUTO
from skconvgp.networks import LINEAR, ClassLosses, SampleLosses, SquareLosses

# Different numbers that "auto" reads as classes without a warning.
MANY = 50
MULTILABEL = ("multilabel-indicator", "multiclass-multioutput")


class Decoded(Protocol):
    """Targets that codes are decoded to, in their own units, and their losses."""

    @property
    def is_single(self) -> bool:
        """Whether the targets had no dimension of outputs."""
        ...

    def losses(self, device: torch.device) -> SampleLosses:
        """Return the losses of all samples, on a device."""
        ...

    def targets(self, rows: slice) -> FloatArray:
        """Return the targets (b, k) of a linear head for some samples."""
        ...


@dataclass(frozen=True)
class Labels:
    """Classes to which codes are decoded."""

    codes: NDArray[np.intp]  # class codes (n,)
    classes: NDArray[Any]
    is_single: bool = True  # whether they came without a dimension of outputs: they did

    def losses(self, device: torch.device) -> ClassLosses:
        """Return cross-entropies."""
        return ClassLosses(to_tensor(self.codes, device), len(self.classes))

    def targets(self, rows: slice) -> FloatArray:
        """Return 1 for the class of a sample, and 0 for the others."""
        targets: FloatArray = np.eye(len(self.classes))[self.codes[rows]]
        return targets


@dataclass(frozen=True)
class Numbers:
    """Numbers to which codes are decoded."""

    values: NDArray[Any]  # (n, k)
    offset: FloatArray  # (k,), subtracted from the numbers in a training
    scale: FloatArray  # (k,), by which the differences are divided then
    is_single: bool = False  # whether they came without a dimension of outputs

    def losses(self, device: torch.device) -> SquareLosses:
        """Return mean squared errors of the scaled numbers."""
        arrays = self.values, self.offset, self.scale
        return SquareLosses(*(to_tensor(one, device) for one in arrays))

    def targets(self, rows: slice) -> FloatArray:
        """Return the numbers."""
        return np.asarray(self.values[rows], dtype=np.float64)


@dataclass(frozen=True)
class CodedSamples:
    """Training samples."""

    rows: NDArray[Any]  # inputs (n, d)
    decoded: Decoded  # labels or numbers to which codes are decoded
    units: Numbers  # the samples as numbers, with an offset and a scale
    image_shape: ImageShape  # how a row is read
    # The smallest and the largest mean square of a sample.
    mean_squares: tuple[float, float]

    @property
    def is_supervised(self) -> bool:
        """Whether codes are decoded to other things than samples."""
        return self.decoded is not self.units


def read_coded_samples(
    estimator: Any, X: Any, y: Any, settings: EncoderSettings
) -> CodedSamples:
    """Return training samples; set the attributes that describe the columns of X."""
    random_source(settings.given["random_state"])
    rows, given = images_to_rows(X)
    rows = checked_rows(estimator, rows)
    squares = mean_squares(rows)
    is_spatial = settings.encoder != LINEAR
    shape = read_shape(
        settings.given["image_shape"], rows.shape[1], given, is_spatial=is_spatial
    )
    units = _whole(rows)
    decoded: Decoded = units
    if y is not None:
        y = host_values(y, "y")
        require_distinct_names(y, "y")
        check_consistent_length(rows, y)
        decoded = _read_targets(y, settings)
    return CodedSamples(rows, decoded, units, shape, squares)


def _read_targets(y: Any, settings: EncoderSettings) -> Decoded:
    """Return labels or numbers."""
    if _target_type(y, settings) == CLASSES:
        classes, codes = np.unique(as_labels(y), return_inverse=True)
        require_classes(classes)
        _judge_classes(classes, settings)
        return Labels(codes, classes)
    values = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    if values.ndim > 2:
        raise ValueError(
            f"y must have the shape (n,) or (n, n_outputs), got {values.shape!r}."
        )
    columns = target_columns(values)
    offset, scale = scale_targets(columns, np.ones(len(columns)), is_scaled=True)
    return Numbers(columns, offset, scale, is_single=values.ndim == 1)


def _judge_classes(classes: NDArray[Any], settings: EncoderSettings) -> None:
    """Warn if whole numbers are read as classes, and are perhaps counts."""
    is_guessed = settings.target_type == AUTO and classes.dtype.kind in "iuf"
    if is_guessed and len(classes) > MANY:
        warn_caller(
            f"y holds {len(classes)} different whole numbers, which are read as "
            "classes: set target_type='numbers' to learn them as numbers, or "
            "target_type='classes' if they are labels.",
            UserWarning,
        )


def _whole(rows: NDArray[Any]) -> Numbers:
    """Return samples as their own targets, all columns in one unit."""
    offset = rows.mean(axis=0, dtype=np.float64)
    blocks = slices(len(rows), max(1, BLOCK // rows.shape[1]))
    total = sum(float(np.square(rows[block] - offset).sum()) for block in blocks)
    variance = total / rows.size
    scale = np.sqrt(variance) if variance > 0.0 else 1.0
    return Numbers(rows, offset, np.full(len(offset), scale))


def _target_type(y: Any, settings: EncoderSettings) -> str:
    """Return whether y holds classes or numbers."""
    if settings.target_type == NUMBERS:
        return NUMBERS
    require_one_kind(y)  # which the next line cannot read
    kind = kind_of(y)
    if kind in MULTILABEL:
        raise ValueError(
            f"y holds several labels of a sample ({kind}), and a code is learned for "
            "one: pass one column, or target_type='numbers' to learn them as numbers."
        )
    if settings.target_type == AUTO and kind.startswith("continuous"):
        return NUMBERS
    return CLASSES
