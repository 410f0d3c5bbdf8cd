"""
Random features of a kernel
===========================

A kernel compares all pairs of samples. Random features replace it by an inner product
of a few hundred numbers for each sample, so that a fit takes a time in proportion to
the number of samples. This page shows how good such features are, and what they are
for. :doc:`/user_guide/random_features` explains them.
"""

# %%
# The error of the kernel
# -----------------------
# :class:`~skconvgp.KernelFeatures` is a transformer. The inner products of its
# features approximate any kernel of the package that has random features. We measure
# the error of the kernel of the distance on small images of digits. Directions of the
# frequencies that are orthogonal to each other, the default, have a smaller error
# than independent ones, above all if there are at least as many frequencies, half the
# number of features, as pixels, here 64. Beyond that, errors fall with the square root
# of the number of features.

import matplotlib.pyplot as plt
import numpy as np

from skconvgp import ConvNetGPRegressor, KernelFeatures, gram_matrix
from skconvgp.completion import RandomFeatures
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import rbf

X, y = load_digits_images(return_X_y=True)
kernel = rbf().resolve(X)
counts = [32, 64, 128, 256, 512, 1024]
exact = gram_matrix(kernel, X[:200])


def errors(orthogonal):
    """Return the root mean square error for each number of features."""
    found = []
    for count in counts:
        part = RandomFeatures(count, orthogonal=orthogonal)
        squares = []
        for seed in range(3):
            phi = KernelFeatures(kernel, part, random_state=seed).fit_transform(X[:200])
            squares.append(np.mean((phi @ phi.T - exact) ** 2))
        found.append(np.sqrt(np.mean(squares)))
    return found


_, ax = plt.subplots()
ax.loglog(counts, errors(False), "o-", label="independent directions")
ax.loglog(counts, errors(True), "s-", label="orthogonal directions")
ax.set(xlabel="number of features", ylabel="error of the kernel (root mean square)")
ax.legend()
plt.show()

# %%
# A Gaussian process of features
# ------------------------------
# With ``completion=RandomFeatures()`` an estimator is a Gaussian process whose
# covariance is the product of features. The more features, the nearer it is to the
# exact process. With few features functions are sums of few waves: in the gap
# between points they are too sure of themselves, and beyond the points they swing.

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-4.0, 4.0, 30))[:, None]
x = x[np.abs(x[:, 0] - 1.5) > 1.0]
t = np.sin(2.0 * x[:, 0]) + 0.1 * rng.normal(size=len(x))
grid = np.linspace(-6.0, 6.0, 300)[:, None]
parts = {
    "20 features": RandomFeatures(20),
    "200 features": RandomFeatures(200),
    "exact": None,
}
_, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True, layout="constrained")
for ax, (title, part) in zip(axes, parts.items(), strict=True):
    gp = ConvNetGPRegressor(
        rbf(0.8), completion=part, noise_variance=0.02, random_state=3
    ).fit(x, t)
    mean, std = gp.predict(grid, return_std=True)
    ax.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, alpha=0.3)
    ax.plot(grid[:, 0], mean)
    ax.plot(x[:, 0], t, "k.")
    ax.set(title=title, xlabel="x", ylim=(-3.5, 3.5))
plt.show()
