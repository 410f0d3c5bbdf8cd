"""
A fifth of the Gram matrix, and less
====================================

Nearly all of the time of a Gaussian process here goes into its Gram matrix. Strategies
of :mod:`skconvgp.completion` evaluate a part of it. What they are worth shows beside
the plainest of them: to use fewer samples. :doc:`/user_guide/completion` says which to
choose when, with figures of MNIST.
"""

# %%
# Accuracy against the share of entries
# -------------------------------------
# Every strategy is a setting of the estimator, like any other. A completed matrix is a
# product of features; new images go through the same features. ``SubsetOfData`` is the
# exact process of as many samples as have that many entries.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from skconvgp import ConvNetGPClassifier, NystromCompletedGPRegressor
from skconvgp.completion import Nystrom, SubsetOfData
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import convnet, rbf

X, y = load_digits_images(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, train_size=800, test_size=900, stratify=y, random_state=0
)
kernel = convnet(depth=3, kernel_size=3)


def accuracy(completion, fraction):
    gp = ConvNetGPClassifier(
        kernel, completion=completion, observed_fraction=fraction, random_state=0
    )
    return gp.fit(X, y).score(X_test, y_test)


fractions = [0.02, 0.05, 0.1, 0.2, 0.4, 0.8]
strategies = {
    "subset of data": SubsetOfData(),
    "Nyström, uniform landmarks": Nystrom(),
    "Nyström, k-means landmarks": Nystrom(landmarks="kmeans"),
    "Nyström, random pivots": Nystrom(landmarks="random_pivoted"),
}
curves = {
    name: [accuracy(completion, fraction) for fraction in fractions]
    for name, completion in strategies.items()
}
exact = accuracy(None, 1.0)

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, values), marker in zip(curves.items(), "so^v", strict=True):
    ax.semilogx(fractions, values, marker=marker, label=name)
ax.axhline(exact, color="black", linewidth=1, label="exact")
ax.set_xticks(fractions, [f"{fraction:.0%}" for fraction in fractions])
ax.minorticks_off()
ax.set_xlabel("share of the entries that are evaluated")
ax.set_ylabel("accuracy on other digits")
_ = ax.legend()

# %%
# What the report says
# --------------------
# ``fit_report_`` counts the entries, and holds the error of the completed matrix on
# entries that were evaluated and left out.

gp = ConvNetGPClassifier(kernel, completion=Nystrom(), random_state=0).fit(X, y)
print(gp.fit_report_)

# %%
# Deviations far from landmarks
# -----------------------------
# :class:`~skconvgp.NystromCompletedGPRegressor` never makes an n x n array, for many
# samples. Here are three ways to treat the variance that eight landmarks do not
# explain. Subset of regressors forgets it: between landmarks its deviations are far too
# small. DTC adds it to predictions; FITC counts it as noise of the samples too.

random = np.random.default_rng(0)
points = np.sort(random.uniform(0.0, 10.0, 2000))[:, None]
values = np.sin(points[:, 0]) + 0.1 * random.normal(size=2000)
grid = np.linspace(-1.0, 13.0, 300)[:, None]

fig, axes = plt.subplots(
    1, 3, figsize=(9, 3), sharex=True, sharey=True, layout="constrained"
)
for ax, variance in zip(axes, ["sor", "dtc", "fitc"], strict=True):
    gp = NystromCompletedGPRegressor(
        rbf(0.7),
        n_landmarks=8,
        variance=variance,
        noise_variance="evidence",
        random_state=3,
    ).fit(points, values)
    mean, std = gp.predict(grid, return_std=True)
    ax.plot(points[::20], values[::20], ".", color="lightgray", markersize=3)
    ax.plot(grid, mean)
    ax.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, alpha=0.25)
    ax.plot(gp.X_train_, np.full(len(gp.X_train_), -2.8), "^", color="black")
    ax.set_title(variance)
_ = axes[0].set_ylabel("mean and two deviations")
