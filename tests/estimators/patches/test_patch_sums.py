"""Sums of kernels in the estimators of patches, against dense formulas."""

import numpy as np
import pytest
import torch

from skconvgp import (
    ConvNetGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    gram_diag,
    gram_matrix,
)
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Flatten,
    PatchKernel,
    ReLU,
    Sequential,
    matern,
    rbf,
)
from skconvgp.processes.basis import _chosen_patches
from tests.helpers.estimators import all_digits

N, N_NEW, SIDE = 14, 5, 6
NOISE = 0.05
PLAIN = {
    "normalize_y": False,
    "noise_variance": NOISE,
    "amplitude": 2.5,
    "dtype": "float64",
}
NETWORK = Sequential(Conv2d(3), ReLU(), Flatten(), Dense())


def images(n=N + N_NEW, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 1, SIDE, SIDE))


def targets(n=N, seed=1):
    return np.random.default_rng(seed).normal(size=(n, 2)) + 1.0


def squares(one, two):
    one, two = one.reshape(len(one), -1), two.reshape(len(two), -1)
    return ((one[:, None] - two) ** 2).sum(-1)


def gaussian(one, two, length):
    return np.exp(-squares(one, two) / (2 * length**2))


def cut(x, size):
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (size, size))
    return windows.reshape(-1, size**2)


def explained(cross, among):
    """Return K_fu K_uu^-1 K_uf."""
    return cross @ np.linalg.solve(among, cross.T)


def explained_by_patches(X, Z, size, length, places, location_lengthscale):
    """Return what inducing patches of an rbf base at some places explain, by loops."""
    steps = np.arange(SIDE - size + 1.0)
    spots = np.array([(row, column) for row in steps for column in steps])
    by_place = gaussian(places, spots, location_lengthscale)
    cross = [by_place @ gaussian(cut(x, size), Z, length) for x in X]
    cross = np.array(cross).reshape(len(X), -1) / np.sqrt(len(spots))
    among = gaussian(places, places, location_lengthscale)
    return explained(cross, np.kron(among, gaussian(Z, Z, length)))


def fitted(kernel, X=None, **settings):
    X = images()[:N] if X is None else X
    return PatchGPRegressor(kernel, **(PLAIN | settings)).fit(X, targets(len(X)))


def two_sizes():
    """Return a nested sum of three terms with factors 1.4, 0.3 and 0.4."""
    small = PatchKernel(rbf(2.0), patch_size=3, location_lengthscale=1.5)
    large = PatchKernel(rbf(4.0), patch_size=4, location_lengthscale=2.0)
    return 2.0 * (0.7 * small + 0.2 * rbf(5.0)) + 0.3 * large


def given_patches():
    some = images(seed=5)
    return [
        np.concatenate([cut(x, 3)[::5] for x in some[:2]]),
        images(4, seed=6),
        np.concatenate([cut(x, 4)[::5] for x in some[:2]]),
    ]


def test_products_of_features_are_those_of_the_terms():
    X, Z = images(), given_patches()
    gp = fitted(two_sizes(), inducing=Z, n_locations=[2, "auto", (2, 1)])
    unit = gram_diag(two_sizes(), X[:N], dtype="float64").mean()
    inducing = gp._process.basis.inducing
    given = torch.as_tensor(X)
    F = inducing.features(given, backend="torch", dtype=torch.float64).numpy()
    small, no_places, large = gp.locations_
    assert (len(small), no_places, len(large)) == (4, None, 2)
    dense = 1.4 * explained_by_patches(X, Z[0], 3, 2.0, small, 1.5)
    dense += 0.4 * explained(gaussian(X, Z[1], 5.0), gaussian(Z[1], Z[1], 5.0))
    dense += 0.3 * explained_by_patches(X, Z[2], 4, 4.0, large, 2.0)
    np.testing.assert_allclose(unit * F @ F.T, dense, rtol=1e-8, atol=1e-10)
    assert F.shape[1] == len(gp.dual_coef_) == 4 * len(Z[0]) + 4 + 2 * len(Z[2])


@pytest.mark.parametrize("other", [rbf(3.0), matern(3.0), NETWORK], ids=repr)
def test_prior_variances_are_those_of_the_kernel(other):
    X = images()
    kernel = (
        0.7 * PatchKernel(rbf(2.0), patch_size=3, location_lengthscale=None)
        + 0.2 * other
    )
    gp = fitted(kernel, n_inducing=5)
    variances = gp._process.basis.inducing.variances(torch.as_tensor(X), "torch")
    dense = np.diag(gram_matrix(kernel, X, dtype="float64"))
    np.testing.assert_allclose(variances.numpy(), dense, rtol=1e-10)


@pytest.mark.parametrize("other", [0.5 * rbf(2.0), NETWORK], ids=repr)
def test_all_patches_and_all_images_are_the_exact_process(other):
    # Each patch of few different ones, so that nothing is cut.
    rng = np.random.default_rng(0)
    blank = np.zeros((6, 1, SIDE, SIDE))
    blank[np.arange(6), 0, rng.integers(1, 5, 6), rng.integers(1, 5, 6)] = 3.0
    blank[:, 0, 0, 0] = np.arange(6)
    y = targets(6)
    settings = PLAIN | {"normalize_y": True, "amplitude": "profile"}
    kernel = PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=None) + other
    exact = ConvNetGPRegressor(kernel, **settings).fit(blank[:5], y[:5])
    gp = PatchGPRegressor(kernel, inducing="unique", **settings).fit(blank[:5], y[:5])
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


def test_a_factor_of_the_only_term_is_one_of_the_amplitude():
    X = images()
    kernel = PatchKernel(rbf(2.0), patch_size=3, location_lengthscale=1.5)
    one = fitted(kernel, n_inducing=9, random_state=0, amplitude=None)
    two = fitted(3.0 * kernel, n_inducing=9, random_state=0, amplitude=None)
    np.testing.assert_allclose(two.predict(X), one.predict(X), rtol=1e-10)
    assert two.amplitude_ == pytest.approx(3.0 * one.amplitude_)
    np.testing.assert_array_equal(two.locations_, one.locations_)
    np.testing.assert_array_equal(two.inducing_patches_, one.inducing_patches_)


def test_settings_follow_from_data_in_each_term():
    X, y = all_digits()
    parts = (
        PatchKernel(),
        rbf(),
        PatchKernel(patch_size=3, location_lengthscale=None),
    )
    gp = PatchGPClassifier(
        parts[0] + 0.1 * (parts[1] + parts[2]), n_inducing=8, random_state=0
    ).fit(X[:60], y[:60])
    used = gp.kernel_.parts[0], *gp.kernel_.parts[1].kernel.parts
    assert used == tuple(part.resolve(X[:60]) for part in parts)
    shapes = [one.shape for one in gp.inducing_patches_]
    assert shapes == [(8, 1, 5, 5), (8, 1, 8, 8), (8, 1, 3, 3)]


def test_numbers_of_each_term():
    kernel = (
        PatchKernel(patch_size=3, location_lengthscale=None)
        + rbf(2.0)
        + PatchKernel(patch_size=4, location_lengthscale=None)
    )
    how = ["kmeans", "unique", "uniform"]
    gp = fitted(kernel, inducing=how, n_inducing=[3, "auto", 5])
    assert [len(one) for one in gp.inducing_patches_] == [3, N, 5]
    assert f"3 + {N} + 5 patches\n" in str(gp.fit_report_)


def test_many_inducing_images_are_chosen_among_many(monkeypatch):
    monkeypatch.setattr(_chosen_patches, "SAMPLED_IMAGES", 10)
    kernel = PatchKernel(patch_size=3, location_lengthscale=None) + rbf(2.0)
    gp = fitted(kernel, images(60), n_inducing=[4, 15])
    assert len(gp.inducing_patches_[1]) == 15


def test_gradient_by_pixels_is_that_of_differences():
    X = images()
    gp = fitted(two_sizes(), inducing=given_patches())
    gradient = np.asarray(gp.latent_gradient(X[N:])).reshape(N_NEW, -1, SIDE**2)
    step = np.zeros_like(X[N:])
    step[:, 0, 2, 3] = 1e-5
    slopes = (gp.predict(X[N:] + step) - gp.predict(X[N:] - step)) / 2e-5
    np.testing.assert_allclose(
        gradient[..., 2 * SIDE + 3], slopes, rtol=1e-5, atol=1e-7
    )


def test_jobs_and_budget_do_not_change_the_result():
    X, new, Z = images(70), images(6, seed=8), given_patches()
    one = fitted(two_sizes(), X, inducing=Z)
    two = fitted(two_sizes(), X, inducing=Z, n_jobs=2)
    np.testing.assert_array_equal(one.predict(new), two.predict(new))
    three = fitted(two_sizes(), X, inducing=Z, memory_budget="20 MB")
    np.testing.assert_allclose(one.predict(new), three.predict(new), rtol=1e-9)
    with pytest.raises(TileMemoryError, match="patches of a single image need"):
        fitted(two_sizes(), X, inducing=Z, memory_budget="1 kB")


PATCHES = PatchKernel(rbf(2.0), patch_size=3, location_lengthscale=None)
TWO = PATCHES + rbf(2.0)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"kernel": PATCHES * rbf(2.0)}, "sum of PatchKernels"),
        ({"kernel": 2.0 * (PATCHES * rbf(2.0)) + PATCHES}, "sum of PatchKernels"),
        ({"kernel": rbf(1.0) + matern(1.0)}, "NystromCompletedGPRegressor"),
        (
            {"kernel": rbf(1.0) + PatchKernel(patch_size=9, location_lengthscale=None)},
            "patch_size",
        ),
        ({"kernel": TWO, "n_inducing": [3, 4, 5]}, "n_inducing.*list.*which has 2"),
        ({"kernel": TWO, "n_inducing": [3, 0]}, "n_inducing.*int >= 1"),
        ({"kernel": TWO, "n_inducing": (3, 4)}, "n_inducing.*int >= 1.*a list"),
        ({"kernel": PATCHES, "n_inducing": [3, 4]}, "n_inducing.*list.*which has 1"),
        ({"kernel": TWO, "n_locations": [3]}, r"n_locations.*\(height, width\).*has 2"),
        ({"kernel": PATCHES, "n_locations": [3, 2]}, r"\(height, width\).*which has 1"),
        ({"kernel": TWO, "n_locations": [3, (1, 2, 3)]}, "n_locations"),
        ({"kernel": TWO, "inducing": ["unique"]}, "inducing.*list.*which has 2"),
        ({"kernel": TWO, "inducing": ("unique", "unique")}, "inducing.*a list"),
        ({"kernel": TWO, "inducing": ["unique", "x"]}, "inducing"),
        ({"kernel": TWO, "inducing": [np.ones((3, 9)), np.ones((3, 9))]}, r"1, 6, 6"),
        ({"kernel": PATCHES + NETWORK, "backend": "fused"}, "fused"),
    ],
)
def test_bad_settings_are_refused(settings, match):
    gp = PatchGPRegressor(**settings)
    with pytest.raises(ValueError, match=match):
        gp.fit(images()[:N], targets()[:, 0])


def test_a_product_of_kernels_of_images_is_a_term():
    gp = fitted(PATCHES + rbf(2.0) * matern(3.0), n_inducing=5)
    assert [one.shape for one in gp.inducing_patches_] == [(5, 1, 3, 3), (5, 1, 6, 6)]


@pytest.mark.filterwarnings("ignore:Variational inference ended after 3 epochs")
@pytest.mark.parametrize("settings", [{}, {"likelihood": "softmax", "max_iter": 3}])
def test_two_halves_of_a_kernel_are_the_kernel(settings):
    X, y = all_digits()
    kernel = PatchKernel(rbf(8.0), patch_size=3, location_lengthscale=2.0)
    Z = PatchGPClassifier(kernel, n_inducing=6, random_state=0)
    Z = Z.fit(X[:50], y[:50]).inducing_patches_
    settings = {"random_state": 0, "noise_variance": 0.01} | settings
    settings |= {"dtype": "float64"}
    one, two = (
        PatchGPClassifier(spec, inducing=how, **settings).fit(X[:90], y[:90])
        for spec, how in ((kernel, Z), (0.5 * kernel + 0.5 * kernel, [Z, Z]))
    )
    assert len(two.dual_coef_) == 2 * len(one.dual_coef_)
    np.testing.assert_allclose(
        two.predict_proba(X[90:120]), one.predict_proba(X[90:120]), rtol=1e-6
    )
    assert two.elbo() == pytest.approx(one.elbo(), rel=1e-7)


def test_batches_of_images_are_one_fit():
    X, y, Z = images(), targets(N), given_patches()
    diag = gram_diag(two_sizes(), X[:N], dtype="float64")
    ratio = diag[:6].mean() / diag.mean()  # the first batch sets the unit
    gp = PatchGPRegressor(two_sizes(), inducing=Z, **PLAIN)
    gp.partial_fit(X[:6], y[:6]).partial_fit(X[6:N], y[6:])
    units = {"noise_variance": NOISE * ratio, "amplitude": PLAIN["amplitude"] / ratio}
    whole = PatchGPRegressor(two_sizes(), inducing=Z, **(PLAIN | units))
    whole.fit(X[:N], y)
    for found, wanted in zip(
        gp.predict(X[N:], return_std=True),
        whole.predict(X[N:], return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)
