"""The view of scattering coefficients: its formula, its symmetry, its derivatives."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from skconvgp.image_maps import (
    ChannelComponents,
    ImageBlocks,
    ScatteredFit,
    Scattering,
)
from skconvgp.kernels._flips import flip
from skconvgp.kernels._from_data import smallest_digests
from skconvgp.processes import MirroredPart, PartChoice
from skconvgp.processes.basis._sight import Sight
from tests.helpers.estimators import digits, tiny_network
from tests.helpers.kernels import cross
from tests.helpers.processes import RESOURCES
from tests.helpers.tolerances import assert_close

FIT = ScatteredFit(Scattering(1, 4, 2))
ALL = replace(FIT, share=1.0)
N = 20


def components_of(images):
    return ChannelComponents.fit(ImageBlocks(images, images.device, 7))


def part_of(images, *, is_mirrored):
    run = RESOURCES.run(RESOURCES.placement(0))
    choice = PartChoice(tiny_network(), FIT)
    given = torch.as_tensor(images)
    part = choice.part(
        Sight(torch.cat([given, flip(given)]) if is_mirrored else given),
        is_mirrored=is_mirrored,
        needs_plain=False,
        resources=RESOURCES,
        run=run,
    )
    return part, run


def test_coefficients_are_logarithms_with_white_channels():
    images = digits(N)[0]
    view, shown = ALL(torch.as_tensor(images))
    raw = ALL.scattering(torch.as_tensor(images).float()).double().numpy()
    logs = np.log(raw / np.sqrt((raw**2).mean((0, 2, 3)))[:, None, None] + 0.1)
    logs = np.moveaxis(logs, 1, 0).reshape(raw.shape[1], -1)
    logs -= logs.mean(1, keepdims=True)
    values, vectors = np.linalg.eigh(logs @ logs.T / logs.shape[1])
    white = vectors @ np.diag((values + values.mean()) ** -0.5) @ vectors.T @ logs
    expected = np.moveaxis(white.reshape(raw.shape[1], N, *raw.shape[2:]), 0, 1)
    products = np.einsum("nchw,mcij->nmhwij", expected, expected)
    found = np.einsum("nchw,mcij->nmhwij", shown, shown)
    assert shown.shape[1] == raw.shape[1]  # all components
    np.testing.assert_allclose(found, products, atol=2e-4 * np.abs(products).max())
    again = view(torch.as_tensor(images[:3]).float())
    np.testing.assert_allclose(again, shown[:3], atol=1e-4)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_components_keep_a_share_of_the_variance(share):
    images = torch.as_tensor(digits(N)[0])
    variances = ALL(images)[1].double().movedim(1, 0).flatten(1).var(1)
    fewer = replace(ALL, share=share)(images)[1].double()
    kept = fewer.movedim(1, 0).flatten(1).var(1)
    total = variances.sum()
    assert share <= kept.sum() / total < share + variances.max() / total
    assert kept.sum() - kept.min() < share * total


def test_channels_of_many_positions_are_whitened_by_some_images(monkeypatch):
    images = torch.as_tensor(digits(N)[0])
    monkeypatch.setattr("skconvgp.image_maps._scattered.MOST_POSITIONS", 7 * 16)
    view, shown = ALL(images)
    raw = ALL.scattering(images.float())
    chosen = smallest_digests(raw[:, :, ::3, ::3].flatten(1), 7)
    _, of_some = ALL(images[chosen])
    assert len(shown) == N
    assert len(of_some) == 7
    np.testing.assert_array_equal(view(images.float())[chosen], of_some)


def test_images_that_whiten_do_not_depend_on_the_order(monkeypatch):
    images = torch.as_tensor(digits(N)[0])
    images[::2] = 0.1 * images[::2]  # as of classes that alternate
    order = torch.cat([torch.arange(0, N, 2), torch.arange(1, N, 2)])
    monkeypatch.setattr("skconvgp.image_maps._scattered.MOST_POSITIONS", 10 * 16)
    (_, alternating), (_, apart) = ALL(images), ALL(images[order])
    np.testing.assert_allclose(alternating[order], apart, atol=1e-5)


def test_averages_are_exact_although_positions_are_not_mirrored():
    images = digits(N)[0]
    part, run = part_of(images, is_mirrored=True)
    assert isinstance(part, MirroredPart)
    assert not part.commutes
    new = torch.as_tensor(digits(3, start=50)[0])
    one, other = (
        part.cross(Sight(given), run, needs_diag=True) for given in (new, new.flip(-1))
    )
    assert_close(one[0], other[0])
    assert_close(one[1], other[1])
    both = part.view(torch.cat([new, new.flip(-1)]))
    whole = cross(tiny_network(), both).reshape(2, 3, 2, 3).mean((0, 2))
    assert_close(part.covariance(Sight(new), run), whole)
    assert_close(one[1], whole.diagonal())


def test_derivatives_by_images():
    part, run = part_of(digits(N)[0], is_mirrored=True)
    rng = np.random.default_rng(0)
    images = torch.as_tensor(
        digits(2, start=50)[0] + 0.05 * rng.normal(size=(2, 1, 8, 8))
    )
    sums, step = rng.normal(size=(2, N)), torch.as_tensor(rng.normal(size=images.shape))

    def total(at):
        found, _ = part.cross(Sight(at), run, needs_diag=False)
        return float(np.sum(sums * found.numpy()))

    pulled = part.pull(images, sums, run)
    slope = (total(images + 1e-6 * step) - total(images - 1e-6 * step)) / 2e-6
    assert float((pulled * step).sum()) == pytest.approx(slope, rel=1e-4)


def test_colours_are_scattered_as_their_principal_components():
    rng = np.random.default_rng(0)
    mixing = np.array([[1.0, 0.9, 0.8], [0.1, -0.2, 0.1], [0.05, 0.0, -0.1]])
    images = np.einsum("nkhw,kc->nchw", rng.normal(size=(N, 3, 8, 8)), mixing) + 0.5
    colors = components_of(torch.as_tensor(images))
    pixels = np.moveaxis(images, 1, 0).reshape(3, -1)
    _, _, axes = np.linalg.svd(pixels.T - pixels.mean(1), full_matrices=False)
    expected = axes @ (pixels - pixels.mean(1)[:, None])
    expected /= expected.std(1, keepdims=True)
    found = np.moveaxis(colors(torch.as_tensor(images)).numpy(), 1, 0).reshape(3, -1)
    signs = np.sign((found[::-1] * expected).sum(1, keepdims=True))
    assert_close(found[::-1], expected * signs)
    fit = replace(ALL, fit_first=ChannelComponents.fit)
    view, shown = fit(torch.as_tensor(images))
    assert view.source.first.components.shape == (3, 3)
    assert "first=ChannelComponents()" in repr(view)
    plain = ALL(colors(torch.as_tensor(images)))[1]
    products = torch.einsum("nchw,mcij->nmhwij", plain, plain)
    again = torch.einsum("nchw,mcij->nmhwij", shown, shown)
    np.testing.assert_allclose(again, products, atol=2e-4 * float(products.max()))


@pytest.mark.parametrize("grey", [digits(N)[0], np.full((N, 1, 8, 8), 0.5)])
def test_colours_that_are_alike_are_a_single_component(grey):
    images = torch.as_tensor(np.repeat(grey, 3, 1)).float()
    images[:, 1] *= 0.5  # sums are rounded
    colors = components_of(images)
    assert colors(images).shape == (N, 1, 8, 8)
    fit = replace(FIT, fit_first=ChannelComponents.fit, has_unit_length=True)
    shown = fit(images)[1]
    assert torch.isfinite(shown).all()


def test_positions_of_unit_length():
    images = digits(N)[0]
    unit = replace(FIT, has_unit_length=True)
    shown, plain = (fit(torch.as_tensor(images))[1].numpy() for fit in (unit, FIT))
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(shown, plain / lengths, atol=1e-5)
