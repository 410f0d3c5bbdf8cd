"""Callbacks of scikit-learn, and their replacement before version 1.9."""

import copy
import importlib
from collections.abc import Callable
from typing import Any

from skconvgp._ambient import current_call, outside

try:
    _callback: Any = importlib.import_module("sklearn.callback")
except ImportError:  # before scikit-learn 1.9
    _callback = None

TICKS = 20  # tasks of a stage that counts, if the estimator is watched by itself


class _NoCallbacks:
    """A base that does nothing; `object` may not come before other bases."""


BaseCallbacks: Any = _callback.CallbackSupportMixin if _callback else _NoCallbacks


class FitTasks:
    """Tells the callbacks of an estimator about its tasks.

    The task of `fit` begins with the first of them, when their number is known, or ends
    as soon as it begins. Each stage is a task. Parts of a stage are tasks if the
    estimator is watched by itself: inside of a search, its stages suffice.

    Parameters
    ----------
    estimator : BaseCallbacks
        The estimator.
    has_steps : bool, default=False
        Whether `step` is called in some stages, in place of equal parts of them.
    """

    def __init__(self, estimator: Any, *, has_steps: bool = False) -> None:
        self.estimator, self._has_steps = estimator, has_steps
        self._data: dict[str, Any] = {}  # of `fit`, for callbacks that ask
        self._context: Any = None  # of `fit`, once it has begun
        self._stage: Any = None  # context of the stage that has begun
        self._n_left: int | None = None  # stages that may still begin; None: any
        self._n_ticks = 0  # parts that were told of the stage
        call = current_call()
        if call is not None and call.tasks is not None:  # of the same `fit`: go on
            vars(self).update(vars(call.tasks), _has_steps=has_steps)
            call.tasks = self

    def begin(self, n_stages: int | None = None) -> None:
        """Report that `fit` has begun, unless it is reported; None: as many as come."""
        if self._context is None and hasattr(self.estimator, "_skl_callbacks"):
            self._n_left = n_stages = None if self._has_steps else n_stages
            with outside():
                context = self.estimator._init_callback_context(max_subtasks=n_stages)
                context.call_on_fit_task_begin(estimator=self.estimator, **self._data)
            self._context = context

    def enter(self, name: str) -> None:
        """Report that a stage has begun."""
        self.begin()
        if self._context is None or self._n_left == 0:
            return
        self._n_left = self._n_left and self._n_left - 1
        is_alone, self._n_ticks = self._context.parent is None, 0
        n_parts = None if self._has_steps else TICKS * is_alone
        self._stage = self._context.subcontext(name, max_subtasks=n_parts)
        with outside():
            self._stage.call_on_fit_task_begin(estimator=self.estimator)

    def count(self, share: float) -> None:
        """Report that a share of a stage is done."""
        stage = self._stage
        while stage and stage.max_subtasks and self._n_ticks < int(share * TICKS):
            self._n_ticks += 1
            self._tell(stage, stage.task_name)

    def leave(self) -> None:
        """Report that a stage has ended."""
        stage, self._stage = self._stage, None
        if stage is not None:
            with outside():
                stage.call_on_fit_task_end(estimator=self.estimator)

    def step(self, name: str, **state: Any) -> bool:
        """Report a step that is done; return whether to stop.

        Parameters
        ----------
        name : str
            Name of the task.
        **state : object
            ``reconstruction_attributes``, or a function that returns them, for
            callbacks that ask.

        Returns
        -------
        is_last : bool
            Whether a callback wants `fit` to stop here.
        """
        self.begin()
        if self._context is None:
            return False
        context = self._stage or self._context
        return self._tell(context, name, **self._data, **state)

    def copy(self) -> Any:
        """Return a copy of the estimator; its random state is separate."""
        model = copy.copy(self.estimator)
        model.random_state = copy.deepcopy(self.estimator.random_state)
        return model

    def end(self) -> None:
        """Report that `fit` is done."""
        self.begin(0)
        if self._context is not None:
            self.leave()
            with outside():
                self._context.call_on_fit_task_end(
                    estimator=self.estimator, reconstruction_attributes={}, **self._data
                )

    def run(self, fit: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        """Return what a `fit` returns, while callbacks are told of its stages."""
        call: Any = current_call()

        @_callback.with_callbacks  # type: ignore[untyped-decorator]
        def whole(_: Any) -> Any:
            fitted = fit(self.estimator, *args, **settings)
            call.tasks.end()
            return fitted

        given = dict(zip(("X", "y"), args, strict=False)) | settings
        self._data = {name: given.pop(name, None) for name in ("X", "y")}
        self._data["metadata"] = given or None
        call.tasks = self
        try:
            return whole(self.estimator)
        finally:
            call.tasks = None

    def _tell(self, context: Any, name: str, **state: Any) -> bool:
        """Report a task that is done; return whether to stop."""
        with outside():
            task = context.subcontext(task_name=name)
            task.call_on_fit_task_begin(estimator=self.estimator)
            return bool(task.call_on_fit_task_end(estimator=self.estimator, **state))
