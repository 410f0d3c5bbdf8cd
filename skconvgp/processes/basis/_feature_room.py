"""Whether there is memory for random features that are to be drawn."""

from __future__ import annotations

import torch

from skconvgp._typing import ImageShape
from skconvgp.engine import require_memory
from skconvgp.kernels import Kernel
from skconvgp.kernels._feature_maps import drawn_values


def require_features(
    kernel: Kernel, image_shape: ImageShape, n_features: int, n_squares: int = 0
) -> None:
    """Raise a TileMemoryError unless features fit into the free memory of the host.

    Parameters
    ----------
    kernel : Kernel
        The kernel that they are drawn from.
    image_shape : (c, h, w)
        Shape of the images as the kernel sees them.
    n_features : int
        How many.
    n_squares : int, default=0
        How many square matrices of the features are held later.
    """
    drawn = drawn_values(kernel, image_shape, n_features)
    needed = (drawn + n_squares * n_features**2) * torch.float64.itemsize
    what = "A draw of random features, as many as are asked for,"
    remedy = "ask for fewer (`n_features`, or `features` of KernelFeatures)."
    require_memory(needed, torch.device("cpu"), what, remedy)
