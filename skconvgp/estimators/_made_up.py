"""Samples, labels and targets that are made up where only a shape is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Sized
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from skconvgp.engine import require_memory
from skconvgp.estimators._fitting import FitData
from skconvgp.estimators.compute._rates import spread
from skconvgp.processes import LabelModel, Problem

CLASSES, OUTPUTS = 10, 1  # that are made up
READ = 2000  # samples of a shape that are read in place of all
HOST = torch.device("cpu")
# Of all samples of a shape: copies of targets, and bytes of weights and indices.
TARGET_COPIES, OF_A_SAMPLE = 3, 256


def as_shape(X: object) -> tuple[int, ...]:
    """Return the shape that is given in place of samples; () for samples.

    Raises
    ------
    ValueError
        For a shape that is none of samples.
    """
    if not (isinstance(X, tuple) and X and all(map(is_size, X))):
        return ()
    shape = tuple(map(int, X))
    if len(shape) not in (2, 3, 4) or min(shape) < 1:
        raise ValueError(
            "A shape of X is (n, d), (n, h, w) or (n, c, h, w), with numbers > 0, got "
            f"{shape!r}."
        )
    return shape


def is_size(value: object) -> bool:
    """Return whether a value may be a size of an array."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def samples_of_shape(shape: tuple[int, ...]) -> Any:
    """Return different samples of a shape, which hold the memory of a few.

    Each is the one before, moved by a value. A square matrix of them is symmetric.
    """
    n, each = shape[0], math.prod(shape[1:])
    values = np.random.default_rng(0).random(n + each - 1)
    return sliding_window_view(values, each).reshape(shape)


def few_of_shape(
    shape: tuple[int, ...], y: Any, n_outputs: int | None, *, is_label: bool
) -> tuple[Any, Any]:
    """Return a few samples of a shape, and theirs of the labels or targets of all.

    They are read in place of all. Each class is among them. Without labels or targets y
    is None.
    """
    n, firsts = shape[0], np.arange(n_outputs or CLASSES)
    if y is not None:
        y = np.asarray(y)
        count = len(y) if y.ndim else 1
        if count != n:
            raise ValueError(f"y has {count} values for {n} samples.")
        if is_label and y.ndim == 1:
            comparable = y.astype(str) if y.dtype == object else y
            firsts = np.unique(comparable, return_index=True)[1]
    indices = spread(n, max(READ, 2 * len(firsts)))
    if y is not None:
        indices = np.union1d(indices, firsts) if is_label else indices
        y = y[indices]
    m = len(indices)
    rest = (m,) if is_square(shape) else shape[1:]
    return samples_of_shape((m, *rest)), y


def is_square(shape: tuple[int, ...]) -> bool:
    """Return whether a shape may be that of a Gram matrix."""
    return len(shape) == 2 and shape[0] == shape[1]


def grown(
    data: FitData,
    shape: tuple[int, ...],
    models_of: Callable[[Problem], Sequence[LabelModel]],
) -> FitData:
    """Return data of all samples of a shape, given those of a few that were read.

    Raises a `TileMemoryError` if there is no memory for their targets.
    """
    n, few, samples = shape[0], data.problem, data.samples
    needed = n * (few.targets[:1].nbytes * TARGET_COPIES + OF_A_SAMPLE)
    require_memory(needed, HOST, f"A plan of {n} samples", "plan for fewer samples.")
    rows = samples_of_shape(shape).reshape(n, -1)
    order = np.arange(n) % len(few.rows)
    codes = None if few.codes is None else few.codes[order]
    own = few.noise_variances
    problem = replace(
        few,
        rows=rows,
        targets=few.targets[order],
        weights=few.weights[order],
        codes=codes,
        noise_variances=None if own is None else own[order],
    ).with_different_rows()
    basis = replace(samples.basis, rows=rows, indices=np.arange(n))
    models = models_of(problem) if data.models else ()
    return replace(
        data,
        problem=problem,
        samples=replace(samples, basis=basis, weights=problem.weights),
        models=models,
    )


def targets_for(X: Any, n_outputs: int | None, *, is_label: bool) -> Any:
    """Return labels or targets of samples, which may be none that a fit takes."""
    shape = getattr(X, "shape", None)
    n = (len(X) if isinstance(X, Sized) else 1) if shape is None else (*shape, 1)[0]
    if is_label:
        return np.arange(n) % (n_outputs or CLASSES)
    return np.random.default_rng(0).normal(size=(n, n_outputs or OUTPUTS))
