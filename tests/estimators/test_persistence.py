"""Saved and loaded models: pickle, joblib, skops; other versions, other machines."""

import functools
import io
import pickle

import joblib
import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from skconvgp import (
    SKOPS_TRUSTED_TYPES,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    from_sklearn_kernel,
    gram_matrix,
)
from skconvgp.augmentation import Flip, Shift
from skconvgp.completion import (
    CoarseKernel,
    EnsembleNystrom,
    NearestNeighbors,
    Nystrom,
    SubsetOfData,
)
from skconvgp.exceptions import VersionMismatchWarning
from skconvgp.flows import LBFGS, Adam, BayesianOptimization, GradientDescent, Rho
from skconvgp.kernels import (
    GELU,
    Abs,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    Identity,
    LeakyReLU,
    PatchKernel,
    ReLU,
    Residual,
    Sequential,
    Sigmoid,
    SiLU,
    Sin,
    Softplus,
    Tanh,
    arcsine,
    dense,
    dot_product,
    matern,
    polynomial,
    rbf,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from tests.helpers.estimators import blobs, digits, tiny_network, wave

sio = pytest.importorskip("skops.io")

LAYERS = Sequential(
    Conv2d(3, stride=2),
    Residual(LeakyReLU(0.1), Conv2d((3, 1))),
    Abs() + Identity(),
    Flatten(),
    2.0 * Dense(),
    *(GELU(), Sin(), Erf(), ReLU(), Tanh(), Sigmoid(), SiLU(), Softplus()),
    Dense(),
)
VECTORS = rbf(1.0) + matern(1.0) * dot_product() + 0.5 * polynomial() + arcsine()
NAMED = [residual_convnet(2), resnet32(), three_layer_convnet(), dense(1)]


@functools.cache
def models():
    """Return fitted models, which no test changes, and what they predict for."""
    X, y = digits(15)
    points, labels = blobs(15)
    words = np.array(["no", "yes", "maybe"])[labels]
    gram = gram_matrix(rbf(1.0), points)
    completions = {
        "completed": ConvNetGPClassifier(rbf(1.0), completion=Nystrom(5)),
        "ensemble": ConvNetGPRegressor(rbf(1.0), completion=EnsembleNystrom(2, 6)),
        "subset": ConvNetGPRegressor(rbf(1.0), completion=SubsetOfData(5)),
        "dirichlet": ConvNetGPClassifier(rbf(1.0), likelihood="dirichlet"),
        "softmax, completed": ConvNetGPClassifier(
            rbf(1.0), likelihood="laplace", completion=Nystrom(5)
        ),
    }
    two = blobs(15, 2)
    binary = {
        word: ConvNetGPClassifier(rbf(1.0), likelihood=word).fit(*two)
        for word in ("beta", "laplace")
    }
    coarse = CoarseKernel(depth=1, kernel=tiny_network())
    flow = KernelFlowsClassifier(optimizer=Adam(max_iter=2), objective=Rho("ratio"))
    return {
        **{name: (gp.fit(points, labels), points) for name, gp in completions.items()},
        **{name: (gp, two[0]) for name, gp in binary.items()},
        "optimized": (
            ConvNetGPClassifier(
                rbf(1.0), optimizer="evidence", noise_variance="evidence"
            ).fit(points, labels),
            points,
        ),
        "flow": (flow.fit(points, labels), points),
        "columns": (
            NystromCompletedGP(rbf(1.0), n_landmarks=5)
            .partial_fit(points, labels, classes=[0, 1, 2])
            .partial_fit(points[:6] + 0.1, labels[:6]),
            points,
        ),
        "columns, targets": (
            NystromCompletedGPRegressor(rbf(1.0), n_landmarks=5).fit(points, labels),
            points,
        ),
        "coarse": (ConvNetGPClassifier(completion=coarse).fit(X, y), X),
        "sum": (
            ConvNetGPClassifier(
                tiny_network(), completion=CoarseKernel(depth=1, exact=Nystrom(5))
            ).fit(X, y),
            X,
        ),
        "network": (ConvNetGPClassifier(tiny_network()).fit(X, y), X),
        "versions": (
            ConvNetGPClassifier(tiny_network(), augment=[Flip(), Shift()]).fit(X, y),
            X,
        ),
        "layers": (ConvNetGPRegressor(LAYERS, noise_variance="loo").fit(X, y), X),
        "unshared": (ConvNetGPRegressor(tiny_network().unshared()).fit(X, y), X),
        "vectors": (ConvNetGPClassifier(VECTORS).fit(points, words), points),
        "outputs": (ConvNetGPRegressor(rbf(1.0)).fit(points, points), points),
        "precomputed": (ConvNetGPRegressor("precomputed").fit(gram, labels), gram),
        "neighbors": (
            ConvNetGPClassifier(tiny_network(), completion=NearestNeighbors(5)).fit(
                X, y
            ),
            X,
        ),
        "neighbors, precomputed": (
            ConvNetGPRegressor("precomputed", completion=NearestNeighbors(5)).fit(
                gram, labels
            ),
            gram,
        ),
        "patches": (PatchGPRegressor(n_inducing=9).fit(X, y), X),
        "images": (ImageClassifier(flips=True).fit(X, y), X),
        "patches, sum": (
            PatchGPClassifier(
                PatchKernel(patch_size=3, weights="learned") + 0.5 * rbf(),
                n_inducing=[9, 5],
                optimizer=LBFGS(max_iter=2),
            ).fit(X, y),
            X,
        ),
        "patches, counts": (
            PatchGPClassifier(n_inducing=9, likelihood="dirichlet").fit(X, y),
            X,
        ),
        "pipeline": (
            make_pipeline(StandardScaler(), ConvNetGPClassifier(rbf(1.0))).fit(
                points, labels
            ),
            points,
        ),
    }


def outputs(model, X):
    """Return all that a model predicts, uncertainty included where it can."""
    results = [model.predict(X)]
    last = getattr(model, "steps", [(None, model)])[-1][1]
    if hasattr(last, "predict_proba"):
        results += [model.predict_proba(X), last.loo_predict_proba()]
    if last.kernel != "precomputed" and last is model:
        results += model.predict_latent(X, return_std=True)
    is_complete = getattr(last, "completion", "columns") is None
    if last.kernel != "precomputed" and last is model and is_complete:
        results += [model.sample_y(X, 2, random_state=0)]
    return [*results, last.log_marginal_likelihood(), last.loo_predict()]


@functools.cache
def expected_outputs(name):
    return outputs(*models()[name])


def through_pickle(model, path):
    return pickle.loads(pickle.dumps(model))


def through_joblib(model, path):
    joblib.dump(model, path)
    return joblib.load(path)


def through_a_memory_map(model, path):
    joblib.dump(model, path)
    return joblib.load(path, mmap_mode="r")


def through_skops(model, path):
    sio.dump(model, path)
    return sio.load(path, trusted=SKOPS_TRUSTED_TYPES)


WAYS = [through_pickle, through_joblib, through_a_memory_map, through_skops]


@pytest.mark.parametrize("way", WAYS)
def test_loaded_models_predict_the_same(way, tmp_path):
    for name, (model, X) in models().items():
        loaded = way(model, tmp_path / name)
        for got, expected in zip(
            outputs(loaded, X), expected_outputs(name), strict=True
        ):
            np.testing.assert_array_equal(got, expected, err_msg=name)


@pytest.mark.parametrize("way", WAYS)
def test_loaded_models_take_more_samples(way, tmp_path):
    X, y = blobs(30)
    gp = NystromCompletedGP(rbf(1.0), n_landmarks=5, random_state=0).fit(X[:20], y[:20])
    loaded = way(gp, tmp_path / "model").partial_fit(X[20:], y[20:])
    gp.partial_fit(X[20:], y[20:])
    np.testing.assert_array_equal(loaded.predict_proba(X), gp.predict_proba(X))


@pytest.mark.parametrize("kernel", NAMED, ids=repr)
def test_named_networks_are_saved_by_their_settings(kernel, tmp_path):
    gp = ConvNetGPRegressor(kernel)
    assert through_skops(gp, tmp_path / "model").kernel == kernel
    assert through_pickle(gp, None).kernel == kernel


@pytest.mark.parametrize(
    "optimizer",
    [Adam(), BayesianOptimization(), GradientDescent(), LBFGS()],
    ids=repr,
)
def test_optimizers_are_saved_by_their_settings(optimizer, tmp_path):
    gp = KernelFlowsRegressor(rbf(1.0), optimizer=optimizer)
    assert through_skops(gp, tmp_path / "model").optimizer == optimizer


def test_every_type_in_a_file_of_skops_is_trusted():
    for name, (model, _) in models().items():
        data = sio.dumps(model)
        unknown = set(sio.get_untrusted_types(data=data)) - set(SKOPS_TRUSTED_TYPES)
        assert not unknown, name


class WithoutTensors(pickle.Pickler):
    """Refuses what may lie on a device."""

    def reducer_override(self, item):
        is_on_device = isinstance(item, torch.Tensor | torch.device | torch.Generator)
        assert not is_on_device, item
        return NotImplemented


def test_nothing_that_is_saved_is_tied_to_a_device():
    for model, X in models().values():
        outputs(model, X)  # what a model keeps from predictions counts too
        WithoutTensors(io.BytesIO()).dump(model)
    with pytest.raises(AssertionError):
        WithoutTensors(io.BytesIO()).dump([torch.zeros(1)])


@pytest.mark.parametrize(
    "theirs",
    [
        sk.ConstantKernel(2.0) * sk.RBF([1.0, 2.0], "fixed") + sk.DotProduct(),
        sk.Matern() ** 2,
        sk.ExpSineSquared(),
        sk.RationalQuadratic(),
        sk.PairwiseKernel(metric="laplacian"),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("optimizer", [None, "evidence"])
def test_kernels_of_scikit_learn_are_read_back(theirs, optimizer, tmp_path):
    X, _ = blobs(12)
    gp = ConvNetGPRegressor(from_sklearn_kernel(theirs), optimizer=optimizer)
    gp.fit(X, X[:, 0])
    loaded = through_skops(gp, tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X + 0.1), gp.predict(X + 0.1))
    assert loaded.kernel_ == gp.kernel_


@pytest.mark.parametrize(
    ("mean", "further"),
    [
        (Ridge(), []),
        (make_pipeline(StandardScaler(), SVR()), []),
        (
            RandomForestRegressor(3, min_samples_leaf=6, random_state=0),
            ["sklearn.tree._tree.Tree"],
        ),
    ],
    ids=repr,
)
def test_regressors_as_means_are_read_back(mean, further):
    X, _ = blobs(30)
    gp = ConvNetGPRegressor(rbf(1.0), mean=mean).fit(X, X[:, 0])
    data = sio.dumps(gp)
    unknown = set(sio.get_untrusted_types(data=data)) - set(SKOPS_TRUSTED_TYPES)
    assert unknown <= set(further)  # older versions of skops trust trees themselves
    loaded = sio.loads(data, trusted=SKOPS_TRUSTED_TYPES + further)
    np.testing.assert_array_equal(loaded.predict(X + 0.1), gp.predict(X + 0.1))


def test_trusted_types_are_of_this_package_or_kernels():
    kernels = f"{sk.__name__}."
    assert all(name.startswith(("skconvgp.", kernels)) for name in SKOPS_TRUSTED_TYPES)
    assert f"{kernels}Kernel" not in SKOPS_TRUSTED_TYPES
    assert sorted(set(SKOPS_TRUSTED_TYPES)) == SKOPS_TRUSTED_TYPES


@pytest.mark.parametrize("cls", [ConvNetGPClassifier, ConvNetGPRegressor])
def test_other_version_warns(cls, monkeypatch):
    model = cls(rbf(1.0)).fit(*blobs(9))
    with monkeypatch.context() as patch:
        patch.setattr("skconvgp.estimators._versions.version", lambda name: "0.0.1")
        data = pickle.dumps(model)
    with pytest.warns(VersionMismatchWarning, match=r"0\.0\.1.*fit it again"):
        loaded = pickle.loads(data)
    X = blobs(9)[0]
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_state_of_unknown_version_warns():
    model = ConvNetGPRegressor(rbf(1.0)).fit(*wave(5))
    state = model.__getstate__()
    del state["_skconvgp_version"]
    with pytest.warns(VersionMismatchWarning, match="unknown"):
        ConvNetGPRegressor().__setstate__(state)


def test_loading_leaves_no_trace_of_the_version():
    model = ConvNetGPRegressor(rbf(1.0)).fit(*wave(5))
    assert set(vars(through_pickle(model, None))) == set(vars(model))


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_model_of_a_gpu_predicts_on_a_machine_without(device, no_gpu):
    X, y = digits(20)
    model = ConvNetGPClassifier(tiny_network()).fit(X, y)
    expected = model.predict_proba(X)
    loaded = through_pickle(model.set_params(device=device), None)
    with pytest.warns(UserWarning, match=f"device='{device}'.*CPU"):
        np.testing.assert_allclose(loaded.predict_proba(X), expected, atol=1e-6)


def test_fit_on_an_absent_gpu_is_an_error(no_gpu):
    X, y = digits(10)
    for cls in (ConvNetGPClassifier, ConvNetGPRegressor):
        with pytest.raises(ValueError, match=r"device='cuda'.*device='auto' or 'cpu'"):
            cls(tiny_network(), device="cuda").fit(X, y)


def test_gram_matrix_on_an_absent_gpu_is_an_error(no_gpu):
    with pytest.raises(ValueError, match=r"device='cuda'.*device='auto' or 'cpu'"):
        gram_matrix(rbf(1.0), [[0.0]], device="cuda")


def test_auto_device_never_fails(no_gpu):
    gp = ConvNetGPRegressor(rbf(1.0), device="auto").fit(*wave(5))
    assert gp.device_ == "cpu"


@pytest.mark.gpu
def test_gpu_and_cpu_agree():
    X, y = digits(60)
    settings = {"dtype": "float64"}
    gpu = ConvNetGPClassifier(tiny_network(), device="cuda", **settings)
    cpu = ConvNetGPClassifier(tiny_network(), device="cpu", **settings)
    gpu.fit(X[:40], y[:40])
    cpu.fit(X[:40], y[:40])
    assert gpu.device_ == "cuda"
    np.testing.assert_allclose(
        gpu.predict_proba(X[40:]), cpu.predict_proba(X[40:]), atol=1e-8
    )
    loaded = through_pickle(gpu, None).set_params(device="cpu")
    np.testing.assert_allclose(
        loaded.predict_proba(X[40:]), cpu.predict_proba(X[40:]), atol=1e-8
    )
