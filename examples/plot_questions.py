"""
Which labels fit, and is it a digit at all?
===========================================

A classifier of digits has ten labels and no doubt. This page asks it two more
questions: which labels fit an image, with a guarantee, and whether the image is of the
kind that it has learned from. Nothing is fitted again, and no image is set apart.
"""

# %%
# Digits 0 to 6, and others
# -------------------------
# The classifier has seen 400 images of the digits 0 to 6. It is shown others of these,
# and the digits 7 to 9, which it does not know, mirror images, and images of nothing.

import matplotlib.pyplot as plt
import numpy as np

from skconvgp import ImageClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.display import NoveltyDisplay, PredictionSetDisplay
from skconvgp.questions import novelty, prediction_set

X, y = load_digits_images(return_X_y=True)
rng = np.random.default_rng(0)
shuffled = rng.permutation(len(X))
X, y = X[shuffled], y[shuffled]
known, known_labels = X[y < 7], y[y < 7]
gp = ImageClassifier(random_state=0).fit(known[:400], known_labels[:400])

like, like_labels = known[400:800], known_labels[400:800]
kinds = {
    "digits 0 to 6": like,
    "digits 7 to 9": X[y >= 7][:300],
    "mirrored": like[:300, ..., ::-1].copy(),
    "noise": rng.random(like[:100].shape),
    "black or grey": np.stack([np.full_like(X[0], v) for v in np.linspace(0, 1, 20)]),
}

# %%
# Is it a digit of these?
# -----------------------
# ``novelty`` returns p-values. Those of the digits 0 to 6 should be at most t for at
# most a share t of the images, the grey line, whatever t is. The farther a curve is
# above the line, the more of the other images are found.

figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
shares = np.linspace(0.0, 1.0, 201)
axes.plot(shares, shares, color="0.7", linewidth=1)
for kind, images in kinds.items():
    p_values = novelty(gp, images)
    found = (p_values <= shares[:, None]).mean(1)
    axes.plot(shares, found, label=kind, linewidth=2)
    print(f"{kind:14} {np.mean(p_values <= 0.05):.0%} have a p-value of 5 % or less")
axes.set(xlabel="p-value", ylabel="share of images with at most this p-value")
axes.set(xlim=(0.0, 0.6), ylim=(0.0, 1.02))
figure.legend(loc="outside right upper")
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Which labels fit?
# -----------------
# ``prediction_set`` returns the labels that fit. Of the images of the digits 0 to 6 a
# share of about ``level`` should have the true label in the set: left, for every level.
# A second classifier has a harder task: a tenth of all labels is wrong. Right: how many
# labels a set of 95 % has.

wrong = rng.random(400) < 0.1
noisy = np.where(wrong, rng.integers(0, 7, 400), known_labels[:400])
doubtful = ImageClassifier(random_state=0).fit(known[:400], noisy)

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
levels = np.linspace(0.6, 0.98, 9)
left.plot(levels, levels, color="0.7", linewidth=1)
also_wrong = rng.random(len(like)) < 0.1
noisy_labels = np.where(also_wrong, rng.integers(0, 7, len(like)), like_labels)
for model, labels, name in (
    (gp, like_labels, "labels as they are"),
    (doubtful, noisy_labels, "a tenth is wrong"),
):
    places = np.arange(len(like)), labels
    shares = [prediction_set(model, like, level)[places].mean() for level in levels]
    left.plot(levels, shares, "o-", markersize=3, label=name)
    sizes = prediction_set(model, like, 0.95).sum(1)
    bars = np.arange(8) + (0.2 if model is doubtful else -0.2)
    right.bar(bars, np.bincount(sizes, minlength=8), 0.4, label=name)
    print(f"{name}: {prediction_set(model, like, 0.95)[places].mean():.1%} at 95 %")
left.set(xlabel="level", ylabel="true label in the set", title="Coverage")
right.set(xlabel="labels in a set of 95 %", ylabel="images", title="Sizes")
for axes in (left, right):
    axes.legend()
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Images of the digits 0 to 6 with their sets of 93 %, by the second classifier. Red are
# those that miss the true label.

PredictionSetDisplay.from_estimator(doubtful, like, like_labels, level=0.93)
plt.show()

# %%
# Over time
# ---------
# A camera is turned after 200 images: each of the next 200 is a mirror image. The share
# of small p-values among the last 50 says so soon.

stream = np.concatenate([like[:200], like[200:, ..., ::-1]])
NoveltyDisplay.from_estimator(gp, stream)
plt.show()

# %%
# The guarantee holds for images from the source of the training images, and as a mean
# over them. :doc:`/user_guide/questions/index` says what is promised, and what is not.
