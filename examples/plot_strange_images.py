"""
Images unlike the training images
=================================

What does a classifier of digits say of an image that is none, or of a camera that has
failed? It has ten labels and no other answer. This page shows that its probabilities
fade there, and where they cannot.
"""

# %%
# Digits, and others
# ------------------
# A classifier learns from 300 digits of 8 x 8 pixels, with default settings. Beside
# digits that it has not seen it is shown images of other kinds.

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from skconvgp import ImageClassifier
from skconvgp.datasets import load_digits_images

X, y = load_digits_images(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, train_size=300, test_size=600, stratify=y, random_state=0
)
rng = np.random.default_rng(0)
gp = ImageClassifier(random_state=0).fit(X, y)

few = X_test[:200]
kinds = {
    "digits": X_test,
    "rotated": np.rot90(few, axes=(-2, -1)).copy(),
    "inverted": 1.0 - few,
    "noise": rng.random(few.shape),
    "stripes": np.tile(rng.random((200, 1, 8, 1)) > 0.5, (1, 1, 1, 8)).astype(float),
    "black": np.zeros_like(few[:1]),
    "grey": np.full_like(few[:1], 0.5),
}

# %%
# With and without familiarity
# ----------------------------
# ``gp.calibration_.familiarity`` has the spans of five numbers among left-out digits:
# the latent variance, the prior variance, the contrast, and the distance and the norm
# of the latent means. Probabilities of images beyond these spans are drawn towards a
# tenth for each class. To see what this changes, the spans are taken away for a moment.

now = {kind: gp.predict_proba(images) for kind, images in kinds.items()}
calibration = gp.calibration_
gp.calibration_ = replace(calibration, familiarity=None)
before = {kind: gp.predict_proba(images) for kind, images in kinds.items()}
gp.calibration_ = calibration

for kind in kinds:
    means = before[kind].max(1).mean(), now[kind].max(1).mean()
    print("{:9} {:.2f} without, {:.2f} with familiarity".format(kind, *means))
losses = [log_loss(y_test, found["digits"]) for found in (before, now)]
print("log loss of digits {:.4f} without, {:.4f} with".format(*losses))

# %%
# The first row shows an image of each kind, with the label and the probability that it
# gets. Bars show the largest probability: a dot for each image, and the mean.

figure, axes = plt.subplots(
    2, len(kinds), figsize=(9.5, 4.2), layout="constrained", height_ratios=(1, 1.6)
)
for (kind, images), above, below in zip(kinds.items(), *axes, strict=True):
    above.imshow(images[0].squeeze(), cmap="gray", vmin=0.0, vmax=1.0)
    first = now[kind][0]
    above.set_title(f"{kind}\n{gp.classes_[first.argmax()]}: {first.max():.2f}", size=9)
    above.set(xticks=[], yticks=[])
    for place, found in enumerate((before[kind], now[kind])):
        top = found.max(1)[:100]
        spread = place + rng.uniform(-0.22, 0.22, len(top))
        colour = ("0.6", "tab:blue")[place]
        below.plot(spread, top, ".", color=colour, markersize=3, alpha=0.6)
        below.hlines(top.mean(), place - 0.35, place + 0.35, color="black", linewidth=2)
    below.set(xlim=(-0.6, 1.6), ylim=(0.0, 1.03), xticks=[0, 1], yticks=[0.0, 0.5, 1.0])
    below.set_xticklabels(["without", "with"], rotation=60, size=8)
    below.spines[["top", "right"]].set_visible(False)
    if kind != "digits":
        below.set_yticklabels([])
axes[1, 0].set_ylabel("largest probability")
plt.show()

# %%
# Digits keep their probabilities, and the other kinds lose them. No image gets another
# label: it is the confidence that changes.
#
# What this cannot do
# -------------------
# A classifier that knows the digits 0 to 4 alone is shown the others. Some of them
# resemble what it knows closely enough to be within all spans: a 9 that could be a 4.
# They get a label with confidence, as they would from a person who has never seen a 9.

knows = y < 5
half = ImageClassifier(random_state=0).fit(X[knows], y[knows])
seen, unseen = (
    half.predict_proba(X_test[part]).max(1) for part in (y_test < 5, y_test >= 5)
)
for name, top in (("0 to 4", seen), ("5 to 9", unseen)):
    print(f"digits {name}: mean {top.mean():.2f}, above .95: {(top > 0.95).mean():.0%}")

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
edges = np.linspace(0.2, 1.0, 33)
axes.hist(seen, edges, color="tab:blue", alpha=0.7, label="0 to 4, known classes")
axes.hist(unseen, edges, color="tab:orange", alpha=0.7, label="5 to 9, unseen classes")
axes.set(xlabel="largest probability", ylabel="images")
axes.legend()
axes.spines[["top", "right"]].set_visible(False)
plt.show()
