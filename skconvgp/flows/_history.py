"""Result of learning a kernel, with all steps of the search."""

from dataclasses import dataclass, field

import numpy as np

from skconvgp._typing import FloatArray

AT_BOUND = 1e-3  # relative distance at which a value counts as the bound


@dataclass(frozen=True, repr=False)
class FlowResult:
    """Result of learning a kernel; ``print(gp.flow_result_)`` shows it.

    Parameters
    ----------
    theta : ndarray of shape (p,)
        Logarithms of the hyperparameters that were best on the fixed batches.
    labels : tuple of str
        Names of the hyperparameters.
    rho : float
        Mean of the objective over the fixed batches at `theta`.
    start_theta : ndarray of shape (p,)
        Logarithms with which learning began.
    start_rho : float
        Mean of the objective over the fixed batches at `start_theta`; NaN if it is
        undefined.
    message : str
        Why learning stopped.
    theta_trace : ndarray of shape (n_steps, p)
        Logarithms at each step.
    rho_trace : ndarray of shape (n_steps,)
        Value of the objective on the batch of each step; NaN if it was undefined.
    seconds : ndarray of shape (n_steps,)
        Time from the beginning to the end of each step.
    evaluations : ndarray of shape (n_steps,)
        Number of Gram matrices of a batch, with derivatives or without, that were
        evaluated up to each step.
    n_evaluations : int
        Number of all Gram matrices of a batch that were evaluated.
    n_derivatives : int
        Number of these that were evaluated with derivatives.
    n_restarts : int
        How often the search began again from other hyperparameters.
    stats : dict
        Further numbers, such as those of steps and of undefined values.
    bounds : ndarray of shape (p, 2)
        Bounds of the hyperparameters themselves; empty if they are unknown.
    left_out : dict
        Mean log density of a left-out training target with the kernel at the "start"
        and at the "end" of the search. If the start has the larger one, `theta` has its
        hyperparameters, with the noise of its process, and `rho` is `start_rho`. Empty
        if left-out samples did not decide.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import KernelFlowsRegressor
    >>> from skconvgp.flows import Adam
    >>> from skconvgp.kernels import rbf
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> gp = KernelFlowsRegressor(rbf(1.0), optimizer=Adam(max_iter=20), random_state=0)
    >>> result = gp.fit(X, np.sin(3.0 * X[:, 0])).flow_result_
    >>> result.rho < result.start_rho, len(result.rho_trace)
    (True, 20)
    """

    theta: FloatArray
    labels: tuple[str, ...]
    rho: float
    start_theta: FloatArray
    start_rho: float
    message: str
    theta_trace: FloatArray
    rho_trace: FloatArray
    seconds: FloatArray
    evaluations: FloatArray
    n_evaluations: int
    n_derivatives: int
    n_restarts: int = 0
    stats: dict[str, float] = field(default_factory=dict)
    bounds: FloatArray = field(default_factory=lambda: np.empty((0, 2)))
    left_out: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the outcome in one line, without the steps."""
        return (
            f"FlowResult(rho={self.rho:.6g}, start_rho={self.start_rho:.6g}, "
            f"n_steps={len(self.rho_trace)}, message={self.message!r})"
        )

    def __str__(self) -> str:
        """Return start and end as a few lines of text."""
        seconds = f" in {self.seconds[-1]:.2f} s" if len(self.seconds) else ""
        steps = f"{len(self.rho_trace)}{seconds}, {self.n_evaluations} Gram matrices"
        starts = np.exp(self.start_theta)
        rows = {
            "objective": f"{self.start_rho:.6g} -> {self.rho:.6g}",
            "steps": steps + (f", {self.n_restarts} restarts" * bool(self.n_restarts)),
            "ended": self.message,
        }
        if self.left_out:
            rows["left out"] = "{start:.6g} -> {end:.6g}".format_map(self.left_out)
        for start, (label, end) in zip(starts, self.values.items(), strict=True):
            bound = " (a bound)" if label in self.at_bounds else ""
            rows[label] = f"{start:.6g} -> {end:.6g}{bound}"
        width = max(map(len, rows))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items())

    @property
    def values(self) -> dict[str, float]:
        """The best hyperparameters, by name."""
        values = np.exp(self.theta)
        if len(self.bounds):  # the exponential of a logarithm may be just outside
            values = values.clip(*self.bounds.T)
        return dict(zip(self.labels, values.tolist(), strict=True))

    @property
    def at_bounds(self) -> dict[str, float]:
        """The hyperparameters that ended at a bound, by name, with that bound."""
        return {
            label: float(bound)
            for label, value, pair in zip(
                self.labels, self.values.values(), self.bounds, strict=False
            )
            for bound in pair
            if abs(np.log(value / bound)) < AT_BOUND
        }
