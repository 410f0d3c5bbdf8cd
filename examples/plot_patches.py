"""
==========================
Patches, places and digits
==========================

A Gaussian process on patches adds up what a random function responds to each small
window of an image. :class:`~skconvgp.PatchGPClassifier` learns from inducing patches at
a few places. This page shows them, and what the location lengthscale does.
"""

# %%
# Fit
# ---
#
# The data are 8x8 images of digits. A patch has 3x3 pixels here.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from skconvgp import PatchGPClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.display import PatchesDisplay
from skconvgp.kernels import PatchKernel

X, y = load_digits_images(return_X_y=True)
X_train, y_train, X_test, y_test = X[:600], y[:600], X[1000:], y[1000:]
kernel = PatchKernel(patch_size=3, location_lengthscale="auto")
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
# need no test data, show which one is good: in between.

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
