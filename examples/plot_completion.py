"""
Approximations of the Gram matrix
=================================

A fit spends nearly all of its time on the Gram matrix. The strategies of
:mod:`skconvgp.completion` evaluate only a part of the matrix. This page compares
several of them with the simplest one, a fit to fewer samples.
:doc:`/user_guide/large_data` recommends when to use which, and
:doc:`/user_guide/completion_benchmarks` has results on MNIST.
"""

# %%
# Error and accuracy against the share of entries
# -----------------------------------------------
# The strategy is the setting ``completion=`` of an estimator. The Nyström strategies
# compute features of all images from the covariances with a few of them, the landmarks.
# ``SubsetOfData`` completes nothing: it fits the exact process to as many samples as
# have that share of the entries. The last strategy uses the sum of two kernels as its
# prior: a smaller network on pooled images, which is evaluated for all pairs, and the
# original network, completed by Nyström. Its share counts the entries of the original
# network.

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import recall_score
from sklearn.model_selection import StratifiedShuffleSplit

from skconvgp import (
    ConvNetGPClassifier,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
)
from skconvgp.completion import CoarseKernel, Nystrom, SubsetOfData
from skconvgp.datasets import load_digits_images
from skconvgp.display import CompletionErrorDisplay, SpectrumDisplay
from skconvgp.kernels import convnet, rbf

X, y = load_digits_images(return_X_y=True)
kernel = convnet(depth=3, kernel_size=3)
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "None of the")  # shown further below
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
# With few entries the sum of kernels is the most accurate, because it compares every
# pair of digits, if only coarsely. The error that is shown for it is that of its
# Nyström part.
#
# A small error of the matrix does not imply accurate predictions. With a fifth of the
# entries, the error of Nyström is less than half a percent of the range of the matrix,
# yet it misclassifies more digits than a subset of data. The eigenvalues explain this.
# The first eigenvalue accounts for nearly all of the matrix, but the process learns
# from almost as many eigenvectors as there are samples. The landmarks of a fifth of the
# entries span only a tenth of them.

X_all, y_all, X, y = X, y, X[:800], y[:800]
exact = ConvNetGPClassifier(kernel, random_state=0).fit(X, y)
spectrum = SpectrumDisplay.from_estimator(exact, X, name="network, three layers")
_ = spectrum.ax_.set_title("800 digits")

# %%
# The report of a fit
# -------------------
# ``fit_report_`` gives the number of entries that were evaluated, and the error of the
# completed matrix. To measure the error, a few evaluated entries were not used for the
# completion.

gp = ConvNetGPClassifier(kernel, completion=Nystrom(), random_state=0).fit(X, y)
print(gp.fit_report_)

# %%
# Classes without landmarks
# -------------------------
# New samples are compared with the landmarks alone. If no landmark is of a class, its
# samples are recognised less often, and `fit` warns. That happens with few landmarks,
# or with rare classes. The stratified choice takes landmarks from each class. The bars
# show the share of the digits of each class that is recognised; classes without
# landmarks are red. (On top of this page the warning was silenced.)

X_new, y_new = X_all[800:], y_all[800:]
fig, axes = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True, layout="constrained")
for ax, choice in zip(axes, ["uniform", "stratified"], strict=True):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gp = NystromCompletedGP(
            kernel, n_landmarks=14, landmarks=choice, random_state=0
        ).fit(X, y)
    for warning in told:
        print(textwrap.fill(f"{choice}: {warning.message}"))
    has_some = np.isin(gp.classes_, y[gp.landmark_indices_])
    colors = np.where(has_some, "tab:blue", "tab:red")
    found = recall_score(y_new, gp.predict(X_new), average=None)
    ax.bar(gp.classes_, found, color=colors)
    ax.set(title=f"{choice} landmarks", xlabel="class", xticks=gp.classes_)
_ = axes[0].set_ylabel("share that is recognised")

# %%
# Standard deviations far from landmarks
# --------------------------------------
# :class:`~skconvgp.NystromCompletedGPRegressor` is for many samples: it never makes an
# n x n array. The landmarks, eight in this example, do not explain all of the prior
# variance, and there are three ways to treat the remainder. Subset of regressors (SoR)
# ignores it, so its standard deviations are far too small between landmarks. DTC adds
# it to the variance of predictions. FITC also adds it to the noise of the training
# samples.

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
