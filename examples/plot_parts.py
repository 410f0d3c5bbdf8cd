"""
===========================
What the parts of a sum see
===========================

:class:`~skconvgp.ImageClassifier` adds up Gaussian processes that look at images
differently: one at small patches, others, networks, at maps of scattering
coefficients. This page shows what two of them see, how their weights are chosen, and
which images one of them gets right and the other does not.
"""

# %%
# Fit
# ---
#
# The data are 8x8 images of digits. The parts are two of those among which the
# estimator would choose here, written out: a kernel of 5x5 patches, and a network
# behind two transformers.

import matplotlib.pyplot as plt
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from skconvgp import ImageClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import PatchKernel, convnet
from skconvgp.transforms import ChannelWhitening, ScatteringTransform

X, y = load_digits_images(return_X_y=True)
X_train, y_train, X_test, y_test = X[:200], y[:200], X[1000:], y[1000:]
patches = PatchKernel(patch_size=5, location_lengthscale=1.0)
view = make_pipeline(ScatteringTransform(J=1), ChannelWhitening())
parts = [patches, (view, convnet(depth=2, kernel_size=3))]
gp = ImageClassifier(parts, flips=False, random_state=0).fit(X_train, y_train)
print(gp.fit_report_)
print(f"test accuracy {gp.score(X_test, y_test):.3f}")

# %%
# Patches and maps
# ----------------
#
# Left: digits. Middle: their patches, each where it stands. The first part adds up what
# the patches say, and compares those that stand at about the same place. Right: the
# scattering maps behind the second part, with whitened channels. The first is a blurred
# image, and the others are strokes of eight directions. The network compares how these
# are arranged.

(_, (fitted, _)) = gp.parts_
examples = X_train[[12, 13, 15]]
maps_of = fitted.transform(examples)
largest = np.abs(maps_of).max()
fig = plt.figure(figsize=(9, 8), layout="constrained")
rows = fig.subfigures(3, 1, hspace=0.04)
for row, image, maps in zip(rows, examples, maps_of, strict=True):
    left, middle, right = row.subfigures(1, 3, wspace=0.06)
    windows = sliding_window_view(image[0], (5, 5)).reshape(-1, 5, 5)
    left.subplots().imshow(image[0], cmap="gray_r")
    for ax, window in zip(middle.subplots(4, 4).flat, windows, strict=True):
        ax.imshow(window, cmap="gray_r", vmin=0, vmax=image.max())
    for ax, one in zip(right.subplots(3, 3).flat, maps, strict=True):
        ax.imshow(one, cmap="RdBu_r", vmin=-largest, vmax=largest)
    for ax in left.axes + middle.axes + right.axes:
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[:].set_color("lightgrey")
    if row is rows[0]:
        left.suptitle("image")
        middle.suptitle("patches")
        right.suptitle("scattering maps")

# %%
# Weights
# -------
#
# Each part is brought to one unit first, so that weights can be compared. Without
# further settings they are chosen by how probable the labels and targets of left-out
# training images are, in closed form. The dotted line marks the choice. As long as the
# network has some weight, the log loss of left-out images hardly depends on the
# weights; nor does that of the test images, which are of other writers.

shares = np.linspace(0.0, 1.0, 11)
models = [
    ImageClassifier(parts, part_weights=[share, 1 - share], flips=False, random_state=0)
    for share in shares
]
left_out, test = [], []
for model in models:
    model.fit(X_train, y_train)
    left_out.append(log_loss(y_train, model.loo_predict_proba()))
    test.append(log_loss(y_test, model.predict_proba(X_test)))

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for ax, losses, title in zip(axes, (left_out, test), ("left-out", "test"), strict=True):
    ax.plot(shares, losses, "o-", color="tab:blue" if ax is axes[0] else "tab:orange")
    ax.axvline(gp.fit_report_.part_weights[0], color="grey", ls=":")
    ax.set_xlabel("weight of the patches")
    ax.set_ylabel("log loss")
    ax.set_title(f"{title} images")

# %%
# What is chosen from the dictionary
# ----------------------------------
#
# Without `parts`, the estimator chooses among patches and scattering at several scales,
# with their place or anywhere, and networks. Digits have their strokes at known places.
# In textures, here noise that is smoothed along one of four directions, place says
# nothing: parts that look anywhere are chosen, and mirror images are told apart.

rng = np.random.default_rng(0)
directions = np.arange(4)
labels = rng.permutation(np.repeat(directions, 50))
waves = np.fft.fftfreq(16)
along = [
    waves[:, None] * np.cos(angle) + waves * np.sin(angle)
    for angle in np.pi * directions / 4
]
blur = np.exp(-0.5 * (np.array(along)[labels] / 0.08) ** 2)
noise = np.fft.fft2(rng.normal(size=(len(labels), 16, 16)))
textures = np.fft.ifft2(noise * blur).real[:, None]

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharex=True)
sets = {"digits": (X_train, y_train), "textures": (textures, labels)}
for ax, (name, data) in zip(axes, sets.items(), strict=True):
    report = ImageClassifier(random_state=0).fit(*data).fit_report_
    ax.barh(report.part_names[::-1], report.part_weights[::-1], color="tab:blue")
    ax.set_title(name)
    ax.set_xlabel("weight")
    ax.tick_params(axis="y", labelsize=7)

# %%
# One part alone
# --------------
#
# The same model with one of the weights 0 says what a part can do alone. The parts make
# different mistakes, and their sum is right for more test images than either. The last
# picture has the answers of both parts above some of the images.

network, both, patches_alone = models[0], gp, models[-1]
print("                left out   test")
named = {"network alone": network, "patches alone": patches_alone, "sum": both}
for name, model in named.items():
    of_left_out = np.mean(model.loo_predict() == y_train)
    print(f"{name:14} {of_left_out:8.1%} {model.score(X_test, y_test):8.1%}")

of_patches, of_network = (m.predict(X_test) for m in (patches_alone, network))
chosen = {
    "only patches are right": (of_patches == y_test) & (of_network != y_test),
    "only the network is right": (of_patches != y_test) & (of_network == y_test),
    "neither is right": (of_patches != y_test) & (of_network != y_test),
}
fig, axes = plt.subplots(3, 8, figsize=(9, 4.6), layout="constrained")
for row, (title, is_chosen) in zip(axes, chosen.items(), strict=True):
    indices = np.flatnonzero(is_chosen)
    row[0].set_ylabel(title.replace(" are ", "\nare ").replace(" is ", "\nis "))
    for ax, i in zip(row, indices[:: max(1, len(indices) // 8)], strict=False):
        ax.imshow(X_test[i, 0], cmap="gray_r")
        ax.set_title(
            f"a {y_test[i]}\npatches {of_patches[i]}, network {of_network[i]}", size=7
        )
    for ax in row:
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[:].set_color("lightgrey")
    print(f"{title}: {len(indices)} of {len(y_test)} test images")
