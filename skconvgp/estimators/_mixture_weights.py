"""Weights of a mixture of classifiers, by evidence or by stacking, and their checks."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from skconvgp._protocols import LinkLikelihood
from skconvgp._tensors import int_range
from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy
from skconvgp.estimators._candidates import have_same_targets, last_step, targets_of
from skconvgp.estimators._doors import process_of
from skconvgp.estimators._warn import ask_each
from skconvgp.inference import stacking_weights
from skconvgp.processes import FittedProcess


def weights_by_evidence(fitted: dict[str, Any], n_samples: int) -> FloatArray:
    """Return the posterior probabilities of estimators with equal prior weights."""
    steps = list(map(last_step, fitted.values()))
    for name, one in zip(fitted, steps, strict=True):
        _require_all(name, one.fit_report_.n_samples, n_samples)
    require_same_targets(steps, "Evidences", "Use weights='stacking'.")
    evidences = np.array([one.log_marginal_likelihood() for one in steps])
    if not np.isfinite(evidences).all():
        by_name = dict(zip(fitted, evidences.tolist(), strict=True))
        raise ValueError(
            f"Evidences must be finite, got {by_name!r}: raise `noise_variance`, or "
            "use a solver that converges."
        )
    share = independent_share(process_of(steps[0]), targets_of(steps[0]))
    weights: FloatArray = softmax(share * evidences)
    return weights


def independent_share(process: FittedProcess, targets: NDArray[Any]) -> float:
    """Return the share of the columns of targets that are independent.

    The columns of the targets sum to zero, so that one of them follows from the others:
    the evidence of all columns counts the same data once too often.
    """
    if process.has_one_latent:
        return 1.0
    targets = targets.reshape(len(targets), -1)
    return float(np.linalg.matrix_rank(targets) / targets.shape[1])


def require_same_targets(steps: list[Any], what: str, remedy: str) -> None:
    """Raise if classifiers have targets that cannot be compared."""
    if not have_same_targets(steps):
        names = sorted({repr(one.likelihood_) for one in steps})
        raise ValueError(
            f"{what} of different targets cannot be compared, and {', '.join(names)} "
            f"make different targets of the labels. {remedy}"
        )


def require_same_latents(steps: list[Any]) -> None:
    """Raise if the latent functions of classifiers have no common scale."""
    remedy = "Use `predict_proba`."
    require_same_targets(steps, "Latent functions", remedy)
    links = [one for one in steps if isinstance(one.likelihood_, LinkLikelihood)]
    probes = [_log_probs_at_probes(one.likelihood_, len(one.classes_)) for one in links]
    if any(not torch.equal(one, probes[0]) for one in probes):
        names = sorted({repr(one.likelihood_) for one in links})
        raise ValueError(
            f"Latent functions of {', '.join(names)} have different scales and cannot "
            f"be mixed. {remedy}"
        )


def _log_probs_at_probes(likelihood: LinkLikelihood, n_classes: int) -> torch.Tensor:
    """Return log probabilities of labels at latents of 0 and 1, and how many latents.

    The probes are the rows of a unit matrix, a row for each class.
    """
    n_latents = likelihood.n_latents(n_classes)
    latents = torch.eye(n_classes, n_latents, dtype=torch.float64, device="cpu")
    log_prob = likelihood.sites(latents, int_range(n_classes)).log_prob
    return torch.cat([log_prob, log_prob.new_tensor([n_latents])])


def weights_by_stacking(
    fitted: dict[str, Any], codes: NDArray[np.intp], weights: FloatArray
) -> FloatArray:
    """Return the weights of the mixture with the least leave-one-out log loss."""
    for name, one in fitted.items():
        if not process_of(last_step(one)).has_left_out:
            raise ValueError(
                f"Stacking needs leave-one-out predictions, but the solver of {name!r} "
                "is too far from a solution: raise its `noise_variance`, or allow "
                "more iterations."
            )
        _require_all(name, last_step(one).fit_report_.n_samples, len(codes))
    everyone = np.arange(len(codes))
    columns = [y_prob[everyone, codes] for y_prob in left_out_probabilities(fitted)]
    y_prob_true = torch.from_numpy(np.column_stack(columns))
    return to_numpy(stacking_weights(y_prob_true, torch.from_numpy(weights)))


def left_out_probabilities(fitted: dict[str, Any]) -> list[FloatArray]:
    """Return the leave-one-out probabilities (n, n_classes) of each estimator."""
    return ask_each(fitted, lambda one: last_step(one).loo_predict_proba())


def _require_all(name: str, n_used: int, n_samples: int) -> None:
    if n_used != n_samples:
        raise ValueError(
            f"Estimators must be fitted to the same samples to be weighed: {name!r} "
            f"uses {n_used} of {n_samples}."
        )
