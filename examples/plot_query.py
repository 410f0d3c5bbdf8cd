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
# Curves are means over three draws, with a standard error on each side.

import matplotlib.pyplot as plt
import numpy as np

from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.display import QueryCurvesDisplay
from skconvgp.kernels import convnet
from skconvgp.questions import query

X, y = load_digits_images(return_X_y=True)
gp = ConvNetGPClassifier(convnet(depth=2))
display = QueryCurvesDisplay.from_estimator(
    gp, X, y, start=20, batch=20, n_batches=9, test_size=797, n_draws=3, random_state=0
)
display.ax_.set(xlim=(30, None), ylim=(0.8, 1.0))
for strategy, scores in display.scores.items():
    mean = 100.0 * scores.mean(axis=0)
    told = ", ".join(f"{mean[i]:.1f}" for i in (1, 4, 9))
    print(f"{strategy:19}{told} % right at 40, 100 and 200 labels")
plt.show()

# %%
# What is chosen
# --------------
# The first twenty that each strategy chooses after 20 random digits, in their order.
# Margins alone find doubtful digits, some of them alike. The variance finds digits
# that stand for many others.

order = np.random.default_rng(0).permutation(len(X))
labelled, pool = order[:20], order[20:1000]
gp.fit(X[labelled], y[labelled])

figure, axes = plt.subplots(4, 20, figsize=(9.5, 2.6), layout="constrained")
for row, strategy in zip(axes, display.scores, strict=True):
    chosen = pool[query(gp, X[pool], 20, strategy, random_state=0)]
    name = strategy.replace(" ", "\n")
    row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for axis, i in zip(row, chosen, strict=True):
        axis.imshow(X[i].squeeze(), cmap="gray_r")
        axis.set(xticks=[], yticks=[])
plt.show()

# %%
# :doc:`/user_guide/questions/query` says how many images to choose at a time, and where
# this helps less.
