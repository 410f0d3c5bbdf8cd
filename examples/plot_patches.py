"""
==========================
Patches, places and digits
==========================

A Gaussian process on patches adds up the responses of a random function to each small
window of an image. :class:`~skconvgp.PatchGPClassifier` learns from inducing patches at
a few places. This page shows them, the effect of the location lengthscale, weights that
are learned, and the warnings about kernels that see nothing.
"""

# %%
# Fit
# ---
#
# The data are 8x8 images of digits. A patch has 3x3 pixels here.

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from skconvgp import PatchGPClassifier, gram_matrix
from skconvgp.datasets import load_digits_images, make_rectangles
from skconvgp.display import PatchesDisplay
from skconvgp.flows import VariationalBound
from skconvgp.kernels import PatchKernel, rbf

X, y = load_digits_images(return_X_y=True)
X_train, y_train, X_test, y_test = X[:600], y[:600], X[1000:], y[1000:]
kernel = PatchKernel(patch_size=3)
gp = PatchGPClassifier(kernel, n_inducing=32, random_state=0).fit(X_train, y_train)
print(f"accuracy {gp.score(X_test, y_test):.3f}")

# %%
# Inducing patches and places
# ---------------------------
#
# Left: the inducing patches, which are centres of clusters of training patches. Right:
# the places on one of the images; a dot is the centre of a patch there. Each patch at
# each place is an inducing variable.

PatchesDisplay.from_estimator(gp, X_test[0])

# %%
# How far does a response reach?
# ------------------------------
#
# With a large location lengthscale the kernel does not see where a patch is. With a
# small one every position has a response of its own. Leave-one-out predictions, which
# need no test data, show which one is good: in between. Their loss is lower because a
# left-out digit has others of its writer beside it; the test images are of other
# writers.

lengthscales = [0.3, 0.6, 1.0, 2.0, 4.0, 8.0, None]
losses = []
for lengthscale in lengthscales:
    settings = PatchKernel(patch_size=3, location_lengthscale=lengthscale)
    model = PatchGPClassifier(settings, n_inducing=32, random_state=0)
    model.fit(X_train, y_train)
    left_out = log_loss(y_train, model.loo_predict_proba())
    losses.append((left_out, log_loss(y_test, model.predict_proba(X_test))))

fig, ax = plt.subplots(figsize=(6, 4))
names = [str(one) for one in lengthscales]
for curve, label in zip(np.transpose(losses), ("leave-one-out", "test"), strict=True):
    ax.plot(names, curve, "o-", label=label)
ax.set_xlabel("location lengthscale in pixels (None: no location)")
ax.set_ylabel("log loss")
ax.set_yscale("log")
ax.legend()
fig.tight_layout()
plt.show()

# %%
# Where do patches count?
# -----------------------
#
# These images have a bar in their left half, whose direction is the label, and one in
# their right half, whose direction means nothing.

rng = np.random.default_rng(0)


def draw_bars(n):
    upright = rng.integers(0, 2, (n, 2))
    images = 0.2 * rng.normal(size=(n, 12, 12))
    for image, of_sides in zip(images, upright, strict=True):
        for left, is_upright in zip((0, 6), of_sides, strict=True):
            height, width = (5, 1) if is_upright else (1, 5)
            row, column = rng.integers(13 - height), left + rng.integers(7 - width)
            image[row : row + height, column : column + width] += 1.0
    return images, upright[:, 0]


X_train, y_train = draw_bars(400)
X_test, y_test = draw_bars(1000)
fig, axes = plt.subplots(1, 4, figsize=(8, 2.2))
for ax, image, label in zip(axes, X_train, y_train, strict=False):
    ax.imshow(image, cmap="gray_r")
    ax.set_title("upright" if label else "lying", fontsize="medium")
    ax.set_axis_off()

# %%
# A kernel without locations sees both bars alike. Weights can be learned, one for each
# position of a patch: they are near 0 on the right, as the map shows. The location
# kernel learns nothing before the fit, and does as well.

for name, kernel in {
    "equal weights": PatchKernel(patch_size=3, location_lengthscale=None),
    "location kernel": PatchKernel(patch_size=3),
    "learned weights": PatchKernel(
        patch_size=3, weights="learned", location_lengthscale=None
    ),
}.items():
    gp = PatchGPClassifier(kernel, n_inducing=16, random_state=0).fit(X_train, y_train)
    print(f"{name:16} accuracy {gp.score(X_test, y_test):.3f}")

PatchesDisplay.from_estimator(gp)
plt.show()

# %%
# Learned by the bound
# --------------------
#
# Rectangles are tall or wide, and their outlines are all there is to see. Five inducing
# patches that are centres of clusters say little about them. Here inducing patches,
# weights, the lengthscale and the scale follow the variational bound of the labels of
# 150 images, by steps on batches. Left: minus the bound for each image, as batches
# estimate it. In the first 30 steps the posterior moves alone. Right: the weights.

X_train, y_train = make_rectangles(150, side=14, random_state=0)
X_test, y_test = make_rectangles(2000, side=14, random_state=1)
invariant = PatchKernel(patch_size=3, location_lengthscale=None)
settings = {"n_inducing": 5, "random_state": 0}
plain = PatchGPClassifier(invariant, **settings).fit(X_train, y_train)
gp = PatchGPClassifier(
    invariant.replace(weights="learned"),
    inducing="learned",
    likelihood="bernoulli",
    optimizer=VariationalBound(max_iter=300, batch_size=100, learning_rate=0.01),
    **settings,
).fit(X_train, y_train)
for name, model in {"in closed form": plain, "by the bound": gp}.items():
    print(f"{name:14} accuracy {model.score(X_test, y_test):.3f}")

fig, (trace, weights) = plt.subplots(1, 2, figsize=(8, 3.2))
trace.semilogy(gp.optimizer_result_.rho_trace)
trace.set(xlabel="step", ylabel="minus the bound for each image")
side = 14 - 3 + 1
shown = weights.imshow(gp.kernel_.weights.reshape(side, side), cmap="RdBu_r")
weights.set(title="weights", xticks=[], yticks=[])
fig.colorbar(shown, ax=weights)
fig.tight_layout()
plt.show()

# %%
# If the kernel sees nothing
# --------------------------
#
# The predictions of such a model are the same for each image, and `fit` warns. Here are
# three ways to get there. Pixels between 0 and 1, divided by 255 once more, are stored
# as whole numbers: every image is empty. Pixels are far smaller than the lengthscale of
# the base kernel. And single pixels have no contrast, so that normalization leaves
# nothing of them. The pictures show one of 60 digits, and the correlations of all of
# them, sorted by label: three kernels take all digits for the same.

X_few, y_few = X[:60], y[:60]
fine = PatchKernel(patch_size=3)
sights = {
    "as they are": (X_few, fine),
    "whole numbers": (np.uint8(X_few / 255), fine),
    "small numbers": (1e-9 * X_few, PatchKernel(rbf(1.0), patch_size=3)),
    "contrast of pixels": (X_few, PatchKernel(patch_size=1, normalization="contrast")),
}
fig, axes = plt.subplots(2, 4, figsize=(9, 4.4), layout="constrained")
for (above, below), (name, (images, kernel)) in zip(
    axes.T, sights.items(), strict=True
):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gp = PatchGPClassifier(kernel, n_inducing=8, random_state=0).fit(images, y_few)
    for warning in told:
        print(textwrap.fill(f"{name}: {warning.message}"))
    gram = gram_matrix(gp.kernel_, images[np.argsort(y_few)], dtype="float64")
    deviations = np.sqrt(gram.diagonal())
    above.imshow(images[0, 0], cmap="gray_r", vmin=0.0, vmax=1.0)
    shown = below.imshow(gram / np.outer(deviations, deviations), vmin=0.0, vmax=1.0)
    above.set(title=name, xticks=[], yticks=[])
    below.set(xticks=[], yticks=[])
fig.colorbar(shown, ax=axes[1], label="correlation")
plt.show()
