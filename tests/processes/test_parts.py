"""Sums of parts: weights, mirror images, derivatives and memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from skconvgp.exceptions import TileMemoryError
from skconvgp.image_maps import ScatteredFit, Scatterer, Scattering
from skconvgp.inference import LeftOutSamples, WeightedSum, choose_mixture
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
from skconvgp.processes.basis import _inducing_sum
from skconvgp.processes.basis._sight import Sight
from skconvgp.processes.fits._part_weights import left_out_samples, without_idle
from skconvgp.processes.fits._parts_fit import judged_images
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


def basis_of(images):
    rows = images.reshape(len(images), -1)
    return KernelBasis(NETWORK, rows, np.arange(len(rows)), images.shape[1:])


def plan_of(images, choices=CHOICES, noise="loo", weights=None, mirrors=(False,)):
    settings = Settings(noise, "profile")
    basis = basis_of(images)
    shares = np.full(len(choices), np.nan) if weights is None else weights
    return PartsFit(basis, choices, settings, shares, mirrors, keeps_left_out=False)


def fitted(images, targets, **settings):
    """Return the process, and the report of its fit."""
    plan = plan_of(images, **settings)
    n, k = targets.shape
    rows = images.reshape(len(images), -1)
    problem = Problem(rows, targets, np.ones(n), np.ones(k))
    result = plan.plan(RESOURCES).fit(problem, RESOURCES)[0]
    return result.process, result.record.report


def sight_of(images):
    return Sight(torch.as_tensor(images))


def targets_of(seed, count=2):
    targets = np.random.default_rng(seed).normal(size=(N, count))
    return targets - targets.mean(0)


def run():
    return RESOURCES.run(RESOURCES.placement(0))


@pytest.mark.parametrize("seed", [0, 1])
def test_weights_are_those_of_the_parts_that_explain_targets(seed):
    images = digits(N)[0]
    process, _ = fitted(images, targets_of(seed), weights=np.array([0.5, 0.5]))
    grams = [part.gram(run()).numpy() for part in process.basis.parts]
    own = grams[seed] / (np.diag(grams[seed]).mean() - grams[seed].mean())
    targets = np.linalg.cholesky(own + 1e-3 * np.eye(N)) @ targets_of(seed, 8)
    _, report = fitted(images, targets)
    assert report["part_weights"][seed] > 0.75


def test_a_part_that_says_what_another_says_is_dropped_if_it_is_dearer():
    images = digits(N)[0]
    dear = tuple(replace(CHOICES[1], cost=cost) for cost in (1.0, 2.0))
    _, report = fitted(images, targets_of(0), choices=dear)
    assert report["part_weights"] == (1.0, 0.0)


def test_a_dear_part_stays_in_a_fit_to_many_images():
    rng, codes = np.random.default_rng(0), np.arange(60) % 4
    seen = [codes % 2, codes // 2] + 0.35 * rng.normal(size=(2, 60))
    grams = [torch.as_tensor(np.exp(-np.square(x[:, None] - x))) for x in seen]
    one_hot = np.eye(4)[codes]
    given = (one_hot - one_hot.mean(0), np.ones(60), one_hot)
    samples = LeftOutSamples(*map(torch.as_tensor, given))
    total = WeightedSum(grams, np.full(2, np.nan), np.ones(2))
    found = choose_mixture(total, samples)
    choices = [PartChoice(rbf(), cost=0.0), PartChoice(rbf(), cost=300.0)]
    few, many = (without_idle(total, samples, found, choices, n) for n in (60, 120))
    # Without it the criterion rises by .72: between 300 * .003 and a quarter of that.
    assert few.left_out - found.left_out == pytest.approx(0.719, abs=0.01)
    assert few.shares[1] == 0.0
    assert many.shares[1] > 0.4


def test_a_part_of_no_weight_is_dropped():
    images = digits(N)[0]
    process, report = fitted(
        images, targets_of(0), weights=np.array([0.0, 1.0]), noise=0.1
    )
    assert [part.kernel_basis.kernel for part in process.basis.parts] == [PATCHES]
    assert report["part_weights"] == (0.0, 1.0)


@pytest.mark.parametrize("mirrors", [(False,), (True,)])
def test_views_of_a_source_compute_its_values_once(mirrors):
    images, calls = digits(N)[0], []

    class Squares(Scatterer):
        def __call__(self, images):
            calls.append(len(images))
            return super().__call__(images)

    fits = [ScatteredFit(Scattering(1, 4, 1), eps=eps) for eps in (0.5, 2.0)]
    choices = tuple(PartChoice(NETWORK, fit) for fit in fits)
    both = np.array([0.5, 0.5])
    settings = {"choices": choices, "weights": both, "noise": 0.1, "mirrors": mirrors}
    process, _ = fitted(images, targets_of(0), **settings)
    one, two = process.basis.parts
    assert one.view.source is two.view.source
    source = Squares(one.view.source.scattering, one.view.source.first)
    parts = [replace(x, view=replace(x.view, source=source)) for x in (one, two)]
    watched = replace(process.basis, parts=tuple(parts))
    new = NewRows(images[:5].reshape(5, -1))
    for basis in (watched, process.basis):
        found = [cross for cross, _ in basis.stream(new, run(), needs_diag=False)]
        alone = [
            factor * part.cross(sight_of(images[:5]), run(), needs_diag=False)[0]
            for part, factor in zip(basis.parts, basis.factors, strict=True)
        ]
        assert_close(torch.cat(found), alone[0] + alone[1], kind="solve")
    n_versions = len(calls) // 3  # once for both, and once for each alone
    assert n_versions == (1 if mirrors == (False,) else 2)


def test_equal_views_are_fitted_once_and_patches_are_found_once(monkeypatch):
    images, fits, found = digits(N)[0], [], []
    choose = _inducing_sum.choose_patches

    def fit_view(images):
        fits.append(len(images))
        return squared_view(images)

    def noted(kernel, images, how, *rest, **settings):
        found.append(isinstance(how, torch.Tensor))
        return choose(kernel, images, how, *rest, **settings)

    monkeypatch.setattr(_inducing_sum, "choose_patches", noted)
    anywhere = replace(PATCHES, location_lengthscale=None)
    inducing = TermChoice("kmeans", 5, (1, 1))
    parts = (
        replace(CHOICES[1], fit_view=fit_view, patches_key="same"),
        PartChoice(NETWORK),
        PartChoice(anywhere, fit_view, inducing, patches_key="same"),
    )
    settings = {"choices": parts, "weights": np.ones(3) / 3, "noise": 0.1}
    process, _ = fitted(images, targets_of(0), **settings)
    assert (fits, found) == ([N], [False, True])
    alone, _ = fitted(
        images, targets_of(0), choices=parts[2:], weights=np.ones(1), noise=0.1
    )
    one, two = (basis.parts[-1].features for basis in (process.basis, alone.basis))
    assert_close(one, two)


@pytest.mark.parametrize("is_symmetric", [True, False])
def test_mirror_images_are_averaged_over_if_targets_are_the_same_for_them(is_symmetric):
    images = np.random.default_rng(3).normal(size=(2 * N, 1, 8, 8))
    left, right = images[:, 0, :, :4].sum((1, 2)), images[:, 0, :, 4:].sum((1, 2))
    targets = (left + right if is_symmetric else left - right)[:, None]
    choices = (PartChoice(NETWORK), PartChoice(rbf(20.0)))
    _, report = fitted(images, targets, choices=choices, mirrors=(True, False))
    assert report["is_mirrored"] is is_symmetric


def test_images_that_are_their_own_mirror_images_do_not_show_whether_it_commutes():
    images = digits(N)[0]
    images[: N // 2] = (images + images[..., ::-1])[: N // 2] / 2.0
    choices = tuple(replace(one, fit_view=squared_view) for one in CHOICES[:1])
    for order in (slice(None), slice(None, None, -1)):
        process, _ = fitted(
            images[order], targets_of(0), choices=choices, noise=0.1, mirrors=(True,)
        )
        assert not process.basis.parts[0].commutes
    process, _ = fitted(images, targets_of(0), choices=CHOICES[:1], mirrors=(True,))
    assert process.basis.parts[0].commutes


def test_of_many_parts_that_say_the_same_some_remain():
    choices = tuple(PartChoice(rbf(20.0 + i)) for i in range(60))
    _, report = fitted(digits(N)[0], targets_of(0), choices=choices)
    assert 0 < np.count_nonzero(report["part_weights"]) < 60


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


def test_images_that_judge_have_all_classes():
    codes = np.repeat([0, 1, 2], [1500, 498, 2])
    rows = np.random.default_rng(0).normal(size=(2000, 4))
    problem = Problem(rows, np.zeros((2000, 3)), np.ones(2000), np.ones(3), codes)
    chosen = judged_images(problem, RESOURCES)
    assert len(np.unique(chosen)) == 1000
    counts = np.bincount(codes[chosen])
    assert counts[2] >= 1
    assert counts[0] / counts[1] == pytest.approx(3.0, rel=0.05)


def test_groups_and_equal_images_leave_together():
    rows = np.arange(8.0)[:, None] * np.ones(4)
    rows[1] = rows[0]
    codes = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    groups = np.array([0, 0, 1, 2, 2, 2, 3, 3])
    targets = np.eye(3)[codes] - np.eye(3)[codes].mean(0)
    problem = Problem(rows, targets, np.ones(8), np.ones(3), codes, groups=groups)
    samples = left_out_samples(problem, run())
    # The first two are one sample; all of class 2 leaves with one group.
    assert samples.weights.tolist() == [2.0, *[1.0] * 6]
    members = sorted(sorted(one) for of in samples.groups for one in of.tolist())
    assert members == [[0], [1], [2, 3, 4], [5, 6]]
    assert samples.is_known.tolist() == [True, True, *[False] * 5]
    assert samples.counts.tolist() == pytest.approx([2 / 3, 1 / 3, *[0.0] * 5])
    # Class 0: the pair, which is one input, leaves one of three, as without groups.
    factors = samples.class_factors.numpy()
    np.testing.assert_allclose(factors, np.ones((7, 3)))


def test_a_group_takes_its_share_of_a_class():
    codes = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    groups = np.array([0, 0, 0, 1, 0, 2, 3, 4, 5])
    weights = np.array([1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5])
    rows = np.random.default_rng(0).normal(size=(9, 4))
    targets = np.eye(3)[codes]
    problem = Problem(rows, targets, weights, np.ones(3), codes, groups=groups)
    # Without group 0 one of five is left of class 0, and two of three of class 1.
    expected = np.ones((9, 3))
    expected[[0, 1, 2, 4], 0] = [4.0, 3.0, 4.0, 5.0]
    expected[[0, 1, 2, 4], 1] = [1.5, 1.5, 1.5, 1.0]
    np.testing.assert_allclose(problem.class_factors, expected)
    assert replace(problem, groups=np.arange(9)).class_factors is None
    assert replace(problem, codes=None).class_factors is None


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
