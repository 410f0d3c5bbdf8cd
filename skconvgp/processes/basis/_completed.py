"""A completed Gram matrix, with its values for a fit and for the report."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from skconvgp._protocols import CompletedGram, Completion
from skconvgp.engine import (
    SampleOracle,
    rows_to_tensor,
    to_numpy,
)
from skconvgp.exceptions import CompletionError
from skconvgp.inference import EqualInputs
from skconvgp.processes._facts import Fact, Unexplained, Unfinished
from skconvgp.processes._problem import Problem, Record, entries
from skconvgp.processes._run import (
    COVARIANCES,
    FLOPS,
    NOISE,
    SOLVING,
    Run,
    Stage,
    clock,
)
from skconvgp.processes.basis._plain import PlainBasis

# Share of the variance of held-out entries below which a user is warned.
LEAST_EXPLAINED = 0.5
COMPLETION = "completion"  # a stage


@dataclass(frozen=True)
class Completed:
    """A completed Gram matrix, with the time it took and facts about it."""

    gram: CompletedGram
    diag: Tensor  # (n,), prior variances of the samples, on the host
    n_inputs: int  # different ones: copies need no entries of their own
    seconds: float
    facts: list[Fact]

    def in_units_(self, problem: Problem) -> tuple[float, Tensor, Tensor, Tensor]:
        """Divide features by the root of the mean prior variance, in place.

        Return this mean, by the weights of a problem, the features (n, r), the
        variances (n,) that they do not explain, of mean 1, and the map (m, r) or ()
        that gives features of new samples.
        """
        mean_diag = problem.mean_variance(self.diag)
        unit = math.sqrt(mean_diag)
        features = self.gram.factor.div_(unit)
        explained = torch.einsum("ij,ij->i", features, features)
        residual_diag = (self.diag / mean_diag - explained).clamp(min=0.0)
        return mean_diag, features, residual_diag, self.gram.lift_map / unit

    def reported(self, record: Record) -> Record:
        """Return the record of a fit to the matrix, with the facts about it."""
        figures = {
            "relative_rmse": self.gram.relative_rmse,
            "observed_fraction": self.gram.n_evaluated / entries(self.n_inputs),
        }
        return replace(
            record,
            report=record.report | figures,
            facts=[*self.facts, *record.facts],
        )


def sample_oracle(
    problem: Problem, basis: PlainBasis, run: Run, n_allowed: int
) -> SampleOracle:
    """Return the oracle from which completions get entries of the Gram matrix.

    Its samples are those with different inputs, the first one of each.
    """
    codes = None if problem.codes is None else rows_to_tensor(problem.codes)
    if problem.inputs.n_inputs < len(problem.rows):
        first = problem.inputs.first()
        codes = None if codes is None else codes[first]
        basis = basis.select(to_numpy(first))
    oracle: Any = basis.cached_oracle(run)
    samples = basis.kernel_basis
    n_position_pairs = 1 if samples is None else samples.n_position_pairs
    count = run.progress(COVARIANCES, n_position_pairs, is_part=True, is_fit=True)

    def show(done: int, total: int) -> None:
        count(done, total)
        if done >= total:
            run.progress.enter(COMPLETION)

    return SampleOracle(oracle, basis.precision(run.config), show, n_allowed, codes)


def n_evaluated(n: int, completion: Any, fraction: float) -> int:
    """Return how many entries of the matrix of n inputs a strategy evaluates, about."""
    n_landmarks = getattr(completion, "n_landmarks", None)
    if n_landmarks is not None:
        return n * min(n, int(n_landmarks))
    return max(n, int(fraction * entries(n)))


def completion_stages(
    n: int, completion: Any, fraction: float, n_allowed: int = 0
) -> tuple[Stage, ...]:
    """Return the stages of a fit to n inputs, by so many entries or a share."""
    n_allowed = n_allowed or n_evaluated(n, completion, fraction)
    algebra = 2.0 * n * (n_allowed / n) ** 2  # as for so many columns
    return (
        Stage(COVARIANCES, n_allowed),
        *(Stage(name, algebra, FLOPS) for name in (COMPLETION, NOISE, SOLVING)),
    )


def complete(
    completion: Completion,
    fraction: float,
    generator: Generator,
    problem: Problem,
    basis: PlainBasis,
    run: Run,
    n_allowed: int = 0,
) -> Completed:
    """Return the matrix that a strategy completes from a share of the entries.

    It completes the matrix of the different inputs, of which a copy is a row more: so a
    weight of 2 is the same as two equal samples. Progress counts to `n_allowed`
    entries, if these are more than the share. A factor that is not finite is an error.
    """
    start, inputs = clock(run.config.device), problem.inputs
    n = inputs.n_inputs
    n_allowed = n_allowed or n_evaluated(n, completion, fraction)
    run.progress.expect(*completion_stages(n, completion, fraction, n_allowed))
    oracle = sample_oracle(problem, basis, run, n_allowed)
    completed = completion.complete(oracle, fraction, generator)
    for name in ("factor", "lift_map"):
        if not bool(getattr(completed, name).sum().isfinite()):
            raise CompletionError(
                f"The `{name}` that {completion!r} returned is not finite, though "
                "all covariances are: change its settings, or report it to its "
                "authors."
            )
    facts, diag = _facts_of(completion, completed), oracle.diag()
    if n < len(problem.rows):
        completed, diag = _with_copies(completed, inputs), diag[inputs.of]
    return Completed(completed, diag, n, clock(run.config.device) - start, facts)


def _with_copies(completed: CompletedGram, inputs: EqualInputs) -> CompletedGram:
    """Return the matrix of all samples, given the matrix of the different inputs."""
    of, first = inputs.of, inputs.first()
    return replace(
        completed,
        factor=completed.factor[of],
        anchors=first[completed.anchors.to(first.device)],
    )


def _facts_of(completion: Any, completed: CompletedGram) -> list[Fact]:
    facts: list[Fact] = []
    explained = completed.stats.get("explained", math.nan)
    if explained < LEAST_EXPLAINED:
        facts.append(Unexplained(completion, explained))
    if not completed.converged:
        facts.append(Unfinished(completion, completed.stats))
    return facts
