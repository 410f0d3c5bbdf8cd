"""PatchPart: a part of a sum by features of patches, and their products.

The formulas: docs/maths.rst, "Sums of parts".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._threads import threads_for
from skconvgp._typing import FloatArray, Rows
from skconvgp.engine import has_room, held, keep_held, slices, to_numpy
from skconvgp.kernels._flips import flip
from skconvgp.linalg import own_products, symmetrize_
from skconvgp.processes._run import Run
from skconvgp.processes.basis._folded import FoldedPatches, features_dual
from skconvgp.processes.basis._parts import Seen, in_dtype
from skconvgp.processes.basis._patch_basis import PatchBasis
from skconvgp.processes.basis._quick_patches import QuickPatches
from skconvgp.processes.basis._sight import Sight, seen_rows, through
from skconvgp.processes.basis._views import View

PRODUCTS = 512  # images whose products with earlier ones are computed at once


@dataclass(frozen=True)
class PatchPart(Seen):
    """Features of the patches of images through a view, and their products."""

    basis: PatchBasis  # gives features
    # Whether features of an image and of its mirror image are averaged.
    is_averaged: bool
    # (n, r), of the training images, in the precision of responses.
    features: FloatArray

    # The part without mirror images, if it was asked for.
    plain: Any = None

    compares_images: ClassVar[bool] = False

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
        # They are kept in the precision of responses: more digits would be rounded off.
        run = in_dtype(run, basis.tile_dtype)
        rows, n = seen.flatten(1), len(seen) // (2 if is_averaged else 1)
        dtype, device = basis.tile_dtype, run.config.device
        # Each block goes to the host alone if all have no room on a GPU.
        needed = n * basis.n_samples * dtype.itemsize * (1 + needs_plain)
        place = device if has_room(2 * needed, device) else torch.device("cpu")
        blocks, plain = [], []
        for block in slices(n, part._at_once(run.config)):
            versions = [rows[:n][block], rows[n:][block]][: 1 + is_averaged]
            if needs_plain:
                one, other = (part._mean([version], run) for version in versions)
                plain.append(one.to(place, dtype))
                of_block = (one + other) / 2.0
            else:
                of_block = part._mean(versions, run)
            blocks.append(of_block.to(place, dtype))
        if needs_plain:
            alone = replace(
                part, is_averaged=False, features=keep_held(torch.cat(plain))
            )
            part = replace(part, plain=alone)
        return replace(part, features=keep_held(torch.cat(blocks)))

    def without_plain(self) -> Self:
        """Return the part, which keeps nothing for the one without mirror images."""
        return replace(self, plain=None)

    def joined(self, sight: Sight, run: Run) -> Self:
        """Return the part with further images beside the training images."""
        new = to_numpy(self._features(sight, run))
        return replace(self, features=np.concatenate([self.features, new]))

    def fold(self, dual: FloatArray) -> FoldedPatches:
        """Return the means by dual coefficients (n, k), as weights of responses."""
        weights = features_dual(self.features, dual, PRODUCTS)
        own = self.view, self.basis, weights
        return FoldedPatches.of(*own, is_averaged=self.is_averaged)

    def quick(self) -> QuickPatches:
        """Return the part with features in the precision of training features."""
        return QuickPatches(self.view, self.basis, (self,))

    @property
    def n_values(self) -> int:
        """How many numbers are held for each new image, beside its covariances."""
        n_versions = 2 if self.is_averaged else 1
        shown = n_versions * self.basis.exact.rows.shape[1]
        return 2 * self.basis.n_samples + (shown if self.view is not None else 0)

    def gram(self, run: Run, dtype: torch.dtype | None = None) -> Tensor:
        """Return the covariances (n, n) of the training images.

        Products are summed in the precision of solves.
        """
        n, config = len(self.features), run.config
        dtype = dtype or config.solve_dtype
        gram = torch.empty((n, n), dtype=dtype, device=config.device)
        for part in slices(n, min(PRODUCTS, self._at_once(config))):
            # Products with earlier images: those with later ones are the same.
            own = self._trained(part, run)
            if part.start:
                products = self._products(own, part.start, run)
                gram[part, : part.start] = products
                gram[: part.start, part] = products.mT
            with threads_for(len(own) * own.numel()):
                gram[part, part] = own_products(own)
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
        diag = features.square().sum(1)
        return self.products(features, run), diag

    def products(self, features: Tensor, run: Run) -> Tensor:
        """Return products (b, n) of features (b, r) with those of training images."""
        return self._products(features, len(self.features), run)

    def variances(self, sight: Sight, run: Run) -> Tensor:
        """Return prior variances (b,) of new images."""
        quick = in_dtype(run, self.basis.tile_dtype)
        variances = self._features(sight, quick).square().sum(1)
        return variances.to(run.config.solve_dtype)

    def covariance(self, sight: Sight, run: Run) -> Tensor:
        """Return covariances (b, b) of new images with each other."""
        features = self._features(sight, run)
        return symmetrize_(features @ features.mT)

    def pull(self, images: Tensor, sums: FloatArray, run: Run) -> Tensor:
        """Return derivatives (b, c, h, w) by new images of sums over covariances."""
        by_features = sums @ self.features
        gradients: list[Tensor] = []
        for given in self._versions(Sight(images)):
            rows = to_numpy(seen_rows(self, given, run))
            by_rows = self.basis.pull(rows, by_features, run)
            by_images = through(self, given.images, by_rows)
            gradients.append(flip(by_images) if gradients else by_images)
        return torch.stack(gradients).mean(0)

    def _features(self, sight: Sight, run: Run) -> Tensor:
        """Return the features (b, r) of images."""
        versions = [seen_rows(self, given, run) for given in self._versions(sight)]
        return self._mean(versions, run)

    def _mean(self, versions: Sequence[Rows], run: Run) -> Tensor:
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
            ours = [features @ self._trained(part, run).mT for part in blocks]
            return torch.cat(ours, 1)

    def _trained(self, part: slice, run: Run) -> Tensor:
        """Return the features of a range of training images, on the device."""
        config = run.config
        if config.device.type == "cpu":
            return run.tensor(self.features[part])
        return held(self.features, config.device)[part].to(config.solve_dtype)

    def _at_once(self, config: ComputeConfig) -> int:
        return self.basis.rows_at_once(config)
