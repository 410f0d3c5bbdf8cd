"""What Bayesian networks choose by themselves: batches, noise, calibration."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from torch import nn

from skconvgp import BayesianNetworkClassifier, BayesianNetworkRegressor
from skconvgp.engine import rows_to_tensor
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._training import hold_out
from skconvgp.estimators.networks._network_calibration import (
    calibrated_noise,
    calibrated_temperature,
    mean_log_proba,
)
from skconvgp.estimators.networks._network_settings import (
    effective_number,
    read_settings,
)
from skconvgp.estimators.networks._network_training import NetworkTraining
from skconvgp.estimators.settings._compute import Compute
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import rbf
from skconvgp.likelihoods import Calibration
from skconvgp.networks import LayeredNetwork
from tests.helpers.estimators import all_digits, blobs, wave
from tests.helpers.recorder import Recorder

FEW = {"n_draws": 3, "random_state": 0}


def shuffled_digits():
    """Return rows near 1 of all digits, whose writers come in any order."""
    images, labels = all_digits()
    order = np.random.default_rng(0).permutation(len(labels))
    return 2.5 * (images.reshape(len(images), -1) - 0.3)[order], labels[order]


class Stopping:
    """Epochs that a fit is told of, and stops at from one on, like a limit of time."""

    def __init__(self, monkeypatch, first=10**9):
        self.names, self.first = [], first
        step = "skconvgp.estimators._callbacks.FitTasks.step"
        monkeypatch.setattr(step, lambda _, name: self(name))

    def __call__(self, name):
        self.names.append(name)
        return len(self.names) >= self.first


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("settings", "n", "batch_size", "max_iter"),
    [
        ({}, 50, 64, 1500),  # all samples
        ({}, 1000, 64, 188),  # 16 batches
        ({}, 5000, 100, 60),  # 50 batches
        ({}, 60_000, 128, 60),
        ({"batch_size": None}, 60_000, None, 1500),
        ({"batch_size": 100}, 1000, 100, 300),
        ({"max_iter": 7}, 1000, 64, 7),
        ({"prior": rbf()}, 4545, None, 1500),  # with a tenth of further points 5000
        ({"prior": rbf()}, 4546, 512, 300),  # 10 batches
        ({"inference": "sghmc"}, 5001, 512, 300),
    ],
)
def test_batches_and_epochs_follow_from_the_number_of_samples(
    settings, n, batch_size, max_iter
):
    model = BayesianNetworkRegressor(**settings)
    found = read_settings(Compute.of(model)).for_samples(np.ones(n), 20)
    schedule = found.schedule
    assert (schedule.batch_size, schedule.max_iter) == (batch_size, max_iter)
    if found.sampling is not None:
        assert found.sampling.batch_size == batch_size


@pytest.mark.parametrize(
    ("settings", "rate"),
    [
        ({}, 0.03),
        ({"prior": rbf()}, 0.03),
        ({"inference": "sghmc"}, 0.01),
        ({"inference": "sghmc", "learning_rate": 2}, 2.0),
    ],
)
def test_the_usual_rate_is_that_of_trainings_or_of_chains(settings, rate):
    found = read_settings(Compute.of(BayesianNetworkRegressor(**settings)))
    assert found.schedule.learning_rate == rate
    if found.sampling is not None:
        assert found.sampling.step_size == rate


def test_held_out_samples_leave_one_of_each_class():
    codes = np.array([0] * 50 + [1] * 3 + [2])
    for seed in range(20):
        learned, held_out = hold_out(len(codes), 0.9, generator(seed), codes)
        assert np.unique(codes[learned]).tolist() == [0, 1, 2]
        both = np.sort(np.concatenate([learned, held_out]))
        np.testing.assert_array_equal(both, np.arange(len(codes)))
        assert len(held_out) == 49
    alone, none = hold_out(3, 0.4, generator(), np.arange(3))
    assert (len(alone), len(none)) == (3, 0)


def test_the_noise_of_held_out_samples_is_found():
    rng = np.random.default_rng(0)
    n, spread, noise = 4000, 0.5, 2.0
    truth = rng.normal(size=(n, 2))
    weights = rng.uniform(0.5, 2.0, n)
    outputs = truth + np.sqrt(spread) * rng.normal(size=(50, n, 2))
    deviation = np.sqrt(spread + noise)
    targets = outputs.mean(axis=0) + deviation * rng.normal(size=(n, 2))
    found = calibrated_noise(outputs, targets, weights, 0.1)
    assert found == pytest.approx(noise, rel=0.06)
    # The most probable one, with a prior that is worth one sample.
    variances = outputs.var(axis=0, ddof=1)

    def density(value):
        scale = np.sqrt(variances + value)
        shares = (weights / weights.mean())[:, None]
        data = (shares * norm.logpdf(targets, outputs.mean(axis=0), scale)).sum()
        return data + norm.logpdf(np.log(value / 0.1))

    assert density(found) > max(density(0.999 * found), density(1.001 * found))
    # Samples count by their weights, whatever the unit of these.
    repeated = np.arange(n) % 2 == 0
    twice = np.concatenate([np.arange(n), np.flatnonzero(repeated)])
    whole = calibrated_noise(
        outputs[:, twice], targets[twice], np.ones(len(twice)), 0.1
    )
    weighted = calibrated_noise(outputs, targets, 30.0 * (1.0 + repeated), 0.1)
    assert weighted == pytest.approx(whole, rel=1e-3)


def test_a_noise_without_any_error_stays_positive():
    outputs = np.zeros((2, 30, 1))
    found = calibrated_noise(outputs, np.zeros((30, 1)), np.ones(30), 0.1)
    assert 0.0 < found < 1e-3


def fast_sine(n=500):
    """Return points of a sine that wide networks take for noise, and its deviation."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.7, 1.7, (n, 1))
    return X, np.sin(5.0 * X[:, 0]) + 0.1 * rng.normal(size=n)


@pytest.mark.slow
def test_networks_find_a_noise_that_wide_ones_overestimate():
    X, y = fast_sine()
    usual = {"bias_variance": 2.0, "learning_rate": 0.05, "max_iter": 200, **FEW}
    by_evidence, by_held_out = (
        BayesianNetworkRegressor((30,), noise_variance=word, **usual).fit(X, y)
        for word in ("evidence", "auto")
    )
    true = (0.1 / y.std()) ** 2
    assert by_evidence.noise_variance_ > 4.0 * true
    assert true < by_held_out.noise_variance_ < by_evidence.noise_variance_ / 2.0
    # All samples are learned then, with this noise.
    given = BayesianNetworkRegressor(
        (30,), noise_variance=by_held_out.noise_variance_, **usual
    ).fit(X, y)
    np.testing.assert_allclose(given.predict(X), by_held_out.predict(X), rtol=1e-5)
    _, std = given.predict_latent(X, return_std=True, noise=True)
    assert std.min() ** 2 >= given.noise_variance_ * y.var()


def test_a_kernel_that_is_learned_has_the_noise_of_the_evidence():
    X, y = fast_sine()
    usual = {"prior": "matched", "kernel": rbf(0.5), "max_iter": 2, **FEW}
    model = BayesianNetworkRegressor((5,), activation="erf", **usual).fit(X, y)
    assert model.noise_variance_ == pytest.approx((0.1 / y.std()) ** 2, rel=0.2)


def test_few_samples_have_the_noise_of_the_evidence():
    X, y = wave(499)  # of which a tenth is less than 50
    fits = [
        BayesianNetworkRegressor((3,), noise_variance=word, max_iter=2, **FEW).fit(X, y)
        for word in ("evidence", "auto")
    ]
    assert fits[0].noise_variance_ == fits[1].noise_variance_


@pytest.mark.slow
def test_modules_need_no_noise_if_samples_can_be_held_out():
    def line():
        return nn.Linear(1, 1)

    X, y = wave(500)
    model = BayesianNetworkRegressor(network=line, image_shape=None, **FEW)
    found = model.fit(X, y).noise_variance_
    residuals = y - np.polyval(np.polyfit(X[:, 0], y, 1), X[:, 0])
    assert found == pytest.approx(residuals.var() / y.var(), rel=0.5)
    with pytest.raises(ValueError, match="samples of which 50 can be held out"):
        model.fit(X[:100], y[:100])


def test_probabilities_are_calibrated_and_all_samples_are_learned():
    X, labels = shuffled_digits()
    train, test = slice(0, 600), slice(600, None)
    usual = {"max_iter": 100, **FEW}
    calibrated, plain = (
        BayesianNetworkClassifier((50,), calibrate=word, **usual).fit(
            X[train], labels[train]
        )
        for word in ("auto", False)
    )
    assert plain.calibration_ == Calibration()
    losses = [
        log_loss(labels[test], model.predict_proba(X[test]))
        for model in (calibrated, plain)
    ]
    assert losses[0] < 0.8 * losses[1]
    # The order of the classes is that of the mean over draws of the probabilities.
    draws = softmax(calibrated.sample_y(X[test]), axis=1).mean(axis=2)
    np.testing.assert_array_equal(draws.argmax(1), calibrated.predict(X[test]))
    # All samples are learned then.
    np.testing.assert_array_equal(plain.loss_curve_, calibrated.loss_curve_)


def noisy_classes(n, seed):
    """Return points of two classes, and labels of which a fifth is wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, (X[:, 0] > 0.0) ^ (rng.random(n) < 0.2)


@pytest.mark.slow
def test_few_held_out_labels_do_not_make_probabilities_certain():
    excess = []
    for seed in range(4):
        X, labels = noisy_classes(200, seed)
        X_test, y_test = noisy_classes(2000, 100 + seed)
        usual = {"n_draws": 3, "max_iter": 200, "random_state": seed}
        model = BayesianNetworkClassifier((50,), **usual).fit(X, labels)
        assert model.calibration_ != Calibration()
        draws = softmax(model.sample_y(X_test), axis=1).mean(axis=2)
        calibrated = log_loss(y_test, model.predict_proba(X_test))
        excess.append(calibrated - log_loss(y_test, draws))
    assert np.mean(excess) < 0.0
    assert max(excess) < 0.05


def test_a_calibration_is_the_most_probable_temperature():
    rng = np.random.default_rng(0)
    true = log_softmax(2.0 * rng.normal(size=(3000, 3)), axis=1)
    codes = np.array([rng.choice(3, p=np.exp(row)) for row in true])
    flat = rows_to_tensor(log_softmax(0.5 * true, axis=1))
    ones = np.ones(len(codes))
    assert calibrated_temperature(flat, codes, ones) == pytest.approx(0.5, rel=0.06)
    # Without weight, or without samples, nothing is changed.
    assert calibrated_temperature(flat, codes, 1e-6 * ones) == pytest.approx(1.0, 1e-2)
    alone = calibrated_temperature(flat[:1], flat[:1].argmax(1).numpy(), ones[:1])
    assert 0.5 < alone < 1.0


@pytest.mark.filterwarnings("ignore:The sample weights sum to 1, and 400 samples")
@pytest.mark.parametrize("early_stopping", [False, True])
def test_weights_that_sum_to_one_do_not_make_probabilities_certain(early_stopping):
    X, labels = noisy_classes(400, 2)
    usual = {"early_stopping": early_stopping, "max_iter": 60, **FEW}
    alone, weighted = (
        BayesianNetworkClassifier((30,), **usual)
        .fit(X, labels, weights)
        .calibration_.temperature
        for weights in (None, np.full(400, 1.0 / 400))
    )
    assert abs(alone - 1.0) > 0.05
    assert weighted == pytest.approx(1.0, abs=1e-3)


def test_a_few_weighty_samples_do_not_tell_a_noise():
    X, y = fast_sine()
    weights = np.where(np.arange(500) < 40, 1.0, 1e-6)
    fits = [
        BayesianNetworkRegressor((5,), noise_variance=word, max_iter=2, **FEW)
        .fit(X, y, weights)
        .noise_variance_
        for word in ("auto", "evidence")
    ]
    assert fits[0] == fits[1]
    assert effective_number(weights) == pytest.approx(40.0, rel=1e-3)
    assert effective_number(np.full(7, 1e-200)) == pytest.approx(7.0)


@pytest.mark.parametrize("weight", [1e-200, 1e-41, 1e18, 1e35])
def test_weights_that_single_precision_does_not_hold_do_no_harm(weight):
    X, y = wave(30)
    weights = np.where(np.arange(30) < 3, weight, 1.0)
    usual = {"inference": "ensemble", "max_iter": 300, "noise_variance": 0.1, **FEW}
    weighted = BayesianNetworkRegressor((5,), **usual).fit(X, y, weights)
    counted = weights >= 1.0 if weight < 1.0 else weights > 1.0
    alone = BayesianNetworkRegressor((5,), normalize_y=False, **usual)
    units = weighted.y_mean_[0], weighted.y_scale_[0]
    alone.fit(X[counted], (y[counted] - units[0]) / units[1])
    if weight < 1.0:  # these are left out
        expected = units[0] + units[1] * alone.predict(X)
        np.testing.assert_allclose(weighted.predict(X), expected, atol=0.02)
    else:  # only these count
        np.testing.assert_allclose(weighted.predict(X[:3]), y[:3], atol=0.2)
    labels = y > y.mean()
    model = BayesianNetworkClassifier((5,), max_iter=50, **FEW).fit(X, labels, weights)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("name", ["regression", "classification"])
def test_memory_is_asked_for_before_samples_are_held_out(monkeypatch, name):
    def search(*_):
        raise AssertionError("trained before memory was asked for")

    X, y = fast_sine()
    if name == "regression":
        model, found = BayesianNetworkRegressor, "held_out_noise"
    else:
        model, found, y = BayesianNetworkClassifier, "held_out_temperature", y > 0.0
    module = f"skconvgp.estimators.networks._network_{name}"
    monkeypatch.setattr(f"{module}.{found}", search)
    monkeypatch.setattr("skconvgp.engine._devices.free_memory", lambda device: 2**24)
    with pytest.raises(TileMemoryError, match=r"`n_draws`.*`batch_size`"):
        model((200, 200), random_state=0).fit(X, y)


def test_held_out_samples_without_weight_are_told_before_a_search(monkeypatch):
    def first(n, *_):
        return np.arange(50, n), np.arange(50)

    stopping = Stopping(monkeypatch)
    hold_out = "skconvgp.estimators.networks._network_training.hold_out"
    monkeypatch.setattr(hold_out, first)
    X, y = fast_sine(600)
    weights = np.where((np.arange(600) > 20) & (np.arange(600) < 50), 1e-6, 1.0)
    model = BayesianNetworkRegressor((5,), max_iter=10, **FEW)
    with pytest.warns(UserWarning, match="too little weight to tell a noise: noise_v"):
        model.fit(X, y, weights)
    assert stopping.names == 10 * ["epoch"]


@pytest.mark.parametrize("n_epochs", [3, 10])
def test_a_callback_that_stops_the_search_for_a_noise_stops_the_fit(
    monkeypatch, n_epochs
):
    X, y = fast_sine()
    model = BayesianNetworkRegressor((5,), max_iter=10, n_draws=7, random_state=0)
    whole = model.fit(X, y).noise_variance_
    stopping = Stopping(monkeypatch, n_epochs)
    match = r"networks \(5\), which have learned 450 of 500 samples\. They are an ens"
    with pytest.warns(UserWarning, match=match):
        model.fit(X, y)
    assert stopping.names == n_epochs * ["search epoch"]
    assert model.n_iter_ == n_epochs
    report = model.fit_report_
    assert (report.n_samples, report.is_stopped) == (450, True)
    assert model.sample_y(X).shape == (500, 5)
    assert (model.noise_variance_ == whole) == (n_epochs == 10)


def test_a_limit_of_time_leaves_a_classifier_that_has_learned(monkeypatch):
    X, labels = noisy_classes(300, 0)
    stopping = Stopping(monkeypatch, 50)
    model = BayesianNetworkClassifier((10,), max_iter=50, n_draws=7, random_state=0)
    match = r"its networks \(5\), which have learned 270 of 300 samples\.$"
    with pytest.warns(UserWarning, match=match):
        model.fit(X, labels)
    assert stopping.names == 50 * ["search epoch"]
    assert model.calibration_ != Calibration()
    assert model.score(X, labels) > 0.7


@pytest.mark.parametrize(
    ("model", "is_bootstrap"),
    [
        (BayesianNetworkRegressor((3,)), False),  # the spread of noise is no error
        (BayesianNetworkClassifier((3,)), True),
        (BayesianNetworkClassifier((3,), inference="ensemble"), False),
        (BayesianNetworkRegressor((3,), early_stopping=True), False),
    ],
)
def test_few_networks_hold_out_samples(monkeypatch, model, is_bootstrap):
    seen = []
    run = NetworkTraining.run

    def watched(training, *rest):
        seen.append(training.settings)
        return run(training, *rest)

    monkeypatch.setattr(NetworkTraining, "run", watched)
    X, y = fast_sine()
    y = y if isinstance(model, BayesianNetworkRegressor) else y > 0.0
    model.set_params(max_iter=3, n_draws=7, random_state=0).fit(X, y)
    few, all_draws = seen
    assert (few.n_draws, all_draws.n_draws) == (5, 7)
    assert (few.is_bootstrap, few.stops_early) == (is_bootstrap, False)
    assert all_draws.stops_early == model.early_stopping
    assert few.held_out_share == 0.1


def first_diverges(monkeypatch):
    """Let the first draw of a search diverge."""
    run = NetworkTraining.run

    def diverged(training, task):
        result = run(training, task)
        if task == "search epoch":
            result.trained.is_finite[0] = False
        return result

    monkeypatch.setattr(NetworkTraining, "run", diverged)


def test_draws_that_diverge_while_others_find_a_temperature_are_told(monkeypatch):
    first_diverges(monkeypatch)
    model = BayesianNetworkClassifier((3,), max_iter=2, **FEW)
    match = r"1 of 3 draws diverged in the training that holds out .* `learning_rate`"
    with pytest.warns(ConvergenceWarning, match=match):
        model.fit(*noisy_classes(300, 0))


@pytest.mark.filterwarnings("ignore:1 of 3 draws diverged")
def test_a_stop_counts_the_networks_that_are_left(monkeypatch):
    first_diverges(monkeypatch)
    Stopping(monkeypatch, 2)
    model = BayesianNetworkClassifier((3,), max_iter=2, **FEW)
    with pytest.warns(UserWarning, match=r"its networks \(2\), which"):
        model.fit(*noisy_classes(300, 0))
    assert model.fit_report_.n_diverged == 1


@pytest.mark.filterwarnings("ignore:The chains disagree")
def test_a_rate_that_nobody_chose_is_not_to_be_lowered(monkeypatch):
    first_diverges(monkeypatch)
    usual = {"inference": "sghmc", "burn_in": 4, "thin": 4, "max_iter": 30, **FEW}
    model = BayesianNetworkRegressor((10,), learning_rate=1e-6, **usual)
    match = "are left out: set `noise_variance` to a number, or scale X"
    with pytest.warns(ConvergenceWarning, match=match):
        model.fit(*fast_sine())


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater")
def test_classes_of_one_sample_each_are_not_calibrated():
    X = np.random.default_rng(0).normal(size=(220, 2))
    model = BayesianNetworkClassifier((3,), max_iter=2, **FEW).fit(X, np.arange(220))
    assert model.calibration_ == Calibration()
    assert model.fit_report_.n_samples == 220


@pytest.mark.filterwarnings("ignore:The chains disagree")
@pytest.mark.parametrize("asked", [{"inference": "sghmc"}, {"early_stopping": True}])
def test_draws_that_must_not_learn_some_samples_are_calibrated_on_these(
    asked, monkeypatch
):
    stopping = Stopping(monkeypatch)
    X, labels = noisy_classes(300, 0)
    usual = {"max_iter": 20, "burn_in": 4, "thin": 4, **FEW}
    model = BayesianNetworkClassifier((3,), **usual, **asked).fit(X, labels)
    assert set(stopping.names) == {"epoch"}
    assert model.fit_report_.n_samples == 270
    assert model.calibration_ != Calibration()


def test_callbacks_that_end_a_fit_can_predict(monkeypatch):
    pytest.importorskip("sklearn.callback")
    found, end = [], FitTasks.end

    def end_later(tasks):
        found.append(tasks.estimator.predict_proba(X))
        end(tasks)

    monkeypatch.setattr(FitTasks, "end", end_later)
    X, labels = noisy_classes(200, 0)
    model = BayesianNetworkClassifier((5,), max_iter=5, **FEW)
    model.set_callbacks(Recorder()).fit(X, labels)
    np.testing.assert_array_equal(found[0], model.predict_proba(X))


@pytest.mark.filterwarnings("ignore:The chains disagree")
def test_chains_find_the_noise_whatever_their_step_size():
    X, y = fast_sine()
    usual = {"inference": "sghmc", "burn_in": 4, "thin": 4, "max_iter": 30, **FEW}
    noises = [
        BayesianNetworkRegressor((10,), learning_rate=rate, **usual)
        .fit(X, y)
        .noise_variance_
        for rate in (1e-2, 1e-4)
    ]
    assert noises[0] == noises[1]


def test_samples_are_held_out_of_few_only_if_some_remain():
    model = BayesianNetworkRegressor((3,), validation_fraction=0.995, max_iter=2, **FEW)
    assert model.fit(*wave(60)).fit_report_.n_samples == 60


def test_early_stopping_reads_held_out_samples_in_batches(monkeypatch):
    sizes = []
    outputs = LayeredNetwork.outputs

    def counted(network, parameters, inputs):
        sizes.append(len(inputs))
        return outputs(network, parameters, inputs)

    X, y = fast_sine(400)
    usual = {"early_stopping": True, "validation_fraction": 0.5, "max_iter": 11, **FEW}
    usual |= {"noise_variance": 0.1}
    monkeypatch.setattr(LayeredNetwork, "outputs", counted)
    BayesianNetworkRegressor((3,), batch_size=32, **usual).fit(X, y)
    assert max(sizes) <= 32


@pytest.mark.parametrize("inference", ["bootstrap", "sghmc"])
def test_a_search_that_is_stopped_leaves_an_ensemble_and_says_so(
    monkeypatch, inference
):
    X, y = fast_sine()
    usual = {"max_iter": 300, "burn_in": 4, "thin": 4, **FEW}
    model = BayesianNetworkRegressor((), inference=inference, **usual)
    Stopping(monkeypatch, 300)
    match = f"They are an ensemble, of less spread than '{inference}'"
    with pytest.warns(UserWarning, match=match):
        model.fit(X, y)
    # Linear networks of an ensemble end near the same minimum; a posterior has 0.05.
    assert np.ptp(model.sample_y(X), axis=1).mean() < 0.01


def test_draws_that_diverge_in_the_search_for_a_noise_are_told():
    match = "All 3 draws diverged in the training that holds out"
    with pytest.raises(FloatingPointError, match=match):
        BayesianNetworkRegressor((5,), learning_rate=1e6, **FEW).fit(*fast_sine())


def test_held_out_samples_are_not_counted_as_learned():
    X, labels = noisy_classes(300, 0)
    usual = {"max_iter": 2, **FEW}
    for settings, n in (({}, 300), ({"early_stopping": True}, 270)):
        model = BayesianNetworkClassifier((3,), **usual, **settings).fit(X, labels)
        found = model.fit_report_
        assert (found.n_samples, found.n_points) == (n, n)
        assert model.calibration_ != Calibration()
    X, y = fast_sine()
    found = BayesianNetworkRegressor((3,), max_iter=2, **FEW).fit(X, y).fit_report_
    assert (found.n_samples, found.n_points) == (500, 500)


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater")
@pytest.mark.parametrize(
    "asked", [{"calibrate": True}, {"calibrate": np.True_}, {"early_stopping": True}]
)
def test_classes_of_one_sample_cannot_be_held_out(asked):
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match="Each class has one sample"):
        BayesianNetworkClassifier((3,), **FEW | asked).fit(X, np.arange(30))


def test_uncalibrated_probabilities_are_means_over_draws():
    X, labels = blobs(30)
    model = BayesianNetworkClassifier((5,), max_iter=20, **FEW).fit(X, labels)
    assert model.calibration_ == Calibration()
    draws = softmax(model.sample_y(X), axis=1).mean(axis=2)
    np.testing.assert_allclose(model.predict_proba(X), draws, rtol=1e-10)


def test_means_of_probabilities_may_be_tiny():
    logits = np.array([[[0.0, -2000.0]], [[0.0, -2001.0]]])
    found = mean_log_proba(log_softmax(logits, axis=-1))
    expected = -2000.0 + np.log((1.0 + np.exp(-1.0)) / 2.0)
    assert found[0, 1].item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_the_cross_entropy_learns_few_samples():
    X, labels = shuffled_digits()
    model = BayesianNetworkClassifier(
        (50,), inference="ensemble", likelihood="softmax", **FEW
    ).fit(X[:300], labels[:300])
    # With latent functions of deviation 1 the prior is as strong as the labels: 0.78.
    assert model.score(X[300:], labels[300:]) > 0.9


@pytest.mark.parametrize("word", ["yes", 1, None])
def test_wrong_words_for_a_calibration_are_errors(word):
    with pytest.raises(ValueError, match=r"'calibrate' parameter.*'auto', True or F"):
        BayesianNetworkClassifier((3,), calibrate=word, **FEW).fit(*blobs(9))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": "all"}, "'auto', None or an int >= 1"),
        ({"max_iter": 0}, "'auto' or an int >= 1"),
        ({"learning_rate": "slow"}, "'auto' or a finite number > 0"),
        ({"learning_rate": 0.0}, "'auto' or a finite number > 0"),
        ({"dtype": "float16"}, "'auto', 'float32' or 'float64'"),
        ({"noise_variance": "loo"}, "'auto', 'evidence' or a finite number > 0"),
    ],
)
def test_wrong_settings_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        BayesianNetworkRegressor((3,), **FEW | settings).fit(*wave(9))


@pytest.mark.parametrize("settings", [{}, {"prior": rbf(1.0)}], ids=["weights", "rbf"])
def test_single_precision_trains_as_double_precision_does(settings):
    X, y = wave(30)
    usual = {"max_iter": 100, "noise_variance": 0.1, **FEW}
    single, double = (
        BayesianNetworkRegressor((20,), dtype=dtype, **usual, **settings).fit(X, y)
        for dtype in ("auto", "float64")
    )
    assert single.draws_["weight0"].dtype == np.float32
    assert double.draws_["weight0"].dtype == np.float64
    np.testing.assert_allclose(single.predict(X), double.predict(X), atol=1e-3)
