"""
Classifying digits, with uncertainty
====================================

Start here to see a classifier at work. A Gaussian process with the covariance of an
infinitely wide convolutional network learns scikit-learn's handwritten digits from
twenty examples of each. This page shows its accuracy, the reliability of its
probabilities, and its latent functions between two images.
"""

# %%
# Few training images
# -------------------
# The digits are 8 x 8 images, here as an array of shape (n, 1, 8, 8). The kernel has
# two hidden layers of 3 x 3 convolutions. The fit needs one Cholesky factorisation:
# there is no training loop, no learning rate and no random start.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split

from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.display import ReliabilityDisplay, UncertainDigitsDisplay
from skconvgp.kernels import convnet
from skconvgp.metrics import accuracy_rejection_curve, expected_calibration_error

X, y = load_digits_images(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, train_size=200, test_size=800, stratify=y, random_state=0
)

gp = ConvNetGPClassifier(convnet(depth=2, kernel_size=3))
gp.fit(X, y)
y_prob = gp.predict_proba(X_test)
y_pred = gp.classes_[y_prob.argmax(axis=1)]

print(f"accuracy           {accuracy_score(y_test, y_pred):.3f}")
print(f"log loss           {log_loss(y_test, y_prob):.3f}")
print(f"calibration error  {expected_calibration_error(y_test, y_prob):.3f}")
print(f"leave-one-out      {(gp.loo_predict() == y).mean():.3f}")

# %%
# The last line is the leave-one-out accuracy: each *training* digit is predicted from
# the 199 others. It has a closed form, so that no model is fitted again, and it
# estimates the accuracy on new digits.
#
# The least and the most certain digits
# -------------------------------------
# The upper rows show the test images whose most probable class has the lowest
# probability. The lower rows show those where it has the highest. Mistakes are red,
# with the true label.

UncertainDigitsDisplay.from_predictions(X_test, y_prob, y_test, labels=gp.classes_)
plt.show()

# %%
# Are the probabilities reliable?
# -------------------------------
# If they are, then about 70 % of the digits with a probability of 70 % are classified
# correctly. Left: the accuracy against the predicted probability, in bins of equal
# width, and the number of digits in each bin. Right: the accuracy if the digits that
# the model is least certain of are set aside.

figure = plt.figure(figsize=(9, 5), layout="constrained")
left, right = figure.subfigures(1, 2)
ReliabilityDisplay.from_predictions(
    y_test, y_prob, labels=gp.classes_, n_bins=8, name="Reliability", figure=left
)

rejected, accuracy, _ = accuracy_rejection_curve(y_test, y_prob, labels=gp.classes_)
axes = right.subplots()
axes.step(rejected, accuracy, where="post", color="tab:blue")
axes.set(xlabel="share of digits set aside", ylabel="accuracy on the others")
axes.set(xlim=(0, 1), ylim=(None, 1.004), title="Answering only when sure")
axes.spines[["top", "right"]].set_visible(False)
axes.grid(alpha=0.25)
plt.show()

# %%
# Between two digits
# ------------------
# The probabilities are computed from ten latent functions, one for each class, which
# have standard deviations. We blend a training image of a 3 into a training image of a
# 6 and draw the latent functions of the blends, with a band of two standard deviations
# for these two classes. The standard deviation is small at both ends, which are
# training images, and largest between them, where no training image is similar.

start, end = X[y == 3][0], X[y == 6][0]
blend = np.linspace(0.0, 1.0, 41, dtype=np.float32)
path = start + blend[:, None, None, None] * (end - start)
mean, std = gp.predict_latent(path, return_std=True)

figure = plt.figure(figsize=(9, 5), layout="constrained")
grid = figure.add_gridspec(2, 9, height_ratios=(4, 1))
axes = figure.add_subplot(grid[0, :])
axes.plot(blend, mean, color="0.75", linewidth=1)
for label, color in ((3, "tab:blue"), (6, "tab:orange")):
    m, s = mean[:, label], std[:, label]
    axes.fill_between(blend, m - 2 * s, m + 2 * s, color=color, alpha=0.2, linewidth=0)
    axes.plot(
        blend, m, color=color, linewidth=2, label=f"latent function of class {label}"
    )
axes.set(xlim=(0, 1), xlabel="share of the second image", ylabel="latent value")
axes.legend(frameon=False, loc="center left")
axes.spines[["top", "right"]].set_visible(False)
for column, i in enumerate(np.linspace(0, 40, 9).astype(int)):
    small = figure.add_subplot(grid[1, column])
    small.imshow(path[i, 0], cmap="gray_r")
    small.set_axis_off()
plt.show()

# %%
# All ten classes have the same kernel, noise and amplitude, hence the same standard
# deviation. It measures how far an image is from the training images, and not which
# class is in doubt. :doc:`/user_guide/probabilities` explains how it enters the
# probabilities.
