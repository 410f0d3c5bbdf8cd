"""Models for prediction: what they predict, and what they do not keep."""

import io
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_regressor

import skconvgp as sk
from skconvgp import SKOPS_TRUSTED_TYPES, kernels
from skconvgp.estimators._dictionary import Dictionary
from skconvgp.image_maps import ScatteredFit, Scattering
from tests.helpers.public import CASES, CLASSES, PATCHES, Case, assert_near, offers

sio = pytest.importorskip("skops.io")

# Classes whose model for prediction keeps no training image. Others compare new samples
# with training samples, or are none (networks, transformers).
HAVE = {"PatchGPClassifier", "PatchGPRegressor", "ImageClassifier", "ImageRegressor"}
# What a refusal says: what is missing, and where to find it.
REFUSAL = "keeps what latent means need, and not .*: use the estimator that it was"
INDUCING = {"n_inducing": 8, "random_state": 0}
TWO_TERMS = PATCHES + kernels.FlipAverage(kernels.PatchKernel(patch_size=2))
CLASSIFIERS = [
    sk.PatchGPClassifier(PATCHES, **INDUCING),
    sk.PatchGPClassifier(PATCHES, likelihood="dirichlet", **INDUCING),
    sk.PatchGPClassifier(TWO_TERMS, dtype="float64", **INDUCING),
    sk.ImageClassifier("patches", random_state=0),
    sk.ImageClassifier([PATCHES, kernels.PatchKernel(patch_size=2)], random_state=0),
    sk.ImageClassifier([PATCHES], flips=True, n_landmarks=16, random_state=0),
]
REGRESSORS = [
    sk.PatchGPRegressor(PATCHES, **INDUCING),
    sk.ImageRegressor("patches", flips=False, random_state=0),
]
SMALL = [Case(one) for one in CLASSIFIERS + REGRESSORS]
small = pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)


class Arrays(pickle.Pickler):
    """Collects the arrays that an object is pickled with."""

    def __init__(self):
        super().__init__(io.BytesIO(), protocol=5)
        self.found = []

    def reducer_override(self, held):
        if isinstance(held, np.ndarray):
            self.found.append(held)
        return NotImplemented


def arrays_of(fitted):
    pickler = Arrays()
    pickler.dump(fitted)
    return pickler.found


def shows_an_image(array, images):
    """Return whether rows of an array are images, up to rounding."""
    size = images[0].size
    if array.dtype.kind != "f" or array.size % size or not array.size:
        return False
    rows, flat = array.reshape(-1, size), images.reshape(len(images), -1)
    distances = np.abs(rows[:, None] - flat).max(2)
    return bool((distances < 1e-3).any())


@pytest.mark.parametrize("case", CLASSES, ids=lambda case: case.name)
def test_classes_that_have_a_model_for_prediction(case):
    assert offers(case.estimator, "for_prediction") == (
        type(case.estimator).__name__ in HAVE
    )


@small
def test_models_predict_the_same(case):
    whole = case.fit()
    new = case.data()[2]
    model = whole.for_prediction()
    assert type(model) is type(whole)
    assert model.get_params() == whole.get_params()
    np.testing.assert_array_equal(model.predict(new), whole.predict(new))
    # These come from the features themselves.
    means = whole.predict_latent(new, return_std=True)[0]
    size = means.std(0).max()
    np.testing.assert_allclose(model.predict_latent(new), means, atol=1e-3 * size)
    if not is_regressor(whole):
        sums = model.predict_proba(new).sum(1)
        np.testing.assert_allclose(sums, 1.0, rtol=1e-9)
        # Calibrated anew, with a few samples and no deviations.
        many = np.concatenate([new, case.data()[0]])
        change = model.predict_proba(many) - whole.predict_proba(many)
        assert np.abs(change).mean() < 0.05
        np.testing.assert_array_equal(model.classes_, whole.classes_)
    assert model.fit_report_ is whole.fit_report_


@small
def test_models_keep_no_samples(case):
    X, _, _ = case.data()
    whole = case.fit()
    model = whole.for_prediction()
    held = arrays_of(model)
    assert not [one for one in held if shows_an_image(one, X)]
    # The whole model has targets at least.
    assert not [one for one in held if one.shape[:1] == (len(X),)]
    assert [one for one in arrays_of(whole) if one.shape[:1] == (len(X),)]
    assert len(pickle.dumps(model)) < len(pickle.dumps(whole))


def test_images_in_a_model_are_found():
    X, y, _ = SMALL[3].data()
    whole = sk.ImageClassifier([kernels.rbf(1.0)]).fit(X, y)
    assert [one for one in arrays_of(whole) if shows_an_image(one, X)]


@small
def test_models_survive_files_and_clones(case):
    new, model = case.data()[2], case.fit().for_prediction()
    expected = model.predict_latent(new)
    read = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(read.predict_latent(new), expected)
    trusted = sio.loads(sio.dumps(model), trusted=SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(trusted.predict_latent(new), expected)
    again = model.for_prediction()
    np.testing.assert_array_equal(again.predict_latent(new), expected)
    assert not clone(model).__sklearn_is_fitted__()


@small
def test_a_model_of_a_model_fits_again(case):
    X, y, new = case.data()
    whole = case.fit()
    model = whole.for_prediction()
    np.testing.assert_array_equal(model.fit(X, y).predict(new), whole.predict(new))
    model.predict_latent(new, return_std=True)


REFUSED = {
    "deviations": lambda e, X, y: e.predict_latent(X, return_std=True),
    "covariances": lambda e, X, y: e.predict_latent(X, return_cov=True),
    "joint draws": lambda e, X, y: e.sample_y(X),
    "draws of functions": lambda e, X, y: e.sample_y(X, method="pathwise"),
    "left-out predictions": lambda e, X, y: e.loo_predict(),
    "derivatives": lambda e, X, y: e.latent_gradient(X),
}


@small
@pytest.mark.parametrize("name", REFUSED)
def test_models_say_what_they_do_not_keep(case, name):
    model, (X, y, _) = case.fit().for_prediction(), case.data()
    with pytest.raises(ValueError, match=REFUSAL):
        REFUSED[name](model, X[:3], y[:3])
    for attribute in ("dual_coef_", "solver_state_"):
        with pytest.raises(AttributeError, match=REFUSAL):
            getattr(model, attribute)


@pytest.mark.parametrize("case", [SMALL[0], SMALL[6]], ids=lambda case: case.name)
def test_models_take_no_further_samples(case):
    model, (X, y, _) = case.fit().for_prediction(), case.data()
    with pytest.raises(ValueError, match=REFUSAL):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="not a bound of the evidence"):
        model.elbo()
    model.log_marginal_likelihood()


def test_models_of_images_take_no_further_samples():
    model = SMALL[5].fit().for_prediction()
    assert not offers(model, "partial_fit")
    assert not hasattr(model, "landmark_indices_")
    assert model.X_train_ is None


@pytest.mark.parametrize(
    "estimator",
    [
        sk.PatchGPClassifier(PATCHES, likelihood="softmax", **INDUCING),
        sk.PatchGPClassifier(PATCHES, likelihood="beta", **INDUCING),
    ],
    ids=repr,
)
def test_likelihoods_that_need_deviations_are_refused(estimator):
    X, y, _ = Case(estimator, n_classes=2).data()
    fitted = estimator.fit(X, y)
    with pytest.raises(ValueError, match="likelihood='gaussian' or 'dirichlet'"):
        fitted.for_prediction()


def test_the_remedy_for_parts_that_compare_images_is_one():
    named = [
        sk.ImagePart("near", None, kernels.rbf(3.0)),
        sk.ImagePart("patches", None, PATCHES),
    ]
    X, y, new = SMALL[4].data()
    fitted = sk.ImageClassifier(named, part_weights=[0.5, 0.5], random_state=0)
    with pytest.raises(ValueError, match=r"part_weights=\{'near': 0\}"):
        fitted.fit(X, y).for_prediction()
    fitted = fitted.set_params(part_weights={"near": 0}).fit(X, y)
    fitted.for_prediction().predict(new)


def test_inducing_images_are_refused():
    X, y, _ = SMALL[0].data()
    whole = PATCHES + kernels.rbf(2.0)
    fitted = sk.PatchGPClassifier(whole, **INDUCING).fit(X, y)
    with pytest.raises(ValueError, match="as large as images"):
        fitted.for_prediction()


@pytest.mark.parametrize("case", SMALL[6:], ids=lambda case: case.name)
def test_intervals_are_equally_wide_and_cover_left_out_targets(case):
    X, y, _ = case.data()
    whole = case.fit()
    model = whole.for_prediction()
    widths = np.ptp(model.predict_interval(X, 0.8), axis=1)
    np.testing.assert_allclose(widths, widths[0], rtol=1e-6)
    errors = np.abs(whole.loo_predict() - y)
    assert 0.8 * len(y) <= (errors <= widths[0] / 2 * (1 + 1e-9)).sum() <= 0.9 * len(y)


@small
def test_models_on_one_and_two_threads_agree(case):
    new, model = case.data()[2], case.fit().for_prediction()
    before, found = torch.get_num_threads(), []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            found.append({"means": [model.predict_latent(new)]})
    finally:
        torch.set_num_threads(before)
    assert_near(*found, rtol=1e-5)


def test_views_show_the_same_without_what_they_do_not_need():
    images = torch.rand(40, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    view, shown = ScatteredFit(Scattering(2, 4, order=2))(images)
    light = view.for_prediction()
    torch.testing.assert_close(light(images), shown, rtol=0.0, atol=1e-5)
    assert len(pickle.dumps(light)) < 0.6 * len(pickle.dumps(view))


# Of those with parts by default, images decide.
WITH_MODEL = [
    case
    for case in CASES
    if offers(case.estimator, "for_prediction")
    and case.name != "ImageClassifier(random_state=0)"
]


@pytest.mark.parametrize("case", WITH_MODEL, ids=lambda case: case.name)
def test_every_case_has_a_model_or_says_why(case):
    fitted, new = case.fit(), case.data()[2]
    try:
        model = fitted.for_prediction()
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
        np.testing.assert_array_equal(model.predict(new), fitted.predict(new))
    needs = "Softmax" in case.name or "RobustMax" in case.name
    needs = needs or "Bernoulli" in case.name or "Image" in case.name
    assert bool(refusal) == needs
    assert "keep" in refusal or not needs


@pytest.mark.slow
def test_a_model_of_photographs_has_ten_megabytes():
    """Try all parts of the dictionary that do not compare images, in ten classes."""
    rng = np.random.default_rng(0)
    coarse = rng.random((120, 3, 8, 8))
    X = np.kron(coarse, np.ones((1, 1, 4, 4))).astype(np.float32)
    X += 0.3 * rng.random(X.shape, dtype=np.float32)
    y = np.arange(len(X)) % 10
    comparing = {"network on pixels": 0, "network on scattering, J=2": 0}
    names = [part.name for part in Dictionary((3, 32, 32), 100).parts()]
    used = [name for name in names if name not in comparing]
    equal = dict.fromkeys(used, 1.0 / len(used)) | comparing
    gp = sk.ImageClassifier(part_weights=equal, flips=True, random_state=0)
    model = gp.fit(X, y).for_prediction()
    assert len(model.parts_) == len(used) >= 8
    assert len(pickle.dumps(model)) < 10e6
