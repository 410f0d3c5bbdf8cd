"""
What an activation does to correlations
=======================================

A layer enters the covariance of an infinite network through one function: the
correlation of two images before the activation goes in, that after it comes out. Here
are these functions for tanh, sigmoid, SiLU and softplus, and draws of networks that are
made of them.
"""

# %%
# In and out
# ----------
# Points on a circle have inner products that are cosines. After a dense layer of weight
# variance :math:`v` two of them are normal with variances :math:`v` and a correlation
# :math:`\cos \theta`, and :func:`~skconvgp.gram_matrix` of the network below is
#
# .. math:: V(v \cos\theta, v, v) = E[\phi(z) \, \phi(z')].

import warnings

import matplotlib.pyplot as plt
import numpy as np
import torch

from skconvgp import ConvNetGPRegressor, gram_matrix
from skconvgp.kernels import (
    Dense,
    Elementwise,
    Flatten,
    MaxNormalization,
    Sequential,
    Sigmoid,
    SiLU,
    Softplus,
    Tanh,
)

activations = {
    "Tanh": Tanh(),
    "Sigmoid": Sigmoid(),
    "SiLU": SiLU(),
    "Softplus": Softplus(),
}
variances = [0.1, 1.0, 10.0, 1000.0]
angles = np.linspace(0.0, np.pi, 121)
circle = np.sqrt(2.0) * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def network(activation, variance):
    first = Dense(weight_variance=variance)
    return Sequential(Flatten(), first, activation, Dense())


def correlations(activation, variance):
    kernel = MaxNormalization(network(activation, variance))
    return gram_matrix(kernel, circle[:1], circle, dtype="float64")[0]


figure, axes = plt.subplots(
    1, 4, figsize=(11, 3.2), sharex=True, sharey=True, layout="constrained"
)
colours = plt.colormaps["viridis"](np.linspace(0.0, 0.9, len(variances)))
for ax, (name, activation) in zip(axes, activations.items(), strict=True):
    ax.plot([-1.0, 1.0], [-1.0, 1.0], color="0.8", linewidth=1)
    for variance, colour in zip(variances, colours, strict=True):
        out = correlations(activation, variance)
        ax.plot(np.cos(angles), out, color=colour, label=f"{variance:g}")
    print(f"{name:8} of opposite points: ", end="")
    print(*(f"{correlations(activation, v)[-1]:6.2f}" for v in variances))
    ax.set(title=name, xlabel="correlation before")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("correlation after")
axes[0].legend(title="variance", fontsize="small")
plt.show()

# %%
# Tanh is odd: opposite points stay opposite. Of small numbers it is the identity, of
# large ones a sign, whose curve is steep near a correlation of 1: images that are
# nearly the same are told apart there. A sigmoid or a softplus of small numbers is
# nearly a constant, and whatever goes in is correlated afterwards; SiLU of small
# numbers is nearly linear. Of large numbers a sigmoid is a step, and SiLU and softplus
# are both rectifiers, with the same curve.
#
# Functions of networks
# ---------------------
# Draws of networks with one hidden layer of each, by `sample_y` of a model that is
# not fitted. The weight variance is 10 and that of the biases 1.

line = np.linspace(-3.0, 3.0, 121)[:, None]
figure, axes = plt.subplots(1, 4, figsize=(11, 2.6), sharex=True, layout="constrained")
for ax, (name, activation) in zip(axes, activations.items(), strict=True):
    first = Dense(weight_variance=10.0, bias_variance=1.0)
    kernel = Sequential(Flatten(), first, activation, Dense())
    gp = ConvNetGPRegressor(kernel, random_state=0)
    ax.plot(line[:, 0], gp.sample_y(line, 4), linewidth=1.2)
    ax.set(title=name, xlabel="x")
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Functions of the first two level off, those of the others go on in straight lines.
#
# At any variance
# ---------------
# :class:`~skconvgp.kernels.Elementwise` takes any function, and tanh as well. But its
# series of Hermite polynomials converges slowly for a tanh of large numbers, which is
# nearly a step: estimators and :func:`~skconvgp.gram_matrix` warn then, which is
# silenced here. At a correlation of 0.99, and beside a sum over a fine grid, the series
# is as good as the closed form up to a variance of about 1. The closed form is a sum of
# error functions, and good at all of them.

correlation, steep = 0.99, np.geomspace(0.1, 1e4, 11)
rest = np.sqrt(1.0 - correlation**2)
pair = np.sqrt(2.0) * np.array([[1.0, 0.0], [correlation, rest]])
grid = np.linspace(-8.0, 8.0, 2001)
density = np.exp(-(grid**2) / 2.0)
density /= density.sum()
other = correlation * grid[:, None] + rest * grid


def by_grid(variance):
    first, second = (np.tanh(np.sqrt(variance) * z) for z in (grid, other))
    return (density * first) @ second @ density


truth = np.array([by_grid(variance) for variance in steep])
ways = {"Elementwise": Elementwise(torch.tanh), "Tanh": Tanh()}
figure, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for name, activation in ways.items():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "An `Elementwise`", UserWarning)
        grams = [
            gram_matrix(network(activation, float(variance)), pair, dtype="float64")
            for variance in steep
        ]
    errors = abs(np.array([gram[0, 1] for gram in grams]) - truth)
    ax.loglog(steep, errors, "o-", label=name)
    print(f"{name:11} largest error {errors.max():.0e}")
ax.set(xlabel="variance before tanh", ylabel="error of the covariance")
ax.legend()
ax.spines[["top", "right"]].set_visible(False)
plt.show()
