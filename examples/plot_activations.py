"""
Activations and correlations
============================

An activation changes the covariance of an infinite network through one function, which
maps the correlation of two images before the activation to the correlation after it.
This page shows the function for tanh, sigmoid, SiLU and softplus, and random functions
drawn from networks with these activations. :doc:`/user_guide/kernels` lists all
activations.
"""

# %%
# Correlation before and after
# ----------------------------
# Take two points on a circle, at an angle of :math:`\theta`. After a dense layer of
# weight variance :math:`v` their values :math:`z` and :math:`z'` are Gaussian, with
# variances :math:`v` and the correlation :math:`\cos \theta`. So for these points
# :func:`~skconvgp.gram_matrix` of the network below is
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
# Tanh is odd, so opposite points stay opposite. For small inputs it is close to the
# identity. For large inputs it is close to the sign function, whose curve is steep near
# a correlation of 1: the network separates images that are nearly equal.
#
# For small inputs sigmoid and softplus are nearly constant, so any two images are
# highly correlated after them, and SiLU is nearly linear. For large inputs sigmoid is
# close to a step, and SiLU and softplus are both close to the rectifier and have the
# same curve.
#
# Functions drawn from the networks
# ---------------------------------
# Each panel shows four draws from a network with one hidden layer. `sample_y` of a
# model that has not been fitted draws from the prior. The weight variance is 10 and the
# bias variance is 1.

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
# Functions with tanh and sigmoid level off. Functions with SiLU and softplus continue
# in straight lines.
#
# Closed form and quadrature
# --------------------------
# :class:`~skconvgp.kernels.Elementwise` takes any function, tanh for example, and
# computes its covariance by a series of Hermite polynomials. For tanh of large inputs,
# which is nearly a step, the series converges slowly. Estimators and
# :func:`~skconvgp.gram_matrix` then warn; the warning is silenced here.
#
# We compare both with a sum over a fine grid, at a correlation of 0.99. Up to a
# variance of about 1 the series is as accurate as :class:`~skconvgp.kernels.Tanh`,
# which uses a sum of error functions. At larger variances only the latter is accurate.

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
