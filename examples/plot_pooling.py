"""
===============================
What averages over positions do
===============================

A network that ends in `Flatten` compares each position of an image with the same
position of another one, so that a digit that has moved is another digit. An average
over positions compares positions that lie apart. This page shows what it compares, and
what that costs and buys. :doc:`/user_guide/pooling` says which average to take.
"""

# %%
# Digits that move
# ----------------
#
# The digits of scikit-learn, 8x8 pixels, lie somewhere in an image of 12x12 pixels.

import matplotlib.pyplot as plt
import numpy as np
import torch

from skconvgp import ConvNetGPClassifier, gram_matrix
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import (
    Conv2d,
    Dense,
    GlobalAvgPool2d,
    Maps,
    ReLU,
    Sequential,
    convnet,
    convnet_gap,
    myrtle,
)

SIDE, FRAME = 8, 12
digits, y = load_digits_images(return_X_y=True)
digits = digits.reshape(-1, SIDE, SIDE)
rng = np.random.default_rng(0)


def placed(digit, row, col):
    """Return an image with a digit at a place, (2, 2) being the middle."""
    image = np.zeros((FRAME, FRAME))
    image[row : row + SIDE, col : col + SIDE] = digit
    return image


places = rng.integers(0, FRAME - SIDE + 1, (len(digits), 2))
X = np.stack([placed(one, *at) for one, at in zip(digits, places, strict=True)])

fig, axes = plt.subplots(2, 10, figsize=(9, 2), layout="constrained")
for ax, image in zip(axes.flat, X, strict=False):
    ax.imshow(image, cmap="bone_r")
    ax.set_axis_off()

# %%
# Covariances by displacement
# ---------------------------
#
# Two images have a covariance for each pair of positions, p of the first and p + d of
# the second one. Layers take all pairs of the same displacement d on as one map, that
# of a smaller image. Below are the means of these maps behind two layers, for each d,
# as correlations: those of an image with itself are 1 at d = 0, the cross. A copy that
# was moved by two rows and one column has most in common with it at d = (2, 1). A
# network with `Flatten` sees the cross alone, where the copy looks no more like a zero
# than a one does.

body = [Conv2d(3, weight_variance=2.0), ReLU(), Conv2d(3, weight_variance=2.0), ReLU()]


def covariances(one, two):
    """Return mean covariances by displacement, and how many pairs have each."""
    pixels = [torch.tensor(image)[..., None] for image in (one, two)]
    tables = []
    for image in pixels:
        variances, steps = image**2, []
        for layer in body:
            variances, table = layer.image_pass(variances)
            steps.append(table)
        tables.append(steps)
    means, counts = np.zeros((2, 2 * FRAME - 1, 2 * FRAME - 1))
    for row, col in np.ndindex(means.shape):
        d = row - FRAME + 1, col - FRAME + 1
        first, second = (
            image[tuple(slice(max(0, s), FRAME - max(0, -s)) for s in steps)]
            for image, steps in zip(pixels, ([-d[0], -d[1]], d), strict=True)
        )
        start = (first * second)[..., None]
        maps = Maps(start, displacement=((d[0],), (d[1],)))
        for layer, a, b in zip(body, *tables, strict=True):
            maps = layer.pair_pass(maps, a, b)
        means[row, col], counts[row, col] = maps.nngp.mean(), maps.nngp.numel()
    return means, counts


zero, one = digits[y == 0][0], digits[y == 1][0]
middle = placed(zero, 2, 2)
pairs = {
    "itself": middle,
    "a moved copy": placed(zero, 4, 3),
    "another zero": placed(digits[y == 0][1], 2, 2),
    "a one": placed(one, 2, 2),
}
found = {name: covariances(middle, image) for name, image in pairs.items()}
center = FRAME - 1, FRAME - 1

fig, axes = plt.subplots(2, 4, figsize=(9, 4.6), layout="constrained")
reach = FRAME - 0.5
for (name, image), (above, below) in zip(pairs.items(), axes.T, strict=True):
    variances = [covariances(each, each)[0][center] for each in (middle, image)]
    correlations = found[name][0] / np.sqrt(np.prod(variances))
    above.imshow(image, cmap="bone_r")
    above.set_title(f"a zero and {name}", fontsize=10)
    above.set_axis_off()
    extent = -reach, reach, reach, -reach
    drawn = below.imshow(correlations, cmap="magma", vmin=0, vmax=1, extent=extent)
    below.plot(0, 0, "+", color="black", ms=9)
    print(f"a zero and {name:13} at d = 0: {correlations[center]:.2f}")
    below.set_xlabel("columns between positions")
axes[1, 0].set_ylabel("rows between positions")
fig.colorbar(drawn, ax=axes[1], label="correlation")

# %%
# A global average takes all of them: their sum, each times the number of its pairs, is
# its covariance. A window in front of `Flatten` takes those around the middle.

head = GlobalAvgPool2d(), Dense()
means, counts = found["a moved copy"]
by_hand = (means * counts).sum() / FRAME**4
both = np.stack([middle, pairs["a moved copy"]])
exact = gram_matrix(Sequential(*body, *head), both, dtype="float64")[0, 1]
print(f"by displacements {by_hand:.6f}, by GlobalAvgPool2d {exact:.6f}")

# %%
# What it costs, and what it buys
# -------------------------------
#
# The time of a pair of images grows with the pairs of positions whose covariances are
# computed, which a kernel knows before any of them is. The digits that move are learned
# from 150 images. Each average is far better than `Flatten`. These digits may be
# anywhere, so that the average over all positions, the dearest one, is also the best.
# Where images are nearly in place, small windows are the bargain:
# :doc:`/user_guide/pooling` has a table.

settings = {"depth": 2, "kernel_size": 3, "weight_variance": 2 / 9}
settings["bias_variance"] = 0.0
kernels = {
    "Flatten": convnet(**settings),
    "window 3": convnet(**settings, pooling="local", radius=1),
    "window 5": convnet(**settings, pooling="local", radius=2),
    "window 5, step 2": convnet(**settings, pooling="local", radius=2, step=2),
    "lattice 3": convnet_gap(2, lattice=3),
    "global": convnet_gap(2),
    "myrtle": myrtle(),
}
train, test = slice(0, 150), slice(150, 550)
print("network             pairs of positions   test")
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for name, kernel in kernels.items():
    gp = ConvNetGPClassifier(kernel).fit(X[train], y[train])
    cost, accuracy = gp.fit_report_.n_position_pairs, gp.score(X[test], y[test])
    print(f"{name:20}{cost:12}         {accuracy:6.1%}")
    ax.plot(cost, 100 * accuracy, "o")
    place = {"xytext": (6, -3), "textcoords": "offset points"}
    ax.annotate(name, (cost, 100 * accuracy), **place)
ax.set_xscale("log")
ax.margins(x=0.12)
ax.set_xlabel("pairs of positions of a pair of images")
ax.set_ylabel("test accuracy in %")
