"""What users are told of wrong settings, word for word.

`messages.txt` holds the warnings and the error of each wrong setting of each public
estimator, up to the first work of a fit. If a change of words is meant, write it anew
by `python -m tests.contracts.test_messages`, and read the differences.
"""

import math
import warnings
from collections import defaultdict
from functools import cache, partial
from pathlib import Path

import pytest

from skconvgp import (
    BayesianNetworkRegressor,
    BinaryEncoder,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    KernelFeatures,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    gram_matrix,
)
from skconvgp.augmentation import Flip
from skconvgp.completion import (
    CoarseKernel,
    NearestNeighbors,
    Nystrom,
    RandomFeatures,
    SubsetOfData,
)
from skconvgp.estimators._warn import WARNED
from skconvgp.flows import LBFGS, Rho
from skconvgp.kernels import PatchKernel, convnet, rbf
from skconvgp.solvers import ConjugateGradient
from tests.helpers.estimators import digits
from tests.helpers.public import CLASSES, CONV, PATCHES
from tests.helpers.work import WorkError, no_work

SEPARATOR = " ; "
FILE = Path(__file__).with_name("messages.txt")


class Nonsense:
    """What no setting may be."""

    def __repr__(self):
        return "Nonsense()"


class Maker:
    """What makes networks."""

    def __call__(self):
        return None

    def __repr__(self):
        return "Maker()"


MAKER = Maker()
X, LABELS = digits(24)
Y = LABELS % 3
ROWS = X.reshape(len(X), -1)
WEIGHTS = [2.0] + [1.0] * 23
FOR_ALL = [Nonsense(), None, "nonsense", True, -1, 0, 1.5, ()]
MORE = {  # values for some parameters, beside those for all
    "augment": [Flip, [Flip(), Flip()], [Flip(), 1]],
    "completion": [RandomFeatures, NearestNeighbors(8)],
    "device": ["cuda:99", "cuda:x", "gpu"],
    "dtype": ["float16"],
    "features": [RandomFeatures, Nystrom(landmarks="stratified"), SubsetOfData()],
    "image_shape": [(3, 3), (8, 8, 8, 8), (64,)],
    "inducing": [[[1.0]], ["kmeans", "kmeans"]],
    "kernel": [rbf, "precomputed", PatchKernel(patch_size=9)],
    "likelihood": ["softmax", "bernoulli", "dirichlet", "beta", "laplace", Rho()],
    "memory_budget": ["2 XB", "-1 GB", math.inf],
    "n_batches": [10**7],
    "n_jobs": ["2"],
    "n_locations": [(1,), [1, 2], (0, 1)],
    "noise_variance": ["loo", "evidence", math.inf],
    "objective": [Rho, Rho(noise_variance=0.0)],
    "optimizer": [LBFGS, "evidence", "loo", "elbo", "amplitude"],
    "part_weights": [[1.0], [1.0, -1.0], [0.0, 0.0], [math.nan, 1.0]],
    "parts": [[], [(1,)], [rbf], [(None, None, rbf())], "patches", [(1, rbf())]],
    "random_state": [-2, 2**32],
    "solver": ["cg", ConjugateGradient],
    "weight_variance": [1e31],
}
LEFT_OUT = {"cache_dir"}  # writes
GP, GPR = ConvNetGPClassifier, ConvNetGPRegressor
COMBINATIONS = [
    GP(rbf(), augment=Flip(), image_shape=None),
    GP(CONV, augment=Flip(), optimizer="evidence"),
    GP(CONV, augment=Flip(), completion=NearestNeighbors(8)),
    GP(CONV, augment=Flip(), likelihood="dirichlet"),
    GP(convnet(), optimizer="evidence"),
    GP(rbf(9.0, lengthscale_bounds=(1.0, 2.0)), optimizer="evidence"),
    GP(rbf(), optimizer="evidence", amplitude=1.0),
    GP(rbf(), optimizer="evidence", completion=RandomFeatures(8), solver="cg"),
    GP(rbf(), optimizer="loo", completion=NearestNeighbors(8), amplitude=None),
    GP(rbf(), likelihood="dirichlet", noise_variance="loo"),
    GP(rbf(), likelihood="laplace", solver="cg"),
    GP(rbf(), likelihood="laplace", completion=RandomFeatures(8)),
    GP(rbf(2.0), completion=CoarseKernel(pool=2)),
    GP(rbf(), completion=NearestNeighbors(8), solver="cg"),
    GP(CONV, image_shape=None),
    GPR(rbf(), optimizer="loo", noise_variance=0.0),
    GPR(rbf(), optimizer="evidence", solver="lsqr"),
    NystromCompletedGP(rbf(), likelihood="laplace"),
    NystromCompletedGPRegressor(rbf(), variance="fitc", noise_variance="evidence"),
    KernelFlowsClassifier(rbf(), batch_size=2),
    KernelFlowsClassifier(rbf(), batch_size=[4, 99]),
    KernelFlowsClassifier(convnet()),
    KernelFlowsClassifier("precomputed"),
    KernelFlowsRegressor(rbf(9.0, lengthscale_bounds=(1.0, 2.0))),
    PatchGPClassifier(rbf(2.0)),
    PatchGPClassifier(PATCHES * rbf(2.0)),
    PatchGPClassifier(PATCHES, inference="collapsed", likelihood="softmax"),
    PatchGPClassifier(PATCHES, inference="variational", likelihood="dirichlet"),
    PatchGPClassifier(PATCHES, likelihood="laplace"),
    PatchGPClassifier(PATCHES, likelihood="softmax", batch_size=0),
    PatchGPClassifier(PATCHES, likelihood="softmax", learning_rate=2.0),
    PatchGPRegressor(PATCHES + rbf(), n_inducing=[4]),
    PatchGPRegressor(PATCHES + rbf(), n_locations=[4]),
    PatchGPRegressor(PATCHES, optimizer="evidence", amplitude=1.0),
    ImageClassifier([CONV], image_shape=None),
    ImageClassifier([PatchKernel(patch_size=9)]),
    ImageClassifier("patches", image_shape=None),
    ImageClassifier(image_shape=None, noise_variance=0.1),
    ImageClassifier(likelihood="dirichlet"),
    BayesianNetworkRegressor(prior="matched"),
    BayesianNetworkRegressor(prior="matched", kernel=rbf(), network=MAKER),
    BayesianNetworkRegressor(kernel=rbf()),
    BayesianNetworkRegressor(inference="sghmc", early_stopping=True),
    BayesianNetworkRegressor(network=MAKER, optimizer=None),
    BinaryEncoder(4, gradient="score", n_draws=1),
    BinaryEncoder(4, gradient="analytic", head=len),
    KernelFeatures("precomputed"),
]
# Of fitted estimators: settings that are set later, and arguments.
LATER = ["device", "backend", "memory_budget", "n_jobs", "verbose", "random_state"]
ARGUMENTS = {"n_samples": [0, 1.5, None], "method": ["x", None], "n_features": [1, "a"]}
ARGUMENTS |= {"random_state": [-1, "a"]}


def told(call, *args, **options):
    """Return the warnings and the error of a call, up to the first work."""
    WARNED.clear()
    with warnings.catch_warnings(record=True) as caught, no_work():
        warnings.simplefilter("always")
        try:
            call(*args, **options)
            ended = []
        except WorkError:
            ended = []
        except Exception as error:
            ended = [f"{type(error).__name__}: {error}"]
    return [f"{one.category.__name__}: {one.message}" for one in caught] + ended


def settings(case):
    """Yield a name, a value, a class, and what is told of that setting."""
    owner, (samples, y, _) = type(case.estimator).__name__, case.data()
    for name in case.estimator.get_params(deep=False):
        for value in () if name in LEFT_OUT else FOR_ALL + MORE.get(name, []):
            yield name, value, owner, told(case.new(**{name: value}).fit, samples, y)


def combinations():
    """Yield the same of settings that do not go together."""
    for one in COMBINATIONS:
        yield "fit", one, type(one).__name__, told(one.fit, X, Y)
    for cls in GP, GPR, NystromCompletedGP, NystromCompletedGPRegressor:
        for given in X, ROWS[:, :9], ROWS[:, :24]:
            found = told(cls("precomputed").fit, given, Y)
            yield "precomputed", given.shape, cls.__name__, found
    for one in GP(rbf(), optimizer="loo"), GP(rbf(), likelihood="laplace"):
        yield "weights", one, type(one).__name__, told(one.fit, X, Y, WEIGHTS)
    for one in GP(), ImageClassifier(), PatchGPClassifier(likelihood="softmax"):
        found = told(getattr, one, "partial_fit")
        yield "partial_fit", one, type(one).__name__, found
    for one in PatchGPClassifier(), ImageClassifier("patches"), NystromCompletedGP():
        for classes in None, [0, 1]:
            found = told(one.partial_fit, X, Y, classes)
            yield "classes", classes, type(one).__name__, found


def functions():
    """Yield the same of a function."""
    for name in "device", "backend", "dtype", "memory_budget", "n_jobs", "verbose":
        for value in FOR_ALL + MORE.get(name, []):
            found = told(gram_matrix, rbf(), X, **{name: value})
            yield name, value, "gram_matrix", found


def later():
    """Yield the same of fitted estimators: settings, and arguments of a method."""
    for cls in GP, GPR, NystromCompletedGP, ImageClassifier:
        one = [rbf(2.0)] if cls is ImageClassifier else rbf(2.0)
        fitted = cls(one, random_state=0).fit(X, Y)
        before = fitted.get_params(deep=False)
        for name in LATER:
            for value in FOR_ALL + MORE.get(name, []):
                fitted.set_params(**{name: value})
                yield name, value, cls.__name__, told(fitted.predict, X)
                fitted.set_params(**{name: before[name]})
        for name, values in ARGUMENTS.items():
            for value in values:
                found = told(fitted.sample_y, X, **{name: value})
                yield f"sample_y {name}", value, cls.__name__, found


GROUPS = {type(case.estimator).__name__: partial(settings, case) for case in CLASSES}
GROUPS |= {one.__name__: one for one in (combinations, functions, later)}


def messages(group):
    """Return by group, setting, class and value what a group tells."""
    found = {}
    for name, value, owner, words in GROUPS[group]():
        shown = " ".join(repr(value).split())
        text = " | ".join(" ".join(one.split()) for one in words)
        text = text.replace(owner, "{}")
        for got in "Got", "got":
            text = text.replace(f"{got} {shown}", f"{got} {{value}}")
        if text:
            kind = "settings" if owner == group else group
            found[kind, name, owner, shown] = text
    return found


def write(found):
    """Write messages, each once for the classes and values that have it."""
    owners, values = defaultdict(list), defaultdict(list)
    for (kind, name, owner, shown), text in found.items():
        owners[kind, name, text, shown].append(owner)
    for (kind, name, text, shown), having in owners.items():
        values[kind, name, ", ".join(having), text].append(shown)
    FILE.write_text(
        "".join(
            f"{kind}: {name} of {having}: {SEPARATOR.join(shown)}\n    {text}\n"
            for (kind, name, having, text), shown in sorted(values.items())
        )
    )


@cache
def known():
    """Return what the file has, as `messages` does."""
    lines = FILE.read_text().splitlines()
    found = {}
    for line, text in zip(lines[::2], lines[1::2], strict=True):
        kind, what, shown = line.split(": ", 2)
        name, owners = what.split(" of ")
        for owner in owners.split(", "):
            for value in shown.split(SEPARATOR):
                found[kind, name, owner, value] = text.strip()
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_messages_of_wrong_settings_are_those_of_the_file(group):
    expected = {
        key: text
        for key, text in known().items()
        if group == key[0] or (key[0] == "settings" and group == key[2])
    }
    assert messages(group) == expected


if __name__ == "__main__":
    write({key: text for group in GROUPS for key, text in messages(group).items()})
