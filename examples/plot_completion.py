"""
A fifth of the Gram matrix, and less
====================================

Nearly all of the time of a Gaussian process here goes into its Gram matrix. Strategies
of :mod:`skconvgp.completion` evaluate a part of it. What they are worth shows beside
the plainest of them: to use fewer samples. :doc:`/user_guide/large_data` says which to
choose when, and :doc:`/user_guide/completion_benchmarks` has figures of MNIST.
"""

# %%
# Error and accuracy against the share of entries
# -----------------------------------------------
# Every strategy is a setting of the estimator, like any other. A completed matrix is a
# product of features; new images go through the same features. ``SubsetOfData`` is the
# exact process of as many samples as have that many entries, and completes no matrix.
# The last strategy has a sum as its prior: a smaller network on pooled images, for all
# pairs, and the network itself, completed; shares are those of the latter's entries.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from skconvgp import ConvNetGPClassifier, NystromCompletedGPRegressor
from skconvgp.completion import CoarseKernel, Nystrom, SubsetOfData
from skconvgp.datasets import load_digits_images
from skconvgp.display import CompletionErrorDisplay, SpectrumDisplay
from skconvgp.kernels import convnet, rbf

X, y = load_digits_images(return_X_y=True)
kernel = convnet(depth=3, kernel_size=3)
display = CompletionErrorDisplay.from_estimator(
    ConvNetGPClassifier(kernel, random_state=0),
    X,
    y,
    completions={
        "subset of data": SubsetOfData(),
        "Nyström, uniform landmarks": Nystrom(),
        "Nyström, k-means landmarks": Nystrom(landmarks="kmeans"),
        "Nyström, random pivots": Nystrom(landmarks="random_pivoted"),
        "Nyström + pooled images": CoarseKernel(
            depth=1, exact=Nystrom(), exact_weight=0.5
        ),
    },
    fractions=[0.02, 0.05, 0.1, 0.2, 0.4, 0.8],
    cv=StratifiedShuffleSplit(1, train_size=800, test_size=900, random_state=0),
)
plt.show()

# %%
# Of few entries the sum makes the most: every pair of digits is compared, if coarsely.
# Its error is that of its Nyström part.
#
# A small error is not enough: at a fifth of the entries Nyström's is less than half a
# percent of the matrix' range, and more digits are wrong than with a subset of data.
# The eigenvalues tell why. The first is nearly all of the matrix; but the process
# learns from almost as many directions as there are samples, and the landmarks of a
# fifth of the entries span a tenth of them.

X, y = X[:800], y[:800]
exact = ConvNetGPClassifier(kernel, random_state=0).fit(X, y)
spectrum = SpectrumDisplay.from_estimator(exact, X, name="network, three layers")
_ = spectrum.ax_.set_title("800 digits")

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
