"""Completions from a mask hold what they say."""

import pytest

from skconvgp.completion import IterativeSVD, MatrixFactorization, SoftImpute
from tests.helpers.memory import needs_peak, peak_memory

N_SAMPLES = 1500
SLACK = 2**20

SETUP = """
import torch
from skconvgp.completion import IterativeSVD, MatrixFactorization, SoftImpute
from tests.helpers.oracles import PlainOracle, low_rank, seeded

def oracle(n):
    return PlainOracle(low_rank(n, 5) + 0.05 * low_rank(n, n, seed=2))

method = {method}
method.complete(oracle(600), 0.2, seeded())
large = oracle({n})
"""


@needs_peak
@pytest.mark.parametrize(
    ("method", "pattern"),
    [
        (IterativeSVD, "blocks"),
        (MatrixFactorization, "landmarks"),
        pytest.param(SoftImpute, "blocks", marks=pytest.mark.slow),
        pytest.param(IterativeSVD, "landmarks", marks=pytest.mark.slow),
        pytest.param(MatrixFactorization, "blocks", marks=pytest.mark.slow),
        pytest.param(SoftImpute, "landmarks", marks=pytest.mark.slow),
    ],
)
def test_peak_is_as_told(method, pattern):
    part = method(rank=30, pattern=pattern, max_iter=3)
    setup = SETUP.format(method=repr(part), n=N_SAMPLES)
    peak = peak_memory(setup, "method.complete(large, 0.2, seeded())")
    assert peak <= 8 * part.n_values(N_SAMPLES, 0.2) + SLACK
