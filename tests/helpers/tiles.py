"""Small tiles, and backends and runners that watch how the engine works."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from skconvgp._config import ComputeConfig
from skconvgp._protocols import Pulled, TileCosts
from skconvgp.engine import _plan, _pullback

CPU = torch.device("cpu")


def config(**settings):
    """Return a configuration for the CPU."""
    return ComputeConfig(CPU, **settings)


@contextmanager
def small_tiles(block, tile, pair_bytes):
    """Let the planner cut blocks and tiles of these sides at most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_plan, "MAX_BLOCK", block)
        for name in ("TILE_BYTES", "GPU_TILE_BYTES"):
            patch.setattr(_plan, name, tile * tile * pair_bytes)
        yield


class WatchedBackend:
    """Passes everything on, counts images prepared and keeps the shapes of tiles."""

    def __init__(self, backend):
        self.backend = backend
        self.n_prepared = 0
        self.tiles = []

    def prepare(self, images):
        self.n_prepared += len(images)
        return self.backend.prepare(images)

    def cross(self, one, two):
        values = self.backend.cross(one, two)
        self.tiles.append(tuple(values.shape[:2]))
        return values

    def gram(self, one):
        values = self.backend.gram(one)
        self.tiles.append(tuple(values.shape[:2]))
        return values

    def diag(self, one):
        return self.backend.diag(one)

    def measure(self, image):
        return self.backend.measure(image)


class ScarceBackend(WatchedBackend):
    """Runs out of memory in tiles with a side above `room`."""

    def __init__(self, backend, room):
        super().__init__(backend)
        self.room = room

    def cross(self, one, two):
        return self._where_there_is_room(super().cross(one, two))

    def gram(self, one):
        return self._where_there_is_room(super().gram(one))

    def _where_there_is_room(self, values):
        if max(values.shape[:2]) > self.room:
            raise torch.cuda.OutOfMemoryError("tried to allocate 20 MiB")
        return values


class PlaceBackend:
    """Third-party backend: the value of a pair tells which images it belongs to.

    Image i is the number i. A pair (i, j) is worth 1000 i + j, or, to be symmetric,
    that of the ordered pair. One of the tables is missing, another is nested. What
    need not be right below the diagonal is not a number.
    """

    def __init__(self, is_symmetric):
        self.is_symmetric = is_symmetric

    def prepare(self, images):
        return images[:, 0, 0, 0], (None, images[:, 0, 0, 0])

    def cross(self, one, two):
        rows, cols = one[0][:, None], two[1][1][None, :]
        if self.is_symmetric:
            return 1000 * torch.maximum(rows, cols) + torch.minimum(rows, cols)
        return 1000 * rows + cols

    def gram(self, one):
        values = self.cross(one, one)
        index = torch.arange(len(values))
        return values.masked_fill(index[:, None] > index[None, :], torch.nan)

    def diag(self, one):
        return 1001 * one[0]

    def measure(self, image):
        return TileCosts(image_bytes=16, pair_bytes=64, value_bytes=8)


def numbered_images(n):
    """Return images (n, 1, 1, 1) that hold their number."""
    return torch.arange(n, dtype=torch.float64).reshape(n, 1, 1, 1)


def run_shuffled(jobs):
    """Run jobs in another order."""
    jobs = list(jobs)
    random.Random(0).shuffle(jobs)
    for job in jobs:
        yield job()


def run_in_threads(jobs):
    """Run jobs at the same time."""
    with ThreadPoolExecutor(3) as pool:
        yield from pool.map(lambda job: job(), jobs)


@contextmanager
def small_pullback(block, tile):
    """Let a pass back be cut into blocks and tiles of these sides."""
    plan_pullback = _pullback.plan_pullback

    def cut(*sizes, **settings):
        return replace(plan_pullback(*sizes, **settings), block=block, tile=tile)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pullback, "plan_pullback", cut)
        yield


class PlacePullback:
    """Third-party backend for the product of two numbered images, times exp(theta)."""

    def measure(self, image):
        return TileCosts(image_bytes=10, pair_bytes=100)

    def pull(self, one, two, weights):
        rows = one[:, 0, 0, 0]
        if two is not None:
            cols = two[:, 0, 0, 0]
            by_theta = (rows @ weights @ cols).reshape(1)
            return Pulled(
                by_theta, like(one, weights @ cols), like(two, rows @ weights)
            )
        assert not weights.tril(-1).any()
        by_theta = (rows @ weights @ rows).reshape(1)
        return Pulled(by_theta, like(one, weights @ rows + rows @ weights))


def like(images, values):
    """Return one value for each image in the shape of the images."""
    return values.reshape(images.shape)
