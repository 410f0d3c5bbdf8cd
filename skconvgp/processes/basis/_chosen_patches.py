"""The choice of inducing patches among those of training images."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import torch
from torch import Generator, Tensor

from skconvgp._tensors import int_range, permutation, reals, uniforms
from skconvgp._typing import ImageShape
from skconvgp.engine import require_memory, slices, to_numpy
from skconvgp.exceptions import NotFiniteError
from skconvgp.kernels import PatchKernel
from skconvgp.kernels._from_data import digests
from skconvgp.kernels._orbit_maps import n_versions, versions_of
from skconvgp.linalg import cluster_means

KMEANS = "kmeans"
LEARNED = "learned"  # they begin as the centres of "kmeans"
DRAWN = (KMEANS, "uniform", LEARNED)  # so many as are wanted
INDUCING = (*DRAWN, "unique")
SAMPLED_IMAGES, SAMPLED_PATCHES = 2000, 20_000
# Of the sampled patches, those that each round of Lloyd's algorithm sees, but at least
# so many; and those that it sees at once.
LLOYD_SHARES, FEWEST_SEEN, LLOYD_BLOCK = (
    (0.25,) * 4 + (0.5,) * 2 + (1.0,) * 2,
    5000,
    1024,
)
LLOYD_ON_GPU = 2**15
CHOICE_COPIES = 2.5  # of the drawn patches
FEWEST_OF_A_CENTRE = 4  # patches of images that are sampled
IMAGES_AT_ONCE = 100
GRAM_COPIES = 3  # of covariances of patches: the matrix, its vectors, workspace
SHARE_OF_BACKGROUND = 0.02  # of all patches that are equal
# Operations of products that take as long as the smallest of the distances to a centre,
# beside the distance, and as patches of an image that are normalized.
OF_A_DISTANCE, OF_A_PATCH = 60.0, 1e6


def choose_patches(
    kernel: PatchKernel,
    images: Tensor,
    how: Any,
    n_patches: int,
    generator: Generator,
    *,
    maps: Any = None,
) -> Tensor:
    """Return inducing patches (m, c', ph, pw), as the base kernel sees them.

    Parameters
    ----------
    kernel : PatchKernel
        The kernel.
    images : Tensor of shape (n, c, h, w)
        Training images.
    how : str, ndarray of shape (m, ...) or Tensor
        One of `INDUCING`, patches of images, or patches as the base kernel sees them.
    n_patches : int
        How many; fewer if there are fewer different ones. Not read for "unique" and
        for given patches.
    generator : torch.Generator
        Source of randomness.
    maps : str, object, list or None, default=None
        Maps of images, of whose results patches are wanted, too.
    """
    channels, height, width = images.shape[1:]
    if isinstance(how, Tensor):
        return how
    if not isinstance(how, str):
        given = reals(how)
        return kernel.normalize(given, (channels, height, width))
    grid = kernel.grid((channels, height, width))
    shape = (grid.channels, *grid.size)
    if how == "unique":
        return _different(kernel, images, maps).reshape(-1, *shape)
    n_views = n_versions(maps, (channels, height, width))
    n_patches = min(n_patches, len(images) * grid.n_patches * n_views)
    n_sampled = max(SAMPLED_PATCHES, n_patches)
    drawn = _sampled(kernel, images, n_sampled, n_patches, generator, maps)
    n_drawn, device = len(drawn), drawn.device
    different, counts = _distinct(drawn)
    del drawn
    order = permutation(len(different), generator)[:n_sampled].to(device)
    if how == "uniform" or len(order) <= n_patches:
        return different[order[:n_patches]].reshape(-1, *shape)
    _require_squares(different)
    common = int(counts.argmax())
    has_background = int(counts[common]) > SHARE_OF_BACKGROUND * n_drawn
    chosen = _centres(different[order], max(1, n_patches - has_background))
    if has_background:
        chosen = torch.cat([chosen, different[common, None]])
    return _distinct(chosen)[0].reshape(-1, *shape)


def flops_of_choice(n_images: int, n_patches: int, n_values: int) -> float:
    """Return about how many operations it takes to find the centres of patches.

    Patches have so many values. Operations are counted as those of a product of
    matrices that takes as long.
    """
    n_images = min(n_images, SAMPLED_IMAGES)
    n_sampled = max(SAMPLED_PATCHES, n_patches)
    each = OF_A_DISTANCE + 2.0 * n_values
    return sum(LLOYD_SHARES) * n_sampled * n_patches * each + OF_A_PATCH * n_images


def values_of_choice(n_positions: int, n_patches: int, n_values: int) -> int:
    """Return how many numbers are held at once while centres of patches are found.

    All images have so many positions, and their patches so many values.
    """
    n_drawn = min(n_positions, 2 * max(SAMPLED_PATCHES, n_patches))
    return int(CHOICE_COPIES * n_drawn * n_values)


def _distinct(patches: Tensor) -> tuple[Tensor, Tensor]:
    """Return the different patches (m, d) among patches (n, d), and how often each is.

    Digests of them are compared. The last bits of numbers do not decide about the
    order, as later draws depend on it.
    """
    _, first, counts = np.unique(
        to_numpy(digests(patches)), return_index=True, return_counts=True
    )
    places = patches @ int_range(patches.shape[1], patches.device).to(patches).cos()
    order = np.argsort(to_numpy(places)[first])
    return patches[first[order]], torch.from_numpy(counts[order])


def _centres(patches: Tensor, n_centres: int) -> Tensor:
    """Return the centres (m, d) of clusters of patches (n, d) in an arbitrary order.

    They begin as the first patches. Early rounds, in which centres move far, see some
    of the patches only.
    """
    shift = patches.mean(0)
    centres = patches[:n_centres] - shift  # few digits of distances cancel
    single = (patches - shift).float()
    for share in LLOYD_SHARES:
        n_seen = max(int(share * len(patches)), FEWEST_SEEN)
        at_once = LLOYD_BLOCK if single.is_cpu else LLOYD_ON_GPU
        blocks = torch.split(single[:n_seen], at_once)
        centres = cluster_means(blocks, centres)
    return centres + shift


def _require_squares(patches: Tensor) -> None:
    """Raise if squares of distances overflow in single precision."""
    largest = max(abs(float(one)) for one in patches.aminmax())
    if largest > math.sqrt(torch.finfo(torch.float32).max / (4.0 * patches.shape[1])):
        raise NotFiniteError(
            f"Patches hold numbers up to {largest:.3g}, the squares of whose distances "
            "overflow: scale X to numbers near 1."
        )


def _sampled(
    kernel: PatchKernel,
    images: Tensor,
    n_sampled: int,
    n_patches: int,
    generator: Generator,
    maps: Any,
) -> Tensor:
    """Return patches (m, d) of images drawn at random, twice as many as asked for.

    For an average they are drawn from the images and all that maps make of them.
    """
    image_shape = cast(ImageShape, tuple(images.shape[1:]))
    of_an_image = kernel.grid(image_shape).n_patches
    n_images = max(SAMPLED_IMAGES, FEWEST_OF_A_CENTRE * n_patches // of_an_image)
    n_views = n_versions(maps, image_shape)
    order = permutation(n_views * len(images), generator)[:n_images]
    n_each = -(-2 * n_sampled // len(order))
    drawn = []
    parts, spots = slices(len(order), IMAGES_AT_ONCE), []
    for part in parts:
        keys = uniforms((len(order[part]), of_an_image), generator, torch.float32)
        spots.append(keys.argsort(1)[:, :n_each])
    where, order = torch.cat(spots).to(images.device), order.to(images.device)
    view = (order // len(images))[:, None, None, None]
    for part in parts:
        plain = images[order[part] % len(images)].to(torch.float64)
        given = plain
        for i, version in enumerate(versions_of(plain, maps)):
            given = torch.where(view[part] == i, version, given)
        patches = kernel.drawn_patches(given, where[part])
        drawn.append(patches.flatten(0, 1).flatten(1))
    return torch.cat(drawn)


def _different(kernel: PatchKernel, images: Tensor, maps: Any) -> Tensor:
    """Return all different patches (m, d) of images and what maps make of them.

    A matrix of them is needed later: they are refused as soon as it is too large.
    """
    found: Tensor | None = None
    device, remedy = images.device, "use inducing='kmeans' or fewer images."
    for part in slices(len(images), IMAGES_AT_ONCE):
        given = torch.cat(versions_of(images[part].to(torch.float64), maps))
        patches = kernel.normalized_patches(given)
        patches = patches.flatten(0, 2).flatten(1)
        known = patches if found is None else torch.cat([found, patches])
        found = torch.unique(known, dim=0)
        needed = GRAM_COPIES * len(found) ** 2 * found.itemsize
        what = f"A matrix of {len(found)} different patches, and more to come,"
        require_memory(needed, device, what, remedy)
    assert found is not None
    return found
