"""
=======================
Scattering coefficients
=======================

Scattering coefficients say how strong the waves of each length and direction are around
a pixel. :class:`~skconvgp.transforms.ScatteringTransform` computes them. This page
shows them for a digit, what a shift of the digit does to them, and what they are worth
to a kernel that compares positions.
"""

# %%
# The coefficients of a digit
# ---------------------------
#
# The data are 8x8 images of digits. With one scale the maps of coefficients have 4x4
# pixels: first a blurred image, then a map for each of eight directions.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline

from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import convnet
from skconvgp.transforms import ChannelScaler, ScatteringTransform

X, y = load_digits_images(return_X_y=True)
scattering = ScatteringTransform(J=1).fit(X[:1])
digit = X[1]
maps = scattering.transform(digit[None])[0]

fig, axes = plt.subplots(2, 5, figsize=(8, 3.6), layout="constrained")
axes[0, 0].imshow(digit[0], cmap="gray_r")
axes[0, 0].set_title("image")
axes[1, 0].imshow(maps[0], cmap="gray_r")
axes[1, 0].set_title("order 0")
largest = maps[1:].max()
for k, (ax, one) in enumerate(zip(axes[:, 1:].flat, maps[1:], strict=True)):
    ax.imshow(one, cmap="viridis", vmin=0, vmax=largest)
    ax.set_title(f"direction {k + 1}")
for ax in axes.flat:
    ax.set_axis_off()

# %%
# This digit is a one. Its strokes are steep; the wavelets whose waves run across them
# answer most.

# %%
# A shift by one pixel
# --------------------
#
# The digits are moved by a pixel to the right. The change of an image is nearly as
# large as the image; the coefficients change less, those of two scales least.

moved = np.roll(X, 1, axis=3)
moved[..., 0] = 0.0


def change(before, after):
    """Return the median over images of the relative change."""
    before, after = before.reshape(len(before), -1), after.reshape(len(after), -1)
    ratios = np.linalg.norm(after - before, axis=1) / np.linalg.norm(before, axis=1)
    return np.median(ratios)


print(f"pixels             {change(X, moved):.2f}")
for J in (1, 2):
    transform = ScatteringTransform(J=J).fit_transform
    print(f"coefficients, J={J}  {change(transform(X), transform(moved)):.2f}")

# %%
# Trained on few images
# ---------------------
#
# The same network kernel sees pixels and coefficients. Channels are divided by their
# root mean square, so that those of large numbers do not decide alone. The test images
# are of other writers, and moved by a pixel in the second column.

kernel = convnet(depth=2, kernel_size=3)
models = {
    "pixels": ConvNetGPClassifier(kernel),
    "scattering": make_pipeline(
        ScatteringTransform(J=1), ChannelScaler(), ConvNetGPClassifier(kernel)
    ),
}
print("                as they are   moved")
for name, model in models.items():
    model.fit(X[:300], y[:300])
    scores = [model.score(images[1000:], y[1000:]) for images in (X, moved)]
    print(f"{name:16}{scores[0]:.3f}         {scores[1]:.3f}")
