"""One list of all public classes and functions, for rules that hold for each.

`tests/rules` tries the rules. A public name that no case uses fails there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.gaussian_process.kernels import RationalQuadratic

import skconvgp as sk
from skconvgp import (
    augmentation,
    completion,
    datasets,
    flows,
    kernels,
    likelihoods,
    metrics,
    questions,
    solvers,
    transforms,
)
from tests.helpers.estimators import digits, tiny_network

MODULES = {
    "skconvgp": sk,
    "augmentation": augmentation,
    "completion": completion,
    "datasets": datasets,
    "flows": flows,
    "kernels": kernels,
    "likelihoods": likelihoods,
    "metrics": metrics,
    "questions": questions,
    "solvers": solvers,
    "transforms": transforms,
}
# What computes nothing from data, and why.
EXEMPT = {
    "SKOPS_TRUSTED_TYPES": "a list of names",
    "__version__": "a text",
    "show_versions": "writes versions",
    "ImagePart": "settings, without methods",
    "check_precision": "computes its own data, on a device that is named",
    "Part": "abstract",
    "Kernel": "abstract",
    "Layer": "abstract",
    "Hyperparameter": "a value that describes a setting",
    "Maps": "a value between layers",
    "literal_max_normalization": "makes a network of a published mistake",
    "CompletedGram": "a value that strategies return",
    "CholeskyState": "a value that solvers return",
    "RefinedCholeskyState": "a value that solvers return",
    "ConjugateGradientState": "a value that solvers return",
    "Solution": "a value that solvers return",
    "FlowResult": "a value that searches return",
    "OptimizerResult": "a value that searches return",
    "Score": "a value that objectives return",
    "Step": "a value that searches return",
    "Calibration": "a value that classifiers have",
    "ExpectedSites": "a value that likelihoods return",
    "Familiarity": "a value that calibrations hold",
    "Span": "a value that calibrations hold",
    "Sites": "a value that likelihoods return",
    "Targets": "a value that likelihoods return",
    "Audit": "a value that `audit` returns",
    "PatchContrast": "a setting of PatchKernel, which its name stands for",
    "PatchWhitening": "a setting of PatchKernel, which its name stands for",
    "fetch_cifar10": "reads files",
    "fetch_mnist": "reads files",
    "load_digits_images": "reads files",
    "load_image_folder": "reads files",
    "load_uci": "reads files",
    "ReadImages": "reads files",
}
N, N_NEW = 24, 5


@dataclass(frozen=True)
class Case:
    """An estimator or a transformer with settings.

    Parameters
    ----------
    estimator : estimator
        Not fitted; tests clone it.
    n_classes : int
        Of the labels, for classifiers.
    """

    estimator: BaseEstimator
    n_classes: int = 3

    @property
    def name(self) -> str:
        """Text that tells the case from others."""
        return " ".join(repr(self.estimator).split())

    def new(self, **params: Any) -> BaseEstimator:
        """Return a copy that is not fitted, with some other settings."""
        return clone(self.estimator).set_params(**params)

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return copies of images, of labels or targets, and of other images."""
        images, labels = digits(N)
        others, _ = digits(N_NEW, start=100)
        if is_regressor(self.estimator):
            return images.copy(), labels.astype(np.float64), others.copy()
        return images.copy(), labels % self.n_classes, others.copy()

    def fit(self, **params: Any) -> BaseEstimator:
        """Return a fitted copy, with some other settings."""
        X, y, _ = self.data()
        return self.new(**params).fit(X, y)

    def results(self, fitted: BaseEstimator, data: Any = None) -> dict[str, Any]:
        """Return what each public method of a fitted estimator computes."""
        X, y, new = self.data() if data is None else data
        found = {}
        for name, call in CALLS.items():
            if name == "partial_fit" or not offers(fitted, name):
                continue
            try:
                found[name] = as_arrays(call(fitted, X, y, new))
            except ValueError as refusal:  # of settings that do not give this
                found[name] = [np.asarray(str(refusal))]
        return found


@cache
def fitted_and_results(case: Case) -> tuple[BaseEstimator, dict[str, Any]]:
    """Return the fit of a case and its results, which tests share."""
    data = data_of_fit(case)
    fitted = case.new().fit(*data[:2])
    return fitted, case.results(fitted, data)


@cache
def data_of_fit(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the data that the fit of `fitted_and_results` was given."""
    return case.data()


def offers(estimator: BaseEstimator, name: str) -> bool:
    """Return whether an estimator has a method, which its settings may decide."""
    return callable(getattr(estimator, name, None))


def as_arrays(value: object) -> list[np.ndarray]:
    """Return the arrays of a result."""
    parts = value if isinstance(value, tuple | list) else [value]
    return [np.asarray(part) for part in parts]


TINY = 1e-12  # smaller values are compared as if they were of this size


def assert_same_bits(found, expected):
    assert list(found) == list(expected)
    for name, arrays in found.items():
        for one, other in zip(arrays, expected[name], strict=True):
            assert one.dtype == other.dtype, name
            np.testing.assert_array_equal(one, other, err_msg=name)


def assert_near(found, expected, rtol):
    """Compare to a share of the largest value; refusals and names are the same."""
    assert list(found) == list(expected)
    for name, arrays in found.items():
        for one, other in zip(arrays, expected[name], strict=True):
            if other.dtype.kind not in "fc":
                np.testing.assert_array_equal(one, other, err_msg=name)
                continue
            size = max(np.abs(other).max(initial=0.0), TINY)
            np.testing.assert_allclose(
                one, other, rtol=rtol, atol=rtol * size, err_msg=name
            )


def draws(estimator, X, y, new):
    """Return draws of a posterior."""
    return estimator.sample_y(new, 2, random_state=0)


def latent(estimator, X, y, new):
    """Return latent means, with deviations."""
    return estimator.predict_latent(new, return_std=True)


def gradient(estimator, X, y, new):
    """Return derivatives by pixels."""
    return estimator.latent_gradient(new[:2])


def plan(estimator, X, y, new):
    """Return what a plan says that is no measurement."""
    found = estimator.plan(X, y)
    return found.n_pairs, found.sample_bytes, len(found.stages)


# How each public method is called. A method that is missing here fails a test.
CALLS: dict[str, Callable[..., object]] = {
    "predict": lambda e, X, y, new: e.predict(new),
    "predict_proba": lambda e, X, y, new: e.predict_proba(new),
    "predict_log_proba": lambda e, X, y, new: e.predict_log_proba(new),
    "decision_function": lambda e, X, y, new: e.decision_function(new),
    "predict_latent": latent,
    "predict_interval": lambda e, X, y, new: e.predict_interval(new),
    "sample_y": draws,
    "score": lambda e, X, y, new: e.score(X, y),
    "loo_predict": lambda e, X, y, new: e.loo_predict(),
    "loo_predict_proba": lambda e, X, y, new: e.loo_predict_proba(),
    "log_marginal_likelihood": lambda e, X, y, new: e.log_marginal_likelihood(),
    "elbo": lambda e, X, y, new: e.elbo(),
    "latent_gradient": gradient,
    "plan": plan,
    "transform": lambda e, X, y, new: e.transform(new),
    "staged_transform": lambda e, X, y, new: list(e.staged_transform(new)),
    "inverse_transform": lambda e, X, y, new: e.inverse_transform(e.transform(new)),
    "bit_probabilities": lambda e, X, y, new: e.bit_probabilities(new),
    "decode": lambda e, X, y, new: e.decode(e.transform(new)),
    "for_prediction": lambda e, X, y, new: e.for_prediction().predict(new),
    "get_feature_names_out": lambda e, X, y, new: e.get_feature_names_out(),
    "partial_fit": lambda e, X, y, new: e.partial_fit(X, y),
}

PATCHES = kernels.PatchKernel(kernels.rbf(1.0), patch_size=3)
CONV = tiny_network()


def _cases() -> list[Case]:
    rbf = kernels.rbf
    gp, gpr = sk.ConvNetGPClassifier, sk.ConvNetGPRegressor
    ny, nyr = sk.NystromCompletedGP, sk.NystromCompletedGPRegressor
    few = {"max_iter": 2}
    completions = [
        completion.Nystrom(n_landmarks=12),
        completion.EnsembleNystrom(n_members=2),
        completion.IterativeSVD(rank=4, **few),
        completion.SoftImpute(**few),
        completion.MatrixFactorization(rank=4, **few),
        completion.SubsetOfData(),
        completion.RandomFeatures(40),
        completion.NearestNeighbors(8),
    ]
    members = [("one", gp(rbf(2.0))), ("two", gp(rbf(4.0)))]
    network = {"hidden_layer_sizes": (8,), "n_draws": 2, "max_iter": 6}
    inducing = {"n_inducing": 8}
    softmax, robust = likelihoods.Softmax(), likelihoods.RobustMax()
    return [
        Case(gp(CONV, likelihood=likelihoods.Gaussian())),
        Case(gp(rbf(), likelihood=likelihoods.Dirichlet())),
        Case(gp(rbf(), likelihood=likelihoods.Laplace())),
        Case(gp(rbf(), likelihood=likelihoods.Beta()), n_classes=2),
        Case(gp(rbf(), solver=solvers.ConjugateGradient())),
        Case(gp(rbf(2.0), optimizer=flows.LBFGS(max_iter=2))),
        Case(gp(CONV, augment=augmentation.Flip())),
        Case(gp(CONV, augment=augmentation.Shift())),
        Case(gp(CONV, completion=completion.CoarseKernel(pool=2))),
        *(Case(gp(rbf(), completion=part)) for part in completions),
        Case(gpr(rbf(), solver=solvers.Cholesky())),
        Case(gpr(rbf(), solver=solvers.RefinedCholesky(tolerance=1e-10))),
        Case(gpr(rbf(), solver=solvers.Lsqr())),
        Case(gpr(rbf(), completion=completion.RandomFeatures(40))),
        Case(gpr(rbf(), completion=completion.NearestNeighbors(8))),
        Case(ny(rbf(), n_landmarks=12)),
        Case(ny(rbf(), n_landmarks=12, landmarks="kmeans")),
        Case(nyr(rbf(), n_landmarks=12, variance="fitc")),
        Case(
            sk.KernelFlowsClassifier(
                rbf(2.0), optimizer=flows.Adam(**few), objective=flows.Rho()
            )
        ),
        Case(sk.KernelFlowsRegressor(rbf(2.0), optimizer=flows.GradientDescent(**few))),
        Case(
            sk.KernelFlowsRegressor(
                rbf(2.0),
                optimizer=flows.BayesianOptimization(n_initial=2, max_iter=3),
            )
        ),
        Case(sk.KernelEnsembleClassifier(members)),
        Case(sk.PatchGPClassifier(PATCHES, **inducing)),
        Case(sk.PatchGPClassifier(PATCHES, likelihood=softmax, **inducing)),
        Case(sk.PatchGPClassifier(PATCHES, likelihood=robust, **inducing)),
        Case(
            sk.PatchGPClassifier(
                PATCHES,
                optimizer=flows.VariationalBound(max_iter=3, batch_size=16),
                **inducing,
            )
        ),
        Case(
            sk.PatchGPClassifier(
                PATCHES, likelihood=likelihoods.Bernoulli(), **inducing
            ),
            n_classes=2,
        ),
        Case(sk.PatchGPRegressor(PATCHES, **inducing)),
        Case(sk.ImageClassifier([CONV, (transforms.Downsample(2), rbf())])),
        Case(sk.ImageClassifier()),
        Case(sk.ImageRegressor([rbf(), CONV])),
        Case(sk.BayesianNetworkClassifier(**network)),
        Case(sk.BayesianNetworkRegressor(**network)),
        Case(sk.KernelFeatures(rbf(), 12)),
        Case(sk.KernelFeatures(rbf(), completion.Nystrom(n_landmarks=12))),
        Case(sk.KernelFlowsWarp(rbf(2.0), n_steps=2)),
        Case(sk.BinaryEncoder(6, n_features=50, max_iter=2, early_stopping=False)),
        *(
            Case(getattr(transforms, name)())
            for name in transforms.__all__
            if name not in EXEMPT
        ),
    ]


CASES = [
    Case(case.new(random_state=0), case.n_classes)
    if "random_state" in case.estimator.get_params(deep=False)
    else case
    for case in _cases()
]

# One case of each class.
CLASSES = list({type(case.estimator): case for case in reversed(CASES)}.values())


def _kernels() -> list[kernels.Kernel]:
    k = kernels
    layers = [
        k.ReLU(),
        k.LeakyReLU(0.1),
        k.Abs(),
        k.Erf(),
        k.Identity(),
        k.Sin(),
        k.GELU(),
        k.Tanh(),
        k.Sigmoid(),
        k.SiLU(),
        k.Softplus(),
        k.Elementwise(torch.tanh),
    ]
    flat = [k.Flatten(), k.Dense()]
    activations = [k.Sequential(*flat, each, k.Dense()) for each in layers]
    conv = k.Conv2d(3)
    ends = [k.Flatten(), k.Dense()]
    return [
        *activations,
        k.Sequential(conv, k.ReLU(), k.AvgPool2d(2), *ends),
        k.Sequential(conv, k.ReLU(), k.GlobalAvgPool2d(), k.Dense()),
        k.MaxNormalization(k.Sequential(conv, k.Residual(k.ReLU(), conv), *ends)),
        k.Sequential(k.Sum(conv, k.Conv2d(5)), k.ReLU(), *ends),
        k.FlipAverage(CONV),
        k.Sequential(conv, k.LayerNorm(), k.ReLU(), k.Dropout(0.2), *ends),
        k.OrbitAverage(CONV),
        k.rbf(2.0).on([8, 9, 20]) + k.dot_product().on(3),
        k.Scale(k.rbf(1.0), 2.0) + k.rbf(2.0) * k.rbf(3.0),
        k.Sum(k.rbf(1.0), k.Product(k.rbf(2.0), k.dot_product())),
        k.matern(1.0),
        k.polynomial(),
        k.arcsine(),
        k.optical(),
        PATCHES.resolve(digits(N)[0]),
        k.convnet(depth=1, kernel_size=3, kind="ntk"),
        k.residual_convnet(depth=3),
        k.resnet32(),
        k.three_layer_convnet(),
        k.dense(2),
        k.convnet_gap(2),
        k.myrtle(5),
    ]


KERNELS = _kernels()


def _of_kernel(kernel: kernels.Kernel) -> list[np.ndarray]:
    """Return covariances and their derivatives."""
    X, _ = digits(3)
    gram, slopes = sk.gram_gradient(kernel, X)
    weights = np.arange(9.0).reshape(3, 3)
    by_theta, by_pixels = sk.gram_vjp(kernel, X, X, weights)
    values = [sk.gram_matrix(kernel, X), sk.gram_diag(kernel, X)]
    return [*values, gram, slopes, by_theta, by_pixels]


def _of_scikit_learn() -> list[np.ndarray]:
    """Return what our kernel computes for scikit-learn."""
    X = digits(4)[0].reshape(4, -1)
    kernel = sk.as_sklearn_kernel(kernels.rbf(2.0))
    return [*kernel(X, eval_gradient=True), kernel.diag(X)]


def _from_scikit_learn() -> list[np.ndarray]:
    """Return what a kernel of scikit-learn computes for us."""
    X, _ = digits(4)
    kernel = sk.from_sklearn_kernel(RationalQuadratic(2.0))
    gram, slopes = sk.gram_gradient(kernel, X)
    return [sk.gram_matrix(kernel, X), sk.gram_diag(kernel, X), gram, slopes]


def _of_selection() -> list[np.ndarray]:
    """Return the scores of two kernels."""
    X, y = digits(N)
    models = {one: sk.ConvNetGPClassifier(kernels.rbf(one)) for one in (2.0, 4.0)}
    report = sk.selection_report(
        {str(one): gp for one, gp in models.items()}, X, y % 3, n_batches=1
    )
    return [np.asarray(report.values)]


def _of_questions(
    ask: Callable[..., Any], *, is_label: bool = True
) -> list[np.ndarray]:
    """Return what a fitted estimator answers."""
    X, y = digits(N)
    y = y % 3 if is_label else y.astype(np.float64)
    cls = sk.ConvNetGPClassifier if is_label else sk.ConvNetGPRegressor
    return [np.asarray(ask(cls(CONV).fit(X[:-6], y[:-6]), X[-6:]))]


def _of_audit() -> list[np.ndarray]:
    """Return the findings in a training set."""
    X, y = digits(N)
    found = questions.audit(sk.ConvNetGPClassifier(CONV).fit(X, y % 3))
    names = ("wrong_labels", "near_copies", "outliers", "confused_classes")
    return [np.asarray(getattr(found, name)) for name in names]


def _of_robustness() -> list[np.ndarray]:
    """Return what an attack does to a process."""
    X, y = digits(N)
    gp = sk.ConvNetGPClassifier(CONV).fit(X, y % 3)
    curve = metrics.robustness_curve(gp, X[:6], y[:6] % 3, [0.0, 0.1])
    return [np.asarray(value) for value in curve.values()]


LABELS = np.arange(30) % 3
PROBABILITIES = np.random.default_rng(0).dirichlet(np.ones(3), 30)
TRUE, MEAN, STD = np.random.default_rng(0).uniform(0.5, 1.5, (3, 30))
SQUARE = np.cov(np.random.default_rng(0).normal(size=(4, 9)))
FUNCTIONS: dict[str, Callable[[], object]] = {
    **{f"kernel {part!r}": partial(_of_kernel, part) for part in KERNELS},
    "as_sklearn_kernel": _of_scikit_learn,
    "from_sklearn_kernel": _from_scikit_learn,
    "selection_report": _of_selection,
    "robustness_curve": _of_robustness,
    "prediction_set": partial(
        _of_questions, partial(questions.prediction_set, level=0.8)
    ),
    "prediction_interval": partial(
        _of_questions, questions.prediction_interval, is_label=False
    ),
    "novelty": partial(_of_questions, questions.novelty),
    "audit": _of_audit,
    "attribution": partial(_of_questions, questions.attribution),
    "representer_points": lambda: list(_of_questions(questions.representer_points)),
    "select_threshold": partial(
        questions.select_threshold, LABELS, PROBABILITIES, risk=0.95
    ),
    "query": partial(_of_questions, partial(questions.query, n=3)),
    **{
        name: partial(getattr(metrics, name), LABELS, PROBABILITIES)
        for name in (
            "accuracy_rejection_auc_score",
            "accuracy_rejection_curve",
            "brier_decomposition",
            "expected_calibration_error",
        )
    },
    "reliability_table": lambda: list(
        metrics.reliability_table(LABELS, PROBABILITIES).values()
    ),
    **{
        name: partial(getattr(metrics, name), TRUE, MEAN, STD)
        for name in ("interval_coverage", "negative_log_predictive_density")
    },
    "rho_path": lambda: [
        one.numpy()
        for one in flows.rho_path(
            torch.from_numpy(SQUARE), torch.from_numpy(TRUE[:4, None])
        )
    ],
    "interval_width": lambda: metrics.interval_width(STD),
    "gaussian_wasserstein": lambda: metrics.gaussian_wasserstein(SQUARE, 2.0 * SQUARE),
    "split_rhat": lambda: metrics.split_rhat(np.stack([TRUE, MEAN, STD])),
    **{
        name: partial(getattr(datasets, name), 20, random_state=0)
        for name in datasets.__all__
        if name.startswith("make_")
    },
}


def names_in(value: object) -> set[str]:
    """Return the names of all classes of an object and its settings."""
    found = {type(value).__name__}
    if hasattr(value, "get_params"):
        parts = value.get_params(deep=False).values()
    else:
        parts = value if isinstance(value, list | tuple) else []
    return found.union(*map(names_in, parts))
