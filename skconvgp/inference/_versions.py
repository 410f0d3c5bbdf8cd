"""Leave-one-out of images with versions or groups of them, by blocks of the inverse.

The formulas: docs/maths.rst, "Evidence and leave-one-out".
"""

from collections.abc import Iterable
from typing import TypeAlias

import torch
from torch import Tensor

from skconvgp.inference._equal import EqualInputs, LeftOutBlocks
from skconvgp.inference._evidence import LeaveOneOut
from skconvgp.linalg import half_solve, shifted_choleskys

__all__ = ["Blocks", "images_out"]

# Images that are left out, and the blocks (b, s, s) of the inverse of their inputs.
Blocks: TypeAlias = tuple[LeftOutBlocks, Tensor]


def images_out(
    targets: Tensor,
    dual: Tensor,
    weights: Tensor,
    inputs: EqualInputs,
    blocks: Iterable[Blocks],
    noise: float,
) -> LeaveOneOut:
    r"""Return predictions of images from all inputs that are not left out with them.

    .. math:: \mu_{-S} = y_S - A_{SS}^{-1} \alpha_S, \quad
              \Sigma_{-S} = A_{SS}^{-1}

    with A = M^-1 and the inputs S of an image with its versions, or of its group. The
    prediction is of the image itself, and its variance that of a single observation.

    `targets` and `dual` (m, k) are Y and M^-1 Y of merged inputs, the weights (n,)
    those of the samples. Images that have none of the blocks of A get NaN. The noise is
    the variance of a single observation.
    """
    images_of, totals = inputs.of[: inputs.n_images], inputs.sum(weights)
    mean = torch.full_like(targets[images_of], torch.nan)
    var = torch.full_like(mean[:, 0], torch.nan)
    for left, block in blocks:
        factors, _ = shifted_choleskys(block, torch.zeros_like(block[:, 0]))
        images, which, members = left.images, left.which, left.members
        input_of = images_of[images]
        half = half_solve(factors, torch.diag_embed(torch.ones_like(block[:, 0])))
        change = half.mT @ (half @ dual[members])
        own = (members[which] == input_of[:, None]).to(torch.uint8).argmax(1)
        mean[images] = targets[input_of] - change[which, own]
        var[images] = half.square().sum(1)[which, own] - noise / totals[input_of]
    return LeaveOneOut(mean, var + noise / inputs.removed(weights).clamp(max=1.0))
