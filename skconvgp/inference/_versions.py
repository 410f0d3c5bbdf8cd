"""Leave-one-out of images with all versions of them, by blocks of the inverse.

The formulas: docs/maths.rst, "Evidence and leave-one-out".
"""

from collections.abc import Iterator
from typing import TypeAlias

import torch
from torch import Tensor

from skconvgp.inference._equal import EqualInputs, MergedSamples
from skconvgp.inference._evidence import LeaveOneOut
from skconvgp.linalg import half_solve, shifted_choleskys

__all__ = ["Blocks", "blocks_out", "members_by_size", "whole_images"]

# Members (g, s) of groups of inputs, and the block (g, s, s) of the inverse of each.
Blocks: TypeAlias = tuple[Tensor, Tensor]


def members_by_size(groups: Tensor) -> Iterator[Tensor]:
    """Yield the members (g, s) of the groups of each size s.

    Parameters
    ----------
    groups : Tensor of shape (m,)
        The group of each input, from 0; each occurs.
    """
    order, counts = groups.argsort(stable=True), groups.bincount()
    starts = counts.cumsum(0) - counts
    for size in sorted(set(counts.tolist())):
        within = torch.arange(size, device=groups.device)
        yield order[starts[counts == size][:, None] + within]


def blocks_out(
    targets: Tensor, dual: Tensor, blocks: Iterator[Blocks]
) -> tuple[Tensor, Tensor]:
    r"""Return predictions of merged inputs from all the inputs of other groups.

    .. math:: \mu_{-S} = y_S - A_{SS}^{-1} \alpha_S, \quad
              \Sigma_{-S} = A_{SS}^{-1}

    with A = M^-1, for each group S.

    Parameters
    ----------
    targets, dual : Tensor of shape (m, k)
        Y and M^-1 Y of the merged inputs.
    blocks : iterator of Blocks
        The groups and their blocks of A; inputs of no group get NaN.

    Returns
    -------
    mean : Tensor of shape (m, k)
        Means.
    var : Tensor of shape (m,)
        Diagonals of the covariances, the noise of each merged input included.
    """
    mean = torch.full_like(targets, torch.nan)
    var = torch.full_like(targets[:, 0], torch.nan)
    for members, block in blocks:
        factors, _ = shifted_choleskys(block, torch.zeros_like(block[:, 0]))
        identity = torch.eye(block.shape[1], dtype=block.dtype, device=block.device)
        half = half_solve(factors, identity.expand_as(factors))
        covariances = half.mT @ half
        mean[members] = targets[members] - covariances @ dual[members]
        var[members] = covariances.diagonal(dim1=1, dim2=2)
    return mean, var


def whole_images(
    predictions: tuple[Tensor, Tensor],
    data: MergedSamples,
    inputs: EqualInputs,
    removed: Tensor,
    noise: float,
    indices: Tensor,
) -> LeaveOneOut:
    """Return predictions of single observations of images that are left out.

    Parameters
    ----------
    predictions : tuple of Tensor
        Of merged inputs, as `blocks_out` returns them.
    data : MergedSamples
        The merged inputs.
    inputs : EqualInputs
        The input of each sample.
    removed : Tensor of shape (n,)
        Weight that leaves with each sample.
    noise : float
        Noise variance of a single observation.
    indices : Tensor of shape (b,)
        Indices of the images.
    """
    mean, var = predictions
    input_of = inputs.of[indices]
    single = noise / removed[indices].clamp(max=1.0) - noise / data.weights[input_of]
    return LeaveOneOut(mean[input_of], var[input_of] + single)
