"""Settings of a kernel that is not named."""

import pytest

from skconvgp import (
    BayesianNetworkRegressor,
    ConvNetGPClassifier,
    KernelFlowsRegressor,
    KernelFlowsWarp,
    NystromCompletedGP,
    PatchGPClassifier,
    PatchGPRegressor,
)
from skconvgp.kernels import convnet

# With what the kernel None stands for.
ESTIMATORS = {
    BayesianNetworkRegressor: "rbf()",
    ConvNetGPClassifier: "convnet()",
    KernelFlowsRegressor: "rbf()",
    KernelFlowsWarp: "rbf()",
    NystromCompletedGP: "convnet()",
    PatchGPClassifier: "PatchKernel()",
    PatchGPRegressor: "PatchKernel()",
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kernel", [None, "precomputed"])
def test_settings_of_no_kernel_are_refused_and_the_remedy_is_named(estimator, kernel):
    with pytest.raises(ValueError, match="'kernel__depth' is a setting") as error:
        estimator(kernel=kernel).set_params(kernel__depth=3)
    assert f"for example kernel={ESTIMATORS[estimator]}, and" in str(error.value)


def test_a_kernel_may_come_together_with_its_settings():
    gp = ConvNetGPClassifier().set_params(kernel=convnet(), kernel__depth=3)
    assert gp.kernel.depth == 3
    assert gp.set_params(kernel__depth=2, random_state=1).kernel.depth == 2
