"""Pictures of what a model looked at."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from skconvgp import ConvNetGPRegressor, PatchGPClassifier
from skconvgp.display import AttributionDisplay
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.questions import attribution, representer_points
from tests.helpers.estimators import digits

PATCHES = PatchKernel(rbf(1.0), patch_size=3)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def fitted():
    X, y = digits(54)
    names = np.array(list("abcdefghij"))[y]
    gp = PatchGPClassifier(PATCHES, n_inducing=8, random_state=0)
    return gp.fit(X[:50], names[:50]), X[50:], X[:50], names[:50]


def drawn(axes, which=0):
    return np.asarray(axes.images[which].get_array())


def test_rows_have_image_map_and_training_images():
    gp, new, X, y = fitted()
    display = AttributionDisplay.from_estimator(gp, new, X, y, n_points=2)
    assert display.axes_.shape == (4, 6)
    maps, (indices, values) = attribution(gp, new), representer_points(gp, new)
    for i, row in enumerate(display.axes_):
        np.testing.assert_array_equal(drawn(row[0]), new[i, 0])
        np.testing.assert_array_equal(drawn(row[1]), maps[i])
        assert row[1].images[0].get_clim() == (-abs(maps[i]).max(), abs(maps[i]).max())
        assert row[0].get_title() == gp.predict(new)[i]
        for side in (0, 1):
            for k in (0, 1):
                axes, index = row[2 + 2 * side + k], indices[i, side, k]
                np.testing.assert_array_equal(drawn(axes), X[index, 0])
                told = f"{y[index]}: {values[i, side, k]:+.2g}"
                assert axes.get_title() == told


def test_without_training_images_there_are_images_and_maps():
    gp, new, _, _ = fitted()
    options = {"target": "c", "method": "occlusion", "window": 3}
    display = AttributionDisplay.from_estimator(gp, new.reshape(4, -1), **options)
    assert display.axes_.shape == (4, 2)
    expected = attribution(gp, new, **options)
    np.testing.assert_array_equal(drawn(display.axes_[2, 1]), expected[2])
    assert display.axes_[0, 1].get_title() == "for c"


def test_dark_pixels_shade_maps_of_colours_and_bright_ones_those_of_grey():
    for channels in (1, 3):
        image = np.zeros((1, channels, 2, 2))
        image[..., 0, 0] = 1.0
        display = AttributionDisplay(image, np.ones((1, 2, 2)), ["a"]).plot()
        shade = display.axes_[0, 1].images[1].get_alpha()
        assert (shade[0, 0] > shade[1, 1]) == (channels == 1)


def test_training_images_that_do_not_exist_are_not_drawn():
    X = np.random.default_rng(0).uniform(size=(6, 5, 5))
    gp = ConvNetGPRegressor(rbf(1.0), normalize_y=False).fit(X, np.ones(6))
    display = AttributionDisplay.from_estimator(gp, X[:1], X, n_points=3)
    indices = display.points[0][0].ravel()
    has_image = [bool(axes.images) for axes in display.axes_[0, 2:]]
    assert has_image == (indices >= 0).tolist()
    assert not all(has_image)
    assert display.axes_[0, 1].get_title() == "map"


def test_a_figure_of_the_user_is_drawn_on_and_can_be_saved(tmp_path):
    gp, new, X, y = fitted()
    figure = plt.figure(layout="constrained")
    display = AttributionDisplay.from_estimator(gp, new, X, y, figure=figure)
    assert display.figure_ is figure
    figure.savefig(tmp_path / "maps.png")
    assert (tmp_path / "maps.png").stat().st_size > 1000


def test_other_images_and_labels_are_refused():
    gp, new, X, y = fitted()
    with pytest.raises(ValueError, match="`X_train` must have all images of `fit`"):
        AttributionDisplay.from_estimator(gp, new, X[:3])
    with pytest.raises(ValueError, match="`y_train` must have one label for each"):
        AttributionDisplay.from_estimator(gp, new, X, y[:-1])
    with pytest.raises(ValueError, match="`X` must have shape"):
        AttributionDisplay.from_estimator(gp, new[0, 0, 0])
