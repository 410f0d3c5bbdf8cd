"""Values of the fused backend: how exact they are, and that only the pair matters."""

import os
import pickle
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from skconvgp import gram_gradient, gram_matrix
from skconvgp.backends import _fused_cpu
from skconvgp.datasets import fetch_mnist
from skconvgp.kernels import (
    Abs,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    LeakyReLU,
    ReLU,
    Residual,
    Sequential,
    Sum,
    convnet,
    resnet32,
)
from tests.helpers.fused import (
    BOUNDS,
    MNIST_NETWORKS,
    MNIST_SOURCES,
    NETWORKS,
    assert_values,
    assert_within,
    both_dtypes,
    every_instruction_set,
    every_network,
    fused,
    fused_tangents,
    hard_images,
    hard_problem,
    images,
    needs_extension,
    reference,
    tile,
    tiny_weights,
    variances,
)

__all__ = ["every_instruction_set"]

pytestmark = needs_extension
FOLDER = os.environ.get("SKCONVGP_DATA")
HAS_MNIST = FOLDER is not None and (Path(FOLDER) / "mnist.npz").is_file()


@both_dtypes
@every_network
def test_values_are_those_of_the_reference(name, dtype, every_instruction_set):
    kernel, shape = NETWORKS[name]
    assert_values(fused(kernel, shape), *hard_problem(name, dtype))


@both_dtypes
@pytest.mark.parametrize("name", MNIST_NETWORKS)
@pytest.mark.parametrize("source", MNIST_SOURCES)
def test_networks_for_mnist_on_images_of_its_size(name, source, dtype):
    kernel, shape = MNIST_NETWORKS[name], (1, 28, 28)
    given = source(8)
    given[1] = given[0] * (1.0 + 1e-6 * images(1, shape, seed=1)[0])
    given[2] = -given[0]
    given = given.to(dtype)
    assert_values(fused(kernel, shape), given, *reference(kernel, given))


@pytest.mark.skipif(not HAS_MNIST, reason="SKCONVGP_DATA names no folder with mnist")
@both_dtypes
@pytest.mark.parametrize("name", MNIST_NETWORKS)
def test_networks_for_mnist_on_mnist(name, dtype):
    kernel = MNIST_NETWORKS[name]
    X = fetch_mnist(n_samples=12).data
    given = torch.as_tensor(X).reshape(-1, 1, 28, 28).to(dtype)
    given[1] = given[0] * (1.0 + 1e-5)
    given[2] = -given[0]
    assert_values(fused(kernel, (1, 28, 28)), given, *reference(kernel, given))


@both_dtypes
@pytest.mark.parametrize("slope", [-1.0, -0.5, 0.0, 0.2, 1.0, 3.0])
def test_every_slope(slope, dtype, every_instruction_set):
    layers = [Conv2d(3, weight_variance=1.5), LeakyReLU(slope)]
    kernel = Sequential(*layers, Conv2d(3), LeakyReLU(slope), Flatten(), Dense())
    given = hard_images((2, 5, 6)).to(dtype)
    assert_values(fused(kernel, (2, 5, 6)), given, *reference(kernel, given))


@both_dtypes
@pytest.mark.parametrize("size", [1e-9, 1e-3, 1e-1, 30.0, 1e3, 1e9])
@pytest.mark.parametrize("kernel", [convnet(3, 3, bias_variance=0.0), resnet32()])
def test_images_of_any_size_without_bias(kernel, size, dtype):
    shape = (1, 8, 8)
    given = (size * hard_images(shape)).to(dtype)
    given[12] /= size  # pairs of very different sizes too
    assert_values(fused(kernel, shape), given, *reference(kernel, given))


@both_dtypes
@pytest.mark.parametrize("bias", [0.0, 0.1])
@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((1, 1, 5000), 1),
        ((1, 5000, 1), 1),
        ((2, 70, 80), 1),
        ((1, 1, 1000), (1, 7)),
        ((1, 1000, 1), (7, 1)),
        pytest.param((1, 1, 12000), (1, 7), marks=pytest.mark.slow),
        pytest.param((1, 12000, 1), (7, 1), marks=pytest.mark.slow),
        pytest.param((1, 12000, 2), 7, marks=pytest.mark.slow),
    ],
)
def test_sums_over_many_positions(shape, window, bias, dtype):
    # Equal terms are rounded in one direction only.
    sizes = torch.tensor([0.3, 0.7, 0.9], dtype=torch.float64)
    given = sizes.reshape(3, 1, 1, 1).expand(3, *shape).to(dtype)
    layers = (Conv2d(window, bias_variance=bias), ReLU()) * 2
    kernel = Sequential(*layers, Flatten(), Dense())
    backend, (covariances, diag) = fused(kernel, shape), reference(kernel, given)
    assert_within(tile(backend, given), covariances, diag, BOUNDS[dtype])
    assert_within(tile(backend, given[:1]), diag[:1, None], diag[:1], 1e-12)


@both_dtypes
def test_bright_pixels_that_a_stride_drops(dtype):
    layers = (Conv2d(3), ReLU(), Conv2d(1, stride=4), Flatten(), Dense())
    kernel, given = Sequential(*layers), images(8, (1, 12, 12))
    given[:, 0, 4, 2] = 10.0
    given[:, 0, 2, 4] = 10.0
    given = given.to(dtype)
    assert_values(fused(kernel, (1, 12, 12)), given, *reference(kernel, given))


@both_dtypes
@pytest.mark.parametrize("size", [2.0**-20, 2.0**20])
def test_powers_of_two_pass_a_network_without_bias_exactly(size, dtype):
    kernel = Sequential(Conv2d(3), ReLU(), Conv2d(3), ReLU(), Flatten(), Dense())
    backend, given = fused(kernel, (1, 5, 5)), images(9, (1, 5, 5)).to(dtype)
    assert torch.equal(tile(backend, size * given), size**2 * tile(backend, given))


@both_dtypes
def test_maps_that_would_overflow_are_scaled_down(dtype):
    layers = [Conv2d(5, weight_variance=2.0, bias_variance=0.1), ReLU()] * 30
    kernel, shape = Sequential(*layers, Flatten(), Dense()), (1, 8, 8)
    given = hard_images(shape).to(dtype)
    covariances, expected = reference(kernel, given)
    assert_values(fused(kernel, shape), given, covariances, expected)
    assert torch.finfo(torch.float32).max < 25.0**30


@both_dtypes
def test_branches_that_would_overflow_are_scaled_down(dtype):
    block = Residual(Conv2d(7, weight_variance=30.0, bias_variance=1.0), ReLU())
    kernel, shape = Sequential(*[block] * 14, Flatten(), Dense()), (1, 6, 7)
    given = hard_images(shape).to(dtype)
    assert_values(fused(kernel, shape), given, *reference(kernel, given))


@both_dtypes
def test_biases_that_are_much_larger_than_what_the_images_bring(dtype):
    pair = (Conv2d(3, weight_variance=1e-4, bias_variance=1e4), ReLU())
    kernel, shape = Sequential(*pair * 5, Flatten(), Dense()), (1, 6, 7)
    given = hard_images(shape).to(dtype)
    assert_values(fused(kernel, shape), given, *reference(kernel, given))


@both_dtypes
@pytest.mark.parametrize("weight", [1e-4, 1e-40, 1e-100])
@pytest.mark.parametrize(
    "activation", [ReLU(), Abs(), Erf(), LeakyReLU(0.3), LeakyReLU(2.0)], ids=repr
)
def test_biases_behind_tiny_weights(activation, weight, dtype):
    shape = (1, 6, 7)
    given = hard_images(shape).to(dtype)
    for kernel in tiny_weights(weight, activation).values():
        assert_values(fused(kernel, shape), given, *reference(kernel, given))


@both_dtypes
@pytest.mark.parametrize("ratio", [1e-30, 1e-60, 1e-200])
def test_branches_of_very_different_sizes(ratio, dtype):
    shape = (1, 6, 7)
    large = Conv2d(3, weight_variance=1e60, bias_variance=1e60)
    small = Conv2d(3, weight_variance=1e60 * ratio, bias_variance=1e60)
    kernel = Sequential(Sum(small, large), ReLU(), Residual(small, ReLU()), Flatten())
    given = hard_images(shape).to(dtype)
    assert_values(fused(kernel, shape), given, *reference(kernel, given))


def test_erf_of_variances_that_only_double_precision_holds():
    layers = (Conv2d(3, weight_variance=1e-60), Erf(), Conv2d(3), Erf(), Flatten())
    kernel, shape = Sequential(*layers), (1, 6, 7)
    given = images(5, shape)
    assert_values(fused(kernel, shape), given, *reference(kernel, given))
    assert bool(torch.isnan(variances(fused(kernel, shape), given.float())).all())


def test_erf_of_variances_beyond_single_precision():
    kernel, shape = (
        Sequential(Conv2d(3, weight_variance=1e60), Erf(), Flatten()),
        (1, 4, 4),
    )
    given = torch.full((1, *shape), 1e-12)
    assert not bool(torch.isfinite(variances(fused(kernel, shape), given)).any())


TAKES_BIAS = {
    "at once": convnet(2, 3, bias_variance=0.1),
    "later": Sequential(
        ReLU(), Conv2d(3), ReLU(), Conv2d(3, bias_variance=1.0), Flatten()
    ),
    "at the end": Sequential(Conv2d(3), Abs(), Flatten(), Dense(bias_variance=1.0)),
    "beside": Sequential(Residual(ReLU(), Conv2d(3, bias_variance=1.0)), Flatten()),
}
TAKES_NONE = {
    "rectifiers": convnet(3, 3, bias_variance=0.0),
    "erf": Sequential(Conv2d(3), Erf(), Conv2d(3), Erf(), Flatten()),
    "no activation": Sequential(Conv2d(3), Flatten()),
    "points": Sequential(Flatten(), Dense(), ReLU(), Dense()),
    "residual": resnet32(),
}
SMALL = {torch.float32: range(13, 31), torch.float64: range(138, 171)}
LARGEST_SMALL = {torch.float32: 14, torch.float64: 139}  # exponents that maps hold


@both_dtypes
@pytest.mark.parametrize("name", TAKES_BIAS)
def test_tiny_images_do_not_matter_beside_a_bias(name, dtype):
    kernel, shape = TAKES_BIAS[name], (2, 6, 7)
    for exponent in SMALL[dtype]:
        given = (hard_images(shape) * 10.0**-exponent).to(dtype)
        assert_values(fused(kernel, shape), given, *reference(kernel, given))


@both_dtypes
@pytest.mark.parametrize("name", TAKES_NONE)
def test_tiny_images_are_right_or_have_no_variance(name, dtype):
    kernel, shape = TAKES_NONE[name], (2, 6, 7)
    backend, refused = fused(kernel, shape), []
    for exponent in SMALL[dtype]:
        given = (images(5, shape) * 10.0**-exponent).to(dtype)
        given[3] = 0.0
        diag = variances(backend, given)
        assert diag[3] == 0.0
        refused.append(bool(torch.isnan(diag).any()))
        is_held = torch.isfinite(diag)
        given = given[is_held]
        assert_values(backend, given, *reference(kernel, given))
    assert refused == sorted(refused)
    n_held = LARGEST_SMALL[dtype] - SMALL[dtype][0]
    assert not any(refused[:n_held])
    assert all(refused[-8:])


@both_dtypes
@pytest.mark.parametrize("name", [*TAKES_NONE, *TAKES_BIAS])
@pytest.mark.parametrize("faint", [1e-10, 1e-17, 1e-20, 1e-30])
def test_faint_parts_beside_bright_ones(faint, name, dtype):
    kernel, shape = (TAKES_NONE | TAKES_BIAS)[name], (2, 6, 7)
    given = images(6, shape)
    given[1:, :, 3:] *= faint
    given[2:, :, :, 1:] *= faint
    given = given.to(dtype)
    assert_values(fused(kernel, shape), given, *reference(kernel, given))


def test_faint_part_that_a_stride_keeps():
    kernel = Sequential(ReLU(), Conv2d(1, stride=4), ReLU(), Conv2d(1), Flatten())
    given = images(3, (1, 8, 8))
    given[0, :, ::4, ::4] = 1e-20
    diag = variances(fused(kernel, (1, 8, 8)), given.float())
    assert torch.isnan(diag).tolist() == [True, False, False]
    assert_values(fused(kernel, (1, 8, 8)), given, *reference(kernel, given))


@pytest.mark.parametrize("size", [1e-20, 1e20])
def test_error_says_what_to_do_about_numbers_of_any_size(size):
    kernel, X = convnet(2, 3, bias_variance=0.0), size * images(4, (1, 5, 5)).numpy()
    words = r"4 of 4 samples is not finite.*dtype='float64', scale X to numbers near 1"
    for compute in (gram_matrix, gram_gradient):
        with pytest.raises(ValueError, match=words):
            compute(kernel, X, dtype="float32", backend="fused")
        compute(kernel, X, dtype="float64", backend="fused")


@both_dtypes
def test_variance_is_infinite_where_maps_do_not_hold_it(dtype):
    kernel, shape = convnet(2, 3, bias_variance=0.0), (1, 4, 4)
    given = images(3, shape).to(dtype)
    given[1] *= float(torch.finfo(dtype).max) ** 0.5
    backend = fused(kernel, shape)
    diag = backend.diag(backend.prepare(given))
    assert torch.isfinite(diag).tolist() == [True, False, True]


@both_dtypes
def test_variance_of_pixels_that_are_no_numbers_is_not_finite(dtype):
    given = images(4, (1, 4, 4)).to(dtype)
    given[1, 0, 2, 2], given[2, 0, 0, 0] = torch.nan, torch.inf
    backend = fused(convnet(2, 3), (1, 4, 4))
    diag = backend.diag(backend.prepare(given))
    assert torch.isfinite(diag).tolist() == [True, False, False, True]


@pytest.mark.parametrize("n", [0, 1])
def test_empty_sets(n):
    backend = fused(convnet(depth=1), (1, 3, 3))
    none, some = backend.prepare(images(n, (1, 3, 3))), images(3, (1, 3, 3))
    assert backend.diag(none).shape == (n,)
    assert backend.gram(none).shape == (n, n)
    assert backend.cross(none, backend.prepare(some)).shape == (n, 3)
    assert backend.cross(backend.prepare(some), none).shape == (3, n)


def test_images_may_lie_in_memory_in_any_order():
    backend = fused(convnet(depth=1), (2, 3, 4))
    given = images(5, (2, 3, 4))
    turned = given.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    assert not turned.is_contiguous()
    assert torch.equal(tile(backend, turned), tile(backend, given))
    many = images(10, (2, 3, 4))
    assert torch.equal(tile(backend, many[::2]), tile(backend, many[::2].clone()))


@pytest.mark.parametrize("build", [fused, fused_tangents])
def test_backend_goes_to_another_process(build):
    backend = build(convnet(depth=1), (1, 3, 3))
    copy = pickle.loads(pickle.dumps(backend))
    given = images(4, (1, 3, 3))
    assert torch.equal(tile(copy, given), tile(backend, given))


def test_instruction_set_that_is_asked_for_is_used(monkeypatch):
    names = _fused_cpu.instruction_sets()
    assert names[-1] == "baseline"
    assert _fused_cpu.instruction_set() == names[0]
    monkeypatch.setattr(_fused_cpu, "INSTRUCTION_SET", "baseline")
    assert _fused_cpu.instruction_set() == "baseline"
    monkeypatch.setattr(_fused_cpu, "INSTRUCTION_SET", "mmx")
    with pytest.raises(ValueError, match="instruction set 'mmx' is not available"):
        tile(fused(convnet(depth=1), (1, 3, 3)), images(2, (1, 3, 3)))


@pytest.fixture
def no_forced_switches():
    """Let a thread keep the interpreter until it gives it away."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("call", ["prepare", "cross"])
def test_interpreter_is_free_while_the_extension_computes(call, no_forced_switches):
    # Arrays of numpy are ready before: torch gives the interpreter away as well.
    backend = fused(convnet(depth=3), (1, 28, 28))
    count = 480 if call == "prepare" else 96  # some ten milliseconds a call
    given = images(count, (1, 28, 28)).float()
    tables, diag = (part.mT.contiguous().numpy() for part in backend.prepare(given))
    pixels = given.reshape(count, -1).numpy()
    program, native = backend.program, _fused_cpu._native
    head = (program.codes, program.constants, program.slopes, program.n_registers)
    if call == "prepare":
        tail = (pixels, tables, diag, "")
    else:
        out = np.empty((count, count, 1))
        tail = (784, tables, diag, tables, diag, False, out, "")
    is_free, events = threading.Lock(), []
    is_free.acquire()

    def other():
        with is_free:
            events.append("other thread")

    thread = threading.Thread(target=other)
    thread.start()
    is_free.release()
    give_up = time.monotonic() + 60.0  # a busy machine wakes a thread up when it likes
    while not events and time.monotonic() < give_up:
        getattr(native, call)(*head, *tail)
    assert events == ["other thread"]
    thread.join()


def test_erf_of_large_variances_saturates():
    kernel = Sequential(Flatten(), Dense(weight_variance=1e3), Erf(), Dense())
    given = hard_images((3, 1, 1))
    assert_values(fused(kernel, (3, 1, 1)), given, *reference(kernel, given))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_strides_of_single_values_do_not_matter(dtype):
    images = torch.linspace(0.0, 1.0, 5, dtype=dtype)[:, None, None, None]
    odd = images.as_strided((5, 1, 1, 1), (1, 7, 9, 11))
    kernel = Sequential(Flatten(), Dense(), ReLU(), Dense(bias_variance=0.5))
    backend = fused(kernel, (1, 1, 1))
    expected = tile(backend, images)
    assert torch.equal(tile(backend, odd), expected)
    assert torch.equal(tile(backend, odd[:1]), expected[:1, :1])
