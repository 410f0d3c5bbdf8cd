"""
Which likelihood?
=================

A classifier has four ways to take labels, and they differ most where data are few. On
two classes in the plane we look at what each says between the classes, and far from
both; then, on digits, at which of them can be believed; and last at the kernels that
they choose.
"""

# %%
# Two classes in the plane
# ------------------------
# Two arcs, with a region where they mix. All classifiers have the same kernel. On the
# left label regression as it would be without the variance, which suits images like
# those of the training data: away from them it is as sure of what its mean happens to
# do there. Only very far off, where the mean is nothing, does it return to one half.
# All others read the variance of the latent function, and are less sure where the data
# are far. Label regression fits how much that counts on left-out samples.

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
# Two hundred digits to learn from, eight hundred to be judged on. The last column is
# the log loss by leave-one-out, from the training digits alone: it foretells the one
# before it, and says which likelihood to take. The calibrations of label regression and
# Dirichlet labels are fitted to just that; an averaged softmax with Laplace's
# approximation is far too timid.

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
# The first two, beside the diagonal of a classifier that is right as often as it says.

figure = plt.figure(figsize=(9, 5), layout="constrained")
parts = figure.subfigures(1, 2)
for part, name in zip(parts, list(probabilities)[:2], strict=True):
    ReliabilityDisplay.from_predictions(
        y_test, probabilities[name], n_bins=8, name=name, figure=part
    )
plt.show()

# %%
# Below the diagonal a classifier promises too much, above it too little.
#
# Which kernel?
# -------------
# The evidence of label regression is that of labels taken for numbers with Gaussian
# noise, which it learns too where ``noise_variance="evidence"``. Laplace's is that of
# labels, whose noise is their own. With ``optimizer="evidence"`` each climbs its own,
# and where two classes are all but separable, here tumours by thirty measurements,
# they ask for different kernels. Numbers that stay the same right up to the border
# need a short lengthscale. Labels only need the right sign: a function that is nearly
# linear will do.

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
# The dots are what the optimizer found, without a look at the right picture: close to
# the lowest log loss of each. Take the kernel of one for the other, and it is not: at
# the lengthscale of label regression Laplace's log loss is far above its own best.
#
# The user guide says more in :doc:`/user_guide/probabilities` and
# :doc:`/user_guide/selection`.
