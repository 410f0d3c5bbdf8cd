"""Features of a patch process and their derivatives, tile by tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from skconvgp._ambient import ordinary_torch
from skconvgp._tensors import reals
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.backends import Responses
from skconvgp.backends._patch_slopes import own_sums
from skconvgp.engine import for_each
from skconvgp.exceptions import TileMemoryError
from skconvgp.flows._patch_parameters import PatchParameters
from skconvgp.kernels import OrbitAverage, PatchKernel, rbf
from skconvgp.kernels._orbit_maps import n_versions, versions_of
from skconvgp.processes import Inducing, Run, Term, terms_of
from skconvgp.processes.basis._patch_features import Whitening, whitened_features

PAIRS_AT_ONCE = 2**18  # pairs of patches of one image whose graph is held
MOST_IMAGES = 32  # of a tile
GRAPH_COPIES = 10  # of the responses to a tile, in its graph
IMAGES_AT_ONCE = 64  # whose pairs have derivatives in closed form


@dataclass(frozen=True)
class PatchPoint:
    """Features and prior variances at parameters theta, and derivatives by them.

    Features and derivatives are computed tile by tile, each of which has `n_images`
    images. Responses are computed in the precision of the images.
    """

    parameters: PatchParameters
    theta: Tensor  # (p,), a leaf
    factors: list[Whitening]  # differentiable by theta
    n_images: int
    backend: str
    run: Run

    @classmethod
    def at(
        cls,
        parameters: PatchParameters,
        theta: FloatArray,
        run: Run,
        n_images: int,
        backend: str = "torch",
    ) -> PatchPoint:
        """Return the point of parameters (p,)."""
        with ordinary_torch():
            free = reals(theta).requires_grad_()
            factors = parameters.whitenings_at(free)
        return cls(parameters, free, factors, n_images, backend, run)

    def features(self, images: Tensor) -> Tensor:
        """Return features (n, r) of images, in double precision."""
        jobs = (
            partial(_features_of, i, self._given, self._leaves(), part, self.backend)
            for i, part in enumerate(torch.split(images, self.n_images))
        )
        found: Tensor = torch.cat(self._in_order(jobs))
        return found

    def variances(self, images: Tensor) -> Tensor:
        """Return the prior variances (n,) of images."""
        jobs = (
            partial(_variances_of, i, self._given, part)
            for i, part in enumerate(self._variance_parts(images))
        )
        found: Tensor = torch.cat(self._in_order(jobs))
        return found

    def slope(self, images: Tensor, by_features: Tensor) -> Tensor:
        """Return derivatives (p,) through features, given those by them (n, r)."""
        factors = self._leaves()
        # Compiled code has no derivatives of some base kernels.
        backend = "torch" if self.backend == "torch" else "auto"
        pairs = zip(
            torch.split(images, self.n_images),
            torch.split(by_features, self.n_images),
            strict=True,
        )
        jobs: Any = (
            partial(_pull_features, i, self._given, factors, *pair, backend)
            for i, pair in enumerate(pairs)
        )
        total, *by_factors = (
            sum(parts[1:], parts[0])
            for parts in zip(*self._in_order(jobs), strict=True)
        )
        moving = [one for one in chain(*self.factors) if one.requires_grad]
        if not moving:
            return cast(Tensor, total)
        (further,) = torch.autograd.grad(
            moving, self.theta, by_factors, materialize_grads=True, retain_graph=True
        )
        return cast(Tensor, total + further)

    def variance_slope(self, images: Tensor, by_variances: Tensor) -> Tensor:
        """Return derivatives (p,) through prior variances, given those by them (n,)."""
        parts = self._variance_parts(images)
        own = torch.split(by_variances, len(parts[0]))
        jobs = (
            partial(_pull_variances, i, self._given, *pair)
            for i, pair in enumerate(zip(parts, own, strict=True))
        )
        found = self._in_order(jobs)
        return cast(Tensor, sum(found[1:], found[0]))

    @property
    def _given(self) -> tuple[PatchParameters, Tensor]:
        return self.parameters, self.theta.detach()

    def _leaves(self) -> list[Whitening]:
        return [Whitening(*map(_leaf, of_term)) for of_term in self.factors]

    def _variance_parts(self, images: Tensor) -> tuple[Tensor, ...]:
        """Split images, so that the graph of a part has few pairs of patches."""
        if all(map(_is_closed, terms_of(self.parameters.kernel))):
            return torch.split(images, IMAGES_AT_ONCE)
        n_pairs = self.parameters.kernel.n_positions(self.parameters.image_shape)
        return torch.split(images, max(1, PAIRS_AT_ONCE // n_pairs))

    def _in_order(self, jobs: Iterator[Callable[[], tuple[int, Any]]]) -> list[Any]:
        found = sorted(self.run.runner(jobs), key=lambda one: one[0])
        return [one for _, one in found]


def _tile(
    parameters: PatchParameters,
    theta: Tensor,
    factors: list[Whitening],
    images: Tensor,
    backend: str,
) -> Tensor:
    """Return features (n, r) of images (n, c, h, w), differentiable by theta."""
    shape, terms = parameters.image_shape, terms_of(parameters.kernel_at(theta))
    found = []
    for term, patches, given in zip(
        terms, parameters.patches_at(theta), factors, strict=True
    ):
        kernel = term.of_patches(shape)
        responses = Responses(kernel.base_kernel, patches.to(images), backend)
        versions = versions_of(images, term.maps)
        own = given._replace(
            rows=given.rows.to(images), columns=given.columns.to(images)
        )
        features = whitened_features(kernel, responses, own, *versions)
        found.append(features * term.factor**0.5)
    return torch.cat(found, 1)


def _leaf(factor: Tensor) -> Tensor:
    """Return a factor by itself, differentiable if it is."""
    return factor.detach().clone().requires_grad_(factor.requires_grad)


Given: TypeAlias = tuple[PatchParameters, Tensor]  # and theta (p,)


def _features_of(
    index: int, given: Given, factors: list[Whitening], images: Tensor, backend: str
) -> tuple[int, Tensor]:
    """Return features (n, r) of a part of the images."""
    with torch.no_grad():
        return index, _tile(*given, factors, images, backend)


def _pull_features(
    index: int,
    given: Given,
    factors: list[Whitening],
    images: Tensor,
    by_features: Tensor,
    backend: str,
) -> tuple[int, tuple[Tensor, ...]]:
    """Return derivatives by theta and by factors, as if they were independent.

    Those factors count that require derivatives.
    """
    with ordinary_torch():
        free = given[1].clone().requires_grad_()
        own = [Whitening(*map(_leaf, of_term)) for of_term in factors]
        features = _tile(given[0], free, own, images, backend)
        wanted = [one for one in chain(*own) if one.requires_grad]
        return index, torch.autograd.grad(
            features, [free, *wanted], by_features, materialize_grads=True
        )


def _variances_of(index: int, given: Given, images: Tensor) -> tuple[int, Tensor]:
    """Return the prior variances (n,) of a part of the images."""
    with torch.no_grad():
        return index, _prior(*given, images)


def _pull_variances(
    index: int, given: Given, images: Tensor, by_variances: Tensor
) -> tuple[int, Tensor]:
    """Return derivatives (p,) through prior variances, given those by them (n,)."""
    with ordinary_torch():
        free = given[1].clone().requires_grad_()
        variances = _prior(given[0], free, images)
        if not variances.requires_grad:
            return index, torch.zeros_like(free)
        (slope,) = torch.autograd.grad(variances, free, by_variances.to(variances))
        return index, slope


def _prior(parameters: PatchParameters, theta: Tensor, images: Tensor) -> Tensor:
    """Return the prior variances (n,) of images, differentiable by theta."""
    terms = terms_of(parameters.kernel_at(theta))
    variances = [_variances(term, images) * term.factor for term in terms]
    return torch.stack(variances).sum(0)


def _is_closed(term: Term) -> bool:
    """Return whether sums over pairs of patches have derivatives in closed form."""
    kernel, maps = term.kernel, term.maps
    if maps is not None or not isinstance(kernel, PatchKernel):
        return False
    return type(kernel.base_kernel) is rbf


def _variances(term: Term, images: Tensor) -> Tensor:
    """Return the prior variances (s,) of images by the kernel of a term."""
    kernel = term.kernel
    if not _is_closed(term):
        if term.maps is not None:
            kernel = OrbitAverage(kernel, term.maps)
        return kernel.diag(kernel.prepare(images))
    assert isinstance(kernel, PatchKernel)
    factors = kernel.factors(cast(ImageShape, tuple(images.shape[1:])), images)
    patches = kernel.normalized_patches(images).flatten(3)
    sums = [
        own_sums(cast(rbf, kernel.base_kernel), own, pairs)
        for own, pairs in zip(patches.unbind(1), factors, strict=True)
    ]
    return torch.stack(sums).sum(0)


def images_at_once(inducing: Inducing, run: Run) -> int:
    """Return how many images a tile has whose graph is held."""
    responses = 0
    for term in inducing.terms:
        grid, base = term.kernel.grid(term.image_shape), term.kernel.base_kernel
        of_a_patch = len(term.patches) * base.n_positions((grid.channels, *grid.size))
        n_views = n_versions(term.maps, term.image_shape)
        responses += n_views * grid.n_patches * of_a_patch
    an_image = GRAPH_COPIES * responses * torch.float64.itemsize
    share = run.config.memory_budget // run.config.n_workers
    if share < an_image:
        n_workers = run.config.n_workers
        fewer = "use a smaller `n_jobs`, " if n_workers > 1 else ""
        raise TileMemoryError(
            f"Learning needs {an_image} bytes for the responses to a single image"
            f"{for_each(n_workers, 'workers')} and `memory_budget` allows {share}: "
            f"raise `memory_budget`, {fewer}lower `n_inducing`, or raise `stride` of "
            "the kernel."
        )
    return min(MOST_IMAGES, share // an_image)
