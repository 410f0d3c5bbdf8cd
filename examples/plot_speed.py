"""
How fast covariances are computed
=================================

Nearly all of the time of a Gaussian process here goes into the covariances of pairs of
images. Two backends compute them: torch, which takes any kernel, and compiled code, the
fused backend, which takes most networks. We compare their rates on small images, for
networks of growing depth. :doc:`/user_guide/speed` explains the difference.
"""

# %%
# Rates
# -----
# A matrix of covariances is computed a few times on one thread, and the fastest run
# counts. Without its compiled part the package works, with torch alone; then only its
# curves appear below.

import time

import matplotlib.pyplot as plt
import numpy as np
import torch

from skconvgp import gram_matrix
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import convnet

X, _ = load_digits_images(return_X_y=True)


def pairs_per_second(kernel, n, **settings):
    gram_matrix(kernel, X[:16], **settings)  # the first call sets up
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        gram_matrix(kernel, X[:n], **settings)
        seconds.append(time.perf_counter() - start)
    return n * (n + 1) / 2 / min(seconds)


try:
    gram_matrix(convnet(depth=1), X[:2], backend="fused")
    backends = {"fused": 600, "torch": 150}  # images of a matrix
except ValueError as error:
    print(error)
    backends = {"torch": 150}

n_threads = torch.get_num_threads()
torch.set_num_threads(1)  # for both backends
depths = [1, 2, 4, 8, 16]
rates = {
    (backend, dtype): [
        pairs_per_second(
            convnet(depth=depth, kernel_size=3), n, backend=backend, dtype=dtype
        )
        for depth in depths
    ]
    for backend, n in backends.items()
    for dtype in ("float32", "float64")
}
torch.set_num_threads(n_threads)

# %%
# The picture
# -----------
# The work of a pair grows with the number of layers. On images as small as these, what
# a pair costs beside its layers shows in the rates of shallow networks: it is checked,
# written and mirrored like any other. Float64 has half as many pairs in a vector of the
# processor, and a longer polynomial. The machine that built this page made the numbers.

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
colors = {"fused": "tab:blue", "torch": "tab:orange"}
styles = {"float32": "-", "float64": "--"}
for (backend, dtype), rate in rates.items():
    axes.loglog(
        depths,
        rate,
        color=colors[backend],
        linestyle=styles[dtype],
        marker="o",
        label=f"{backend}, {dtype}",
    )
axes.set_xticks(depths, depths)
axes.minorticks_off()
axes.set(xlabel="layers of 3 x 3 convolutions", ylabel="pairs a second, one thread")
axes.set(title="Digits of 8 x 8 pixels")
axes.legend(frameon=False)
axes.grid(alpha=0.25)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The same numbers
# ----------------
# Speed is no use without the values. The errors are relative to the standard deviations
# of the two images, with torch in float64 as the reference.

kernel = convnet(depth=8, kernel_size=3)
exact = gram_matrix(kernel, X[:100], backend="torch", dtype="float64")
deviation = np.sqrt(np.diag(exact))
for backend, dtype in rates:
    gram = gram_matrix(kernel, X[:100], backend=backend, dtype=dtype)
    error = np.abs(gram - exact) / np.outer(deviation, deviation)
    print(f"{backend}, {dtype}: largest error {error.max():.1e}")
