"""Parts of a sum of kernels and of features: each sees images in its way.

The formulas: docs/maths.rst, "Sums of parts".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._config import ComputeConfig
from skconvgp._tensors import permutation
from skconvgp._threads import threads_for
from skconvgp._typing import FloatArray
from skconvgp.backends import BackendChoice, ResponsesChoice
from skconvgp.engine import rows_to_tensor, slices, to_numpy
from skconvgp.kernels._flips import flip
from skconvgp.linalg import symmetrize_
from skconvgp.processes._run import Run
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.basis._patch_basis import PatchBasis
from skconvgp.processes.basis._plain import KernelBasis
from skconvgp.processes.basis._sight import Sight
from skconvgp.processes.basis._views import View, pull_through

PAIRED = 16  # images whose covariances with their mirror images are computed at once
PRODUCTS = 512  # images whose products with earlier ones are computed at once
COMPARED = 8  # images that show whether a kernel commutes with mirroring
MIRROR_ERROR = 1e-4  # of these covariances, relative to the largest


class Part(Protocol):
    """Covariances of images through a view, by a kernel or by features."""

    @property
    def view(self) -> View | None:
        """The view; None shows the images themselves."""
        ...

    @property
    def kernel_basis(self) -> KernelBasis:
        """The kernel, with images as it sees them."""
        ...

    @property
    def n_values(self) -> int:
        """How many numbers are held for each new image, beside its covariances."""
        ...

    def without_plain(self) -> Self:
        """Return the part, which keeps nothing for the one without mirror images."""
        ...

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that a Gram matrix has gone through."""
        ...

    def choice(self, run: Run) -> BackendChoice | ResponsesChoice:
        """Return the backend of tiles or features."""
        ...

    def gram(self, run: Run) -> Tensor:
        """Return the covariances (n, n) of the training images."""
        ...

    def cross(
        self, sight: Sight, run: Run, *, needs_diag: bool
    ) -> tuple[Tensor, Tensor]:
        """Return covariances (b, n) and prior variances (b,) of new images.

        Variances that are not needed may be zeros.
        """
        ...

    def variances(self, sight: Sight, run: Run) -> Tensor:
        """Return prior variances (b,) of new images."""
        ...

    def covariance(self, sight: Sight, run: Run) -> Tensor:
        """Return covariances (b, b) of new images with each other."""
        ...

    def pull(self, images: Tensor, sums: FloatArray, run: Run) -> Tensor:
        """Return derivatives (b, c, h, w) by new images of sums over covariances."""
        ...


@dataclass(frozen=True)
class _Seen:
    """What parts share: a view, and what covariances with images in it follow from."""

    view: View | None  # None shows the images themselves
    # The kernel, with the training images as the view shows them, or features.
    basis: Any

    @property
    def kernel_basis(self) -> KernelBasis:
        """The kernel, with images as it sees them."""
        return cast(KernelBasis, self.basis.kernel_basis)

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that a Gram matrix has gone through."""
        return cast(torch.dtype, self.basis.precision(config))

    def choice(self, run: Run) -> BackendChoice | ResponsesChoice:
        """Return the backend of tiles, or of responses to patches."""
        return cast(BackendChoice, self.basis.choice(run))


@dataclass(frozen=True)
class KernelPart(_Seen):
    """A kernel of images through a view."""

    basis: KernelBasis

    @property
    def n_values(self) -> int:
        """How many numbers are held for each new image, beside its covariances."""
        return int(self.basis.rows.shape[1])

    def without_plain(self) -> Self:
        """Return the part, which keeps nothing for the one without mirror images."""
        return self

    def gram(self, run: Run) -> Tensor:
        """Return the covariances (n, n) of the training images."""
        return self.basis.oracle(run, "fit").gram()

    def cross(
        self, sight: Sight, run: Run, *, needs_diag: bool
    ) -> tuple[Tensor, Tensor]:
        """Return covariances (b, n) and prior variances (b,) of new images."""
        rows = _seen_rows(self, sight, run)
        stream = self.basis.stream(NewRows(rows), run.quiet(), needs_diag=needs_diag)
        cross, diag = zip(*stream, strict=True)
        return torch.cat(cross), torch.cat(diag)

    def variances(self, sight: Sight, run: Run) -> Tensor:
        """Return prior variances (b,) of new images."""
        return self.basis.variances(_seen_rows(self, sight, run), run)

    def covariance(self, sight: Sight, run: Run) -> Tensor:
        """Return covariances (b, b) of new images with each other."""
        rows = _seen_rows(self, sight, run)
        return self.basis.covariance(rows, run.quiet(), 1.0)

    def pull(self, images: Tensor, sums: FloatArray, run: Run) -> Tensor:
        """Return derivatives (b, c, h, w) by new images of sums over covariances."""
        rows = _seen_rows(self, Sight(images), run)
        return _through(self, images, self.basis.pull(rows, sums, run))


@dataclass(frozen=True)
class MirroredPart(_Seen):
    """A kernel of images through a view, averaged over mirror images.

    It is the mean of k(g x, g' x') over g and g', the identity or mirroring. If the
    kernel and its view commute with mirroring, the mean over g' is the same.
    """

    # The kernel, with the n training images as the view shows them, followed by their
    # mirror images.
    basis: KernelBasis
    commutes: bool  # whether mirroring both images leaves a covariance as it is

    @classmethod
    def of(cls, view: View | None, basis: KernelBasis, run: Run) -> Self:
        """Return the part, once it is known whether mirroring commutes.

        Images that are their own mirror images do not show it.
        """
        n = len(basis.rows) // 2
        order = to_numpy(permutation(n, Generator().manual_seed(0)))
        differ = (basis.rows[:n] != basis.rows[n:]).any(1)[order]
        few = np.sort(order[differ][:COMPARED])
        if not len(few):
            return cls(view, basis, commutes=False)
        quiet = run.quiet()
        one, other = (
            basis.covariance(basis.rows[which], quiet, 1.0) for which in (few, n + few)
        )
        error = float((one - other).abs().max() / one.abs().max())
        return cls(view, basis, commutes=error <= MIRROR_ERROR)

    @property
    def n_values(self) -> int:
        """How many numbers are held for each new image, beside its covariances."""
        return int(2 * self.basis.rows.shape[1] + 2 * self.basis.n_samples)

    @property
    def plain(self) -> KernelPart:
        """The part without mirror images."""
        n = self.basis.n_samples // 2
        return KernelPart(self.view, self.basis.take(np.arange(n)))

    def without_plain(self) -> Self:
        """Return the part, which keeps nothing for the one without mirror images."""
        return self

    def gram(self, run: Run) -> Tensor:
        """Return the covariances (n, n) of the training images."""
        n = self.basis.n_samples // 2
        if self.commutes:
            return symmetrize_(self._averaged(self.basis.rows[:n], run, "fit"))
        whole = self.basis.oracle(run, "fit").gram()
        return whole.reshape(2, n, 2, n).mean((0, 2))

    def cross(
        self, sight: Sight, run: Run, *, needs_diag: bool
    ) -> tuple[Tensor, Tensor]:
        """Return covariances (b, n) and prior variances (b,) of new images.

        Mirror images of new images are needed for variances, and for covariances if
        mirroring does not commute.
        """
        quiet = run.quiet()
        rows = [_seen_rows(self, sight, run)]
        if needs_diag or not self.commutes:
            rows.append(_seen_rows(self, sight.flipped, run))
        used = rows[:1] if self.commutes else rows
        cross = self._mean([self._averaged(one, quiet) for one in used])
        if not needs_diag:
            return cross, cross.new_zeros(len(cross))
        return cross, self._variances(rows[0], rows[1], quiet)

    def variances(self, sight: Sight, run: Run) -> Tensor:
        """Return prior variances (b,) of new images."""
        one, other = (_seen_rows(self, x, run) for x in (sight, sight.flipped))
        return self._variances(one, other, run)

    def covariance(self, sight: Sight, run: Run) -> Tensor:
        """Return covariances (b, b) of new images with each other."""
        both = [_seen_rows(self, x, run) for x in (sight, sight.flipped)]
        whole = self.basis.covariance(np.concatenate(both), run.quiet(), 1.0)
        n = len(sight.images)
        return whole.reshape(2, n, 2, n).mean((0, 2))

    def pull(self, images: Tensor, sums: FloatArray, run: Run) -> Tensor:
        """Return derivatives (b, c, h, w) by new images of sums over covariances."""
        halves, gradients = np.hstack([sums, sums]) / 2.0, []
        for given in (images, flip(images))[: 1 if self.commutes else 2]:
            rows = _seen_rows(self, Sight(given), run)
            by_rows = self.basis.pull(rows, halves, run)
            gradients.append(_through(self, given, by_rows))
        if self.commutes:
            return gradients[0]
        return (gradients[0] + flip(gradients[1])) / 2.0

    def _averaged(self, rows: NDArray[Any], run: Run, label: str = "predict") -> Tensor:
        """Return covariances (b, n) with training images and with their mirror images.

        They are the means of the two.
        """
        n = self.basis.n_samples // 2
        new = NewRows(rows)
        blocks = self.basis.stream(new, run, needs_diag=False, label=label)
        return torch.cat([(cross[:, :n] + cross[:, n:]) / 2.0 for cross, _ in blocks])

    def _variances(self, rows: NDArray[Any], others: NDArray[Any], run: Run) -> Tensor:
        """Return the variances (b,) of images, given their mirror images."""
        variances = []
        for part in slices(len(rows), PAIRED):
            both = np.concatenate([rows[part], others[part]])
            whole = self.basis.covariance(both, run, 1.0)
            of_pairs = whole.reshape(2, len(both) // 2, 2, len(both) // 2)
            variances.append(of_pairs.diagonal(dim1=1, dim2=3).mean((0, 1)))
        return torch.cat(variances)

    @staticmethod
    def _mean(blocks: list[Tensor]) -> Tensor:
        return torch.stack(blocks).mean(0) if len(blocks) > 1 else blocks[0]


@dataclass(frozen=True)
class PatchPart(_Seen):
    """Features of the patches of images through a view, and their products."""

    basis: PatchBasis  # gives features
    # Whether features of an image and of its mirror image are averaged.
    is_averaged: bool
    # (n, r), of the training images, in the precision of responses.
    features: FloatArray

    # The part without mirror images, if it was asked for.
    plain: Any = None

    @classmethod
    def of(
        cls,
        view: View | None,
        basis: PatchBasis,
        seen: Tensor,
        *,
        is_averaged: bool,
        needs_plain: bool,
        run: Run,
    ) -> Self:
        """Return the part with the features of training images.

        `seen` has these images as the view shows them, and then their mirror images if
        features are averaged. Then the part without these may be needed, too.
        """
        part = cls(view, basis, is_averaged, np.empty((0, basis.n_samples)))
        rows, n = to_numpy(seen.flatten(1)), len(seen) // (2 if is_averaged else 1)
        blocks, plain = [], []
        for block in slices(n, part._at_once(run.config)):
            versions = [rows[:n][block], rows[n:][block]][: 1 + is_averaged]
            if needs_plain:
                one, other = (part._mean([version], run) for version in versions)
                plain.append(to_numpy(one.to(basis.tile_dtype)))
                of_block = (one + other) / 2.0
            else:
                of_block = part._mean(versions, run)
            blocks.append(to_numpy(of_block.to(basis.tile_dtype)))
        if needs_plain:
            alone = replace(part, is_averaged=False, features=np.concatenate(plain))
            part = replace(part, plain=alone)
        return replace(part, features=np.concatenate(blocks))

    def without_plain(self) -> Self:
        """Return the part, which keeps nothing for the one without mirror images."""
        return replace(self, plain=None)

    @property
    def n_values(self) -> int:
        """How many numbers are held for each new image, beside its covariances."""
        n_versions = 2 if self.is_averaged else 1
        shown = n_versions * self.basis.exact.rows.shape[1]
        return 2 * self.basis.n_samples + (shown if self.view is not None else 0)

    def gram(self, run: Run) -> Tensor:
        """Return the covariances (n, n) of the training images."""
        n, config = len(self.features), run.config
        gram = torch.empty((n, n), dtype=config.solve_dtype, device=config.device)
        for part in slices(n, min(PRODUCTS, self._at_once(config))):
            # Products with earlier images: those with later ones are the same.
            products = self._products(run.tensor(self.features[part]), part.stop, run)
            gram[part, : part.stop] = products
            gram[: part.stop, part] = products.mT
            symmetrize_(gram[part, part])
        return gram

    def cross(
        self,
        sight: Sight,
        run: Run,
        *,
        needs_diag: bool,  # noqa: ARG002  (they cost little beside covariances)
    ) -> tuple[Tensor, Tensor]:
        """Return covariances (b, n) and prior variances (b,) of new images."""
        features = self._features(sight, run)
        products = self._products(features, len(self.features), run)
        return products, features.square().sum(1)

    def variances(self, sight: Sight, run: Run) -> Tensor:
        """Return prior variances (b,) of new images."""
        return self._features(sight, run).square().sum(1)

    def covariance(self, sight: Sight, run: Run) -> Tensor:
        """Return covariances (b, b) of new images with each other."""
        features = self._features(sight, run)
        return symmetrize_(features @ features.mT)

    def pull(self, images: Tensor, sums: FloatArray, run: Run) -> Tensor:
        """Return derivatives (b, c, h, w) by new images of sums over covariances."""
        by_features = sums @ self.features
        gradients: list[Tensor] = []
        for given in self._versions(Sight(images)):
            rows = _seen_rows(self, given, run)
            by_rows = self.basis.pull(rows, by_features, run)
            through = _through(self, given.images, by_rows)
            gradients.append(flip(through) if gradients else through)
        return torch.stack(gradients).mean(0)

    def _features(self, sight: Sight, run: Run) -> Tensor:
        """Return the features (b, r) of images."""
        versions = [_seen_rows(self, given, run) for given in self._versions(sight)]
        return self._mean(versions, run)

    def _mean(self, versions: list[NDArray[Any]], run: Run) -> Tensor:
        """Return the mean features (b, r) of versions of images, as rows."""
        return self.basis.mean_features(versions, run.quiet())

    def _versions(self, sight: Sight) -> Iterator[Sight]:
        yield sight
        if self.is_averaged:
            yield sight.flipped

    def _products(self, features: Tensor, n: int, run: Run) -> Tensor:
        """Return products (b, n) of features (b, r) with training features."""
        blocks = slices(n, self._at_once(run.config))
        with threads_for(n * features.numel()):
            ours = [features @ run.tensor(self.features[part]).mT for part in blocks]
            return torch.cat(ours, 1)

    def _at_once(self, config: ComputeConfig) -> int:
        return self.basis.rows_at_once(config)


def _seen_rows(part: Part, sight: Sight, run: Run) -> NDArray[Any]:
    """Return rows of images as the view of a part shows them."""
    dtype = part.kernel_basis.tile_dtype
    return to_numpy(sight.through(part.view, run.config.device, dtype).flatten(1))


def _through(part: Part, images: Tensor, by_rows: FloatArray) -> Tensor:
    """Return derivatives by images, given those by rows that a view shows."""
    shape = part.kernel_basis.image_shape
    by_seen = rows_to_tensor(by_rows).reshape(-1, *shape)
    return pull_through(part.view, images, by_seen)
