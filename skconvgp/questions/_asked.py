"""Asked: a fitted estimator, as the questions see it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skconvgp._typing import FloatArray
from skconvgp.estimators._augmenting import versions_of
from skconvgp.estimators._doors import new_rows
from skconvgp.estimators._given import host_samples
from skconvgp.estimators._series import warn_of_basis
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.metrics._predictive import half_width
from skconvgp.processes import NOT_KEPT, NewRows, Question, Scored

__all__ = [
    "Asked",
    "alpha_of",
    "check_flag",
    "given_samples",
    "low_noise",
    "refuse",
    "why_no_process",
    "why_wrapped",
    "with_versions",
]

NO_FACTOR = (
    "it is no Gaussian process with a factor, to which one more sample could be added: "
    "use {instead}"
)
# Processes with features of samples, or with another noise, by those that they were
# made of, while these are in memory.
_KEPT: dict[tuple[int, float | None], Any] = {}


@dataclass(frozen=True)
class Asked:
    """A fitted estimator with a process that can take one more sample."""

    estimator: Any
    process: Any

    @classmethod
    def of(
        cls,
        estimator: Any,
        question: str,
        instead: str,
        *,
        other_noise: bool = False,
        compares: bool = True,
    ) -> Self:
        """Return an estimator that a question, a name of a function, is asked of.

        `instead` says which estimators can answer if this one cannot. `other_noise`
        says whether the question needs `low_noise`, and `compares` whether it compares
        new samples with those of the fit.
        """
        settings = {"other_noise": other_noise}
        process = answering(estimator, question, instead, "why_no_more", **settings)
        asked = cls(estimator, _kept(estimator, process, None))
        if compares and not len(asked.scored.samples):
            refuse(
                estimator,
                question,
                "all of its training samples that it keeps were selected as landmarks, "
                "or are of the groups of these, which new samples are not: fit with "
                "fewer landmarks, or with completion=None",
            )
        return asked

    @cached_property
    def scored(self) -> Scored:
        """The samples that new ones are compared with."""
        found: Scored = self.process.left_out.scored(self.process)
        are_landmarks = self.estimator._training.are_landmarks
        if are_landmarks is None:
            return found
        # Features leave nothing of a landmark out, and little of its group: new samples
        # are not like them.
        units = found.units[are_landmarks[found.samples]]
        return found.take(~np.isin(found.units, units))

    @property
    def of_samples(self) -> Any:
        """The input (n,) of each scored sample; a slice if each has its own."""
        of, every = self.scored.of, np.arange(self.scored.n_inputs)
        return slice(None) if np.array_equal(of, every) else of

    @property
    def weights(self) -> FloatArray:
        """Weights (n,) of the scored samples."""
        weights: FloatArray = self.process.model.sample_weights[self.scored.samples]
        return weights

    @property
    def precisions(self) -> FloatArray:
        """How many observations of the mean noise one of each sample is worth (n,)."""
        unit = np.minimum(self.weights, 1.0)
        shares = self.process.model.noise_shares
        precisions: FloatArray = unit
        if shares is not None:
            precisions = unit / shares[self.scored.samples]
        return precisions

    def shares(
        self, counts: FloatArray, kinds: NDArray[Any] | None = None
    ) -> FloatArray:
        """Return the shares (n,) of scored samples in their units, which add up to 1.

        Each sample stands for so many equal ones as `counts` (n,) say. With `kinds`
        (n,) the shares of each kind of a unit add up to 1.
        """
        units = self.scored.units
        if kinds is not None:
            units = units * (int(kinds.max()) + 1) + kinds
        _, own = np.unique(units, return_inverse=True)
        shares: FloatArray = counts / np.bincount(own, counts)[own]
        return shares

    @property
    def codes(self) -> NDArray[np.intp]:
        """Class codes (n,) of the scored samples."""
        codes: NDArray[np.intp] = self.estimator._training.codes[self.scored.samples]
        return codes

    def read(self, X: Any, diag: Any) -> NewRows:
        """Return new samples, with prior variances (n,) for a given matrix."""
        rows = self.estimator._read_new(given_samples(X, "X"))
        warn_of_basis(self.process.basis, rows)
        rows = with_versions(self.estimator, rows)
        return new_rows(self.process.basis, rows, diag, is_needed=True)

    def ask(self, new: NewRows, question: Question) -> list[FloatArray]:
        """Return what a question says of each new sample."""
        resources = self.estimator._resources()
        found: list[FloatArray] = self.process.left_out.ask(
            self.process, new, resources, question
        )
        return found


def with_versions(estimator: Any, rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows of new images, and then versions of all of them, as in the fit."""
    count = estimator._process.model.n_versions
    if count == 1:
        return rows
    settings = GPSettings.of(estimator)
    return versions_of(settings, rows, estimator.image_shape_, count)


def given_samples(X: Any, name: str) -> Any:
    """Return samples as `host_samples` does, or raise that there are none."""
    found = host_samples(X)
    if not hasattr(found, "__len__") or getattr(found, "ndim", 1) == 0:
        raise ValueError(f"`{name}` must hold images or vectors, got {X!r}.")
    if not len(found):
        raise ValueError(f"`{name}` holds no samples: pass at least one.")
    return found


def why_wrapped(estimator: Any) -> str:
    """Return which estimator to ask instead of one around it; empty if it is none."""
    if hasattr(estimator, "best_estimator_"):
        return "it is a search: use its `best_estimator_`"
    if hasattr(estimator, "steps"):
        return (
            "it is a pipeline: use its last step, `pipeline[-1]`, with samples as "
            "`pipeline[:-1].transform` returns them"
        )
    return ""


def why_no_process(estimator: Any) -> str:
    """Return why an estimator has no process of its own; empty if it may have one."""
    wrapped = why_wrapped(estimator)
    if wrapped:
        return wrapped
    process = getattr(estimator, "_process", None)
    if getattr(getattr(process, "basis", None), "gives_means", False):
        return NOT_KEPT.format("the factor of its matrix").rstrip(".")
    return ""


def answering(
    estimator: Any, question: str, instead: str, name: str, **settings: Any
) -> Any:
    """Return the process of a fitted estimator that a question is asked of.

    The method of a name returns what the process lacks, an empty text for nothing.
    `instead` says which estimators can answer if there is no such method.
    """
    process = getattr(estimator, "_process", None)
    why = getattr(getattr(process, "left_out", None), name, None)
    text = NO_FACTOR.format(instead=instead)
    if why is not None:
        text = why(process, **settings)
    refuse(estimator, question, why_no_process(estimator) or text)
    return process


def refuse(estimator: Any, question: str, why: str) -> None:
    """Raise that an estimator has no answer, if there is a reason."""
    if why:
        owner = type(estimator).__name__
        raise ValueError(f"{owner} cannot answer `{question}`: {why}.")


def low_noise(asked: Asked, noise: float) -> Asked:
    """Return it with another noise, by one factorisation at the first call."""
    process = _kept(asked.estimator, asked.estimator._process, noise)
    return replace(asked, process=process)


def _kept(estimator: Any, process: Any, noise: float | None) -> Any:
    """Return a process with all that questions need, and another noise if given.

    It is kept as long as the process is in memory.
    """
    key = id(process), noise
    if key not in _KEPT:
        resources = estimator._resources()
        if noise is None:
            found = process.left_out.ready(process, resources)
            if found is process:  # which would keep itself in memory
                return process
        else:
            before = _kept(estimator, process, None)
            found = before.left_out.with_noise(before, noise, resources)
        _KEPT[key] = found
        weakref.finalize(process, _KEPT.pop, key, None)
    return _KEPT[key]


def alpha_of(level: float) -> float:
    """Return the share of errors of a level; raise unless it is between 0 and 1."""
    half_width(level)
    return 1.0 - float(level)


def check_flag(name: str, value: object) -> None:
    """Raise unless a setting is True or False."""
    is_flag = isinstance(value, bool | np.bool_)
    if not is_flag:
        raise ValueError(f"`{name}` must be True or False, got {value!r}.")
