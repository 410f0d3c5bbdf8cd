"""
Intervals and relevant features
===============================

This page fits a regressor to a small table and shows two things: prediction intervals,
and a lengthscale for each feature, which measures how relevant the feature is. The
truth is known: the target does not depend on three of the eight features.
"""

# %%
# A table with a known truth
# --------------------------
# Friedman's first function of five features [Friedman]_, with three more features that
# it does not depend on,
#
# .. math:: y = 10 \sin(\pi u_1 u_2) + 20 (u_3 - \tfrac12)^2 + 10 u_4 + 5 u_5
#     + \varepsilon,
#
# and noise with a standard deviation of 1. There are 200 training samples and 1000 test
# samples. The features are standardised, so that their lengthscales can be compared.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import rbf

X, y = make_friedman1(1200, n_features=8, noise=1.0, random_state=0)
X = StandardScaler().fit_transform(X)
X, X_test, y, y_test = train_test_split(X, y, train_size=200, random_state=0)

# %%
# One lengthscale, or one for each feature
# ----------------------------------------
# ``optimizer="evidence"`` learns the lengthscales and the noise. The larger the
# lengthscale of a feature, the less the model depends on it. For an irrelevant feature
# the best lengthscale may be infinite, so the bounds are wide. The estimator would warn
# if a lengthscale ended at one of them.

starts = {
    "one lengthscale": rbf(3.0),
    "one for each feature": rbf([3.0] * 8, lengthscale_bounds=(0.1, 1e6)),
}
models = {
    name: ConvNetGPRegressor(
        kernel, optimizer="evidence", noise_variance="evidence"
    ).fit(X, y)
    for name, kernel in starts.items()
}
for name, gp in models.items():
    error = root_mean_squared_error(y_test, gp.predict(X_test))
    noise = np.sqrt(gp.noise_variance_ * gp.amplitude_)
    evidence = gp.log_marginal_likelihood()
    print(f"{name:21} evidence {evidence:.1f}, ", end="")
    print(f"deviation of the noise {noise:.2f}, RMSE {error:.2f}")

# %%
# The irrelevant features
# -----------------------
# The bars are inverse lengthscales. For the last three features, on which the target
# does not depend, they are practically zero. For the others they measure how much the
# function *bends* along the feature, and not how much of the target the feature
# explains. Along the fourth feature the function is a straight line, which has a long
# lengthscale.

lengthscales = np.array(models["one for each feature"].kernel_.lengthscale)
print("lengthscales", " ".join(f"{value:.3g}" for value in lengthscales))
figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
axes.bar(np.arange(1, 9), 1.0 / lengthscales, color="tab:blue")
axes.text(7, 0.01, "not in the function", ha="center", fontsize="small")
shared = models["one lengthscale"].kernel_.lengthscale
axes.axhline(1.0 / shared, color="black", linestyle="--", linewidth=1)
axes.text(8.45, 1.02 / shared, "one for all", ha="right", va="bottom", fontsize="small")
axes.set(xlabel="feature", ylabel="1 / lengthscale", title="Relevance")
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Intervals and their coverage
# ----------------------------
# ``predict_interval`` returns the lower and the upper end of an interval for each new
# observation, noise included. ``level`` is the share of observations that should fall
# into their intervals. Left: intervals of 90 % for every twentieth test sample, in the
# order of the predictions. Right: the share of test samples in their intervals, at
# every level.

gp = models["one for each feature"]
low, high = gp.predict_interval(X_test, level=0.9).T
is_in = (low <= y_test) & (y_test <= high)
some = np.argsort(gp.predict(X_test))[::20]
places = np.arange(len(some))

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
left.vlines(places, low[some], high[some], color="0.75", linewidth=3)
for held, colour, label in ((True, "tab:blue", "in"), (False, "tab:red", "not in")):
    kept = is_in[some] == held
    left.plot(places[kept], y_test[some][kept], "o", color=colour, ms=4, label=label)
left.set(xlabel="test samples, by prediction", ylabel="y", title="Intervals of 90 %")
left.legend(title="the interval")

levels = np.linspace(0.05, 0.99, 20)
right.plot([0.0, 1.0], [0.0, 1.0], color="0.7", linewidth=1)
for name, gp in models.items():
    shares, lengths = [], []
    for level in [*levels, 0.9]:
        low, high = gp.predict_interval(X_test, level=level).T
        shares.append(np.mean((low <= y_test) & (y_test <= high)))
        lengths.append(np.mean(high - low))
    label = f"{name}: {lengths[-1]:.1f} long at 90 %"
    right.plot(levels, shares[:-1], "o-", markersize=3, label=label)
    print(f"{name:21} {shares[-1]:.1%} in intervals of 90 %, {lengths[-1]:.2f} long")
right.set(xlabel="level", ylabel="share of test samples", title="Coverage")
right.legend(loc="lower right", fontsize="small")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The intervals of both models contain about as many observations as they should. Those
# of the model with a lengthscale for each feature are a third shorter. Compare both
# numbers: the coverage shows whether intervals are right, the length how precise they
# are.
#
# .. [Friedman] Friedman, "Multivariate adaptive regression splines", 1991.
