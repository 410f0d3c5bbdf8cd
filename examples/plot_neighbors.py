"""
A curve that no single lengthscale suits
========================================

Doppler's curve oscillates faster and faster towards zero. An exact process with one
lengthscale must choose: follow the fast part and let the slow part follow the noise, or
smooth both. A process on few weighted neighbours sees a short piece of the curve at a
time, and follows faster waves with the same lengthscale.
:doc:`/user_guide/neighbors` explains the settings.
"""

# %%
# One process for all
# -------------------
# The evidence chooses the lengthscale and the noise.

import matplotlib.pyplot as plt
import numpy as np

from skconvgp import ConvNetGPRegressor
from skconvgp.completion import NearestNeighbors
from skconvgp.datasets import make_doppler
from skconvgp.kernels import rbf

X, y = make_doppler(400, random_state=0)
curve = make_doppler(400, noise=0.0)[1]

exact = ConvNetGPRegressor(
    rbf(0.02), optimizer="evidence", noise_variance="evidence", random_state=0
)
exact.fit(X, y)
print(exact.kernel_)

# %%
# One process for each point
# --------------------------
# Each point is predicted from its 7 nearest neighbours. The noise variance of a
# neighbour is divided by its weight.

weighted = {
    weights: ConvNetGPRegressor(
        rbf(0.01),
        completion=NearestNeighbors(7, metric="euclidean", weights=weights),
        noise_variance=0.2,
    ).fit(X, y)
    for weights in ("epanechnikov", "uniform", "gaussian", "hilbert")
}
fits = {"exact": exact} | weighted
means = {name: gp.predict(X) for name, gp in fits.items()}
for name, mean in means.items():
    print(f"{name:14} mean squared error {np.mean((mean - curve) ** 2):.5f}")

# %%
# The picture
# -----------
# Above, the whole curve. Below, the ends. At the left the neighbours follow two waves
# more than the exact process does. At the right the lengthscale is too short for both,
# and both follow the noise a little.

figure, axes = plt.subplot_mosaic(
    [["all", "all"], ["fast", "slow"]], figsize=(10, 6.5), layout="constrained"
)
x = X[:, 0]
for axis in axes.values():
    axis.plot(x, y, "o", color="0.75", markersize=3, label="observed")
    axis.plot(x, curve, color="black", linewidth=1, label="curve")
    axis.plot(x, means["exact"], color="tab:blue", linewidth=1.5, label="exact")
    axis.plot(
        x, means["epanechnikov"], color="tab:red", linewidth=1.5, label="neighbours"
    )
    axis.spines[["top", "right"]].set_visible(False)
axes["fast"].set(xlim=(0.0, 0.15), xlabel="x")
axes["slow"].set(xlim=(0.6, 1.0), ylim=(-0.5, 0.7), xlabel="x")
axes["all"].set(xlim=(-0.01, 1.01), ylim=(-0.8, 0.9))
axes["all"].legend(frameon=False, ncols=4, loc="upper left")
plt.show()

# %%
# The weights "hilbert" suit data with little noise: here they follow the noise, and
# their error is the largest.
