"""Asked: a fitted estimator, as the questions see it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skconvgp._typing import FloatArray
from skconvgp.estimators._doors import new_rows
from skconvgp.estimators._series import warn_of_basis
from skconvgp.metrics._predictive import half_width
from skconvgp.processes import NOT_KEPT, NewRows, Question, Scored

__all__ = ["Asked", "alpha_of", "low_noise"]

NO_FACTOR = (
    "it keeps no factor of the Gram matrix of all training samples with one noise for "
    "all: use {instead}"
)
# Processes with another noise, while those that they were made of are in memory.
_LOW_NOISE: dict[int, Any] = {}


@dataclass(frozen=True)
class Asked:
    """A fitted estimator with a process that can take one more sample."""

    estimator: Any
    process: Any

    @classmethod
    def of(
        cls, estimator: Any, question: str, instead: str, *, other_noise: bool = False
    ) -> Self:
        """Return an estimator that a question, a name of a function, is asked of.

        `instead` says which estimators can answer if this one cannot. `other_noise`
        says whether the question needs `low_noise`.
        """
        check_is_fitted(estimator)
        process = getattr(estimator, "_process", None)
        left_out = getattr(process, "left_out", None)
        why = getattr(left_out, "why_no_more", None)
        text = NO_FACTOR.format(instead=instead)
        if getattr(getattr(process, "basis", None), "gives_means", False):
            text = NOT_KEPT.format("the factor of its matrix").rstrip(".")
        elif why is not None:
            text = why(process, other_noise=other_noise) or _why_not(estimator)
        if text:
            owner = type(estimator).__name__
            raise ValueError(f"{owner} cannot answer `{question}`: {text}.")
        return cls(estimator, process)

    @cached_property
    def scored(self) -> Scored:
        """The samples that new ones are compared with."""
        found: Scored = self.process.left_out.scored(self.process)
        return found

    @property
    def of_samples(self) -> Any:
        """The input (n,) of each scored sample; a slice if each has its own."""
        of = self.scored.of
        return slice(None) if len(of) == self.n_inputs else of

    @property
    def n_inputs(self) -> int:
        """Number of different inputs."""
        return int(self.scored.of.max()) + 1

    @property
    def weights(self) -> FloatArray:
        """Weights (n,) of the scored samples."""
        weights: FloatArray = self.process.model.weights[self.scored.samples]
        return weights

    def shares(self, kinds: NDArray[Any] | None = None) -> FloatArray:
        """Return the shares (n,) of scored samples in their units, which add up to 1.

        With `kinds` (n,) those of each kind of a unit do.
        """
        units = self.scored.units
        if kinds is not None:
            units = units * (int(kinds.max()) + 1) + kinds
        _, own = np.unique(units, return_inverse=True)
        shares: FloatArray = self.weights / np.bincount(own, self.weights)[own]
        return shares

    @property
    def codes(self) -> NDArray[np.intp]:
        """Class codes (n,) of the scored samples."""
        codes: NDArray[np.intp] = self.estimator._training.codes[self.scored.samples]
        return codes

    def with_process(self, process: Any) -> Self:
        """Return the estimator with another process of the same samples."""
        return replace(self, process=process)

    def read(self, X: Any, diag: Any) -> NewRows:
        """Return new samples, with prior variances (n,) for a given matrix."""
        rows = self.estimator._read_new(X)
        warn_of_basis(self.process.basis, rows)
        return new_rows(self.process.basis, rows, diag, is_needed=True)

    def ask(self, new: NewRows, question: Question) -> list[FloatArray]:
        """Return what a question says of each new sample."""
        resources = self.estimator._resources()
        found: list[FloatArray] = self.process.left_out.ask(
            self.process, new, resources, question
        )
        return found


def _why_not(estimator: Any) -> str:
    """Return why new samples are not like those of a fit; empty if they can be."""
    are_landmarks = estimator._training.are_landmarks
    if are_landmarks is None or not are_landmarks.any():
        return ""
    return (
        "its training samples were selected, so that new ones are not like them: fit "
        "with completion=None to a random subset"
    )


def low_noise(asked: Asked, noise: float) -> Asked:
    """Return it with another noise, by one factorisation at the first call.

    It is kept as long as the fitted process is in memory.
    """
    process = asked.process
    key = id(process)
    if key not in _LOW_NOISE:
        resources = asked.estimator._resources()
        found = process.left_out.with_noise(process, noise, resources)
        _LOW_NOISE[key] = found
        weakref.finalize(process, _LOW_NOISE.pop, key, None)
    return asked.with_process(_LOW_NOISE[key])


def alpha_of(level: float) -> float:
    """Return the share of errors of a level; raise unless it is between 0 and 1."""
    half_width(level)
    return 1.0 - float(level)
