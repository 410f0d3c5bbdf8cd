"""Source of the kernels for a GPU: what is constant in it, and that it compiles."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from skconvgp.backends._cuda_source import KERNEL_NAME, cuda_source, layout_of
from skconvgp.backends._nvrtc import compile_cuda, known_architectures
from skconvgp.backends._opcodes import Column
from skconvgp.backends._program import lower, lower_with_tangents
from skconvgp.kernels import (
    Conv2d,
    Erf,
    Flatten,
    ReLU,
    Sequential,
    convnet,
    convnet_gap,
    dense,
    myrtle,
    residual_convnet,
    resnet32,
)
from tests.helpers.fused import NETWORKS, every_network

MNIST, CIFAR = (1, 28, 28), (3, 32, 32)
slow = pytest.mark.slow
NUMBERS = re.compile(r"-?\d+")


def lowered(kernel, shape, n_tangents=0):
    """Return the program of a network as a GPU runs it."""
    kernel.check(shape)
    if n_tangents:
        return lower_with_tangents(kernel, shape, n_tangents, roots=1)[0][0]
    return lower(kernel, shape, roots=1)


def tuples_of(source, name):
    """Return the numbers of each item of an array of the source."""
    text = re.search(rf"{name}\[\] = \{{(.*)\}};", source)[1]
    items = re.findall(r"\{((?:[^{}]|\{[^{}]*\})*)\}", text)
    return [[int(n) for n in NUMBERS.findall(item)] for item in items]


@every_network
@pytest.mark.parametrize("n_tangents", [0, 3])
def test_segments_are_the_program(name, n_tangents):
    program = lowered(*NETWORKS[name], n_tangents)
    source = cuda_source(program, is_double=False)
    played, tables = [], []  # operations as the source has them, in the order they run
    for first, n_ops, times, step in tuples_of(source, "segments"):
        for time in range(times):
            played += range(first, first + n_ops)
            tables += [
                program.codes[i, Column.TABLE] + time * step for i in played[-n_ops:]
            ]
    others = np.delete(program.codes, Column.TABLE, axis=1)
    assert np.array_equal(others[played], others)
    assert np.array_equal(program.slopes[played], program.slopes)
    own, has_table = program.codes[:, Column.TABLE], program.codes[:, Column.ROOTS] > 0
    assert np.array_equal(np.array(tables)[has_table], own[has_table])


@pytest.mark.parametrize(
    ("kernel", "shape", "n_stages"),
    [
        (convnet(), MNIST, 5),  # the first layer may meet negative covariances
        (convnet(depth=60), MNIST, 6),
        (residual_convnet(), MNIST, 5),
        (resnet32(), MNIST, 14),
    ],
)
def test_layers_that_are_alike_are_compiled_once(kernel, shape, n_stages):
    source = cuda_source(lowered(kernel, shape), is_double=False)
    assert len(tuples_of(source, "segments")) <= n_stages


@pytest.mark.parametrize("n_tangents", [0, 2])
def test_hyperparameters_are_no_constants(n_tangents):
    kernel = convnet(depth=3)
    other = kernel.with_theta(kernel.theta + 0.3)
    sources = {
        cuda_source(lowered(k, MNIST, n_tangents), is_double=False)
        for k in (kernel, other)
    }
    assert len(sources) == 1


def test_precision_and_sizes_are_constants():
    program = lowered(convnet(depth=2), MNIST)
    other = lowered(convnet(depth=2), (1, 28, 27))
    sources = [
        cuda_source(program, is_double=False),
        cuda_source(program, is_double=True),
        cuda_source(other, is_double=False),
    ]
    assert len(set(sources)) == 3


@pytest.mark.parametrize(
    ("kernel", "shape", "n_tangents", "is_double", "pairs", "n_parts", "fits"),
    [
        (convnet(), MNIST, 0, False, (2, 2), 1, True),
        (convnet(), MNIST, 0, True, (2, 1), 1, True),
        (convnet(), MNIST, 3, False, (1, 1), 1, True),
        (convnet(), MNIST, 2, True, (1, 1), 1, False),
        (convnet(), CIFAR, 0, False, (2, 1), 1, True),
        (convnet(), (1, 64, 64), 0, False, (1, 1), 2, True),
        (convnet(), (1, 33, 33), 0, True, (1, 1), 2, False),
        (dense(), (1, 1, 500), 0, False, (2, 2), 1, True),
        (convnet_gap(5), CIFAR, 0, False, (2, 2), 1, True),
        (convnet_gap(20), CIFAR, 0, False, (2, 1), 1, True),
        (convnet_gap(5), (3, 40, 40), 0, False, (2, 2), 2, True),
        (myrtle(5), CIFAR, 0, False, (2, 2), 1, False),
    ],
)
def test_layout(kernel, shape, n_tangents, is_double, pairs, n_parts, fits):
    layout = layout_of(lowered(kernel, shape, n_tangents), is_double=is_double)
    assert (layout.pairs, layout.n_parts, layout.in_registers) == (pairs, n_parts, fits)


def test_memory_of_maps_behind_pools():
    # Two rows of displacements of 16 x 16 and of 8 x 8 maps, of which a lane has one
    # column, and the register that a map behind a pool is moved to; four pairs.
    layout = layout_of(lowered(myrtle(5), CIFAR), is_double=False)
    assert layout.n_bytes == 4 * 4 * (2 * 16 * 16 + 2 * 8 * 8 + 32)


MIXED = Sequential(
    Conv2d((3, 2), stride=2, dilation=2, bias_variance=0.1),
    ReLU(),
    Conv2d(3, padding="circular"),
    Erf(),
    Conv2d(2, padding=1),
    ReLU(),
    Flatten(),
)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc here")
@pytest.mark.parametrize(
    ("kernel", "shape", "n_tangents", "is_double", "architecture"),
    [
        (convnet(), MNIST, 0, False, "sm_90"),
        (dense(), (1, 1, 50), 2, False, "sm_100"),
        (convnet(2, 3, pooling="local"), (3, 8, 32), 0, False, "sm_90"),
        pytest.param(convnet_gap(5), CIFAR, 0, False, "sm_90", marks=slow),
        pytest.param(myrtle(5), CIFAR, 0, False, "sm_90", marks=slow),
        pytest.param(convnet(), MNIST, 0, False, "sm_80", marks=slow),
        pytest.param(convnet(), MNIST, 0, False, "sm_100", marks=slow),
        pytest.param(convnet(), MNIST, 0, True, "sm_90", marks=slow),
        pytest.param(convnet(), MNIST, 3, False, "sm_90", marks=slow),
        pytest.param(convnet(), CIFAR, 0, False, "sm_100", marks=slow),
        pytest.param(convnet(), (3, 64, 64), 0, False, "sm_90", marks=slow),
        pytest.param(residual_convnet(), MNIST, 0, False, "sm_90", marks=slow),
        pytest.param(resnet32(), MNIST, 0, False, "sm_90", marks=slow),
        pytest.param(MIXED, (2, 12, 35), 3, True, "sm_80", marks=slow),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_source_compiles(kernel, shape, n_tangents, is_double, architecture, tmp_path):
    program = lowered(kernel, shape, n_tangents)
    source = tmp_path / "kernel.cu"
    source.write_text(cuda_source(program, is_double=is_double), encoding="utf-8")
    command = ["nvcc", "-std=c++17", "-fmad=false", f"-arch={architecture}", "-cubin"]
    files = [str(source), "-o", str(tmp_path / "kernel.cubin")]
    done = subprocess.run(
        [*command, "-Xptxas", "-v", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if layout_of(program, is_double=is_double).in_registers:
        assert "0 bytes stack frame, 0 bytes spill stores" in done.stderr


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc here")
@pytest.mark.parametrize("is_double", [False, True])
def test_no_covariance_becomes_an_integer(is_double, tmp_path):
    program = lowered(myrtle(5), (3, 8, 8), 0)
    (tmp_path / "pools.cu").write_text(cuda_source(program, is_double=is_double))
    target = tmp_path / "pools.ptx"
    command = ["nvcc", "-std=c++17", "-arch=sm_90", "-ptx", "-o", target]
    subprocess.run([*map(str, command), str(tmp_path / "pools.cu")], check=True)
    text = target.read_text()
    assert "shfl.sync" in text
    assert not re.search(r"cvt\.r[a-z]i\.[su]\d+\.f", text)


def find_nvrtc():
    """Return a version of CUDA whose run-time compiler is there, and what it knows."""
    for version in ("13.0", "12.8"):
        try:
            return version, known_architectures(version)
        except OSError:
            continue
    return "", []


VERSION, KNOWN = find_nvrtc()
needs_nvrtc = pytest.mark.skipif(
    not VERSION, reason="there is no NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)


@needs_nvrtc
@pytest.mark.parametrize(
    ("kernel", "shape", "n_tangents", "is_double", "architecture"),
    [
        *(
            pytest.param(convnet(), MNIST, 0, False, architecture, marks=slow)
            for architecture in ("sm_70", "sm_75", "sm_90", "sm_100")
        ),
        *(
            (convnet(depth=1, kernel_size=3), (1, 3, 4), 0, False, architecture)
            for architecture in ("sm_70", "sm_75", "sm_90")
        ),
        (myrtle(5), (3, 8, 8), 0, False, "sm_90"),
        (convnet(2, 3, pooling="local"), (1, 5, 40), 2, True, "sm_80"),
        *(
            pytest.param(
                *NETWORKS[name], n_tangents, is_double, architecture, marks=marks
            )
            for name, n_tangents, is_double, architecture, marks in (
                ("128 columns", 0, False, "sm_100", slow),
                ("leaky", 3, False, "sm_80", ()),
                ("windows of all kinds", 2, False, "sm_100", slow),
                ("dense, many numbers", 1, True, "sm_90", ()),
            )
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_compiler_of_torch_takes_it(kernel, shape, n_tangents, is_double, architecture):
    if architecture not in KNOWN:
        pytest.skip(f"NVRTC {VERSION} does not know {architecture}")
    source = cuda_source(lowered(kernel, shape, n_tangents), is_double=is_double)
    binary = compile_cuda(source, architecture, VERSION)
    assert binary.startswith(b"\x7fELF")
    assert KERNEL_NAME.encode() in binary


@needs_nvrtc
def test_compiler_of_torch_says_what_is_wrong():
    with pytest.raises(
        RuntimeError, match=r'(?s)does not compile for sm_90.*"nothing"'
    ):
        compile_cuda("int a = nothing;", "sm_90", VERSION)
