"""Peak memory of the estimators of patches, in a process of its own."""

import pytest

from tests.helpers.memory import needs_peak, peaks

pytestmark = needs_peak

MIB, BUDGET, N_KEPT = 2**20, 16, 2000
SETUP = """
import numpy as np
from skconvgp import PatchGPClassifier
from skconvgp.kernels import PatchKernel, rbf

random = np.random.default_rng(0)
X, y = random.random(({n}, 1, 12, 12)).astype(np.float32), np.arange({n}) % 3
gp = PatchGPClassifier(
    PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=2.0),
    n_inducing={m}, n_locations=3, memory_budget="16 MiB", random_state=0,
    likelihood="{likelihood}",
)
gp.fit(X[:60], y[:60]).predict_proba(X[:60])
gp.partial_fit(X[:60], y[:60])
"""
CALLS = ["gp.fit(X, y)", "gp.predict_proba(X)", "gp.loo_predict_proba()"]
CALLS += ["gp.partial_fit(X, y)"]


# Features of all images would take 4 and 34 MiB more.
# Counts have a matrix for each class, and one for their mean; an amplitude is chosen
# on 1000 images.
@pytest.mark.parametrize(
    ("n", "m"), [(4000, 30), pytest.param(12_000, 50, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "likelihood", [pytest.param("gaussian", marks=pytest.mark.slow), "dirichlet"]
)
def test_sums_and_a_reservoir_are_held_beside_the_budget(n, m, likelihood):
    r, row = 9 * m, 12 * 12 * 4
    n_matrices, more_of_fit = (1, 0) if likelihood == "gaussian" else (4, 7 * 1000**2)
    promised = BUDGET * MIB + 8 * ((3 + n_matrices) * r**2 + N_KEPT * r)
    setup = SETUP.format(n=n, m=m, likelihood=likelihood)
    fit, predict, left_out, more = peaks(setup, CALLS)
    assert fit <= promised + 8 * more_of_fit + n * row
    assert predict <= BUDGET * MIB
    assert left_out <= BUDGET * MIB + 8 * n_matrices * r**2
    assert more <= promised + 3 * N_KEPT * row  # reservoirs before, of these, of both
