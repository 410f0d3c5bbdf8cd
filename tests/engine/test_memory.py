"""Peak memory, measured in a process of its own."""

import functools

import pytest
import torch

from skconvgp.backends import ReferenceBackend
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    GlobalAvgPool2d,
    ReLU,
    Sequential,
)
from tests.helpers.fused import needs_extension
from tests.helpers.memory import needs_peak, peak_memory, peaks

pytestmark = needs_peak

MIB = 2**20

FIT = """
import numpy as np
from skconvgp import ConvNetGPClassifier
from skconvgp.kernels import convnet

random = np.random.default_rng(0)
X, y = random.random(({n}, 28, 28)), random.integers(0, 10, {n})
kernel = convnet(depth=2, kernel_size=3)
gp = ConvNetGPClassifier(kernel, memory_budget="{budget} MiB")
gp.fit(X[:50], y[:50])
"""


# What the allocator keeps is counted by the slow ones: a program of its own starts.
@pytest.mark.parametrize(
    ("n", "budget", "is_exact"),
    [(600, 32, True)]
    + [
        pytest.param(n, budget, False, marks=pytest.mark.slow)
        for n, budget in ((600, 32), (3000, 512))
    ],
)
def test_fit_holds_its_budget_beside_the_matrix_and_its_factor(n, budget, is_exact):
    matrix_and_factor = 2 * 8 * n**2
    setup = FIT.format(n=n, budget=budget)
    peak = peak_memory(setup, "gp.fit(X, y)", is_exact=is_exact)
    assert peak <= matrix_and_factor + budget * MIB


GRAM = """
import numpy as np
from skconvgp import gram_matrix
from skconvgp.kernels import convnet

X = np.random.default_rng(0).random((200, 20, 20))
kernel = convnet(depth=2, kernel_size=3)
gram_matrix(kernel, X[:50])
"""


def test_gram_matrix_stays_within_a_small_budget():
    # With all the memory it wants it takes 25 MiB.
    call = "gram_matrix(kernel, X, memory_budget='6 MiB')"
    matrix = 8 * 200**2
    assert peak_memory(GRAM, call) <= matrix + (6 + 2) * MIB


# Tables of 1500 samples take nearly half of the larger budget, their factor 17 MiB.
PREDICT = """
import numpy as np
from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import rbf

random = np.random.default_rng(0)
X, y = random.random(({n}, 2500)), random.random({n})
X_new = random.random(({n}, 2500))
gp = ConvNetGPRegressor(rbf(30.0), image_shape=None, memory_budget="{budget} MiB")
gp.fit(X, y)
gp.predict(X_new[:10], return_std=True)
"""


@pytest.mark.parametrize(
    ("n", "budget"),
    [(600, 8)] + [pytest.param(1500, m, marks=pytest.mark.slow) for m in (8, 64)],
)
def test_prediction_stays_within_a_small_budget(n, budget):
    setup = PREDICT.format(n=n, budget=budget)
    call = "gp.predict(X_new, return_std=True)"
    assert peak_memory(setup, call) <= (budget + 4) * MIB


SOLVE = """
import numpy as np
from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import rbf

random = np.random.default_rng(0)
X, y, weights = random.random((1500, 5)), *random.uniform(0.5, 1.5, (2, 1500))
distances = ((X[:, None] - X) ** 2).sum(-1)
gram = np.exp(-distances)
half = gram.astype(np.float32)
half.flags.writeable = False
del distances

def make(noise=1e-2, kernel=rbf(1.0)):
    settings = {"noise_variance": noise, "device": "cpu", "memory_budget": "4 MiB"}
    return ConvNetGPRegressor(kernel, **settings)

make().fit(X[:50], y[:50]).loo_predict()
make("loo").fit(X[:50], y[:50])
make(kernel="precomputed").fit(half[:50, :50], y[:50])
gp = make().fit(X, y)
gp.predict(X[:10], return_std=True)
"""


POOLS = [(2, 2), (3, 1), (5, 1)]  # windows and strides: apart, and overlapping


def pooled_tile(size, stride, n):
    """Return a backend with a pool between convolutions, and both sides of a tile."""
    conv = Conv2d(3, weight_variance=2.0)
    pool = AvgPool2d(size, stride=stride, padding="same")
    layers = conv, ReLU(), pool, conv, ReLU(), GlobalAvgPool2d(), Dense()
    backend = ReferenceBackend(Sequential(*layers))
    one, two = (backend.prepare(images) for images in torch.rand(2, n, 1, 12, 12))
    return backend, one, two


POOLED = """
from tests.engine.test_memory import POOLS, pooled_tile

for pool in POOLS:
    backend, *sides = pooled_tile(*pool, 2)
    backend.cross(*sides)
tiles = [pooled_tile(*pool, 24) for pool in POOLS]
"""


@pytest.mark.slow
def test_maps_behind_pools_that_overlap_are_counted():
    calls = [f"tiles[{i}][0].cross(*tiles[{i}][1:])" for i in range(len(POOLS))]
    for peak, pool in zip(peaks(POOLED, calls), POOLS, strict=True):
        costs = pooled_tile(*pool, 1)[0].measure(torch.zeros(1, 1, 12, 12))
        assert 0.5 < peak / (24**2 * costs.pair_bytes) < 1.05


HELD_MATRICES = {
    "make().fit(X, y)": 2,
    "make(kernel='precomputed').fit(gram, y)": 2,
    "make(kernel='precomputed').fit(half, y)": 2,
    "make('loo').fit(X, y, sample_weight=weights)": 5,
    "make('evidence').fit(X, y)": 5,
    "gp.predict(X, return_std=True)": 0,
    "gp.loo_predict()": 0,
    "make().sample_y(X, 2)": 2,
}


@functools.cache
def peaks_of_solving():
    """Measure all in one process: its start takes longer than what is measured."""
    return dict(zip(HELD_MATRICES, peaks(SOLVE, list(HELD_MATRICES)), strict=True))


@pytest.mark.parametrize("call", HELD_MATRICES)
def test_no_matrix_is_held_beside_those_that_are_counted(call):
    held = HELD_MATRICES[call] * 8 * 1500**2
    # Of a budget of 4 MiB, and blocks of 256 columns that stand outside it.
    assert peaks_of_solving()[call] <= held + (4 + 6) * MIB


CONTRACTION = """
import numpy as np
from skconvgp import gram_vjp
from skconvgp.kernels import convnet

rng = np.random.default_rng(0)
X, G = rng.random((32, 28, 28)), rng.normal(size=(32, 32))
gram_vjp(convnet(), X[:5], None, G[:5, :5])
"""


@pytest.mark.parametrize(("budget", "inputs"), [(6, False), (20, True)])
def test_contraction_holds_tiles_only(budget, inputs):
    # The graph of all pairs holds 7 layers of two maps: 45 MiB.
    call = f"gram_vjp(convnet(), X, None, G, inputs={inputs}, "
    call += f"memory_budget='{budget} MiB')"
    assert peak_memory(CONTRACTION, call) <= (budget + 2) * MIB


def test_the_measure_sees_what_is_allocated():
    assert peak_memory("", "bytearray(b'x') * (50 * 2**20)") >= 49 * MIB


WORKSPACE = """
import numpy as np
import torch
from skconvgp import gram_gradient, gram_matrix
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import convnet

torch.set_num_threads({n_threads})
rng = np.random.default_rng(0)
X, coloured = rng.random(({n_small}, 28, 28)), rng.random(({n_large}, 3, 128, 128))
kernel = convnet().unshared()
gram_matrix(kernel, coloured[:2, :, :20, :20], backend="fused")
gram_gradient(kernel, X[:2, :8, :8], backend="fused")
"""
REFUSED = """
try:
    {call}
except TileMemoryError:
    pass
else:
    raise AssertionError("it was not refused")
"""
CALLS = {
    "gradient": "gram_gradient(kernel, X, backend='fused', memory_budget='{} MiB')",
    "large images": "gram_matrix(kernel, coloured, backend='fused', dtype='float32', "
    "memory_budget='{} MiB')",
}


# Workspaces are the same for a few images and for many, whose tiles must fit beside.
@needs_extension
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(
    ("n_small", "n_large"), [(12, 4), pytest.param(120, 40, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("name", "budget"), [("gradient", 8), ("large images", 29)])
def test_workspaces_of_the_fused_backend_are_within_the_budget(
    name, budget, n_small, n_large, n_threads
):
    setup = WORKSPACE.format(n_small=n_small, n_large=n_large, n_threads=n_threads)
    call = CALLS[name].format(n_threads * budget)
    result = 4 * n_small**2 * 17 if name == "gradient" else 0
    assert peak_memory(setup, call) <= result + (n_threads * budget + 2) * MIB


@needs_extension
def test_workspaces_that_do_not_fit_are_refused_before_they_are_held():
    setup = WORKSPACE.format(n_small=12, n_large=4, n_threads=1)
    calls = [
        REFUSED.replace("{call}", CALLS[name].format(budget))
        for name, budget in [("gradient", 4), ("large images", 8)]
    ]
    assert max(peaks(setup, calls)) <= 2 * MIB


FEATURES = """
import numpy as np
from skconvgp import KernelFeatures
from skconvgp.kernels import convnet

X = np.random.default_rng(0).random((4, 14, 14))
few, phi = (
    KernelFeatures(convnet(2, 3), r, memory_budget="6 MiB", random_state=0).fit(X)
    for r in (10, 500)
)
few.transform(X)
"""


def test_features_of_networks_stay_within_a_small_budget():
    # The weights of the readout are 48 MiB in double precision.
    assert peak_memory(FEATURES, "phi.transform(X)") <= (6 + 2) * MIB
