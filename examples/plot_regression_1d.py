"""
Regression in one dimension: three priors
=========================================

What a kernel believes is easiest to see on a line. We draw functions from three priors,
give each the same noisy points, and draw again.
"""

# %%
# Three kernels, one set of points
# --------------------------------
# - `rbf`: smooth functions that forget what happened a few lengthscales away;
# - `arcsine`: an infinite hidden layer of sigmoids, which saturates far from the data;
# - `dense`: a network with two hidden layers of rectifiers, which goes on in straight
#   lines.
#
# The amplitude of the prior is profiled out and the noise is chosen by evidence, so
# there is nothing else to set.

import matplotlib.pyplot as plt
import numpy as np

from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import arcsine, dense, rbf

rng = np.random.default_rng(7)
x = np.concatenate([rng.uniform(-2.2, -0.8, 7), rng.uniform(0.6, 2.2, 7)])
y = np.sin(2.0 * x) + 0.5 * x + rng.normal(scale=0.1, size=14)
X, X_line = x[:, None], np.linspace(-5.0, 5.0, 161)[:, None]

kernels = {
    "rbf": rbf(lengthscale=0.8),
    "arcsine": arcsine(weight_variance=10.0, bias_variance=10.0),
    "dense": dense(depth=2, weight_variance=2.0, bias_variance=0.5),
}

# %%
# Before and after the data
# -------------------------
# Above, `sample_y` of a model that is not fitted: draws from the prior. Below, of the
# fitted model: draws from the posterior, with its mean and a band of two standard
# deviations.

figure, axes = plt.subplots(
    2, 3, figsize=(11, 6), sharex=True, sharey="row", layout="constrained"
)
for column, (name, kernel) in zip(axes.T, kernels.items(), strict=True):
    gp = ConvNetGPRegressor(kernel, noise_variance="evidence", random_state=1)
    column[0].plot(X_line[:, 0], gp.sample_y(X_line, 5), linewidth=1)
    column[0].set_title(f"{name}: prior")

    gp.fit(X, y)
    mean, std = gp.predict(X_line, return_std=True)
    low, high = mean - 2 * std, mean + 2 * std
    column[1].fill_between(X_line[:, 0], low, high, color="0.88", linewidth=0)
    column[1].plot(X_line[:, 0], gp.sample_y(X_line, 5), linewidth=1, alpha=0.8)
    column[1].plot(X_line[:, 0], mean, color="black", linewidth=2)
    column[1].plot(x, y, "o", color="black", markersize=5, markerfacecolor="white")
    column[1].set_title(f"log evidence {gp.log_marginal_likelihood():.1f}")
    column[1].set_xlabel("x")
for axis in axes.flat:
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0)
axes[0, 0].set_ylabel("draws from the prior")
axes[1, 0].set_ylabel("draws from the posterior")
axes[1, 0].set_ylim(-5, 5)
plt.show()

# %%
# Where there are points the three agree. In the gap, and beyond the points, each says
# what its prior says: the draws of `rbf` return to the mean of the data, those of
# `arcsine` level off, those of `dense` keep their slope. The evidence, the density of
# the data under the model, compares them on what was seen, and cannot know which is
# right where nothing was.
#
# Units
# -----
# Deviations are those of the function, in units of y. With the noise added they are
# those of a new observation.

gp = ConvNetGPRegressor(kernels["rbf"], noise_variance="evidence").fit(X, y)
of_f = gp.predict_latent([[0.0]], return_std=True)[1][0]
of_y = gp.predict_latent([[0.0]], return_std=True, noise=True)[1][0]
print(f"deviation of f(0) {of_f:.3f}, of an observation there {of_y:.3f}")
print(f"noise {gp.noise_variance_ * gp.amplitude_:.4f} = ", end="")
print(f"relative {gp.noise_variance_:.4f} x amplitude {gp.amplitude_:.2f}")
