"""
What did it look at?
====================

A model of patches adds up what it sees in each patch of an image. So it can say exactly
how much each place adds to the score of a label. And every score is also a sum over
training images.
"""

# %%
# Four digits
# -----------
# The classifier has learned from 400 images. Each row has a new image, what speaks for
# the predicted label, in red, and against it, in blue, and the training images with the
# largest representer values for and against the label.

import matplotlib.pyplot as plt
import numpy as np

from skconvgp import PatchGPClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.display import AttributionDisplay
from skconvgp.questions import attribution

X, y = load_digits_images(return_X_y=True)
some = np.random.default_rng(0).permutation(len(X))[:800]
X, y = X[some], y[some]
train, labels, new = X[:400], y[:400], X[400:]
gp = PatchGPClassifier(random_state=0).fit(train, labels)

first = [np.flatnonzero(gp.predict(new) == label)[0] for label in (0, 4, 6, 7)]
AttributionDisplay.from_estimator(gp, new[first], train, labels)
plt.show()

# %%
# The sum of a map is the score less its prior mean, to rounding.

maps, scores = attribution(gp, new, target=7), gp.predict_latent(new)[:, 7]
errors = maps.sum((1, 2)) - (scores - gp.latent_offset_[7])
print(f"largest difference of {len(new)} images: {np.abs(errors).max():.0e}")

# %%
# One image, two labels
# ---------------------
# Six images whose scores of two labels are close, and the maps of both labels. The
# difference of the maps, in the last row, adds up to the difference of the scores. The
# left side of the fifth image, which is open, speaks for a 3, and the right side for an
# 8.

latent = gp.predict_latent(new)
order = np.argsort(latent, 1)
gaps = np.sort(latent, 1)[:, -1] - np.sort(latent, 1)[:, -2]
close = np.argsort(gaps)[:6]
best, second = order[close, -1], order[close, -2]

figure, axes = plt.subplots(4, 6, figsize=(8.4, 6.2), layout="constrained")
found = [attribution(gp, new[close], labels) for labels in (best, second)]
for k, column in enumerate(axes.T):
    own, other = found[0][k], found[1][k]
    largest = max(np.abs(one).max() for one in (own, other, own - other))
    column[0].imshow(new[close[k], 0], cmap="gray_r")
    column[0].set_title(f"{best[k]} or {second[k]}, is {y[400 + close[k]]}", size=8)
    names = f"for {best[k]}", f"for {second[k]}", f"{best[k]} less {second[k]}"
    for axis, values, name in zip(
        column[1:], (own, other, own - other), names, strict=True
    ):
        axis.imshow(values, cmap="RdBu_r", vmin=-largest, vmax=largest)
        axis.set_title(name, size=8)
for axis in axes.flat:
    axis.set_axis_off()
plt.show()
