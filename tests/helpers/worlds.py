"""Samples with all their covariances, those of training and new ones behind them."""

from dataclasses import dataclass, replace

import numpy as np

from skconvgp.kernels import Kernel, PatchKernel, convnet, rbf
from skconvgp.processes import KernelBasis, MatrixBasis
from tests.helpers.estimators import digits, tiny_network
from tests.helpers.kernels import cross, double

N_FIRST, N, N_NEW = 13, 27, 6  # samples of a first call, of all calls, and new ones
# Inputs of the samples: two of them occur more than once.
INPUTS = np.repeat(np.arange(24), [1] * 11 + [2] + [1] * 11 + [3])
REPEATED = (11, 23)
COARSE = convnet(2, 2)
PATCH, REACH = 4, 3.0  # side of a patch, and location lengthscale


@dataclass(frozen=True)
class World:
    """Training samples and new ones behind them, with all their covariances.

    `kernel` is None where the covariances are all that is given.
    """

    rows: np.ndarray  # (n + n_new, d)
    covariances: np.ndarray  # (n + n_new, n + n_new)
    kernel: Kernel | None
    image_shape: tuple[int, int, int]

    def rows_of(self, numbers):
        """Return what `fit` is given of training samples."""
        if self.kernel is None:
            return self.covariances[np.ix_(numbers, numbers)]
        return self.rows[numbers]

    def basis(self, numbers):
        if self.kernel is None:
            return MatrixBasis(self.rows_of(numbers), np.arange(len(numbers)))
        shape = self.image_shape
        rows, indices = self.rows_of(numbers), np.arange(len(numbers))
        return KernelBasis(self.kernel, rows, indices, shape)

    def new(self, numbers):
        """Return new samples and their prior variances, as `latent` takes them."""
        new = np.arange(N, len(self.rows))
        diag = np.diag(self.covariances)[new]
        if self.kernel is None:
            return self.covariances[np.ix_(new, numbers)], diag
        return self.rows[new], diag


def _points():
    """Return points of which those that are repeated are far from all others."""
    points = np.random.default_rng(0).normal(size=(24 + N_NEW, 2))
    points[REPEATED[0]] = [4.0, 4.0]
    points[REPEATED[1]] = [-4.0, 4.0]
    return np.concatenate([points[INPUTS], points[24:]])


def points_world():
    rows = _points()
    squares = ((rows[:, None] - rows) ** 2).sum(2)
    covariances = 1.7 * np.exp(-0.5 * squares / 1.5**2)
    return World(rows, covariances, 1.7 * rbf(1.5), (2, 1, 1))


def matrix_world():
    world = points_world()
    scales = np.random.default_rng(1).uniform(0.6, 1.4, 24 + N_NEW)
    scales = np.concatenate([scales[INPUTS], scales[24:]])
    covariances = world.covariances * np.outer(scales, scales)
    return replace(world, covariances=covariances, kernel=None)


def _images():
    images = digits(24 + N_NEW)[0]
    images[list(REPEATED)] *= -1.0  # far from all others
    return np.concatenate([images[INPUTS], images[24:]])


def network_covariances(network, images):
    return cross(network, double(images)).numpy()


def network_world():
    images, network = _images(), tiny_network()
    covariances = network_covariances(network, images)
    return World(images.reshape(len(images), -1), covariances, network, (1, 8, 8))


def patches_world():
    """Return images whose kernel is one of their patches."""
    images = _images()
    kernel = PatchKernel(rbf(3.0), patch_size=PATCH, location_lengthscale=REACH)
    covariances = network_covariances(kernel, images)
    return World(images.reshape(len(images), -1), covariances, kernel, (1, 8, 8))


def explained_by_patches(patches, places, images=None):
    """Return what inducing patches (m, d) at places (l, 2) explain, pair by pair."""
    images = _images() if images is None else images
    windows = np.lib.stride_tricks.sliding_window_view(
        images[:, 0], (PATCH, PATCH), axis=(1, 2)
    )
    n, height, width = windows.shape[:3]
    positions = np.stack(np.meshgrid(range(height), range(width), indexing="ij"), -1)
    positions, seen = positions.reshape(-1, 2), windows.reshape(n, height * width, -1)

    def similar(one, two, lengthscale):
        squares = ((one[..., :, None, :] - two) ** 2).sum(-1)
        return np.exp(-0.5 * squares / lengthscale**2)

    cross = np.einsum(
        "pl,npm->nlm", similar(positions, places, REACH), similar(seen, patches, 3.0)
    ).reshape(n, -1) / np.sqrt(height * width)
    inner = np.kron(similar(places, places, REACH), similar(patches, patches, 3.0))
    return cross @ np.linalg.solve(inner, cross.T)


def both_sides():
    """Return the images of the worlds of images, followed by their mirror images."""
    images = _images()
    return np.concatenate([images, images[..., ::-1]])


def over_sides(covariances):
    """Return the means over mirror images of covariances of `both_sides()`."""
    n = len(covariances) // 2
    return covariances.reshape(2, n, 2, n).mean((0, 2))


def coarse_covariances():
    """Return those of `COARSE` on the images of the network's world, pooled."""
    images = _images()
    pooled = images.reshape(len(images), 1, 4, 2, 4, 2).mean((3, 5))
    return network_covariances(COARSE, pooled)


WORLDS = {
    "points": points_world(),
    "matrix": matrix_world(),
    "network": network_world(),
    "patches": patches_world(),
}


def completed(covariances, anchors):
    """Return covariances that follow from those with some samples."""
    inner = np.linalg.pinv(covariances[np.ix_(anchors, anchors)], hermitian=True)
    return covariances[:, anchors] @ inner @ covariances[anchors]
