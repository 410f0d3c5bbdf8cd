"""Questions of processes of features, against dense refits with their covariances."""

import numpy as np
import pytest

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    gram_matrix,
)
from skconvgp.completion import RandomFeatures
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.processes.fits._feature_rows import whole_groups
from skconvgp.questions import novelty, prediction_interval, prediction_set
from tests.helpers.conformal import (
    count_factors,
    label_p_values,
    novelty_p_value,
    target_p_value,
    units_of,
)
from tests.helpers.estimators import digits

LEVELS = np.linspace(0.02, 0.98, 25)
NOISE = 0.2
FEW = {"n_landmarks": 8, "random_state": 0, "noise_variance": NOISE}
NEW = 2.0 * np.random.default_rng(5).normal(size=(5, 2))
ignored = pytest.mark.filterwarnings("ignore:Every set", "ignore:The classes")


def clouds(n, seed=0):
    """Return points in the plane, around a centre for each of three classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    angles = 2.0 * np.pi * y / 3
    centres = 1.5 * np.stack([np.cos(angles), np.sin(angles)], 1)
    return centres + rng.normal(size=(n, 2)), y


def covariances(gp, X):
    """Return products of features, and variances that they leave out, in the unit."""
    landmarks = gp.X_train_
    cross = gram_matrix(gp.kernel_, X, landmarks)
    explained = cross @ np.linalg.solve(gram_matrix(gp.kernel_, landmarks), cross.T)
    unit = gp._process.model.mean_diag
    return explained / unit, (1.0 - explained.diagonal()).clip(min=0.0) / unit


def is_no_landmark(gp, X, groups=None):
    """Return which samples are no landmarks, and of no group of a landmark."""
    is_landmark = (X[:, None] == gp.X_train_[None]).all(2).any(1)
    if groups is None:
        return ~is_landmark
    return ~np.isin(groups, groups[is_landmark])


def code():
    return np.eye(3) * 1.5 - 0.5


def noise_of(gp, unexplained):
    """Return the noise of single observations of all samples."""
    own = unexplained if gp.variance == "fitc" else 0.0
    return gp.noise_variance_ + own * np.ones(len(unexplained))


def p_values(gp, X, y, *, weights=None, groups=None, by_class=False):
    """Return the p-values of labels of new samples by refits."""
    weights, found = np.ones(len(X)) if weights is None else weights, []
    for one in NEW:
        gram, unexplained = covariances(gp, np.vstack([X, one[None]]))
        noise = noise_of(gp, unexplained)
        found.append(
            label_p_values(
                gram,
                noise[:-1] / weights,
                code(),
                y,
                units_of(X, groups),
                weights,
                new_noise=np.full(3, noise[-1]),
                by_class=by_class,
                counted=is_no_landmark(gp, X, groups),
            )
        )
    return np.array(found)


def check(gp, expected, **options):
    for level in LEVELS:
        found = prediction_set(gp, NEW, level, **options)
        np.testing.assert_array_equal(found, expected > 1.0 - level + 1e-9)


@ignored
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("variance", ["dtc", "sor", "fitc"])
def test_sets_are_those_of_refits(variance, by_class):
    X, y = clouds(40)
    gp = NystromCompletedGP(rbf(1.0), variance=variance, **FEW).fit(X, y)
    assert is_no_landmark(gp, X).sum() == 32
    check(gp, p_values(gp, X, y, by_class=by_class), by_class=by_class)


@ignored
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("variance", ["dtc", "sor", "fitc"])
def test_groups_are_units(variance, by_class):
    X, y = clouds(45)
    X = np.vstack([X, X[20:25]])  # copies, of the same groups
    y, groups = np.append(y, [0, 1, 2, 0, 1]), np.append(np.arange(45), range(20, 25))
    groups = groups // 2 + 3 * (groups > 40)
    gp = NystromCompletedGP(rbf(1.0), variance=variance, **FEW)
    gp.fit(X, y, groups=groups)
    assert 20 < is_no_landmark(gp, X, groups).sum() < 40
    expected = p_values(gp, X, y, groups=groups, by_class=by_class)
    check(gp, expected, by_class=by_class)
    assert np.abs(expected - p_values(gp, X, y, by_class=by_class)).max() > 0.02


@ignored
def test_groups_of_patches_are_units():
    X, y = digits(40)
    X, y, new = X[..., :4, :4], y % 3, digits(6, start=200)[0][..., :4, :4]
    kernel, settings = PatchKernel(rbf(2.0), patch_size=3), {"noise_variance": 0.1}
    patches = PatchGPClassifier(
        kernel, n_inducing=1000, random_state=0, dtype="float64", **settings
    )
    exact = ConvNetGPClassifier(kernel, **settings)
    for gp in (patches, exact):
        gp.fit(X, y, groups=np.arange(40) // 3)
    for level in LEVELS:
        found = prediction_set(patches, new, level)
        np.testing.assert_array_equal(found, prediction_set(exact, new, level))
    assert np.abs(novelty(patches, new) - novelty(exact, new)).max() < 0.1
    alone = ConvNetGPClassifier(kernel, **settings).fit(X, y)
    assert np.abs(novelty(patches, new) - novelty(alone, new)).max() > 0.05


def kept_units(units, *, as_groups):
    """Return the numbers of units of which features are kept, after a check of them."""
    X, y = clouds(len(units))
    groups = units if as_groups else None
    if not as_groups:  # units are copies
        X = X[np.unique(units, return_index=True)[1]][units]
    gp = NystromCompletedGP(rbf(1.0), n_landmarks=3, random_state=0, noise_variance=0.2)
    gp.fit(X, y, groups=groups)
    kept = gp._process.growth.reservoir.rows.samples
    assert 480 < len(kept) <= 500
    found = np.bincount(units[kept], minlength=units.max() + 1)
    np.testing.assert_array_equal(found[found > 0], np.bincount(units)[found > 0])
    return np.flatnonzero(found)


@pytest.mark.parametrize("as_groups", [True, False])
def test_units_are_kept_as_a_whole_whatever_their_size(as_groups):
    """Every second unit has nine samples, the others have one."""
    sizes = np.tile([9, 1], 150)
    units = np.repeat(np.arange(300), sizes)
    kept = kept_units(units, as_groups=as_groups)
    share, deviation = np.mean(kept % 2 == 0), 0.5 / np.sqrt(len(kept))
    assert abs(share - 0.5) < 3.0 * deviation  # by their first keys nine in ten


def test_sizes_of_groups_do_not_decide_which_are_kept():
    groups = np.repeat(np.arange(60), np.tile([9, 1], 30))
    rng, shares = np.random.default_rng(0), []
    for _ in range(400):
        kept = whole_groups(rng.permutation(len(groups)), groups, 100)
        assert len(kept) <= 100
        shares.append(np.mean(np.unique(groups[kept]) % 2 == 0))
    # A large group ends the row of those that have room.
    assert 0.44 < np.mean(shares) < 0.51
    largest = whole_groups(rng.permutation(9), np.zeros(9, int), 5)
    np.testing.assert_array_equal(largest, np.arange(9))


@ignored
def test_copies_and_weights_are_units():
    X, y = clouds(30)
    X, y = np.vstack([X, X[10:16]]), np.concatenate([y, y[10:13], (y[13:16] + 1) % 3])
    weights = 1.0 + np.arange(36) % 3
    gp = NystromCompletedGP(rbf(1.0), **FEW).fit(X, y, sample_weight=weights)
    check(gp, p_values(gp, X, y, weights=weights))


@ignored
def test_samples_that_were_added_count():
    X, y = clouds(40)
    gp = NystromCompletedGP(rbf(1.0), **FEW).fit(X[:20], y[:20])
    gp.partial_fit(X[20:], y[20:])
    check(gp, p_values(gp, X, y))


@pytest.mark.parametrize("groups", [None, np.arange(40) // 2])
def test_p_values_are_those_of_refits(groups):
    X, y = clouds(40)
    for variance in ("dtc", "sor"):
        gp = NystromCompletedGP(rbf(1.0), variance=variance, **FEW)
        gp.fit(X, y, groups=groups)
        expected = []
        for one in NEW:
            gram, unexplained = covariances(gp, np.vstack([X, one[None]]))
            expected.append(
                novelty_p_value(
                    gram,
                    np.full(40, 1e-3),
                    code(),
                    y,
                    units_of(X, groups),
                    np.ones(40),
                    new_noise=np.full(3, 1e-3),
                    unexplained=unexplained * (variance == "dtc"),
                    counted=is_no_landmark(gp, X, groups),
                )
            )
        np.testing.assert_allclose(novelty(gp, NEW), expected)
    gp = NystromCompletedGP(rbf(1.0), variance="fitc", **FEW).fit(X, y)
    with pytest.raises(ValueError, match="fit with variance='dtc'"):
        novelty(gp, NEW)


@pytest.mark.parametrize("copies", [0, 20])
@pytest.mark.parametrize("variance", ["dtc", "fitc"])
def test_intervals_are_those_of_refits(variance, copies):
    X, _ = clouds(60)
    X[40 : 40 + copies] = X[20 : 20 + copies]
    y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(0).normal(size=60)
    gp = NystromCompletedGPRegressor(rbf(1.0), variance=variance, **FEW).fit(X, y)
    counted = is_no_landmark(gp, X)
    found = prediction_interval(gp, NEW[:2], 0.8)
    for one, (lower, upper) in zip(NEW, found, strict=False):
        gram, unexplained = covariances(gp, np.vstack([X, one[None]]))
        noise, width = noise_of(gp, unexplained), upper - lower
        near = 1e-6 * width
        ends = [lower - near, lower + near, upper - near, upper + near]
        for target in [*np.linspace(lower - width, upper + width, 30), *ends]:
            p_value = target_p_value(
                gram,
                noise[:-1],
                (y - gp.y_mean_) / gp.y_scale_,
                (target - gp.y_mean_[0]) / gp.y_scale_[0],
                units_of(X, None),
                np.ones(60),
                new_noise=noise[-1],
                counted=counted,
            )
            assert (lower <= target <= upper) == (p_value > 0.2 + 1e-9)


@ignored
def test_all_patches_are_the_kernel():
    X, y = digits(40)
    X, y, new = X[..., :4, :4], y % 3, digits(6, start=200)[0][..., :4, :4]
    kernel, settings = PatchKernel(rbf(2.0), patch_size=3), {"noise_variance": 0.1}
    patches = PatchGPClassifier(
        kernel, n_inducing=1000, random_state=0, dtype="float64", **settings
    ).fit(X, y)
    exact = ConvNetGPClassifier(kernel, **settings).fit(X, y)
    for level in LEVELS:
        found = prediction_set(patches, new, level)
        np.testing.assert_array_equal(found, prediction_set(exact, new, level))
    # Variances differ a little, as patches that are nearly equal are left out.
    assert np.abs(novelty(patches, new) - novelty(exact, new)).max() < 0.1
    y = y + np.arange(40) / 7.0
    patches = PatchGPRegressor(
        kernel, n_inducing=1000, random_state=0, dtype="float64", **settings
    ).fit(X, y)
    exact = ConvNetGPRegressor(kernel, **settings).fit(X, y)
    found = prediction_interval(patches, new)
    np.testing.assert_allclose(found, prediction_interval(exact, new), rtol=0.02)


@ignored
def test_random_features_are_a_kernel():
    X, y = clouds(40)
    gp = ConvNetGPClassifier(
        rbf(1.0), completion=RandomFeatures(60), noise_variance=NOISE, random_state=0
    ).fit(X, y)
    expected = []
    for one in NEW:
        gram = gp._gram_of(np.vstack([X, one[None]]))
        expected.append(
            label_p_values(
                gram,
                np.full(40, NOISE),
                code(),
                y,
                np.arange(40),
                np.ones(40),
                new_noise=np.full(3, NOISE),
            )
        )
    check(gp, np.array(expected))


def test_single_precision_changes_little():
    X, _ = clouds(60)
    y, settings = np.sin(X[:, 0]), {"n_landmarks": 20, "random_state": 0}
    double = NystromCompletedGPRegressor(rbf(1.0), noise_variance=NOISE, **settings)
    single = NystromCompletedGPRegressor(
        rbf(1.0), noise_variance=NOISE, solve_dtype="float32", **settings
    )
    for gp in (double, single):
        gp.fit(X, y)
    found = prediction_interval(single, NEW)
    np.testing.assert_allclose(found, prediction_interval(double, NEW), rtol=1e-2)
    np.testing.assert_allclose(novelty(single, NEW), novelty(double, NEW), atol=0.05)


def test_landmarks_of_images_do_not_count():
    X, y = digits(60)
    gp = ImageClassifier([rbf(2.0)], n_landmarks=20, random_state=0).fit(X, y % 3)
    with pytest.warns(UserWarning, match="takes 49 training samples"):
        assert prediction_set(gp, X[:3], 0.98).all()  # 40 others


def test_landmarks_alone_do_not_answer():
    X, y = clouds(30)
    gp = NystromCompletedGP(rbf(1.0), n_landmarks=30, noise_variance=NOISE).fit(X, y)
    with pytest.raises(ValueError, match="fit with fewer landmarks"):
        prediction_set(gp, NEW)
    gp = NystromCompletedGP(rbf(1.0), **FEW).fit(X, y, groups=np.arange(30) // 10)
    with pytest.raises(ValueError, match="of the groups of these"):
        prediction_set(gp, NEW)


@pytest.mark.parametrize("n_draws", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_samples_like_the_others_are_rarely_new(n_draws):
    """Landmarks would seem less new than others: the bound is of four deviations."""
    alarms = []
    for seed in range(n_draws):
        X = np.random.default_rng(seed).normal(size=(65, 2))
        gp = NystromCompletedGPRegressor(rbf(0.7), n_landmarks=25, random_state=seed)
        gp.fit(X[:60], X[:60, 0])
        alarms.append((novelty(gp, X[60:])[:, None] <= [0.1, 0.2, 0.4]).mean(0))
    deviation = np.std(alarms, axis=0) / np.sqrt(n_draws)
    assert (np.mean(alarms, 0) <= [0.1, 0.2, 0.4] + 4.0 * deviation).all()


def test_one_factorisation_is_kept(monkeypatch):
    X, y = clouds(40)
    gp = NystromCompletedGP(rbf(1.0), **FEW).fit(X, y)
    counted = count_factors(monkeypatch)
    prediction_set(gp, NEW)
    assert counted == []
    novelty(gp, NEW)
    novelty(gp, NEW)
    assert counted == [8]


def test_what_features_do_not_answer_is_refused():
    X, y = clouds(40)
    gp = NystromCompletedGP(rbf(1.0), likelihood="dirichlet", **FEW).fit(X, y)
    with pytest.raises(ValueError, match="likelihood='gaussian'"):
        prediction_set(gp, NEW)
