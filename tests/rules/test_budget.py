"""Rules over the list: a memory budget is kept, or refused before any work."""

import numpy as np
import pytest

from skconvgp.exceptions import TileMemoryError
from tests.helpers.memory import needs_peak, peaks
from tests.helpers.public import CALLS, CASES, as_arrays, fitted_and_results, offers

pytestmark = pytest.mark.filterwarnings("ignore")
LIMITED = [
    case for case in CASES if "memory_budget" in case.estimator.get_params(deep=False)
]
VALUES = ("predict_latent", "predict_proba", "predict", "transform")


def values_or_refusal(case, budget):
    """Return what a fit with a budget predicts, or its error."""
    X, y, new = case.data()
    try:
        fitted = case.fit(memory_budget=budget)
        return {
            name: as_arrays(CALLS[name](fitted, X, y, new))
            for name in VALUES
            if offers(fitted, name)
        }
    except TileMemoryError as error:
        return error


@pytest.mark.parametrize("budget", [1, "1 KiB", "64 KiB"])
@pytest.mark.parametrize("case", LIMITED, ids=lambda case: case.name)
def test_a_small_budget_is_enough_or_named(case, budget):
    found = values_or_refusal(case, budget)
    if isinstance(found, TileMemoryError):
        assert "`memory_budget`" in str(found)
        return
    _, expected = fitted_and_results(case)
    for name, arrays in found.items():
        for one, other in zip(arrays, expected[name], strict=True):
            if other.dtype.kind != "f":
                np.testing.assert_array_equal(one, other, err_msg=name)
                continue
            atol = 1e-5 * np.abs(other).max()
            np.testing.assert_allclose(one, other, atol=atol, err_msg=name)


N_TRAIN, N_NEW, SIDE = 300, 4000, 8
BUDGET, LARGE = 4 * 2**20, 2**30
RESULT = 4 * 2**20  # the largest, and small things
SETUP = f"""
import warnings
import numpy as np, torch
import skconvgp as sk
from skconvgp import completion, kernels, transforms
torch.set_num_threads(1)
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, new = (rng.random((n, 1, {SIDE}, {SIDE})) for n in ({N_TRAIN}, {N_NEW}))
y, rbf = np.arange(len(X)) % 3, kernels.rbf(2.0)
conv = kernels.convnet(depth=1, kernel_size=3)
patches = kernels.PatchKernel(kernels.rbf(1.0), patch_size=3)
models = dict(
    vectors=sk.ConvNetGPClassifier(rbf),
    network=sk.ConvNetGPClassifier(conv),
    features=sk.ConvNetGPRegressor(rbf, completion=completion.RandomFeatures(600)),
    neighbors=sk.ConvNetGPRegressor(rbf, completion=completion.NearestNeighbors(8)),
    nystrom=sk.NystromCompletedGP(rbf, n_landmarks=200),
    patches=sk.PatchGPClassifier(patches, n_inducing=100),
    images=sk.ImageClassifier([rbf, conv], flips=True),
    transformer=sk.KernelFeatures(rbf, 100),
    scattering=transforms.ScatteringTransform(1, 4),
)
for model in models.values():
    model.set_params(memory_budget={BUDGET}).fit(X, y)

def use(name, budget, samples):
    model = models[name].set_params(memory_budget=budget)
    calls = "predict_proba", "predict", "transform"
    try:
        getattr(model, next(call for call in calls if hasattr(model, call)))(samples)
    finally:
        model.set_params(memory_budget={BUDGET})

for name in models:
    use(name, {BUDGET}, new[:100])
"""
NAMES = ["vectors", "network", "features", "neighbors", "nystrom", "patches", "images"]
NAMES += ["transformer", "scattering"]
GREEDY = [
    "vectors",
    "features",
    "nystrom",
    "patches",
]  # with a large budget, to compare


@needs_peak
def test_predictions_stay_within_the_budget():
    within = [f"use({name!r}, {BUDGET}, new)" for name in NAMES]
    beyond = [f"use({name!r}, {LARGE}, new)" for name in GREEDY]
    found = peaks(SETUP, within + beyond)
    kept = dict(zip(NAMES, found[: len(NAMES)], strict=True))
    assert max(kept.values()) <= BUDGET + RESULT, kept
    assert min(found[len(NAMES) :]) > BUDGET + RESULT
