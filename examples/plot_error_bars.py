"""
Measurements with known errors and a trend
==========================================

Measurements often come with an error of each. This page gives a regressor these errors,
and compares it with one that believes in one noise for all samples. Then it goes on
beyond the last measurement, with a trend. The measurements are made up, so that the
truth is known.
"""

# %%
# Two instruments
# ---------------
# A quantity rises slowly and swings around its trend. Until 1990 it was measured by a
# coarse instrument, and afterwards by a precise one; some measurements of both were
# taken in bad weather. Each measurement has a known standard deviation.

import matplotlib.pyplot as plt
import numpy as np

from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import rbf


def truth(year):
    return 0.03 * (year - 1990) + 0.3 * np.sin(year / 3.0)


rng = np.random.default_rng(0)
year = np.sort(rng.uniform(1960, 2015, 90))
sigma = np.where(year < 1990, 0.4, 0.05) * rng.choice([1.0, 3.0], 90, p=[0.8, 0.2])
y = truth(year) + sigma * rng.normal(size=90)

# %%
# One noise, or one for each measurement
# --------------------------------------
# ``noise_variance=sigma**2`` has the variances in squared units of y. By default the
# noise is one number, which leave-one-out chooses: too much for the precise
# measurements, and too little for the coarse ones.

X = year[:, None]
models = {
    "one noise for all": ConvNetGPRegressor(rbf(4.0)).fit(X, y),
    "known errors": ConvNetGPRegressor(rbf(4.0), noise_variance=sigma**2).fit(X, y),
}
grid = np.linspace(1960, 2015, 300)
figure, panels = plt.subplots(
    1, 2, figsize=(9.5, 3.8), sharey=True, layout="constrained"
)
for axes, (name, gp) in zip(panels, models.items(), strict=True):
    mean, std = gp.predict(grid[:, None], return_std=True)
    error = np.sqrt(np.mean((mean - truth(grid)) ** 2))
    held = np.mean(np.abs(mean - truth(grid)) <= 2.0 * std)
    print(f"{name:18} RMSE {error:.3f}, truth within two deviations {held:.0%}")
    axes.fill_between(grid, mean - 2.0 * std, mean + 2.0 * std, color="0.85")
    axes.errorbar(
        year, y, sigma, fmt="o", color="tab:blue", markersize=3, elinewidth=0.8
    )
    axes.plot(grid, mean, color="black", label="mean, and two deviations")
    axes.plot(grid, truth(grid), color="tab:red", linestyle="--", label="truth")
    axes.set(xlabel="year", title=f"{name}: RMSE {error:.2f}", ylim=(-2.0, 1.8))
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set(ylabel="y")
panels[0].legend(loc="lower right", fontsize="small")
plt.show()

# %%
# With the known errors the band is wide on the left, where measurements are coarse, and
# narrow on the right, where the curve follows each of them. :ref:`sample-noise` says
# which noise new observations have, and what else changes.

# %%
# The trend goes on
# -----------------
# After the last measurement the curve returns to the prior mean. By default that is a
# constant. ``mean="linear"`` is a linear function whose coefficients are integrated
# out: the trend goes on, and the band becomes wider, because the slope is uncertain.

grid = np.linspace(1960, 2050, 400)
means = {
    "a constant": models["known errors"],
    "a linear function": ConvNetGPRegressor(
        rbf(4.0), noise_variance=sigma**2, mean="linear"
    ).fit(X, y),
}
figure, panels = plt.subplots(
    1, 2, figsize=(9.5, 3.8), sharey=True, layout="constrained"
)
for axes, (name, gp) in zip(panels, means.items(), strict=True):
    mean, std = gp.predict(grid[:, None], return_std=True)
    is_new = grid > 2020
    error = np.sqrt(np.mean((mean - truth(grid))[is_new] ** 2))
    print(f"{name:18} RMSE after 2020 {error:.2f}")
    axes.fill_between(grid, mean - 2.0 * std, mean + 2.0 * std, color="0.85")
    axes.plot(year, y, "o", color="tab:blue", markersize=3)
    axes.plot(grid, mean, color="black")
    axes.plot(grid, truth(grid), color="tab:red", linestyle="--")
    axes.axvline(2015, color="0.5", linewidth=0.8)
    axes.set(xlabel="year", title=f"Prior mean: {name}", ylim=(-2.0, 3.0))
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set(ylabel="y")
plt.show()

# %%
# :ref:`prior-mean` has other means: any regressor of scikit-learn can be one.
