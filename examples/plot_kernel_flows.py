"""
Learning a kernel by Kernel Flows
=================================

Kernel Flows learn the hyperparameters of a kernel such that half of a batch predicts
the whole batch well, the objective "l2". This page learns the variances of a network
from bad starting values, with every optimiser, and shows what can go wrong. The default
of the estimators, at the end, guards against it. :doc:`/user_guide/flows` has the
formulas and says when to use ``optimizer="evidence"`` instead.
"""

# %%
# From bad starting values
# ------------------------
# The network has two convolutional layers and classifies small images of digits. The
# published experiments draw the starting values of the two variances from [0, 100].
# Ours lie near the ends of this range. The table shows the accuracy on test images.

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.model_selection import train_test_split

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
    gram_matrix,
)
from skconvgp.datasets import load_digits_images
from skconvgp.display import RhoTraceDisplay
from skconvgp.flows import LBFGS, Adam, BayesianOptimization, GradientDescent, Rho
from skconvgp.kernels import convnet, rbf

X, y = load_digits_images(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, train_size=500, test_size=900, stratify=y, random_state=0
)
network = convnet(depth=2, kernel_size=3)
starts = [(0.01, 100.0), (0.05, 20.0), (100.0, 100.0)]
optimizers = {
    "none": None,
    "Adam": Adam(max_iter=60, learning_rate=0.2),
    "gradient descent": GradientDescent(max_iter=60, learning_rate=1.0),
    "L-BFGS": LBFGS(),
    "Bayesian": BayesianOptimization(n_initial=8, max_iter=20),
}


def fit(optimizer, start):
    weight_variance, bias_variance = start
    kernel = network.replace(
        weight_variance=weight_variance, bias_variance=bias_variance
    )
    if optimizer is None:
        return ConvNetGPClassifier(kernel).fit(X, y)
    return KernelFlowsClassifier(
        kernel,
        optimizer=optimizer,
        objective="l2",
        batch_size=200,
        n_batches=2,
        random_state=0,
    ).fit(X, y)


print(f"{'':18}" + "".join(f"{start!s:>16}" for start in starts))
fitted = {}
for name, optimizer in optimizers.items():
    fitted[name] = [fit(optimizer, start) for start in starts]
    scores = [gp.score(X_test, y_test) for gp in fitted[name]]
    print(f"{name:18}" + "".join(f"{score:16.3f}" for score in scores))

# %%
# The objective at each step
# --------------------------
# Each step uses another batch, so the objective fluctuates. The result is judged by the
# mean objective on a few fixed batches. ``flow_result_`` keeps all values.

RhoTraceDisplay.from_estimator(fitted["Adam"][0])
plt.show()

# %%
# The landscape
# -------------
# The posterior mean depends almost only on the ratio of the two variances. So the
# objective has a long valley, and the optimisers stop at different points of the valley
# with about the same value. If one stops at a bound, the estimator warns, as above. Far
# from the valley the covariance is nearly the same for all pairs of images, and the
# objective is flat. From such starts use Bayesian optimisation, which needs no slope.
#
# The right panel shows the original objective, the ratio of norms. It treats the labels
# as noisy values of a smooth function, and is *smallest* beside the valley, where the
# network is less accurate.

order = np.random.default_rng(0).permutation(len(X))[:200]
targets = torch.as_tensor(np.eye(10)[y[order]] - 0.1)
weights, biases = np.logspace(-4, 4, 17), np.logspace(-4, 4, 17)
surfaces = {"l2": np.empty((17, 17)), "ratio": np.empty((17, 17))}
for i, bias_variance in enumerate(biases):
    for j, weight_variance in enumerate(weights):
        kernel = network.replace(
            weight_variance=weight_variance, bias_variance=bias_variance
        )
        gram = torch.as_tensor(gram_matrix(kernel, X[order]))
        for kind, surface in surfaces.items():
            surface[i, j] = Rho(kind, noise_variance=1e-2).score(gram, targets).value

fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
for ax, (kind, surface) in zip(axes, surfaces.items(), strict=True):
    drawn = ax.contourf(weights, biases, surface, levels=20, cmap="viridis")
    fig.colorbar(drawn, ax=ax)
    ax.set(xscale="log", yscale="log", xlabel="weight variance", title=f'"{kind}"')
axes[0].set_ylabel("bias variance")
ax = axes[0]
for color, name in [("w", "Adam"), ("C1", "L-BFGS"), ("C3", "Bayesian")]:
    ax.plot([], [], "*", color=color, mec="k", ms=10, label=name)
    for gp in fitted[name]:
        path = np.exp(gp.flow_result_.theta_trace[:, :2])  # the noise comes last
        ax.plot(*path.T, "." if name == "Bayesian" else "-", color=color, lw=1, ms=4)
        ax.plot(*np.exp(gp.kernel_.theta), "*", color=color, ms=12, mec="k")
ax.plot(*np.transpose(starts), "ko", ms=5, label="starts")
ax.set(xlim=(1e-4, 1e4), ylim=(1e-4, 1e4))
ax.legend(loc="lower right", facecolor="0.6")
plt.show()

# %%
# A nugget smaller than the noise
# -------------------------------
# The nugget is the noise variance of the objective. Here is its effect in one
# dimension, for a sine with noise of a hundredth of its variance. If the nugget is much
# smaller than the noise, the ratio penalises the lengthscales that fit, because a
# smooth function then has to pass through every noisy point. If the nugget is as large
# as the noise, the ratio finds a good lengthscale. The squared error, ``"l2"``, finds
# one with both nuggets. Estimators learn the nugget with the kernel, unless
# ``noise_variance`` is a number.

rng = np.random.default_rng(0)
x = rng.permutation(np.linspace(0.0, 6.0, 60))[:, None]
signal = np.sin(x) + 0.1 * rng.normal(size=x.shape)
signal = torch.as_tensor(signal - signal.mean())
lengthscales = np.logspace(-1.5, 2, 40)
fig, axes = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
for ax, kind in zip(axes, ["ratio", "l2"], strict=True):
    for noise in (1e-4, 1e-2):
        values = [
            Rho(kind, noise_variance=noise)
            .score(torch.as_tensor(gram_matrix(rbf(lengthscale=s), x)), signal)
            .value
            for s in lengthscales
        ]
        (line,) = ax.plot(lengthscales, values, label=f"nugget {noise:g}")
        best = int(np.argmin(values))
        ax.plot(lengthscales[best], values[best], "o", color=line.get_color())
    ax.set(xscale="log", xlabel="lengthscale", title=f'"{kind}"')
    ax.legend()
plt.show()

# %%
# The default keeps a start that is better
# ----------------------------------------
# Most of the variance of this table is noise. The squared error "l2" counts the samples
# that predict, too, and is small for a kernel that passes through them. By default the
# estimators minimise the log density of left-out samples instead, and keep the kernel
# of the start if that predicts left-out samples better. Each dot is another table. The
# horizontal axis is ``flow_result_.left_out``, the gain of the learned kernel; to the
# left of zero the start is kept, so that the test error of the default is the start's.


def noisy_table(seed, n):
    rng = np.random.default_rng(seed)
    coefficients = np.random.default_rng(seed // 2).normal(size=6) / np.sqrt(6.0)
    features = rng.normal(size=(n, 6))
    return features, features @ coefficients + 2.0 * rng.normal(size=n)


def test_error(gp, seed):
    features, target = noisy_table(2 * seed, 50)
    error = gp.fit(features, target).predict(noisy_table(2 * seed + 1, 500)[0])
    return np.sqrt(np.mean((error - noisy_table(2 * seed + 1, 500)[1]) ** 2))


start, search = rbf(lengthscale=3.0), Adam(max_iter=40, learning_rate=0.2)
fig, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
gains, worse = [], {"l2": [], "default": []}
for seed in range(12):
    first = test_error(ConvNetGPRegressor(start), seed)
    gp = KernelFlowsRegressor(start, optimizer=search, random_state=0)
    worse["default"].append(test_error(gp, seed) - first)
    left_out = gp.flow_result_.left_out
    gains.append(left_out["end"] - left_out["start"])
    gp = KernelFlowsRegressor(start, optimizer=search, objective="l2", random_state=0)
    worse["l2"].append(test_error(gp, seed) - first)
for name, values in worse.items():
    ax.plot(gains, values, "o", label=name)
ax.axhline(0.0, color="0.5", lw=1)
ax.axvline(0.0, color="0.5", lw=1)
ax.set(xlabel="gain in left-out log density", ylabel="test error above the start's")
ax.legend()
plt.show()
