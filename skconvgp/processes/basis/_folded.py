"""FoldedBasis: latent means, by weights of what is computed of an image.

The formulas: docs/maths.rst, "Folded weights".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NoReturn, Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._typing import FloatArray, Rows
from skconvgp.engine import (
    Placement,
    compute_at,
    held,
    place,
    place_rows,
    rows_to_tensor,
    slices,
    to_numpy,
)
from skconvgp.processes._run import FEATURES, IMAGES, Resources, Run
from skconvgp.processes.basis._basis import Basis, BasisReport, NewRows, Stream
from skconvgp.processes.basis._inducing import (
    Inducing,
    InducingSet,
    pooled_together,
)
from skconvgp.processes.basis._inducing_sum import InducingSum
from skconvgp.processes.basis._plain import KernelBasis, report_of
from skconvgp.processes.basis._sight import Sight, seen_rows, shared_values
from skconvgp.processes.basis._views import View, cell_of

MOST_IMAGES = 1024  # that are looked at at once
HELD = 2**22  # numbers of views of images that are held at once
NOT_KEPT = (
    "A model of `for_prediction()` keeps what latent means need, and not {}: use the "
    "estimator that it was made from."
)


@runtime_checkable
class LightView(Protocol):
    """A view that holds more than it needs to show images."""

    def for_prediction(self) -> View:
        """Return what shows images in single precision, to the same numbers."""
        ...


class Folded(Protocol):
    """The latent means of a part of a sum."""

    @property
    def view(self) -> View | None:
        """The view; None shows the images themselves."""
        ...

    @property
    def kernel_basis(self) -> KernelBasis:
        """The kernel, with images as it sees them."""
        ...

    @property
    def has_places(self) -> bool:
        """Whether means are sums over several positions, which pixels belong to."""
        ...

    def means(self, sight: Sight, run: Run) -> Tensor:
        """Return the means (b, k) of new images."""
        ...

    def join(self, other: Any) -> Self | None:
        """Return the sum of both parts, if they see images alike; None otherwise."""
        ...

    def in_single(self) -> Self:
        """Return the part with weights in single precision, where it has some."""
        ...


@dataclass(frozen=True)
class FoldedTerm:
    """Weights of the responses to inducing patches, with the whitening."""

    inducing: InducingSet
    weights: FloatArray  # (s, k), of the sums of responses at s pairs

    @classmethod
    def of(cls, inducing: InducingSet, dual: FloatArray) -> Self:
        """Return the weights, given those of features (r, k)."""
        lift = rows_to_tensor(inducing.scaled_lift)
        of_places = rows_to_tensor(dual).reshape(-1, lift.shape[1], dual.shape[1])
        weights = (lift @ of_places).reshape(-1, dual.shape[1])
        return cls(inducing, to_numpy(weights))

    def in_single(self) -> Self:
        """Return it with weights in single precision."""
        single: Any = self.weights.astype(np.float32)
        return replace(self, weights=single)

    def alone(self, dtype: torch.dtype, known: dict[Any, Any]) -> Self:
        """Return it without what features need, with patches in a precision.

        Equal patches are known.
        """
        whole = self.inducing
        patches = to_numpy(rows_to_tensor(whole.patches).to(dtype))
        patches = known.setdefault((patches.shape, patches.tobytes()), patches)
        slim = replace(whole, patches=patches, lift=whole.lift[:, :0])
        return replace(self, inducing=slim)


@dataclass(frozen=True)
class FoldedPatches:
    """Means by responses to inducing patches, times weights with the whitening."""

    view: View | None  # None shows the images themselves
    basis: Any  # of patches: computes tiles
    # Whether responses of an image and of its mirror image are averaged.
    is_averaged: bool
    terms: tuple[FoldedTerm, ...]

    @classmethod
    def of(
        cls, view: View | None, basis: Any, dual: FloatArray, *, is_averaged: bool
    ) -> Self:
        """Return the part, given weights (r, k) of features."""
        inducing = basis.inducing.terms
        ends = np.cumsum([term.n_features for term in inducing])[:-1]
        pairs = zip(inducing, np.split(dual, ends), strict=True)
        terms = tuple(FoldedTerm.of(term, own) for term, own in pairs)
        return cls(view, basis, is_averaged, terms)

    @property
    def kernel_basis(self) -> KernelBasis:
        """The kernel, without samples."""
        exact: KernelBasis = self.basis.exact
        return exact

    @property
    def has_places(self) -> bool:
        """Whether means are sums over several positions, which pixels belong to."""
        are_known = all(term.inducing.has_places for term in self.terms)
        return cell_of(self.view) > 0 and are_known

    def means(self, sight: Sight, run: Run) -> Tensor:
        """Return the means (b, k) of new images."""
        seen = [sight, sight.flipped] if self.is_averaged else [sight]
        versions = [seen_rows(self, one, run) for one in seen]
        weighted = partial(_weighted, _sharing(self.terms))
        sums = torch.cat(self.basis.in_tiles(weighted, versions, run))
        return sums.to(run.config.solve_dtype)

    def join(self, other: Any) -> Self | None:
        """Return the sum of both parts, if they see images alike; None otherwise."""
        theirs: tuple[FoldedTerm, ...] = getattr(other, "terms", ())
        if not theirs or self.view is not other.view:
            return None
        mine = self.kernel_basis, self.is_averaged
        seen = [
            (basis.image_shape, basis.pool, basis.dtype, is_averaged)
            for basis, is_averaged in (mine, (other.kernel_basis, other.is_averaged))
        ]
        if seen[0] != seen[1]:
            return None
        return replace(self, terms=self.terms + theirs)

    def in_single(self) -> Self:
        """Return the part with weights in single precision, if responses are."""
        if self.kernel_basis.tile_dtype != torch.float32:
            return self
        return replace(self, terms=tuple(term.in_single() for term in self.terms))

    def alone(self, known: dict[Any, Any]) -> Self:
        """Return the part without what features need, and its view does not.

        What other parts have, too, is known.
        """
        view, dtype = self.view, self.kernel_basis.tile_dtype
        if isinstance(view, LightView) and dtype == torch.float32:
            key = id(self.view)
            if key not in known:
                known[key] = view.for_prediction()
            view = known[key]
        terms = tuple(term.alone(dtype, known) for term in self.terms)
        inducing = InducingSum(tuple(term.inducing for term in terms))
        exact = self.kernel_basis.take(np.arange(0))
        basis = replace(self.basis, inducing=inducing, exact=exact)
        return replace(self, view=view, basis=basis, terms=terms)


@dataclass(frozen=True)
class FoldedKernel:
    """Means by covariances with training images, times their dual coefficients."""

    part: Any  # gives the covariances
    dual: FloatArray  # (n, k)

    has_places: ClassVar[bool] = False  # pairs of positions are compared

    @property
    def view(self) -> View | None:
        """The view; None shows the images themselves."""
        view: View | None = self.part.view
        return view

    @property
    def kernel_basis(self) -> KernelBasis:
        """The kernel, with images as it sees them."""
        basis: KernelBasis = self.part.kernel_basis
        return basis

    def means(self, sight: Sight, run: Run) -> Tensor:
        """Return the means (b, k) of new images."""
        cross, _ = self.part.cross(sight, run, needs_diag=False)
        means: Tensor = cross.to(run.config.solve_dtype) @ run.held(self.dual)
        return means

    def join(self, other: Any) -> None:  # noqa: ARG002  (it sees other images)
        """Return None: covariances share nothing with those of another part."""
        return

    def in_single(self) -> Self:
        """Return the part: weights of covariances stay as they are."""
        return self


@dataclass(frozen=True)
class FoldedBasis(Basis):
    """Latent means of images, which take the place of features and covariances."""

    images: KernelBasis  # reads rows as images; it has none, and is not evaluated
    parts: tuple[Folded, ...]  # those that share a source follow each other
    n_outputs: int

    gives_features: ClassVar[bool] = True
    is_streamed: ClassVar[bool] = True
    gives_means: ClassVar[bool] = True

    @classmethod
    def of(
        cls, images: KernelBasis, parts: tuple[Folded, ...], dual: FloatArray
    ) -> Self:
        """Return the means by parts whose sum has dual coefficients (m, k)."""
        return cls(images.take(np.arange(0)), _joined(parts), dual.shape[1])

    @property
    def n_samples(self) -> int:
        """Number of latent functions."""
        return self.n_outputs

    @property
    def kernel_basis(self) -> KernelBasis:
        """The kernel of the first part."""
        return self.parts[0].kernel_basis

    @property
    def pool(self) -> float:
        """Side of the squares of pixels that are averaged first."""
        return max(self.images.pool, self.kernel_basis.pool)

    @property
    def inducing(self) -> Inducing:
        """Inducing patches of the first part."""
        first: Any = self.parts[0]
        inducing: Inducing = first.basis.inducing
        return inducing

    @property
    def tile_dtype(self) -> torch.dtype:
        """Precision of responses of the first part."""
        return self.kernel_basis.tile_dtype

    @property
    def has_inducing_images(self) -> bool:
        """Whether inducing patches are as large as images."""
        parts: tuple[Any, ...] = self.parts
        return any(
            term.inducing.patches.shape[2:] == term.inducing.image_shape[1:]
            for part in parts
            for term in part.terms
        )

    def in_single(self) -> Self:
        """Return the means with weights in single precision, where responses are."""
        return replace(self, parts=tuple(part.in_single() for part in self.parts))

    def alone(self) -> Self:
        """Return the means without what features need; no part compares images."""
        parts: tuple[Any, ...] = self.parts
        known: dict[Any, Any] = {}
        return replace(self, parts=tuple(part.alone(known) for part in parts))

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that responses have gone through."""
        return self.kernel_basis.precision(config)

    def report(self, run: Run) -> BasisReport:
        """Return the backend of responses of the first part."""
        first: Any = self.parts[0]
        return report_of(first.basis.choice(run), self.tile_dtype)

    def means(
        self, new: NewRows, resources: Resources, *, is_quiet: bool = False
    ) -> FloatArray:
        """Return the means (n, k) of new images; a part of a fit shows no progress."""

        def means_at(placement: Placement) -> FloatArray:
            run = resources.run(placement)
            blocks = self.stream(new, run.quiet() if is_quiet else run)
            return to_numpy(torch.cat([block for block, _ in blocks]))

        return compute_at(resources.placement(0), means_at)

    def stream(
        self,
        new: NewRows,
        run: Run,
        width: int = 0,  # noqa: ARG002  (means are few)
        *,
        needs_diag: bool = True,  # noqa: ARG002  (there are none)
    ) -> Stream:
        """Yield means (b, k) of new images, and zeros."""
        show, quiet = run.progress(FEATURES, unit=IMAGES), run.quiet()
        show(0, len(new))
        rows = place_rows(new.rows, run.config.device)
        for block in slices(len(new), self.at_once):
            sight = Sight(place(self.images.images(rows[block]), run.config.device))
            of_parts = [part.means(sight, quiet) for part in self.parts]
            mean = torch.stack(of_parts).sum(0)
            yield mean, mean.new_zeros(len(mean))
            show(block.stop, len(new))

    def covariance(self, rows: Rows, run: Run, unit: float) -> NoReturn:  # noqa: ARG002
        """Raise a ValueError."""
        raise ValueError(NOT_KEPT.format("covariances"))

    def pull(self, rows: NDArray[Any], sums: FloatArray, run: Run) -> NoReturn:  # noqa: ARG002
        """Raise a ValueError."""
        raise ValueError(NOT_KEPT.format("derivatives"))

    @property
    def at_once(self) -> int:
        """Number of images that are looked at at once."""
        shape = self.images.map_shape
        shown = max(1, *(shared_values(part.view, shape) for part in self.parts))
        return max(1, min(MOST_IMAGES, HELD // shown))


def _joined(parts: tuple[Folded, ...]) -> tuple[Folded, ...]:
    """Return parts of the same sum, of which those that see images alike are one."""
    found: list[Folded] = []
    for part in parts:
        for i, before in enumerate(found):
            both = before.join(part)
            if both is not None:
                found[i] = both
                break
        else:
            found.append(part)
    return tuple(found)


def _sharing(terms: tuple[FoldedTerm, ...]) -> list[list[FoldedTerm]]:
    """Return the terms, of which those that share responses are together."""
    groups: list[list[FoldedTerm]] = []
    for term in terms:
        for group in groups:
            if group[0].inducing.shares_responses(term.inducing):
                group.append(term)
                break
        else:
            groups.append([term])
    return groups


def _weighted(
    groups: list[list[FoldedTerm]], *versions: Tensor, backend: str
) -> Tensor:
    """Return weighted sums (n, k) of responses, means over versions of images.

    Sums are in double precision, as others depend on how many images there are.
    """
    found = []
    for group in groups:
        weights = [
            held(term.weights, versions[0].device, torch.float64) for term in group
        ]
        sets = tuple(term.inducing for term in group)
        sums = pooled_together(sets, *versions, backend=backend, like=weights[0])
        found += [
            own.flatten(1) @ factors for own, factors in zip(sums, weights, strict=True)
        ]
    return torch.stack(found).sum(0)


def features_dual(
    features: FloatArray, dual: FloatArray, rows_at_once: int
) -> FloatArray:
    """Return weights (r, k) of features, given n of them and dual coefficients (n, k).

    Sums are in double precision.
    """
    shape = dual.shape[1], features.shape[1]
    # Their transpose, for which features are read in the order of memory.
    total = torch.zeros(shape, dtype=torch.float64, device="cpu")
    for part in slices(len(features), rows_at_once):
        own = rows_to_tensor(features[part]).to(torch.float64)
        total.addmm_(rows_to_tensor(dual[part]).to(torch.float64).mT, own)
    return to_numpy(total.mT)
