"""BaseDifferentiable: derivatives of latent means by the inputs."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, check_is_fitted
from torch import Tensor

from skconvgp._autograd import own_autograd
from skconvgp._typing import FloatArray
from skconvgp.backends import choose_pullback
from skconvgp.engine import pull_back
from skconvgp.estimators._inputs import BaseInputs
from skconvgp.estimators._place import Place, compute_at
from skconvgp.estimators._validation import pool_images, rows_to_tensor, to_numpy
from skconvgp.kernels import Kernel

__all__ = ["BaseDifferentiable"]


class BaseDifferentiable(BaseInputs):
    """A process whose latent means are a fixed sum of covariances."""

    X_train_: FloatArray | None
    dual_coef_: FloatArray

    @own_autograd()
    def latent_gradient(self, X: Any, weights: ArrayLike | None = None) -> FloatArray:
        r"""Return the derivatives of latent means by the inputs.

        Means are :math:`m_c(x) = \sum_j \alpha_{jc} \, k(x, x_j)` up to a constant; the
        covariances are differentiated exactly, tile by tile.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.
        weights : array-like of shape (n, k), default=None
            For each sample, weights of the k latent functions: the derivative of the
            weighted sum is returned, for the price of one function. None returns those
            of each function.

        Returns
        -------
        gradient : ndarray of shape (n, ...), or (n, k, ...) without weights
            Each in the shape of a sample of X.

        Raises
        ------
        ValueError
            For a precomputed kernel, nearest neighbours, or weights of another shape.

        See Also
        --------
        skconvgp.gram_vjp : Derivatives of any weighted sum of covariances.
        """
        check_is_fitted(self)
        kernel, dual = self.kernel_, getattr(self, "dual_coef_", None)
        if not isinstance(kernel, Kernel) or dual is None:
            raise ValueError(
                "Derivatives by inputs need a kernel object and one sum of covariances "
                "for all samples, which a precomputed kernel and nearest neighbours do "
                "not give."
            )
        rows = self._validate_predict(X)
        size = (len(rows), dual.shape[1])
        if weights is None:
            choices = [np.broadcast_to(row, size) for row in np.eye(size[1])]
        else:
            given = check_array(weights, dtype=np.float64, input_name="weights")
            if given.shape != size:
                raise ValueError(
                    f"`weights` must have one for each sample and latent function, "
                    f"shape {size!r}, got {given.shape!r}."
                )
            choices = [given]
        place = self._place(is_fitting=False, needed=0)
        found = [
            compute_at(place, partial(self._pull_to_inputs, rows, one @ dual.T))
            for one in choices
        ]
        shape = np.shape(X)[1:]
        parts = [part.reshape(len(rows), *shape) for part in found]
        return parts[0] if weights is not None else np.stack(parts, axis=1)

    def _pull_to_inputs(self, rows: Any, sums: FloatArray, place: Place) -> FloatArray:
        """Return the derivatives by rows of sums (n, m) over covariances."""
        kernel = self.kernel_
        assert isinstance(kernel, Kernel)
        assert self.X_train_ is not None
        work = self._work(place, is_fitting=False)
        assert work.choice is not None
        images = self._images(rows, kernel)
        _, by_images = pull_back(
            choose_pullback(work.choice, has_inputs=True),
            images,
            self._images(self.X_train_, kernel),
            rows_to_tensor(np.ascontiguousarray(sums)),
            replace(work.config, dtype=torch.float64),
            work.runner,
        )
        assert by_images is not None
        return to_numpy(self._unpool(by_images, rows)).reshape(len(rows), -1)

    def _unpool(self, by_images: Tensor, rows: Any) -> Tensor:
        """Return derivatives by images from those by their means over squares."""
        if self.pool_ == 1:
            return by_images
        whole = rows_to_tensor(rows).to(torch.float64)
        assert self.image_shape_ is not None
        whole = whole.reshape(-1, *self.image_shape_).requires_grad_()
        pooled = pool_images(whole, self.pool_)
        (by_whole,) = torch.autograd.grad(pooled, whole, by_images.to(pooled))
        return by_whole
