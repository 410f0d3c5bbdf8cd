"""
Comparing kernels on digits
===========================

This page compares five kernels on the training data alone. Each has the settings that
maximise its evidence. The comparison uses the evidence, leave-one-out predictions, and
the calibration of the probabilities. :doc:`/user_guide/selection` has the details.
"""

# %%
# Settings by evidence
# --------------------
# ``optimizer="evidence"`` chooses the variances or the lengthscale of each kernel in
# ``fit``. It would also choose the noise, but digits have almost none, so we fix
# ``noise_variance``. In a network of rectifiers the predictions depend almost only on
# the ratio of the two variances, so the bias variance is fixed, too. The picture shows
# the steps of the optimiser for the network with three convolutional layers. Its values
# are the negative log evidence, divided by the number of targets.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from skconvgp import ConvNetGPClassifier, selection_report
from skconvgp.datasets import load_digits_images
from skconvgp.display import RhoTraceDisplay, SelectionDisplay
from skconvgp.kernels import convnet, dense, matern, rbf

X, y = load_digits_images(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, train_size=400, stratify=y, random_state=0
)
held = {"bias_variance_bounds": "fixed"}
kernels = {
    "RBF": rbf(2.0),
    "Matérn 3/2": matern(1.0, nu=1.5),
    "dense, 2 layers": dense(2, **held),
    "convolutions, 1 layer": convnet(depth=1, kernel_size=3, **held),
    "convolutions, 3 layers": convnet(depth=3, kernel_size=3, **held),
}
candidates = {
    name: ConvNetGPClassifier(kernel, optimizer="evidence", noise_variance=1e-4)
    for name, kernel in kernels.items()
}
report = selection_report(candidates, X, y)
display = RhoTraceDisplay.from_estimator(report.estimators[-1], window=1)
display.figure_.suptitle(report.names[-1])
plt.show()

# %%
# The report
# ----------
# Rho and the evidence rate the regression of the numbers that encode the classes. They
# prefer the RBF kernel. The leave-one-out predictions, however, are best with three
# convolutional layers.

print(report)
SelectionDisplay.from_report(report)
plt.show()

# %%
# On the test images
# ------------------
# The kernel with the best leave-one-out log loss also has the smallest log loss on test
# images. The evidence would have selected the RBF kernel, and its order of the other
# kernels says little. The differences between the other four kernels are too small to
# be resolved by 400 training images.

foretold = -np.array(list(report.to_dict()["log_density"].values()))
evidence = np.array(list(report.to_dict()["evidence"].values()))
losses = [log_loss(y_test, gp.predict_proba(X_test)) for gp in report.estimators]

figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
for ax, values, label in zip(
    axes, (foretold, evidence), ("leave-one-out log loss", "log evidence"), strict=True
):
    for name, value, loss in zip(report.names, values, losses, strict=True):
        ax.plot(value, loss, "o", label=name)
    ax.set_xlabel(label)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("log loss of test images")
axes[1].legend(fontsize="small")
plt.show()
for name, gp, loss in zip(report.names, report.estimators, losses, strict=True):
    print(f"{name:23} accuracy {gp.score(X_test, y_test):.3f}, log loss {loss:.3f}")
