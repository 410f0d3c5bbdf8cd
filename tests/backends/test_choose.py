"""The choice of a backend, with its reason."""

import pickle
import re
import runpy
import sys

import joblib
import pytest
import torch

from skconvgp.backends import (
    BACKENDS,
    BackendChoice,
    ReferenceBackend,
    ReverseTangentBackend,
    TangentBackend,
    choose_backend,
    instruction_set,
    missing_extension,
)
from skconvgp.backends import _choose as choose_module
from skconvgp.backends import _fused_cpu as door
from skconvgp.backends import _fused_cuda as gpu_door
from skconvgp.backends._fused import FusedBackend, FusedTangentBackend
from skconvgp.kernels import GELU, Conv2d, Dense, Flatten, Sequential, convnet, rbf
from tests.helpers.fused import images, needs_extension, tile

CPU, GPU = torch.device("cpu"), torch.device("cuda", 1)
SHAPE = (1, 5, 4)
NETWORK = convnet(depth=2, kernel_size=3)
WITH_GELU = Sequential(Conv2d(3), GELU(), Flatten(), Dense())


@pytest.fixture
def without_extension(monkeypatch):
    """Make it a machine without the compiled extension."""
    monkeypatch.setattr(door, "_MISSING", "the compiled extension was left at home")
    assert choose_module.missing_extension() == missing_extension() != ""


def choose(kernel=NETWORK, backend="auto", device=CPU):
    kernel.check(SHAPE)
    return choose_backend(kernel, SHAPE, backend, device)


def test_words():
    assert BACKENDS == ("auto", "torch", "fused")


@needs_extension
@pytest.mark.parametrize("backend", ["auto", "fused"])
def test_network_is_fused(backend):
    choice = choose(backend=backend)
    assert (choice.name, choice.reason) == ("fused", "")
    assert isinstance(choice.tiles(), FusedBackend)
    assert isinstance(choice.tangents(), FusedTangentBackend)


@pytest.mark.parametrize("kernel", [NETWORK, WITH_GELU, rbf(1.0)])
def test_torch_that_was_asked_for_has_no_reason(kernel):
    choice = choose(kernel, "torch")
    assert choice == BackendChoice(kernel, SHAPE, None)
    assert (choice.name, choice.reason) == ("torch", "")
    assert choice.tiles() == ReferenceBackend(kernel)
    assert choice.tangents() == ReverseTangentBackend(kernel)


@pytest.mark.parametrize("wrap", [lambda net: net, lambda net: 2.0 * net + rbf(1.0)])
def test_networks_with_pools_take_forward_mode(wrap):
    kernel = wrap(convnet(depth=1, kernel_size=3, pooling="global"))
    assert choose(kernel, "torch").tangents() == TangentBackend(kernel)


@needs_extension
def test_tiles_and_tangents_agree_with_torch():
    given = images(5, SHAPE)
    fused, plain = choose(), choose(backend="torch")
    value, both = tile(fused.tiles(), given), tile(fused.tangents(), given)
    expected = tile(plain.tangents(), given)
    assert both.shape == expected.shape == (5, 5, 3)
    torch.testing.assert_close(value, expected[..., 0], rtol=1e-11, atol=0.0)
    torch.testing.assert_close(both, expected, rtol=1e-10, atol=1e-10)


@needs_extension
def test_many_derivatives_are_computed_some_at_once():
    programs = choose(convnet(kernel_size=3).unshared()).tangents().programs
    assert [program.constants.shape[2] for program in programs] == [9, 9]


@pytest.mark.parametrize(
    ("kernel", "device", "reason"),
    [
        pytest.param(
            NETWORK,
            GPU,
            r"there are no fused kernels for device cuda:1: the compiler was not found",
            marks=needs_extension,
        ),
        pytest.param(
            WITH_GELU,
            CPU,
            r"layer1 of a Sequential: there are no fused kernels for GELU\(\)",
            marks=needs_extension,
        ),
        pytest.param(
            rbf(2.0),
            CPU,
            r"there are no fused kernels for rbf\(lengthscale=2.0\)",
            marks=needs_extension,
        ),
    ],
    ids=["device", "layer", "kernel"],
)
def test_reason_for_torch(kernel, device, reason, monkeypatch):
    monkeypatch.setattr(
        gpu_door, "missing_compiler", lambda: "the compiler was not found"
    )
    choice = choose(kernel, device=device)
    assert choice.name == "torch"
    assert choice.tiles() == ReferenceBackend(kernel)
    assert re.fullmatch(reason, choice.reason)
    message = f"backend='fused' cannot run this kernel: {reason}. Use backend='auto'"
    with pytest.raises(ValueError, match=message):
        choose(kernel, "fused", device)


def test_missing_extension_is_the_reason(without_extension):
    choice = choose()
    assert (choice.name, choice.program) == ("torch", None)
    assert choice.reason == "the compiled extension was left at home"
    with pytest.raises(
        ValueError, match=r"left at home\. Use backend='auto' or 'torch'"
    ):
        choose(backend="fused")
    assert instruction_set() == ""
    assert door.instruction_sets() == []


def test_extension_that_does_not_load_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "skconvgp.backends._native", None)
    missing = runpy.run_path(door.__file__)["_MISSING"]
    assert "compiled extension is not installed (" in missing
    assert "skconvgp.backends._native" in missing


@needs_extension
def test_instruction_set_is_named():
    assert missing_extension() == ""
    assert instruction_set() == door.instruction_sets()[0]


@needs_extension
@pytest.mark.parametrize("what", ["tiles", "tangents"])
@pytest.mark.processes
def test_backend_computes_in_other_processes(what):
    given = images(4, SHAPE)
    backend = getattr(choose(), what)()
    expected = tile(backend, given)
    assert torch.equal(tile(pickle.loads(pickle.dumps(backend)), given), expected)
    jobs = [joblib.delayed(tile)(backend, given)] * 2
    for values in joblib.Parallel(n_jobs=2, backend="loky")(jobs):
        assert torch.equal(values, expected)
