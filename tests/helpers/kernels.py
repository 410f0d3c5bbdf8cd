"""What the tests of kernels share: images, maps, settings."""

import re
import warnings

import numpy as np
import torch
from hypothesis import settings
from torch import Tensor
from torch.autograd import forward_ad

from skconvgp.kernels import Kernel, Maps
from tests.helpers.tolerances import TOLERANCES

RTOL = {dtype: tolerance.rounding for dtype, tolerance in TOLERANCES.items()}
ROOT_RTOL = {dtype: tolerance.root for dtype, tolerance in TOLERANCES.items()}

QUICK = settings(deadline=None, max_examples=40)


def name(part: object) -> str:
    """Return an id for a test that is the same in every process."""
    return re.sub(r"<.*>", "function", repr(part))


def double(value: object) -> Tensor:
    return torch.as_tensor(np.asarray(value, dtype=np.float64))


def random_images(n: int, *shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, *shape, generator=generator, dtype=torch.float64)


def cross(kernel: Kernel, one: Tensor, two: Tensor | None = None) -> Tensor:
    kernel.check(tuple(one.shape[1:]))
    first = kernel.prepare(one)
    return kernel.cross(first, first if two is None else kernel.prepare(two))


def diag(kernel: Kernel, images: Tensor) -> Tensor:
    return kernel.diag(kernel.prepare(images))


def input_maps(images: Tensor) -> Tensor:
    return torch.einsum("nchw,mchw->hwnm", images, images) / images.shape[1]


def last_maps(network: Kernel, images: Tensor) -> Tensor:
    """Return the maps (h, w, n, n) after a network that need not end at 1x1."""
    nngp = input_maps(images)
    network.out_shape(tuple(images.shape[2:]))
    _, trace = network.image_pass(images.square().mean(1).permute(1, 2, 0))
    return network.pair_pass(Maps(nngp), trace, trace).nngp


def assert_close(
    actual: object, expected: object, *, rtol: float = RTOL[torch.float64], scale=None
) -> None:
    """Compare to a fraction of `scale`, by default of the expected values."""
    actual, expected = double(actual), double(expected)
    assert actual.shape == expected.shape
    size = expected.abs() if scale is None else double(scale)
    excess = (actual - expected).abs() - rtol * size
    assert bool((excess <= 0.0).all()), (
        f"off by {float((actual - expected).abs().max())}, {actual} for {expected}"
    )


def deviations(gram: Tensor) -> Tensor:
    """Return sqrt(K_ii K_jj), the scale of the entries of a covariance."""
    root = gram.diagonal().sqrt()
    return root[:, None] * root[None, :]


def load_forward_mode() -> None:
    """Use forward mode once: the first use compiles parts of torch, with a warning."""
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        forward_ad.make_dual(torch.ones(1), torch.zeros(1))
