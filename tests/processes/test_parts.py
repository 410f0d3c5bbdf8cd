"""Sums of parts: weights, mirror images, derivatives and memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import PatchKernel, convnet, rbf
from skconvgp.processes import (
    KernelBasis,
    MirroredPart,
    NewRows,
    PartChoice,
    PartsFit,
    Problem,
    Settings,
    TermChoice,
)
from skconvgp.processes.fits._part_weights import search_weights
from tests.helpers.estimators import digits
from tests.helpers.processes import RESOURCES, PlainResources
from tests.helpers.tolerances import assert_close

N = 24
NETWORK = convnet(1, 3)
PATCHES = PatchKernel(rbf(3.0), patch_size=4, location_lengthscale=3.0)
CHOICES = (
    PartChoice(NETWORK),
    PartChoice(PATCHES, None, TermChoice("kmeans", 5, (2, 2))),
)
STEPS = np.arange(6) / 5.0
NOISES = 10.0 * 10.0 ** (-np.arange(89) / 8.0)


def basis_of(images):
    rows = images.reshape(len(images), -1)
    return KernelBasis(NETWORK, rows, np.arange(len(rows)), images.shape[1:])


def plan_of(images, choices=CHOICES, noise="loo", weights=None, mirrors=(False,)):
    settings = Settings(noise, "profile")
    basis = basis_of(images)
    return PartsFit(basis, choices, settings, weights, mirrors, keeps_left_out=False)


def fitted(images, targets, **settings):
    """Return the process, and the report of its fit."""
    plan = plan_of(images, **settings)
    n, k = targets.shape
    rows = images.reshape(len(images), -1)
    problem = Problem(rows, targets, np.ones(n), np.ones(k))
    result = plan.plan(RESOURCES).fit(problem, RESOURCES)[0]
    return result.process, result.record.report


def targets_of(seed, count=2):
    targets = np.random.default_rng(seed).normal(size=(N, count))
    return targets - targets.mean(0)


def run():
    return RESOURCES.run(RESOURCES.placement(0))


def density_by_refits(gram, targets):
    """Return the largest log density of left-out targets over all noises."""
    gram = gram / np.mean(np.diag(gram))
    best, n = -np.inf, len(gram)
    for noise in NOISES:
        whole = gram + noise * np.eye(n)
        amplitude = np.mean(targets * np.linalg.solve(whole, targets))
        total = 0.0
        for i in range(n):
            others = np.delete(np.arange(n), i)
            solved = np.linalg.solve(whole[np.ix_(others, others)], whole[others, i])
            var = amplitude * (whole[i, i] - whole[i, others] @ solved)
            error = targets[i] - solved @ targets[others]
            total -= 0.5 * np.sum(error**2 / var + np.log(2.0 * np.pi * var))
        best = max(best, total)
    return best


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_weights_have_the_best_density_of_left_out_targets(seed):
    images = digits(N)[0]
    process, _ = fitted(images, targets_of(seed), weights=np.array([0.5, 0.5]))
    one, two = (part.gram(run()).numpy() for part in process.basis.parts)
    one, two = (each / (np.diag(each).mean() - each.mean()) for each in (one, two))
    # Targets that one of the parts, or both, explain.
    shares = [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)][seed]
    root = np.linalg.cholesky(shares[0] * one + shares[1] * two + 1e-2 * np.eye(N))
    targets = root @ targets_of(seed)
    scores = [density_by_refits((1 - s) * one + s * two, targets) for s in STEPS]
    expected = STEPS[int(np.argmax(scores))]
    _, report = fitted(images, targets)
    np.testing.assert_allclose(report["part_weights"], [1 - expected, expected])


def test_a_part_of_no_weight_is_dropped():
    images = digits(N)[0]
    process, report = fitted(
        images, targets_of(0), weights=np.array([0.0, 1.0]), noise=0.1
    )
    assert [part.kernel_basis.kernel for part in process.basis.parts] == [PATCHES]
    assert report["part_weights"] == (0.0, 1.0)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 4])
def test_weights_of_a_concave_score_are_the_best_of_all(n_parts):
    target = np.random.default_rng(n_parts).dirichlet(np.ones(n_parts))

    def score(weights):
        return -np.sum((weights - target) ** 2)

    counts = np.stack(np.meshgrid(*[range(6)] * n_parts), -1).reshape(-1, n_parts)
    every = counts[counts.sum(1) == 5] / 5.0
    best = max(map(score, every))
    found = search_weights(score, n_parts)
    assert found.sum() == pytest.approx(1.0)
    assert score(found) == pytest.approx(best)


@pytest.mark.parametrize("is_symmetric", [True, False])
def test_mirror_images_are_averaged_over_if_targets_are_the_same_for_them(is_symmetric):
    images = np.random.default_rng(3).normal(size=(N, 1, 8, 8))
    left, right = images[:, 0, :, :4].sum((1, 2)), images[:, 0, :, 4:].sum((1, 2))
    targets = (left + right if is_symmetric else left - right)[:, None]
    choices = (PartChoice(NETWORK), PartChoice(rbf(20.0)))
    _, report = fitted(images, targets, choices=choices, mirrors=(True, False))
    assert report["is_mirrored"] is is_symmetric


def test_covariances_are_those_of_mirror_images_too():
    images = digits(N)[0]
    process, _ = fitted(images, targets_of(0), noise=0.1, mirrors=(True,))
    rows = images[:5].reshape(5, -1)
    other = images[:5, :, :, ::-1].reshape(5, -1)
    one, two = (
        torch.cat(
            [c for c, _ in process.basis.stream(NewRows(x), run(), needs_diag=True)]
        )
        for x in (rows, other)
    )
    assert_close(one, two, kind="solve")
    covariance = process.basis.covariance(np.concatenate([rows, other]), run(), 1.0)
    assert_close(covariance[:5], covariance[5:], kind="solve")
    variances = [d for _, d in process.basis.stream(NewRows(rows), run())]
    assert_close(torch.cat(variances), covariance.diagonal()[:5], kind="solve")


def test_features_of_versions_are_averaged():
    images = digits(N)[0]
    process, _ = fitted(images, targets_of(0), noise=0.1, weights=np.array([0.0, 1.0]))
    basis = process.basis.parts[0].basis
    rows = images[:5].reshape(5, -1)
    versions = [rows, images[:5, :, :, ::-1].reshape(5, -1), rows**2]
    each = [basis.features(one, run()) for one in versions]
    together = basis.mean_features(versions, run())
    assert_close(together, torch.stack(each).mean(0), kind="solve")


def squared(images):
    """Show the squares of pixels, darker from left to right."""
    shades = torch.linspace(1.0, 0.5, images.shape[-1], dtype=images.dtype)
    return images.square() * shades


def squared_view(images):
    return squared, squared(images)


@pytest.mark.parametrize("fit_view", [None, squared_view])
@pytest.mark.parametrize("mirrors", [(False,), (True,)])
def test_derivatives_by_images(fit_view, mirrors):
    images = digits(N)[0] + 0.1
    choices = tuple(replace(one, fit_view=fit_view) for one in CHOICES)
    process, _ = fitted(
        images,
        targets_of(0),
        choices=choices,
        weights=np.array([0.3, 0.7]),
        noise=0.1,
        mirrors=mirrors,
    )
    rng = np.random.default_rng(0)
    rows = images[:2].reshape(2, -1) + 0.02 * rng.normal(size=(2, 64))
    sums, step = rng.normal(size=(2, N)), 1e-5 * rng.normal(size=(2, 64))

    def total(x):
        cross = torch.cat(
            [c for c, _ in process.basis.stream(NewRows(x), run(), needs_diag=False)]
        )
        return float(np.sum(sums * cross.numpy()))

    pulled = process.basis.pull(rows, sums, run())
    slope = (total(rows + step) - total(rows - step)) / 2.0
    assert np.sum(pulled * step) == pytest.approx(slope, rel=1e-5)
    if fit_view is not None and mirrors == (True,):
        assert isinstance(process.basis.parts[0], MirroredPart)
        assert not process.basis.parts[0].commutes


def test_weights_of_many_images_are_chosen_on_some(monkeypatch):
    images = digits(N)[0]
    targets = targets_of(4)
    judged = []

    def noted(images):
        judged.append(len(images))
        return squared_view(images)

    choices = (PartChoice(NETWORK, noted), CHOICES[1])
    monkeypatch.setattr("skconvgp.processes.fits._parts_fit.JUDGED_IMAGES", 12)
    process, report = fitted(images, targets, choices=choices)
    weights = np.array(report["part_weights"])
    assert judged == [12] + [N] * bool(weights[0])
    again, _ = fitted(images, targets, weights=weights, choices=choices)
    assert process.basis.n_samples == N
    assert_close(process.dual, again.dual, kind="solve")


def test_memory_is_asked_for_before_the_work():
    images = digits(N)[0]
    choices = CHOICES[1:]
    run_at = PlainResources.run

    class Poor(PlainResources):
        def run(self, placement, reserved=0):
            run = run_at(self, placement, reserved)
            return replace(run, config=replace(run.config, memory_budget=1000))

    plan = plan_of(images, choices)
    problem = Problem(images.reshape(N, -1), targets_of(0), np.ones(N), np.ones(2))
    with pytest.raises(TileMemoryError, match="memory_budget"):
        plan.plan(Poor()).fit(problem, Poor())


def test_features_that_an_image_keeps_are_known_before_if_they_are_given():
    known = PartChoice(PATCHES, None, TermChoice("kmeans", 5, (2, 2)))
    assert known.n_kept == 5 * 2 * 2
    assert replace(known, inducing=TermChoice("kmeans", None, (2, 2))).n_kept == 0
    assert replace(known, inducing=TermChoice("kmeans", 5, "auto")).n_kept == 0
    assert replace(known, kernel=convnet(depth=1)).n_kept == 0


def test_a_fit_holds_the_features_of_images_and_of_their_mirror_images():
    images, of_networks = digits(N)[0], CHOICES[:1]
    both = (False, True)
    kept = 5 * 2 * 2 * N // 2  # in single precision
    for mirrors, versions in (((False,), 1), (both, 2)):
        more = plan_of(images, CHOICES, mirrors=mirrors).size
        less = plan_of(images, of_networks, mirrors=mirrors).size
        assert more.beside_gpu - less.beside_gpu == kept * versions
        assert more.held - less.held == (kept + N**2) * versions
        assert more.on_gpu - less.on_gpu == N**2 * versions
