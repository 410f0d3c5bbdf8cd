"""Fits of processes without an estimator, and what they must give."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from skconvgp._config import ComputeConfig
from skconvgp._protocols import run_serially
from skconvgp.completion import CoarseKernel, Nystrom
from skconvgp.engine import Placement
from skconvgp.processes import Parts, Planner, Problem, Run, Settings
from skconvgp.processes._run import NoProgress
from skconvgp.solvers import Cholesky
from tests.helpers.dense_gp import Joint, Local
from tests.helpers.worlds import (
    COARSE,
    INPUTS,
    N_FIRST,
    N_NEW,
    WORLDS,
    N,
    both_sides,
    coarse_covariances,
    completed,
    explained_by_patches,
    network_covariances,
    over_sides,
)

CPU = torch.device("cpu")
NOISE, SHARE = 0.05, 0.3
SCALE = np.array([2.0, 0.3])  # units of the targets
TARGETS = np.random.default_rng(2).normal(size=(N, 2)) + np.sin(INPUTS)[:, None]


@dataclass(frozen=True)
class PlainResources:
    """The processor, double precision and torch; nothing is shown or kept."""

    room: int = 2**30  # bytes of a Gram matrix that is held

    @property
    def solve_dtype(self):
        return torch.float64

    def placement(self, needed):
        return Placement(CPU)

    def run(self, placement, reserved=0):
        return Run(
            placement,
            ComputeConfig(CPU),
            run_serially,
            "torch",
            NoProgress(),
            lambda *_: None,
        )

    def with_precision(self, basis, run):
        return basis

    def memory_budget(self, placement, reserved):
        return self.room

    def generator(self):
        return torch.Generator().manual_seed(0)


RESOURCES = PlainResources()
LANDMARKS = Nystrom(6, check_fraction=0.0)  # an error would be noise


@dataclass(frozen=True)
class Task:
    """What is fitted: samples of a world, by number."""

    world: str
    weights: np.ndarray
    amplitude: Any = "profile"
    numbers: np.ndarray = field(default_factory=lambda: np.arange(N))
    codes: np.ndarray | None = None  # of all samples of the world

    def problem(self, some=slice(None)):
        numbers, weights = self.numbers[some], self.weights[some]
        rows = WORLDS[self.world].rows_of(numbers)
        if self.codes is None:
            return Problem(rows, TARGETS[numbers] / SCALE, weights, SCALE)
        targets = np.eye(self.codes.max() + 1)
        scale, codes = np.ones(len(targets)), self.codes[numbers]
        return Problem(rows, targets[codes], weights, scale, codes)

    def basis(self, some=slice(None)):
        return WORLDS[self.world].basis(self.numbers[some])

    @property
    def settings(self):
        return Settings(NOISE, self.amplitude)

    def new(self):
        return WORLDS[self.world].new(self.numbers)


def no_models(problem):
    return []


def planned(
    task,
    completion=None,
    solver=None,
    resources=RESOURCES,
    models_of=no_models,
    some=slice(None),
):
    word = "auto" if solver is None else solver
    solver = Cholesky() if solver is None else solver
    parts = Parts(solver, word, completion, 1.0, models_of, keeps_left_out=True)
    problem = task.problem(some)
    plan = Planner(task.basis(some), parts, resources).plan(problem, task.settings)
    return plan.fit(problem, resources)[0].process


def joint(
    task, latent, whole, diag=None, *, first=slice(None), is_counted=False, **local
):
    """Return the dense model of covariances of all samples, training and new.

    `latent` are those of training samples with any other, `whole` those of new samples
    with each other, and `diag` what has mean 1 over the samples of the first call.
    """
    n, new = task.numbers, np.arange(N, N + N_NEW)
    diag = np.diag(whole) if diag is None else diag
    unit = np.average(diag[n][first], weights=task.weights[first])
    latent, whole = latent / unit, whole / unit
    noise, own = np.full(len(n), NOISE), np.diag(whole)[n]
    if is_counted:  # what features leave out is noise
        own = np.diag(latent)[n]
        noise = noise + np.diag(whole)[n] - own
    kind = Local if local else Joint
    return kind(
        latent[np.ix_(n, n)],
        latent[np.ix_(new, n)],
        whole[np.ix_(new, new)],
        own,
        noise,
        task.weights,
        INPUTS[n],
        **local,
    )


def exact_joint(task, process):
    covariances = WORLDS[task.world].covariances
    return joint(task, covariances, covariances)


def coarse_and(exact):
    """Return the sum of the coarse kernel and of the completed one."""
    return CoarseKernel(2, kernel=COARSE, exact=exact, exact_weight=SHARE)


def sum_joint(task, process):
    fine, rough = WORLDS[task.world].covariances, coarse_covariances()
    anchors = task.numbers[process.basis.exact.indices]
    means = (
        np.average(np.diag(one)[task.numbers], weights=task.weights)
        for one in (fine, rough)
    )
    rough = (1.0 - SHARE) * next(means) / next(means) * rough
    explained = completed(fine, anchors)
    rest = np.diag(np.diag(fine - explained))
    return joint(task, rough + SHARE * explained, rough + SHARE * (explained + rest))


def features_joint(task, process, variance, first=slice(None)):
    covariances = WORLDS[task.world].covariances
    explained = completed(covariances, task.numbers[process.basis.indices])
    whole = explained if variance == "sor" else covariances
    diag, is_counted = np.diag(covariances), variance == "fitc"
    return joint(task, explained, whole, diag, first=first, is_counted=is_counted)


def expansion_joint(task, process, first=slice(None)):
    """Return the dense model of the features that a process has drawn."""
    run = RESOURCES.run(RESOURCES.placement(0))
    blocks = list(process.basis.blocks(WORLDS[task.world].rows, run))
    features = torch.cat(blocks).numpy()
    covariances = features @ features.T
    return joint(task, covariances, covariances, first=first)


def first_call(task):
    """Return the samples of a first call, to which others are added."""
    return slice(np.searchsorted(task.numbers, N_FIRST))


def fit_extended(fit, extend, task):
    """Fit to the samples of a first call, and add the others."""
    first = first_call(task)
    process = fit(task, some=first)
    problem = task.problem(slice(first.stop, None))
    world = WORLDS[task.world]
    if world.kernel is None:  # covariances with the samples of the first call
        both = np.ix_(task.numbers[first.stop :], task.numbers[first])
        problem = replace(problem, rows=world.covariances[both])
    return extend(process, problem, task.amplitude, RESOURCES.generator(), RESOURCES)[0]


def patches_joint(task, process, variance, first=slice(None)):
    inducing = process.basis.inducing.terms[0]
    patches = inducing.patches.reshape(len(inducing.patches), -1)
    explained = explained_by_patches(patches, inducing.locations)
    covariances = WORLDS[task.world].covariances
    whole = explained if variance == "sor" else covariances
    return joint(task, explained, whole, np.diag(covariances), first=first)


def in_units(covariances, task):
    """Return covariances for functions of variance 1 around their mean."""
    among = covariances[np.ix_(task.numbers, task.numbers)]
    share = task.weights / task.weights.sum()
    return covariances / (share @ np.diag(among) - share @ among @ share)


def parts_joint(task, process, kernel, weights, view=lambda images: images):
    """Return the dense model of a network and of patches, over mirror images or not."""
    part = process.basis.parts[1]
    inducing, images = part.basis.inducing.terms[0], both_sides()
    patches = inducing.patches.reshape(len(inducing.patches), -1)
    terms = (
        network_covariances(kernel, view(images)),
        explained_by_patches(patches, inducing.locations, images),
    )
    n = len(images) // 2
    terms = (over_sides(one) if part.is_averaged else one[:n, :n] for one in terms)
    pairs = zip(weights, terms, strict=True)
    whole = sum(weight * in_units(one, task) for weight, one in pairs)
    return joint(task, whole, whole)


def leaves(value):
    """Yield what a value is made of."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for each in value:
            yield from leaves(each)
    elif hasattr(value, "__dict__"):
        yield from leaves(vars(value))
    else:
        yield value
