"""The picture of inducing patches and their places."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from skconvgp import PatchGPClassifier
from skconvgp.display import PatchesDisplay
from skconvgp.flows import LBFGS
from skconvgp.kernels import PatchKernel, rbf
from tests.helpers.estimators import digits


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def fitted(**settings):
    X, y = digits(60)
    kernel = PatchKernel(patch_size=3, location_lengthscale=2.0, **settings)
    return X, PatchGPClassifier(kernel, n_inducing=7, random_state=0).fit(X, y)


def drawn(axes):
    return np.ma.filled(axes.images[0].get_array(), np.nan)


def test_each_patch_has_its_square_on_the_sheet():
    _, gp = fitted()
    sheet = drawn(PatchesDisplay.from_estimator(gp).axes_[0])
    assert sheet.shape == (11, 11)  # three rows of three
    for i, patch in enumerate(gp.inducing_patches_[:, 0]):
        row, column = divmod(i, 3)
        square = sheet[4 * row : 4 * row + 3, 4 * column : 4 * column + 3]
        np.testing.assert_array_equal(square, patch)
    assert np.isnan(sheet[3]).all()
    assert np.isnan(sheet[8:, 4:]).all()


def test_places_are_the_centres_of_patches_on_the_image():
    X, gp = fitted()
    axes = PatchesDisplay.from_estimator(gp, X[3]).axes_[1]
    np.testing.assert_array_equal(drawn(axes), X[3].reshape(8, 8))
    dots = np.asarray(axes.collections[0].get_offsets())
    np.testing.assert_allclose(dots[:, ::-1], gp.locations_ + 1.0)
    assert axes.get_title() == f"{len(gp.locations_)} places"


def test_weights_of_positions_are_around_their_patches():
    weights = np.linspace(-1.0, 3.0, 36)
    _, gp = fitted(weights=weights)
    axes = PatchesDisplay.from_estimator(gp).axes_[1]
    np.testing.assert_allclose(drawn(axes), weights.reshape(6, 6))
    # The patch of 3x3 at row 0 and column 0 has its centre at pixel (1, 1).
    assert list(axes.images[0].get_extent()) == [0.5, 6.5, 6.5, 0.5]
    assert axes.images[0].get_clim() == (-3.0, 3.0)


def test_patches_in_color_are_pictures():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(30, 3, 6, 6)), np.arange(30) % 2
    gp = PatchGPClassifier(
        PatchKernel(patch_size=3, location_lengthscale=None),
        n_inducing=4,
        random_state=0,
    )
    display = PatchesDisplay.from_estimator(gp.fit(X, y), X[0])
    sheet, image = map(drawn, display.axes_)
    assert sheet.shape == (7, 7, 3)
    assert sheet.min() == 0.0
    assert sheet.max() == 1.0
    scaled = (X[0] - X[0].min()) / np.ptp(X[0])
    np.testing.assert_allclose(image, scaled.transpose(1, 2, 0))


def test_an_image_of_another_shape_is_refused():
    _, gp = fitted()
    with pytest.raises(ValueError, match=r"must have the shape \(1, 8, 8\)"):
        PatchesDisplay.from_estimator(gp, np.zeros((9, 9)))


def test_a_term_of_a_sum_is_drawn():
    X, y = digits(60)
    small, large = (
        PatchKernel(patch_size=size, stride=2, location_lengthscale=None)
        for size in (3, 4)
    )
    kernel = rbf() + 0.5 * small.replace(weights="learned") + large
    settings = {"optimizer": LBFGS(max_iter=2), "random_state": 0}
    gp = PatchGPClassifier(kernel, n_inducing=7, **settings).fit(X, y)
    display = PatchesDisplay.from_estimator(gp, term=1)
    learned = gp.kernel_.parts[0].parts[1].kernel.weights
    np.testing.assert_array_equal(display.weights.ravel(), learned)
    np.testing.assert_array_equal(display.patches, gp.inducing_patches_[1])
    np.testing.assert_array_equal(display.locations, gp.locations_[1])
    for term in (0, 3, -1):
        with pytest.raises(ValueError, match="PatchKernel among the 3 terms"):
            PatchesDisplay.from_estimator(gp, term=term)
