"""Versions of images as rows: dense formulas, and as many refits as images."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelEnsembleClassifier,
    gram_matrix,
    selection_report,
)
from skconvgp.augmentation import Flip, Shift
from skconvgp.completion import CoarseKernel, Nystrom
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import rbf
from tests.helpers.deviations import plain
from tests.helpers.estimators import digits, tiny_network

NOISE = 0.1
PLAIN = {"amplitude": 1.0, "normalize_y": False, "dtype": "float64"}
AUGMENTS = {
    "flip": Flip(),
    "shift": Shift(2),
    "both": [Flip(), Shift(1)],
}
every_augment = pytest.mark.parametrize("name", AUGMENTS)


def stacked(name, X):
    """Return the images, and then all versions of all images."""
    flips = X[..., ::-1]
    if name == "flip":
        return np.concatenate([X, flips])
    if name == "shift":
        return np.concatenate([X, *shifted(X, 2)])
    images = [X, flips]
    return np.concatenate(images + [one for old in images for one in shifted(old, 1)])


def shifted(X, by):
    framed = np.pad(X, ((0, 0), (0, 0), (by, by), (by, by)), mode="edge")
    h, w = X.shape[2:]
    corners = (by, 2 * by), (by, 0), (2 * by, by), (0, by)  # left, right, up, down
    return [framed[:, :, i : i + h, j : j + w] for i, j in corners]


def some_images(n=12):
    """Return images, some of them equal, symmetric or flips, targets and weights."""
    X, _ = digits(n)
    X[1] = X[0]
    X[3] = X[2][..., ::-1]
    X[4] = X[4] + X[4][..., ::-1]
    rng = np.random.default_rng(0)
    return X / 16.0, rng.normal(size=n), rng.choice([0.5, 1.0, 2.0], n)


def apart(rows, n):
    """Yield which rows are versions of each image, or equal to one of them."""
    flat = [row.tobytes() for row in rows.reshape(len(rows), -1)]
    for i in range(n):
        versions = set(flat[i::n])
        yield np.array([row in versions for row in flat])


def refits(name, X, y, weights, noise, kernel):
    """Return means and variances of observations by a solve for each image."""
    rows, n = stacked(name, X), len(X)
    count = len(rows) // n
    gram = gram_matrix(kernel, rows, dtype="float64")
    each = np.tile(weights / count, count)
    unit = each @ np.diag(gram) / each.sum()
    gram, targets = gram / unit, np.tile(y, count)
    means, variances = [], []
    for i, removed in enumerate(apart(rows, n)):
        rest = ~removed
        matrix = gram[np.ix_(rest, rest)] + np.diag(noise / each[rest])
        gain = np.linalg.solve(matrix, gram[rest, i])
        means.append(gain @ targets[rest])
        least = min(each[removed].sum(), 1.0)
        variances.append(gram[i, i] - gain @ gram[rest, i] + noise / least)
    return np.array(means), np.array(variances)


@every_augment
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_left_out_predictions_are_those_without_the_image_and_its_versions(
    name, solver
):
    X, y, weights = some_images()
    gp = ConvNetGPRegressor(
        tiny_network(),
        augment=AUGMENTS[name],
        noise_variance=NOISE,
        solver=solver,
        **PLAIN,
    )
    mean, std = gp.fit(X, y, weights).loo_predict(return_std=True)
    expected = refits(name, X, y, weights, NOISE, tiny_network())
    np.testing.assert_allclose(mean, expected[0], atol=1e-5)
    np.testing.assert_allclose(std, np.sqrt(expected[1]), rtol=1e-5)
    assert gp.fit_report_.n_samples == len(mean) == 12
    assert f"12, as {gp.fit_report_.n_rows} rows" in str(gp.fit_report_)
    assert gp.fit_report_.n_rows == len(gp.X_train_) > 12


def test_blocks_of_versions_are_counted_before_any_work(monkeypatch):
    X, y, _ = some_images()
    settings = {"noise_variance": "loo", "memory_budget": 2**20}
    gp = ConvNetGPRegressor(tiny_network(), augment=AUGMENTS["both"], **settings)
    n_rows, n_versions, n_noises = 120, 10, 89
    matrices, blocks = 5 * n_rows**2, n_noises * n_rows * n_versions
    for n_free, is_enough in (
        (matrices + blocks, False),
        (matrices + 2 * blocks, True),
    ):
        monkeypatch.setattr(
            "skconvgp.engine._devices.free_memory", lambda _, n=n_free: 8 * n
        )
        if is_enough:
            gp.fit(X, y)
        else:
            with pytest.raises(TileMemoryError, match="fewer samples"):
                gp.fit(X, y)


@every_augment
def test_the_model_is_that_of_rows_that_are_stacked_by_hand(name):
    X, y, weights = some_images()
    rows = stacked(name, X)
    count = len(rows) // len(X)
    gp = ConvNetGPRegressor(tiny_network(), noise_variance=NOISE, dtype="float64")
    by_hand = clone(gp).fit(rows, np.tile(y, count), np.tile(weights / count, count))
    gp.set_params(augment=AUGMENTS[name]).fit(X, y, weights)
    np.testing.assert_allclose(gp.dual_coef_, by_hand.dual_coef_, rtol=1e-9)
    np.testing.assert_allclose(gp.X_train_, rows.reshape(len(rows), -1))
    new, _ = digits(5, start=50)
    mean, std = gp.predict(new, return_std=True)
    expected, expected_std = by_hand.predict(new, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-9)
    # Versions of an image are left out together, rows by hand are not.
    expected_std = plain(by_hand, expected_std)
    np.testing.assert_allclose(plain(gp, std), expected_std, rtol=1e-9)
    evidence = by_hand.log_marginal_likelihood()
    assert gp.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-9)


@every_augment
def test_the_noise_is_chosen_with_images_left_out(name):
    X, y, weights = some_images(16)
    y = X.mean((1, 2, 3)) + 0.05 * y
    kernel = tiny_network()
    gp = ConvNetGPRegressor(kernel, augment=AUGMENTS[name], **PLAIN)
    best = gp.fit(X, y, weights).noise_variance_
    assert 1e-6 < best < 1.0

    def density(noise):
        mean, var = refits(name, X, y, weights, noise, kernel)
        return -(weights * ((y - mean) ** 2 / var + np.log(var))).sum()

    step = 10.0 ** (1 / 8)  # of the grid
    highest = density(best)
    for factor in (step**-8, step**-2, 1 / step, step, step**2, step**8):
        assert density(best * factor) < highest


def test_versions_that_are_equal_to_their_image_change_nothing():
    X, labels = digits(40)
    X = X + X[..., ::-1]
    gp = ConvNetGPClassifier(tiny_network(), dtype="float64").fit(X, labels)
    again = clone(gp).set_params(augment=Flip()).fit(X, labels)
    assert again.noise_variance_ == gp.noise_variance_
    assert again.amplitude_ == pytest.approx(gp.amplitude_)
    evidence = gp.log_marginal_likelihood()
    assert again.log_marginal_likelihood() == pytest.approx(evidence)
    np.testing.assert_allclose(again.loo_predict_proba(), gp.loo_predict_proba())
    new, _ = digits(5, start=50)
    np.testing.assert_allclose(again.predict_proba(new), gp.predict_proba(new))


def test_weights_are_repetitions():
    X, labels = digits(20)
    counts = 1 + np.arange(20) % 3
    gp = ConvNetGPClassifier(tiny_network(), augment=[Flip()], dtype="float64")
    once = clone(gp).fit(X, labels, counts)
    order = np.repeat(np.arange(20), counts)
    gp.fit(X[order], labels[order])
    assert gp.noise_variance_ == once.noise_variance_
    left_out = once.loo_predict_proba()[order]
    np.testing.assert_allclose(gp.loo_predict_proba(), left_out, rtol=1e-6)


def test_an_image_of_weight_zero_has_no_versions():
    X, labels = digits(20)
    weights = (np.arange(20) > 3).astype(float)
    gp = ConvNetGPClassifier(tiny_network(), augment=Flip())
    given = clone(gp).fit(X, labels, weights)
    fewer = gp.fit(X[4:], labels[4:])
    np.testing.assert_array_equal(given.dual_coef_, fewer.dual_coef_)
    assert len(given.loo_predict()) == 16


def test_left_out_values_of_a_coarse_kernel_are_those_of_refits():
    X, y, weights = some_images()
    gp = ConvNetGPRegressor(
        rbf(3.0),
        completion=CoarseKernel(pool=1, kernel=tiny_network()),
        noise_variance=NOISE,
        augment=Flip(),
        **PLAIN,
    )
    mean, std = gp.fit(X, y, weights).loo_predict(return_std=True)
    expected = refits("flip", X, y, weights, NOISE, tiny_network())
    np.testing.assert_allclose(mean, expected[0], atol=1e-5)
    np.testing.assert_allclose(std, np.sqrt(expected[1]), rtol=1e-5)


def test_left_out_values_are_one_an_image_where_the_rest_is_completed():
    X, labels = digits(30)
    exact = Nystrom(n_landmarks=10)
    coarse = CoarseKernel(pool=2, exact=exact)
    gp = ConvNetGPClassifier(tiny_network(), completion=coarse, augment=Flip())
    gp.fit(X, labels)
    assert gp.loo_predict_proba().shape == (30, 10)
    assert (gp.loo_predict() == labels).mean() > 0.5


def test_reports_and_mixtures_take_augmented_processes():
    X, labels = digits(60)
    each = [
        (name, ConvNetGPClassifier(tiny_network(), augment=augment))
        for name, augment in (("plain", None), ("shifted", Shift(1)))
    ]
    fitted = [(name, gp.fit(X, labels)) for name, gp in each]
    report = selection_report(dict(fitted), X, labels)
    accuracies = [(gp.loo_predict() == labels).mean() for _, gp in fitted]
    column = report.scores.index("accuracy")
    np.testing.assert_allclose(report.values[:, column], accuracies)
    mixture = KernelEnsembleClassifier(each).fit(X, labels)
    assert mixture.loo_predict_proba().shape == (60, 10)


VECTORS = digits(12)[0].reshape(12, 64)
REFUSED = {
    "not a part": ({"augment": "flip"}, "'augment' parameter .* 'flip'"),
    "no part": ({"augment": []}, "'augment' parameter .* None for no versions"),
    "a part twice": ({"augment": [Shift(), Flip(), Shift()]}, "different parts"),
    "a class": ({"augment": Flip}, "'augment' parameter"),
    "pixels": ({"augment": Shift(0)}, "'pixels' .* an int >= 1"),
    "too far": ({"augment": Shift(8)}, "8 pixels, and nothing of images"),
    "vectors": ({"image_shape": None}, "read as vectors of 64 values: pass images"),
    "a column": ({"image_shape": (64, 1)}, "have a single column"),
    "optimizer": ({"optimizer": "evidence"}, "needs optimizer=None, got 'evidence'"),
    "completion": ({"completion": Nystrom()}, "whole Gram matrix, got completion=Ny"),
    "dirichlet": ({"likelihood": "dirichlet"}, r"one noise variance, .* Dirichlet\("),
    "laplace": ({"likelihood": "laplace"}, r"one noise variance, .* Laplace\("),
    "precomputed": ({"kernel": "precomputed"}, "kernel='precomputed' has none"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_versions_of_images_is_refused(name):
    settings, message = REFUSED[name]
    gp = ConvNetGPClassifier(rbf(1.0), image_shape=(8, 8), augment=Flip())
    X = np.eye(12) if name == "precomputed" else VECTORS
    with pytest.raises(ValueError, match=message):
        gp.set_params(**settings).fit(X, np.arange(12) % 2)


def test_settings_are_searched_and_cloned():
    X, labels = digits(40)
    gp = ConvNetGPClassifier(tiny_network(), augment=Shift())
    assert gp.get_params()["augment__pixels"] == 1
    copied = clone(gp).set_params(augment__pixels=2)
    assert copied.augment == Shift(2)
    assert gp.augment == Shift(1) != Flip()
    assert "augment=Shift(pixels=2)" in repr(copied)
    choices = [None, [Flip(), Shift(1)]]
    search = GridSearchCV(gp, {"augment": choices}, cv=2).fit(X, labels)
    best = search.best_estimator_
    n_versions = 1 if best.augment is None else 10
    assert best.dual_coef_.shape == (40 * n_versions, 10)
