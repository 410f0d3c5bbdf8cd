"""Sums of parts in one matrix of single precision, where six in double do not fit."""

import numpy as np
import pytest

from skconvgp import ImageClassifier, ImageRegressor
from skconvgp.kernels import PatchKernel, convnet, rbf
from tests.helpers.deviations import plain
from tests.helpers.estimators import digits
from tests.helpers.memory import needs_peak, peak_memory

PATCHES = PatchKernel(rbf(3.0), patch_size=4, location_lengthscale=3.0)
PARTS = [convnet(1, 3), PATCHES, rbf(2.0)]
N, N_NEW, NOISE = 400, 60, 0.02
FIXED = {"part_weights": [0.3, 0.4, 0.3], "noise_variance": NOISE, "random_state": 0}
LITTLE = 5.5  # free memory: matrices (n, n) in double precision, fewer than six


@pytest.fixture
def little_memory(monkeypatch):
    """Return a function after which memory has no room for six matrices."""

    def limit():
        free = int(LITTLE * 8 * N**2)
        monkeypatch.setattr("skconvgp.solvers._cg.BLOCK", 16)
        monkeypatch.setattr("skconvgp.solvers._preconditioners.DEFAULT_RANK", 10)
        monkeypatch.setattr("skconvgp.solvers._refined.BLOCK", 8)
        for module in ("skconvgp.engine._devices", "skconvgp.processes._plan"):
            monkeypatch.setattr(f"{module}.free_memory", lambda _: free)

    return limit


@pytest.mark.parametrize("flips", [False, True])
def test_probabilities_are_those_of_the_sum_in_double_precision(flips, little_memory):
    images, labels = digits(N + N_NEW)
    gp = ImageClassifier(PARTS, flips=flips, **FIXED).fit(images[:N], labels[:N])
    assert gp.fit_report_.solver == "Cholesky"
    expected = gp.predict_proba(images[N:]), gp.loo_predict_proba()
    little_memory()
    plan = gp.plan(images[:N])
    gp.fit(images[:N], labels[:N])
    report = gp.fit_report_
    assert report.solver == plan.known["solver"] == "RefinedCholesky"
    assert "one matrix in single precision" in report.solver_reason
    assert report.n_landmarks == 0
    assert report.residual <= 1e-6
    assert gp._process.state.both.matrix.dtype == np.float32
    found = gp.predict_proba(images[N:]), gp.loo_predict_proba()
    # Rounding errors of entries, sqrt(400) 6e-8, over the noise and a temperature of
    # .05, and a quarter of that, the largest slope of a probability: 3e-4 at most.
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4)


def test_means_and_deviations_are_those_of_dense_algebra(little_memory):
    images, _ = digits(N + N_NEW)
    targets = np.sin(images.reshape(len(images), -1) @ np.linspace(-1.0, 1.0, 64))
    little_memory()
    gp = ImageRegressor(PARTS, flips=False, normalize_y=False, amplitude=1.0, **FIXED)
    gp.set_params(dtype="float64", backend="torch").fit(images[:N], targets[:N])
    assert gp.fit_report_.solver == "RefinedCholesky"
    process, resources = gp._process, gp._resources()
    run, unit = resources.run(resources.placement(0)), process.model.mean_diag
    rows = images.reshape(len(images), -1)
    whole = process.basis.covariance(rows, run, unit).numpy()
    cross = whole[N:, :N]
    gram = whole[:N, :N] + NOISE * np.eye(N)
    var = whole.diagonal()[N:] - np.sum(cross * np.linalg.solve(gram, cross.T).T, 1)
    mean, std = gp.predict(images[N:], return_std=True)
    np.testing.assert_allclose(
        mean, cross @ np.linalg.solve(gram, targets[:N]), atol=1e-4
    )
    np.testing.assert_allclose(plain(gp, std), np.sqrt(var), rtol=1e-3)


def test_weights_that_few_images_choose_are_kept(little_memory, monkeypatch):
    monkeypatch.setattr("skconvgp.processes.fits._parts_fit.JUDGED_IMAGES", 100)
    images, labels = digits(N)
    gp = ImageClassifier(PARTS, noise_variance=NOISE, random_state=0)
    expected = gp.fit(images, labels).weights_
    little_memory()
    gp.fit(images, labels)
    assert gp.fit_report_.solver == "RefinedCholesky"
    np.testing.assert_array_equal(gp.weights_, expected)


@pytest.mark.parametrize(
    "settings", [{"noise_variance": "loo"}, {"noise_variance": 1e-7}]
)
def test_landmarks_take_over_where_noise_is_chosen_or_tiny(
    settings, little_memory, monkeypatch
):
    monkeypatch.setattr("skconvgp.estimators._image_landmarks.LEAST_LANDMARKS", 50)
    for name in ("_parts_fit", "_parts_landmarks"):
        monkeypatch.setattr(f"skconvgp.processes.fits.{name}.JUDGED_IMAGES", 100)
    images, labels = digits(N)
    little_memory()
    gp = ImageClassifier(PARTS, flips=False, **FIXED | settings)
    gp.fit(images, labels)
    assert 0 < gp.fit_report_.n_landmarks < N


def test_iterations_take_over_where_there_is_no_factor(little_memory, monkeypatch):
    monkeypatch.setattr("skconvgp.linalg._in_place.LEAST_PIVOT", 1e9)
    images, labels = digits(N + N_NEW)
    gp = ImageClassifier(PARTS, flips=False, **FIXED).fit(images[:N], labels[:N])
    expected = gp.decision_function(images[N:])
    little_memory()
    gp.fit(images[:N], labels[:N])
    assert gp.fit_report_.solver == "ConjugateGradient"
    found = gp.decision_function(images[N:])
    assert np.mean(found.argmax(1) == expected.argmax(1)) == 1.0


FIT = """
import numpy as np
import skconvgp.engine._devices, skconvgp.processes._plan
from skconvgp import ImageRegressor
from skconvgp.kernels import PatchKernel, rbf

random = np.random.default_rng(0)
X, y = random.normal(size=({n}, 1, 8, 8)), random.normal(size={n})
parts = [PatchKernel(rbf(3.0), patch_size=4, location_lengthscale=3.0), rbf(5.0)]
gp = ImageRegressor(
    parts, part_weights=[0.5, 0.5], flips={flips}, noise_variance=0.1,
    memory_budget="4 MiB", random_state=0,
)
gp.fit(X[:50], y[:50])
for module in (skconvgp.engine._devices, skconvgp.processes._plan):
    module.free_memory = lambda device: 48 * {n} ** 2 - 1
planned = gp.plan(X).peak_bytes
"""
CALL = """
gp.fit(X, y)
assert gp.fit_report_.solver == "RefinedCholesky"
assert planned < {most}, planned
"""


@needs_peak
@pytest.mark.parametrize(
    ("flips", "n_planned", "n_held"), [(False, 2.2, 1.5), (True, 3.7, 2.2)]
)
def test_a_fit_holds_less_than_it_plans(flips, n_planned, n_held):
    n = 2500
    matrix = 8 * n**2
    setup = FIT.format(n=n, flips=flips)
    call = CALL.format(most=int(n_planned * matrix))
    assert peak_memory(setup, call, is_second=True) < n_held * matrix + 12 * 2**20
