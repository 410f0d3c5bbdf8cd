"""
What is wrong with these images?
================================

Labels are wrong, images come twice, and some should not be there. A fitted model knows:
it predicts each training image from all the others, without another fit.
"""

# %%
# 600 digits, and what was done to them
# -------------------------------------
# 18 labels are changed, two images are repeated with little noise, one of them with
# another label, and two images are no digits.

import matplotlib.pyplot as plt
import numpy as np

from skconvgp import ImageClassifier
from skconvgp.datasets import load_digits_images
from skconvgp.display import AuditDisplay
from skconvgp.questions import audit

X, y = load_digits_images(return_X_y=True)
rng = np.random.default_rng(0)
some = rng.permutation(len(X))[:600]
X, y = X[some], y[some]
changed = rng.choice(600, 18, replace=False)
truth = y.copy()
y[changed] = (y[changed] + rng.integers(1, 10, 18)) % 10
for copy, original in ((400, 100), (500, 200)):
    X[copy] = X[original] + 0.002 * rng.normal(size=X[0].shape)
y[400], y[500] = y[100], (y[200] + 1) % 10
X[300], X[301] = rng.random(X[0].shape), 1.0 - X[301]

# %%
# What the audit finds
# --------------------
# Titles are the index of an image, its label, and the proposal for another one. Labels
# worth a look are predicted otherwise, too, but less clearly. Copies stand in pairs.

gp = ImageClassifier(random_state=0).fit(X, y)
found = audit(gp)
print(found)
display = AuditDisplay.from_audit(found, X)
plt.show()

# %%
# Findings are tables, here the first rows of that of wrong labels. All but a few of the
# labels that were changed are in it.

first = found.records("wrong_labels")[:5]
for row in first:
    print(row["index"], row["label"], "is rather", row["proposal"])
told = [row["index"] for row in found.records("wrong_labels")]
is_changed = np.isin(told, [*changed, 500])
print(f"told {len(told)}, of which {is_changed.sum()} were changed")
right = [
    row["proposal"] == truth[row["index"]] for row in found.records("wrong_labels")
]
print(f"{np.mean(right):.0%} of the proposals are right")

# %%
# How many of them stand first
# ----------------------------
# ``labels`` has all images, sorted by the left-out probability of their label. Nearly
# all images with a changed label come before all others.

ranking = [row["index"] for row in found.records("labels")]
is_wrong = np.isin(ranking, [*changed, 500])
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
looked_at = np.arange(1, 61)
axes.plot(looked_at, np.cumsum(is_wrong)[:60], linewidth=2, label="in this order")
axes.plot(looked_at, looked_at * is_wrong.mean(), color="0.6", label="at random")
axes.axhline(is_wrong.sum(), color="0.8", linestyle=":")
axes.set(xlabel="images looked at", ylabel="wrong labels found")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# :doc:`/user_guide/questions/audit` says what a finding means and what it does not.
# For a folder of pictures ``python -m skconvgp audit FOLDER`` writes a page with the
# same findings.
