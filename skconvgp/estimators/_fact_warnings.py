"""Facts of a result become warnings that name the remedy."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from sklearn.exceptions import ConvergenceWarning

from skconvgp.estimators._warn import warn_caller
from skconvgp.exceptions import JitterWarning
from skconvgp.processes import (
    BoundMoving,
    Clipped,
    Exceeded,
    Fact,
    Inexact,
    Jittered,
    NewtonStopped,
    TooFewPatches,
    Undrawn,
    Unexplained,
    Unfinished,
    Unsolved,
)


def warn_of_facts(facts: Iterable[Fact]) -> None:
    """Warn the caller of the package of each fact."""
    for fact in facts:
        warn_caller(*_message(fact), kind=type(fact))


def _message(fact: Fact) -> tuple[str, type[Warning]]:
    match fact:
        case Jittered():
            return _of_jitter(fact), JitterWarning
        case Unsolved():
            return _of_unsolved(fact), ConvergenceWarning
        case Inexact(solver):
            return (
                f"{solver!r} did not converge in `fit`, and its solutions now "
                "are no better: standard deviations, draws and leave-one-out "
                "predictions are inexact. Raise `noise_variance`, or allow more "
                "iterations.",
                ConvergenceWarning,
            )
        case Unexplained(completion, share):
            return (
                f"{completion!r} explains {max(share, 0.0):.0%} of the variance of "
                "entries that were held out: evaluate more or in another `pattern`, "
                "and compare with SubsetOfData().",
                UserWarning,
            )
        case Unfinished() | NewtonStopped() | BoundMoving():
            return _of_iterations(fact), ConvergenceWarning
        case TooFewPatches(share):
            return (
                f"Inducing patches explain {share:.0%} of the prior variance, and "
                "variance='sor' ignores the other part: standard deviations are too "
                "small. Raise `n_inducing` or `n_locations`, or use variance='dtc'.",
                UserWarning,
            )
        case Clipped(share):
            return (
                f"Posterior variances down to -{share:.1e} of the prior variance "
                "were set to 0: raise `noise_variance` or use dtype='float64'.",
                UserWarning,
            )
        case Undrawn(share):
            return (
                f"Draws of coefficients leave out {share:.0%} of the posterior "
                "variance at these samples, that which their features leave out: use "
                "method='joint', or more landmarks.",
                UserWarning,
            )
        case Exceeded(share):
            return (
                "Features of the completion exceed the prior variance of some samples, "
                f"by up to {share:.2g} of its mean: their standard deviations are too "
                "small. Raise `observed_fraction`, or use completion=Nystrom() or "
                "dtype='float64'.",
                UserWarning,
            )


def _of_iterations(fact: Unfinished | NewtonStopped | BoundMoving) -> str:
    match fact:
        case Unfinished(completion, stats):
            return (
                f"{completion!r} did not converge, {stats!r}: the matrix is "
                "its last iterate. Allow more iterations or a larger tolerance."
            )
        case NewtonStopped(likelihood):
            return (
                f"Newton's method for {likelihood!r} did not converge: the "
                "result is its last iterate. Scale the kernel, or set `amplitude`."
            )
        case BoundMoving(change, n_epochs):
            return (
                f"Variational inference ended after {n_epochs} epochs, of which the "
                f"last one changed the bound by {change:.1e} for each sample: raise "
                "`max_iter` or `tol`, or change `learning_rate`."
            )


def _of_jitter(fact: Jittered) -> str:
    remedies = ["Raise `noise_variance`"]
    if fact.tile_dtype == torch.float32:
        remedies.append("compute covariances with `dtype='float64'`")
    if fact.solve_dtype == torch.float32:
        remedies.append("solve with `solve_dtype='float64'`")
    return (
        f"The Gram matrix with its noise of {fact.least_noise:.2g} was not positive "
        f"definite in finite precision, and {fact.jitter:.2g} was added to its "
        "diagonal: predictions, standard deviations and the evidence are those of "
        f"that noise, not of the one asked for. {', '.join(remedies)}, or remove "
        "samples that are nearly the same."
    )


def _of_unsolved(fact: Unsolved) -> str:
    solver, stats = fact.solver, fact.stats
    figures = ", ".join(f"{name} {value:.3g}" for name, value in stats.items())
    most = getattr(solver, "max_iter", None)
    if most is None or stats.get("iterations", 0.0) >= most:
        remedy = "allow more iterations"
    elif fact.solve_dtype != torch.float64:
        remedy = "take solve_dtype='float64'"
    else:
        remedy = (
            "take a larger tolerance: rounding errors stopped it, or a Gram "
            "matrix that is not positive semi-definite"
        )
    return (
        f"{solver!r} did not converge, {figures}: the result is its best "
        f"iterate. Raise `noise_variance` or {remedy}."
    )
