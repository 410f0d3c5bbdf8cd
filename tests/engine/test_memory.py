"""Peak memory, measured in a process of its own."""

import pytest

from tests.helpers.fused import needs_extension
from tests.helpers.memory import needs_peak, peak_memory

pytestmark = needs_peak

MIB = 2**20

FIT = """
import numpy as np
from skconvgp import ConvNetGPClassifier
from skconvgp.kernels import convnet

random = np.random.default_rng(0)
X, y = random.random((3000, 28, 28)), random.integers(0, 10, 3000)
kernel = convnet(depth=2, kernel_size=3)
gp = ConvNetGPClassifier(kernel, memory_budget="512 MiB")
"""


@pytest.mark.slow
def test_fit_of_3000_images_holds_512_mib_beside_the_matrix_and_its_factor():
    matrix_and_factor = 2 * 8 * 3000**2
    peak = peak_memory(FIT, "gp.fit(X, y)", is_exact=False)
    assert peak <= matrix_and_factor + 512 * MIB


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


# Tables take nearly half of the larger budget; the factor takes 17 MiB.
PREDICT = """
import numpy as np
from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import rbf

random = np.random.default_rng(0)
X, y = random.random((1500, 2500)), random.random(1500)
X_new = random.random((2000, 2500))
gp = ConvNetGPRegressor(rbf(30.0), image_shape=None, memory_budget="{budget} MiB")
gp.fit(X, y)
gp.predict(X_new[:10], return_std=True)
"""


@pytest.mark.parametrize("budget", [8, 64])
def test_prediction_stays_within_a_small_budget(budget):
    setup = PREDICT.replace("{budget}", str(budget))
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


@pytest.mark.parametrize(
    ("n_matrices", "call"),
    [
        (2, "make().fit(X, y)"),
        (2, "make(kernel='precomputed').fit(gram, y)"),
        (2, "make(kernel='precomputed').fit(half, y)"),
        (5, "make('loo').fit(X, y, sample_weight=weights)"),
        (5, "make('evidence').fit(X, y)"),
        (0, "gp.predict(X, return_std=True)"),
        (0, "gp.loo_predict()"),
        (2, "make().sample_y(X, 2)"),
    ],
)
def test_no_matrix_is_held_beside_those_that_are_counted(n_matrices, call):
    matrix = 8 * 1500**2
    # Of a budget of 4 MiB, and blocks of 256 columns that stand outside it.
    assert peak_memory(SOLVE, call) <= n_matrices * matrix + (4 + 6) * MIB


CONTRACTION = """
import numpy as np
from skconvgp import gram_vjp
from skconvgp.kernels import convnet

rng = np.random.default_rng(0)
X, G = rng.random((60, 28, 28)), rng.normal(size=(60, 60))
gram_vjp(convnet(), X[:5], None, G[:5, :5])
"""


@pytest.mark.parametrize(("budget", "inputs"), [(6, False), (20, True)])
def test_contraction_holds_tiles_only(budget, inputs):
    # The graph of all pairs holds 7 layers of two maps: 160 MiB.
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
X, coloured = rng.random((120, 28, 28)), rng.random((40, 3, 128, 128))
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
    "large images": "gram_matrix(kernel, coloured, backend='fused', "
    "memory_budget='{} MiB')",
}


@needs_extension
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(
    ("name", "budget", "result"),
    [("gradient", 8, 4 * 120**2 * 17), ("large images", 29, 0)],
)
def test_workspaces_of_the_fused_backend_are_within_the_budget(
    name, budget, result, n_threads
):
    setup = WORKSPACE.replace("{n_threads}", str(n_threads))
    call = CALLS[name].format(n_threads * budget)
    assert peak_memory(setup, call) <= result + (n_threads * budget + 2) * MIB


@needs_extension
@pytest.mark.parametrize(("name", "budget"), [("gradient", 4), ("large images", 8)])
def test_workspaces_that_do_not_fit_are_refused_before_they_are_held(name, budget):
    setup = WORKSPACE.replace("{n_threads}", "1")
    call = REFUSED.replace("{call}", CALLS[name].format(budget))
    assert peak_memory(setup, call) <= 2 * MIB
