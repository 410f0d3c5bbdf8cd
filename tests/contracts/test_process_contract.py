"""What every process says, against dense formulas, refits and repetitions."""

import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch

from skconvgp.completion import CoarseKernel, NearestNeighbors, Nystrom, RandomFeatures
from skconvgp.inference import sample_gaussian
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.processes import (
    NewRows,
    PartChoice,
    PartsFit,
    TermChoice,
    extend_process,
    plan_landmarks,
    plan_patches,
)
from skconvgp.solvers import ConjugateGradient
from tests.helpers.estimators import tiny_network
from tests.helpers.processes import (
    LANDMARKS,
    RESOURCES,
    SCALE,
    TARGETS,
    PlainResources,
    Task,
    coarse_and,
    exact_joint,
    expansion_joint,
    features_joint,
    first_call,
    fit_extended,
    joint,
    leaves,
    parts_joint,
    patches_joint,
    planned,
    sum_joint,
)
from tests.helpers.tolerances import assert_close
from tests.helpers.worlds import (
    COARSE,
    N_NEW,
    PATCH,
    REACH,
    WORLDS,
    N,
    coarse_covariances,
)

N_DRAWS = 4000
FRACTIONS = np.random.default_rng(3).uniform(0.3, 2.5, N)
BY_KERNEL, EVERY_KERNEL = ("points", "network"), ("points", "matrix", "network")
WHOLE = np.random.default_rng(4).integers(1, 4, N).astype(float)


def fit_exact(task):
    return planned(task)


def fit_iterated(task):
    return planned(task, solver=ConjugateGradient(tolerance=1e-12))


def fit_unheld(task):
    solver, nothing = ConjugateGradient(tolerance=1e-12), PlainResources(room=0)
    process = planned(task, solver=solver, resources=nothing)
    assert process.state.gram is None
    return process


def fit_coarse(task):
    return planned(task, CoarseKernel(2, kernel=COARSE))


def coarse_joint(task, process):
    return joint(task, coarse_covariances(), coarse_covariances())


def fit_sum(task):
    return planned(task, coarse_and(LANDMARKS))


def fit_iterated_sum(task):
    solver = ConjugateGradient(tolerance=1e-12)
    return planned(task, coarse_and(LANDMARKS), solver)


def fit_completed(task):
    return planned(task, LANDMARKS)


def fit_all_landmarks(task):
    return planned(task, Nystrom(len(task.numbers)))


def no_labels(_problem):
    return []


def fit_landmarks(task, variance, some=slice(None)):
    given = task.basis(some), task.settings, RESOURCES, no_labels, task.problem(some)
    plan = plan_landmarks(LANDMARKS, variance, *given)
    return plan.fit(task.problem(some), RESOURCES)[0].process


def fit_landmarks_that_are_all(task, variance):
    count = len(task.numbers)
    given = task.basis(), task.settings, RESOURCES, no_labels, task.problem()
    plan = plan_landmarks(Nystrom(count), variance, *given)
    return plan.fit(task.problem(), RESOURCES)[0].process


def fit_expansion(task, some=slice(None)):
    return planned(task, RandomFeatures(40), some=some)


def fit_neighbors(task, count=7):
    metric = "cosine" if task.world == "network" else "euclidean"
    return planned(task, NearestNeighbors(count, metric))


def fit_all_neighbors(task):
    return fit_neighbors(task, 10 * N)


def orders(task):
    """Return training samples for each sample, the nearest first."""
    world = WORLDS[task.world]
    if world.kernel is None:
        away = -np.abs(world.covariances) / np.sqrt(np.diag(world.covariances))
    elif task.world == "network":
        lengths = np.linalg.norm(world.rows, axis=1)
        away = -(world.rows @ world.rows.T) / lengths
    else:
        away = np.linalg.norm(world.rows[:, None] - world.rows, axis=2)
    return np.argsort(away[:, task.numbers], axis=1, kind="stable")


def local_joint(task, process):
    covariances = WORLDS[task.world].covariances
    near = {"orders": orders(task), "count": 7}
    return joint(task, covariances, covariances, **near)


def fit_patches(task, variance, some=slice(None)):
    given = np.random.default_rng(5).uniform(0.0, 1.0, (3, 1, PATCH, PATCH))
    choices = (TermChoice(given, None, (2, 1)),)
    plan = plan_patches(task.basis(some), task.settings, variance, choices, RESOURCES)
    return plan.fit(task.problem(some), RESOURCES)[0].process


def halved(images):
    """Return images of which the odd columns are shown at half brightness."""
    shown = images.copy() if isinstance(images, np.ndarray) else images.clone()
    shown[..., 1::2] *= 0.5
    return shown


def halved_view(images):
    return halved, halved(images)


PARTS_NETWORK, PARTS_WEIGHTS = tiny_network(), np.array([0.4, 0.6])


def fit_parts(task, is_mirrored=False, fit_view=None):
    """Fit the sum of a network, which may have a view, and of patches."""
    given = np.random.default_rng(5).uniform(0.0, 1.0, (3, 1, PATCH, PATCH))
    patches = PatchKernel(rbf(3.0), patch_size=PATCH, location_lengthscale=REACH)
    choices = (
        PartChoice(PARTS_NETWORK, fit_view),
        PartChoice(patches, None, TermChoice(given, None, (2, 1))),
    )
    plan = PartsFit(
        task.basis(),
        choices,
        task.settings,
        PARTS_WEIGHTS,
        (is_mirrored,),
        keeps_left_out=True,
    )
    return plan.plan(RESOURCES).fit(task.problem(), RESOURCES)[0].process


@dataclass(frozen=True)
class Case:
    """A process on samples of a world, and its dense model."""

    name: str
    fit: Callable
    dense: Callable
    world: str
    amplitude: Any = "profile"
    # Whether each sample follows from all others, so that a weight is a repetition.
    is_joint: bool = True

    def task(self, weights=FRACTIONS, **settings):
        settings = {"amplitude": self.amplitude} | settings
        return Task(self.world, weights, **settings)

    def fitted(self, **settings):
        task = self.task(**settings)
        process = self.fit(task)
        return process, self.dense(task, process), task


def cases(name, fit, dense, worlds=EVERY_KERNEL, **settings):
    return [Case(name, fit, dense, world, **settings) for world in worlds]


VARIANCES = ("dtc", "sor", "fitc")


def landmark_cases(variance):
    fit, dense = (
        partial(each, variance=variance) for each in (fit_landmarks, features_joint)
    )
    return cases(variance, fit, dense)


def all_landmarks_cases(variance):
    """Return those whose landmarks are all samples, as of the exact model."""
    fit = partial(fit_landmarks_that_are_all, variance=variance)
    return cases(f"all landmarks {variance}", fit, exact_joint)


def extended_cases(name, fit, extend, dense, worlds):
    """Return those of further samples, in the units of a first call."""

    def extended_joint(task, process):
        return dense(task, process, first=first_call(task))

    fit = partial(fit_extended, fit, extend)
    return cases(f"extended {name}", fit, extended_joint, worlds)


def extended_landmarks_cases(variance):
    """Return those of landmarks, where a given matrix lacks variances."""
    fit, dense = (
        partial(each, variance=variance) for each in (fit_landmarks, features_joint)
    )
    worlds = EVERY_KERNEL if variance == "sor" else BY_KERNEL
    return extended_cases(variance, fit, extend_process, dense, worlds)


def patches_cases(variance):
    fit, dense = (
        partial(each, variance=variance) for each in (fit_patches, patches_joint)
    )
    name, worlds = f"patches {variance}", ["patches"]
    return [
        *cases(name, fit, dense, worlds),
        *extended_cases(name, fit, extend_process, dense, worlds),
    ]


def parts_cases(name, view=None, **settings):
    """Return those of sums; `view` shows images to the network."""
    fit_view = None if view is None else halved_view
    fit = partial(fit_parts, fit_view=fit_view, **settings)
    dense = partial(parts_joint, kernel=PARTS_NETWORK, weights=PARTS_WEIGHTS)
    dense = dense if view is None else partial(dense, view=view)
    return cases(name, fit, dense, ["patches"])


CASES = [
    *cases("exact", fit_exact, exact_joint),
    *cases("iterated", fit_iterated, exact_joint),
    *cases("unheld", fit_unheld, exact_joint, BY_KERNEL),
    *cases("coarse", fit_coarse, coarse_joint, ["network"]),
    *cases("sum", fit_sum, sum_joint, ["network"]),
    *cases("iterated sum", fit_iterated_sum, sum_joint, ["network"]),
    *cases("completed", fit_completed, partial(features_joint, variance="dtc")),
    *cases("all landmarks", fit_all_landmarks, exact_joint),
    *(case for word in ("dtc", "fitc") for case in all_landmarks_cases(word)),
    *(case for word in VARIANCES for case in landmark_cases(word)),
    *(case for word in VARIANCES for case in extended_landmarks_cases(word)),
    *cases("expansion", fit_expansion, expansion_joint, ["points"]),
    *extended_cases(
        "expansion", fit_expansion, extend_process, expansion_joint, ["points"]
    ),
    *(case for word in ("dtc", "sor") for case in patches_cases(word)),
    *parts_cases("parts"),
    *parts_cases("mirrored parts", is_mirrored=True),
    *parts_cases("viewed parts", halved, is_mirrored=True),
    *cases("neighbors", fit_neighbors, local_joint, is_joint=False),
    *cases("all neighbors", fit_all_neighbors, exact_joint, amplitude=1.7),
]
BY_COVARIANCE = [
    case for case in CASES if case.world != "matrix" and "neighbors" not in case.name
]
KEPT = [case for case in CASES if case.name in ("exact", "coarse", "sum")]
JOINT = [case for case in CASES if case.is_joint]


def name_of(case):
    return f"{case.name}-{case.world}".replace(" ", "-")


every_case = pytest.mark.parametrize("case", CASES, ids=name_of)
every_joint = pytest.mark.parametrize("case", JOINT, ids=name_of)


@cache
def fitted(case):
    return case.fitted()


def latent_of(process, task, **wanted):
    return process.latent(NewRows(*task.new()), RESOURCES, **wanted)


def log_evidence(process):
    return process.log_evidence(RESOURCES)


@every_case
def test_mean_and_variance(case):
    process, dense, task = fitted(case)
    latent = latent_of(process, task, needs_var=True)
    y = TARGETS / SCALE
    assert_close(latent.mean, dense.mean(y), kind="solve")
    assert_close(latent.var[:, 0], dense.variance(), kind="solve")
    assert not latent.facts
    without = latent_of(process, task)
    np.testing.assert_array_equal(without.mean, latent.mean)
    assert without.var.size == without.cov.size == 0


@every_case
def test_covariance(case):
    process, dense, task = fitted(case)
    if case not in BY_COVARIANCE:
        with pytest.raises(ValueError, match=r"no (joint )?covariance"):
            latent_of(process, task, needs_cov=True)
        return
    latent = latent_of(process, task, needs_cov=True)
    assert_close(latent.cov[:, :, 0], dense.covariance(), kind="solve")
    assert latent.cov.shape[2] == 1


@pytest.mark.parametrize("case", BY_COVARIANCE, ids=name_of)
def test_draws_have_the_covariance(case):
    process, dense, task = fitted(case)
    latent = latent_of(process, task, needs_cov=True)
    draws = sample_gaussian(
        torch.zeros(N_NEW, 1).double(),
        torch.as_tensor(latent.cov[:, :, 0]),
        N_DRAWS,
        RESOURCES.generator(),
        scale=latent.cov_scale,
    )[:, 0]
    expected = dense.covariance()
    var = np.diag(expected)
    error = np.sqrt((np.outer(var, var) + expected**2) / N_DRAWS)
    assert (np.abs(np.cov(draws) - expected) < 5.0 * error).all()


@every_case
def test_left_out_is_a_refit_without_the_input(case):
    process, dense, _ = fitted(case)
    loo = process.leave_out(RESOURCES)
    y = TARGETS / SCALE
    refits = [dense.left_out(y, i) for i in range(N)]
    assert_close(loo.mean, [mean for mean, _ in refits], kind="solve")
    var = [var + dense.observed(i) for i, (_, var) in enumerate(refits)]
    assert_close(loo.var, var, kind="solve")
    assert process.has_left_out
    assert not loo.facts
    again = process.leave_out(RESOURCES, is_subset_enough=True)
    some = again.indices
    assert_close(again.mean, loo.mean[some], kind="solve")
    assert_close(again.var, loo.var[some], kind="solve")


@pytest.mark.parametrize("case", KEPT, ids=name_of)
def test_left_out_is_the_same_if_it_is_not_kept(case):
    process, _, _ = fitted(case)
    kept = process.leave_out(RESOURCES)
    computed = replace(process.left_out, kept=None)
    again = replace(process, left_out=computed).leave_out(RESOURCES)
    assert_close(again.mean, kept.mean, kind="solve")
    assert_close(again.var, kept.var, kind="solve")


@every_case
def test_profiled_amplitude(case):
    process, dense, _ = case.fitted(amplitude="profile")
    if case.name == "all neighbors":  # theirs is that of left-out samples
        return
    expected = np.full(len(SCALE), dense.profiled(TARGETS / SCALE))
    assert_close(process.model.amplitude, expected, kind="solve")


@every_case
@pytest.mark.parametrize("amplitude", [None, 1.7])
def test_given_amplitude(case, amplitude):
    process, dense, task = case.fitted(amplitude=amplitude)
    expected = process.model.mean_diag if amplitude is None else amplitude
    np.testing.assert_allclose(process.model.amplitude, expected)
    mean = latent_of(process, task).mean
    assert_close(mean, dense.mean(TARGETS / SCALE), kind="solve")


@every_case
def test_evidence_is_the_density_of_the_targets(case):
    process, dense, _ = case.fitted(weights=WHOLE)
    expected = dense.evidence(TARGETS, process.model.amplitude * SCALE**2)
    assert log_evidence(process) == pytest.approx(expected, rel=1e-9)


@every_joint
def test_weights_are_repetitions(case):
    one, _, task = case.fitted(weights=WHOLE)
    numbers = np.repeat(np.arange(N), WHOLE.astype(int))
    many_task = case.task(np.ones(len(numbers)), numbers=numbers)
    many = case.fit(many_task)
    assert_close(many.model.amplitude, one.model.amplitude, kind="solve")
    assert log_evidence(many) == pytest.approx(log_evidence(one), rel=1e-9)
    ours, theirs = (
        latent_of(*each, needs_var=True) for each in ((one, task), (many, many_task))
    )
    assert_close(ours.mean, theirs.mean, kind="solve")
    assert_close(ours.var, theirs.var, kind="solve")
    ours, theirs = (each.leave_out(RESOURCES) for each in (one, many))
    assert_close(ours.mean[numbers], theirs.mean, kind="solve")
    assert_close(ours.var[numbers], theirs.var, kind="solve")


@every_case
def test_is_a_frozen_value_of_arrays(case):
    process, _, task = fitted(case)
    held = list(leaves(process))
    assert any(isinstance(each, np.ndarray) for each in held)
    assert not any(isinstance(each, torch.Tensor) for each in held)
    before = pickle.dumps(process)
    latent_of(process, task, needs_var=True)
    process.leave_out(RESOURCES)
    assert pickle.dumps(process) == before
    with pytest.raises(dataclasses.FrozenInstanceError):
        process.model = None


@every_case
def test_a_copy_says_the_same_to_the_bit(case):
    process, _, task = fitted(case)
    again = pickle.loads(pickle.dumps(process))
    one, other = (latent_of(each, task, needs_var=True) for each in (process, again))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.var, other.var)
    one, other = (each.leave_out(RESOURCES) for each in (process, again))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.var, other.var)
