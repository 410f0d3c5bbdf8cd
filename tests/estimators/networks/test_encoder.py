"""Learned binary codes."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from skconvgp import SKOPS_TRUSTED_TYPES, BinaryEncoder
from skconvgp.datasets import load_digits_images
from skconvgp.estimators.networks import _encoder_fit
from skconvgp.estimators.networks._encoder_head import unit_scale
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import MaxNormalization, dot_product, optical, rbf
from tests.helpers.estimators import blobs, digits
from tests.helpers.lines import show_all
from tests.helpers.suite import cases_of

SMALL = {"n_features": 30, "max_iter": 10, "random_state": 0}
GRADIENTS = ["score", "isolated", "analytic", "straight_through", "feedback"]


def encoder(n_bits=6, **settings):
    return BinaryEncoder(n_bits, **SMALL | settings)


CHECKED = [encoder(), encoder(gradient="score", head=rbf(1.0), early_stopping=False)]
SUITE_IDS = parametrize_with_checks(CHECKED).mark.kwargs["ids"]


@pytest.mark.parametrize(("estimator", "check"), cases_of(CHECKED), ids=SUITE_IDS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def parity(n):
    """Return three bits, hidden in noisy columns, and whether two of them differ."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, size=(n, 3))
    X = (2.0 * bits - 1.0) @ rng.normal(size=(3, 5)) + 0.05 * rng.normal(size=(n, 5))
    return X, bits[:, 0] ^ bits[:, 1]


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_codes_solve_a_task_that_no_linear_model_does(gradient):
    X, y = parity(300)
    model = encoder(
        12,
        gradient=gradient,
        n_features=200,
        max_iter=40,
        learning_rate=0.05,
        batch_size=64,
    )
    codes = model.fit_transform(X[:200], y[:200])
    assert (model.decode(codes) == y[:200]).mean() > 0.9
    assert (model.decode(model.transform(X[200:])) == y[200:]).mean() > 0.85
    assert model.loss_curve_[-1] < model.loss_curve_[0]


def test_codes_are_thresholded_probabilities():
    X, labels = blobs(30)
    model = encoder().fit(X, labels)
    codes, p = model.transform(X), model.bit_probabilities(X)
    assert codes.shape == (30, 6)
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, p > 0.5)
    weight, bias = model.encoder_["weight"], model.encoder_["bias"]
    scaled = (X - X.mean(0)) / np.sqrt(((X - X.mean(0)) ** 2).mean())
    logits = scaled @ weight.T + bias
    np.testing.assert_allclose(p, 1.0 / (1.0 + np.exp(-logits)))


def test_the_head_is_refitted_to_the_final_codes():
    X, labels = digits(60)
    X = X.reshape(60, -1)
    model = encoder(16, n_features=100).fit(X, labels)
    codes = model.transform(X).astype(float)
    drawn = model.head_.features.features
    projected = codes @ (drawn.real + 1j * drawn.imaginary)
    phi = np.abs(projected) ** 2 - (codes**2).sum(1, keepdims=True)
    phi *= model.head_.features.scale / np.sqrt(phi.shape[1])
    outputs = phi @ model.head_.coef + model.head_.intercept
    np.testing.assert_allclose(model.head_.outputs(model.transform(X)), outputs)
    found = model.decode(model.transform(X))
    np.testing.assert_array_equal(found, model.classes_[outputs.argmax(1)])
    # The residuals of a ridge regression with an intercept.
    targets = np.eye(len(model.classes_))[np.searchsorted(model.classes_, labels)]
    slopes = (phi - phi.mean(0)).T @ (targets - outputs)
    expected = model.head_.alpha * model.head_.coef
    np.testing.assert_allclose(slopes, expected, atol=1e-10)


def test_codes_of_digits_are_better_than_random_projections():
    X, y = load_digits_images(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(X))
    X, y = X.reshape(len(X), -1)[order], y[order]
    learned, new = slice(0, 600), slice(1000, 1797)
    model = BinaryEncoder(32, n_features=300, max_iter=25, random_state=0)
    model.fit(X[learned], y[learned])
    directions = np.random.RandomState(1).normal(size=(64, 32))
    random = (X - X[learned].mean(0)) @ directions > 0.0

    def accuracy(codes):
        search = KNeighborsClassifier(5, metric="hamming")
        return search.fit(codes[learned], y[learned]).score(codes[new], y[new])

    assert accuracy(model.transform(X)) > accuracy(random) + 0.02


def test_numbers_are_decoded_in_their_units():
    X, _ = blobs(80)
    y = np.column_stack([50.0 + 10.0 * np.tanh(X[:, 0]), 1e-3 * X[:, 1]])
    model = encoder(16, n_features=100, max_iter=40).fit(X, y)
    decoded = model.decode(model.transform(X))
    assert decoded.shape == y.shape
    assert (((decoded - y) ** 2).mean(0) < 0.3 * y.var(0)).all()
    assert model.target_type_ == "numbers"
    single = model.fit(X, y[:, 0])
    assert single.decode(single.transform(X)).shape == (80,)
    assert not hasattr(model, "classes_")


def test_whole_numbers_are_classes_or_numbers():
    X, _ = blobs(40)
    counts = np.round(3.0 * X[:, 0])
    assert encoder().fit(X, counts).target_type_ == "classes"
    assert encoder(target_type="numbers").fit(X, counts).target_type_ == "numbers"


def test_many_whole_numbers_that_are_read_as_classes_give_a_warning():
    X, _ = blobs(120)
    counts = np.arange(120) % 60
    settings = {"early_stopping": False, "max_iter": 1}
    with pytest.warns(UserWarning, match="60 different.*target_type='numbers'"):
        encoder(**settings).fit(X, counts)
    encoder(target_type="classes", **settings).fit(X, counts)
    encoder(target_type="numbers", **settings).fit(X, counts)


def test_samples_far_from_zero_have_the_same_codes():
    X, labels = blobs(40)
    X = np.round(X * 2**10) / 2**10  # a shift by 2**36 loses no bit of these
    model = encoder()
    near = model.fit(X, labels).bit_probabilities(X)
    far = model.fit(X + 2.0**36, labels).bit_probabilities(X + 2.0**36)
    np.testing.assert_allclose(far, near, rtol=1e-3)


def test_more_features_than_fit_into_memory_raise_before_any_work():
    with pytest.raises(TileMemoryError, match="`n_features`, `n_bits`, `batch_size`"):
        encoder(n_features=10**8).fit(*blobs(20))


def test_the_number_of_bits_is_that_of_the_fit():
    X, labels = blobs(20)
    model = encoder(6).fit(X, labels).set_params(n_bits=9)
    assert (model.decode(model.transform(X)) == labels).mean() > 0.4
    assert len(model.get_feature_names_out()) == 6


def test_without_labels_codes_imitate_samples():
    X, labels = digits(120)
    X = X.reshape(120, -1)
    model = encoder(24, max_iter=60).fit(X, labels).fit(X)
    assert not hasattr(model, "target_type_")
    decoded = model.decode(model.transform(X))
    assert decoded.shape == X.shape
    assert ((decoded - X) ** 2).mean() < 0.5 * X.var(0).mean()


def test_a_function_may_be_the_head():
    X, labels = blobs(40)
    directions = np.random.default_rng(0).normal(size=(6, 20))
    seen = []

    def device(codes):
        seen.append(codes)
        return np.abs(codes @ directions)

    model = encoder(head=device, max_iter=20).fit(X, labels)
    assert all(codes.dtype == np.uint8 and codes.shape[1] == 6 for codes in seen)
    assert (model.decode(model.transform(X)) == labels).mean() > 0.7
    encoder(head=device, gradient="feedback").fit(X, labels)


@pytest.mark.filterwarnings("ignore:. of 8 bits are equal")  # after three epochs
@pytest.mark.parametrize("name", ["lenet", "resnet"])
def test_encoders_of_images(name):
    X, labels = digits(30)
    model = encoder(8, encoder=name, max_iter=3).fit(X, labels)
    codes = model.transform(X)
    assert codes.shape == (30, 8)
    rows = X.reshape(30, -1)
    np.testing.assert_array_equal(model.transform(rows), codes)
    single = clone(model).set_params(dtype="float32").fit(X, labels)
    assert single.dtype_ == "float32"
    assert all(one.dtype == np.float32 for one in single.encoder_.values())


@pytest.mark.parametrize("name", ["linear", "lenet", "resnet"])
def test_bits_tell_samples_apart_from_the_start(name):
    X, labels = digits(120)
    X = 100.0 + 7.0 * X
    rows = X if name != "linear" else X.reshape(120, -1)
    model = encoder(20, encoder=name, max_iter=1, learning_rate=1e-12)
    probabilities = model.fit(rows, labels).bit_probabilities(rows)
    logits = np.log(probabilities) - np.log1p(-probabilities)
    np.testing.assert_allclose(logits.mean(0), 0.0, atol=1e-5)
    np.testing.assert_allclose(logits.std(0), 1.0, rtol=1e-5)


def test_bits_of_equal_samples_are_no_numbers_to_divide_by():
    X, labels = np.ones((6, 3)), np.arange(6) % 2
    with pytest.warns(ConvergenceWarning, match="6 of 6 bits are equal"):
        model = encoder().fit(X, labels)
    assert np.isfinite(model.bit_probabilities(X)).all()


@pytest.mark.parametrize(
    ("name", "rate", "other"), [("lenet", 1e-2, 1e-3), ("resnet", 1e-3, 1e-2)]
)
def test_the_rate_is_that_of_the_encoder(name, rate, other):
    X, labels = digits(30)
    model = encoder(8, encoder=name, max_iter=2).fit(X, labels)
    same = clone(model).set_params(learning_rate=rate).fit(X, labels)
    np.testing.assert_array_equal(same.loss_curve_, model.loss_curve_)
    same.set_params(learning_rate=other).fit(X, labels)
    assert (same.loss_curve_[1:] != model.loss_curve_[1:]).all()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 5)

    def forward(self, images):
        return self.layer(images.flatten(1))


def test_modules_are_encoders_that_begin_with_their_parameters():
    X, labels = digits(30)
    model = encoder(5, encoder=Net, learning_rate=1e-12, max_iter=1)
    model.fit(X, labels)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        state = torch.random.get_rng_state()
        again = clone(model).fit(X, labels)
        assert torch.equal(state, torch.random.get_rng_state())
    for name, values in model.encoder_.items():
        np.testing.assert_array_equal(values, again.encoder_[name])
    assert np.abs(model.encoder_["layer.weight"]).max() <= 1.0 / 8.0 + 1e-9
    p = model.bit_probabilities(X)
    logits = X.reshape(30, -1) @ model.encoder_["layer.weight"].T
    logits += model.encoder_["layer.bias"]
    np.testing.assert_allclose(p, 1.0 / (1.0 + np.exp(-logits)))


def test_codes_are_the_same_by_random_state_and_after_pickle():
    X, labels = blobs(30)
    model = encoder(gradient="score").fit(X, labels)
    loaded = pickle.loads(pickle.dumps(model))
    for other in (clone(model).fit(X, labels), loaded):
        p = model.bit_probabilities(X)
        np.testing.assert_array_equal(other.bit_probabilities(X), p)
        np.testing.assert_array_equal(other.head_.coef, model.head_.coef)
    other = clone(model).set_params(random_state=1).fit(X, labels)
    assert not np.array_equal(other.bit_probabilities(X), p)


@pytest.mark.parametrize("head", ["optical", rbf(1.0), dot_product()], ids=str)
def test_skops_loads_encoders(head):
    skops = pytest.importorskip("skops.io")
    X, labels = blobs(30)
    model = encoder(head=head).fit(X, labels)
    loaded = skops.loads(skops.dumps(model), trusted=SKOPS_TRUSTED_TYPES)
    codes = model.transform(X)
    np.testing.assert_array_equal(loaded.transform(X), codes)
    np.testing.assert_array_equal(loaded.decode(codes), model.decode(codes))


@pytest.mark.filterwarnings("ignore:. of 3 bits are equal")  # of 12 samples
def test_columns_of_frames_have_names():
    X, labels = blobs(12)
    model = encoder(3).set_output(transform="pandas").fit(X, labels)
    frame = model.transform(X)
    assert frame.columns.tolist() == [f"binaryencoder{i}" for i in range(3)]
    np.testing.assert_array_equal(model.decode(frame), model.decode(frame.to_numpy()))


def test_early_stopping_keeps_the_best_and_stops():
    X, labels = blobs(40)
    noise = np.random.RandomState(0).randint(2, size=40)
    model = encoder(max_iter=200, learning_rate=0.1).fit(X, noise)
    assert model.n_iter_ < 200
    assert len(model.loss_curve_) == model.n_iter_
    whole = encoder(max_iter=15, early_stopping=False).fit(X, labels)
    assert whole.n_iter_ == 15


def test_callbacks_may_stop_a_fit(monkeypatch):
    monkeypatch.setattr(
        "skconvgp.estimators.networks._encoder_fit.FitTasks.step", lambda *_: True
    )
    assert encoder().fit(*blobs(20)).n_iter_ == 1


def test_progress_is_shown(capsys, monkeypatch):
    show_all(monkeypatch)
    encoder(verbose=1, max_iter=2).fit(*blobs(20))
    shown = capsys.readouterr().err
    assert "codes, 1 of 2 epochs" in shown
    assert "fit: 100%" in shown


def test_large_sets_are_computed_in_blocks(monkeypatch):
    X, labels = blobs(50)
    whole = encoder().fit(X, labels)
    for name in ("fit", "head", "samples"):
        monkeypatch.setattr(f"skconvgp.estimators.networks._encoder_{name}.BLOCK", 60)
    parts = encoder().fit(X, labels)
    np.testing.assert_allclose(parts.bit_probabilities(X), whole.bit_probabilities(X))
    np.testing.assert_allclose(parts.head_.coef, whole.head_.coef, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_bits": 0}, "'n_bits'.*int >= 1"),
        ({"encoder": "mlp"}, "'linear', 'lenet', 'resnet' or a callable"),
        ({"encoder": lambda: 3}, "a callable that returns a torch module"),
        ({"encoder": lambda: nn.BatchNorm1d(64)}, "`encoder`.*buffers"),
        ({"encoder": lambda: nn.LSTM(64, 6)}, "returns a tuple, and must return a"),
        ({"encoder": lambda: nn.Linear(64, 2)}, "must return 6 numbers.*each bit"),
        ({"encoder": lambda: nn.Linear(3, 6)}, r"shape \(2, 64\).*image_shape=None"),
        ({"encoder": "lenet", "image_shape": (4, 16)}, "8 x 8 pixels or more"),
        ({"head": "laser"}, "'optical', a kernel .* or a function"),
        ({"head": optical}, "'optical', a kernel .* or a function"),
        ({"head": lambda codes: codes[:, 0]}, "an array of two dimensions"),
        ({"head": lambda codes: codes[:, :0]}, "an array of two dimensions"),
        ({"head": lambda codes: codes * 1j}, "real numbers"),
        ({"head": lambda codes: codes[:2]}, "`head` returned an array of shape"),
        ({"head": lambda codes: codes / 0.0}, "NaN or infinite"),
        ({"head": lambda codes: codes, "gradient": "analytic"}, "no derivatives"),
        ({"head": np.abs, "gradient": "straight_through"}, "no derivatives"),
        ({"head": rbf(1.0), "gradient": "analytic"}, r"optical\(2\) and dot_product"),
        ({"head": optical(3), "gradient": "analytic"}, "'gradient'"),
        ({"gradient": "exact"}, "'straight_through' or 'feedback'"),
        ({"gradient": "score", "n_draws": 1}, "int >= 2 with baseline=True"),
        ({"head": rbf(1.0), "n_draws": 1}, "int >= 2 with baseline=True"),
        ({"encoder": nn.Linear(4, 8)}, r"not the module, but `lambda: module`"),
        ({"baseline": 1}, "'baseline'.*True or False"),
        ({"alpha_head": -1.0}, "'alpha_head'.*finite number >= 0"),
        ({"learning_rate": 0.0}, "'learning_rate'.*'auto' or a finite number > 0"),
        ({"learning_rate": "slow"}, "'learning_rate'.*'auto' or a finite number"),
        ({"batch_size": None}, "'batch_size'.*int >= 1"),
        ({"validation_fraction": 1.0}, "'validation_fraction'"),
        ({"validation_fraction": 0.99}, "leaves none to learn from"),
        ({"target_type": "labels"}, "'auto', 'classes' or 'numbers'"),
        ({"dtype": "float16"}, "'dtype'"),
        ({"device": "tpu"}, "'device'"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_wrong_settings_are_errors(settings, message):
    X = np.random.default_rng(0).normal(size=(8, 64))
    model = encoder(image_shape=None).set_params(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X, np.arange(8) % 2)
    assert not hasattr(model, "encoder_")


def test_kernels_without_features_are_errors():
    head = MaxNormalization(rbf(1.0))
    with pytest.raises(TypeError, match="has no random features"):
        encoder(head=head).fit(*blobs(8))


def test_wrong_targets_are_errors():
    X, labels = blobs(12)
    both = np.column_stack([labels > 0, labels > 1]).astype(int)
    with pytest.raises(ValueError, match=r"several labels.*target_type='numbers'"):
        encoder().fit(X, both)
    assert encoder(target_type="numbers").fit(X, both).target_type_ == "numbers"
    with pytest.raises(ValueError, match="at least two classes, got one"):
        encoder().fit(X, np.zeros(12, dtype=int))
    with pytest.raises(ValueError, match=r"one kind.*NoneType, str"):
        encoder().fit(X, np.array(["a", "b", None] * 4, dtype=object))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        encoder().fit(X, labels[:-1])
    with pytest.raises(ValueError, match="masked values"):
        encoder().fit(X, np.ma.masked_equal(labels, 1))


def test_wrong_codes_are_errors():
    model = encoder().fit(*blobs(12))
    with pytest.raises(ValueError, match=r"6 bits, got 1.*unpackbits"):
        model.decode(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="zeros and ones"):
        model.decode(np.full((2, 6), 2))


def test_targets_of_other_length_are_refused_before_they_are_read():
    X, labels = blobs(20)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        encoder().fit(X, labels[:1])


@pytest.mark.parametrize("learning_rate", [1e8, 1e200])
def test_a_training_that_diverges_is_an_error(learning_rate):
    X, labels = blobs(20)
    with pytest.raises(FloatingPointError, match="`learning_rate`"):
        encoder(learning_rate=learning_rate, early_stopping=False).fit(X, labels)


class Root(nn.Module):
    """Roots of weights, which a penalty pulls out of their domain."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 6))

    def forward(self, rows):
        return rows @ (self.weight - 0.5).sqrt()


def test_a_training_that_diverges_after_its_best_epoch_is_an_error():
    X, labels = blobs(20)
    model = encoder(encoder=Root, alpha_encoder=100.0, learning_rate=0.1, max_iter=20)
    with pytest.raises(FloatingPointError, match="`learning_rate`"):
        model.fit(X, labels)


def test_bits_that_are_all_equal_give_a_warning():
    X, labels = blobs(40)
    model = encoder(encoder=lambda: nn.Linear(2, 6), learning_rate=1e-6)
    with pytest.warns(ConvergenceWarning, match="6 of 6 bits are equal.*scale X"):
        model.fit(X + 1e4, labels)
    assert (np.ptp(model.transform(X + 1e4), axis=0) == 0).all()


class Fading:
    """Features that are codes times a number."""

    n_features = 3

    def __init__(self, size):
        self._size = size

    def __call__(self, codes):
        return codes * self._size


@pytest.mark.parametrize(("size", "scale"), [(0.5, 2.0), (4.0, 0.25), (0.0, 1.0)])
def test_features_have_the_mean_length_one_unless_they_are_zero(size, scale):
    codes = torch.eye(3, dtype=torch.float64)
    assert unit_scale(Fading(size), codes) == pytest.approx(scale)


@pytest.mark.parametrize(
    ("gradient", "name"), [("score", "Score"), ("isolated", "Isolated")]
)
def test_gradients_are_estimated_as_asked_for(gradient, name, monkeypatch):
    made, kind = [], getattr(_encoder_fit, name)

    def recorded(*settings):
        made.append(settings)
        return kind(*settings)

    monkeypatch.setattr(_encoder_fit, name, recorded)
    encoder(gradient=gradient, n_draws=2, max_iter=1).fit(*blobs(20))
    assert [settings[0] for settings in made] == [2]
