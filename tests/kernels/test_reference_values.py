"""Published and golden values; the digits are what was checked, not what is given."""

import json

import numpy as np
import pytest
import torch
from torch import Tensor

from skconvgp.kernels import (
    GELU,
    Abs,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    LeakyReLU,
    Maps,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sin,
    Sum,
)
from tests.golden import make_kernels
from tests.helpers.kernels import (
    ROOT_RTOL,
    assert_close,
    cross,
    diag,
    double,
    input_maps,
)
from tests.helpers.naive_kernels import wave_images

# a = 2, b = 0.7, c = 0.6
DUALS = [
    (ReLU(), 0.363090764545),
    (LeakyReLU(slope=0.1), 0.354103519282),
    (Abs(), 0.852363058181),
    (Erf(), 0.225198900618),
    (GELU(), 0.275958516174),
    (Sin(), 0.165046240577),
]

NET_A = Sequential(
    Conv2d(3, weight_variance=0.4 * 9, bias_variance=0.1),
    ReLU(),
    Conv2d(3, stride=2, padding=1, weight_variance=0.4 * 9, bias_variance=0.1),
    ReLU(),
    Conv2d(4, padding="valid", weight_variance=0.4, bias_variance=0.1),
)
NET_A_NNGP = (
    0.644099974718,
    0.559434036377,
    0.409530514808,
    0.640688890475,
    0.546130327605,
    0.620778594917,
)
NET_A_NTK = (
    1.712299924154,
    1.220572519718,
    0.654991852626,
    1.702066671424,
    1.181056847289,
    1.642335784751,
)

AFFINE = {"weight_variance": 1.6, "bias_variance": 0.1}
NET_D = Sequential(
    Flatten(),
    *(layer for _ in range(3) for layer in (Dense(**AFFINE), ReLU())),
    Dense(**AFFINE),
)
NET_D_NNGP = (
    0.747355854696,
    0.721098660471,
    0.584161452949,
    0.803666361078,
    0.690283038876,
    0.695852211147,
)
NET_D_NTK = (
    2.465423418784,
    1.922216929214,
    1.201589722638,
    2.690665444313,
    1.799489525324,
    2.259408844588,
)

NETWORKS = [
    pytest.param(NET_A, (8, 8, 2), NET_A_NNGP, NET_A_NTK, id="A"),
    pytest.param(NET_D, (1, 5, 1), NET_D_NNGP, NET_D_NTK, id="D"),
]

GOLDEN = {
    "conv_strided": NET_A,
    "conv_dilated_circular": Sequential(
        Conv2d(
            (2, 4),
            padding="circular",
            dilation=3,
            weight_variance=1.3,
            bias_variance=0.2,
        ),
        LeakyReLU(slope=0.1),
        Conv2d((4, 3), padding=1, stride=2, weight_variance=0.7),
        Abs(),
        Flatten(),
        Dense(weight_variance=1.1, bias_variance=0.3),
    ),
    "resnet_block": Sequential(
        Conv2d(3, weight_variance=1.5, bias_variance=0.1),
        ReLU(),
        Sum(
            Conv2d(1, stride=2, weight_variance=0.8),
            Sequential(
                Conv2d(3, stride=2, weight_variance=1.2, bias_variance=0.05),
                ReLU(),
                Conv2d(3, weight_variance=0.9),
            ),
        ),
        Residual(ReLU(), Conv2d(3, weight_variance=2.0, bias_variance=0.1)),
        Flatten(),
        Dense(weight_variance=0.5),
    ),
    "smooth_activations": Scale(
        Sequential(
            Conv2d(3, weight_variance=2.0, bias_variance=0.5),
            Erf(),
            Conv2d(3, weight_variance=2.0, bias_variance=0.5),
            GELU(),
            Conv2d(3, weight_variance=2.0, bias_variance=0.5),
            Sin(),
            Flatten(),
            Dense(bias_variance=0.1),
        ),
        factor=3.0,
    ),
}


def upper(gram: Tensor) -> Tensor:
    rows, cols = np.triu_indices(len(gram))
    return gram[rows, cols]


def ntk(network: Sequential, images: Tensor) -> Tensor:
    """Neural tangent kernel, by the recursion over the layers of a chain."""
    nngp, tangent = input_maps(images), torch.zeros_like(input_maps(images))
    for layer in network.parts:
        before, var = nngp, nngp.diagonal(dim1=-2, dim2=-1)
        _, trace = layer.image_pass(var)
        nngp = layer.pair_pass(Maps(before), trace, trace).nngp
        if hasattr(layer, "expectation"):
            c = before.clone().requires_grad_()
            value = layer.expectation(c, var.unsqueeze(-1), var.unsqueeze(-2))
            (derivative,) = torch.autograd.grad(value.sum(), c)
            tangent = tangent * derivative
        else:
            zero = Maps(torch.zeros_like(tangent))
            constant = layer.pair_pass(zero, trace, trace).nngp
            tangent = layer.pair_pass(Maps(tangent), trace, trace).nngp - constant
            if not isinstance(layer, Flatten):
                tangent = tangent + nngp
    return tangent[0, 0]


@pytest.mark.parametrize(("layer", "value"), DUALS, ids=repr)
def test_expectations_at_the_reference_point(layer, value):
    c, a, b = (torch.tensor(x, dtype=torch.float64) for x in (0.6, 2.0, 0.7))
    assert abs(float(layer.expectation(c, a, b)) - value) < 1e-11


def test_derivatives_of_relu_at_the_reference_point():
    point = [
        torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.6, 2, 0.7)
    ]
    grads = torch.autograd.grad(ReLU().expectation(*point), point)
    expected = (0.334639887405, 0.040576708026, 0.115933451501)
    np.testing.assert_allclose(double(grads), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("network", "shape", "nngp", "tangent"), NETWORKS)
def test_covariances_of_reference_networks(network, shape, nngp, tangent):
    images = double(wave_images(3, *shape))
    np.testing.assert_allclose(upper(cross(network, images)), nngp, rtol=0, atol=1e-11)
    variances = np.array(nngp)[[0, 3, 5]]
    np.testing.assert_allclose(diag(network, images), variances, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("network", "shape", "nngp", "tangent"), NETWORKS)
def test_tangent_kernels_of_reference_networks(network, shape, nngp, tangent):
    images = double(wave_images(3, *shape))
    actual = upper(ntk(network, images))
    off_diagonal, on_diagonal = [1, 2, 4], [0, 3, 5]
    expected = np.array(tangent)
    np.testing.assert_allclose(
        actual[off_diagonal], expected[off_diagonal], rtol=0, atol=1e-11
    )
    # The derivative by c has an arccos, a root of rounding errors at c = a = b.
    assert_close(
        actual[on_diagonal], expected[on_diagonal], rtol=ROOT_RTOL[torch.float64]
    )


@pytest.mark.parametrize("name", GOLDEN)
def test_networks_match_golden_grams(name):
    stored = json.loads(make_kernels.PATH.read_text(encoding="utf-8"))["gram"]
    assert_close(cross(GOLDEN[name], double(make_kernels.images())), stored[name])


def test_golden_file_is_what_its_script_makes():
    stored = json.loads(make_kernels.PATH.read_text(encoding="utf-8"))["gram"]
    fresh = make_kernels.values()
    assert stored.keys() == fresh.keys() == GOLDEN.keys()
    for name, gram in fresh.items():
        assert_close(gram, stored[name])
