"""Our kernels inside scikit-learn's own estimators."""

from typing import Any, Self

import numpy as np
from sklearn.gaussian_process.kernels import GenericKernelMixin, Hyperparameter
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.estimators.functions._gradients import gram_gradient
from skconvgp.estimators.functions._gram import gram_diag, gram_matrix
from skconvgp.estimators.settings._types import ShapeOfImages
from skconvgp.kernels import Kernel


@public
def as_sklearn_kernel(
    kernel: Kernel, image_shape: ShapeOfImages = "auto"
) -> "NetworkKernel":
    """Return a kernel that scikit-learn's own estimators take.

    The result is a :class:`sklearn.gaussian_process.kernels.Kernel` with gradients by
    the free hyperparameters, and a callable of two arrays. `GaussianProcessRegressor`
    and `GaussianProcessClassifier` learn its hyperparameters; `SVC`, `KernelRidge`,
    `KernelPCA` and `Nystroem` accept it as ``kernel=``. X must then hold rows. Values
    are float64. Its settings can be searched: ``kernel__depth`` of an `SVC` is the
    depth of the network.

    Parameters
    ----------
    kernel : Kernel
        Covariance function, from :mod:`skconvgp.kernels`. If its settings follow from
        data, pass ``kernel.resolve(X_train)``, in which they are numbers.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a row becomes an image, as in :func:`gram_matrix`.

    Returns
    -------
    kernel : NetworkKernel
        The wrapped kernel.

    See Also
    --------
    gram_matrix : For ``kernel="precomputed"``.
    from_sklearn_kernel : The other direction.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import SVC
    >>> from skconvgp import as_sklearn_kernel
    >>> from skconvgp.kernels import convnet
    >>> X, y = load_digits(return_X_y=True)
    >>> kernel = as_sklearn_kernel(convnet(depth=1, kernel_size=3), image_shape=(8, 8))
    >>> SVC(kernel=kernel).fit(X[:100] / 16, y[:100]).score(X[100:150] / 16, y[100:150])
    0.9...
    """
    return NetworkKernel(kernel, image_shape)


class NetworkKernel(GenericKernelMixin, SklearnKernel):
    """A kernel of this package as a kernel of scikit-learn.

    `image_shape` says how a row becomes an image: "auto", None, (h, w) or (c, h, w).

    Examples
    --------
    >>> from skconvgp import as_sklearn_kernel
    >>> from skconvgp.kernels import rbf
    >>> as_sklearn_kernel(rbf(lengthscale=2.0)).theta.round(3)
    array([0.693])
    """

    def __init__(self, kernel: Kernel, image_shape: ShapeOfImages = "auto") -> None:
        self.kernel = kernel
        self.image_shape = image_shape

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, including the settings of the kernel.

        If `deep`, these are added as ``weight_variance`` and as
        ``kernel__weight_variance``.
        """
        params: dict[str, Any] = super().get_params(deep=False)
        if not deep:
            return params
        settings = self.kernel.get_params()
        long = {f"kernel__{name}": value for name, value in settings.items()}
        short = {
            name: value
            for name, value in settings.items()
            if name.partition("__")[0] not in params
        }
        return short | long | params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by their names in `get_params`; return the same object."""
        reserved = super().get_params(deep=False)
        for name in reserved.keys() & params.keys():
            setattr(self, name, params.pop(name))
        settings = {name.removeprefix("kernel__"): params[name] for name in params}
        self.kernel.set_params(**settings)
        return self

    def __call__(
        self, X: Any, Y: Any = None, eval_gradient: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the covariances and, on request, their derivatives by `theta`.

        The covariances (n1, n2) are of rows X (n1, d) with rows Y (n2, d), by default
        X. With `eval_gradient`, only without `Y`, the derivatives (n1, n1, p) follow.
        """
        if eval_gradient and Y is not None:
            raise ValueError("`eval_gradient` needs `Y` to be None.")
        self._require_resolved()
        if eval_gradient:
            return gram_gradient(self.kernel, X, image_shape=self.image_shape)
        return gram_matrix(
            self.kernel, X, Y, image_shape=self.image_shape, dtype="float64"
        )

    def diag(self, X: Any) -> FloatArray:
        """Return the prior variance of each row of X (n, d), shape (n,)."""
        self._require_resolved()
        shape = self.image_shape
        return gram_diag(self.kernel, X, image_shape=shape, dtype="float64")

    def is_stationary(self) -> bool:
        """Return False: the covariance of a network is not translation invariant."""
        return False

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """All hyperparameters as scikit-learn describes them."""
        return [
            Hyperparameter(
                item.label, "numeric", item.bounds if item.is_free else "fixed"
            )
            for item in self.kernel.hyperparameters
        ]

    @property
    def theta(self) -> FloatArray:
        """Logarithms of the free hyperparameters."""
        return self.kernel.theta

    @theta.setter
    def theta(self, theta: FloatArray) -> None:
        self.kernel = self.kernel.with_theta(np.asarray(theta))

    @property
    def bounds(self) -> FloatArray:
        """Logarithms of the bounds of the free hyperparameters."""
        return self.kernel.bounds

    @property
    def n_dims(self) -> int:
        """Number of free hyperparameters."""
        return len(self.theta)

    def clone_with_theta(self, theta: FloatArray) -> Self:
        """Return a copy with other values of `theta`."""
        return type(self)(self.kernel.with_theta(np.asarray(theta)), self.image_shape)

    def _require_resolved(self) -> None:
        """Raise if a setting follows from data: each call would see other data."""
        _ = self.kernel.hyperparameters

    def __eq__(self, other: object) -> bool:
        """Compare kernels and shapes."""
        return (
            isinstance(other, NetworkKernel)
            and self.kernel == other.kernel
            and self.image_shape == other.image_shape
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the kernel."""
        return f"as_sklearn_kernel({self.kernel!r})"
