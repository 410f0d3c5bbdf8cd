"""PatchGPClassifier and PatchGPRegressor against dense formulas and exact processes."""

import pickle
import re
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skconvgp import (
    ConvNetGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    gram_diag,
)
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import (
    Conv2d,
    PatchKernel,
    ReLU,
    Sequential,
    convnet,
    convnet_gap,
    dense,
    rbf,
)
from skconvgp.likelihoods import Gaussian
from skconvgp.processes.fits import _image_rows, _patch_noise, _patches
from tests.helpers.estimators import all_digits

N, N_NEW, SIDE, PATCH = 14, 5, 6, 3
POSITIONS = (SIDE - PATCH + 1) ** 2
NOISE, AMPLITUDE = 0.05, 2.5
PLAIN = {
    "normalize_y": False,
    "noise_variance": NOISE,
    "amplitude": AMPLITUDE,
    "dtype": "float64",
}
SIGNS = np.random.default_rng(3).normal(size=POSITIONS)


def images(n=N + N_NEW, channels=1, seed=0):
    return np.random.default_rng(seed).normal(size=(n, channels, SIDE, SIDE))


def targets(n=N, seed=1):
    return np.random.default_rng(seed).normal(size=(n, 2)) + 1.0


def kernel(**settings):
    settings = {"location_lengthscale": None} | settings
    return PatchKernel(rbf(2.0), patch_size=PATCH, **settings)


def patches_of(X):
    cut = np.lib.stride_tricks.sliding_window_view(X, (PATCH, PATCH), axis=(2, 3))
    return cut.transpose(0, 2, 3, 1, 4, 5).reshape(-1, X.shape[1], PATCH, PATCH)


def some_patches(channels=1, m=7):
    return patches_of(images(channels=channels, seed=5))[::25][:m]


def base_covariance(one, two):
    one, two = one.reshape(len(one), -1), two.reshape(len(two), -1)
    squares = ((one[:, None] - two) ** 2).sum(-1)
    return np.exp(-squares / (2 * 2.0**2))


def covariance_of_places(one, two, length):
    if length is None:
        return np.ones((len(one), len(two)))
    squares = ((one[:, None] - two) ** 2).sum(-1)
    return np.exp(-squares / (2 * length**2))


def explained(X, Z, places, stride=1, length=None, weights=None):
    """Return K_fu K_uu^-1 K_uf for one response function, by loops."""
    side = (SIDE - PATCH) // stride + 1
    steps = stride * np.arange(side)
    spots = np.array([(row, column) for row in steps for column in steps], float)
    cut = np.array(
        [
            [x[:, r : r + PATCH, c : c + PATCH].ravel() for r, c in spots.astype(int)]
            for x in X
        ]
    )
    w = np.ones(len(spots)) if weights is None else weights
    by_place = w * covariance_of_places(places, spots, length)
    cross = np.array([by_place @ base_covariance(own, Z) for own in cut])
    cross = cross.reshape(len(X), -1) / np.sqrt(len(spots))
    own = np.kron(covariance_of_places(places, places, length), base_covariance(Z, Z))
    return cross @ np.linalg.solve(own, cross.T)


def features_of(gp, X):
    """Return features of images by a fitted estimator, for its mean variance."""
    inducing = gp._process.basis.inducing
    found = inducing.features(torch.as_tensor(X), backend="torch", dtype=torch.float64)
    return found.numpy()


def fitted(spec, inducing, X=None, y=None, weights=None, **settings):
    X = images()[:N] if X is None else X
    y = targets(len(X)) if y is None else y
    gp = PatchGPRegressor(spec, inducing=inducing, **(PLAIN | settings))
    return gp.fit(X, y, sample_weight=weights)


SPECS = {
    "invariant": {},
    "location": {"location_lengthscale": 1.5},
    "weights": {"weights": SIGNS},
    "both": {"weights": SIGNS, "location_lengthscale": 1.5},
    "stride": {"stride": 2, "location_lengthscale": 2.5},
}
every_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


@every_spec
def test_features_explain_what_inducing_variables_explain(spec):
    X, Z = images(), some_patches()
    gp = fitted(kernel(**spec), Z, n_locations=2)
    F = features_of(gp, X)
    unit = gram_diag(kernel(**spec), X[:N], dtype="float64").mean()
    dense = explained(
        X,
        Z,
        gp.locations_,
        spec.get("stride", 1),
        spec.get("location_lengthscale"),
        spec.get("weights"),
    )
    np.testing.assert_allclose(unit * F @ F.T, dense, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("color", ["channels", "stacked", "additive"])
@pytest.mark.parametrize("length", [None, 1.5])
def test_features_of_channels(color, length):
    X, Z = images(channels=2), some_patches()
    w = None if color == "additive" else np.concatenate([SIGNS, SIGNS[::-1]])
    spec = kernel(color=color, location_lengthscale=length, weights=w)
    gp = fitted(spec, Z, X[:N], n_locations=2)
    F = features_of(gp, X)
    unit = gram_diag(spec, X[:N], dtype="float64").mean()
    parts = np.split(np.ones(2 * POSITIONS) if w is None else w, 2)
    ones = [(X[:, [c]], Z, gp.locations_, 1, length, parts[c]) for c in range(2)]
    if color != "stacked":
        dense = sum(explained(*one) for one in ones) / 2
    else:  # by polarisation: a sum of the responses of both channels
        X_both = np.concatenate([one[0] for one in ones])
        w_both = parts
        dense = stacked(X, Z, gp.locations_, length, w_both)
        assert len(X_both) == 2 * len(X)
    np.testing.assert_allclose(unit * F @ F.T, dense, rtol=1e-8, atol=1e-10)


def stacked(X, Z, places, length, parts):
    steps = np.arange(SIDE - PATCH + 1)
    spots = np.array([(row, column) for row in steps for column in steps], float)
    by_place = covariance_of_places(places, spots, length)
    cross = 0.0
    for c, w in enumerate(parts):
        own = patches_of(X[:, [c]]).reshape(len(X), POSITIONS, -1)
        cross = cross + np.array([(w * by_place) @ base_covariance(o, Z) for o in own])
    cross = cross.reshape(len(X), -1) / np.sqrt(2 * POSITIONS)
    own = np.kron(covariance_of_places(places, places, length), base_covariance(Z, Z))
    return cross @ np.linalg.solve(own, cross.T)


EXACT = {
    "invariant": {},
    "weights": {"weights": SIGNS},
    "location": {"location_lengthscale": 1.5},
    "both": {"weights": SIGNS, "location_lengthscale": 1.5},
}


@pytest.mark.parametrize("spec", EXACT.values(), ids=EXACT)
def test_all_patches_at_all_places_are_the_exact_process(spec):
    # Each patch of few different ones at few places, so that nothing is cut.
    rng = np.random.default_rng(0)
    blank = np.zeros((6, 1, SIDE, SIDE))
    blank[np.arange(6), 0, rng.integers(1, 5, 6), rng.integers(1, 5, 6)] = 3.0
    y = targets(6)
    settings = PLAIN | {"normalize_y": True, "amplitude": "profile"}
    spec = {"location_lengthscale": None} | spec
    base = PatchKernel(rbf(1.0), patch_size=PATCH, **spec)
    exact = ConvNetGPRegressor(base, **settings).fit(blank[:5], y[:5])
    gp = PatchGPRegressor(
        base, inducing="unique", n_locations=SIDE - PATCH + 1, **settings
    ).fit(blank[:5], y[:5])
    for found, wanted in zip(
        gp.predict(blank, return_std=True),
        exact.predict(blank, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert gp.log_marginal_likelihood() == pytest.approx(
        exact.log_marginal_likelihood(), abs=1e-5
    )
    for found, wanted in zip(
        gp.loo_predict(return_std=True), exact.loo_predict(return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Inducing patches explain")
@pytest.mark.parametrize("variance", ["dtc", "sor"])
def test_means_variances_and_evidence_are_those_of_dense_formulas(variance):
    X, Z, y = images(), some_patches(), targets()
    spec = kernel(location_lengthscale=1.5)
    gp = fitted(spec, Z, n_locations=2, variance=variance)
    unit = gram_diag(spec, X[:N], dtype="float64").mean()
    Q = explained(X, Z, gp.locations_, length=1.5) / unit
    noisy = Q[:N, :N] + NOISE * np.eye(N)
    mean = Q[N:, :N] @ np.linalg.solve(noisy, y)
    var = np.diag(Q[N:, N:] - Q[N:, :N] @ np.linalg.solve(noisy, Q[:N, N:]))
    if variance == "dtc":
        diag = gram_diag(spec, X[N:], dtype="float64") / unit
        var = var + diag - np.diag(Q[N:, N:])
    found, std = gp.predict(X[N:], return_std=True)
    np.testing.assert_allclose(found, mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(std[:, 0] ** 2, AMPLITUDE * var, rtol=1e-6)
    sign, logdet = np.linalg.slogdet(2 * np.pi * AMPLITUDE * noisy)
    assert sign == 1
    quadratic = np.sum(y * np.linalg.solve(noisy, y)) / AMPLITUDE
    assert gp.log_marginal_likelihood() == pytest.approx(-logdet - quadratic / 2)


@pytest.mark.parametrize("n_kept", [11, 2000])
def test_leave_one_out_is_a_refit(n_kept, monkeypatch):
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", n_kept)
    X, Z, y = images()[:N], some_patches(), targets()
    spec = kernel(location_lengthscale=1.5)
    gp = fitted(spec, Z, n_locations=2)
    mean, std = gp.loo_predict(return_std=True)
    i = 4
    rest = np.arange(N) != i
    unit = gram_diag(spec, X, dtype="float64").mean()
    smaller = gram_diag(spec, X[rest], dtype="float64").mean()
    again = fitted(
        spec,
        Z,
        X[rest],
        y[rest],
        n_locations=2,
        noise_variance=NOISE * unit / smaller,
        amplitude=AMPLITUDE * smaller / unit,
    )
    wanted, wanted_std = again.predict(X[[i]], return_std=True)
    np.testing.assert_allclose(mean[[i]], wanted, rtol=1e-7)
    np.testing.assert_allclose(
        std[[i]] ** 2, wanted_std**2 + NOISE * AMPLITUDE, rtol=1e-6
    )


@pytest.mark.parametrize("inducing", ["given", "unique"])
@pytest.mark.parametrize("noise", [NOISE, "loo"])
@pytest.mark.parametrize(("n_drawn", "n_kept"), [(5, 2000), (256, 11), (256, 2000)])
def test_weights_are_repetitions(inducing, noise, n_drawn, n_kept, monkeypatch):
    monkeypatch.setattr(_image_rows, "VARIANCE_IMAGES", n_drawn)
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", n_kept)
    X, y = images()[:N], targets()
    repeats = np.tile([1, 3, 0, 1, 2, 1, 1], N // 7)
    how = some_patches() if inducing == "given" else inducing
    spec = PatchKernel(rbf(2.0), patch_size=PATCH, stride=3, location_lengthscale=None)
    options = {"noise_variance": noise, "amplitude": "profile", "random_state": 0}
    one = fitted(spec, how, weights=repeats, **options)
    two = fitted(spec, how, X.repeat(repeats, 0), y.repeat(repeats, 0), **options)
    assert one.noise_variance_ == two.noise_variance_
    for a, b in zip(
        one.predict(images(seed=9), return_std=True),
        two.predict(images(seed=9), return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    numbers = np.repeat(np.arange((repeats > 0).sum()), repeats[repeats > 0])
    for a, b in zip(
        one.loo_predict(return_std=True), two.loo_predict(return_std=True), strict=True
    ):
        np.testing.assert_allclose(a[numbers], b, rtol=1e-6, atol=1e-8)


def test_weights_are_repetitions_for_labels_of_many_images(monkeypatch):
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 30)
    X, y = digits(90)
    repeats = np.random.default_rng(4).integers(0, 4, 90)
    options = {"inducing": X[:9, :, 1:4, 1:4], "dtype": "float64", "random_state": 0}
    spec = PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=1.5)
    one, two = (PatchGPClassifier(spec, **options) for _ in range(2))
    one.fit(X, y, sample_weight=repeats)
    two.fit(X.repeat(repeats, 0), y.repeat(repeats))
    assert one.noise_variance_ == two.noise_variance_
    np.testing.assert_allclose(one.temperature_, two.temperature_, rtol=1e-4)
    np.testing.assert_allclose(
        one.predict_proba(X), two.predict_proba(X), rtol=1e-3, atol=1e-6
    )
    assert len(two._process.left_out.subset[0]) > 30


def test_a_budget_below_one_image_is_refused_before_work():
    with pytest.raises(TileMemoryError, match="patches of a single image need"):
        fitted(kernel(), some_patches(), memory_budget="1 kB")


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("remedy", "better"),
    [
        ("memory_budget", {}),
        ("n_jobs", {"n_jobs": 1}),
        ("n_inducing", {"inducing": some_patches(m=3)}),
        ("n_locations", {"n_locations": 1}),
        ("stride", {"spec": kernel(stride=2, location_lengthscale=2.0)}),
    ],
)
def test_remedies_of_a_budget_below_one_image(remedy, better, n_jobs):
    settings = {
        "spec": kernel(location_lengthscale=2.0),
        "inducing": some_patches(),
        "n_locations": 2,
        "n_jobs": n_jobs,
    }
    with pytest.raises(TileMemoryError) as caught:
        fitted(**settings, memory_budget=100 * n_jobs)
    message = str(caught.value)
    assert ("for each of 2 workers" in message) == (n_jobs == 2)
    assert "of 1 workers" not in message
    if remedy == "n_jobs" and n_jobs == 1:
        assert remedy not in message
        return
    assert f"`{remedy}`" in message
    needed = n_jobs * int(re.search(r"need (\d+) bytes", message)[1])
    with pytest.raises(TileMemoryError, match="a single image need"):
        fitted(**settings, memory_budget=needed - n_jobs)
    is_more = remedy == "memory_budget"
    fitted(**(settings | better), memory_budget=needed - (0 if is_more else n_jobs))


def test_jobs_and_budget_do_not_change_the_result():
    X, y = images(70), targets(70)
    new = images(6, seed=8)
    Z = some_patches()
    spec = kernel(location_lengthscale=1.5)
    one = fitted(spec, Z, X, y)
    for n_jobs in (1, 2):
        two = fitted(spec, Z, X, y, n_jobs=n_jobs)
        np.testing.assert_array_equal(one.predict(new), two.predict(new))
    three = fitted(spec, Z, X, y, memory_budget="20 MB")
    np.testing.assert_allclose(one.predict(new), three.predict(new), rtol=1e-9)


def test_different_patches_beyond_the_memory_are_refused_early(monkeypatch):
    n_patches = []

    def refuse_many(needed, *others):
        n_patches.append(others)
        if needed > 3 * 8 * 4000**2:
            raise TileMemoryError(others[-1])

    monkeypatch.setattr(
        "skconvgp.processes.basis._chosen_patches.require_memory", refuse_many
    )
    gp = PatchGPRegressor(kernel(), inducing="unique")
    X = images(1000)  # each with 16 patches of its own
    with pytest.raises(TileMemoryError, match=r"inducing='kmeans'"):
        gp.fit(X, np.arange(1000.0))
    assert len(n_patches) == 3  # hundreds of images


def test_sums_that_do_not_fit_are_refused_before_work(monkeypatch):
    monkeypatch.setattr(_patches, "SQUARE_COPIES", 10**15)
    gp = PatchGPRegressor(kernel())
    with pytest.raises(TileMemoryError, match=r"n_inducing.*n_locations"):
        gp.fit(images(), targets(N + N_NEW))


def test_single_precision_agrees():
    X, Z = images(), some_patches()
    spec = kernel(location_lengthscale=1.5)
    one = fitted(spec, Z)
    two = fitted(spec, Z, dtype="float32")
    three = fitted(spec, Z, dtype="float32", solve_dtype="float32")
    for other in (two, three):
        np.testing.assert_allclose(
            one.predict(X), other.predict(X), rtol=1e-3, atol=1e-3
        )


def digits(n):
    X, y = all_digits()
    return X[:n], y[:n]


def test_same_seed_same_result():
    X, y = digits(150)
    gp = PatchGPClassifier(n_inducing=10, random_state=3)
    one, two = gp.fit(X, y).predict_proba(X), clone(gp).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gp)).predict_proba(X), one)
    assert "PatchGPClassifier" in gp._repr_html_()


def test_default_settings_read_digits():
    X, y = all_digits()
    gp = PatchGPClassifier(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.fit(X[:800], y[:800])
    assert gp.score(X[800:], y[800:]) >= 0.94
    assert log_loss(y[800:], gp.predict_proba(X[800:])) < 0.25


def test_search_finds_the_best_noise_of_the_grid():
    X, y = digits(60)
    options = {"random_state": 0, "dtype": "float64", "variance": "sor"}
    targets = y.astype(float)
    for word in ("loo", "evidence"):
        gp = PatchGPRegressor(n_inducing=9, noise_variance=word, **options).fit(
            X, targets
        )

        def score(noise, word=word):
            own = PatchGPRegressor(n_inducing=9, noise_variance=noise, **options).fit(
                X, targets
            )
            if word == "evidence":
                return own.log_marginal_likelihood()
            mean, std = own.loo_predict(return_std=True)
            return -np.sum((targets - mean) ** 2 / std**2 + 2 * np.log(std))

        grid = 1e-3 * np.sqrt(10.0) ** np.arange(-6, 9)
        values = [score(noise) for noise in grid]
        assert gp.noise_variance_ == pytest.approx(grid[np.argmax(values)])


@pytest.mark.parametrize("word", ["loo", "evidence"])
def test_few_images_are_judged_in_as_many_coordinates(word, monkeypatch):
    repeats = np.random.default_rng(4).uniform(0.4, 2.5, N)
    spec = kernel(location_lengthscale=1.5)
    settings = {"weights": repeats, "noise_variance": word, "n_locations": 3}
    sizes, posterior = [], _patch_noise.feature_posterior

    def fit(sums):
        sizes.append(len(sums.moment))
        return posterior(sums)

    monkeypatch.setattr(_patch_noise, "feature_posterior", fit)
    scores, score = [], _patch_noise._score

    def judge(*args):
        scores.append((args[3], score(*args)))
        return scores[-1][1]

    monkeypatch.setattr(_patch_noise, "_score", judge)
    few = fitted(spec, some_patches(), **settings)
    assert set(sizes) == {N}
    monkeypatch.setattr(_image_rows, "in_few_coordinates", lambda *given: given[:2])
    found, scores = dict(scores), scores[:0]
    many = fitted(spec, some_patches(), **settings)
    assert len(some_patches()) * 9 in sizes
    assert found == pytest.approx(dict(scores), rel=1e-9)
    np.testing.assert_array_equal(few.predict(images()), many.predict(images()))


@pytest.mark.parametrize("variance", ["dtc", "sor"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_left_out_predictions_on_demand_are_those_that_are_kept(
    variance, precision, monkeypatch
):
    X, y = digits(60)
    options = {"inducing": X[:9, :, 1:4, 1:4], "random_state": 0}
    options |= {"noise_variance": 0.01, "dtype": precision, "variance": variance}
    spec = PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=1.5)
    kept = PatchGPClassifier(spec, **options).fit(X, y)
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 20)
    given = X.copy()
    gp = PatchGPClassifier(spec, **options).fit(given, y)
    given[:] = 0.0  # the estimator has images of its own
    for of in (gp, kept):
        of.calibration_ = kept.calibration_
    tolerance = 1e-9 if precision == "float64" else 1e-4
    np.testing.assert_allclose(
        gp.loo_predict_proba(), kept.loo_predict_proba(), atol=tolerance
    )
    means, variances = (
        [of._leave_out().mean for of in (gp, kept)],
        [of._leave_out().var for of in (gp, kept)],
    )
    np.testing.assert_allclose(*means, atol=10 * tolerance)
    np.testing.assert_allclose(*variances, rtol=100 * tolerance)
    again = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(again.loo_predict(), gp.loo_predict())


def test_other_outputs():
    X, Z = images(), some_patches()
    gp = fitted(kernel(location_lengthscale=1.5), Z)
    _, cov = gp.predict_latent(X[N:], return_cov=True)
    std = gp.predict_latent(X[N:], return_std=True)[1]
    np.testing.assert_allclose(
        np.diagonal(cov, axis1=0, axis2=1).squeeze(),
        np.asarray(std)[:, 0] ** 2
        if np.asarray(cov).ndim == 2
        else np.asarray(std).T ** 2,
        rtol=1e-6,
    )
    assert gp.sample_y(X[N:], n_samples=3, random_state=0).shape[0] == N_NEW
    low, high = np.moveaxis(gp.predict_interval(X[N:]), -1, 0)
    assert np.all(low < gp.predict(X[N:]))
    assert np.all(gp.predict(X[N:]) < high)


def test_gradient_by_pixels_is_that_of_differences():
    X, Z = images(), some_patches()
    gp = fitted(kernel(location_lengthscale=1.5), Z)
    gradient = np.asarray(gp.latent_gradient(X[N:]))
    step = np.zeros_like(X[N:])
    step[:, 0, 2, 3] = 1e-5
    slopes = (gp.predict(X[N:] + step) - gp.predict(X[N:] - step)) / 2e-5
    gradient = gradient.reshape(N_NEW, -1, SIDE * SIDE)[..., 2 * SIDE + 3]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore:Inducing patches explain")
def test_means_need_no_prior_variances(monkeypatch):
    gp = fitted(kernel(), some_patches())
    sor = fitted(kernel(), some_patches(), variance="sor")

    def fail(*_):
        pytest.fail("prior variances were computed")

    monkeypatch.setattr(
        "skconvgp.processes.basis._inducing.InducingSet.variances", fail
    )
    gp.predict(images())
    sor.predict(images(), return_std=True)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"kernel": rbf(1.0)}, "PatchKernel"),
        ({"kernel": "precomputed"}, "PatchKernel"),
        ({"n_inducing": 0}, "n_inducing"),
        ({"n_inducing": "x"}, "n_inducing"),
        ({"n_locations": 0}, "n_locations"),
        ({"n_locations": (1, 2, 3)}, r"n_locations.*\(height, width\)"),
        ({"inducing": "x"}, "inducing"),
        ({"inducing": np.ones((3, 5))}, "inducing"),
        ({"inducing": np.full((3, 9), np.nan)}, "inducing"),
        ({"inducing": [[1.0], [1.0, 2.0]]}, "inducing"),
        ({"inducing": None}, "inducing"),
        ({"variance": "fitc"}, "variance"),
        ({"dtype": "float16"}, "dtype"),
        (
            {"kernel": PatchKernel(patch_size=9, location_lengthscale=None)},
            "`patch_size`=9 .* 6x6",
        ),
        ({"kernel": kernel(stride=0)}, "`stride` must be an int from 1 to"),
        ({"kernel": kernel(location_lengthscale=0.0)}, "None means .* everywhere"),
        ({"kernel": kernel(weights=[1.0, 2.0])}, "P = 16 = 4 x 4 .* got 2"),
        ({"kernel": kernel(weights=np.zeros(16))}, "not all 0"),
        ({"kernel": kernel(weights=np.full(16, np.nan))}, "finite"),
        (
            {
                "kernel": PatchKernel(
                    Sequential(Conv2d(3, padding="valid"), ReLU()),
                    patch_size=PATCH,
                    location_lengthscale=None,
                ),
                "backend": "fused",
            },
            "fused",
        ),
    ],
)
def test_bad_settings_are_refused(settings, match):
    gp = PatchGPRegressor(**({"kernel": kernel()} | settings))
    X = np.eye(N) if settings.get("kernel") == "precomputed" else images()[:N]
    with pytest.raises(ValueError, match=match):
        gp.fit(X, targets()[:, 0])


def test_one_class_and_pixels_without_a_value_are_refused():
    X, y = digits(30)
    gp = PatchGPClassifier(n_inducing=4)
    with pytest.raises(ValueError, match=r"two classes.*one class.*'cat'"):
        gp.fit(X, ["cat"] * len(X))
    gp.fit(X, y)
    X[3, 0, 2, 2] = np.nan
    for call in (gp.predict, lambda X: gp.fit(X, y), lambda X: gp.partial_fit(X, y)):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            call(X)


def test_other_images_in_predict_are_refused():
    gp = fitted(kernel(), some_patches())
    with pytest.raises(ValueError, match="7"):
        gp.predict(np.zeros((2, 1, 7, 7)))


@pytest.mark.parametrize("likelihood", ["laplace"])
def test_likelihoods_that_do_not_work_are_refused(likelihood):
    X, y = digits(40)
    with pytest.raises(ValueError, match=r"(?i)gaussian"):
        PatchGPClassifier(likelihood=likelihood).fit(X, y)


def test_offsets_of_classes():
    X, y = digits(80)
    gp = PatchGPClassifier(likelihood=Gaussian(offsets=True), n_inducing=20)
    assert gp.fit(X, y).score(X, y) > 0.9


@pytest.mark.filterwarnings("ignore:All .* training samples are equal")
@pytest.mark.parametrize("how", ["kmeans", "uniform", "unique"])
def test_images_of_equal_patches_are_fitted(how):
    X = np.ones((8, 1, SIDE, SIDE))
    for spec in (None, kernel()):
        gp = PatchGPRegressor(spec, inducing=how).fit(X, np.arange(8.0))
        assert np.isfinite(gp.predict(X)).all()
        assert gp.fit_report_.n_inducing == (len(gp.inducing_patches_),) == (1,)
        is_told = "only 1 of 128 differ" in str(gp.fit_report_)
        assert is_told == (how != "unique")


@pytest.mark.parametrize(
    ("n", "channels", "expected"),
    [
        (4999, 3, 128),
        (5000, 1, 256),
        (19_999, 3, 256),
        (20_000, 1, 256),
        (20_000, 3, 400),
    ],
)
def test_number_of_patches_follows_the_images(n, channels, expected):
    X = np.random.default_rng(0).normal(size=(n, channels, 2, 2)).astype(np.float32)
    spec = PatchKernel(patch_size=2, normalization=None, location_lengthscale=None)
    gp = PatchGPRegressor(spec, noise_variance=1.0, random_state=0)
    gp.fit(X, X[:, 0, 0, 0])
    assert len(gp.inducing_patches_) == expected
    assert not gp.fit_report_.inducing_reason


@pytest.mark.parametrize(("free", "expected"), [(1.1, 128), (0.9, 64), (0.01, None)])
def test_number_of_patches_follows_the_memory(free, expected, monkeypatch):
    """For the matrices of 128 patches at 2x2 places, and features of 300 images."""
    r = 128 * 4
    n_bytes = int(free * 8 * (4 * r**2 + 300 * r))
    for module in ("processes.basis._inducing_sum", "engine._devices"):
        monkeypatch.setattr(f"skconvgp.{module}.free_memory", lambda *_: n_bytes)
    X = images(300, 1)
    spec = PatchKernel(patch_size=PATCH, location_lengthscale=2.0)
    settings = {"n_locations": 2, "noise_variance": 1.0, "random_state": 0}
    gp = PatchGPRegressor(spec, memory_budget="1 GiB", **settings)
    if expected is None:
        with pytest.raises(TileMemoryError, match="n_inducing"):
            gp.fit(X, X[:, 0, 0, 0])
        return
    gp.fit(X, X[:, 0, 0, 0])
    assert gp.fit_report_.n_inducing == (expected,)
    assert ("128 need" in gp.fit_report_.inducing_reason) == (expected < 128)
    with pytest.raises(TileMemoryError, match="n_inducing"):
        clone(gp).set_params(n_inducing=200).fit(X, X[:, 0, 0, 0])


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_channels_and_invariant_kernels(channels):
    X = images(40, channels)
    y = np.arange(40) % 2
    X[y == 1] += 5.0 * (np.arange(SIDE) % 2)
    for spec in (None, PatchKernel(patch_size=PATCH, location_lengthscale=None)):
        gp = PatchGPClassifier(spec, n_inducing=10, random_state=0).fit(X, y)
        assert gp.score(X, y) > 0.9


def test_the_named_kernel_is_the_default():
    X, y = digits(60)
    settings = {"n_inducing": 5, "random_state": 0}
    default, named, invariant = (
        PatchGPClassifier(spec, **settings).fit(X, y)
        for spec in (None, PatchKernel(), PatchKernel(location_lengthscale=None))
    )
    assert named.kernel_ == default.kernel_
    assert named.kernel_.location_lengthscale == 1.0  # an eighth of 8 pixels
    np.testing.assert_array_equal(named.predict_proba(X), default.predict_proba(X))
    assert clone(named).kernel.location_lengthscale == "auto"
    assert named.get_params()["kernel__location_lengthscale"] == "auto"
    assert invariant.kernel_.location_lengthscale is None
    assert len(invariant.locations_) == 1 < len(named.locations_)
    assert clone(invariant).kernel.location_lengthscale is None


def test_selection_of_the_patch_size_in_a_pipeline():
    X, y = digits(60)
    steps = make_pipeline(
        FunctionTransformer(np.sqrt),
        PatchGPClassifier(
            PatchKernel(location_lengthscale=None), n_inducing=8, random_state=0
        ),
    )
    name = "patchgpclassifier__kernel__patch_size"
    search = GridSearchCV(steps, {name: [2, 3]}, cv=2).fit(X, y)
    assert search.best_params_[name] in (2, 3)


@pytest.mark.parametrize(
    "base",
    [dense(1), convnet(1, 3, kind="ntk"), convnet_gap(1)],
    ids=["dense", "ntk", "average"],
)
def test_networks_compare_patches_in_single_precision(base):
    X, y = all_digits()
    compared = PatchKernel(base, patch_size=5)
    single, double = (
        PatchGPClassifier(compared, n_inducing=20, dtype=dtype, random_state=0)
        .fit(X[:60], y[:60])
        .predict_proba(X[60:80])
        for dtype in ("float32", "float64")
    )
    np.testing.assert_allclose(single, double, atol=5e-3)
    assert single.std() > 0.05
