"""Evaluator: Gram matrices of batches, and their derivatives."""

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import (
    Batch,
    GramOperator,
    PullbackBackend,
    TileBackend,
    TileCosts,
    TileRunner,
    run_serially,
)
from skconvgp._typing import ImageShape
from skconvgp.backends import BackendChoice, choose_backend, choose_pullback
from skconvgp.engine import (
    FactoredWeights,
    KernelGram,
    KernelOracle,
    measure_tiles,
    on_device,
    pull_back,
)
from skconvgp.exceptions import NotFiniteError, NotPSDError
from skconvgp.kernels import Kernel
from skconvgp.linalg import DenseGram


@dataclass(frozen=True)
class Evaluator:
    """Gram matrices of batches of the training images, and their derivatives."""

    images: Tensor  # training images (n, c, h, w), on the host
    image_shape: ImageShape  # of an image as the kernel sees it
    backend: str  # "auto", "torch" or "fused"
    config: ComputeConfig
    runner: TileRunner = run_serially
    # Costs of tiles: those of the kernel for any values of its hyperparameters.
    costs: dict[str, TileCosts] = field(default_factory=dict)

    def gram(self, kernel: Kernel, batch: Batch) -> Tensor:
        """Return the Gram matrix (b, b) of a batch; all NaN if it is not finite."""
        tiles = self._choice(kernel).tiles()
        try:
            return self._oracle(tiles, batch, self.runner).gram()
        except NotFiniteError:
            return self._undefined(len(batch), len(batch))

    def has_own_tangents(self, kernel: Kernel) -> bool:
        """Return whether derivatives of whole matrices have code of their own."""
        return self._choice(kernel).has_own_tangents

    def stores(self, kernel: Kernel, batch: Batch, most: int) -> bool:
        """Return whether a matrix with its derivatives takes at most these bytes."""
        return self.bytes_stored(kernel, batch) <= most

    def gram_with_tangents(self, kernel: Kernel, batch: Batch) -> Tensor:
        """Return the Gram matrix with its derivatives by theta (b, b, 1 + p).

        All entries are NaN if one is not finite.
        """
        choice = self._choice(kernel)
        b, q = len(batch), 1 + len(kernel.theta)
        out = torch.empty(
            (q, b, b), dtype=self.config.solve_dtype, device=self.config.device
        ).permute(1, 2, 0)
        # torch has one level of forward mode for all threads: they would wait in turn.
        runner = self.runner if choice.has_tangents else run_serially
        try:
            return self._oracle(choice.tangents(), batch, runner, "tangents").gram(out)
        except NotFiniteError:
            return self._undefined(b, b, q)

    def diag(self, kernel: Kernel, batch: Batch) -> Tensor:
        """Return the prior variances (b,) of a batch; all NaN if one is not finite."""
        tiles = self._choice(kernel).tiles()
        try:
            return self._oracle(tiles, batch, self.runner).diag()
        except NotFiniteError:
            return self._undefined(len(batch))

    def operator(
        self, kernel: Kernel, batch: Batch, *, is_held: bool
    ) -> tuple[GramOperator, float]:
        """Return the Gram matrix as an operator of mean diagonal 1, and its divisor.

        If it is not held in memory, each product evaluates the covariances anew.

        Raises a `NotPSDError` if a prior variance is not finite, or if all of them are
        zero.
        """
        oracle = self._oracle(self._choice(kernel).tiles(), batch, self.runner)
        try:
            scale = float(oracle.diag().mean())
            gram = oracle.gram() if is_held else None
        except NotFiniteError as error:
            raise NotPSDError(str(error)) from error
        if not 0.0 < scale < math.inf:
            raise NotPSDError(f"The mean prior variance is {scale}.")
        if gram is not None:
            return DenseGram(gram.div_(scale)), scale
        return KernelGram(oracle, scale), scale

    def pull(
        self, kernel: Kernel, batch: Batch, weights: Tensor | FactoredWeights
    ) -> Tensor:
        """Return the derivatives (p,) of <weights, K>, in the memory of a tile."""
        pullback = choose_pullback(self._choice(kernel), has_inputs=False)
        by_theta, _ = pull_back(
            pullback,
            self.images[batch.indices],
            None,
            weights,
            self.config,
            self.runner,
            known_costs=self._costs_of("pullback", pullback),
        )
        return by_theta

    def graph(self, kernel: Kernel, batch: Batch) -> Tensor:
        """Return the Gram matrix with torch's graph of its whole computation."""
        images = self.images[batch.indices].to(self.config.device, torch.float64)
        with on_device(self.config.device):
            one = kernel.prepare(images)
            gram = kernel.cross(one, one)
            variances = kernel.diag(one)
        # As in tiles, the diagonal has the prior variances, which `cross` rounds.
        return gram + torch.diag_embed(variances - gram.diagonal())

    def bytes_stored(self, kernel: Kernel, batch: Batch) -> int:
        """Return the bytes of a matrix with its derivatives."""
        return (
            len(batch) ** 2 * (1 + len(kernel.theta)) * self.config.solve_dtype.itemsize
        )

    def _undefined(self, *shape: int) -> Tensor:
        return torch.full(
            shape, math.nan, dtype=self.config.solve_dtype, device=self.config.device
        )

    def _choice(self, kernel: Kernel) -> BackendChoice:
        device = self.config.device
        return choose_backend(kernel, self.image_shape, self.backend, device)

    def _oracle(
        self,
        tiles: TileBackend,
        batch: Batch,
        runner: TileRunner,
        name: str = "values",
    ) -> KernelOracle:
        workers = self.config.n_workers if runner is self.runner else 1
        config = replace(self.config, n_workers=workers)
        return KernelOracle(
            tiles,
            self.images[batch.indices],
            config,
            runner,
            known_costs=self._costs_of(name, tiles),
        )

    def _costs_of(self, name: str, backend: TileBackend | PullbackBackend) -> TileCosts:
        if name not in self.costs:
            self.costs[name] = measure_tiles(backend, self.images, self.config)
        return self.costs[name]
