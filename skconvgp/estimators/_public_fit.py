"""What every public `fit` has in common."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from skconvgp._autograd import own_autograd

__all__ = ["public_fit"]

Fit = TypeVar("Fit", bound=Callable[..., Any])


def public_fit(fit: Fit) -> Fit:
    """Return a public `fit` that sets all attributes, or none where it is ended early.

    An error, or a user who interrupts it, leaves the estimator as it was: with all of
    an earlier fit, or not fitted. What learns by derivatives has them in any state of
    torch's autograd.
    """

    @wraps(fit)
    def whole(self: Any, *args: Any, **settings: Any) -> Any:
        before = dict(vars(self))
        try:
            with own_autograd():
                return fit(self, *args, **settings)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return whole  # type: ignore[return-value]
