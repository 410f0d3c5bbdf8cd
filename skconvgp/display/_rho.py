"""RhoTraceDisplay: the steps of learning a kernel."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skconvgp._typing import FloatArray
from skconvgp.display._pyplot import pyplot_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["RhoTraceDisplay"]

AGAINST = {
    "evaluations": "Gram matrices of a batch evaluated",
    "steps": "step",
    "seconds": "seconds",
}
WINDOWS = 20  # by default the running mean is over this part of all steps
WIDTH, HEIGHT, PATHS_HEIGHT = 7.0, 3.6, 2.6  # inches


class RhoTraceDisplay:
    """The objective at every step of learning, and the paths of the hyperparameters.

    Make it with :meth:`from_estimator` or :meth:`from_result`. The value of a step is
    the objective on the batch of that step, and batches differ. The value at the start
    and the accepted value are means over the same fixed batches. A dot at the end of a
    path is the accepted hyperparameter.

    Parameters
    ----------
    result : FlowResult
        Result of learning the kernel.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure, after :meth:`plot`.
    axes_ : ndarray of shape (1,) or (2,)
        The axes of the objective and of the hyperparameters.
    running_mean_ : ndarray of shape (n_steps,)
        Running mean of the values of the steps.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from skconvgp import KernelFlowsRegressor
    >>> from skconvgp.display import RhoTraceDisplay
    >>> from skconvgp.flows import Adam
    >>> from skconvgp.kernels import rbf
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> gp = KernelFlowsRegressor(rbf(1.0), optimizer=Adam(max_iter=20), random_state=0)
    >>> display = RhoTraceDisplay.from_estimator(gp.fit(X, np.sin(3.0 * X[:, 0])))
    >>> display.axes_.shape, display.running_mean_.shape
    ((2,), (20,))
    """

    def __init__(self, result: Any) -> None:
        self.result = result

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        against: str = "evaluations",
        window: int | None = None,
        hyperparameters: bool = True,
        figure: "Figure | None" = None,
    ) -> Self:
        """Draw the trace of learning that a fitted estimator keeps.

        Parameters
        ----------
        estimator : object
            Fitted estimator with ``flow_result_`` or ``optimizer_result_``.
        against : {"evaluations", "steps", "seconds"}, default="evaluations"
            Quantity of the horizontal axis.
        window : int, default=None
            Steps in the running mean; None is a twentieth of all.
        hyperparameters : bool, default=True
            Whether their paths are drawn below.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : RhoTraceDisplay
            The display, drawn.
        """
        has_optimizer = hasattr(estimator, "optimizer_result_")
        return cls.from_result(
            estimator.optimizer_result_ if has_optimizer else estimator.flow_result_,
            against=against,
            window=window,
            hyperparameters=hyperparameters,
            figure=figure,
        )

    @classmethod
    def from_result(
        cls,
        result: Any,
        *,
        against: str = "evaluations",
        window: int | None = None,
        hyperparameters: bool = True,
        figure: "Figure | None" = None,
    ) -> Self:
        """Draw the trace of a result.

        Parameters
        ----------
        result : FlowResult
            The ``flow_result_`` or ``optimizer_result_`` of an estimator.
        against : {"evaluations", "steps", "seconds"}, default="evaluations"
            Quantity of the horizontal axis.
        window : int, default=None
            Steps in the running mean; None is a twentieth of all.
        hyperparameters : bool, default=True
            Whether their paths are drawn below.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : RhoTraceDisplay
            The display, drawn.
        """
        return cls(result).plot(
            against=against,
            window=window,
            hyperparameters=hyperparameters,
            figure=figure,
        )

    def plot(
        self,
        *,
        against: str = "evaluations",
        window: int | None = None,
        hyperparameters: bool = True,
        figure: "Figure | None" = None,
    ) -> Self:
        """Draw the trace.

        Parameters
        ----------
        against : {"evaluations", "steps", "seconds"}, default="evaluations"
            Quantity of the horizontal axis.
        window : int, default=None
            Steps in the running mean; None is a twentieth of all.
        hyperparameters : bool, default=True
            Whether their paths are drawn below.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : RhoTraceDisplay
            The same object.
        """
        if against not in AGAINST:
            words = ", ".join(map(repr, AGAINST))
            raise ValueError(f"`against` must be one of {words}, got {against!r}.")
        if window is not None and (not isinstance(window, int) or window < 1):
            raise ValueError(f"`window` must be None or an int >= 1, got {window!r}.")
        plt = pyplot_for(self)
        heights = [HEIGHT, PATHS_HEIGHT] if hyperparameters else [HEIGHT]
        if figure is None:
            figure = plt.figure(figsize=(WIDTH, sum(heights)), layout="constrained")
        self.figure_ = figure
        self.axes_ = figure.subplots(
            len(heights), 1, sharex=True, squeeze=False, height_ratios=heights
        )[:, 0]
        values = self.result.rho_trace
        if window is None:
            window = max(1, len(values) // WINDOWS)
        self.running_mean_ = _running_mean(values, window)
        positions = self._x_positions(against)
        self._draw_values(self.axes_[0], positions, window)
        if hyperparameters:
            self._draw_paths(self.axes_[1], positions)
        self.axes_[-1].set_xlabel(AGAINST[against])
        return self

    def _x_positions(self, against: str) -> FloatArray:
        if against == "steps":
            return np.arange(1.0, len(self.result.rho_trace) + 1.0)
        return np.asarray(getattr(self.result, against), dtype=np.float64)

    def _draw_values(self, axes: "Axes", positions: FloatArray, window: int) -> None:
        result = self.result
        axes.plot(
            positions,
            result.rho_trace,
            ".",
            color="tab:blue",
            alpha=0.35,
            markeredgewidth=0,
            label="step",
        )
        legend = f"mean of {window} steps" if window > 1 else None
        axes.plot(positions, self.running_mean_, color="tab:blue", label=legend)
        undefined = positions[np.isnan(result.rho_trace)]
        if len(undefined):
            at_top = np.ones(len(undefined))
            axes.plot(
                undefined,
                at_top,
                "x",
                color="firebrick",
                transform=axes.get_xaxis_transform(),
                clip_on=False,
                label="undefined",
            )
        if np.isfinite(result.start_rho):
            legend = f"start: {result.start_rho:.3g}"
            axes.axhline(result.start_rho, color="gray", linestyle="--", label=legend)
        legend = f"accepted: {result.rho:.3g}"
        axes.axhline(result.rho, color="tab:green", label=legend)
        axes.set_ylabel("objective")
        _finish(axes)

    def _draw_paths(self, axes: "Axes", positions: FloatArray) -> None:
        result = self.result
        for i, label in enumerate(result.labels):
            (line,) = axes.semilogy(
                positions, np.exp(result.theta_trace[:, i]), linewidth=1.2, label=label
            )
            last = positions[-1:]
            accepted = np.full(len(last), np.exp(result.theta[i]))
            axes.plot(last, accepted, "o", color=line.get_color(), alpha=0.7)
        axes.set_ylabel("hyperparameter")
        _finish(axes)


def _running_mean(values: FloatArray, window: int) -> FloatArray:
    """Return for each step the mean of the last values that are defined."""
    n = len(values)
    if n == 0:
        return values
    is_defined = np.isfinite(values)
    weights = np.ones(window)
    sums = np.convolve(np.where(is_defined, values, 0.0), weights)[:n]
    counts = np.convolve(is_defined, weights)[:n]
    mean = np.full(n, np.nan)
    np.divide(sums, counts, out=mean, where=counts > 0.0)
    return mean


def _finish(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small"
    )
