"""The images of a setting."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import NDArray

from completing.source import SETTINGS
from skconvgp.datasets import fetch_mnist


@dataclass(frozen=True)
class Part:
    """Images and labels."""

    X: NDArray[Any]
    y: NDArray[Any]

    def first(self, n: int | None) -> Self:
        """Return the first n of them."""
        return type(self)(self.X[:n], self.y[:n])


@dataclass(frozen=True)
class Split:
    """The images of a setting."""

    train: Part
    validation: Part
    test: Part

    def both(self, predict: Callable[[NDArray[Any]], Any]) -> dict[str, Any]:
        """Return what is predicted for those that are not for training, by name."""
        return {name: predict(getattr(self, name).X) for name in ("validation", "test")}


def load(number: int, n_train: int | None, n_test: int | None) -> Split:
    """Return the images of a setting, or the first of each part."""
    X, y = fetch_mnist(return_X_y=True)
    setting = SETTINGS[number]
    return Split(
        Part(X[setting.train], y[setting.train]).first(n_train),
        Part(X[setting.validation], y[setting.validation]).first(n_test),
        Part(X[setting.test], y[setting.test]).first(n_test),
    )
