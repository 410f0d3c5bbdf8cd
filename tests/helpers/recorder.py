"""A callback of scikit-learn that records what it is told."""


class Recorder:
    """Records names of tasks that begin and end, and whether all is cleared up.

    Parameters
    ----------
    stop_at : str, default=None
        Name of the task after which it asks to stop.
    """

    def __init__(self, stop_at=None):
        self.stop_at = stop_at
        self.events = []

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", context.task_name))
        return context.task_name == self.stop_at

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def names(self, kind="begin"):
        """Return the names of the tasks that have begun, or have ended."""
        return [name for event, name in self.events if event == kind]


class FollowingRecorder(Recorder):
    """A recorder that a search or a pipeline hands to its estimators."""

    max_propagation_depth = None
