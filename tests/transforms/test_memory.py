"""Peak memory of transformers, in a process of its own."""

from tests.helpers.memory import needs_peak, peaks

pytestmark = needs_peak

MIB, N, SIDE = 2**20, 8000, 12
SETUP = """
import numpy as np
from skconvgp.transforms import *

X = np.random.default_rng(0).random(({n}, 1, {side}, {side})).astype(np.float32)
transformers = [
    kind(memory_budget="1 MiB")
    for kind in (ChannelScaler, ChannelWhitening, ContrastNormalization, ZCAWhitening)
]
for one in transformers:
    one.fit(X[:2000])
few = ZCAWhitening(memory_budget="1 MiB").fit(X[:100])
scattering = ScatteringTransform(J=1, L=2, order=1, memory_budget="1 MiB").fit(X)
for one in (*transformers, scattering):  # libraries take their buffers
    one.transform(X[:100])
"""


def test_fits_read_a_block_of_images_at_a_time():
    """All images in double precision would take 9 MiB, and a thousand of them 1."""
    calls = [f"transformers[{i}].fit(X)" for i in range(4)] + ["few.fit(X[:100])"]
    *channels, pixels, few = peaks(SETUP.format(n=N, side=SIDE), calls)
    beside = MIB // 2  # what the interpreter takes meanwhile
    assert max(channels) <= MIB + beside
    assert pixels <= MIB + 8 * 5 * SIDE**4 + beside
    assert few <= MIB + 8 * (4 * 100**2 + 100 * SIDE**2) + beside


def test_images_are_transformed_a_block_at_a_time():
    """Spectra of all images would take 31 MiB."""
    calls = [f"transformers[{i}].transform(X)" for i in range(4)]
    *others, scattered = peaks(
        SETUP.format(n=N, side=SIDE), [*calls, "scattering.transform(X)"]
    )
    image = 4 * SIDE**2
    assert max(others) <= N * image + MIB + MIB // 2
    # Three channels at a quarter of the positions.
    assert scattered <= N * image * 3 // 4 + MIB + MIB // 2
