"""Maps of what pixels contribute to a score."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skconvgp import (
    BayesianNetworkClassifier,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    KernelFeatures,
    PatchGPClassifier,
    PatchGPRegressor,
)
from skconvgp.completion import NearestNeighbors
from skconvgp.image_maps import Upright
from skconvgp.kernels import FlipAverage, PatchKernel, dot_product, matern, rbf
from skconvgp.processes.basis import _places
from skconvgp.questions import _occlusion, _paths, attribution
from tests.helpers.estimators import digits, tiny_network

EXACT = {"dtype": "float64", "n_inducing": 12, "random_state": 0}
PATCHES = PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=2.0)
LARGE = matern(2.0, nu=1.5)


def prior_means(gp, outputs):
    """Return what scores are without data, of outputs (n,)."""
    known = gp.latent_offset_ if hasattr(gp, "classes_") else gp.y_mean_
    return np.asarray(known)[outputs]


def scores(gp, X, outputs):
    latent = gp.predict_latent(X).reshape(len(X), -1)
    return latent[np.arange(len(X)), outputs]


def colors(n, seed=0):
    """Return images in color, and labels of two classes."""
    X = np.random.default_rng(seed).uniform(size=(n, 3, 7, 6))
    return X, (X[:, 0].mean((1, 2)) > X[:, 1].mean((1, 2))).astype(int)


@pytest.mark.parametrize(
    ("kernel", "channels"),
    [
        (PATCHES, 1),
        (PATCHES.replace(location_lengthscale=None), 1),
        (PATCHES.replace(stride=2), 1),
        (PATCHES.replace(patch_size=(2, 4), weights=np.linspace(-1, 2, 35)), 1),
        (FlipAverage(PATCHES), 1),
        (0.5 * PATCHES + FlipAverage(PATCHES.replace(patch_size=5)), 1),
        (PATCHES.replace(base=LARGE, normalization="contrast"), 1),
        *((PATCHES.replace(color=color), 3) for color in ("patches", "channels")),
        *((PATCHES.replace(color=color), 3) for color in ("additive", "stacked")),
    ],
    ids=repr,
)
def test_contributions_of_positions_add_up_to_the_score(kernel, channels):
    X, y = colors(40) if channels == 3 else digits(40)
    new, outputs = X[30:], np.arange(10) % len(np.unique(y))
    gp = PatchGPClassifier(kernel, **EXACT).fit(X[:30], y[:30])
    maps = attribution(gp, new, gp.classes_[outputs])
    assert maps.shape == (10, *X.shape[2:])
    expected = scores(gp, new, outputs) - prior_means(gp, outputs)
    np.testing.assert_allclose(maps.sum((1, 2)), expected, rtol=0, atol=1e-10)
    assert np.abs(maps).max() > 1e-4
    single = PatchGPClassifier(kernel, **EXACT | {"dtype": "float32"})
    maps = attribution(single.fit(X[:30], y[:30]), new, gp.classes_[outputs])
    expected = scores(single, new, outputs) - prior_means(single, outputs)
    np.testing.assert_allclose(maps.sum((1, 2)), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [2, 4])
def test_patches_that_do_not_overlap_contribute_what_hiding_them_costs(size):
    X, y = digits(60)
    kernel = PATCHES.replace(patch_size=size, stride=size)
    gp = PatchGPClassifier(kernel, **EXACT).fit(X[:50], y[:50])
    new, baseline = X[50:], digits(1, start=90)[0][0]
    outputs = np.searchsorted(gp.classes_, gp.predict(new))
    before = scores(gp, new, outputs)
    expected = np.empty((10, 8, 8))
    for top, left in itertools.product(range(0, 8, size), repeat=2):
        at = np.s_[..., top : top + size, left : left + size]
        hidden = new.copy()
        hidden[at] = baseline[at]
        fall = before - scores(gp, hidden, outputs)
        expected[at] = fall[:, None, None] / size**2
    found = attribution(gp, new, baseline=baseline)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    blank = attribution(gp, new, baseline=0.25)
    grey = scores(gp, np.full_like(new, 0.25), outputs)
    np.testing.assert_allclose(blank.sum((1, 2)), before - grey, rtol=0, atol=1e-10)


def test_patches_that_overlap_share_their_contributions_among_their_pixels():
    X, y = digits(60)
    gp = PatchGPClassifier(PATCHES, **EXACT).fit(X[:50], y[:50])
    new, rng = X[50:], np.random.default_rng(0)
    many, grid = rng.uniform(size=(400, 1, 8, 8)), np.stack(np.indices((6, 6)), -1)
    inducing = gp.inducing_patches_.reshape(len(gp.inducing_patches_), -1)
    apart = grid[:, :, None] - gp.locations_
    near = np.exp(-np.square(apart).sum(-1) / (2.0 * 2.0**2))

    def responses(images):
        cut = np.lib.stride_tricks.sliding_window_view(images[:, 0], (3, 3), (1, 2))
        cut = cut.reshape(len(images), 6, 6, 1, 9)
        base = np.exp(-np.square(cut - inducing).sum(-1) / 2.0)
        return (base[..., None] * near[:, :, None]).reshape(len(images), 6, 6, -1)

    latent = gp.predict_latent(many)[:, 3] - gp.latent_offset_[3]
    weights = np.linalg.lstsq(responses(many).sum((1, 2)), latent, rcond=None)[0]
    of_patches, expected = responses(new) @ weights, np.zeros((10, 8, 8))
    for top, left in itertools.product(range(6), repeat=2):
        share = of_patches[:, top, left, None, None] / 9.0
        expected[:, top : top + 3, left : left + 3] += share
    found = attribution(gp, new, 3, method="positions")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_regressors_have_a_map_of_each_output():
    X, y = digits(40)
    targets = np.stack([3.0 + 5.0 * y, np.cos(y), y**2.0], 1)
    gp = PatchGPRegressor(PATCHES, **EXACT).fit(X[:30], targets[:30])
    outputs = np.arange(10) % 3
    maps = attribution(gp, X[30:], outputs)
    expected = scores(gp, X[30:], outputs) - gp.y_mean_[outputs]
    np.testing.assert_allclose(maps.sum((1, 2)), expected, rtol=1e-10, atol=1e-10)
    for output in range(3):
        one = attribution(gp, X[30:], output)
        np.testing.assert_allclose(one[outputs == output], maps[outputs == output])
    single = PatchGPRegressor(PATCHES, **EXACT).fit(X[:30], targets[:30, 0])
    found = attribution(single, X[30:], method="gradients", n_steps=40)
    expected = single.predict(X[30:]) - single.predict(np.zeros((1, 8, 8)))
    np.testing.assert_allclose(found.sum((1, 2)), expected, rtol=1e-5)


@pytest.mark.parametrize("parts", [[PATCHES], "patches"])
def test_images_that_are_seen_reduced_have_maps_of_all_pixels(parts):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(14, 200, 12)).astype(np.float32)
    y = np.arange(14) % 2
    gp = ImageClassifier(parts, flips=True, random_state=0).fit(X[:12], y[:12])
    assert gp.pool_ > 1.0
    outputs = np.array([0, 1])
    maps = attribution(gp, X[12:], outputs)
    assert maps.shape == (2, 200, 12)
    expected = scores(gp, X[12:], outputs) - prior_means(gp, outputs)
    np.testing.assert_allclose(maps.sum((1, 2)), expected, rtol=0, atol=1e-5)
    assert (np.abs(maps).sum((0, 2)) > 0.0).all()


def test_parts_that_are_all_patches_have_positions_also_on_scattering():
    X, y = digits(80)
    names = ImageClassifier(random_state=0).fit(X[:60], y[:60]).fit_report_.part_names
    on_scattering = [
        name for name in names if "scattering" in name and "network" not in name
    ]
    for name in (*on_scattering, "patches of pixels"):
        shares = dict.fromkeys(names, 0.0) | {name: 1.0}
        gp = ImageClassifier(part_weights=shares, random_state=0).fit(X[:60], y[:60])
        view = gp.parts_[0][0]
        moves = view is not None and isinstance(view.source.first, Upright)
        outputs = np.arange(20) % 10
        if moves:
            with pytest.raises(ValueError, match="not all sums over positions"):
                attribution(gp, X[60:], outputs, method="positions")
            light = gp.for_prediction()
            with pytest.raises(ValueError, match="use method='occlusion'"):
                attribution(light, X[60:])
            options = {"method": "occlusion", "window": 3}
            whole, found = (attribution(one, X[60:], **options) for one in (gp, light))
            np.testing.assert_allclose(found, whole, rtol=0, atol=1e-4)
            continue
        expected = scores(gp, X[60:], outputs) - prior_means(gp, outputs)
        for one in (gp, gp.for_prediction()):
            maps = attribution(one, X[60:], outputs, method="positions")
            np.testing.assert_allclose(maps.sum((1, 2)), expected, rtol=0, atol=2e-5)
    assert any("upright" in name for name in on_scattering)
    assert not all("upright" in name for name in on_scattering)


def test_each_pixel_of_a_cell_has_the_same_share():
    found = _places._on_pixels(_places.torch.ones(1, 2, 3), 4, (9, 12))
    assert found.shape == (1, 9, 12)
    assert (found[:, :8] == 1.0 / 16.0).all()
    assert (found[:, 8] == 0.0).all()


def test_gradients_of_a_linear_function_are_exact():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 6))
    gp = ConvNetGPRegressor(dot_product(), noise_variance=0.01)
    gp.fit(X, X @ np.arange(6.0))
    new, baseline = rng.normal(size=(4, 6)), rng.normal(size=6)
    steps = np.eye(6) - np.zeros((1, 6))
    slope = gp.predict(steps) - gp.predict(np.zeros((1, 6)))
    maps = attribution(gp, new, baseline=baseline, n_steps=1)
    assert maps.shape == (4, 6)
    np.testing.assert_allclose(maps, (new - baseline) * slope, rtol=1e-8, atol=1e-10)
    hidden = attribution(gp, new, baseline=baseline, method="occlusion", window=1)
    np.testing.assert_allclose(hidden, (new - baseline) * slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kernel", [rbf(2.0), tiny_network()], ids=repr)
def test_gradients_are_integrals_of_differences(kernel):
    X, y = digits(40)
    gp = ConvNetGPClassifier(kernel, noise_variance=0.05).fit(X[:38], y[:38])
    new, baseline, size = X[38:], np.full((1, 8, 8), 0.1), 1e-4
    label = gp.classes_[4]
    expected, points = np.zeros((2, 8, 8)), (np.arange(60) + 0.5) / 60
    for i, j in itertools.product(range(0, 8, 3), range(8)):
        step = np.zeros((1, 8, 8))
        step[0, i, j] = size
        for k, image in enumerate(new):
            path = baseline + points[:, None, None, None] * (image - baseline)
            differences = gp.predict_latent(path + step) - gp.predict_latent(
                path - step
            )
            slope = differences[:, 4].mean() / (2.0 * size)
            expected[k, i, j] = slope * (image - baseline)[0, i, j]
    found = attribution(gp, new, label, baseline=baseline, n_steps=40)
    largest = np.abs(found).max()
    np.testing.assert_allclose(
        found[:, ::3], expected[:, ::3], rtol=0, atol=1e-3 * largest
    )


@pytest.mark.parametrize("color", [False, True])
def test_gradients_add_up_to_the_difference_of_scores(color):
    X, y = colors(43) if color else digits(43)
    gp = ImageClassifier(random_state=0).fit(X[:40], y[:40])
    codes = np.searchsorted(gp.classes_, gp.predict(X[40:]))
    blank = np.zeros((1, *X.shape[1:]))
    expected = scores(gp, X[40:], codes) - gp.predict_latent(blank)[0, codes]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        maps = attribution(gp, X[40:], method="gradients")
    errors = np.abs(maps.sum((1, 2)) - expected)
    assert (errors < 0.01 * np.abs(maps).sum((1, 2))).all()


def test_sums_that_miss_are_told_and_more_steps_help():
    X, y = digits(60)
    gp = ConvNetGPClassifier(rbf(0.7), noise_variance=0.01).fit(X[:50], y[:50])
    with pytest.warns(UserWarning, match=r"of 10 samples do not add up .* is 2\."):
        attribution(gp, X[50:], n_steps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attribution(gp, X[50:], n_steps=60)


@pytest.mark.parametrize("window", [1, (3, 5), 8, None])
def test_occlusion_is_the_mean_fall_of_scores_by_hand(window):
    X, y = digits(40)
    gp = ConvNetGPClassifier(tiny_network()).fit(X[:36], y[:36])
    new, label = X[36:], y[:4]
    codes = np.searchsorted(gp.classes_, label)
    height, width = window if isinstance(window, tuple) else (window or 1,) * 2
    steps = max(1, height // 2), max(1, width // 2)
    tops, lefts = (
        sorted({*range(0, 8 - side + 1, step), 8 - side})
        for side, step in zip((height, width), steps, strict=True)
    )
    before, total = scores(gp, new, codes), np.zeros((4, 8, 8))
    counts = np.zeros((8, 8))
    for top, left in itertools.product(tops, lefts):
        at = np.s_[..., top : top + height, left : left + width]
        hidden = new.copy()
        hidden[at] = 0.5
        total[at] += (before - scores(gp, hidden, codes))[:, None, None]
        counts[at] += 1.0
    options = {"method": "occlusion", "baseline": 0.5, "window": window}
    found = attribution(gp, new, label, **options)
    np.testing.assert_allclose(found, total / counts, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", ["positions", "gradients", "occlusion"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool, np.float16])
def test_images_of_whole_numbers_have_the_maps_of_floats(dtype, method):
    X, y = digits(40)
    X = (16.0 * X).astype(dtype)
    largest = float(X.max())
    gp = PatchGPClassifier(PatchKernel(rbf(3.0 * largest), patch_size=3), **EXACT)
    gp.fit(X[:36], y[:36])
    for baseline in (-largest, 0.3 * largest, 1.3 * largest):
        found, expected = (
            attribution(gp, given, 3, method=method, baseline=baseline)
            for given in (X[36:], X[36:].astype(np.float64))
        )
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        assert np.abs(found).max() > 1e-4


def test_whole_image_kernels_have_gradients_and_no_positions():
    X, y = digits(40)
    gp = PatchGPClassifier(PATCHES + rbf(2.0), **EXACT).fit(X[:36], y[:36])
    with pytest.raises(ValueError, match="use method='gradients' or 'occlusion'"):
        attribution(gp, X[36:], method="positions")
    found = attribution(gp, X[36:])
    expected = attribution(gp, X[36:], method="gradients")
    np.testing.assert_array_equal(found, expected)


def test_default_is_the_predicted_label_whatever_labels_are():
    X, y = digits(60)
    names = np.array(list("zyxwvutsrq"))[y]
    gp = PatchGPClassifier(PATCHES, **EXACT).fit(X[:50], names[:50])
    predicted = gp.predict(X[50:])
    found = attribution(gp, X[50:])
    np.testing.assert_array_equal(found, attribution(gp, X[50:], predicted))
    one = attribution(gp, X[50:], predicted[0])
    np.testing.assert_array_equal(found[0], one[0])
    rows = attribution(gp, X[50:].reshape(10, -1))
    np.testing.assert_array_equal(found, rows)


@pytest.mark.parametrize("method", ["positions", "gradients", "occlusion"])
def test_a_sample_alone_has_the_map_that_it_has_among_others(method, monkeypatch):
    X, y = digits(60)
    gp = PatchGPClassifier(PATCHES, **EXACT).fit(X[:50], y[:50])
    options = {"method": method, "n_steps": 5}
    maps = attribution(gp, X[50:], **options)
    alone = [attribution(gp, X[i : i + 1], **options)[0] for i in range(50, 60)]
    np.testing.assert_allclose(maps, alone, rtol=1e-9, atol=1e-12)
    monkeypatch.setattr(_paths, "AT_ONCE", 3)
    monkeypatch.setattr(_occlusion, "MOST_IMAGES", 7)
    monkeypatch.setattr(_places, "HELD", 128)
    blocks = attribution(gp, X[50:], **options)
    np.testing.assert_allclose(maps, blocks, rtol=1e-9, atol=1e-12)


def test_networks_and_neighbours_have_occlusion_alone():
    X, y = digits(40)
    few = {"hidden_layer_sizes": (8,), "n_draws": 2, "max_iter": 6, "random_state": 0}
    near = ConvNetGPClassifier(rbf(), completion=NearestNeighbors(8))
    for gp in (BayesianNetworkClassifier(**few), near):
        gp.fit(X[:36], y[:36] % 3)
        with pytest.raises(ValueError, match="use method='occlusion'"):
            attribution(gp, X[36:])
        maps = attribution(gp, X[36:], method="occlusion")
        assert maps.shape == (4, 8, 8)
        assert np.isfinite(maps).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "saliency"}, "`method` must be one of"),
        ({"method": None}, "`method` must be one of"),
        ({"n_steps": 0}, "`n_steps` must be an int >= 1"),
        ({"n_steps": 2.5}, "`n_steps` must be an int >= 1"),
        ({"window": 0}, "`window` must be None, an int >= 1 or two"),
        ({"window": (2, 2, 2)}, "`window` must be None, an int >= 1 or two"),
        ({"window": "large"}, "`window` must be None, an int >= 1 or two"),
        ({"baseline": np.inf}, "`baseline` must be None, a finite number, or an image"),
        ({"baseline": np.zeros((7, 8))}, r"of shape \(1, 8, 8\) \(c, h, w\)"),
        ({"baseline": "black"}, "`baseline` must be None, a finite number"),
        ({"target": 11}, "`target` must be labels among `classes_`"),
        ({"target": "one"}, "`target` must be labels among `classes_`"),
        ({"target": [1, 2]}, "an array with one for each of the 10 samples"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    X, y = digits(60)
    gp = PatchGPClassifier(PATCHES, **EXACT).fit(X[:50], y[:50])
    with pytest.raises(ValueError, match=message):
        attribution(gp, X[50:], **options)


def test_wrong_outputs_are_refused():
    X, y = digits(40)
    gp = PatchGPRegressor(PATCHES, **EXACT).fit(X[:30], np.stack([y, -y], 1)[:30])
    for target in (None, 2, -1, 0.5, "first"):
        with pytest.raises(ValueError, match="`target` must be the index of"):
            attribution(gp, X[30:], target)


def test_what_is_no_fitted_estimator_is_refused():
    X, y = digits(40)
    gp = ConvNetGPClassifier(rbf())
    with pytest.raises(NotFittedError):
        attribution(gp, X)
    pipeline = make_pipeline(StandardScaler(), gp).fit(X.reshape(40, -1), y)
    with pytest.raises(ValueError, match=r"use its last step, `pipeline\[-1\]`"):
        attribution(pipeline, X)
    search = GridSearchCV(gp, {"noise_variance": [0.1]}, cv=2).fit(X, y % 2)
    with pytest.raises(ValueError, match="use its `best_estimator_`"):
        attribution(search, X)
    features = KernelFeatures(rbf(), 5, random_state=0).fit(X)
    with pytest.raises(ValueError, match="use a classifier or a regressor"):
        attribution(features, X)
    gram = np.eye(40) + 0.5
    precomputed = ConvNetGPClassifier("precomputed").fit(gram, y)
    with pytest.raises(ValueError, match="fit with a kernel object"):
        attribution(precomputed, gram)
