"""PatchLandscape: derivatives by central differences, values by dense formulas."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from skconvgp import PatchGPRegressor, gram_matrix
from skconvgp.engine import Placement
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.flows import LBFGS, Step
from skconvgp.flows._patch_landscape import PatchLandscape
from skconvgp.flows._patch_task import PatchTask, features_of
from skconvgp.kernels import PatchKernel, matern, rbf
from tests.helpers.memory import needs_peak, peaks

SIDE, PATCH, M, N, STEP = 5, 3, 3, 8, 1e-5
CRITERIA = ("loo", "evidence", "elbo")
SPECS = {
    "invariant": {},
    "location": {"location_lengthscale": 1.5},
    "channels": {"color": "channels", "location_lengthscale": 1.5},
    "additive": {"color": "additive"},
    "stacked": {"color": "stacked", "location_lengthscale": 2.0},
}
every_criterion = pytest.mark.parametrize("criterion", CRITERIA)


def task_of(criterion="loo", spec=None, base=None, n=N, **learned):
    spec = {"location_lengthscale": None} | (spec or {})
    generator = np.random.default_rng(0)
    channels = 2 if "color" in spec else 1
    kernel = PatchKernel(base or rbf(2.0), patch_size=PATCH, **spec)
    images = torch.as_tensor(generator.normal(size=(n, channels, SIDE, SIDE)))
    size = kernel.grid((channels, SIDE, SIDE)).channels, PATCH, PATCH
    patches = torch.as_tensor(generator.normal(size=(M, *size)))
    targets = torch.as_tensor(generator.normal(size=(n, 2)))
    n_places = (2, 2) if kernel.location_lengthscale else (1, 1)
    sampled = torch.arange(0, n, 3)
    return PatchTask(
        kernel, images, targets, patches, n_places, criterion, 0.1, sampled, **learned
    )


def landscape_of(task, n_images=5):
    resources = EstimatorResources(PatchGPRegressor(dtype="float64"))
    run = resources.run(Placement(torch.device("cpu")))
    return PatchLandscape(task, run, n_images, lambda _: False)


def assert_slopes(landscape, theta):
    value, gradient = landscape.gradient(theta, landscape.fixed)
    assert value == pytest.approx(landscape.value(theta, landscape.fixed))
    slopes = np.zeros(len(theta))
    for i in range(len(theta)):
        change = np.zeros(len(theta))
        change[i] = STEP
        rise = landscape.value(theta + change, landscape.fixed)
        rise -= landscape.value(theta - change, landscape.fixed)
        slopes[i] = rise / (2 * STEP)
    np.testing.assert_allclose(gradient, slopes, rtol=2e-5, atol=2e-7)
    return gradient


def point(landscape, seed=4):
    generator = np.random.default_rng(seed)
    return landscape.start + 0.1 * generator.normal(size=len(landscape.start))


@every_criterion
@pytest.mark.parametrize(
    ("spec", "learns_noise"),
    [*((name, True) for name in SPECS), ("invariant", False)]
    + [pytest.param(name, False, marks=pytest.mark.slow) for name in [*SPECS][1:]],
)
def test_derivatives_are_central_differences(criterion, spec, learns_noise):
    task = task_of(
        criterion,
        SPECS[spec],
        learns_noise=learns_noise,
        learns_weights=True,
        learns_patches=True,
    )
    landscape = landscape_of(task)
    gradient = assert_slopes(landscape, point(landscape))
    assert len(gradient) == sum(task.sizes)
    assert (gradient != 0.0).all()


@every_criterion
@pytest.mark.parametrize(
    "base", [matern(2.0, nu=2.5), rbf([1.5] * 9)], ids=["matern", "each pixel"]
)
def test_derivatives_of_other_base_kernels(criterion, base):
    landscape = landscape_of(task_of(criterion, base=base))
    assert_slopes(landscape, point(landscape))


def test_derivatives_do_not_depend_on_tiles():
    task = task_of(spec=SPECS["location"], learns_weights=True, learns_patches=True)
    whole, parts = landscape_of(task, 100), landscape_of(task, 1)
    theta = point(whole)
    for one, other in zip(
        whole.gradient(theta, whole.fixed),
        parts.gradient(theta, parts.fixed),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_all_patches_as_inducing_patches_leave_nothing_out():
    task = task_of("elbo", n=3)
    patches = task.kernel.normalized_patches(task.images).flatten(0, 2)
    dense = gram_matrix(task.kernel, task.images.numpy(), dtype="float64")
    noise = task.noise * np.diag(dense).mean()
    system = dense + noise * np.eye(3)
    targets = task.targets.numpy()
    norm = np.sum(targets * np.linalg.solve(system, targets))
    expected = 0.5 * (np.log(2 * np.pi * norm / targets.size) + 1.0)
    expected += np.linalg.slogdet(system)[1] / 6
    exact = PatchTask(
        task.kernel, task.images, task.targets, patches, (1, 1), "elbo", 0.1,
        torch.arange(3), learns_noise=False,
    )  # fmt: skip
    landscape = landscape_of(exact)
    value = landscape.value(landscape.start, landscape.fixed)
    # Eigenvalues of the inducing patches below a millionth of the largest are cut.
    assert value == pytest.approx(expected, rel=1e-4)


@every_criterion
def test_a_search_lowers_the_value(criterion):
    task = task_of(criterion, learns_weights=True, learns_patches=True)
    landscape = landscape_of(task)
    found = LBFGS(max_iter=5).minimize(landscape, torch.Generator())
    result = landscape.result(found)
    assert result.rho < result.start_rho
    assert result.labels == ("base__lengthscale", "noise_variance")
    assert len(result.theta) == 2


def test_a_scale_of_the_weights_changes_nothing():
    landscape = landscape_of(task_of("loo", learns_noise=False, learns_weights=True))
    theta = point(landscape)
    larger = theta.copy()
    larger[1:] *= 3.0
    values = [landscape.value(one, landscape.fixed) for one in (theta, larger)]
    assert values[0] == pytest.approx(values[1])


@needs_peak
@pytest.mark.slow
def test_memory_is_that_of_features_and_of_a_tile():
    setup = """
import torch
from tests.flows.test_patch_landscape import landscape_of, task_of
few, many = (
    landscape_of(task_of(n=n, learns_weights=True, learns_patches=True), n_images=32)
    for n in (64, 2048)
)
few.gradient(few.start, few.fixed)
"""
    call = "one.gradient(one.start, one.fixed)"
    small, large = peaks(setup, [f"one = few; {call}", f"one = many; {call}"])
    # Of each further image there are a few copies of its features; its graph would take
    # ten times the responses to its patches.
    graph = 10 * (2048 - 64) * (SIDE - PATCH + 1) ** 2 * M * 8
    assert large - small < graph / 4


def test_steps_are_judged_by_the_density_of_images_that_are_held_out():
    task = task_of(n=12, learns_weights=True)
    landscape = landscape_of(task)
    held = replace(task, images=task.images[:5].flip(0), targets=task.targets[:5])
    thetas = [point(landscape, seed) for seed in (1, 2, 3)]
    for theta in thetas[:2]:
        landscape.report(Step(0, 1, theta, 0.0))

    def loss(theta):
        seen = landscape._features(theta).numpy()
        factors = landscape._whitening(torch.tensor(theta))
        new = features_of(0, held, torch.tensor(theta), factors, slice(0, 5))[1].numpy()
        noise = task.noise_at(theta) * landscape._unit
        gram = seen @ seen.T + noise * np.eye(12)
        y, truth = task.targets.numpy(), held.targets.numpy()
        mean = new @ seen.T @ np.linalg.solve(gram, y)
        cov = new @ new.T - new @ seen.T @ np.linalg.solve(gram, seen @ new.T)
        amplitude = (y * np.linalg.solve(gram, y)).sum() / y.size
        var = amplitude * (np.diag(cov) + noise)[:, None]
        return -norm.logpdf(truth, mean, np.sqrt(var)).mean()

    best = landscape.best_step(thetas[2], held)
    losses = [loss(theta) for theta in (landscape.start, *thetas)]
    expected = (landscape.start, *thetas)[int(np.argmin(losses))]
    np.testing.assert_array_equal(best, expected)
    known = landscape._loss(thetas[1], held) + np.log(2 * np.pi) / 2
    assert known == pytest.approx(losses[2])
