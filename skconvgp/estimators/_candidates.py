"""Candidates of a comparison or a mixture: kernels, processes and pipelines."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from skconvgp._protocols import LinkLikelihood
from skconvgp.engine import to_numpy
from skconvgp.estimators._classification import ConvNetGPClassifier
from skconvgp.estimators._doors import process_of, training_of
from skconvgp.estimators._labels import targets_for
from skconvgp.estimators._regression import ConvNetGPRegressor
from skconvgp.estimators.settings._checks import is_kernel


def is_candidate(given: object) -> bool:
    """Return whether an object is a kernel or an estimator."""
    return is_kernel(given) or hasattr(given, "fit")


def usual_process(candidate: Any, *, is_label: bool) -> Any:
    """Return the estimator that a kernel stands for; other candidates as they are."""
    if not is_kernel(candidate):
        return candidate
    cls = ConvNetGPClassifier if is_label else ConvNetGPRegressor
    return cls(candidate, noise_variance="evidence")


def last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline; other estimators as they are."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def last_inputs(estimator: Any, X: Any) -> Any:
    """Return the inputs of the last step of a fitted pipeline."""
    return estimator[:-1].transform(X) if isinstance(estimator, Pipeline) else X


def targets_of(gp: Any) -> NDArray[Any]:
    """Return the targets that the likelihood of a classifier makes of the labels."""
    codes: Any = training_of(gp).codes
    likelihood = gp.likelihood_
    if isinstance(likelihood, LinkLikelihood):
        return codes  # type: ignore[no-any-return]
    weights = process_of(gp).model.sample_weights
    return to_numpy(targets_for(likelihood, codes, len(gp.classes_), weights).values)


def have_same_targets(processes: list[Any]) -> bool:
    """Return whether fitted processes have the same targets."""
    first = processes[0]
    if not is_classifier(first):
        return len({process_of(gp).model.n_samples for gp in processes}) == 1
    kinds = {type(gp.likelihood_) for gp in processes}
    targets = [targets_of(gp) for gp in processes]
    return len(kinds) == 1 and all(
        one.shape == targets[0].shape and np.allclose(one, targets[0])
        for one in targets
    )
