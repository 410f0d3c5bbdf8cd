"""The flow below the estimator: derivatives, fields, and how points travel."""

import numpy as np
import pytest
import torch

from skconvgp._config import ComputeConfig
from skconvgp.backends import choose_backend
from skconvgp.flows import Rho
from skconvgp.flows._batches import Batches
from skconvgp.flows._field import (
    PointKernel,
    WarpStep,
    fit_field,
    integration_times,
    travel,
)
from skconvgp.flows._warp import Flow, keeps_order, steepest
from skconvgp.kernels import convnet, matern, rbf

CPU = torch.device("cpu")
KINDS = ("ratio", "l2", "loo")


def covariances(kernel, shape):
    return PointKernel(choose_backend(kernel, shape, "torch", CPU), ComputeConfig(CPU))


def cloud(n, d, seed=0):
    """Return points (n, d) and targets (n, 2) of mean 0."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d))
    targets = np.column_stack([np.sin(3.0 * points[:, 0]), points.sum(1) ** 2])
    return torch.from_numpy(points), torch.from_numpy(targets - targets.mean(0))


def flow(**settings):
    defaults = {
        "objective": Rho(kind="l2", noise_variance=1e-3),
        "n_steps": 5,
        "batch_size": 12,
        "step_size": 0.1,
        "step": "spread",
        "solver": "euler",
        "field_noise": 1e-2,
        "is_complete": True,
    }
    return Flow(**defaults | settings)


def learn(settings, points, targets, kernel, seed=0):
    generator = torch.Generator().manual_seed(seed)
    batches = Batches(len(points), None, generator)
    return settings.learn(points, targets, batches, kernel, kernel, lambda *_: None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        (rbf(lengthscale=1.3), (4, 1, 1)),
        (matern(1.0, nu=2.5), (4, 1, 1)),
        (convnet(depth=1, kernel_size=2), (1, 2, 2)),
    ],
    ids=["rbf", "matern", "convnet"],
)
def test_the_way_down_is_that_of_finite_differences(kind, kernel, shape):
    points, targets = cloud(10, 4)
    objective, kernel = Rho(kind=kind, noise_variance=1e-2), covariances(kernel, shape)
    _, down = steepest(points, targets, objective, kernel)
    step = 1e-5
    for i, j in ((0, 0), (3, 2), (9, 3)):
        values = []
        for sign in (1.0, -1.0):
            moved = points.clone()
            moved[i, j] += sign * step
            values.append(objective.score(kernel.gram(moved), targets).value)
        expected = -(values[0] - values[1]) / (2.0 * step)
        assert float(down[i, j]) == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_targets_without_information_move_nothing():
    points, _ = cloud(20, 2)
    kernel = covariances(rbf(1.0), (2, 1, 1))
    warp = learn(flow(), points, torch.zeros(20, 1, dtype=torch.float64), kernel)
    assert torch.equal(warp.points, points)
    assert not warp.steps
    assert np.isnan(warp.values).all()


def test_a_field_goes_through_its_velocities_and_is_smoother_with_a_ridge():
    points, velocities = cloud(15, 2)
    kernel = covariances(rbf(lengthscale=0.5), (2, 1, 1))
    gram = kernel.gram(points)
    exact = gram @ fit_field(points, velocities, 1e-12, kernel)
    torch.testing.assert_close(exact, velocities, rtol=1e-6, atol=1e-6)
    ridge = gram + 0.1 * gram.trace() * torch.eye(15)
    expected = torch.linalg.solve(ridge, velocities)
    torch.testing.assert_close(fit_field(points, velocities, 0.1, kernel), expected)


def reference(points, others, targets, batches, *, is_complete, step):
    """Move points by Euler's method in plain numpy; the kernel is a Gaussian."""

    def gauss(a, b):
        return np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1))

    n_steps = len(batches)
    for index, numbers in enumerate(batches):
        batch, y = points[numbers], targets[numbers]
        n, m = len(numbers), len(numbers) // 2

        def norm(at, y=y, n=n, m=m):
            gram = gauss(at, at)
            noise = 1e-2 * np.trace(gram) / n
            whole = gram + noise * np.eye(n)
            part = whole[:m, :m]
            of_whole = np.sum(y * np.linalg.solve(whole, y))
            return 1.0 - np.sum(y[:m] * np.linalg.solve(part, y[:m])) / of_whole

        down = np.zeros_like(batch)
        for i in np.ndindex(*batch.shape):
            ahead, behind = batch.copy(), batch.copy()
            ahead[i] += 1e-5
            behind[i] -= 1e-5
            down[i] = -(norm(ahead) - norm(behind)) / 2e-5
        coef = np.linalg.solve(gauss(batch, batch) + 0.5 * n * np.eye(n), down)
        velocity = gauss(points, batch) @ coef
        if not is_complete:
            velocity[numbers] = down
        speed = np.linalg.norm(velocity, axis=1)
        if step == "original":
            length = 0.1 * np.min(np.linalg.norm(points, axis=1) / speed)
        else:
            spread = np.sqrt(((points - points.mean(0)) ** 2).sum(1).mean())
            length = 0.1 * (1.0 - index / n_steps) * spread / speed.max()
        others = others + length * gauss(others, batch) @ coef
        points = points + length * velocity
    return points, others


@pytest.mark.parametrize("step", ["spread", "original"])
@pytest.mark.parametrize("is_complete", [True, False])
def test_euler_takes_the_steps_of_a_plain_implementation(is_complete, step):
    points, targets = cloud(25, 2)
    others, _ = cloud(7, 2, seed=1)
    kernel = covariances(rbf(1.0), (2, 1, 1))
    settings = flow(
        objective=Rho("ratio", noise_variance=1e-2),
        field_noise=0.5,
        is_complete=is_complete,
        step=step,
    )
    warp = learn(settings, points, targets, kernel, seed=3)
    same = Batches(25, None, torch.Generator().manual_seed(3))
    drawn = [same.draw(12).indices.numpy() for _ in range(5)]
    moved, carried = reference(
        points.numpy(),
        others.numpy(),
        targets.numpy(),
        drawn,
        is_complete=is_complete,
        step=step,
    )
    assert np.abs(moved - points.numpy()).max() > 0.01
    np.testing.assert_allclose(warp.points, moved, rtol=1e-5, atol=1e-7)
    found = travel(others, warp.steps, kernel)
    np.testing.assert_allclose(found, carried, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("solver", ["euler", "rk45"])
def test_a_new_point_goes_with_the_training_point_at_its_place(solver):
    points, targets = cloud(30, 2)
    kernel = covariances(rbf(1.0), (2, 1, 1))
    warp = learn(flow(solver=solver), points, targets, kernel)
    found = travel(points[:4], warp.steps, kernel)
    torch.testing.assert_close(found, warp.points[:4], rtol=1e-10, atol=1e-10)


def test_a_batch_that_goes_its_own_way_leaves_its_neighbours_behind():
    points, targets = cloud(30, 2)
    kernel = covariances(rbf(1.0), (2, 1, 1))
    warp = learn(flow(is_complete=False), points, targets, kernel)
    found = travel(points, warp.steps, kernel)
    assert (found - warp.points).abs().max() > 0.01


def rotation():
    """Return a step whose field turns points round the origin, and its kernel."""
    kernel = covariances(rbf(lengthscale=30.0), (2, 1, 1))
    anchors, _ = cloud(40, 2)
    turned = anchors @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    coef = fit_field(anchors, turned, 1e-14, kernel)
    times = torch.tensor([0.0, np.pi / 2.0], dtype=torch.float64)
    return WarpStep(anchors, coef, times, is_euler=False), kernel


def test_rk45_follows_a_field_as_it_turns():
    step, kernel = rotation()
    start = torch.tensor([[1.0, 0.0], [0.0, 0.5]], dtype=torch.float64)
    times = integration_times(start, step, kernel)
    assert len(times) > 2
    assert (float(times[0]), float(times[-1])) == (0.0, pytest.approx(np.pi / 2.0))
    end = travel(start, [WarpStep(step.anchors, step.coef, times, False)], kernel)
    expected = torch.tensor([[0.0, 1.0], [-0.5, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(end, expected, rtol=0.0, atol=2e-3)


def test_rk45_keeps_the_order_where_a_long_step_of_euler_loses_it():
    points = torch.linspace(-3.0, 3.0, 60, dtype=torch.float64)[:, None]
    targets = torch.sin(3.0 * points)
    kernel = covariances(rbf(lengthscale=0.5), (1, 1, 1))
    long = {"step_size": 1.0, "batch_size": 30}
    crossed = learn(flow(**long), points, targets, kernel)
    kept = learn(flow(**long, solver="rk45"), points, targets, kernel)
    assert not keeps_order(points, crossed.points)
    assert keeps_order(points, kept.points)


def test_order_is_that_of_points_apart_and_of_one_dimension():
    before = torch.tensor([[2.0], [0.0], [1.0], [1.0]])
    assert keeps_order(before, torch.tensor([[5.0], [-1.0], [0.0], [0.0]]))
    assert not keeps_order(before, torch.tensor([[5.0], [0.0], [0.0], [0.0]]))
    assert keeps_order(torch.zeros(3, 2), torch.zeros(3, 2)) is None


def test_points_at_the_origin_do_not_stop_the_others():
    points, targets = cloud(20, 2)
    points[5] = 0.0
    kernel = covariances(rbf(1.0), (2, 1, 1))
    warp = learn(flow(step="original"), points, targets, kernel)
    assert len(warp.steps) == 5
    assert (warp.points - points).norm(dim=1).max() > 0.0


def test_points_in_one_place_stay_there():
    points, targets = torch.ones(20, 2, dtype=torch.float64), cloud(20, 2)[1]
    kernel = covariances(rbf(1.0), (2, 1, 1))
    warp = learn(flow(), points, targets, kernel)
    assert torch.equal(warp.points, points)


def test_progress_is_told_after_each_step():
    points, targets = cloud(20, 2)
    kernel, told = covariances(rbf(1.0), (2, 1, 1)), []
    batches = Batches(20, None, torch.Generator().manual_seed(0))
    flow(n_steps=3).learn(
        points, targets, batches, kernel, kernel, lambda *done: told.append(done)
    )
    assert told == [(1, 3), (2, 3), (3, 3)]
