"""What a result of learning shows when it is printed."""

from dataclasses import replace

import numpy as np

from skconvgp.flows import FlowResult

RESULT = FlowResult(
    theta=np.log([2.0, 1e4]),
    labels=("lengthscale", "noise_variance"),
    rho=0.25,
    start_theta=np.log([1.0, 0.5]),
    start_rho=0.75,
    message="converged",
    theta_trace=np.zeros((300, 2)),
    rho_trace=np.linspace(0.75, 0.25, 300),
    seconds=np.linspace(0.0, 1.5, 300),
    evaluations=np.arange(300.0),
    n_evaluations=340,
    n_derivatives=300,
    n_restarts=2,
    bounds=np.array([[1e-4, 1e4], [1e-4, 1e4]]),
)


def test_a_result_prints_start_and_end_and_no_arrays():
    assert str(RESULT).splitlines() == [
        "objective       0.75 -> 0.25",
        "steps           300 in 1.50 s, 340 Gram matrices, 2 restarts",
        "ended           converged",
        "lengthscale     1 -> 2",
        "noise_variance  0.5 -> 10000 (a bound)",
    ]


def test_a_result_is_represented_on_a_line():
    expected = "rho=0.25, start_rho=0.75, n_steps=300, message='converged'"
    assert repr(RESULT) == f"FlowResult({expected})"


def test_a_result_without_steps_prints():
    empty = np.empty(0)
    bare = replace(RESULT, seconds=empty, rho_trace=empty, n_restarts=0)
    assert "steps           0, 340 Gram matrices\n" in str(bare)
