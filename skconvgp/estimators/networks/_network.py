"""BayesianNetwork: the base of classifiers and regressors by many networks."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import compute_at
from skconvgp.estimators._doors import read_new
from skconvgp.estimators._kernel_estimator import require_nested
from skconvgp.estimators._scale import warn_of_scale
from skconvgp.estimators._trained import TrainedEstimator
from skconvgp.estimators._validation import random_source
from skconvgp.estimators.networks._network_fit import FittedNetworks
from skconvgp.estimators.networks._network_report import NetworkReport
from skconvgp.estimators.networks._network_training import draw_outputs
from skconvgp.estimators.settings._checks import Given, as_count
from skconvgp.estimators.settings._compute import Compute
from skconvgp.kernels import Kernel, rbf
from skconvgp.networks import BatchedNetwork


class BayesianNetwork(TrainedEstimator, BaseEstimator):
    """An estimator whose functions are draws of finite networks."""

    draws_: dict[str, NDArray[np.floating]]
    kernel_: Kernel | None
    image_shape_: ImageShape
    loss_curve_: FloatArray
    rhat_: FloatArray
    n_iter_: int
    fit_report_: NetworkReport
    device_: str

    _network: BatchedNetwork
    _mean_squares: tuple[float, float]

    kernel: object

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``kernel__lengthscale`` is one of the kernel.

        Parameters
        ----------
        **params : object
            Names and new values.

        Returns
        -------
        self : estimator
            The same object.
        """
        require_nested(self.kernel, params, rbf())
        super().set_params(**params)
        return self

    def _publish(self, fitted: FittedNetworks) -> None:
        """Set the attributes that follow from a fit."""
        training, result = fitted.training, fitted.result
        self.__dict__.pop("rhat_", None)  # of another fit
        if fitted.rhat is not None:
            self.rhat_ = fitted.rhat
        self.draws_ = result.draws
        self.image_shape_ = training.samples.image_shape
        self._network = training.network
        self._mean_squares = training.samples.mean_squares
        self.kernel_ = training.prior.kernel
        self.loss_curve_ = np.array(result.trained.losses)
        self.n_iter_ = len(result.trained.losses)
        self.device_ = fitted.report.device
        self.fit_report_ = fitted.report

    def _outputs(self, X: Any) -> FloatArray:
        """Return the outputs (k, n, n_outputs) of all draws at X."""
        check_is_fitted(self)
        rows = read_new(self, X)
        warn_of_scale(rows, self._mean_squares)
        return self._outputs_of(rows)

    def _outputs_of(self, rows: NDArray[Any]) -> FloatArray:
        """Return the outputs (k, n, n_outputs) of all draws at rows as `fit` reads."""
        placement = Compute.of(self).placement(is_fitted=True)
        model = self._network, self.draws_, rows, self.image_shape_
        return compute_at(placement, partial(draw_outputs, *model))

    def _deviation(self, latents: FloatArray) -> FloatArray:
        """Return the standard deviations over draws; raise if there is one."""
        if len(latents) < 2:
            raise ValueError(
                "Standard deviations need two draws or more, and there is one: fit "
                "with a larger `n_draws`."
            )
        deviation: FloatArray = latents.std(axis=0, ddof=1)
        return deviation

    def _chosen(
        self, latents: FloatArray, n_samples: object, random_state: Any
    ) -> FloatArray:
        """Return draws (k, ...) as (..., n_samples): all, or some at random."""
        n_draws = len(latents)
        if n_samples is None:
            return np.moveaxis(latents, 0, -1)
        count = Given.to("sample_y", n_samples=n_samples).read("n_samples", as_count)
        if count > n_draws:
            raise ValueError(
                f"`n_samples`={count} functions were asked for, and there are "
                f"{n_draws} draws: fit with a larger `n_draws`."
            )
        seed = self.random_state if random_state is None else random_state
        chosen = random_source(seed).choice(n_draws, count, replace=False)
        return np.moveaxis(latents[chosen], 0, -1)
