"""
=====================================================
Kernels of your own: periodic, additive, over orbits
=====================================================

A kernel says which functions are likely. This page builds three: functions that repeat,
by a kernel of scikit-learn; sums of functions of one column each; and functions of
images that stay the same when these are turned or seen in a mirror.
"""

# %%
# Functions that repeat
# ---------------------
#
# :func:`~skconvgp.from_sklearn_kernel` takes a kernel of scikit-learn with its
# hyperparameters. Twelve years of a month's mean with a season, a slow trend and noise
# are given, but for a gap of two years, and four years more are asked for. The evidence
# chooses the period and all lengths.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import ExpSineSquared

from skconvgp import ConvNetGPRegressor, from_sklearn_kernel, gram_matrix
from skconvgp.kernels import OrbitAverage, rbf

rng = np.random.default_rng(0)
years = np.arange(0.0, 16.0, 1 / 12)[:, None]
season = np.exp(np.sin(2 * np.pi * years[:, 0])) + 0.2 * np.cos(6 * np.pi * years[:, 0])
truth = season + 1.5 * np.sin(0.35 * years[:, 0])
given = (years[:, 0] < 12.0) & ((years[:, 0] < 5.0) | (years[:, 0] > 7.0))
level = truth + 0.2 * rng.normal(size=len(years))

periodic = ExpSineSquared(periodicity=1.05, periodicity_bounds=(0.8, 1.25))
kernels = {
    "rbf": rbf(),
    "periodic + rbf": from_sklearn_kernel(periodic) + rbf(lengthscale=5.0),
}
fig, axes = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True, layout="constrained")
for ax, (name, kernel) in zip(axes, kernels.items(), strict=True):
    gp = ConvNetGPRegressor(kernel, optimizer="evidence")
    gp = gp.fit(years[given], level[given])
    mean, std = gp.predict(years, return_std=True)
    ax.fill_between(years[:, 0], mean - 2 * std, mean + 2 * std, color="C0", alpha=0.25)
    ax.plot(years[:, 0], truth, color="black", lw=0.8, label="truth")
    ax.plot(years[:, 0], mean, color="C0", label="mean, and two deviations")
    ax.plot(years[given, 0], level[given], ".", color="C1", ms=3, label="given")
    ax.set_title(name)
    ax.set_ylim(-2.5, 6.0)
axes[1].legend(loc="lower left", ncols=3, fontsize="small")
axes[1].set_xlabel("years")
fig.get_layout_engine().set(hspace=0.08)
print(gp.kernel_)

# %%
# Sums of functions of one column
# -------------------------------
#
# ``kernel.on(columns)`` is a kernel of some columns. The target is a sum of a function
# of each of four columns, of which 40 samples are given. A kernel of all columns
# together has to learn a function of four variables. The additive model learns four
# functions of one variable. Here one column varies, and the others are 0.

parts = [
    lambda x: np.sin(3.0 * x),
    lambda x: x**2 - 1.0,
    lambda x: np.tanh(4.0 * x),
    lambda x: 0.0 * x,
]
rows = rng.uniform(-2.0, 2.0, size=(40, 4))
sums = sum(part(column) for part, column in zip(parts, rows.T, strict=True))
sums = sums + 0.1 * rng.normal(size=len(rows))

line = np.linspace(-2.0, 2.0, 81)
models = {
    "all columns": rbf(),
    "additive": rbf().on(0) + rbf().on(1) + rbf().on(2) + rbf().on(3),
}
fitted = {
    name: ConvNetGPRegressor(kernel, noise_variance=1e-3).fit(rows, sums)
    for name, kernel in models.items()
}
fig, axes = plt.subplots(1, 4, figsize=(9, 2.6), sharey=True, layout="constrained")
for i, (ax, part) in enumerate(zip(axes, parts, strict=True)):
    varied = np.zeros((len(line), 4))
    varied[:, i] = line
    offset = part(line) + sum(one(0.0) for j, one in enumerate(parts) if j != i)
    ax.plot(line, offset, color="black", lw=0.8, label="truth")
    for name, model in fitted.items():
        ax.plot(line, model.predict(varied), label=name)
    ax.set_title(f"column {i}")
axes[0].legend(fontsize="small")

# %%
# Functions of orbits
# -------------------
#
# :class:`~skconvgp.kernels.OrbitAverage` averages a kernel over maps of the images. An
# image here is a single spot, so that a function of images is a function of the place
# of the spot, which can be drawn. Each panel is one draw from the prior. With flips,
# left and right are the same; with quarter turns, nothing changes when the square is
# turned; with all symmetries both hold. What is learned of one image then holds for
# two, four or eight.

SIDE = 21
places = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij"), -1)
squares = ((places[:, :, None, None] - places[None, None]) ** 2).sum(-1)
spots = np.exp(-squares / 8.0).reshape(-1, SIDE, SIDE)

base = rbf(lengthscale=4.0)
averages = {
    "no average": base,
    "flips": OrbitAverage(base, maps="flips"),
    "quarter turns": OrbitAverage(base, maps="quarter_turns"),
    "all symmetries": OrbitAverage(base, maps="symmetries"),
}
noise = rng.normal(size=SIDE * SIDE)
fig, axes = plt.subplots(1, 4, figsize=(9, 2.6), layout="constrained")
for ax, (name, kernel) in zip(axes, averages.items(), strict=True):
    gram = gram_matrix(kernel, spots, dtype="float64")
    values, vectors = np.linalg.eigh(gram)
    draw = vectors @ (np.sqrt(np.maximum(values, 0.0)) * (vectors.T @ noise))
    ax.imshow(draw.reshape(SIDE, SIDE), cmap="RdBu_r")
    ax.set_title(name)
    ax.set_axis_off()

# %%
# Maps may also be shifts, ``OrbitAverage(kernel, maps=Shift(1))``, or functions and
# permutations of pixels of your own. :ref:`orbits` says what each costs.
