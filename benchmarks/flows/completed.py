"""Kernel Flows whose batches, and whose process, have completed Gram matrices."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.data import Validated
from benchmarks.flows import published
from benchmarks.flows.budget import WithinBudget
from benchmarks.flows.methods import MAIN_KIND
from benchmarks.flows.networks import LOG_UNIFORM, NETWORKS, draw_starts
from benchmarks.measure import Stopwatch, number, unwarned
from benchmarks.report import Figures, show
from skconvgp import ConvNetGPClassifier, KernelFlowsClassifier, completion
from skconvgp.flows import BayesianOptimization, Rho, Score

NOT_LEARNED, EXACT, COMPLETED = "not learned", "exact batches", "completed batches"
START = 1  # of random starts, the one whose processes have the most errors
FRACTION = 0.2  # of the entries, of batches and of the training images
METHODS: dict[str, Callable[[], Any]] = {
    "exact": lambda: None,
    "nystrom": completion.Nystrom,
    "iterative-svd": completion.IterativeSVD,
    "soft-impute": completion.SoftImpute,
}
SHOWN = {
    "test_accuracy": "accuracy",
    "objective": "objective",
    "learn_cpu_seconds": "learn s",
    "fit_cpu_seconds": "fit s",
}


@dataclass(frozen=True)
class Known:
    """A Gram matrix, of which a completion asks for entries."""

    gram: Tensor

    @property
    def n_samples(self) -> int:
        return len(self.gram)

    def diag(self) -> Tensor:
        return self.gram.diagonal()

    def block(self, rows: Tensor | None, cols: Tensor | None) -> Tensor:
        some = self.gram if rows is None else self.gram[rows]
        return some if cols is None else some[:, cols]


@dataclass(frozen=True)
class OfCompleted:
    """Rho of the completed Gram matrix of a batch; it has no slopes."""

    part: Any
    inner: Rho

    @property
    def noise_variance(self) -> float:
        return self.inner.noise_variance

    def count(self, n: int) -> int:
        return self.inner.count(n)

    def score(self, gram: Tensor, targets: Tensor, noise: float | None = None) -> Score:
        generator = torch.Generator().manual_seed(0)
        done = self.part.complete(Known(gram), FRACTION, generator)
        return self.inner.score(done.factor @ done.factor.mT, targets, noise)


def learn_kernel(part: Any, split: Validated, options: Any) -> tuple[Any, Figures]:
    """Return the kernel learned from exact batches, or with a part, and its seconds."""
    rho = Rho(MAIN_KIND, noise_variance=published.NOISE)
    search = BayesianOptimization(max_iter=options.n_points)
    gp = KernelFlowsClassifier(
        at_start(),
        optimizer=WithinBudget(search),
        objective=rho if part is None else OfCompleted(part, rho),
        batch_size=options.completed_batch,
        n_batches=2,
        noise_variance=published.NOISE,
        random_state=0,
    )
    watch = Stopwatch()
    with unwarned():
        result = gp.fit(split.train.X, split.train.y).flow_result_
    row = watch.read("learn_")
    row |= {"start_objective": number(result.start_rho), "objective": result.rho}
    return gp.kernel_, row | {"theta": result.theta.tolist()}


def judge_completed(kernel: Any, part: Any, split: Validated) -> Figures:
    """Return accuracy and seconds of a process, with a completion or without."""
    fraction = 1.0 if part is None else FRACTION
    gp = ConvNetGPClassifier(
        kernel, completion=part, observed_fraction=fraction, random_state=0
    )
    watch = Stopwatch()
    with unwarned():
        gp.fit(split.train.X, split.train.y)
    return {
        **watch.read("fit_"),
        "test_accuracy": gp.score(split.test.X, split.test.y),
        "noise_variance": float(gp.noise_variance_),
        "relative_rmse": number(gp.fit_report_.relative_rmse),
        "n_train": len(split.train.y),
    }


def at_start() -> Any:
    """Return the network of seven layers with the variances of the start."""
    start = draw_starts(LOG_UNIFORM, START + 1)[START]
    return NETWORKS[published.SEVEN]().with_theta(start)


def show_completed(rows: list[Figures]) -> None:
    """Print all rows."""
    show("", SHOWN.values(), 44, 12)
    for row in rows:
        name = ", ".join(row[key] for key in ("learning", "by", "process"))
        show(name, map(row.get, SHOWN), 44, 12)
