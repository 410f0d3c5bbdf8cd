"""
Searching a kernel with GridSearchCV
====================================

`GridSearchCV` can search every setting of a kernel, by names such as ``kernel__depth``,
``kernel__kernel_size`` and ``kernel__weight_variance``. Here we search for the depth
and the window size of a convolutional network for 8 x 8 digits. For continuous
settings, ``optimizer="evidence"`` is faster: :doc:`/user_guide/selection`.
"""

# %%
# The grid
# --------
# Pass a kernel *object*. The default, ``kernel=None``, means the same network as
# ``convnet()``, but has no settings to search. We rank by the log loss, which depends
# on the probabilities. If most answers are right, it distinguishes models better than
# the accuracy does.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split

from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import convnet

X, y = load_digits_images(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, train_size=180, test_size=400, stratify=y, random_state=0
)

depths, sizes = [1, 2, 3], [1, 3, 5, 7]
search = GridSearchCV(
    ConvNetGPClassifier(convnet()),
    {"kernel__depth": depths, "kernel__kernel_size": sizes},
    scoring={"log loss": "neg_log_loss", "accuracy": "accuracy"},
    refit="log loss",
    cv=StratifiedKFold(3, shuffle=True, random_state=0),
)
search.fit(X, y)
print(search.best_estimator_.kernel_)
print(f"accuracy on 400 other digits: {(search.predict(X_test) == y_test).mean():.3f}")

# %%
# The heat map
# ------------
# Each cell is a mean over three folds, and a frame marks the best one. A network with
# windows of 1 x 1 treats every pixel separately, without its neighbours. If the best
# cell is at the edge of the grid, as here, the grid should be extended.

results = search.cv_results_
loss = -results["mean_test_log loss"].reshape(len(depths), len(sizes))
accuracy = results["mean_test_accuracy"].reshape(len(depths), len(sizes))

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
image = axes.imshow(loss, cmap="viridis_r", aspect="auto")
middle = (loss.min() + loss.max()) / 2
for (i, j), value in np.ndenumerate(loss):
    color = "black" if value < middle else "white"
    text = f"{value:.3f}\n{accuracy[i, j]:.1%}"
    axes.text(j, i, text, ha="center", va="center", color=color)
i, j = np.unravel_index(loss.argmin(), loss.shape)
frame = plt.Rectangle(
    (j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor="red", linewidth=2
)
axes.add_patch(frame)
axes.set_xticks(range(len(sizes)), [f"{s} x {s}" for s in sizes])
axes.set_yticks(range(len(depths)), depths)
axes.set(
    xlabel="kernel_size", ylabel="depth", title="Log loss and accuracy, three folds"
)
figure.colorbar(image, label="log loss")
plt.show()

# %%
# Without folds
# -------------
# Every fitted model has leave-one-out predictions in closed form. So a setting can also
# be judged by a single fit to all training data.

for depth in depths:
    gp = ConvNetGPClassifier(convnet(depth=depth, kernel_size=3)).fit(X, y)
    own = gp.loo_predict_proba()[np.arange(len(y)), y]
    print(f"depth {depth}: leave-one-out log loss {-np.log(own).mean():.3f}")

# %%
# These losses are slightly too low, because the calibration of each model, four
# numbers, was fitted to the same leave-one-out predictions. That does not matter for a
# comparison of kernels.
