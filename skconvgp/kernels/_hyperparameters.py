"""Hyperparameters of a kernel: dotted name, value, bounds, and their logarithms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real

from torch import Tensor

from skconvgp._parts import Part
from skconvgp._settings import FIXED, as_bounds, as_float
from skconvgp._typing import Bounds, Scalar
from skconvgp.kernels._checks import (
    SEQUENCES,
    as_items,
    plain_value,
    require_resolved,
)

__all__ = [
    "DEFAULT_BOUNDS",
    "Hyperparameter",
    "assign_hyperparameters",
    "collect_hyperparameters",
]

DEFAULT_BOUNDS = (1e-4, 1e4)  # docs/maths.rst, "Kernel Flows"


@dataclass(frozen=True)
class Hyperparameter:
    """One number of a kernel that can be learned.

    Parameters
    ----------
    name : str
        Name of the setting that holds it, as ``set_params`` takes it.
    index : int or None
        Index of the number if the setting has one for each layer or feature.
    value : float
        Its value.
    bounds : tuple of float or "fixed"
        Smallest and largest value allowed.

    Examples
    --------
    >>> from skconvgp.kernels import rbf
    >>> width = rbf(lengthscale=2.0).hyperparameters[0]
    >>> width.label, width.value, width.is_free
    ('lengthscale', 2.0, True)
    """

    name: str
    index: int | None
    value: Scalar
    bounds: Bounds

    @property
    def is_free(self) -> bool:
        """Whether it is learned. A zero variance has no logarithm, and stays zero."""
        return self.bounds != FIXED and plain_value(self.value) > 0.0

    @property
    def label(self) -> str:
        """Name with the index, as in ``weight_variance[2]``."""
        return self.name if self.index is None else f"{self.name}[{self.index}]"


def collect_hyperparameters(part: Part, prefix: str = "") -> Iterator[Hyperparameter]:
    """Yield the hyperparameters of a part and of its nested parts, in a fixed order.

    A setting ``x`` is a hyperparameter if there is a setting ``x_bounds``, and ``x`` is
    not None. A nested part that follows from data has hyperparameters once it is known.
    """
    params = part.get_params(deep=False)
    for name, value in params.items():
        if value is None and name in getattr(part, "parts_from_data", ()):
            require_resolved(part, name, value, "a kernel")
        if isinstance(value, Part):
            yield from collect_hyperparameters(value, f"{prefix}{name}__")
        elif value is not None and f"{name}_bounds" in params:
            bounds = params[f"{name}_bounds"]
            require_resolved(part, name, value)
            for index, item in _items(value):
                yield Hyperparameter(prefix + name, index, item, as_bounds(bounds))


def assign_hyperparameters(
    part: Part, hyperparameters: Sequence[Hyperparameter], values: Sequence[Scalar]
) -> None:
    """Give new values to hyperparameters of a part."""
    params = part.get_params()
    for parameter, value in zip(hyperparameters, values, strict=True):
        if parameter.index is None:
            params[parameter.name] = value
        else:
            items = as_items(params[parameter.name])
            i = parameter.index
            params[parameter.name] = (*items[:i], value, *items[i + 1 :])
    changed = {parameter.name for parameter in hyperparameters}
    part.set_params(**{name: params[name] for name in changed})


def _items(value: object) -> list[tuple[int | None, Scalar]]:
    if isinstance(value, SEQUENCES):
        return list(enumerate(as_items(value)))
    if not isinstance(value, Real | Tensor):
        raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
            f"A hyperparameter must be a number or a tuple of numbers, got {value!r}."
        )
    return [(None, value if isinstance(value, Tensor) else as_float(value))]
