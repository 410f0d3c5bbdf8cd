"""
A network's covariance inside scikit-learn
==========================================

`as_sklearn_kernel` turns a kernel of this package into a kernel of scikit-learn. It
then works in `GaussianProcessRegressor`, which learns its hyperparameters, and as
``kernel=`` of `SVC`, `KernelPCA` or `KernelRidge`. Use it if you need a model of
scikit-learn that this package does not have; :doc:`/user_guide/sklearn` says more.
"""

# %%
# Learning the hyperparameters of a network
# -----------------------------------------
# The arc-sine kernel is that of a network with one infinite hidden layer of sigmoids.
# The weight variance determines how steep the sigmoids are, and the bias variance how
# far from the origin. scikit-learn maximises the evidence over both, the amplitude and
# the noise, using the gradients of the kernel.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from skconvgp import as_sklearn_kernel
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import arcsine, convnet

rng = np.random.default_rng(0)
x = np.linspace(-3.0, 3.0, 40) + rng.uniform(-0.1, 0.1, 40)
y = np.tanh(3.0 * (x + 1.0)) - 0.5 * np.tanh(4.0 * (x - 1.5))
y += rng.normal(scale=0.1, size=40)
X, X_line = x[:, None], np.linspace(-5.0, 5.0, 201)[:, None]

kernel = ConstantKernel() * as_sklearn_kernel(arcsine()) + WhiteKernel(0.01)
first = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
learned = GaussianProcessRegressor(kernel).fit(X, y)
network = learned.kernel_.k1.k2.kernel
print(f"weight_variance {network.weight_variance:.2f}")
print(f"bias_variance   {network.bias_variance:.2f}")

# %%
# The fit before and after learning, with a band of two standard deviations:

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for axis, gp, title in zip(
    axes, (first, learned), ("as it starts", "learned"), strict=True
):
    mean, std = gp.predict(X_line, return_std=True)
    low, high = mean - 2 * std, mean + 2 * std
    axis.fill_between(
        X_line[:, 0], low, high, color="tab:blue", alpha=0.15, linewidth=0
    )
    axis.plot(X_line[:, 0], mean, color="tab:blue", linewidth=2)
    axis.plot(x, y, "o", color="black", markersize=4, markerfacecolor="white")
    axis.set_title(f"{title}: log evidence {gp.log_marginal_likelihood_value_:.1f}")
    axis.set_xlabel("x")
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0)
plt.show()

# %%
# A convolutional kernel in a support vector machine
# --------------------------------------------------
# Estimators of scikit-learn take images as rows of a matrix. ``image_shape`` tells the
# kernel how to make an image of a row.

X, y = load_digits_images(return_X_y=True)
X = X.reshape(len(X), -1)
X, X_test, y, y_test = train_test_split(
    X, y, train_size=300, test_size=300, stratify=y, random_state=0
)
kernel = as_sklearn_kernel(convnet(depth=2, kernel_size=3), image_shape=(8, 8))
for name, k in (("rbf", "rbf"), ("convnet", kernel)):
    machine = SVC(kernel=k, C=10.0).fit(X, y)
    print(f"SVC with kernel {name:8} {machine.score(X_test, y_test):.3f}")

# %%
# On images as small as these, a smooth kernel of the pixels is as accurate.
#
# Kernel principal components
# ---------------------------
# Kernel principal components show which images are similar for a kernel. For the
# network we use correlations instead of covariances, so that the brightness of an image
# does not matter.


def correlation(X, Y=None):
    """Return the correlations of the network's outputs."""
    Y = X if Y is None else Y
    return kernel(X, Y) / np.sqrt(np.outer(kernel.diag(X), kernel.diag(Y)))


figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
views = {
    "pixels (linear)": KernelPCA(2, kernel="linear").fit_transform(X),
    "convolutional network": KernelPCA(2, kernel="precomputed").fit_transform(
        correlation(X)
    ),
}
for axis, (title, points) in zip(axes, views.items(), strict=True):
    for label in range(10):
        axis.scatter(*points[y == label].T, s=10, color=f"C{label}", alpha=0.35)
        centre = np.median(points[y == label], axis=0)
        axis.text(
            *centre,
            label,
            size=15,
            weight="bold",
            color=f"C{label}",
            ha="center",
            va="center",
            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1},
        )
    axis.set(title=title, xticks=[], yticks=[])
plt.show()
