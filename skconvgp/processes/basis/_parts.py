"""Parts of a sum of kernels and of features: each sees images in its way.

The formulas: docs/maths.rst, "Sums of parts".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
import torch
from torch import Generator, Tensor

from skconvgp._config import ComputeConfig
from skconvgp._tensors import permutation
from skconvgp._typing import FloatArray, Rows
from skconvgp.backends import BackendChoice, ResponsesChoice
from skconvgp.engine import join_rows, slices, to_numpy
from skconvgp.kernels._flips import flip
from skconvgp.linalg import symmetrize_
from skconvgp.processes._run import Run
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.basis._folded import Folded, FoldedKernel
from skconvgp.processes.basis._plain import KernelBasis
from skconvgp.processes.basis._sight import Sight, seen_rows, through
from skconvgp.processes.basis._views import View

PAIRED = 16  # images whose covariances with their mirror images are computed at once
COMPARED = 8  # images that show whether a kernel commutes with mirroring
MIRROR_ERROR = 1e-4  # of these covariances, relative to the largest


class Part(Protocol):
    """Covariances of images through a view, by a kernel or by features."""

    @property
    def compares_images(self) -> bool:
        """Whether means of new images need training images."""
        ...

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

    def gram(self, run: Run, dtype: torch.dtype | None = None) -> Tensor:
        """Return the covariances (n, n) of the training images.

        They have a precision, by default that of solves, in which they are summed.
        """
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

    def joined(self, sight: Sight, run: Run) -> Self:
        """Return the part with further images beside the training images."""
        ...

    def fold(self, dual: FloatArray) -> Folded:
        """Return the means by dual coefficients (n, k)."""
        ...

    def quick(self) -> Any:
        """Return what gives its `cross` for probabilities, whose digits are fewer."""
        ...

    def pull(self, images: Tensor, sums: FloatArray, run: Run) -> Tensor:
        """Return derivatives (b, c, h, w) by new images of sums over covariances."""
        ...


def in_dtype(run: Run, dtype: torch.dtype | None) -> Run:
    """Return the run with a precision of solves, if one is given."""
    if dtype is None:
        return run
    return replace(run, config=replace(run.config, solve_dtype=dtype))


@dataclass(frozen=True)
class Seen:
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
class KernelPart(Seen):
    """A kernel of images through a view."""

    basis: KernelBasis

    compares_images: ClassVar[bool] = True

    @property
    def n_values(self) -> int:
        """How many numbers are held for each new image, beside its covariances."""
        return int(self.basis.rows.shape[1])

    def without_plain(self) -> Self:
        """Return the part, which keeps nothing for the one without mirror images."""
        return self

    def joined(self, sight: Sight, run: Run) -> Self:
        """Return the part with further images beside the training images."""
        rows = to_numpy(seen_rows(self, sight, run))
        return replace(self, basis=self.basis.followed_by(rows))

    def fold(self, dual: FloatArray) -> FoldedKernel:
        """Return the means by dual coefficients (n, k)."""
        return FoldedKernel(self, dual)

    def quick(self) -> Self:
        """Return the part: covariances have their precision."""
        return self

    def gram(self, run: Run, dtype: torch.dtype | None = None) -> Tensor:
        """Return the covariances (n, n) of the training images."""
        return self.basis.oracle(in_dtype(run, dtype), "fit").gram()

    def cross(
        self, sight: Sight, run: Run, *, needs_diag: bool
    ) -> tuple[Tensor, Tensor]:
        """Return covariances (b, n) and prior variances (b,) of new images."""
        rows = seen_rows(self, sight, run)
        stream = self.basis.stream(NewRows(rows), run.quiet(), needs_diag=needs_diag)
        cross, diag = zip(*stream, strict=True)
        return torch.cat(cross), torch.cat(diag)

    def variances(self, sight: Sight, run: Run) -> Tensor:
        """Return prior variances (b,) of new images."""
        return self.basis.variances(seen_rows(self, sight, run), run)

    def covariance(self, sight: Sight, run: Run) -> Tensor:
        """Return covariances (b, b) of new images with each other."""
        rows = seen_rows(self, sight, run)
        return self.basis.covariance(rows, run.quiet(), 1.0)

    def pull(self, images: Tensor, sums: FloatArray, run: Run) -> Tensor:
        """Return derivatives (b, c, h, w) by new images of sums over covariances."""
        rows = to_numpy(seen_rows(self, Sight(images), run))
        return through(self, images, self.basis.pull(rows, sums, run))


@dataclass(frozen=True)
class MirroredPart(Seen):
    """A kernel of images through a view, averaged over mirror images.

    It is the mean of k(g x, g' x') over g and g', the identity or mirroring. If the
    kernel and its view commute with mirroring, the mean over g' is the same.
    """

    # The kernel, with the n training images as the view shows them, followed by their
    # mirror images.
    basis: KernelBasis
    commutes: bool  # whether mirroring both images leaves a covariance as it is

    compares_images: ClassVar[bool] = True

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

    def joined(self, sight: Sight, run: Run) -> Self:
        """Return the part with further images beside the training images."""
        n, m = self.basis.n_samples // 2, len(sight.images)
        both = [to_numpy(seen_rows(self, x, run)) for x in (sight, sight.flipped)]
        basis = self.basis.followed_by(np.concatenate(both))
        own, new = np.arange(n), 2 * n + np.arange(m)
        order = np.concatenate([own, new, n + own, m + new])
        return replace(self, basis=basis.take(order))

    def fold(self, dual: FloatArray) -> FoldedKernel:
        """Return the means by dual coefficients (n, k)."""
        return FoldedKernel(self, dual)

    def quick(self) -> Self:
        """Return the part: covariances have their precision."""
        return self

    def gram(self, run: Run, dtype: torch.dtype | None = None) -> Tensor:
        """Return the covariances (n, n) of the training images."""
        n, run = self.basis.n_samples // 2, in_dtype(run, dtype)
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
        rows = [seen_rows(self, sight, run)]
        if needs_diag or not self.commutes:
            rows.append(seen_rows(self, sight.flipped, run))
        # At once: each stream computes the tables of training images anew.
        used = rows[:1] if self.commutes else rows
        cross = self._averaged(join_rows(used), quiet)
        cross = cross.reshape(len(used), -1, cross.shape[1]).mean(0)
        if not needs_diag:
            return cross, cross.new_zeros(len(cross))
        return cross, self._variances(rows[0], rows[1], quiet)

    def variances(self, sight: Sight, run: Run) -> Tensor:
        """Return prior variances (b,) of new images."""
        one, other = (seen_rows(self, x, run) for x in (sight, sight.flipped))
        return self._variances(one, other, run)

    def covariance(self, sight: Sight, run: Run) -> Tensor:
        """Return covariances (b, b) of new images with each other."""
        both = [seen_rows(self, x, run) for x in (sight, sight.flipped)]
        whole = self.basis.covariance(join_rows(both), run.quiet(), 1.0)
        n = len(sight.images)
        return whole.reshape(2, n, 2, n).mean((0, 2))

    def pull(self, images: Tensor, sums: FloatArray, run: Run) -> Tensor:
        """Return derivatives (b, c, h, w) by new images of sums over covariances."""
        halves, gradients = np.hstack([sums, sums]) / 2.0, []
        for given in (images, flip(images))[: 1 if self.commutes else 2]:
            rows = to_numpy(seen_rows(self, Sight(given), run))
            by_rows = self.basis.pull(rows, halves, run)
            gradients.append(through(self, given, by_rows))
        if self.commutes:
            return gradients[0]
        return (gradients[0] + flip(gradients[1])) / 2.0

    def _averaged(self, rows: Rows, run: Run, label: str = "predict") -> Tensor:
        """Return covariances (b, n) with training images and with their mirror images.

        They are the means of the two.
        """
        n = self.basis.n_samples // 2
        new = NewRows(rows)
        blocks = self.basis.stream(new, run, needs_diag=False, label=label)
        return torch.cat([(cross[:, :n] + cross[:, n:]) / 2.0 for cross, _ in blocks])

    def _variances(self, rows: Rows, others: Rows, run: Run) -> Tensor:
        """Return the variances (b,) of images, given their mirror images."""
        variances = []
        for part in slices(len(rows), PAIRED):
            both = join_rows([rows[part], others[part]])
            whole = self.basis.covariance(both, run, 1.0)
            of_pairs = whole.reshape(2, len(both) // 2, 2, len(both) // 2)
            variances.append(of_pairs.diagonal(dim1=1, dim2=3).mean((0, 1)))
        return torch.cat(variances)
