"""NetworkReport, a read-only record of the training of networks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NetworkReport:
    """Record of the training of a Bayesian network.

    Parameters
    ----------
    n_samples : int
        Number of training samples that were used.
    n_points : int
        Number of inputs at which networks were evaluated in a step: the samples, and
        further points of a prior of functions.
    n_parameters : int
        Number of parameters of one draw.
    n_diverged : int
        Number of draws that diverged, and were left out.
    is_stopped : bool
        Whether a callback or early stopping ended `fit`.
    train_seconds : float
        Time of the training, including the covariances of a prior of functions, and
        networks that hold out samples.
    distance : float
        With prior="matched", the squared Wasserstein distance for each point, at 100
        points, of the prior of wide networks from that of the kernel, in squared units
        of the scaled targets; otherwise NaN.
    device : str
        Device of the training.
    device_reason : str
        Why ``device="auto"`` did not use an available GPU; empty otherwise.

    Examples
    --------
    >>> from skconvgp import BayesianNetworkRegressor
    >>> model = BayesianNetworkRegressor((5,), noise_variance=0.1, max_iter=5)
    >>> model.fit([[0.0], [1.0]], [0.0, 1.0]).fit_report_.n_parameters
    16
    """

    n_samples: int
    n_points: int
    n_parameters: int
    n_diverged: int
    is_stopped: bool
    train_seconds: float
    distance: float
    device: str
    device_reason: str = ""
