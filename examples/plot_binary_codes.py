"""
Search among binary codes
=========================

:class:`~skconvgp.BinaryEncoder` learns codes of a few bits. Here 1200 digits are kept
as codes of 4 bytes each, and the codes nearest to those of new digits are found by
counting different bits. :doc:`/user_guide/codes` explains the encoder.
"""

# %%
# Learned codes, and random ones
# ------------------------------
# A usual code without training has the signs of random projections. We compare it with
# codes that are learned from the labels of the 1200 digits. Bits are packed into bytes;
# different bits of two codes are the ones of their exclusive or.

import matplotlib.pyplot as plt
import numpy as np

from skconvgp import BinaryEncoder
from skconvgp.datasets import load_digits_images

images, labels = load_digits_images(return_X_y=True)
order = np.random.RandomState(0).permutation(len(images))
images, labels = images[order], labels[order]
X = images.reshape(len(images), -1)
kept, new = slice(0, 1200), slice(1200, None)


def learned(n_bits):
    """Return codes of all digits, learned from those that are kept."""
    encoder = BinaryEncoder(n_bits, n_features=500, max_iter=30, random_state=0)
    return encoder.fit(X[kept], labels[kept]).transform(X)


def projected(n_bits):
    """Return the signs of random projections."""
    directions = np.random.RandomState(0).normal(size=(X.shape[1], n_bits))
    return (X - X[kept].mean(axis=0)) @ directions > 0


def nearest(codes, count):
    """Return the indices (n, count) of kept codes, the nearest to each new one."""
    packed = np.packbits(codes, axis=1)
    different = packed[new][:, None] ^ packed[kept][None]
    distances = np.unpackbits(different, axis=2).sum(axis=2, dtype=int)
    return np.argsort(distances, axis=1, kind="stable")[:, :count]


codes = {"learned": learned(32), "random projections": projected(32)}

# %%
# Four new digits, on the left, and the eight nearest codes of 32 bits. Frames are red
# if the digit is another one. We show the four digits for which random projections find
# most wrong ones.

found = {name: nearest(each, 8) for name, each in codes.items()}
wrong = (labels[kept][found["random projections"]] != labels[new][:, None]).sum(axis=1)
queries = np.argsort(-wrong, kind="stable")[:4]

figure = plt.figure(figsize=(10, 3.9), layout="constrained")
for part, (name, indices) in zip(
    figure.subfigures(1, 2, wspace=0.08), found.items(), strict=True
):
    part.suptitle(name)
    for axes, query in zip(part.subplots(4, 9), queries, strict=True):
        shown = [images[new][query, 0], *images[kept][indices[query], 0]]
        digits = [labels[new][query], *labels[kept][indices[query]]]
        for axis, image, digit in zip(axes, shown, digits, strict=True):
            axis.imshow(image, cmap="gray_r")
            axis.set(xticks=[], yticks=[])
            is_right = digit == digits[0]
            axis.spines[:].set(color="0.8" if is_right else "tab:red", linewidth=2)
        axes[0].spines[:].set(color="black", linewidth=2)
plt.show()

# %%
# How many bits
# -------------
# The share of right digits among the ten nearest codes, over all new digits. A few
# learned bits find as many of them as many random ones.

sizes = [8, 16, 32, 64]
_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, make, marker in (
    ("learned", learned, "o-"),
    ("random projections", projected, "s-"),
):
    shares = []
    for size in sizes:
        each = codes[name] if size == 32 else make(size)
        ten = labels[kept][nearest(each, 10)]
        shares.append(np.mean(ten == labels[new][:, None]))
    ax.plot(sizes, shares, marker, label=name)
ax.set_xscale("log", base=2)
ax.set(xticks=sizes, xlabel="bits", ylabel="right digits among ten", ylim=(0, 1.02))
ax.set_xticklabels(sizes)
ax.legend(loc="lower right")
plt.show()
