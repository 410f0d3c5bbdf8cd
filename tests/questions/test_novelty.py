"""P-values of new samples."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    gram_matrix,
)
from skconvgp.kernels import rbf
from skconvgp.questions import novelty
from skconvgp.solvers import RefinedCholesky
from tests.helpers.conformal import (
    all_left_out,
    count_factors,
    novelty_p_value,
    units_of,
)
from tests.helpers.estimators import digits

NOISE = 1e-3  # of each question, as a share of the prior variance


def clouds(n, n_classes=3, seed=0):
    """Return points in the plane, around a centre for each class, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    angles = 2.0 * np.pi * y / n_classes
    centres = 2.0 * np.stack([np.cos(angles), np.sin(angles)], 1)
    return centres + rng.normal(size=(n, 2)), y


NEW = 4.0 * np.random.default_rng(5).normal(size=(12, 2))


def p_values(gp, X, y, new, *, groups=None, weights=None, of_labels=None):
    """Return p-values by refits."""
    k = len(gp.classes_)
    weights = np.ones(len(X)) if weights is None else weights
    of_labels = np.ones(k) if of_labels is None else of_labels
    code = np.eye(k) * (1.0 + 1.0 / (k - 1)) - 1.0 / (k - 1)
    return [
        novelty_p_value(
            gram_matrix(gp.kernel_, np.vstack([X, one[None]]))
            / gp._process.model.mean_diag,
            NOISE / weights,
            code,
            y,
            units_of(X, groups),
            weights,
            new_noise=NOISE / of_labels,
        )
        for one in new
    ]


@pytest.mark.parametrize("noise", ["loo", 0.5, NOISE])
def test_p_values_are_those_of_refits(noise):
    X, y = clouds(40)
    gp = ConvNetGPClassifier(rbf(2.0), noise_variance=noise).fit(X, y)
    expected = p_values(gp, X, y, NEW)
    assert len(set(expected)) > 3
    np.testing.assert_allclose(novelty(gp, NEW), expected)


def test_copies_and_groups_are_one_unit():
    X, y = clouds(24)
    X, y = np.vstack([X, X[:6]]), np.concatenate([y, y[:3], (y[3:6] + 1) % 3])
    gp = ConvNetGPClassifier(rbf(2.0), noise_variance=0.1).fit(X, y)
    np.testing.assert_allclose(novelty(gp, NEW), p_values(gp, X, y, NEW))
    X, y = clouds(40)
    groups = np.arange(40) // 2
    gp = ConvNetGPClassifier(rbf(2.0), noise_variance=0.1).fit(X, y, groups=groups)
    expected = p_values(gp, X, y, NEW, groups=groups)
    np.testing.assert_allclose(novelty(gp, NEW), expected)


def test_new_samples_have_the_weights_of_classes():
    X, y = clouds(40)
    class_weight = {0: 1.0, 1: 30.0, 2: 0.05}
    gp = ConvNetGPClassifier(rbf(2.0), class_weight=class_weight).fit(X, y)
    of_labels = np.array(list(class_weight.values()))
    expected = p_values(gp, X, y, NEW, weights=of_labels[y], of_labels=of_labels)
    np.testing.assert_allclose(novelty(gp, NEW), expected)


def test_weights_of_classes_are_no_numbers_of_samples():
    X, y = clouds(40, 2)
    groups, of_labels = np.arange(40) // 2, np.array([1.0, 30.0])
    assert (y[::2] != y[1::2]).any()
    gp = ConvNetGPClassifier(rbf(2.0), class_weight={0: 1.0, 1: 30.0})
    gp.fit(X, y, groups=groups)
    expected = [
        novelty_p_value(
            gram_matrix(gp.kernel_, np.vstack([X, one[None]]))
            / gp._process.model.mean_diag,
            NOISE / of_labels[y],
            2.0 * np.eye(2) - 1.0,
            y,
            groups,
            np.ones(40),
            new_noise=NOISE / of_labels,
        )
        for one in NEW
    ]
    np.testing.assert_allclose(novelty(gp, NEW), expected)


def test_targets_of_a_regression_do_not_matter():
    X, y = clouds(40)
    gp = ConvNetGPRegressor(rbf(2.0), noise_variance=0.3)
    found = novelty(gp.fit(X, y), NEW)
    np.testing.assert_array_equal(novelty(gp.fit(X, np.exp(X[:, 0])), NEW), found)
    for one, p_value in zip(NEW, found, strict=True):
        gram = gram_matrix(gp.kernel_, np.vstack([X, one[None]]))
        noise, units = np.full(41, NOISE), np.arange(41)
        _, var = all_left_out(gram, noise, np.zeros((41, 1)), units)
        np.testing.assert_allclose(p_value, (var >= var[-1] - 1e-9).mean())


def test_a_given_matrix_has_the_p_values_of_its_kernel():
    X, y = clouds(40)
    gp = ConvNetGPClassifier(rbf(2.0)).fit(X, y)
    gram = ConvNetGPClassifier("precomputed").fit(gram_matrix(gp.kernel_, X), y)
    cross = gram_matrix(gp.kernel_, NEW, X)
    found = novelty(gram, cross, diag=np.ones(12))
    np.testing.assert_allclose(found, novelty(gp, NEW))


def test_an_image_of_nothing_is_new():
    X, y = digits(120)
    gp = ImageClassifier().fit(X[:110], y[:110])
    strange = np.stack([np.zeros_like(X[0]), np.ones_like(X[0])])
    assert novelty(gp, strange).max() < 0.05
    assert np.median(novelty(gp, X[110:])) > 0.2


def test_one_factorisation_is_kept(monkeypatch):
    X, y = clouds(30)
    gp = ConvNetGPClassifier(rbf(2.0)).fit(X, y)
    counted = count_factors(monkeypatch)
    first = novelty(gp, NEW)
    assert counted == [30]
    np.testing.assert_array_equal(novelty(gp, NEW), first)
    assert counted == [30]
    gp.fit(X[:20], y[:20])
    counted.clear()
    assert not np.array_equal(novelty(gp, NEW), first)
    assert counted == [20]


def test_what_is_kept_is_not_part_of_the_model():
    X, y = clouds(30)
    gp = ConvNetGPClassifier(rbf(2.0)).fit(X, y)
    before = pickle.dumps(gp)
    found = novelty(gp, NEW)
    assert pickle.dumps(gp) == before
    np.testing.assert_array_equal(novelty(pickle.loads(before), NEW), found)


def test_a_row_has_the_same_p_value_among_others():
    X, y = clouds(60)
    new, _ = clouds(300, seed=1)
    gp = ConvNetGPClassifier(rbf(2.0)).fit(X, y)
    together = novelty(gp, new)
    apart = [novelty(gp, new[i : i + 1])[0] for i in range(0, 300, 17)]
    np.testing.assert_allclose(together[::17], apart)


@pytest.mark.parametrize("n_draws", [40, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cls", [ConvNetGPClassifier, ConvNetGPRegressor])
def test_samples_like_the_others_are_rarely_new(cls, n_draws):
    """Draws of models with frozen settings: the bound is of four deviations."""
    alarms = []
    for seed in range(n_draws):
        X, y = clouds(64, seed=seed)
        gp = cls(rbf(2.0), noise_variance=0.1).fit(X[:59], y[:59])
        alarms.append((novelty(gp, X[59:])[:, None] <= [0.1, 0.2, 0.4]).mean(0))
    deviation = np.std(alarms, axis=0) / np.sqrt(n_draws)
    assert (np.mean(alarms, 0) <= [0.1, 0.2, 0.4] + 4.0 * deviation).all()
    if cls is ConvNetGPRegressor:  # one score, whose p-value is a rank
        assert (np.mean(alarms, 0) >= [0.08, 0.18, 0.38] - 4.0 * deviation).all()


def test_the_smallest_p_value_is_as_documented():
    X, y = clouds(39)
    far = [[1e3, 1e3]]
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    np.testing.assert_allclose(novelty(gp, far), 2.0 / 40.0)
    np.testing.assert_allclose(
        novelty(ConvNetGPRegressor(rbf(1.0)).fit(X, y), far), 1.0 / 40.0
    )


def test_two_samples_are_never_new():
    gp = ConvNetGPClassifier(rbf(2.0)).fit([[0.0], [1.0]], [0, 1])
    assert novelty(gp, [[0.5], [30.0]]).min() >= 2.0 / 3.0


def test_wrong_estimators_are_refused():
    X, y = clouds(30)
    with pytest.raises(NotFittedError):
        novelty(ConvNetGPClassifier(), X)
    gp = ConvNetGPClassifier(rbf(2.0), solver=RefinedCholesky()).fit(X, y)
    with pytest.raises(ValueError, match=r"`novelty`: .* fit with solver='cholesky'"):
        novelty(gp, X)
