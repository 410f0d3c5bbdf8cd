"""Data sets that are computed."""

import numpy as np
import pytest

from skconvgp.datasets import (
    make_doppler,
    make_rectangles,
    make_swissroll_cheesecake,
    make_three_bumps,
)


def test_three_bumps_are_the_curve_on_a_grid():
    X, y = make_three_bumps(81)
    x = np.linspace(-np.pi, np.pi, 81)
    np.testing.assert_allclose(X[:, 0], x)
    np.testing.assert_allclose(y[40], 0.0, atol=1e-12)
    expected = np.sin(2 * x[7]) + 3 * np.sin(3 * x[7]) + 2 * np.sin(4 * x[7])
    assert y[7] == pytest.approx(expected)


def test_cheesecake_has_neighbouring_layers_of_different_classes():
    X, y = make_swissroll_cheesecake(121)
    assert X.shape == (121, 2)
    assert np.bincount(y).tolist() == [61, 60]
    for label in (0, 1):
        own = X[y == label]
        turned = np.unwrap(np.arctan2(own[:, 1], own[:, 0]))
        assert turned[-1] - turned[0] == pytest.approx(3.0 * np.pi)
        radius = np.hypot(*own.T)
        growth = (radius[-1] - radius[0]) / (turned[-1] - turned[0])
        assert growth == pytest.approx(1.0 / (2.0 * np.pi))
    apart = np.linalg.norm(X[y == 0][:, None] - X[y == 1], axis=-1).min()
    assert apart > 0.2


def test_doppler_is_the_curve_on_a_grid():
    X, y = make_doppler(100, noise=0.0)
    np.testing.assert_allclose(X[:, 0], np.linspace(0.01, 1.0, 100))
    expected = np.sqrt(0.25 * 0.75) * np.sin(2.1 * np.pi / 0.3)
    assert y[24] == pytest.approx(expected)
    noise = make_doppler(1000, random_state=0)[1] - make_doppler(1000, noise=0.0)[1]
    assert noise.std() == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize(
    "make", [make_three_bumps, make_swissroll_cheesecake, make_doppler]
)
def test_noise_is_added_and_can_be_repeated(make):
    clean = make(1000, noise=0.0)
    noisy, same, other = (
        make(1000, noise=0.1, random_state=seed) for seed in (0, 0, 1)
    )
    noise = [np.ravel(a - b) for a, b in zip(noisy, clean, strict=True)]
    added = noise[0] if noise[0].any() else noise[1]
    assert added.std() == pytest.approx(0.1, rel=0.1)
    for one, two in zip(noisy, same, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(np.column_stack(noisy), np.column_stack(other))


def test_rectangles_are_outlines_that_are_tall_or_wide():
    X, y = make_rectangles(200, side=12, random_state=0)
    assert X.shape == (200, 1, 12, 12)
    assert 60 < y.sum() < 140
    for image, label in zip(X[:, 0], y, strict=True):
        rows, columns = np.flatnonzero(image.any(1)), np.flatnonzero(image.any(0))
        height, width = (np.ptp(lit) + 1 for lit in (rows, columns))
        assert min(height, width) >= 4
        assert abs(height - width) >= 3
        assert label == (height > width)
        expected = np.zeros((12, 12))
        expected[rows[[0, -1]], columns[0] : columns[-1] + 1] = 1.0
        expected[rows[0] : rows[-1] + 1, columns[[0, -1]]] = 1.0
        np.testing.assert_array_equal(image, expected)
    corners = X[:, 0, 0, 0].sum(), X[:, 0, -1, -1].sum()
    assert min(corners) > 0  # they may touch every border


def test_rectangles_can_be_repeated():
    one, two, other = (make_rectangles(20, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])
    assert not np.array_equal(one[0], other[0])


def test_images_too_small_for_rectangles_are_refused():
    with pytest.raises(ValueError, match="at least 7 pixels"):
        make_rectangles(1, side=6)


@pytest.mark.parametrize("n_samples", [-1, 0, 2.5, True])
@pytest.mark.parametrize(
    "make",
    [make_doppler, make_rectangles, make_swissroll_cheesecake, make_three_bumps],
)
def test_a_number_of_samples_is_a_whole_number(make, n_samples):
    with pytest.raises(ValueError, match=rf"`n_samples` .* int >= 1, got {n_samples}"):
        make(n_samples)


@pytest.mark.parametrize("side", [6, 9.5])
def test_a_side_is_a_whole_number(side):
    with pytest.raises(ValueError, match=rf"`side` .*int of at least 7 .*got {side}"):
        make_rectangles(2, side=side)
