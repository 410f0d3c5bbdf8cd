"""Wrong data and wrong settings: the type of the error, and what it says."""

import re

import numpy as np
import pytest
import torch

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, gram_matrix
from skconvgp.exceptions import JitterWarning, NotPSDError, TileMemoryError
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Flatten,
    GlobalAvgPool2d,
    ReLU,
    Residual,
    Sequential,
    Sum,
    convnet,
    dot_product,
    matern,
    rbf,
    resnet32,
)
from skconvgp.likelihoods import Gaussian
from skconvgp.solvers import Cholesky
from tests.helpers.estimators import blobs, digits, tiny_network, wave

CLASSES = [ConvNetGPClassifier, ConvNetGPRegressor]


def spoiled(value):
    X = blobs(12)[0]
    X[3, 1] = value
    return X


BAD_X = {
    "NaN": (spoiled(np.nan), ValueError, "Input X contains NaN"),
    "infinity": (spoiled(-np.inf), ValueError, "Input X contains infinity"),
    "no samples": (np.empty((0, 2)), ValueError, r"0 sample\(s\)"),
    "no features": (np.empty((12, 0)), ValueError, r"0 feature\(s\)"),
    "no pixels": (np.empty((12, 1, 0, 8)), ValueError, r"0 feature\(s\)"),
    "one dimension": (np.arange(12.0), ValueError, "Expected 2D array"),
    "five dimensions": (np.ones((12, 1, 1, 2, 2)), ValueError, "dim 5"),
    "complex": (blobs(12)[0] * 1j, ValueError, "Complex data not supported"),
    "words": (np.full((12, 2), "pixel"), ValueError, "could not convert"),
    "objects": (np.full((12, 2), {}), TypeError, "argument must be"),
    "other length": (blobs(11)[0], ValueError, "inconsistent numbers of samples"),
}


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("case", BAD_X)
def test_bad_samples_are_refused(case, cls):
    X, error, message = BAD_X[case]
    y = np.arange(12) % 2
    with pytest.raises(error, match=message):
        cls(rbf(1.0)).fit(X, y[: len(X)] if len(X) == 0 else y)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    "case", ["NaN", "infinity", "no samples", "five dimensions", "complex", "words"]
)
def test_bad_samples_are_refused_at_predict(case, cls):
    X, error, message = BAD_X[case]
    gp = cls(rbf(1.0)).fit(*blobs(12))
    with pytest.raises(error, match=message):
        gp.predict(X)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("cls", CLASSES)
def test_targets_that_are_not_finite_are_refused(cls, value):
    X = blobs(4)[0]
    with pytest.raises(ValueError, match="Input y contains"):
        cls(rbf(1.0)).fit(X, [0.0, 1.0, value, 1.0])


@pytest.mark.parametrize("cls", CLASSES)
def test_targets_must_be_given(cls):
    with pytest.raises(ValueError, match="requires y to be passed"):
        cls(rbf(1.0)).fit(blobs(4)[0], None)


def test_one_class_is_refused_by_name():
    with pytest.raises(ValueError, match=r"two classes.*one class.*'cat'"):
        ConvNetGPClassifier(rbf(1.0)).fit(blobs(4)[0], ["cat"] * 4)


def test_real_numbers_are_no_labels():
    with pytest.raises(ValueError, match="Unknown label type"):
        ConvNetGPClassifier(rbf(1.0)).fit(*wave(8))


def test_several_labels_a_sample_are_refused():
    X = blobs(4)[0]
    with pytest.raises(ValueError, match="y should be a 1d array"):
        ConvNetGPClassifier(rbf(1.0)).fit(X, np.eye(4, 2))


IMAGE_SHAPES = {
    "square": "'auto', None",
    (8,): "(channels, height, width)",
    (1, 1, 8, 8): "(channels, height, width)",
    (8, 8.0): "(channels, height, width)",
    (0, 8, 8): "(channels, height, width)",
    (-8, -8): "(channels, height, width)",
    64: "(channels, height, width)",
    (3, 8, 8): "192",
    (1, 7, 9): "(1, 8, 8)",
}


@pytest.mark.parametrize("shape", IMAGE_SHAPES, ids=repr)
def test_wrong_image_shape_is_refused(shape):
    X, y = digits(6)
    gp = ConvNetGPRegressor(tiny_network(), image_shape=shape)
    with pytest.raises(ValueError, match="`image_shape`") as caught:
        gp.fit(X.reshape(6, -1), y)
    assert IMAGE_SHAPES[shape] in str(caught.value)
    assert repr(shape) in str(caught.value)


def closed(*layers):
    return Sequential(*layers, Flatten(), Dense())


# What is wrong, and every word that the message must have.
BAD_KERNELS = [
    (closed(Conv2d(9, padding="valid")), ["layer0", "kernel_size", "9", "8x8"]),
    (closed(Conv2d(3), Conv2d(4, stride=4), Conv2d(3, padding=0)), ["layer2", "2x2"]),
    (closed(Conv2d(5, dilation=2, padding="valid")), ["layer0", "dilation", "8x8"]),
    (closed(Conv2d(3, stride=0)), ["layer0", "`stride`", "1 to", "0"]),
    (closed(Conv2d(3, stride=1.5)), ["layer0", "`stride`", "1.5"]),
    (closed(Conv2d(0)), ["layer0", "`kernel_size`", "1 to"]),
    (closed(Conv2d(3, padding="full")), ["layer0", "`padding`", "'full'", "'same'"]),
    (closed(Conv2d(3, padding=-1)), ["layer0", "`padding`", "-1"]),
    (closed(Conv2d(3), ReLU(), Conv2d(3, weight_variance=-1.0)), ["layer2", ">= 0"]),
    (closed(Conv2d(3, bias_variance=np.nan)), ["layer0", "`bias_variance`", "nan"]),
    (Sequential(Conv2d(3), ReLU()), ["8x8", "1x1", "`Flatten()`", "`Dense()`"]),
    (Sequential(Conv2d(3), Dense()), ["layer1", "8x8", "`Flatten()`"]),
    (closed(Conv2d(3), AvgPool2d(9)), ["layer1", "AvgPool2d", "9", "8x8"]),
    (closed(Residual(Conv2d(3), GlobalAvgPool2d())), ["layer0", "Put one pool"]),
    (closed(Residual(AvgPool2d(3, stride=1, padding=1))), ["Put one pool"]),
    (closed(Conv2d(3), GlobalAvgPool2d(0)), ["layer1", "`lattice`", "from 1 to", "0"]),
    (closed(Residual(Conv2d(3, stride=2))), ["layer0", "4x4", "8x8"]),
    (closed(Sum(Conv2d(3), Conv2d(3, stride=2))), ["layer0", "one size"]),
    (closed(rbf(2.0)), ["layer0", "rbf("]),
    (Sum(), ["Sum()", "at least one"]),
    (convnet(depth=0), ["`depth`", "an int from 1 to 1000", "0"]),
    (convnet(kernel_size=2.5), ["`kernel_size`", "2.5"]),
    (convnet(weight_variance=-2.0), ["`weight_variance`", ">= 0", "-2.0"]),
    (convnet(depth=1, weight_variance=(1.0, 2.0)), ["shared_variances"]),
    (resnet32((1.0,), (1.0,), shared_variances=False), ["36 values", "got 1"]),
    (rbf(lengthscale=0.0), ["`lengthscale`", "> 0", "0.0"]),
    (matern(1.0, nu=2.0), ["`nu`", "0.5", "2.0"]),
    (dot_product(-1.0) + rbf(1.0), ["`bias_variance`", ">= 0", "-1.0"]),
    (-1.0 * rbf(1.0), ["`factor`", "-1.0"]),
]


@pytest.mark.parametrize(("kernel", "words"), BAD_KERNELS, ids=repr)
def test_wrong_kernel_is_refused_before_any_work(kernel, words, monkeypatch):
    def fail(*args):
        raise AssertionError("the kernel was evaluated")

    monkeypatch.setattr("skconvgp.backends.ReferenceBackend.prepare", fail)
    X, y = digits(6)
    for attempt in (
        lambda: ConvNetGPRegressor(kernel).fit(X, y),
        lambda: ConvNetGPClassifier(kernel).fit(X, y),
        lambda: gram_matrix(kernel, X),
    ):
        with pytest.raises(ValueError, match=r"\w") as caught:
            attempt()
        for word in words:
            assert word in str(caught.value)


# Setting, wrong values, and what scikit-learn's sentence must name as right.
BAD_SETTINGS = {
    "kernel": ([1.0, "rbf", rbf, torch.nn.Linear(1, 1)], "a kernel of skconvgp"),
    "noise_variance": ([-1.0, np.nan, np.inf, "best", None, True], "'evidence'"),
    "amplitude": ([0.0, -1.0, np.nan, np.inf, "auto", True], "'profile'"),
    "solver": (["lu", None, 3, Cholesky], "'cholesky'"),
    "device": (["gpu", "cuda:x", 0, None, torch.device("cpu")], "'cpu'"),
    "backend": (["cpu", "Fused", None, 1, ["torch"]], "'fused'"),
    "dtype": (["float16", None, torch.float32, "double"], "'float64'"),
    "solve_dtype": (["float16", "auto", None], "'float64'"),
    "memory_budget": (
        [0, -5, 1.5, "", "lots", "2 GiBs", "-1 GiB", "1.2.3 MB", True],
        "2 GiB",
    ),
    "n_jobs": ([0, 1.5, 2.0, "a", "all", True, [2]], "None or an int other than 0"),
    "verbose": ([-1, 1.5, "a", None, [1]], "an int >= 0"),
}


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_wrong_setting_is_refused_in_the_words_of_scikit_learn(name, cls):
    values, right = BAD_SETTINGS[name]
    for value in values:
        gp = cls(**{"kernel": rbf(1.0), name: value})
        sentence = f"The {name!r} parameter of {cls.__name__} must be "
        with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
            gp.fit(*blobs(9))
        assert right in str(caught.value)
        assert str(caught.value).endswith(f"Got {value!r} instead.")
        assert not hasattr(gp, "dual_coef_")


@pytest.mark.parametrize("value", ["poisson", None, 1, Gaussian])
def test_wrong_likelihood_is_refused(value):
    with pytest.raises(ValueError, match=r"'likelihood' parameter.*'gaussian'"):
        ConvNetGPClassifier(rbf(1.0), likelihood=value).fit(*blobs(9))


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("name", ["n_jobs", "verbose"])
def test_settings_are_checked_for_a_precomputed_matrix_too(name, cls):
    with pytest.raises(ValueError, match=f"{name!r} parameter of {cls.__name__}"):
        cls("precomputed", **{name: "a"}).fit(np.eye(4), [0, 1, 0, 1])


OF_FUNCTIONS = ["device", "backend", "dtype", "memory_budget", "n_jobs", "verbose"]


@pytest.mark.parametrize("name", OF_FUNCTIONS)
def test_gram_matrix_refuses_the_same_settings(name):
    for value in BAD_SETTINGS[name][0]:
        with pytest.raises(ValueError, match=f"'{name}' parameter of gram_matrix"):
            gram_matrix(rbf(1.0), [[0.0], [1.0]], **{name: value})


WEIGHTS = {
    "all zero": (np.zeros(9), "zero for every sample"),
    "negative": (np.r_[-0.5, np.ones(8)], r">= 0.*-0\.5"),
    "two dimensions": (np.ones((9, 1)), r"one dimension.*\(9, 1\)"),
    "too few": (np.ones(8), "inconsistent numbers of samples"),
    "NaN": (np.r_[np.nan, np.ones(8)], "sample_weight contains NaN"),
}


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("case", WEIGHTS)
def test_bad_weights_are_refused(case, cls):
    weights, message = WEIGHTS[case]
    with pytest.raises(ValueError, match=message):
        cls(rbf(1.0)).fit(*blobs(9), sample_weight=weights)


def test_images_of_another_size_are_refused_with_both_shapes():
    X, y = digits(10)
    gp = ConvNetGPClassifier(tiny_network()).fit(X, y)
    for other in (X.reshape(10, 1, 4, 16), X[:, :, :7], X.repeat(3, axis=1)):
        with pytest.raises(ValueError, match="X holds images of shape") as caught:
            gp.predict(other)
        assert repr(other.shape[1:]) in str(caught.value)
        assert "(1, 8, 8)" in str(caught.value)


@pytest.mark.parametrize("method", ["predict", "predict_latent", "sample_y"])
def test_other_number_of_features_is_refused_with_both_numbers(method):
    X, y = digits(10)
    gp = ConvNetGPRegressor(tiny_network()).fit(X, y)
    with pytest.raises(ValueError, match=r"49 features.*64 features"):
        getattr(gp, method)(X[:, 0, :7, :7].reshape(10, 49))


@pytest.mark.parametrize("cls", CLASSES)
def test_nothing_is_predicted_before_fit(cls):
    from sklearn.exceptions import NotFittedError

    gp = cls(rbf(1.0))
    names = ["predict", "predict_latent"]
    if cls is ConvNetGPClassifier:
        names += ["predict_proba", "decision_function"]
    for name in names:
        with pytest.raises(NotFittedError):
            getattr(gp, name)([[0.0]])
    for name in ("log_marginal_likelihood", "loo_predict"):
        with pytest.raises(NotFittedError):
            getattr(gp, name)()


def test_duplicates_without_noise_are_helped_by_jitter_and_refused_without():
    X = np.repeat(wave(6)[0], 2, axis=0)
    with pytest.warns(JitterWarning, match="noise_variance"):
        gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.0).fit(X, np.arange(12.0))
    assert gp.fit_report_.jitter > 0.0
    gram = gram_matrix(rbf(1.0), X) - 0.1 * np.ones((12, 12))
    with pytest.raises(
        NotPSDError, match=r"smallest eigenvalue is -.*`noise_variance`"
    ):
        ConvNetGPRegressor("precomputed", noise_variance=0.0).fit(
            gram - 0.5 * np.roll(np.eye(12), 6, axis=0), np.arange(12.0)
        )


def test_overflow_of_the_network_is_refused():
    X, y = digits(6)
    gp = ConvNetGPRegressor(tiny_network(), dtype="float32")
    with pytest.raises(ValueError, match=r"6 of 6 samples is not finite.*depth"):
        gp.fit(X * 1e30, y)


@pytest.fixture
def no_evaluation(monkeypatch):
    def fail(*args):
        raise AssertionError("the kernel was evaluated")

    for method in ("prepare", "cross", "diag"):
        monkeypatch.setattr(f"skconvgp.backends.ReferenceBackend.{method}", fail)


@pytest.mark.parametrize(
    ("settings", "copies"),
    [
        ({"noise_variance": 1e-4}, 2 * 8),
        ({"noise_variance": "loo"}, 5 * 8),
        ({"noise_variance": 1e-4, "solve_dtype": "float32"}, 8),
    ],
)
@pytest.mark.parametrize("cls", CLASSES)
def test_gram_matrix_that_does_not_fit_is_refused_before_any_work(
    cls, settings, copies, no_evaluation, monkeypatch
):
    X, y = digits(20)
    needed = copies * 20**2
    monkeypatch.setattr(
        "skconvgp.engine._devices.free_memory", lambda device: needed - 1
    )
    gp = cls(tiny_network(), device="cpu", **settings)
    with pytest.raises(TileMemoryError, match="20 samples") as caught:
        gp.fit(X, y)
    assert f"needs {needed} bytes" in str(caught.value)
    assert f"{needed - 1} bytes" in str(caught.value)
    for remedy in ("fewer samples", "solve_dtype='float32'"):
        assert remedy in str(caught.value)


@pytest.mark.parametrize("budget", [1, "10 B", "0.1 KiB"])
def test_budget_below_a_single_pair_is_refused(budget):
    X, y = digits(6)
    settings = {"memory_budget": budget, "backend": "torch", "n_jobs": 2}
    for attempt in (
        lambda: ConvNetGPRegressor(tiny_network(), **settings).fit(X, y),
        lambda: gram_matrix(tiny_network(), X, **settings),
    ):
        with pytest.raises(TileMemoryError, match="single pair") as caught:
            attempt()
        for word in ("needs", "allows", "`memory_budget`", "`n_jobs`"):
            assert word in str(caught.value)


@pytest.mark.parametrize(
    "budget",
    [
        10**6,
        1e6,
        np.int64(10**6),
        "1000000",
        "1 MB",
        "0.5 MiB",
        " 2GiB ",
        "900KiB",
        "900 kB",
        "1 TB",
    ],
)
def test_memory_budget_is_a_number_or_words(budget):
    X, y = digits(6)
    gp = ConvNetGPRegressor(tiny_network(), memory_budget=budget).fit(X, y)
    assert gp.fit_report_.n_pairs == 21


@pytest.mark.parametrize("cls", CLASSES)
def test_seed_that_is_none_is_refused_even_if_nothing_is_drawn(cls):
    X, labels = blobs(12)
    with pytest.raises(ValueError, match="random_state must be"):
        cls(rbf(1.0), random_state="a").fit(X, labels)
