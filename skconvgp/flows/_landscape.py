"""BatchLandscape: an objective as a function of a kernel's hyperparameters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skconvgp._protocols import Batch, Objective, Score
from skconvgp._settings import FIXED, as_bounds
from skconvgp._tensors import reals
from skconvgp._threads import threads_for
from skconvgp._typing import FloatArray
from skconvgp.engine import FactoredWeights
from skconvgp.exceptions import NotPSDError
from skconvgp.flows._batches import Batches
from skconvgp.flows._evaluator import Evaluator
from skconvgp.flows._iterative import FactoredScore, IterativeEvidence
from skconvgp.flows._left_out import LeftOutDensity
from skconvgp.flows._stacks import OneBatch, PartScore, StackEvaluator
from skconvgp.flows._trace import Traced, Watcher
from skconvgp.kernels import Kernel

# Bytes of a Gram matrix with its derivatives up to which both are computed in one pass
# and stored, if derivatives have code of their own. Others are contracted in a second
# pass, tile by tile.
LARGEST_STORED = 2**27
HOST = torch.device("cpu")
NOISE_LABEL = "noise_variance"
UNDEFINED = 1.0  # rho's largest value


@dataclass(frozen=True)
class Task:
    """A kernel to learn, the objective, and the batches that it is learned on."""

    kernel: Kernel  # the kernel at its start
    # Judges the kernel by the Gram matrix of a batch, or by products with it.
    objective: Objective | IterativeEvidence
    targets: Tensor  # (n, k), of all training samples
    sizes: Sequence[int]  # sizes of the batches, each for an equal part of the steps
    n_fixed: int  # batches in the evaluation set; they have the last size


class BatchLandscape(Traced):
    """An objective as a function of a kernel's hyperparameters, by batches.

    Theta holds the logarithms of the free hyperparameters. If the objective has a
    parameter that is learned with the kernel, its logarithm follows: a noise variance
    or, for the evidence of labels, an amplitude.
    """

    def __init__(
        self,
        task: Task,
        evaluator: Evaluator | StackEvaluator,
        batches: Batches | OneBatch,
        watch: Watcher,
    ) -> None:
        super().__init__(watch)
        self._task, self._evaluator, self._batches = task, evaluator, batches
        self.worst = UNDEFINED
        self.origin, self.limits, self.labels = _search_space(
            task.kernel, task.objective
        )
        self.bounds = np.log(self.limits)
        self.start = self.origin  # from which an optimiser begins; restarts change it
        last = task.sizes[-1]
        self.fixed = tuple(batches.draw(last) for _ in range(task.n_fixed))

    def draw(self, progress: float) -> Batch:
        """Return a fresh batch; its size depends on the progress, from 0 to 1."""
        sizes = self._task.sizes
        return self._batches.draw(
            sizes[min(int(progress * len(sizes)), len(sizes) - 1)]
        )

    def gradient(
        self, theta: FloatArray, batches: tuple[Batch, ...], method: str = "exact"
    ) -> tuple[float, FloatArray]:
        """Return the mean value over batches and its derivatives (p,).

        Both are NaN if the value is undefined. Theta (p,) holds logarithms of the
        hyperparameters. The method is "exact", by tiles, or "autograd", through a
        stored graph of the whole batch.
        """
        total, slope = 0.0, np.zeros(len(theta))
        for batch in batches:
            self.n_evaluations += 1
            self.n_derivatives += 1
            derived = self._derive(theta, batch, method)
            if derived is None:
                return math.nan, np.full(len(theta), math.nan)
            score, by_theta = derived
            total += score.value
            slope[: len(by_theta)] += by_theta
            slope[len(by_theta) :] += score.by_parameter
        value = total / len(batches)
        if batches is self.fixed:
            self._remember(theta, value)
        return value, slope / len(batches)

    def _kernel_at(self, theta: FloatArray) -> tuple[Kernel, float | None]:
        """Return the kernel, and the parameter of the objective if it is learned."""
        p = len(self._task.kernel.theta)
        parameter = float(np.exp(theta[p])) if len(theta) > p else None
        return self._task.kernel.with_theta(theta[:p]), parameter

    def _mean(self, theta: FloatArray, batches: tuple[Batch, ...]) -> float:
        kernel, parameter = self._kernel_at(theta)
        total = 0.0
        for batch in batches:
            self.n_evaluations += 1
            value = self._value_on(kernel, batch, parameter)
            if value is None:
                return math.nan
            total += value
        return total / len(batches)

    def _derive(
        self, theta: FloatArray, batch: Batch, method: str
    ) -> tuple[Score | FactoredScore | PartScore, FloatArray] | None:
        """Return score and derivatives on a batch; None if they are undefined."""
        kernel, parameter = self._kernel_at(theta)
        if isinstance(self._task.objective, IterativeEvidence):
            return self._by_products(self._task.objective, kernel, batch, parameter)
        if self._is_in_parts(batch):
            parts = self._score_parts(kernel, batch, parameter)
            return (parts, np.array(parts.by_theta().tolist())) if parts else None
        if method == "exact":
            return self._by_tiles(kernel, batch, parameter)
        return self._by_graph(theta, batch)

    def _is_in_parts(self, batch: Batch) -> bool:
        """Return whether a stack of matrices is held a part at a time."""
        evaluator, kernel = self._evaluator, self._task.kernel
        if not isinstance(evaluator, StackEvaluator):
            return False
        return not evaluator.stores(kernel, batch, LARGEST_STORED)

    def _score_parts(
        self, kernel: Kernel, batch: Batch, parameter: float | None
    ) -> PartScore | None:
        """Return the score of a stack of matrices; None if it is undefined."""
        evaluator, objective = self._evaluator, self._task.objective
        assert isinstance(evaluator, StackEvaluator)
        assert isinstance(objective, LeftOutDensity)
        targets = self._task.targets[batch.indices]
        return evaluator.score(objective, kernel, batch, targets, parameter)

    def _by_tiles(
        self, kernel: Kernel, batch: Batch, parameter: float | None
    ) -> tuple[Score, FloatArray] | None:
        evaluator = self._evaluator
        has_code = evaluator.has_own_tangents(kernel)
        if has_code and evaluator.stores(kernel, batch, LARGEST_STORED):
            both = evaluator.gram_with_tangents(kernel, batch)
            score = self._score(both[..., 0], batch, parameter)
            if score is None:
                return None
            tangents = both[..., 1:].to(score.by_gram)
            by_theta = torch.einsum("...ij,...ijp->p", score.by_gram, tangents)
        else:
            gram = evaluator.gram(kernel, batch)
            score = self._score(gram, batch, parameter)
            del gram
            if score is None:
                return None
            by_theta = evaluator.pull(kernel, batch, score.by_gram.to(HOST))
        return score, np.array(by_theta.tolist())

    def _by_graph(
        self, theta: FloatArray, batch: Batch
    ) -> tuple[Score, FloatArray] | None:
        p = len(self._task.kernel.theta)
        _, parameter = self._kernel_at(theta)
        free = reals(theta[:p]).requires_grad_()
        gram = self._evaluator.graph(self._task.kernel.with_theta(free), batch)
        score = self._score(gram.detach(), batch, parameter)
        if score is None:
            return None
        (by_theta,) = torch.autograd.grad(gram, free, score.by_gram)
        return score, np.array(by_theta.tolist())

    def _value_on(
        self, kernel: Kernel, batch: Batch, parameter: float | None
    ) -> float | None:
        """Return the value on a batch; None if it is undefined."""
        objective = self._task.objective
        score: Score | FactoredScore | PartScore | None
        if isinstance(objective, IterativeEvidence):
            estimate = self._estimate(
                objective, kernel, batch, parameter, has_slopes=False
            )
            score = estimate[0] if estimate else None
        elif self._is_in_parts(batch):
            score = self._score_parts(kernel, batch, parameter)
        else:
            score = self._score(self._evaluator.gram(kernel, batch), batch, parameter)
        return score.value if score else None

    def _by_products(
        self,
        objective: IterativeEvidence,
        kernel: Kernel,
        batch: Batch,
        parameter: float | None,
    ) -> tuple[FactoredScore, FloatArray] | None:
        """Return score and derivatives from products with the matrix of a batch."""
        estimate = self._estimate(objective, kernel, batch, parameter, has_slopes=True)
        if estimate is None:
            return None
        score, scale = estimate
        weights = FactoredWeights(
            score.left.to(HOST), score.right.to(HOST), score.diag.to(HOST)
        )
        assert isinstance(self._evaluator, Evaluator)
        by_theta = self._evaluator.pull(kernel, batch, weights) / scale
        return score, np.array(by_theta.tolist())

    def _estimate(
        self,
        objective: IterativeEvidence,
        kernel: Kernel,
        batch: Batch,
        parameter: float | None,
        *,
        has_slopes: bool,
    ) -> tuple[FactoredScore, float] | None:
        """Return a score and the divisor of the matrix; None if it is undefined."""
        assert isinstance(self._evaluator, Evaluator)
        try:
            gram, scale = self._evaluator.operator(
                kernel, batch, is_held=objective.is_held
            )
        except NotPSDError:
            return None
        targets = self._task.targets[batch.indices].to(gram.diag())
        score = objective.score(gram, targets, parameter, has_slopes=has_slopes)
        return (score, scale) if score else None

    def _score(
        self, gram: Tensor, batch: Batch, parameter: float | None
    ) -> Score | None:
        """Return the score of a batch; None if it is undefined."""
        objective = self._task.objective
        assert not isinstance(objective, IterativeEvidence)
        targets = self._task.targets[batch.indices].to(gram.device)
        try:
            with threads_for(gram.shape[-1] * gram.numel()):
                score = objective.score(gram, targets, parameter)
        except NotPSDError:
            return None
        is_defined = math.isfinite(score.value) and bool(score.by_gram.isfinite().all())
        return score if is_defined else None


def _search_space(
    kernel: Kernel, objective: Objective | IterativeEvidence
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return the start, the bounds and the names of the parameters that are learned.

    The start is a logarithm, the bounds are not.
    """
    free = [item for item in kernel.hyperparameters if item.is_free]
    labels = [item.label for item in free]
    bounds = np.array([item.bounds for item in free], dtype=np.float64).reshape(-1, 2)
    start = kernel.theta
    parameter = getattr(objective, "extra_parameter", None)
    noise = as_bounds(getattr(objective, "noise_variance_bounds", FIXED))
    if not isinstance(noise, str):
        parameter = NOISE_LABEL, objective.noise_variance, noise
    if parameter is not None:
        label, value, pair = parameter
        start = np.append(start, np.log(value))
        bounds = np.vstack([bounds, pair])
        labels.append(label)
    return start, bounds, tuple(labels)
