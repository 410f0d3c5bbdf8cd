"""
====================
Images in the mirror
====================

A boat that sails to the left is a boat that sails to the right, seen in a mirror.
:class:`~skconvgp.kernels.FlipAverage` makes a kernel that cannot tell them apart. This
page shows what it does to covariances, what it is worth with few images, why it is
better than copies of the images, and how leave-one-out predictions decide about it.
"""

# %%
# Things that look to a side
# --------------------------
#
# The images are drawn: boats, mugs, flags and fish, somewhere in a square of 16x16
# pixels, and look to the left or to the right.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.path import Path
from sklearn.metrics import log_loss

from skconvgp import ConvNetGPClassifier, ImageClassifier, gram_matrix
from skconvgp.kernels import FlipAverage, convnet

OUTLINES = {
    "boat": [
        [(2, 11), (14, 11), (12, 14), (4, 14)],
        [(8, 2), (8, 10), (14, 10)],
        [(7, 5), (7, 10), (3, 10)],
    ],
    "mug": [
        [(3, 4), (11, 4), (10, 13), (4, 13)],
        [(10, 5), (14, 5), (14, 7), (10, 7)],
        [(10, 9), (14, 9), (14, 11), (10, 11)],
        [(12.5, 5), (14, 5), (14, 11), (12.5, 11)],
    ],
    "flag": [[(4, 2), (5.5, 2), (5.5, 15), (4, 15)], [(5, 2), (14, 5), (5, 8)]],
    "fish": [
        [(1, 8), (4, 5), (8, 4), (11, 8), (8, 12), (4, 11)],
        [(10, 8), (14, 4), (13, 8), (14, 12)],
    ],
}
SIDE, FINE = 16, 4  # pixels a side, and points in a pixel a side
fine = (np.arange(SIDE * FINE) + 0.5) / FINE
points = np.stack(np.meshgrid(fine, fine), -1)


def draw(name, side, rng):
    """Return an image of a thing at a random place and in a random size."""
    size, shift = rng.uniform(0.7, 1.0), rng.uniform(-2.0, 2.0, 2)
    inside = np.zeros(points.shape[:2], bool)
    for outline in OUTLINES[name]:
        corners = size * (np.array(outline) - SIDE / 2) + SIDE / 2 + shift
        found = Path(corners).contains_points(points.reshape(-1, 2))
        inside |= found.reshape(inside.shape)
    image = inside.reshape(SIDE, FINE, SIDE, FINE).mean((1, 3)) * rng.uniform(0.5, 1.0)
    image += 0.1 * rng.normal(size=image.shape)
    return image[:, ::-1] if side == "left" else image


rng = np.random.default_rng(0)
names = np.array(list(OUTLINES))
y = np.tile(np.arange(4), 260)
sides = rng.choice(["left", "right"], len(y))
X = np.stack([draw(names[i], side, rng) for i, side in zip(y, sides, strict=True)])
X_test, y_test = X[640:], y[640:]

fig, axes = plt.subplots(2, 8, figsize=(9, 2.5), layout="constrained")
for ax, image in zip(axes.T.flat, X, strict=False):
    ax.imshow(image, cmap="bone_r", vmin=0, vmax=1.2)
    ax.set_axis_off()

# %%
# Covariances
# -----------
#
# Eight images and their mirror images: the correlations of a network, and those of its
# average over flips. For the network, a boat and its mirror image have as little in
# common as a boat and a fish. The second matrix consists of four equal blocks.

both = np.concatenate([X[:8], X[:8, :, ::-1]])
network = convnet(depth=2, kernel_size=3)
kernels = {"network": network, "average over flips": FlipAverage(network)}


def correlations(kernel):
    """Return the prior correlations of both, around the mean covariance."""
    gram = gram_matrix(kernel, both)
    gram = gram - gram.mean(0) - gram.mean(1)[:, None] + gram.mean()
    deviations = np.sqrt(np.diag(gram))
    return gram / np.outer(deviations, deviations)


strips = np.hstack(both), np.vstack(both)
fig, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
for ax, (title, kernel) in zip(axes, kernels.items(), strict=True):
    drawn = ax.imshow(correlations(kernel), cmap="RdBu_r", vmin=-1, vmax=1)
    ax.axhline(7.5, color="black", lw=0.8)
    ax.axvline(7.5, color="black", lw=0.8)
    ax.set_title(title, pad=30)
    ax.set_axis_off()
    places = [0, 1, 1, 1 / 16], [-1 / 16, 0, 1 / 16, 1]
    for place, strip in zip(places, strips, strict=True):
        beside = ax.inset_axes(place)
        beside.imshow(strip, cmap="bone_r", vmin=0, vmax=1.2)
        beside.set_axis_off()
fig.colorbar(drawn, ax=axes, shrink=0.8, label="correlation")

# %%
# What it is worth
# ----------------
#
# With few images a test image often looks to a side to which no training image of its
# class looks. The average learns both sides at once. Mirror images as additional rows
# of the training set help as much. But they double the matrix, and predictions of
# left-out images become too good: the mirror image of an image that is left out is
# still there. With 20 images their loss promises far more than test images keep.
# ``augment=Flip()`` of the estimator adds the same rows, and leaves an image out with
# all of them.

sizes, n_draws = (20, 40, 80), 8
series = {"network": [], "mirror images as rows": [], "average over flips": []}
for n in sizes:
    for name, found in series.items():
        kernel = kernels.get(name, network)
        for start in range(0, n_draws * n, n):
            images, labels = X[start : start + n], y[start : start + n]
            if name == "mirror images as rows":
                images = np.concatenate([images, images[:, :, ::-1]])
                labels = np.tile(labels, 2)
            gp = ConvNetGPClassifier(kernel).fit(images, labels)
            forecasts = gp.predict_proba(X_test)
            gap = log_loss(labels, gp.loo_predict_proba()) - log_loss(y_test, forecasts)
            found.append((np.mean(forecasts.argmax(1) == y_test), gap))

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for (name, found), marker in zip(series.items(), "sv^", strict=True):
    accuracy, gap = np.reshape(found, (len(sizes), n_draws, 2)).mean(1).T
    axes[0].plot(sizes, 100 * accuracy, marker=marker, label=name)
    axes[1].plot(sizes, gap, marker=marker, label=name)
axes[1].axhline(0.0, color="grey", lw=0.8)
axes[0].set_ylabel("test accuracy in %")
axes[1].set_ylabel("log loss, left-out minus test images")
for ax in axes:
    ax.set_xscale("log")
    ax.set_xticks(sizes, sizes)
    ax.minorticks_off()
    ax.set_xlabel("training images")
axes[0].legend()

# %%
# Where the side matters
# ----------------------
#
# Now the question is to which side a thing looks. The average gives both sides the same
# probability, and cannot know. Predictions of left-out images notice without a test
# image, and this is how :class:`~skconvgp.ImageClassifier` decides for itself.

print("question    kernel               left out   test")
for question, answers in {"which thing": names[y], "which side": sides}.items():
    for name, kernel in kernels.items():
        gp = ConvNetGPClassifier(kernel).fit(X[:80], answers[:80])
        left_out = np.mean(gp.loo_predict() == answers[:80])
        test = gp.score(X_test, answers[640:])
        print(f"{question:12}{name:20} {left_out:5.0%}      {test:5.0%}")
    gp = ImageClassifier([network], random_state=0).fit(X[:80], answers[:80])
    print(f"            averaged by ImageClassifier: {gp.fit_report_.is_mirrored}")
