"""
Which images are worth labelling?
=================================

Of a thousand digits without labels some hundred shall be labelled. Which? This page
compares images that are chosen by the posterior covariance with images at random and
with those of small margins, and shows what is chosen.
"""

# %%
# Learning curves
# ---------------
# Each curve starts with the labels of the same 20 random digits. Then 20 further
# ones at a time are chosen, labelled, and the classifier is fitted to all of them.

import matplotlib.pyplot as plt
import numpy as np

from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import convnet
from skconvgp.questions import query

X, y = load_digits_images(return_X_y=True)
strategies = {
    "random": "0.6",
    "margin": "tab:orange",
    "variance": "tab:green",
    "uncertain variance": "tab:blue",
}
start, batch, n_batches, n_draws = 20, 20, 9, 4
numbers = start + batch * np.arange(n_batches + 1)
errors = {strategy: np.empty((n_draws, len(numbers))) for strategy in strategies}
first_chosen = {}

for draw in range(n_draws):
    order = np.random.default_rng(draw).permutation(len(X))
    pool, test = order[:1000], order[1000:]
    for strategy, curve in errors.items():
        labelled = pool[:start]
        for step in range(len(numbers)):
            gp = ConvNetGPClassifier(convnet(depth=2)).fit(X[labelled], y[labelled])
            curve[draw, step] = np.mean(gp.predict(X[test]) != y[test])
            left = np.setdiff1d(pool, labelled)
            chosen = left[query(gp, X[left], batch, strategy, random_state=draw)]
            first_chosen.setdefault(strategy, chosen)
            labelled = np.concatenate([labelled, chosen])

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for strategy, colour in strategies.items():
    mean = errors[strategy].mean(axis=0)
    axes.plot(numbers, 100.0 * mean, "o-", color=colour, markersize=3, label=strategy)
    told = ", ".join(f"{100.0 * mean[i]:.1f}" for i in (1, 4, 9))
    print(f"{strategy:19}{told} % errors at 40, 100 and 200 labels")
axes.set(xlabel="labels", ylabel="errors on other digits, %", yscale="log")
axes.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
axes.minorticks_off()
axes.grid(axis="y", color="0.9")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What is chosen
# --------------
# The first twenty that each strategy chooses, in their order, in the first draw.
# Margins alone find doubtful digits, some of them alike. The variance finds digits
# that stand for many others.

figure, axes = plt.subplots(4, batch, figsize=(9.5, 2.6), layout="constrained")
for row, (strategy, chosen) in zip(axes, first_chosen.items(), strict=True):
    name = strategy.replace(" ", "\n")
    row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for axis, i in zip(row, chosen, strict=True):
        axis.imshow(X[i].squeeze(), cmap="gray_r")
        axis.set(xticks=[], yticks=[])
plt.show()

# %%
# :doc:`/user_guide/questions/query` says how many images to choose at a time, and where
# this helps less.
