"""`partial_fit` of the estimators of patches against single fits."""

import pickle

import numpy as np
import pytest
import skops.io
from sklearn.exceptions import ConvergenceWarning

from skconvgp import (
    SKOPS_TRUSTED_TYPES,
    PatchGPClassifier,
    PatchGPRegressor,
    gram_diag,
)
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.likelihoods import Softmax
from skconvgp.processes.fits import _image_rows
from tests.helpers.batches import twice
from tests.helpers.estimators import all_digits

NOISE, AMPLITUDE, N = 0.02, 1.7, 40
KERNEL = PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=1.5)
SETTINGS = {"dtype": "float64", "random_state": 0}
# Of a batch of fewer than 10 images, parts of weights are left out, not images.
CUTS = [[10], [25], [14, 27]]
cuts = pytest.mark.parametrize("at", CUTS, ids=str)


def digits(n=N):
    X, y = all_digits()
    return X[:n], y[:n]


def patches():
    return digits(200)[0][150:159, :, 1:4, 2:5]


def units(X, first, weights=None):
    """Return the mean prior variances of the first images and of all."""
    diag = gram_diag(KERNEL, X, dtype="float64")
    weights = np.ones(len(X)) if weights is None else weights
    parts = (slice(first), slice(None))
    return [np.average(diag[part], weights=weights[part]) for part in parts]


def pieces(n, at):
    return np.split(np.arange(n), at)


def regressors(X, first, weights=None, **settings):
    """Return one for batches, and one for all images with the units of the other."""
    one, all_of = units(X, first, weights)
    options = {"inducing": patches(), "normalize_y": False} | SETTINGS | settings
    noise = options.pop("noise_variance", NOISE)
    return (
        PatchGPRegressor(KERNEL, noise_variance=noise, amplitude=AMPLITUDE, **options),
        PatchGPRegressor(
            KERNEL,
            noise_variance=noise * one / all_of,
            amplitude=AMPLITUDE * all_of / one,
            **options,
        ),
    )


def test_many_small_batches_with_little_noise_lose_no_digits():
    X, y = digits(120)
    gp, whole = regressors(X, 20, noise_variance=1e-4)
    for part in pieces(120, range(20, 120, 2)):
        gp.partial_fit(X[part], y[part])
    whole.fit(X, y)
    np.testing.assert_allclose(gp.predict(X), whole.predict(X), rtol=1e-6, atol=1e-6)


def test_predictions_in_single_precision_do_not_round_sums():
    X, y = digits()
    gp, whole = regressors(X, 20, solve_dtype="float32", dtype="float32")
    gp.partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    whole.fit(X, y)
    np.testing.assert_allclose(gp.predict(X), whole.predict(X), rtol=1e-3, atol=1e-3)


@cuts
def test_probabilities_of_batches_are_those_of_one_fit(at):
    X, y = digits(150)
    one, all_of = units(X, at[0])
    options = {"inducing": patches()} | SETTINGS
    gp = PatchGPClassifier(KERNEL, noise_variance=NOISE, **options)
    for part in pieces(150, at):
        gp.partial_fit(X[part], y[part], classes=range(10))
    whole = PatchGPClassifier(KERNEL, noise_variance=NOISE * one / all_of, **options)
    whole.fit(X, y)
    np.testing.assert_allclose(gp.temperature_, whole.temperature_, rtol=1e-3)
    for found, wanted in (
        (gp.predict_proba(X), whole.predict_proba(X)),
        (gp.loo_predict_proba(), whole.loo_predict_proba()),
    ):
        np.testing.assert_allclose(found, wanted, atol=1e-3)
    again = pickle.loads(pickle.dumps(gp)).partial_fit(X[:5], y[:5])
    assert again.fit_report_.n_samples == 155


@pytest.mark.parametrize("at", [[30], [10, 45]], ids=str)
def test_a_reservoir_does_not_depend_on_batches(at, monkeypatch):
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 20)
    X, y = digits(60)
    gp, whole = regressors(X, at[0])
    for part in pieces(60, at):
        gp.partial_fit(X[part], y[part])
    whole.fit(X, y)
    indices = gp._process.left_out.subset[0]
    np.testing.assert_array_equal(indices, whole._process.left_out.subset[0])
    assert len(indices) == 20
    expected, std = whole.loo_predict(return_std=True)
    found, found_std = gp.loo_predict(return_std=True)
    np.testing.assert_allclose(found[indices], expected[indices], rtol=1e-7)
    np.testing.assert_allclose(found_std[indices], std[indices], rtol=1e-6)
    assert np.isfinite(expected).all()
    assert len(gp._process.growth.reservoir.rows.images.rows) == 20
    assert gp._process.left_out.images is None


def test_images_after_a_fit_to_more_than_a_reservoir(monkeypatch):
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 20)
    X, y = digits(70)
    gp, whole = regressors(X, 50)
    gp.fit(X[:50], y[:50])
    assert np.isfinite(gp.loo_predict()).all()
    gp.partial_fit(X[50:], y[50:])
    whole.fit(X, y)
    np.testing.assert_allclose(gp.predict(X), whole.predict(X), rtol=1e-7, atol=1e-8)
    known = np.isfinite(gp.loo_predict())
    assert 20 <= known.sum() <= 40
    assert known[gp._process.left_out.subset[0]].all()


def test_equal_images_of_a_batch_are_drawn_together(monkeypatch):
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 20)
    X, y = digits(60)
    repeats = np.random.default_rng(4).integers(0, 4, 60)
    weighted, repeated = (regressors(X, 30, repeats)[0] for _ in range(2))
    for part in pieces(60, [30]):
        weighted.partial_fit(X[part], y[part], repeats[part])
        own = part.repeat(repeats[part])
        repeated.partial_fit(X[own], y[own])
    np.testing.assert_allclose(
        weighted.predict(X, return_std=True),
        repeated.predict(X, return_std=True),
        rtol=1e-6,
        atol=1e-8,
    )


def test_labels_of_later_calls():
    X, y = digits(80)
    words = np.array(list("abcdefghij"))[y]
    gp = PatchGPClassifier(KERNEL, n_inducing=9, **SETTINGS)
    with pytest.raises(ValueError, match="`classes` must be passed on the first call"):
        gp.partial_fit(X, words)
    first = words[:40] != "j"
    gp.partial_fit(X[:40][first], words[:40][first], classes=list("abcdefghij"))
    assert "j" not in gp.predict(X)
    gp.partial_fit(X[40:], words[40:])
    assert gp.score(X, words) > 0.9
    with pytest.raises(ValueError, match=r"labels that are not in `classes`.*z"):
        gp.partial_fit(X[:2], ["a", "z"])
    with pytest.raises(ValueError, match=r"`classes`=.*not the same"):
        gp.partial_fit(X[:2], ["a", "b"], classes=["a", "b"])


@twice
def test_other_outputs_and_other_images_are_refused_and_change_nothing():
    X, y = digits()
    gp = PatchGPRegressor(KERNEL, n_inducing=9, **SETTINGS).partial_fit(X, y)
    before = gp.predict(X)
    with pytest.raises(ValueError, match=r"y has 2 outputs.*first call it had 1"):
        gp.partial_fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="7"):
        gp.partial_fit(np.zeros((2, 1, 7, 7)), [0.0, 1.0])
    np.testing.assert_array_equal(gp.predict(X), before)


@twice
@pytest.mark.parametrize("cls", [PatchGPClassifier, PatchGPRegressor])
def test_a_first_batch_with_too_few_patches_is_told_once(cls):
    X, y = np.ones((12, 1, 6, 6)), np.arange(12) % 2
    X[:, 0, 0, 0] = y
    classes = {"classes": [0, 1]} if cls is PatchGPClassifier else {}
    gp = cls(KERNEL, n_inducing=30)
    message = r"only 2 of 30 differ \(n_inducing=30\): begin with a larger batch"
    with pytest.warns(UserWarning, match=message) as caught:
        gp.partial_fit(X, y, **classes)
    assert [one.filename for one in caught] == [__file__]
    gp.partial_fit(X, y)
    gp = cls(KERNEL, n_inducing=30).fit(X, y)  # the report is enough
    assert "2 patches: only 2 of 30 differ" in str(gp.fit_report_)
    gp.partial_fit(X, y)
    cls(KERNEL).partial_fit(X, y, **classes)  # "auto" asks for no number


def test_variational_inference_takes_no_further_images():
    X, y = digits()
    gp = PatchGPClassifier(
        KERNEL, n_inducing=5, likelihood="softmax", max_iter=1, **SETTINGS
    )
    assert not hasattr(gp, "partial_fit")
    for settings in ({"likelihood": Softmax()}, {"inference": "variational"}):
        with pytest.raises(AttributeError, match="no attribute 'partial_fit'") as error:
            _ = PatchGPClassifier(KERNEL, **settings).partial_fit
        assert "needs a closed form" in str(error.value.__cause__)
    with pytest.warns(ConvergenceWarning, match="Variational inference ended"):
        gp.fit(X, y)
    with pytest.raises(ValueError, match="needs a closed form"):
        gp.set_params(likelihood="gaussian").partial_fit(X, y)


@twice
def test_a_file_of_skops_keeps_images_and_takes_further_ones(monkeypatch):
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 20)
    X, y = digits(60)
    gp = regressors(X, 60)[0].fit(X, y)
    assert gp._process.left_out.images is not None
    again = skops.io.loads(skops.io.dumps(gp), trusted=SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(again.loo_predict(), gp.loo_predict())
    for one in (gp, again):
        one.partial_fit(X[:20], y[:20])
    np.testing.assert_array_equal(again.predict(X), gp.predict(X))
