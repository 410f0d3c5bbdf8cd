"""The targets that a new sample has with each of the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy
from skconvgp.estimators._labels import regression_targets

__all__ = ["LabelTargets", "label_weights"]


@dataclass(frozen=True)
class LabelTargets:
    """Targets of latent functions, less the prior means, for a label and for others."""

    own: FloatArray  # (k,), of the function of a label
    other: FloatArray  # (k,), of all others

    @classmethod
    def of(cls, classifier: Any) -> Self:
        """Return the targets of a fitted classifier."""
        k = len(classifier.classes_)
        codes = np.arange(k)
        targets = regression_targets(classifier.likelihood_, codes, k, np.ones(k))
        values = to_numpy(targets.values) - classifier.latent_offset_
        own = values.diagonal().copy()
        other = values[(codes + 1) % k, codes]
        expected = np.where(np.eye(k, dtype=bool), own, other)
        if not np.array_equal(values, expected):
            raise ValueError(
                f"{classifier.likelihood_!r} gives a latent function several targets "
                "for the labels of others: use likelihood='gaussian'."
            )
        return cls(own, other)


def label_weights(classifier: Any, codes: Any, weights: FloatArray) -> FloatArray:
    """Return how many observations (k,) a new sample of each label is.

    They are those of `class_weight`, given codes and weights (n,) of samples.
    """
    k, given = len(classifier.classes_), getattr(classifier, "class_weight", None)
    if given is None:
        return np.ones(k)
    if isinstance(given, str):
        found = np.ones(k)
        for code in np.unique(codes):
            own = weights[codes == code]
            if np.ptp(own) > 1e-12 * own.max():
                raise ValueError(
                    "With class_weight='balanced' and sample weights the weight of a "
                    "new sample is not known: pass a dict of weights as `class_weight`."
                )
            found[code] = own[0]
        return found
    labels = classifier.classes_.tolist()
    return np.array([float(given.get(label, 1.0)) for label in labels])
