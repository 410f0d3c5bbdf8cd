"""Decorator of every public `fit`: it sets all fitted attributes, or none."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from skconvgp._ambient import named_recursion, ordinary_state
from skconvgp.estimators._callbacks import FitTasks

Fit = TypeVar("Fit", bound=Callable[..., Any])


def public_fit(fit: Fit) -> Fit:
    """Return a `fit` that leaves the estimator unchanged if it does not finish.

    After an error or an interruption by the user, the estimator has all attributes of
    its earlier fit, or is not fitted. Inside, torch's autograd is on, even if the user
    has switched it off: searches need derivatives. Callbacks of scikit-learn, if the
    estimator has some, are told of the stages of `fit`.
    """

    @wraps(fit)
    def whole(self: Any, *args: Any, **settings: Any) -> Any:
        before = dict(vars(self))
        try:
            with named_recursion(), ordinary_state(fit.__name__, self):
                if hasattr(self, "_skl_callbacks") and fit.__name__ == "fit":
                    return FitTasks(self).run(fit, *args, **settings)
                return fit(self, *args, **settings)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return whole  # type: ignore[return-value]
