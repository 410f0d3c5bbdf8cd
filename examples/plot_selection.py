"""
Which kernel for the digits?
============================

Five kernels, each with the settings that maximise its evidence, compared on the
training data alone: what they explain, what they predict when a sample is left out, and
how honest their probabilities are. :doc:`/user_guide/selection` has the details.
"""

# %%
# Settings by evidence
# --------------------
# ``optimizer="evidence"`` chooses the variances or the lengthscale of each kernel in
# ``fit``. Unless it is a number, the noise is chosen with them; but digits have next to
# none, so it is held. Of a network of rectifiers what matters is the ratio of the two
# variances, nearly, so that of the biases is held too. The picture is the way of the
# network with three layers of convolutions; values are negative evidence for each
# target.

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
# Rho and evidence are about the numbers that stand for classes, and prefer the RBF. But
# predictions of left-out images are best with three layers of convolutions.

print(report)
SelectionDisplay.from_report(report)
plt.show()

# %%
# And the test images?
# --------------------
# The kernel that leaving one out prefers has the least log loss on images that none of
# them has seen. The evidence would have taken the RBF, and says little of the rest. Of
# the smaller differences, those of the other four, 400 images cannot tell.

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
