"""
Under attack, and away from the data
====================================

Two questions to a classifier: what does it take to mislead it on purpose, and does it
notice images that are not of its kind? Both have answers in closed form here: latent
means have exact derivatives by the pixels, and latent functions have deviations.
"""

# %%
# Moved on purpose
# ----------------
# Each pixel of a digit is moved by at most epsilon, to where the cross-entropy of its
# label rises: in one step by the sign of the derivatives (FGSM), or in twenty small
# ones (PGD). ``latent_gradient`` gives the derivatives, tile by tile, for any kernel.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import entropy
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import convnet, rbf
from skconvgp.metrics import robustness_curve

X, y = load_digits_images(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, train_size=600, test_size=200, stratify=y, random_state=0
)
epsilons = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
processes = {
    "convolutions": ConvNetGPClassifier(convnet(depth=2, kernel_size=3)).fit(X, y),
    "RBF": ConvNetGPClassifier(rbf(2.0)).fit(X, y),
}

figure, all_axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
for (name, gp), color in zip(
    processes.items(), ("tab:blue", "tab:orange"), strict=True
):
    for attack, line in (("fgsm", "-"), ("pgd", "--")):
        curve = robustness_curve(
            gp, X_test, y_test, epsilons, attack=attack, n_steps=20
        )
        print(f"{name:13}{attack:5}", *(f"{value:.2f}" for value in curve.accuracy))
        for axes, key in zip(
            all_axes, ("accuracy", "entropy", "variance"), strict=True
        ):
            axes.plot(
                epsilons, curve[key], line, color=color, label=f"{name}, {attack}"
            )
            axes.set(xlabel="epsilon", title=key)
            axes.spines[["top", "right"]].set_visible(False)
all_axes[0].legend(frameon=False)
all_axes[2].set_yscale("log")
plt.show()

# %%
# Moves of a tenth of the range of a pixel cost nearly twenty points of accuracy, and
# moves of two tenths nearly all of it; many small steps find more than one large one. A
# process is no safer than a trained network, which ``benchmarks/robustness.py`` puts
# beside it. The RBF resists a little longer. The entropy first rises, as the images
# come near to the border of two classes. After one large step it stays up, as the
# variance has grown too, and probabilities count that; after many small ones it falls
# again: the attacker has found images of another class, and the classifier is sure, and
# wrong.
#
# Here are some of the images, moved by 0.15, with the label that the process gives.

gp = processes["convolutions"]
few, labels = X_test[:8], y_test[:8]
probabilities = gp.predict_proba(few)
weights = probabilities.copy()
weights[np.arange(8), labels] -= 1.0
slope = gp.latent_gradient(few, weights=weights)
moved = np.clip(few + 0.15 * np.sign(slope), 0.0, 1.0)
figure, rows = plt.subplots(2, 8, figsize=(9, 2.8), layout="constrained")
for axes, images in zip(rows, (few, moved), strict=True):
    for ax, image, label in zip(axes, images, gp.predict(images), strict=True):
        ax.imshow(image[0], cmap="gray_r", vmin=0.0, vmax=1.0)
        ax.set_title(str(label), fontsize=10)
        ax.set_axis_off()
plt.show()

# %%
# Away from the data
# ------------------
# Images of another kind: digits mirrored, inverted, shifted by two pixels, and noise. A
# score that tells them from digits should be larger for them; the area under the curve
# is the share of pairs that are in the right order. One half is guessing.

rng = np.random.default_rng(0)
others = {
    "mirrored": X_test.transpose(0, 1, 3, 2),
    "inverted": 1.0 - X_test,
    "shifted": np.roll(X_test, 2, axis=3),
    "noise": rng.uniform(size=X_test.shape).astype(X_test.dtype),
}


def scores(images):
    """Return entropies, and deviations of the latent functions."""
    std = gp.predict_latent(images, return_std=True)[1][:, 0]
    return entropy(gp.predict_proba(images), axis=1), std


own = scores(X_test)
figure, all_axes = plt.subplots(1, 4, figsize=(11, 2.8), layout="constrained")
print("area under the curve by  entropy  deviation")
for axes, (name, images) in zip(all_axes, others.items(), strict=True):
    found = scores(images)
    truth = np.repeat([0, 1], [len(X_test), len(images)])
    areas = [
        roc_auc_score(truth, np.concatenate(both))
        for both in zip(own, found, strict=True)
    ]
    print(f"{name:23}", *(f"{area:8.3f}" for area in areas))
    bins = np.linspace(0.0, max(own[1].max(), found[1].max()), 30)
    axes.hist(own[1], bins, color="tab:blue", alpha=0.6, label="digits")
    axes.hist(found[1], bins, color="tab:red", alpha=0.6, label=name)
    axes.set(xlabel="latent deviation", yticks=[])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(frameon=False)
plt.show()

# %%
# The deviation tells all four from digits without a mistake. Entropy puts between two
# and eleven pairs of a hundred in the wrong order: it asks whether the classes are in
# doubt, and the deviation asks whether the image is.
