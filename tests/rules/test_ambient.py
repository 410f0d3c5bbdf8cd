"""What the caller has set in torch and numpy changes no bit of what is computed."""

import os
import random
from contextlib import ExitStack, contextmanager
from functools import cache

import numpy as np
import pytest
import torch
from torch._inductor.runtime.cache_dir_utils import cache_dir

from skconvgp._ambient import COMPILER_CACHE, public
from tests.helpers.public import (
    CASES,
    FUNCTIONS,
    as_arrays,
    assert_same_bits,
    fitted_and_results,
)

# Cases are short of samples and steps.
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
)


@contextmanager
def default_dtype(dtype):
    """Set the precision that torch's own functions use if none is named."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def deterministic():
    """Let torch refuse what may differ from run to run."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def states_of_generators():
    """Return the states of the generators that all code of a process shares."""
    of_numpy = np.random.get_state(legacy=False)  # noqa: NPY002  (what users set)
    state = of_numpy["state"]
    of_torch = torch.get_rng_state().tolist()
    return random.getstate(), state["key"].tolist(), state["pos"], of_torch


@contextmanager
def generators():
    """Seed the generators that all code shares, and check that nothing draws."""
    random.seed(1)
    np.random.seed(2)  # noqa: NPY002  (what users set)
    torch.manual_seed(3)
    before = states_of_generators()
    yield
    assert states_of_generators() == before


def meta():
    """Stand for a default device that is not the CPU."""
    return torch.device("meta")


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16)


STATES = {
    "float64": [lambda: default_dtype(torch.float64)],
    "float16": [lambda: default_dtype(torch.float16)],
    "bfloat16": [lambda: default_dtype(torch.bfloat16)],
    "device": [meta],
    "autocast": [autocast],
    "no_grad": [torch.no_grad],
    "inference": [torch.inference_mode],
    "deterministic": [deterministic],
    "generators": [generators],
    "numpy": [lambda: np.errstate(all="raise")],
}
# All at once in the gate, and one by one to tell what it is.
STATES["all"] = [state for name in STATES for state in STATES[name]]
in_every_state = pytest.mark.parametrize(
    "state",
    [
        pytest.param(name, marks=[] if name == "all" else pytest.mark.slow)
        for name in STATES
    ],
)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@contextmanager
def under(state):
    """Set a state of torch as users do, and check that it is left so."""
    with ExitStack() as entered:
        for enter in STATES[state]:
            entered.enter_context(enter())
        before = ambient()
        yield
        assert ambient() == before


def ambient():
    """Return what the states set."""
    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_autocast_enabled("cpu"),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
        np.geterr(),
    )


@in_every_state
@every_case
def test_estimators_do_not_depend_on_the_state_of_torch(case, state):
    fitted, expected = fitted_and_results(case)
    with under(state):
        later = case.results(fitted)
        other = case.fit()
    assert_same_bits(later, expected)
    assert_same_bits(case.results(other), expected)


@cache
def result_of(name):
    return as_arrays(FUNCTIONS[name]())


@in_every_state
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_do_not_depend_on_the_state_of_torch(name, state):
    expected = result_of(name)
    with under(state):
        found = as_arrays(FUNCTIONS[name]())
    assert_same_bits({name: found}, {name: expected})


def test_the_compiler_of_torch_leaves_nothing_in_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv(COMPILER_CACHE, raising=False)
    assert public(cache_dir)()
    assert COMPILER_CACHE not in os.environ
    monkeypatch.setenv(COMPILER_CACHE, str(tmp_path))
    assert public(cache_dir)() == str(tmp_path)
    assert os.environ[COMPILER_CACHE] == str(tmp_path)
