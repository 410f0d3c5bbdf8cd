"""
Comparing likelihoods
=====================

A classifier has four likelihoods, which differ most if there are few data. This page
compares their probabilities for two classes in the plane, their calibration on digits,
and the kernels that they select. :doc:`/user_guide/probabilities` explains them and
recommends one.
"""

# %%
# Two classes in the plane
# ------------------------
# The data are two arcs that overlap. All classifiers have the same kernel.
#
# The first panel shows label regression, ``"gaussian"``, if its probabilities ignore
# the latent variance. They are then as confident away from the data as close to them,
# and return to one half only very far away, where the latent mean is zero. In all other
# panels probabilities depend on the latent variance, and are less confident far from
# the data. Label regression fits the size of this effect to leave-one-out predictions.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.display import ReliabilityDisplay
from skconvgp.kernels import convnet, rbf
from skconvgp.likelihoods import Dirichlet, Gaussian
from skconvgp.metrics import expected_calibration_error

X, y = make_moons(80, noise=0.25, random_state=0)
side = np.linspace(-3.0, 4.0, 60)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])

likelihoods = {
    "no spread": Gaussian(spread=False),
    "gaussian": "gaussian",
    "dirichlet": "dirichlet",
    "beta": "beta",
    "laplace": "laplace",
}
figure, all_axes = plt.subplots(1, 5, figsize=(13, 3.0), layout="constrained")
for axes, (name, likelihood) in zip(all_axes, likelihoods.items(), strict=True):
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=1e-2, likelihood=likelihood)
    second = gp.fit(X, y).predict_proba(grid)[:, 1].reshape(60, 60)
    levels = np.linspace(0.0, 1.0, 11)
    image = axes.contourf(side, side, second, levels, cmap="RdBu_r")
    axes.contour(side, side, second, [0.5], colors="black", linewidths=1)
    for label, color in enumerate(("tab:blue", "tab:red")):
        axes.scatter(*X[y == label].T, color=color, edgecolor="white", s=14, lw=0.4)
    axes.set(title=name, aspect="equal", xticks=[], yticks=[])
figure.colorbar(image, ax=all_axes, label="probability of red", shrink=0.8)
plt.show()

# %%
# On digits
# ---------
# There are 200 training digits and 800 test digits. The columns are the accuracy, the
# calibration error and the log loss on the test digits, and the leave-one-out log loss
# on the training digits. The last one predicts the log loss on test digits, so it can
# be used to choose the likelihood. Label regression and Dirichlet labels fit their
# calibration to it. The probabilities of Laplace's approximation, an averaged softmax,
# are far too low for the predicted class.

X, y = load_digits_images(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, train_size=200, test_size=800, stratify=y, random_state=0
)
print("                           right  error  log loss  leave-one-out")
probabilities = {}
for likelihood in ("gaussian", "dirichlet", Dirichlet("loo"), "laplace"):
    gp = ConvNetGPClassifier(convnet(depth=2, kernel_size=3), likelihood=likelihood)
    y_prob = gp.fit(X, y).predict_proba(X_test)
    name = repr(gp.likelihood_)
    probabilities[name] = y_prob
    print(
        f"{name:27}{gp.score(X_test, y_test):.3f}"
        f"  {expected_calibration_error(y_test, y_prob):.3f}"
        f"  {log_loss(y_test, y_prob):8.3f}"
        f"  {log_loss(y, gp.loo_predict_proba()):13.3f}"
    )

# %%
# The reliability of the first two likelihoods. A classifier whose accuracy equals its
# predicted probability is on the diagonal.

figure = plt.figure(figsize=(9, 5), layout="constrained")
parts = figure.subfigures(1, 2)
for part, name in zip(parts, list(probabilities)[:2], strict=True):
    ReliabilityDisplay.from_predictions(
        y_test, probabilities[name], n_bins=8, name=name, figure=part
    )
plt.show()

# %%
# Below the diagonal a classifier is overconfident, above it underconfident.
#
# Which kernel?
# -------------
# ``optimizer="evidence"`` maximises the evidence of the likelihood. For label
# regression that is the evidence of numbers with Gaussian noise, which is learned too
# if ``noise_variance="evidence"``. For Laplace's approximation it is the evidence of
# the class labels.
#
# If two classes are nearly separable, the two select different kernels. The example has
# two classes of tumours with thirty measurements of each tumour. Label regression needs
# a short lengthscale, because its targets are constant in each class, right up to the
# border. For labels only the sign of the latent function matters, and a nearly linear
# function is enough.

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, train_size=200, stratify=y, random_state=0
)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)

lengthscales = np.geomspace(1.0, 64.0, 19)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
print("           lengthscale  accuracy  log loss")
for likelihood, noise in (("gaussian", "evidence"), ("laplace", 0.0)):
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=noise, likelihood=likelihood)
    fits = [
        clone(gp).set_params(kernel=rbf(length)).fit(X, y) for length in lengthscales
    ]
    evidence = np.array([gp.log_marginal_likelihood() for gp in fits])
    losses = [log_loss(y_test, gp.predict_proba(X_test)) for gp in fits]
    left.plot(lengthscales, (evidence - evidence.max()) / len(y), label=likelihood)
    (line,) = right.plot(lengthscales, losses, label=likelihood)

    gp.set_params(optimizer="evidence").fit(X, y)
    found, loss = gp.kernel_.lengthscale, log_loss(y_test, gp.predict_proba(X_test))
    for axes, height in ((left, 0.0), (right, loss)):
        axes.plot(found, height, "o", color=line.get_color())
    accuracy = gp.score(X_test, y_test)
    print(f"{likelihood:10}  {found:10.1f}  {accuracy:8.3f}  {loss:8.3f}")
left.set(ylabel="evidence for each sample, less the best", ylim=(-0.6, 0.05))
right.set(ylabel="log loss of other tumours", ylim=(0.0, None))
for axes in (left, right):
    axes.set(xlabel="lengthscale", xscale="log")
    axes.legend()
plt.show()

# %%
# The dots show the lengthscales that the optimiser selects from the training samples.
# For each likelihood the selected one is close to its lowest log loss on the test
# samples. But the kernel of one likelihood is not a good kernel for the other: at the
# lengthscale of label regression, the log loss of Laplace's approximation is far above
# its minimum. :doc:`/user_guide/selection` says more.
