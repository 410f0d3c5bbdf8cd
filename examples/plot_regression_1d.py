"""
Regression in one dimension: three priors
=========================================

The assumptions of a kernel are easiest to see in one dimension. For three kernels this
page draws functions from the prior, fits the same noisy points, and draws functions
from the posterior.
"""

# %%
# Three kernels, one set of points
# --------------------------------
# - `rbf`: smooth functions, whose values are nearly independent beyond a few
#   lengthscales;
# - `arcsine`: a network with one infinite hidden layer of sigmoids, whose functions
#   become constant far from the origin;
# - `dense`: a network with two hidden layers of rectifiers, whose functions continue in
#   straight lines.
#
# The evidence chooses the amplitude and the noise, so nothing else has to be set.

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
# The upper row shows draws from the prior: `sample_y` of a model that has not been
# fitted. The lower row shows draws from the posterior, `sample_y` of the fitted model,
# with the posterior mean and a band of two standard deviations.

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
# Near the points the three models agree. In the gap and beyond the points each follows
# its prior: the draws of `rbf` return to the mean of the data, those of `arcsine` level
# off, those of `dense` keep their slope. The evidence is the density of the data under
# the model. It compares the models on the observed points, and cannot decide which of
# them extrapolates correctly.
#
# Standard deviations and units
# -----------------------------
# By default, standard deviations are those of the function f, in units of y. With
# ``noise=True`` they are those of a new observation.

gp = ConvNetGPRegressor(kernels["rbf"], noise_variance="evidence").fit(X, y)
of_f = gp.predict_latent([[0.0]], return_std=True)[1][0]
of_y = gp.predict_latent([[0.0]], return_std=True, noise=True)[1][0]
print(f"deviation of f(0) {of_f:.3f}, of an observation there {of_y:.3f}")
print(f"noise {gp.noise_variance_ * gp.amplitude_:.4f} = ", end="")
print(f"relative {gp.noise_variance_:.4f} x amplitude {gp.amplitude_:.2f}")
