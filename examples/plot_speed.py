"""
How fast covariances are computed
=================================

A fit spends nearly all of its time on the covariances of pairs of images. Two backends
compute them. The torch backend takes any kernel. The fused backend is compiled and
takes most networks. This page compares how many pairs they compute in a second, on
small images and for networks of increasing depth. :doc:`/user_guide/speed` explains the
difference and has results on MNIST.
"""

# %%
# Rates
# -----
# We compute a covariance matrix three times on one thread and keep the fastest run. If
# the package was installed without its compiled extension, only the torch backend is
# available, and the figure shows only its curves.

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
# The work for a pair grows with the number of layers. Each pair also has a fixed cost:
# its value is checked, written and mirrored. On images as small as these, the fixed
# cost limits the rates of shallow networks. In float64 a vector register of the
# processor holds half as many pairs, and the polynomials are longer. The rates are
# those of the machine that built this page.

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
# Both backends compute the same covariances, up to rounding errors. Errors are relative
# to the prior standard deviations of the two images. The reference is torch in float64.

kernel = convnet(depth=8, kernel_size=3)
exact = gram_matrix(kernel, X[:100], backend="torch", dtype="float64")
deviation = np.sqrt(np.diag(exact))
for backend, dtype in rates:
    gram = gram_matrix(kernel, X[:100], backend=backend, dtype=dtype)
    error = np.abs(gram - exact) / np.outer(deviation, deviation)
    print(f"{backend}, {dtype}: largest error {error.max():.1e}")
