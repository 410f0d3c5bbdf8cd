"""KernelFlowsWarp: what it reaches, and how it behaves as a transformer."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skconvgp import KernelFlowsWarp
from skconvgp.kernels import rbf

SUITE = parametrize_with_checks(
    [KernelFlowsWarp(), KernelFlowsWarp(rbf(), solver="rk45", n_steps=5)]
).mark
SUITE_NAMES, SUITE_CASES = SUITE.args


@pytest.mark.parametrize(SUITE_NAMES, list(SUITE_CASES), **SUITE.kwargs)
def test_scikit_learn_check(estimator, check):
    check(estimator)
