"""Kernels of scikit-learn inside our estimators."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Hyperparameter
from sklearn.gaussian_process.kernels import Kernel as TheirKernel
from torch import Tensor

from skconvgp._ambient import public
from skconvgp._settings import FIXED
from skconvgp._typing import Bounds, FloatArray, ImageShape, Prepared, Scalar
from skconvgp.engine import to_numpy, to_tensor
from skconvgp.kernels import Kernel
from skconvgp.kernels._checks import SEQUENCES, as_items, plain_value

STRIP = 128  # samples on each side whose derivatives are computed at once


@public
def from_sklearn_kernel(kernel: Any) -> "SklearnKernel":
    """Return a kernel of scikit-learn as one that the estimators of this package take.

    It can be added to, multiplied with and scaled like other kernels. Its free
    hyperparameters and their bounds are those of the result, so that searches by the
    evidence, by left-out samples and Kernel Flows learn them, by the derivatives that
    scikit-learn has. Their names are those of ``kernel.get_params()``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        A kernel of rows, such as `ExpSineSquared`, `RationalQuadratic`, or a sum or
        product. Without `WhiteKernel`: `noise_variance` of an estimator is the noise.

    Returns
    -------
    kernel : SklearnKernel
        The wrapped kernel. Its ``sklearn_kernel`` is the given one, with the
        hyperparameters that were learned.

    Raises
    ------
    ValueError
        If `kernel` is none of scikit-learn's, does not take rows, or has several bounds
        for the elements of one hyperparameter. In `fit`, and when covariances are asked
        for, if it does not take samples with that number of features, has noise of its
        own, or derivatives by samples are wanted, as of `latent_gradient`.

    See Also
    --------
    as_sklearn_kernel : The other direction.

    Notes
    -----
    scikit-learn computes covariances on the processor, in double precision. It has
    derivatives for one set of samples alone: those for pairs of two sets of n samples
    are cut out of the matrix of all 2n, and take four times the work.

    References
    ----------
    Pedregosa et al., "Scikit-learn: machine learning in Python", 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import ExpSineSquared
    >>> from skconvgp import ConvNetGPRegressor, from_sklearn_kernel
    >>> x = np.linspace(0.0, 3.0, 40)[:, None]
    >>> kernel = from_sklearn_kernel(ExpSineSquared(periodicity=1.1))
    >>> gp = ConvNetGPRegressor(kernel, optimizer="evidence", noise_variance=1e-4)
    >>> gp = gp.fit(x, np.sin(2 * np.pi * x[:, 0]))
    >>> gp.predict([[10.25]]).round(2)
    array([1.])
    >>> round(gp.kernel_.sklearn_kernel.periodicity, 3)
    1.0
    """
    is_theirs = isinstance(kernel, TheirKernel)
    if not is_theirs or not kernel.requires_vector_input:
        remedy = f"got {kernel!r}."
        if is_theirs:
            remedy = (
                f"and {type(kernel).__name__} does not look at them, got {kernel!r}: "
                "combine it with one that does, as in ConstantKernel() * RBF(). Noise, "
                "as of WhiteKernel, is `noise_variance` of the estimator."
            )
        raise ValueError(
            "`kernel` must be a kernel of rows from sklearn.gaussian_process.kernels, "
            f"{remedy}"
        )
    made = SklearnKernel(clone(kernel))
    _ = made.hyperparameters  # raises for bounds that have no equivalent
    return made


@dataclass(repr=False)
class SklearnKernel(Kernel):
    """A kernel of scikit-learn as a kernel of this package.

    Its settings are those of scikit-learn's, by the same names.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RationalQuadratic
    >>> from skconvgp import from_sklearn_kernel
    >>> kernel = from_sklearn_kernel(RationalQuadratic(alpha=2.0))
    >>> [one.label for one in kernel.hyperparameters]
    ['alpha', 'length_scale']
    """

    sklearn_kernel: Any
    # Values of hyperparameters that are being differentiated, by name.
    traced: dict[str, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def set_params(self, **params: object) -> Self:
        """Set settings by their names in `get_params`; return the same object."""
        if "sklearn_kernel" in params:
            self.sklearn_kernel, self.traced = params.pop("sklearn_kernel"), {}
        plain = {name: _plain(value) for name, value in params.items()}
        self.sklearn_kernel = clone(self.sklearn_kernel).set_params(**plain)
        kept = {name: self.traced[name] for name in self.traced.keys() - params.keys()}
        moving = {name: value for name, value in params.items() if _is_traced(value)}
        self.traced = kept | moving
        return self

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why samples of this shape cannot be used."""
        zeros = np.zeros((1, int(np.prod(image_shape))))
        try:
            alone, paired = (
                self.sklearn_kernel(zeros),
                self.sklearn_kernel(zeros, zeros),
            )
        except ValueError as error:
            raise ValueError(
                f"{self!r} takes no samples with {zeros.shape[1]} features: {error}"
            ) from error
        if np.shape(alone) != (1, 1):
            raise ValueError(
                f"{self!r} gives no number for a pair of samples: pass one of the "
                "kernels that it consists of."
            )
        if not np.array_equal(alone, paired):
            raise ValueError(
                f"{self!r} has noise, as `WhiteKernel` is: a sample's variance is not "
                "its covariance with an equal one. Leave it out, and set "
                "`noise_variance` of the estimator."
            )

    @property
    def is_spatial(self) -> bool:
        """Whether the value depends on the layout of the pixels: never."""
        return False

    def n_positions(self, image_shape: ImageShape) -> int:  # noqa: ARG002
        """Return 1: there is no map."""
        return 1

    def prepare(self, images: Tensor) -> Prepared:
        """Flatten images (n, c, h, w) to columns (d, n)."""
        if images.requires_grad:
            raise ValueError(
                f"{self!r} has no derivatives by samples, as scikit-learn has none; "
                "`gram_gradient` has those by hyperparameters."
            )
        return images.flatten(1).T

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariance (n1, n2) of two prepared sets."""
        x, y = _rows(one), _rows(two)
        free = self._free_values()
        if not any(isinstance(value, Tensor) for value in free):
            return _like(one, self.sklearn_kernel(x, y))
        return _expanded(one, free, *self._with_slopes(x, y))

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variance (n,) of each prepared sample."""
        x, free = _rows(one), self._free_values()
        values = self.sklearn_kernel.diag(x)
        if not any(isinstance(value, Tensor) for value in free):
            return _like(one, values)
        slopes = np.empty((len(x), len(free)))
        for part in _strips(len(x)):
            _, of_pairs = self.sklearn_kernel(x[part], eval_gradient=True)
            slopes[part] = np.diagonal(of_pairs).T
        return _expanded(one, free, values, slopes)

    def _with_slopes(
        self, x: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return covariances (n1, n2), and derivatives by log hyperparameters."""
        if np.array_equal(x, y):
            values, slopes = self.sklearn_kernel(x, eval_gradient=True)
            return values, slopes
        slopes = np.empty((len(x), len(y), len(self._free_values())))
        for rows in _strips(len(x)):
            for cols in _strips(len(y)):
                both = np.concatenate([x[rows], y[cols]])
                n = len(x[rows])
                _, of_pairs = self.sklearn_kernel(both, eval_gradient=True)
                slopes[rows, cols] = of_pairs[:n, n:]
        return self.sklearn_kernel(x, y), slopes

    def _free_values(self) -> list[Scalar]:
        """Return the free hyperparameters in scikit-learn's order."""
        settings = self._direct_params()
        return [
            item
            for one in self.sklearn_kernel.hyperparameters
            if not one.fixed
            for item in as_items(settings[one.name])
        ]

    def _direct_params(self) -> dict[str, object]:
        """Return the settings by name, hyperparameters first, in scikit-learn's order.

        The kernels that a sum consists of are no settings of it, their settings are.
        """
        given = self.sklearn_kernel.get_params()
        found: dict[str, object] = {"sklearn_kernel": self.sklearn_kernel}
        for one in self.sklearn_kernel.hyperparameters:
            found[one.name] = self.traced.get(one.name, given[one.name])
            found[f"{one.name}_bounds"] = _bounds_of(one)
        others = given.keys() - found.keys()
        return found | {
            name: given[name]
            for name in sorted(others)
            if not isinstance(given[name], TheirKernel)
        }

    def _text(self) -> str:
        return f"from_sklearn_kernel({self.sklearn_kernel!r})"


def _bounds_of(one: Hyperparameter) -> Bounds:
    if one.fixed:
        return FIXED
    low, high = np.unique(one.bounds, axis=0)[0]
    if np.any(one.bounds != (low, high)):
        raise ValueError(
            f"the elements of `{one.name}` must have the same bounds, got "
            f"{one.bounds.tolist()!r}: give one pair for all."
        )
    return float(low), float(high)


def _is_traced(value: object) -> bool:
    if isinstance(value, SEQUENCES):
        return any(isinstance(item, Tensor) for item in value)
    return isinstance(value, Tensor)


def _plain(value: object) -> object:
    """Return a setting as scikit-learn takes it."""
    if isinstance(value, Tensor):
        return plain_value(value)
    if isinstance(value, SEQUENCES) and _is_traced(value):
        return np.array([plain_value(item) for item in value])
    return value


def _rows(prepared: Prepared) -> FloatArray:
    assert isinstance(prepared, Tensor)
    return to_numpy(prepared.T).astype(np.float64)


def _like(prepared: Prepared, values: NDArray[Any]) -> Tensor:
    """Return values as a tensor of the type of prepared samples."""
    assert isinstance(prepared, Tensor)
    return to_tensor(values, prepared.device, prepared.dtype)


def _expanded(
    prepared: Prepared, free: list[Scalar], values: FloatArray, slopes: FloatArray
) -> Tensor:
    """Return values as a function of the hyperparameters around their numbers.

    It has the values and the derivatives of the kernel, in either mode of torch.
    """
    total = _like(prepared, values)
    for i, value in enumerate(free):
        if isinstance(value, Tensor):
            step = (value - value.detach()) / plain_value(value)
            total = total + _like(prepared, slopes[..., i]) * step.to(total)
    return total


def _strips(n: int) -> Iterator[slice]:
    return (slice(i, i + STRIP) for i in range(0, n, STRIP))
