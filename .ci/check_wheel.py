"""Check an installed wheel: the extension runs, and agrees with torch on digits."""

import sys

import numpy as np

from skconvgp import gram_matrix
from skconvgp.backends import instruction_set, missing_extension
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import convnet

assert not missing_extension(), missing_extension()
X, _ = load_digits_images(return_X_y=True)
kernel = convnet(depth=3, kernel_size=3)
fused, reference = (
    gram_matrix(kernel, X[:64], backend=backend, dtype="float64")
    for backend in ("fused", "torch")
)
np.testing.assert_allclose(fused, reference, rtol=0, atol=1e-11 * reference.max())
sys.stdout.write(f"The wheel works, with {instruction_set()}.\n")
