"""Type aliases; nothing executable."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

FloatArray: TypeAlias = NDArray[np.float64]
ImageShape: TypeAlias = tuple[int, int, int]
# Samples (n, d): an array, or a tensor on a device.
Rows: TypeAlias = NDArray[Any] | Tensor
MapShape: TypeAlias = tuple[int, int]
Bounds: TypeAlias = tuple[float, float] | str

# A hyperparameter is a number, a tensor of no dimension while it is being
# differentiated, or one of either for each layer.
Scalar: TypeAlias = float | Tensor
Value: TypeAlias = Scalar | tuple[Scalar, ...]

# What a kernel keeps of each image. Every tensor has the images in its last
# dimension, so that a slice of images is a slice of the tree.
Prepared: TypeAlias = Tensor | tuple["Prepared", ...] | None

# done, total -> None
OnStep: TypeAlias = Callable[[int, int], None]
