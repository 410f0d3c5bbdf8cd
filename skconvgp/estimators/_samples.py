"""Draws of latent functions: from the posterior, or from the prior before `fit`."""

import copy
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from skconvgp._settings import is_int, one_of, shown
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    Size,
    compute_at,
    require_memory,
    rows_to_tensor,
    to_numpy,
)
from skconvgp.estimators._doors import read_training
from skconvgp.estimators._fact_warnings import warn_of_facts
from skconvgp.estimators._gp import BaseGP
from skconvgp.estimators._series import warn_of_prior
from skconvgp.estimators._validation import make_generator
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.inference import sample_gaussian
from skconvgp.processes import (
    GRAM_COPIES,
    Draws,
    FittedProcess,
    placement_of_fit,
    prepare_fit,
    scaled_gram,
)

PATHWISE, BOOTSTRAP = "pathwise", "bootstrap"
METHODS = ("auto", "joint", PATHWISE, BOOTSTRAP)
MOST_JOINT = 2000  # samples whose covariance is factored if the user does not choose
LEAST_FEATURES = 2
# Matrices of all samples for each covariance: itself, its factor, one in the making.
JOINT_COPIES = 3
DRAW_COPIES = 3  # of drawn functions


def sample_latent(
    gp: BaseGP,
    X: Any,
    n_samples: int,
    random_state: Any,
    method: str,
    n_features: int,
) -> FloatArray:
    """Draw latent functions (n, k, n_samples), before `fit` from the prior."""
    if random_state is None:
        random_state = gp.random_state
    if not is_int(n_samples):
        raise ValueError(f"`n_samples` must be an int >= 1, got {shown(n_samples)}.")
    if method not in METHODS:
        raise ValueError(f"`method` must be {one_of(METHODS)}, got {method!r}.")
    if not is_int(n_features, least=LEAST_FEATURES):
        raise ValueError(
            f"`n_features` must be an int >= {LEAST_FEATURES}, got {shown(n_features)}."
        )
    if gp._needs_fit or method in (PATHWISE, BOOTSTRAP):
        check_is_fitted(gp)
    draws_functions = method == BOOTSTRAP or _is_pathwise(gp, X, method)
    if not draws_functions and hasattr(gp, "_process"):
        _require_joint(gp._process, _length(X))
    _require_draws(gp, X, n_samples)
    generator = make_generator(random_state)
    if draws_functions:
        rows = gp._read_new(X)
        warn_of_prior(gp._process.prior, rows)
        wanted = Draws(n_samples, generator, n_features, method == BOOTSTRAP)
        functions, facts = gp._process.draws(rows, wanted, gp._resources())
        warn_of_facts(facts)
        return functions
    if hasattr(gp, "_process"):
        latent = gp._latent(X, None, needs_cov=True)
        mean, covariance, size = latent.mean, latent.cov, latent.cov_scale
        scale = np.sqrt(gp._process.model.amplitude)
    else:
        covariance, scale = _unfitted_prior(gp, X)
        mean, size = np.zeros((len(covariance), 1)), 1.0
    n_outputs = mean.shape[1] // covariance.shape[2]  # of each covariance
    draws = [
        sample_gaussian(
            torch.zeros(len(mean), n_outputs, dtype=torch.float64, device="cpu"),
            rows_to_tensor(one).to(torch.float64),
            n_samples,
            generator,
            scale=size,
        )
        for one in np.moveaxis(covariance, 2, 0)
    ]
    joined = to_numpy(torch.cat(draws, dim=1))
    samples: FloatArray = mean[:, :, None] + joined * scale[:, None]
    return samples


def _is_pathwise(gp: BaseGP, X: Any, method: str) -> bool:
    """Return whether functions are drawn, and not values of a joint Gaussian."""
    if method != "auto":
        return method == PATHWISE
    if not hasattr(gp, "_process") or _length(X) <= MOST_JOINT:
        return False
    return gp._process.has_whole_draws()


def _require_draws(gp: BaseGP, X: Any, n_samples: int) -> None:
    """Raise a TileMemoryError unless draws fit into memory, here and at fitted samples.

    Random features take about as much as the samples.
    """
    dual = getattr(getattr(gp, "_process", None), "dual", np.empty((0, 1)))
    n_rows, n_outputs = dual.shape
    n_numbers = DRAW_COPIES * (n_rows + _length(X)) * n_outputs * n_samples
    user = f"A draw of functions at {_length(X)} samples, as many as are asked for,"
    host, remedy = torch.device("cpu"), "lower `n_samples`, or draw at fewer samples."
    require_memory(n_numbers * torch.float64.itemsize, host, user, remedy)


def _require_joint(process: FittedProcess, n: int) -> None:
    """Raise a TileMemoryError unless the covariances of n samples fit into memory."""
    posterior = getattr(process, "posterior", None)
    if posterior is None:  # of neighbours: there are none, as a later error says
        return
    needed = JOINT_COPIES * posterior.n_covariances * n**2 * torch.float64.itemsize
    remedy = "draw at fewer samples."
    if posterior.draws_coefficients or process.has_whole_draws():
        remedy = "draw functions with method='pathwise', or at fewer samples."
    user = "The covariance between all samples, for joint draws,"
    require_memory(needed, torch.device("cpu"), user, remedy)


def _length(X: Any) -> int:
    """Return the number of samples; 0 if X will be refused."""
    try:
        return len(X)
    except TypeError:
        return 0


def _unfitted_prior(gp: BaseGP, X: Any) -> tuple[FloatArray, FloatArray]:
    """Return the prior covariance (n, n, 1), and the prior deviation (1,)."""
    reader, settings = copy.deepcopy(gp), GPSettings.of(gp)
    prior = read_training(reader, settings, X, np.zeros(_length(X)), None).prior
    warn_of_prior(prior, prior.rows)
    amplitude, resources = settings.amplitude, EstimatorResources(settings)
    n, size = prior.n_samples, prior.n_samples**2
    held = GRAM_COPIES * size
    placement, needed = placement_of_fit(n, Size(held, held, size), resources)

    def evaluate(placement: Placement) -> tuple[FloatArray, float]:
        run, precise = prepare_fit(prior, needed, placement, resources)
        oracle = precise.cached_oracle(run)
        gram, mean_diag = scaled_gram(
            oracle, torch.ones(n, dtype=torch.float32, device="cpu")
        )
        return to_numpy(gram), mean_diag

    gram, mean_diag = compute_at(placement, evaluate)
    scale = mean_diag if amplitude is None else amplitude
    scale = 1.0 if isinstance(scale, str) else scale
    return gram[:, :, None], np.array([np.sqrt(scale)])
