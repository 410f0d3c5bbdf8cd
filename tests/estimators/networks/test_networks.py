"""Bayesian networks as estimators."""

import pickle
import re
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from skconvgp import (
    SKOPS_TRUSTED_TYPES,
    BayesianNetworkClassifier,
    BayesianNetworkRegressor,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    gram_matrix,
)
from skconvgp.completion import Nystrom, RandomFeatures
from skconvgp.estimators.networks._network_samples import read_samples
from skconvgp.estimators.networks._network_settings import read_settings
from skconvgp.estimators.settings._compute import Compute
from skconvgp.exceptions import ScaleWarning
from skconvgp.kernels import (
    Dense,
    Erf,
    Flatten,
    PatchKernel,
    Sequential,
    convnet,
    rbf,
)
from skconvgp.likelihoods import Dirichlet
from skconvgp.metrics import gaussian_wasserstein
from tests.helpers.estimators import blobs, digits, wave
from tests.helpers.lines import show_all
from tests.helpers.suite import cases_of, name_of

SMALL = {"max_iter": 50, "n_draws": 3, "random_state": 0}
# "bootstrap" draws noise for each sample, and copies of a sample have more of it.
WEIGHT_CHECKS = "check_sample_weight_equivalence"


def regressor(sizes=(8,), **settings):
    return BayesianNetworkRegressor(sizes, **SMALL | {"noise_variance": 0.1} | settings)


def classifier(sizes=(8,), **settings):
    return BayesianNetworkClassifier(sizes, **SMALL | settings)


CHECKED = [
    regressor(noise_variance="evidence", activation="erf", learning_rate=0.1),
    classifier(learning_rate=0.1),
    # Sums of weighted samples and of copies differ by rounding, which single precision
    # makes larger than what the checks allow, on some processors.
    regressor(inference="ensemble", learning_rate=0.1, dtype="float64"),
]
SUITE_IDS = parametrize_with_checks(CHECKED).mark.kwargs["ids"]
CASES = [
    case
    for case in cases_of(CHECKED)
    if not (
        case.values[0].inference == "bootstrap"
        and name_of(case.values[1]).startswith(WEIGHT_CHECKS)
    )
]


# Some checks have numbers near 100.
@pytest.mark.filterwarnings("ignore:The values of X have a root mean square")
@pytest.mark.parametrize(("estimator", "check"), CASES, ids=SUITE_IDS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_noise_follows_from_the_evidence_of_wide_networks():
    X, y = wave(20)
    model = regressor(noise_variance="evidence", activation="erf", max_iter=1)
    model.fit(X, y)
    layers = Dense(2.0, bias_variance=1.0)
    kernel = Sequential(Flatten(), layers, Erf(), layers)
    assert model.kernel_ == kernel
    scaled = (y - y.mean()) / y.std()
    gp = ConvNetGPRegressor(kernel, noise_variance="evidence", amplitude=None)
    gp.set_params(normalize_y=False).fit(X, scaled)
    np.testing.assert_allclose(
        model.noise_variance_, gp.noise_variance_ * gp.amplitude_
    )


def test_kernels_are_learned_by_the_evidence_or_kept():
    X, y = wave(20)
    kept = regressor(prior=rbf(1.0), optimizer=None, max_iter=1).fit(X, y)
    assert (kept.kernel_, kept.noise_variance_) == (rbf(1.0), 0.1)
    learned = regressor(prior=rbf(1.0), noise_variance="evidence", max_iter=1)
    learned.fit(X, y)
    gp = ConvNetGPRegressor(rbf(1.0), optimizer="evidence", noise_variance="evidence")
    gp.fit(X, y)
    scaled = gp.amplitude_ * gram_matrix(gp.kernel_, X)
    found = y.var() * gram_matrix(learned.kernel_, X)
    np.testing.assert_allclose(found, scaled, rtol=1e-6)
    noise = gp.noise_variance_ * gp.amplitude_ / y.var()
    np.testing.assert_allclose(learned.noise_variance_, noise, rtol=1e-6)


def test_warnings_of_the_evidence_name_their_process():
    X, y = wave(20)
    narrow = rbf(1.0, lengthscale_bounds=(0.99, 1.01))
    model = regressor(prior=narrow, noise_variance="evidence")
    with pytest.warns(ConvergenceWarning, match="at a bound") as caught:
        model.fit(X, y)
    part = f"the ConvNetGPRegressor of {len(X)} samples that chooses the prior of "
    told = [str(one.message) for one in caught if "at a bound" in str(one.message)]
    assert len(told) == 1
    assert told[0].endswith(f"This concerns {part}BayesianNetworkRegressor.")


def test_the_variance_of_a_kernel_can_be_learned_alone():
    X, y = wave(20)
    settings = {"noise_variance": "evidence", "optimizer": "amplitude", "max_iter": 1}
    learned = regressor(prior=rbf(1.0), **settings).fit(X, y)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance="evidence").fit(X, y)
    np.testing.assert_allclose(
        y.var() * gram_matrix(learned.kernel_, X),
        gp.amplitude_ * gram_matrix(rbf(1.0), X),
        rtol=1e-6,
    )
    noise = gp.noise_variance_ * gp.amplitude_ / y.var()
    np.testing.assert_allclose(learned.noise_variance_, noise, rtol=1e-6)
    X, labels = blobs(20)
    model = classifier(prior=rbf(1.0), optimizer="amplitude", max_iter=1)
    gp = ConvNetGPClassifier(rbf(1.0), likelihood="dirichlet").fit(X, labels)
    np.testing.assert_allclose(
        model.fit(X, labels).latent_scale_ ** 2 * gram_matrix(model.kernel_, X),
        gp.amplitude_ * gram_matrix(rbf(1.0), X),
        rtol=1e-6,
    )


# All samples as landmarks: products of features are the kernel.
ALL = {"batch_size": 3, "features": Nystrom(n_landmarks=6, check_fraction=0.0)}


@pytest.mark.parametrize("batches", [{}, ALL], ids=["all", "batches"])
def test_a_wide_network_with_a_kernel_prior_resembles_the_gaussian_process(batches):
    X = np.linspace(-2.5, 2.5, 6)[:, None]
    y = np.cos(2.0 * X[:, 0])
    kernel, noise, added, n_draws = rbf(1.0), 0.05, 0.02, 200
    model = regressor(
        (50,),
        prior=kernel,
        optimizer=None,
        noise_variance=noise,
        function_noise=added,
        extra_points=0.0,
        weight_variance=10.0,
        n_draws=n_draws,
        max_iter=300,
        learning_rate=0.1,
        **batches,
    ).fit(X, y)
    C = gram_matrix(kernel, X) + added * np.eye(6)
    gain = C @ np.linalg.inv(C + noise * np.eye(6))
    expected = y.mean() + gain @ (y - y.mean())
    std = np.sqrt(np.diag(C - gain @ C)) * y.std()
    mean, found = model.predict(X, return_std=True)
    # Training ends near the minimum, and not at it: hence more than errors of draws.
    assert np.abs((mean - expected) / std).max() < 4.0 / np.sqrt(n_draws)
    np.testing.assert_allclose(found, std, rtol=0.2)


def test_draws_are_functions():
    X, y = wave(12)
    both = np.column_stack([y, -2.0 * y])
    model = regressor().fit(X, both)
    draws = model.sample_y(X)
    assert draws.shape == (12, 2, 3)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(draws.mean(-1), mean)
    np.testing.assert_allclose(draws.std(-1, ddof=1), std)
    np.testing.assert_allclose(model.sample_y(X[3:5]), draws[3:5])
    some = model.sample_y(X, 2, random_state=1)
    assert some.shape == (12, 2, 2)
    is_among = (some[..., None] == draws[:, :, None]).all((0, 1))
    assert is_among.sum(1).tolist() == [1, 1]
    noisy = model.predict_latent(X, return_std=True, noise=True)[1]
    np.testing.assert_allclose(noisy**2 - std**2, [0.1 * both.var(0)] * 12)
    with pytest.raises(ValueError, match=r"`n_samples`=4.*3 draws"):
        model.sample_y(X, 4)


def test_probabilities_are_means_over_draws():
    X, labels = blobs(15)
    model = classifier().fit(X, labels)
    latents = model.sample_y(X)
    weights = np.exp(latents)
    expected = (weights / weights.sum(1, keepdims=True)).mean(-1)
    np.testing.assert_allclose(model.predict_proba(X), expected)
    mean, std = model.predict_latent(X, return_std=True)
    np.testing.assert_allclose(mean, latents.mean(-1))
    np.testing.assert_allclose(std, latents.std(-1, ddof=1))


@pytest.mark.parametrize(
    "settings",
    [
        {"likelihood": "softmax", "inference": "ensemble"},
        {"likelihood": Dirichlet(0.1), "prior": rbf(1.0), "optimizer": None},
        {"prior": rbf(1.0)},
        {"early_stopping": True, "max_iter": 200},
        {"batch_size": 8},
        {"batch_size": 8, "prior": rbf(1.0), "features": RandomFeatures(50)},
        {
            "batch_size": 8,
            "prior": rbf(1.0),
            "optimizer": "amplitude",
            "inference": "ensemble",
            "early_stopping": True,
        },
    ],
    ids=str,
)
def test_classifiers_learn_clouds(settings):
    X, labels = blobs(30)
    model = classifier(**{"learning_rate": 0.05} | settings).fit(X, labels)
    assert model.score(X, labels) > 0.7
    assert model.loss_curve_[-1] < model.loss_curve_[0]


def test_the_noise_of_a_sample_is_divided_by_its_weight():
    X, y = wave(12)
    weights = np.where(np.arange(12) == 5, 1e4, 1.0)
    model = regressor(
        inference="ensemble", max_iter=400, learning_rate=0.05, normalize_y=False
    )
    y = y - y.mean() + 2.0 * (np.arange(12) == 5)
    assert abs(model.fit(X, y).predict(X)[5] - y[5]) > 0.3
    assert abs(model.fit(X, y, weights).predict(X)[5] - y[5]) < 0.05


def test_samples_of_small_weight_do_not_change_the_noise():
    X, y = wave(20)
    weights = np.where(np.arange(20) % 10 == 0, 1e-6, 1.0)
    model = regressor(noise_variance="evidence", activation="erf", max_iter=1)
    model.set_params(normalize_y=False)
    clean = model.fit(X, y, weights * (weights == 1.0)).noise_variance_
    spoilt = np.where(weights == 1.0, y, 20.0)
    found = model.fit(X, spoilt, weights).noise_variance_
    np.testing.assert_allclose(found, clean, rtol=0.1)


def test_kernels_are_not_learned_from_weights():
    X, y = wave(12)
    weights = np.where(np.arange(12) == 5, 0.5, 1.0)
    with pytest.raises(ValueError, match="no sample weights other than 0 and 1"):
        regressor(prior=rbf(1.0)).fit(X, y, weights)
    X, labels = blobs(15)
    with pytest.raises(ValueError, match="no sample weights other than 0 and 1"):
        classifier(prior=rbf(1.0)).fit(X, labels, np.linspace(0.5, 1.0, len(X)))


def test_a_class_alone_is_an_error():
    X, labels = blobs(6)
    weights = (labels == labels[0]).astype(float)
    with pytest.raises(ValueError, match="y must have at least two classes, got one"):
        classifier().fit(X, labels, weights)


def tiny_convnet():
    layers = nn.Conv2d(1, 2, 3, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(18, 3)
    return nn.Sequential(*layers)


def test_modules_and_convolutional_priors_read_images():
    X, labels = digits(20)
    labels = labels % 3
    model = classifier(
        network=tiny_convnet, prior=convnet(depth=1, kernel_size=3), optimizer=None
    ).fit(X, labels)
    assert model.draws_["0.weight"].shape == (3, 2, 1, 3, 3)
    assert model.fit_report_.n_points == 22
    rows = X.reshape(20, -1)
    np.testing.assert_allclose(model.predict_proba(rows), model.predict_proba(X))
    # One draw by hand.
    module = tiny_convnet().double()
    scales = {"0.weight": 2.0 / 9.0, "3.weight": 2.0 / 18.0}
    with torch.no_grad():
        for name, values in module.named_parameters():
            scale = np.sqrt(scales.get(name, 1.0))
            values.copy_(torch.from_numpy(model.draws_[name][1] * scale))
        outputs = module(torch.from_numpy(X)).numpy()
    expected = model.latent_offset_ + model.latent_scale_ * outputs
    np.testing.assert_allclose(model.sample_y(X)[..., 1], expected)


def test_models_are_the_same_by_random_state_and_after_pickle():
    X, y = wave(12)
    model = regressor(prior=rbf(1.0), optimizer=None).fit(X, y)
    again = clone(model).fit(X, y)
    loaded = pickle.loads(pickle.dumps(model))
    for other in (again, loaded):
        np.testing.assert_array_equal(model.predict(X), other.predict(X))
    assert not np.array_equal(
        clone(model).set_params(random_state=1).fit(X, y).predict(X), model.predict(X)
    )


def test_skops_loads_models():
    skops = pytest.importorskip("skops.io")
    X, y = wave(12)
    model = regressor().fit(X, y)
    loaded = skops.loads(skops.dumps(model), trusted=SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(model.predict(X), loaded.predict(X))


def test_draws_that_diverge_are_left_out():
    X, y = wave(12)
    with pytest.raises(FloatingPointError, match=r"All 3 draws.*`learning_rate`"):
        regressor(learning_rate=1e200).fit(X, y)


class Fragile(nn.Module):
    """A line with a number that makes it infinite where it is negative."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(1.0))
        self.line = nn.Linear(1, 1)

    def forward(self, rows):
        return self.line(rows) * torch.where(self.slope < 0.0, torch.inf, 1.0)


def test_one_draw_that_diverges_is_left_out_with_a_warning():
    X, y = wave(12)
    settings = {"network": Fragile, "noise_variance": 0.1, "n_draws": 8}
    with pytest.warns(ConvergenceWarning, match="diverged in training and are left"):
        model = regressor(**settings).fit(X, y)
    n_diverged = model.fit_report_.n_diverged
    assert 0 < n_diverged < 8
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    n_left = 8 - n_diverged
    assert model.sample_y(X, n_left, random_state=0).shape == (12, n_left)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inference": "laplace"}, "'ensemble', 'bootstrap' or 'sghmc'"),
        ({"thin": 3}, "an int >= 4"),
        ({"inference": "sghmc", "early_stopping": True}, "no best step"),
        ({"prior": "matched"}, "a kernel of .* with prior='matched'"),
        ({"kernel": rbf(1.0)}, "None unless prior='matched'"),
        ({"hidden_layer_sizes": (3, 0)}, "tuple of ints"),
        ({"noise_variance": 0.0}, "'evidence' or a finite number > 0"),
        ({"optimizer": "loo"}, "None, 'amplitude' or 'evidence'"),
        ({"features": 1}, "an int >= 2, RandomFeatures or Nystrom"),
        ({"network": 3}, "None or a callable"),
        ({"network": nn.Linear(1, 1)}, r"not the module, but `lambda: module`"),
        ({"network": nn.Linear}, "a callable without arguments"),
        ({"network": nn.Identity, "noise_variance": "evidence"}, "a number"),
        ({"device": "tpu"}, "'device' parameter of BayesianNetworkRegressor"),
        ({"network": lambda: nn.LSTM(16, 1)}, "returns a tuple, and must return a"),
        ({"network": nn.Identity}, r"must return 1 numbers.*\(2, 16\)"),
        ({"network": lambda: nn.Linear(3, 1)}, r"shape \(2, 16\).*image_shape=None"),
        ({"network": lambda: nn.BatchNorm1d(16)}, "buffers"),
        ({"network": lambda: nn.AvgPool1d(16)}, "a module with parameters"),
        ({"early_stopping": True, "validation_fraction": 0.99}, "leaves none"),
    ],
)
def test_wrong_settings_are_errors(settings, message):
    X = np.random.default_rng(0).normal(size=(5, 16))
    model = regressor(image_shape=None).set_params(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X, X[:, 0])


def test_batches_need_a_kernel_with_features(monkeypatch):
    def search(*_):
        raise AssertionError("searched before the kernel was refused")

    monkeypatch.setattr(ConvNetGPRegressor, "fit", search)
    X, y = wave(8)
    kernel = PatchKernel(patch_size=1)
    for optimizer in (None, "evidence"):
        model = regressor(prior=kernel, optimizer=optimizer, batch_size=4)
        with pytest.raises(TypeError, match="has no random features"):
            model.fit(X, y)


def test_a_bootstrap_needs_targets():
    with pytest.raises(ValueError, match=r"'inference'.*no targets that noise"):
        classifier(likelihood="softmax").fit(*blobs(6))
    with pytest.raises(ValueError, match=r"`alpha_eps` is a number"):
        classifier(likelihood=Dirichlet("loo")).fit(*blobs(6))


def test_flat_images_are_matched_to_a_kernel_for_images():
    X, labels = digits(12)
    kernel = convnet(depth=1, kernel_size=3)
    model = classifier(prior="matched", kernel=kernel)
    with pytest.warns(UserWarning, match="image_shape"):
        samples = read_samples(
            model, X.reshape(12, -1), labels, None, read_settings(Compute.of(model))
        )
    assert samples.image_shape == (1, 8, 8)


def test_layers_are_matched_to_a_kernel():
    X, y = wave(12)
    settings = {"activation": "erf", "optimizer": None, "max_iter": 1}
    layers = [Dense(3.0, bias_variance=0.5), Erf(), Dense(1.5, bias_variance=0.2)]
    target = Sequential(Flatten(), *layers)
    # A rate so small that draws stay where they begin, which is in the prior.
    prior = regressor(
        (100,),
        prior="matched",
        kernel=target,
        n_draws=500,
        inference="ensemble",
        learning_rate=1e-9,
        normalize_y=False,
        **settings,
    ).fit(X, y)
    assert prior.fit_report_.distance < 1e-5
    gram = gram_matrix(target, X)
    np.testing.assert_allclose(gram_matrix(prior.kernel_, X), gram, rtol=0.02)
    np.testing.assert_allclose(prior.sample_y(X).var(-1), np.diag(gram), rtol=0.3)


def test_matched_layers_are_nearer_to_a_kernel():
    X, y = wave(12)
    distances = []
    for given in ({"prior": "weights"}, {"prior": "matched", "kernel": rbf(1.0)}):
        model = regressor(activation="erf", optimizer=None, max_iter=1, **given)
        gram = gram_matrix(model.fit(X, y).kernel_, X)
        distances.append(gaussian_wasserstein(gram, gram_matrix(rbf(1.0), X)))
    assert distances[1] < 0.8 * distances[0]


def test_layers_that_cannot_resemble_a_kernel_warn():
    X, y = wave(12)
    settings = {"activation": "erf", "optimizer": None, "max_iter": 1}
    model = regressor(prior="matched", kernel=1e6 * rbf(1.0), **settings)
    with pytest.warns(ConvergenceWarning, match=r"value, 1e\+04: .*kernel, 1e\+06 in"):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.set_params(kernel=rbf(1.0)).fit(X, y)


@pytest.mark.parametrize(
    ("scale", "message"), [(1e3, "too large for the prior"), (1e-3, "hardly depend on")]
)
def test_samples_far_from_one_warn(scale, message):
    X, y = wave(12)
    model = regressor(max_iter=1, noise_variance=0.1)
    with pytest.warns(ScaleWarning, match=f"root mean square of .*{message}"):
        model.fit(scale * X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
        model.fit(0.0 * X, y)


def test_chains_are_compared():
    X, y = wave(12)
    chains = {"inference": "sghmc", "n_chains": 2, "n_draws": 3, "learning_rate": 0.2}
    model = regressor(burn_in=300, thin=200, normalize_y=False, **chains)
    model.fit(X, y - y.mean())
    assert model.draws_["weight0"].shape == (4, 1, 8)
    assert model.rhat_.shape == (12, 1)
    assert len(model.loss_curve_) == model.n_iter_ == 700
    model.set_params(burn_in=1, thin=4, learning_rate=1e-3)
    with pytest.warns(ConvergenceWarning, match=r"R-hat of a prediction is [\d.]+, "):
        model.fit(X, y)
    assert not hasattr(model.set_params(inference="ensemble").fit(X, y), "rhat_")


def test_chains_may_stop_before_they_can_be_compared(monkeypatch):
    monkeypatch.setattr("skconvgp.estimators._callbacks.FitTasks.step", lambda *_: True)
    model = regressor(inference="sghmc", n_chains=2).fit(*wave(12))
    assert model.fit_report_.is_stopped
    assert not hasattr(model, "rhat_")
    assert len(model.draws_["weight0"]) == 2


@pytest.mark.parametrize("inference", ["ensemble", "bootstrap"])
def test_callbacks_may_stop_a_training(inference, monkeypatch):
    monkeypatch.setattr("skconvgp.estimators._callbacks.FitTasks.step", lambda *_: True)
    model = regressor(inference=inference).fit(*wave(12))
    assert model.fit_report_.is_stopped
    assert model.n_iter_ == len(model.loss_curve_) == 1
    assert np.isfinite(model.predict(wave(12)[0])).all()


@pytest.mark.filterwarnings("ignore:The chains disagree")
@pytest.mark.parametrize(
    ("inference", "unit"),
    [("ensemble", "epochs"), ("bootstrap", "epochs"), ("sghmc", "steps")],
)
def test_progress_is_shown(inference, unit, capsys, monkeypatch):
    show_all(monkeypatch)
    settings = {"n_chains": 1, "burn_in": 2, "thin": 4, "max_iter": 2}
    regressor(inference=inference, verbose=1, **settings).fit(*wave(12))
    shown = capsys.readouterr().err
    assert re.search(rf"networks, \d+ of \d+ {unit}", shown)
    assert shown.count("fit: 100%") == 1


@pytest.mark.filterwarnings("ignore:The chains disagree")
def test_chains_learn_by_the_cross_entropy():
    X, labels = blobs(15)
    model = classifier(
        likelihood="softmax",
        inference="sghmc",
        n_chains=2,
        burn_in=200,
        thin=20,
        learning_rate=0.1,
    )
    assert model.fit(X, labels).score(X, labels) > 0.7


def test_deviations_need_two_draws():
    X, y = wave(12)
    model = regressor(n_draws=1).fit(X, y)
    with pytest.raises(ValueError, match="two draws or more"):
        model.predict(X, return_std=True)
