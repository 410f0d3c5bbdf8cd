"""One more sample: what a posterior by solves says of a set with it, without a refit.

The formulas: docs/maths.rst, "One more sample".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import FactoredSolver
from skconvgp._tensors import int_range
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    freeze,
    frozen_bytes,
    slices,
    to_numpy,
)
from skconvgp.inference import (
    Addition,
    EqualInputs,
    LeftOutInputs,
    NewVersions,
    posterior_mean,
)
from skconvgp.linalg import DenseGram
from skconvgp.processes._process import Process, run_beside
from skconvgp.processes._run import Resources, run_of_fit
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.posterior._left_out import inverse_blocks, inverse_diag_by_input

# Numbers of an array over new samples, inputs and functions: a few such arrays then
# stay in the cache of a processor.
AT_ONCE = 2**17
# New images with their versions, whose covariances with each other are computed.
MOST_ROWS = 64
GRAM_COPIES = 3  # a matrix, and two factors of it
FACTOR_REMEDY = "ask a model of fewer samples."
LABELLED = "each label has a noise of its own: fit with likelihood='gaussian'"

# Returns results (b, ...) for b new samples that are added.
Question: TypeAlias = Callable[[Addition], Sequence[Tensor]]


@dataclass(frozen=True)
class Scored:
    """Samples of a fit that a new sample is compared with."""

    samples: NDArray[np.intp]  # (n,), which of the samples of the fit
    of: NDArray[np.intp]  # (n,), the input of `LeftOutInputs` that each of them has
    units: NDArray[np.intp]  # (n,), numbers that samples share which are one unit
    n_inputs: int

    def take(self, chosen: NDArray[np.bool_]) -> Scored:
        """Return those of the samples that are chosen (n,)."""
        own = self.samples[chosen], self.of[chosen], self.units[chosen]
        return Scored(*own, self.n_inputs)


def why_not_solved(process: Process) -> str:
    """Return why a process by solves cannot take one more sample; empty if it can."""
    posterior: Any = process.posterior
    if not getattr(posterior.solver, "is_exact", False):
        return (
            f"{posterior.solver!r} does not solve by a factor of the Gram matrix: fit "
            "with solver='cholesky'"
        )
    if process.basis.left_out_diag is not None:
        return (
            "a completed matrix lacks variances that new samples have: fit with "
            "completion=None"
        )
    return ""


def why_not_factored(process: Process) -> str:
    """Return why there is no factor with another noise; empty if there can be."""
    solver = getattr(process.posterior, "solver", None)
    if isinstance(solver, FactoredSolver):
        return ""
    return (
        f"{solver!r} does not give the Gram matrix back, to factor it with a smaller "
        "noise: fit with solver='cholesky'"
    )


class AsksSolved:
    """Left-out values by solves, which take one more sample."""

    keeps_features: ClassVar[bool] = False
    knows_units: ClassVar[bool] = True

    def has_gram(self, process: Process) -> bool:
        """Return whether a factor gives the Gram matrix back, and nothing is beside."""
        posterior: Any = process.posterior
        is_complete = process.basis.left_out_diag is None
        return is_complete and isinstance(posterior.solver, FactoredSolver)

    def why_no_more(self, process: Process, *, other_noise: bool) -> str:
        """Return why one more sample cannot be added; empty if it can.

        `other_noise` says whether `with_noise` is needed, too.
        """
        why = why_not_solved(process)
        return why_not_factored(process) if other_noise and not why else why

    def ready(self, process: Process, resources: Resources) -> Process:  # noqa: ARG002
        """Return the process, which has all that is needed."""
        return process


def at_once(n_samples: int, n_functions: int) -> int:
    """Return how many new samples are added at once.

    Of many samples with equal inputs each has a score.
    """
    return max(1, AT_ONCE // max(1, n_samples * n_functions))


def scored_inputs(inputs: EqualInputs) -> Scored:
    """Return all samples, with their inputs and what is left out with each."""
    of = to_numpy(inputs.of[: inputs.n_images])
    units = to_numpy(inputs.left_out_with)
    return Scored(np.arange(len(of)), of, units, inputs.n_inputs)


def ask_solved(
    process: Process,
    inputs: EqualInputs,
    kept_var: FloatArray | None,
    new: NewRows,
    resources: Resources,
    question: Question,
) -> list[FloatArray]:
    """Return what a question says of each new sample, a few of them at a time.

    `kept_var` (n,) has left-out variances, if they are kept.
    """
    needed, model = frozen_bytes(process.state), process.model
    dual = process.dual * model.mean_diag

    def ask_at(placement: Placement) -> list[FloatArray]:
        run = run_beside(resources, placement, needed)
        posterior: Any = process.posterior.at(process.basis, run)
        solver, state = posterior.solver, posterior.state
        on_device = inputs.to(placement.device)
        targets, scaled_dual = run.tensor(model.targets), run.tensor(dual)
        known = None
        if kept_var is not None:
            # Of a sample alone at its input, without the noise that it leaves with.
            known = run.tensor(kept_var - model.left_out_noise)
        given = solver, state, on_device, model.noise, targets, scaled_dual
        weights, shares = run.tensor(model.weights), None
        if model.noise_shares is not None:
            shares = run.tensor(model.noise_shares)
        left_out = _left_out_inputs(*given, weights, shares, known)
        v = model.n_versions
        size = at_once(len(inputs.of), v * left_out.mean.shape[1])
        answers: list[Sequence[Tensor]] = []
        if v > 1:
            every: Any = new.rows
            for rows in images_with_versions(every, v):
                given_rows = process.basis, rows, run, on_device, scaled_dual
                versions, mean = _new_versions(posterior, *given_rows, v)
                for part in slices(len(mean), size):
                    some = versions.take(part)
                    addition = Addition(
                        left_out,
                        some.solved[:, :, 0],
                        mean[part],
                        some.covariance[:, 0, 0],
                        model.noise,
                        float(state.jitter),
                        versions=some,
                    )
                    answers.append(question(addition))
            return [to_numpy(torch.cat(one)) for one in zip(*answers, strict=True)]
        stream = process.basis.stream(new, run, posterior.width, needs_diag=True)
        for cross, prior in stream:
            scaled = cross.mT / posterior.unit
            solved = solver.solve(state, scaled).value
            latent_var = prior / posterior.unit - (scaled * solved).sum(0)
            latent_var = latent_var.clamp(min=0.0)
            mean = posterior_mean(scaled.mT, scaled_dual)
            solved = on_device.sum(solved)
            for part in slices(len(mean), size):
                addition = Addition(
                    left_out,
                    solved[:, part],
                    mean[part],
                    latent_var[part],
                    model.noise,
                    float(state.jitter),
                )
                answers.append(question(addition))
        return [to_numpy(torch.cat(one)) for one in zip(*answers, strict=True)]

    return compute_at(resources.placement(needed), ask_at)


def images_with_versions(rows: NDArray[Any], n_versions: int) -> Iterator[NDArray[Any]]:
    """Yield rows of a few images at a time, those of an image beside each other.

    First come all images, and then versions of all of them.
    """
    each = rows.reshape(n_versions, -1, rows.shape[1])
    for part in slices(each.shape[1], max(1, MOST_ROWS // n_versions)):
        yield each[:, part].swapaxes(0, 1).reshape(-1, rows.shape[1])


def _new_versions(
    posterior: Any,
    basis: Any,
    rows: NDArray[Any],
    run: Any,
    inputs: EqualInputs,
    dual: Tensor,
    n_versions: int,
) -> tuple[NewVersions, Tensor]:
    """Return versions of b images, which are rows (b v, d), and means (b, k)."""
    stream = basis.stream(NewRows(rows), run, posterior.width, needs_diag=False)
    cross = torch.cat([block for block, _ in stream])
    scaled = cross.mT / posterior.unit
    solved = posterior.solver.solve(posterior.state, scaled).value
    mean = posterior_mean(scaled.mT, dual)
    shape = -1, len(rows) // n_versions, n_versions
    prior = basis.covariance(rows, run, posterior.unit).to(scaled)
    prior = prior.reshape(*shape[1:], *shape[1:]).diagonal(dim1=0, dim2=2)
    halves = (one.reshape(shape).movedim(0, 1) for one in (scaled, solved))
    left, right = halves  # (b, n, v)
    covariance = prior.movedim(2, 0) - left.mT @ right
    means = mean.reshape(*shape[1:], -1)
    found = NewVersions(inputs.sum(solved).reshape(shape), means, covariance)
    return found, means[:, 0]


def _left_out_inputs(
    solver: Any,
    state: Any,
    inputs: EqualInputs,
    noise: float,
    targets: Tensor,
    dual: Tensor,
    weights: Tensor,
    shares: Tensor | None,
    kept_var: Tensor | None,
) -> LeftOutInputs:
    """Return what is left out with each input; nothing is solved if it is kept.

    `kept_var` (n,) has left-out variances of the function.
    """
    precisions = weights if shares is None else weights / shares
    merged = inputs.merge(targets, precisions)
    own_noise = noise / merged.weights + float(state.jitter)
    given = merged.targets, inputs.sum(dual)
    if inputs.has_blocks:
        blocks = _units(solver, state, inputs, targets.dtype)
        return LeftOutInputs.together(*given, blocks, own_noise, noise)
    stays = bool(inputs.staying(weights, shares).any())
    first = inputs.first()
    if kept_var is None or stays:
        inverse_diag = inverse_diag_by_input(solver, state, inputs)[first]
    else:
        inverse_diag = 1.0 / (kept_var[first] + noise / merged.weights)
    return LeftOutInputs.alone(*given, inverse_diag, own_noise, noise)


def _units(
    solver: Any, state: Any, inputs: EqualInputs, dtype: torch.dtype
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield inputs of units (b, s), and their blocks (b, s, s) of the inverse."""
    every = int_range(inputs.n_images, inputs.of.device)
    for left, block in inverse_blocks(inputs, solver, state, every, dtype):
        yield left.members, block


def with_noise(process: Process, noise: float, resources: Resources) -> Process:
    """Return a process with another noise variance, by one factorisation.

    Its Gram matrix follows from the factor. Left-out values are not kept.
    """
    model, posterior = process.model, process.posterior
    n = len(model.targets)
    needed = GRAM_COPIES * n**2 * resources.solve_dtype.itemsize

    def solved_at(placement: Placement) -> tuple[Any, FloatArray]:
        user = f"A factor for questions about {n} samples"
        run = run_of_fit(n, needed, placement, resources, FACTOR_REMEDY, user)
        own: Any = posterior.at(process.basis, run)
        weights, targets = run.tensor(model.weights), run.tensor(model.targets)
        gram = own.solver.product(own.state)
        gram.diagonal().sub_(run.tensor(model.row_noise) + own.state.jitter)
        state = own.solver.init(DenseGram(gram), noise / weights)
        dual = own.solver.solve(state, targets).value
        return freeze(state), to_numpy(dual).astype(np.float64) / own.unit

    state, dual = compute_at(resources.placement(needed), solved_at)
    solved: Any = replace(posterior, state=state, dual=dual)  # type: ignore[type-var]
    model = replace(model, noise=noise, noise_shares=None)
    return replace(process, posterior=solved, model=model)
