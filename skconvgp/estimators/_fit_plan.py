"""FitPlan: what a fit will take, before any work."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from skconvgp.engine import gibibytes

NAME_WIDTH, MIB = 44, 2**20
MINUTE = 60.0
SEVERAL = "several models"  # a way
# Fields of the report of a fit that are known before it, if the way has them.
KNOWN = (
    "solver",
    "solver_reason",
    "is_gram_held",
    "n_landmarks",
    "n_inducing",
    "parts_reason",
    "inducing_reason",
    "noise_reason",
)


@dataclass(frozen=True)
class PlannedStage:
    """A stage of a fit.

    Parameters
    ----------
    name : str
        What is computed.
    seconds : float
        How long it will take, about.
    n_bytes : int
        How much is held meanwhile, beside the samples.

    Examples
    --------
    >>> from skconvgp.estimators import PlannedStage
    >>> PlannedStage("covariances", 1.5, 8 * 1000**2)
    PlannedStage(name='covariances', seconds=1.5, n_bytes=8000000)
    """

    name: str
    seconds: float
    n_bytes: int


@dataclass(frozen=True)
class OtherPlan:
    """What a fit would take with another setting.

    Parameters
    ----------
    settings : str
        The setting.
    way : str
        How the fit would be computed, as of `FitPlan`.
    seconds : float
        How long it would take, about.
    peak_bytes : int
        How much it would hold at once.
    fits : bool
        Whether there is as much memory.

    Examples
    --------
    >>> from skconvgp.estimators import OtherPlan
    >>> OtherPlan("n_landmarks=500", "landmarks", 20.0, 2**28, fits=True).seconds
    20.0
    """

    settings: str
    way: str
    seconds: float
    peak_bytes: int
    fits: bool


@dataclass(frozen=True)
class FitPlan:
    """What a fit will take: ``estimator.plan(X)`` returns it before any work.

    ``print(plan)`` shows a table. Seconds follow from numbers of operations and from a
    calibration of about a second on this machine. For a fit of a second or more they
    are right to a factor of about two, if the machine has nothing else to do. Which
    parts left-out images drop is not known before: a fit by landmarks that keeps one of
    ten parts takes a fraction of its plan.

    Parameters
    ----------
    estimator : str
        Class of the estimator.
    way : str
        How `fit` will compute: "exact", "iterative", "landmarks", "completion", "random
        features", "patches", "nearest neighbours", "a subset of the samples" or
        "several models"; empty if there is no memory for any.
    n_samples : int
        Number of samples.
    n_pairs : int
        Number of pairs of samples whose covariances `fit` evaluates, those of a search
        for the kernel included; 0 if it evaluates features.
    stages : tuple of PlannedStage
        Seconds and bytes of each stage.
    sample_bytes : int
        Bytes of the copy of the samples that `fit` makes.
    device, backend, dtype : str
        Device, backend and precision of covariances or features.
    free_bytes : int
        Bytes that are free on the device.
    known : dict
        What `fit_report_` will say, by the names of its fields: the solver, landmarks
        and inducing patches, and why.
    missing : str
        Error that `fit` will raise for lack of memory, with the remedy; empty if there
        is enough.
    others : tuple of OtherPlan
        What other settings would take.
    beside : str
        Work of `fit` whose seconds and memory are not known, and in no stage: that of a
        regressor as `mean`. Empty if there is none.

    See Also
    --------
    skconvgp.estimators.FitReport : What a fit has taken.

    Examples
    --------
    >>> from skconvgp import ConvNetGPClassifier
    >>> plan = ConvNetGPClassifier().plan((2000, 28, 28))
    >>> plan.way, plan.n_pairs
    ('exact', 2001000)
    >>> plan.peak_bytes < 2**30
    True
    """

    estimator: str
    way: str
    n_samples: int
    n_pairs: int
    stages: tuple[PlannedStage, ...]
    sample_bytes: int
    device: str
    backend: str
    dtype: str
    free_bytes: int
    known: dict[str, Any]
    missing: str = ""
    others: tuple[OtherPlan, ...] = ()
    beside: str = ""

    @property
    def seconds(self) -> float:
        """Seconds of all stages."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def peak_bytes(self) -> int:
        """Bytes that a fit holds at once, beside the samples that it is given."""
        most = max((stage.n_bytes for stage in self.stages), default=0)
        return self.sample_bytes + most

    @property
    def fits(self) -> bool:
        """Whether there is memory for the fit."""
        return not self.missing

    @property
    def reason(self) -> str:
        """Why `fit` takes this way, in the words of `fit_report_`."""
        names = ("solver_reason", "parts_reason", "inducing_reason")
        return "; ".join(
            str(self.known[name]) for name in names if self.known.get(name)
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, the seconds and the peak, as plain values.

        Returns
        -------
        values : dict
            Values by name.
        """
        sums = {"seconds": self.seconds, "peak_bytes": self.peak_bytes}
        return asdict(self) | sums

    def __str__(self) -> str:
        """Return the plan as a table."""
        head = f"{self.estimator}.fit to {self.n_samples} samples"
        if not self.stages:
            return f"{head}\nno memory   {self.missing}"
        solver = self.known.get("solver", "")
        lines = [
            f"{head}: {self.way}{f', by {solver}' if solver else ''}",
            f"{'stage':<{NAME_WIDTH}}{'time':>10}{'memory':>12}",
            *(
                f"{one.name[: NAME_WIDTH - 2]:<{NAME_WIDTH}}"
                f"{as_time(one.seconds):>10}{as_memory(one.n_bytes):>12}"
                for one in self.stages
            ),
            f"{'all':<{NAME_WIDTH}}{as_time(self.seconds):>10}"
            f"{as_memory(self.peak_bytes):>12}",
            f"free        {as_memory(self.free_bytes)} on {self.device}",
        ]
        if self.beside:
            lines.append(f"beside      {self.beside}")
        if self.n_pairs:
            lines.append(f"pairs       {self.n_pairs}")
        if self.reason:
            lines.append(f"why         {self.reason}")
        if self.missing:
            lines.append(f"no memory   {self.missing}")
        for one in self.others:
            room = "" if one.fits else ", no memory"
            lines.append(
                f"or          {one.settings}: {as_time(one.seconds)}, "
                f"{as_memory(one.peak_bytes)}, {one.way}{room}"
            )
        return "\n".join(lines)

    __repr__ = __str__


def joint_plan(estimator: str, plans: dict[str, FitPlan]) -> FitPlan:
    """Return the plan of an estimator that fits others, one after the other."""
    first, *_ = plans.values()
    return replace(
        first,
        estimator=estimator,
        way=SEVERAL,
        n_pairs=sum(plan.n_pairs for plan in plans.values()),
        stages=tuple(
            PlannedStage(f"model {name}", plan.seconds, plan.peak_bytes)
            for name, plan in plans.items()
        ),
        sample_bytes=0,
        known={},
        missing=next((plan.missing for plan in plans.values() if plan.missing), ""),
        others=(),
    )


def as_time(seconds: float) -> str:
    """Return seconds as text."""
    if seconds < MINUTE:
        return f"{seconds:.2g} s"
    if seconds < MINUTE**2:
        return f"{seconds / MINUTE:.1f} min"
    return f"{seconds / MINUTE**2:.1f} h"


def as_memory(n_bytes: int) -> str:
    """Return bytes as text."""
    return gibibytes(n_bytes) if n_bytes >= 1024 * MIB else f"{n_bytes / MIB:.0f} MiB"
