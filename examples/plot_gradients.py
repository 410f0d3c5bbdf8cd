"""
Learning two variances by gradients
===================================

The covariance of an infinite network has few hyperparameters. Here we learn two of
them, the variances of the weights and the biases of the first layer, by maximising the
evidence (the marginal likelihood) with its exact gradient. Estimators do this with
``optimizer="evidence"``. This page is for those who need the derivatives of a kernel
for an objective that the package does not have.
"""

# %%
# Evidence and its gradient
# -------------------------
# With targets :math:`Y` of C columns and :math:`M = K + \lambda \bar d I`, where
# :math:`\bar d` is the mean of K's diagonal and :math:`\lambda` the relative noise
# variance, the best amplitude is known in closed form. It remains to maximise
#
# .. math:: \log p = -\tfrac{nC}{2} \log \langle Y, M^{-1} Y \rangle
#     - \tfrac{C}{2} \log |M| + \text{const}.
#
# It depends on the hyperparameters only through K. So its gradient is a weighted sum of
# the derivatives of the entries of K. The Cholesky factor gives the matrix G of the
# weights. :func:`~skconvgp.gram_vjp` computes such a sum without storing the
# derivatives.

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from skconvgp import ConvNetGPClassifier, gram_matrix, gram_vjp
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import Conv2d, Dense, Erf, Flatten, Sequential

X, y = load_digits_images(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, train_size=300, test_size=800, stratify=y, random_state=0
)
Y = np.eye(10)[y] - 0.1
noise = 1e-3


def loss_and_gradient(theta, kernel):
    """Return the negative log evidence divided by nC, with its gradient."""
    kernel = kernel.with_theta(theta)
    K = gram_matrix(kernel, X, dtype="float64")
    n, diagonal = len(K), np.diag_indices_from(K)
    K[diagonal] += noise * np.trace(K) / n
    factor = cho_factor(K, lower=True)
    dual = cho_solve(factor, Y)
    fit = (Y * dual).sum()
    loss = 0.5 * np.log(fit) + np.log(np.diag(factor[0])).sum() / n
    G = 0.5 * (cho_solve(factor, np.eye(n)) / n - dual @ dual.T / fit)
    G[diagonal] += noise * np.trace(G) / n  # the noise is a share of K's diagonal
    gradient, _ = gram_vjp(kernel, X, None, G, inputs=False)
    return loss, gradient


# %%
# Optimisation
# ------------
# ``theta`` holds the logarithms of the variances, and ``bounds`` the logarithms of
# their bounds. scipy's optimiser takes both as they are.

start = Sequential(
    Conv2d(3, weight_variance=0.1, bias_variance=5.0),
    Erf(),
    Conv2d(3, weight_variance=4.0, weight_variance_bounds="fixed"),
    Erf(),
    Flatten(),
    Dense(weight_variance_bounds="fixed"),
)
path = [start.theta]
result = minimize(
    loss_and_gradient,
    start.theta,
    args=(start,),
    jac=True,
    method="L-BFGS-B",
    bounds=start.bounds,
    callback=lambda theta: path.append(theta.copy()),
    options={"maxiter": 15},
)
learned = start.with_theta(result.x)
print(f"{result.nit} steps, {result.nfev} gradients: {learned.layers[0]}")

# %%
# The path of the optimiser
# -------------------------
# Left: the increase of the log evidence since the start, divided by the number of
# labels. Right: the two variances after each step, over the log evidence on a grid. The
# weight variance determines how far the error functions saturate, so it has a best
# value.

path = np.array(path)
losses = [loss_and_gradient(theta, start)[0] for theta in path]
low, high = path.min(0) - 1.0, path.max(0) + 1.0
weights, biases = (np.linspace(a, b, 10) for a, b in zip(low, high, strict=True))
surface = [
    [loss_and_gradient(np.array([w, b]), start)[0] for w in weights] for b in biases
]

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
left.plot(losses[0] - np.array(losses), marker="o", color="tab:blue")
left.set(xlabel="step", ylabel="evidence for each label, above the start")
left.set(title="Evidence along the way")
left.grid(alpha=0.25)
image = right.contourf(
    np.exp(weights), np.exp(biases), losses[0] - np.array(surface), 20, cmap="viridis"
)
right.loglog(*np.exp(path).T, marker="o", color="white", markersize=4, linewidth=1)
right.plot(*np.exp(path[-1]), marker="*", color="tab:red", markersize=14)
right.set(xlabel="weight variance", ylabel="bias variance", title="Variances")
figure.colorbar(image, label="evidence for each label")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Accuracy before and after
# -------------------------
# The evidence measures the fit to the training labels. Whether predictions improve can
# only be judged on new digits.

for name, kernel in {"start": start, "learned": learned}.items():
    gp = ConvNetGPClassifier(kernel, noise_variance=noise).fit(X, y)
    loss = log_loss(y_test, gp.predict_proba(X_test))
    print(f"{name}: accuracy {gp.score(X_test, y_test):.3f}, log loss {loss:.3f}")
