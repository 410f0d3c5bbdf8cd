"""
Finite networks: an ensemble, a bootstrap, and a kernel as prior
================================================================

Many small networks are trained at the same time, and their spread is the uncertainty.
This page compares three ways to do that with the Gaussian process that one of them
imitates.
"""

# %%
# Four models of the same points
# ------------------------------
# - "ensemble": each network starts at random, and is trained to the same points;
# - "bootstrap": each network gets other noise, and is pulled to its random start;
# - "bootstrap" with a kernel as prior: each network is pulled to a random function of a
#   Gaussian process;
# - the Gaussian process itself, whose posterior is exact.
#
# The evidence chooses the noise of all four, and the kernel of the last two.

import matplotlib.pyplot as plt
import numpy as np

from skconvgp import BayesianNetworkRegressor, ConvNetGPRegressor
from skconvgp.kernels import rbf

rng = np.random.default_rng(7)
x = np.concatenate([rng.uniform(-2.2, -0.8, 10), rng.uniform(0.6, 2.2, 10)])
y = np.sin(2.0 * x) + 0.5 * x + rng.normal(scale=0.1, size=20)
X, X_line = x[:, None], np.linspace(-3.0, 3.0, 121)[:, None]

networks = {
    "hidden_layer_sizes": (50,),
    "weight_variance": 8.0,
    "activation": "erf",
    "max_iter": 1000,
    "extra_points": 1.0,
    "random_state": 0,
}
models = {
    "ensemble": BayesianNetworkRegressor(inference="ensemble", **networks),
    "bootstrap": BayesianNetworkRegressor(inference="bootstrap", **networks),
    "bootstrap, prior=rbf()": BayesianNetworkRegressor(prior=rbf(0.8), **networks),
    "Gaussian process, rbf()": ConvNetGPRegressor(
        rbf(0.8), optimizer="evidence", noise_variance="evidence", random_state=0
    ),
}

figure, axes = plt.subplots(
    1, 4, figsize=(13, 3.6), sharex=True, sharey=True, layout="constrained"
)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    mean, std = model.fit(X, y).predict(X_line, return_std=True)
    line = X_line[:, 0]
    axis.fill_between(line, mean - 2 * std, mean + 2 * std, color="0.88", linewidth=0)
    axis.plot(line, model.sample_y(X_line, 10), linewidth=0.8, alpha=0.8)
    axis.plot(line, mean, color="black", linewidth=2)
    axis.plot(x, y, "o", color="black", markersize=5, markerfacecolor="white")
    axis.set_title(name)
    axis.set_xlabel("x")
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0)
axes[0].set_ylim(-3, 3)
axes[0].set_ylabel("y")
plt.show()

# %%
# The networks of the ensemble nearly agree where there are no points: they start
# differently and still end near the same function. Those of a bootstrap disagree there,
# as they should. With a kernel as prior they do so less than the Gaussian process: the
# prior holds at the points and at further inputs between them, and smooth networks
# follow its random functions only in part. None of the first three is an exact
# posterior.
