"""
Intervals and relevant features
===============================

A regressor says how far off it may be, and a lengthscale for each feature says which
features it looks at. Here both are learned from a small table where the truth is
known: three of the eight features have nothing to do with the target.
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
# and noise with a deviation of 1. 200 samples to learn from, 1000 to be judged on, and
# features that are standardised, so that their lengthscales can be compared.

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
# ``optimizer="evidence"`` learns lengthscales and noise. A feature that does not matter
# is best ignored altogether, so that its lengthscale has no largest value of its own:
# the bounds are wide, and an end at one of them would be told.

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
# Three features are found out
# ----------------------------
# The bars are inverse lengthscales. Those of the last three features, which the target
# does not depend on, cannot be told from zero. Of the others the bars tell how fast the
# function *bends* along them, not how much of the target they explain: along the fourth
# it is a straight line, and a straight line has a long lengthscale.

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
# Intervals, and how many observations they hold
# ----------------------------------------------
# ``predict_interval`` returns the ends of intervals that new observations should fall
# into, noise included, and ``level`` the share that should. Left: intervals of 90 % for
# every twentieth test sample, in the order of the predictions. Right: the share of test
# samples that are in their intervals, at every level.

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
# Intervals of both models hold about as many observations as they should. But those of
# the model that ignores what does not matter are a third shorter: coverage tells
# whether intervals are honest, their length whether they are of use.
#
# .. [Friedman] Friedman, "Multivariate adaptive regression splines", 1991.
