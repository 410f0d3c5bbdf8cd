"""PatchLandscape: derivatives by central differences, values by dense formulas."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from skconvgp import PatchGPRegressor, gram_matrix
from skconvgp.engine import Placement
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._compute import Compute
from skconvgp.flows import LBFGS, Step
from skconvgp.flows._patch_landscape import PatchLandscape, PatchTask
from skconvgp.flows._patch_parameters import PatchParameters, TermStart
from skconvgp.kernels import FlipAverage, OrbitAverage, PatchKernel, matern, rbf
from skconvgp.processes import terms_of
from tests.helpers.estimators import digits
from tests.helpers.memory import needs_peak, peaks

SIDE, PATCH, M, N, STEP = 5, 3, 3, 8, 1e-5
CRITERIA = ("loo", "evidence")
SPECS = {
    "invariant": {},
    "location": {"location_lengthscale": 1.5},
    "channels": {"color": "channels", "location_lengthscale": 1.5},
    "additive": {"color": "additive"},
    "stacked": {"color": "stacked", "location_lengthscale": 2.0},
}
every_criterion = pytest.mark.parametrize("criterion", CRITERIA)


def kernel_of(spec=None, base=None, *, learns_weights=False):
    spec = {"location_lengthscale": None} | (spec or {})
    spec |= {"weights": "learned"} if learns_weights else {}
    return PatchKernel(base or rbf(2.0), patch_size=PATCH, **spec)


def task_of(criterion="loo", kernel=None, n=N, *, learns_patches=False, **learned):
    generator = np.random.default_rng(0)
    kernel = kernel or kernel_of()
    terms = terms_of(kernel)
    channels = 2 if any(_has_color(term.kernel) for term in terms) else 1
    shape = channels, SIDE, SIDE
    images = torch.as_tensor(generator.normal(size=(n, *shape)))
    starts = []
    for term in terms:
        one = term.of_patches(shape)
        size = M, one.grid(shape).channels, *one.grid(shape).size
        places = (2, 2) if one.location_lengthscale else (1, 1)
        patches = torch.as_tensor(generator.normal(size=size))
        starts.append(TermStart(patches, places, learns_patches))
    targets = torch.as_tensor(generator.normal(size=(n, 2)))
    parameters = PatchParameters(kernel, shape, tuple(starts), 0.1, **learned)
    return PatchTask(parameters, images, targets, criterion, images[::3])


def _has_color(kernel):
    return isinstance(kernel, PatchKernel) and kernel.color != "patches"


def landscape_of(task, n_images=5):
    resources = EstimatorResources(Compute.of(PatchGPRegressor(dtype="float64")))
    run = resources.run(Placement(torch.device("cpu")))
    return PatchLandscape(task, run, n_images, lambda _: False)


def assert_slopes(landscape, theta, directions=None):
    value, gradient = landscape.gradient(theta, landscape.fixed)
    assert value == pytest.approx(landscape.value(theta, landscape.fixed))
    directions = np.eye(len(theta)) if directions is None else directions
    slopes = np.zeros(len(directions))
    for i, direction in enumerate(directions):
        rise = landscape.value(theta + STEP * direction, landscape.fixed)
        rise -= landscape.value(theta - STEP * direction, landscape.fixed)
        slopes[i] = rise / (2 * STEP)
    np.testing.assert_allclose(directions @ gradient, slopes, rtol=2e-5, atol=2e-7)
    return gradient


def few_directions(task):
    """Return those of each logarithm, and one of all weights and patches of a term."""
    sizes = task.parameters.sizes
    n_logs, p = sum(sizes[:2]), sum(sizes)
    generator = np.random.default_rng(3)
    of_terms, start = [], n_logs
    for size in filter(None, sizes[2:]):
        of_terms.append(np.zeros(p))
        of_terms[-1][start : start + size] = generator.normal(size=size)
        start += size
    return np.vstack([np.eye(p)[:n_logs], *of_terms])


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
    kernel = kernel_of(SPECS[spec], learns_weights=True)
    task = task_of(criterion, kernel, learns_noise=learns_noise, learns_patches=True)
    landscape = landscape_of(task)
    directions = None if criterion == "loo" else few_directions(task)
    gradient = assert_slopes(landscape, point(landscape), directions)
    assert len(gradient) == sum(task.parameters.sizes)
    assert (gradient != 0.0).all()


@every_criterion
@pytest.mark.parametrize(
    "base", [matern(2.0, nu=2.5), rbf([1.5] * 9)], ids=["matern", "each pixel"]
)
def test_derivatives_of_other_base_kernels(criterion, base):
    landscape = landscape_of(task_of(criterion, kernel_of(base=base)))
    assert_slopes(landscape, point(landscape))


SUM = (
    kernel_of({"location_lengthscale": 1.5}, learns_weights=True)
    + 0.3 * (0.5 * rbf(4.0) + PatchKernel(matern(2.0), patch_size=2))
).replace(term1__kernel__term1__location_lengthscale=2.0)
KERNELS = {
    "sum": SUM,
    "flips": FlipAverage(kernel_of(SPECS["location"], learns_weights=True)),
    "flips of a sum": 2.0 * FlipAverage(SUM) + 0.5 * kernel_of(learns_weights=True),
    "turns": OrbitAverage(SUM, "quarter_turns"),
}


@pytest.mark.parametrize(
    ("name", "criterion", "learns_noise"),
    [
        ("sum", "loo", True),
        ("flips", "loo", True),
        ("turns", "loo", True),
        ("flips of a sum", "evidence", True),
        ("flips of a sum", "loo", False),
    ],
)
def test_derivatives_of_sums_and_averages(name, criterion, learns_noise):
    kernel = KERNELS[name]
    task = task_of(criterion, kernel, learns_noise=learns_noise, learns_patches=True)
    landscape = landscape_of(task)
    gradient = assert_slopes(landscape, point(landscape), few_directions(task))
    assert len(gradient) == sum(task.parameters.sizes)
    assert (gradient != 0.0).all()


def test_a_sum_learns_on_digits():
    X, y = digits(60)
    weighted = PatchKernel(
        rbf(6.0), patch_size=3, location_lengthscale=None, weights="learned"
    )
    kernel = weighted + 0.05 * rbf(20.0)
    images = torch.as_tensor(X).reshape(-1, 1, 8, 8).double()
    patches = weighted.normalized_patches(images[:5]).flatten(0, 2)[::12]
    starts = TermStart(patches, (1, 1)), TermStart(images[:20], (1, 1))
    parameters = PatchParameters(kernel, (1, 8, 8), starts, 0.1)
    targets = torch.eye(10, dtype=torch.float64)[torch.as_tensor(y)] - 0.1
    task = PatchTask(parameters, images, targets, "loo", images[::4])
    landscape = landscape_of(task, 32)
    assert_slopes(landscape, point(landscape), few_directions(task))
    found = LBFGS(max_iter=5).minimize(landscape, torch.Generator())
    result = landscape.result(found)
    assert result.rho < result.start_rho - 0.02
    assert result.labels == (
        "term0__base__lengthscale",
        "term1__kernel__lengthscale",
        "term1__factor",
        "noise_variance",
    )


def test_weights_of_an_average_are_those_of_flips():
    parameters = task_of(kernel=KERNELS["flips"]).parameters
    theta = torch.arange(sum(parameters.sizes), dtype=torch.float64)
    (weights,) = parameters.weights_at(theta)
    maps = weights.reshape(SIDE - PATCH + 1, -1)
    assert torch.equal(maps, maps.flip(1))
    assert len(maps.unique()) == parameters.sizes[2] == 6


def test_derivatives_do_not_depend_on_tiles():
    kernel = kernel_of(SPECS["location"], learns_weights=True)
    task = task_of(kernel=kernel + 0.3 * rbf(3.0), learns_patches=True)
    whole, parts = landscape_of(task, 100), landscape_of(task, 1)
    theta = point(whole)
    for one, other in zip(
        whole.gradient(theta, whole.fixed),
        parts.gradient(theta, parts.fixed),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [kernel_of(), 3.0 * FlipAverage(2.0 * kernel_of() + 0.5 * rbf(3.0))],
    ids=["alone", "flips of a sum"],
)
def test_all_patches_as_inducing_patches_leave_nothing_out(kernel):
    task = task_of("evidence", kernel, n=3)
    shape = task.parameters.image_shape
    both = torch.cat([task.images, task.images.flip(-1)])
    starts = [
        TermStart(one.normalized_patches(both).flatten(0, 2), (1, 1))
        for one in (term.of_patches(shape) for term in terms_of(kernel))
    ]
    dense = gram_matrix(kernel, task.images.numpy(), dtype="float64")
    noise = task.parameters.noise * np.diag(dense).mean()
    system = dense + noise * np.eye(3)
    targets = task.targets.numpy()
    norm = np.sum(targets * np.linalg.solve(system, targets))
    expected = 0.5 * (np.log(2 * np.pi * norm / targets.size) + 1.0)
    expected += np.linalg.slogdet(system)[1] / 6
    parameters = replace(task.parameters, starts=tuple(starts), learns_noise=False)
    exact = replace(task, parameters=parameters, sampled=task.images)
    landscape = landscape_of(exact)
    value = landscape.value(landscape.start, landscape.fixed)
    # Eigenvalues of the inducing patches below a millionth of the largest are cut.
    assert value == pytest.approx(expected, rel=1e-4)


@every_criterion
def test_a_search_lowers_the_value(criterion):
    task = task_of(criterion, kernel_of(learns_weights=True), learns_patches=True)
    landscape = landscape_of(task)
    found = LBFGS(max_iter=5).minimize(landscape, torch.Generator())
    result = landscape.result(found)
    assert result.rho < result.start_rho
    assert result.labels == ("base__lengthscale", "noise_variance")
    assert len(result.theta) == 2


def test_a_scale_of_the_weights_changes_nothing():
    kernel = kernel_of(learns_weights=True)
    landscape = landscape_of(task_of("loo", kernel, learns_noise=False))
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
from tests.flows.test_patch_landscape import kernel_of, landscape_of, task_of
kernel = kernel_of(learns_weights=True)
few, many = (
    landscape_of(task_of(kernel=kernel, n=n, learns_patches=True), n_images=32)
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
    task = task_of(kernel=kernel_of(learns_weights=True), n=12)
    landscape = landscape_of(task)
    held = task.images[:5].flip(0), task.targets[:5]
    thetas = [point(landscape, seed) for seed in (1, 2, 3)]
    for theta in thetas[:2]:
        landscape.report(Step(0, 1, theta, 0.0))

    def loss(theta):
        at = landscape._at(theta)
        seen, new = (at.features(one).numpy() for one in (task.images, held[0]))
        noise = task.parameters.noise_at(theta) * landscape._unit
        gram = seen @ seen.T + noise * np.eye(12)
        y, truth = task.targets.numpy(), held[1].numpy()
        mean = new @ seen.T @ np.linalg.solve(gram, y)
        cov = new @ new.T - new @ seen.T @ np.linalg.solve(gram, seen @ new.T)
        amplitude = (y * np.linalg.solve(gram, y)).sum() / y.size
        var = amplitude * (np.diag(cov) + noise)[:, None]
        return -norm.logpdf(truth, mean, np.sqrt(var)).mean()

    best = landscape.best_step(thetas[2], *held)
    losses = [loss(theta) for theta in (landscape.start, *thetas)]
    expected = (landscape.start, *thetas)[int(np.argmin(losses))]
    np.testing.assert_array_equal(best, expected)
    known = landscape._loss(thetas[1], *held) + np.log(2 * np.pi) / 2
    assert known == pytest.approx(losses[2])
