"""
======================
Error against seconds
======================

Which estimator is worth its time depends on how many images there are. This page fits
several classifiers to more and more digits of 8x8 pixels, and draws the error on other
digits against the seconds that fitting and predicting take.
:doc:`/user_guide/patches` has the same comparison for MNIST and photographs.
"""

# %%
# Fit
# ---
#
# All have their default settings. The support vector machine and the nearest
# neighbours are those of scikit-learn, and see an image as a row of 64 numbers. A
# fit that is not timed comes first, as the first one also loads code.

import time

import matplotlib.pyplot as plt
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from skconvgp import ConvNetGPClassifier, NystromCompletedGP, PatchGPClassifier
from skconvgp.datasets import load_digits_images

X, y = load_digits_images(return_X_y=True)
X_test, y_test = X[1297:], y[1297:]
sizes = [100, 200, 400, 800, 1297]
models = {
    "PatchGPClassifier": PatchGPClassifier(random_state=0),
    "ConvNetGPClassifier": ConvNetGPClassifier(),
    "NystromCompletedGP": NystromCompletedGP(n_landmarks=300, random_state=0),
    "SVC": SVC(),
    "KNeighborsClassifier": KNeighborsClassifier(),
}
seconds, errors = {}, {}
for name, model in models.items():
    reads_rows = name in ("SVC", "KNeighborsClassifier")
    images = X.reshape(len(X), -1) if reads_rows else X
    seconds[name], errors[name] = [], []
    model.fit(images[:100], y[:100]).score(images[1297:], y_test)
    for n in sizes:
        start = time.perf_counter()
        accuracy = model.fit(images[:n], y[:n]).score(images[1297:], y_test)
        seconds[name].append(time.perf_counter() - start)
        errors[name].append(100 * (1 - accuracy))

# %%
# Draw
# ----
#
# Each point is one number of training images, from 100 on the upper left to 1297 on the
# lower right.

fig, ax = plt.subplots(figsize=(7, 4.5))
for name in models:
    ax.plot(seconds[name], errors[name], "o-", label=name)
ax.set_xscale("log")
ax.set_yscale("log")
ax.set_yticks([2, 3, 5, 10, 20], labels=["2", "3", "5", "10", "20"])
ax.set_yticks([], minor=True)
ax.set_xlabel("seconds, fit and prediction of 500 images")
ax.set_ylabel("error in percent")
ax.legend()
fig.tight_layout()
plt.show()
for name in models:
    print(f"{name:<22} 400: {errors[name][2]:.1f} %, 1297: {errors[name][-1]:.1f} %")
