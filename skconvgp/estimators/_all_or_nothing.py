"""A fit that ends early leaves no half of a model."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

__all__ = ["all_or_nothing"]

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """Return a public `fit` that sets all attributes, or none where it is ended early.

    An error, or a user who interrupts it, leaves the estimator as it was: with all of
    an earlier fit, or not fitted.
    """

    @wraps(fit)
    def whole(self: Any, *args: Any, **settings: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **settings)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return whole  # type: ignore[return-value]
