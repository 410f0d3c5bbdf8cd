"""Draws of latent functions: from the posterior, or from the prior before `fit`."""

import copy
from typing import Any

import numpy as np
import torch

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
from skconvgp.estimators._series import warn_of_basis
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.inference import sample_gaussian
from skconvgp.processes import (
    GRAM_COPIES,
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


def check_draws(n_samples: object, method: str, n_features: object) -> None:
    """Raise a ValueError for wrong arguments of draws."""
    if not is_int(n_samples):
        raise ValueError(f"`n_samples` must be an int >= 1, got {shown(n_samples)}.")
    if method not in METHODS:
        raise ValueError(f"`method` must be {one_of(METHODS)}, got {method!r}.")
    if not is_int(n_features, least=LEAST_FEATURES):
        raise ValueError(
            f"`n_features` must be an int >= {LEAST_FEATURES}, got {shown(n_features)}."
        )


def draws_functions(process: Any, X: Any, method: str) -> bool:
    """Return whether functions are drawn, and not values of a joint Gaussian.

    There is no process before `fit`.
    """
    if method != "auto":
        return method in (PATHWISE, BOOTSTRAP)
    if process is None or _length(X) <= MOST_JOINT:
        return False
    return bool(process.has_whole_draws())


def require_room(process: Any, X: Any, n_samples: int, *, are_functions: bool) -> None:
    """Raise a TileMemoryError unless draws fit into memory."""
    if not (are_functions or process is None):
        _require_joint(process, _length(X))
    _require_draws(process, X, n_samples)


def draw_jointly(
    mean: FloatArray,
    covariance: FloatArray,
    size: float,
    scale: FloatArray,
    n_samples: int,
    generator: torch.Generator,
) -> FloatArray:
    """Return draws (n, k, n_samples) of Gaussians with means (n, k).

    The covariances (n, n, k), or (n, n, 1) for all, have a size; deviations from the
    mean have scales (k,).
    """
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


def _require_draws(process: Any, X: Any, n_samples: int) -> None:
    """Raise a TileMemoryError unless draws fit into memory, here and at fitted samples.

    Random features take about as much as the samples.
    """
    dual = getattr(process, "dual", np.empty((0, 1)))
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


def unfitted_prior(estimator: Any, X: Any) -> tuple[FloatArray, FloatArray]:
    """Return the prior covariance (n, n, 1), and the prior deviation (1,)."""
    reader, settings = copy.deepcopy(estimator), GPSettings.of(estimator)
    basis = read_training(reader, settings, X, np.zeros(_length(X)), None).basis
    warn_of_basis(basis, basis.rows)
    amplitude, resources = settings.amplitude, EstimatorResources(settings)
    n, size = basis.n_samples, basis.n_samples**2
    held = GRAM_COPIES * size
    placement, needed = placement_of_fit(n, Size(held, held, size), resources)

    def evaluate(placement: Placement) -> tuple[FloatArray, float]:
        run, precise = prepare_fit(basis, needed, placement, resources)
        oracle = precise.cached_oracle(run)
        gram, mean_diag = scaled_gram(
            oracle, torch.ones(n, dtype=torch.float32, device="cpu")
        )
        return to_numpy(gram), mean_diag

    gram, mean_diag = compute_at(placement, evaluate)
    scale = mean_diag if amplitude is None else amplitude
    scale = 1.0 if isinstance(scale, str) else scale
    return gram[:, :, None], np.array([np.sqrt(scale)])
