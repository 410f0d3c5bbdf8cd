"""Callbacks of scikit-learn, and their replacement before version 1.9."""

import copy
import importlib
from collections.abc import Callable
from typing import Any, TypeVar

Fit = TypeVar("Fit", bound=Callable[..., Any])

try:
    _callback: Any = importlib.import_module("sklearn.callback")
except ImportError:  # before scikit-learn 1.9
    _callback = None


class _NoCallbacks:
    """A base that does nothing; `object` may not come before other bases."""


BaseCallbacks: Any = _callback.CallbackSupportMixin if _callback else _NoCallbacks


def with_callbacks(fit: Fit) -> Fit:
    """Return a public `fit` with scikit-learn's callbacks set up around it."""
    watched: Fit = _callback.with_callbacks(fit) if _callback else fit
    return watched


class FitTasks:
    """Tells the callbacks of an estimator about its tasks.

    Parameters
    ----------
    estimator : BaseCallbacks
        The estimator, in a `fit` under :func:`with_callbacks`.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self._context: Any = None
        if getattr(estimator, "_skl_callbacks", None):
            self._context = estimator._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(estimator=estimator)

    @property
    def is_watched(self) -> bool:
        """Whether the estimator has callbacks."""
        return self._context is not None

    def step(self, name: str, **state: Any) -> bool:
        """Report a task that is done; return whether to stop.

        Parameters
        ----------
        name : str
            Name of the task.
        **state : object
            ``X``, ``y`` and ``reconstruction_attributes``, or functions that return
            them, for callbacks that ask.

        Returns
        -------
        is_last : bool
            Whether a callback wants `fit` to stop here.
        """
        if self._context is None:
            return False
        task = self._context.subcontext(task_name=name)
        task.call_on_fit_task_begin(estimator=self.estimator)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, **state))

    def copy(self) -> Any:
        """Return a copy of the estimator; its random state is separate."""
        model = copy.copy(self.estimator)
        model.random_state = copy.deepcopy(self.estimator.random_state)
        return model

    def end(self) -> None:
        """Report that `fit` is done."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self.estimator)
