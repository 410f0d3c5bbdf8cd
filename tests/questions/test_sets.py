"""Sets of labels."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    KernelFlowsClassifier,
    NystromCompletedGP,
    gram_matrix,
)
from skconvgp.flows import Adam
from skconvgp.kernels import rbf
from skconvgp.likelihoods import Gaussian
from skconvgp.questions import _sets, prediction_set
from skconvgp.solvers import RefinedCholesky
from tests.helpers.conformal import count_factors, label_p_values, units_of
from tests.helpers.estimators import digits

LEVELS = np.linspace(0.02, 0.98, 25)


def spiral(n, n_classes=3, seed=0, noise=0.4):
    """Return points in the plane, and labels, some of which are wrong."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    angles = 2.0 * np.pi * y / n_classes
    centres = np.stack([np.cos(angles), np.sin(angles)], 1)
    return centres + noise * rng.normal(size=(n, 2)), rng.permutation(n_classes)[y]


def code(k):
    """Return the targets of each of k labels."""
    return np.eye(k) * (1.0 + 1.0 / (k - 1)) - 1.0 / (k - 1)


def p_values(gp, X, y, new, *, weights=None, groups=None, by_class=False):
    """Return the p-value of each label of each new sample, by refits."""
    weights = np.ones(len(X)) if weights is None else np.asarray(weights)
    k = len(gp.classes_)
    codes = np.searchsorted(gp.classes_, y)
    unit = gp._process.model.mean_diag
    found = []
    for one in new:
        gram = gram_matrix(gp.kernel_, np.vstack([X, one[None]])) / unit
        noise = gp.noise_variance_
        found.append(
            label_p_values(
                gram,
                noise / weights,
                code(k),
                codes,
                units_of(X, groups),
                weights,
                new_noise=np.full(k, noise),
                by_class=by_class,
            )
        )
    return np.array(found)


def check(gp, new, expected, **options):
    """Compare sets of many levels with those that p-values give."""
    for level in LEVELS:
        found = prediction_set(gp, new, level, **options)
        # No p-value is as near to a level as rounding.
        np.testing.assert_array_equal(found, expected > 1.0 - level + 1e-9)


@pytest.mark.filterwarnings("ignore:Every set", "ignore:The classes")
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_sets_are_those_of_refits(n_classes, by_class):
    X, y = spiral(40, n_classes, noise=0.7)
    new, _ = spiral(7, n_classes, seed=1, noise=1.0)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.2).fit(X, y)
    expected = p_values(gp, X, y, new, by_class=by_class)
    assert 0.0 < (expected > 0.1).mean() < 1.0
    check(gp, new, expected, by_class=by_class)


def copied(X, y):
    """Return the samples and copies of some, a few of them with other labels."""
    others = np.roll(np.unique(y), 1)[np.searchsorted(np.unique(y), y)]
    return np.vstack([X, X[:6], X[:3]]), np.concatenate([y, y[:6], others[:3]])


@pytest.mark.filterwarnings("ignore:Every set", "ignore:The classes")
@pytest.mark.parametrize("by_class", [False, True])
def test_copies_are_one_unit(by_class):
    X, y = copied(*spiral(24, noise=0.7))
    new, _ = spiral(5, seed=1, noise=1.0)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.2).fit(X, y)
    check(gp, new, p_values(gp, X, y, new, by_class=by_class), by_class=by_class)


@pytest.mark.filterwarnings("ignore:Every set", "ignore:The classes")
@pytest.mark.parametrize("by_class", [False, True])
def test_a_group_is_one_unit(by_class):
    X, y = spiral(40, noise=0.7)
    new, _ = spiral(5, seed=1, noise=1.0)
    groups = np.arange(40) // 3  # some of two or three labels
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.2).fit(X, y, groups=groups)
    expected = p_values(gp, X, y, new, groups=groups, by_class=by_class)
    check(gp, new, expected, by_class=by_class)


@pytest.mark.filterwarnings("ignore:Every set", "ignore:The classes")
def test_groups_have_copies():
    X, y = copied(*spiral(24, noise=0.7))
    groups = np.concatenate([np.arange(24), np.arange(6), np.arange(3)]) // 2
    new, _ = spiral(5, seed=1, noise=1.0)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.2).fit(X, y, groups=groups)
    check(gp, new, p_values(gp, X, y, new, groups=groups))


@pytest.mark.filterwarnings("ignore:Every set", "ignore:The classes")
@pytest.mark.parametrize("by_class", [False, True])
def test_a_weight_is_a_number_of_copies(by_class):
    X, y = spiral(30, noise=0.7)
    new, _ = spiral(5, seed=1, noise=1.0)
    weights = 1 + np.arange(30) % 3
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.2)
    weighted = gp.fit(X, y, sample_weight=weights)
    expected = p_values(gp, X, y, new, weights=weights, by_class=by_class)
    check(weighted, new, expected, by_class=by_class)
    copies = gp.fit(np.repeat(X, weights, 0), np.repeat(y, weights))
    check(copies, new, expected, by_class=by_class)


@pytest.mark.filterwarnings("ignore:Every set")
def test_samples_of_weight_zero_do_not_count():
    X, y = spiral(30, noise=0.7)
    new, _ = spiral(5, seed=1, noise=1.0)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.2)
    gp.fit(X, y, sample_weight=np.arange(30) < 24)
    check(gp, new, p_values(gp, X[:24], y[:24], new))


@pytest.mark.filterwarnings("ignore:Every set")
@pytest.mark.parametrize("class_weight", [{0: 1.0, 1: 3.0, 2: 0.5}, "balanced"])
def test_new_samples_have_the_weights_of_classes(class_weight):
    X, y = spiral(33, noise=0.7)
    X, y = X[y + np.arange(33) > 5], y[y + np.arange(33) > 5]  # classes differ in size
    new, _ = spiral(5, seed=1, noise=1.0)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.2, class_weight=class_weight)
    gp.fit(X, y)
    if class_weight == "balanced":
        class_weight = dict(enumerate(len(y) / (3.0 * np.bincount(y))))
    weights, noise = np.array([class_weight[one] for one in y]), gp.noise_variance_
    of_labels = np.array([class_weight[one] for one in range(3)])
    unit = gp._process.model.mean_diag
    expected = [
        label_p_values(
            gram_matrix(gp.kernel_, np.vstack([X, one[None]])) / unit,
            noise / weights,
            code(3),
            y,
            np.arange(len(y)),
            np.ones(len(y)),
            new_noise=noise / of_labels,
        )
        for one in new
    ]
    check(gp, new, np.array(expected))


@pytest.mark.filterwarnings("ignore:Every set")
@pytest.mark.parametrize("sample_weight", [1, 2])
def test_weights_of_classes_are_no_numbers_of_samples(sample_weight):
    X, y = spiral(40, 2, noise=0.7)
    new, _ = spiral(5, 2, seed=1, noise=1.0)
    groups = np.arange(40) // 2  # one sample of each label
    weights = np.where(y == groups % 2, sample_weight, 1)
    of_labels = np.array([1.0, 20.0])
    gp = ConvNetGPClassifier(
        rbf(1.0), noise_variance=0.2, class_weight={0: 1.0, 1: 20.0}
    )
    gp.fit(X, y, sample_weight=weights, groups=groups)
    noise, unit = gp.noise_variance_, gp._process.model.mean_diag
    expected = [
        label_p_values(
            gram_matrix(gp.kernel_, np.vstack([X, one[None]])) / unit,
            noise / weights / of_labels[y],
            code(2),
            y,
            groups,
            weights,
            new_noise=noise / of_labels,
        )
        for one in new
    ]
    check(gp, new, np.array(expected))


def test_the_weight_of_a_new_sample_must_be_known():
    X, y = spiral(30)
    gp = ConvNetGPClassifier(rbf(1.0), class_weight="balanced")
    gp.fit(X, y, sample_weight=1.0 + np.arange(30) % 2)
    with pytest.raises(ValueError, match="pass a dict of weights"):
        prediction_set(gp, X[:2])


@pytest.mark.filterwarnings("ignore:Every set")
def test_a_given_matrix_has_the_sets_of_its_kernel():
    X, y = spiral(40, noise=0.7)
    new, _ = spiral(7, seed=1, noise=1.0)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.2).fit(X, y)
    expected = p_values(gp, X, y, new)
    gram = ConvNetGPClassifier("precomputed", noise_variance=0.2)
    gram.fit(gram_matrix(gp.kernel_, X), y)
    cross = gram_matrix(gp.kernel_, new, X)
    check(gram, cross, expected, diag=np.ones(7))
    with pytest.raises(ValueError, match="pass `diag`"):
        prediction_set(gram, cross)


@pytest.mark.filterwarnings("ignore:Every set")
@pytest.mark.parametrize(
    "gp",
    [
        ConvNetGPClassifier(rbf(1.0), solver=RefinedCholesky(tolerance=1e-10)),
        ConvNetGPClassifier(rbf(1.0), noise_variance="loo"),
        KernelFlowsClassifier(rbf(1.0), optimizer=Adam(max_iter=2), random_state=0),
    ],
    ids=["refined", "chosen noise", "flows"],
)
def test_solvers_and_searches_change_nothing(gp):
    X, y = spiral(40, noise=0.7)
    new, _ = spiral(7, seed=1, noise=1.0)
    gp.fit(X, y)
    check(gp, new, p_values(gp, X, y, new))


@pytest.mark.filterwarnings("ignore:Every set")
def test_offsets_of_classes_belong_to_the_prediction():
    X, y = spiral(40, noise=0.7)
    new, _ = spiral(20, seed=1, noise=1.0)
    gp = ConvNetGPClassifier(rbf(1.0), likelihood=Gaussian(offsets=True)).fit(X, y)
    assert any(gp.calibration_.offsets)
    found = prediction_set(gp, new, 0.001, allow_empty=False)
    assert (found.sum(1) == 1).any()
    single = found[found.sum(1) == 1]
    predicted = gp.predict(new[found.sum(1) == 1])
    np.testing.assert_array_equal(gp.classes_[single.argmax(1)], predicted)


def test_images_have_the_sets_of_their_matrix():
    X, y = digits(60)
    y, new = y % 3, digits(5, start=200)[0]
    gp = ImageClassifier().fit(X, y)
    both = np.vstack([X.reshape(60, -1), new.reshape(5, -1)])
    gram, expected = gp._gram_of(both), []  # in the unit of the process
    for i in range(60, 65):
        some = np.append(np.arange(60), i)
        expected.append(
            label_p_values(
                gram[np.ix_(some, some)],
                np.full(60, gp.noise_variance_),
                code(3),
                y,
                np.arange(60),
                np.ones(60),
                new_noise=np.full(3, gp.noise_variance_),
            )
        )
    check(gp, new, np.array(expected))


def test_a_row_has_the_same_set_among_others():
    X, y = spiral(60, 4, noise=0.8)
    new, _ = spiral(300, 4, seed=1, noise=1.0)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    together = prediction_set(gp, new)
    apart = [prediction_set(gp, new[i : i + 1])[0] for i in range(0, 300, 17)]
    np.testing.assert_array_equal(together[::17], apart)


def test_sets_grow_with_the_level_and_empty_ones_get_the_prediction():
    X, y = spiral(60, noise=0.5)
    new, _ = spiral(40, seed=1, noise=0.5)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    low, high = prediction_set(gp, new, 0.5), prediction_set(gp, new, 0.95)
    assert (low <= high).all()
    empty = ~low.any(1)
    assert empty.any()
    filled = prediction_set(gp, new, 0.5, allow_empty=False)
    np.testing.assert_array_equal(filled[~empty], low[~empty])
    np.testing.assert_array_equal(filled[empty].sum(1), 1)
    labels = gp.classes_[filled[empty].argmax(1)]
    np.testing.assert_array_equal(labels, gp.predict(new[empty]))


@pytest.mark.filterwarnings("ignore:Every set")
def test_equal_scores_count():
    # Two inputs and their mirror images: each margin occurs twice.
    X = np.array([[1.0, 0.2], [1.0, -0.2], [-1.0, 0.2], [-1.0, -0.2]])
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.1).fit(X, [0, 0, 1, 1])
    new = np.array([[1.0, 0.0]])
    expected = p_values(gp, X, np.array([0, 0, 1, 1]), new)
    assert expected[0, 0] == 1.0
    check(gp, new, expected)


@pytest.mark.filterwarnings("ignore:All samples")
def test_two_samples_are_too_few():
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.1).fit([[0.0], [1.0]], [0, 1])
    with pytest.warns(UserWarning, match="takes 9 training samples"):
        assert prediction_set(gp, [[0.4]]).all()
    expected = p_values(gp, np.array([[0.0], [1.0]]), [0, 1], np.array([[0.1], [0.9]]))
    found = prediction_set(gp, [[0.1], [0.9]], 0.3)
    np.testing.assert_array_equal(found, expected > 0.7)


def test_a_small_class_is_in_every_set_and_is_named():
    X, y = spiral(60, noise=0.2)
    rare = np.flatnonzero(y == 2)[5:]
    X, y = np.delete(X, rare, 0), np.delete(y, rare)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, np.array(["a", "b", "few"])[y])
    with pytest.warns(
        UserWarning, match=r"classes \['few'\] are in every set.*takes 9"
    ):
        found = prediction_set(gp, X, by_class=True)
    assert found[:, 2].all()
    assert not found[:, :2].all()


@pytest.mark.parametrize("n_draws", [30, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("by_class", [False, True])
def test_the_true_label_is_in_the_set_as_often_as_promised(by_class, n_draws):
    """Draws of models with frozen settings: the bound is of four deviations."""
    n, n_new, level, hits = 60, 4, 0.8, []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 3, n + n_new)
        X = np.stack([np.cos(2.1 * y), np.sin(2.1 * y)], 1)
        X += rng.normal(size=(n + n_new, 2))
        gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.5).fit(X[:n], y[:n])
        found = prediction_set(gp, X[n:], level, by_class=by_class)
        codes = np.searchsorted(gp.classes_, y[n:])
        hits.append(found[np.arange(n_new), codes].mean())
    deviation = np.std(hits) / np.sqrt(n_draws)
    slack = 1.0 / (20.0 if by_class else n)  # of ranks
    assert level - 4.0 * deviation <= np.mean(hits) <= level + slack + 4.0 * deviation


def test_blocks_are_small_for_many_copies(monkeypatch):
    sizes, count = [], _sets.label_counts

    def counting(augmented, codes, *others):
        sizes.append(len(augmented.gain) * len(codes) * 2)
        return count(augmented, codes, *others)

    monkeypatch.setattr(_sets, "label_counts", counting)
    X = np.repeat(np.arange(4.0)[:, None], 1000, 0)
    y = np.tile([0, 1], 2000)
    for gp in (
        ConvNetGPClassifier(rbf(1.0)).fit(X[::10], np.tile([0, 1], 200)),
        NystromCompletedGP(rbf(1.0), n_landmarks=2, random_state=0).fit(X, y),
    ):
        prediction_set(gp, np.linspace(-1.1, 4.1, 800)[:, None], 0.2)
    assert 2**15 < max(sizes) <= 2**17


def test_nothing_is_factored_again(monkeypatch):
    X, y = spiral(40)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    counted = count_factors(monkeypatch)
    prediction_set(gp, X[:3] + 0.1)
    assert counted == []


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, "high", None, np.nan])
def test_a_wrong_level_is_refused(level):
    X, y = spiral(30)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    with pytest.raises(ValueError, match="`level` must be a number between 0 and 1"):
        prediction_set(gp, X, level)


def test_wrong_estimators_are_refused():
    X, y = spiral(30)
    with pytest.raises(NotFittedError):
        prediction_set(ConvNetGPClassifier(), X)
    with pytest.raises(TypeError, match="None is not an estimator instance"):
        prediction_set(None, X)
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    with pytest.raises(ValueError, match="use `prediction_interval`"):
        prediction_set(gp, X)
    with pytest.raises(ValueError, match="features"):
        prediction_set(ConvNetGPClassifier(rbf(1.0)).fit(X, y), X[:, :1])


@pytest.mark.filterwarnings("ignore:Every set")
def test_of_a_pipeline_or_a_search_the_fitted_part_is_named():
    X, y = spiral(30)
    gp = ConvNetGPClassifier(rbf(1.0))
    pipeline = make_pipeline(StandardScaler(), gp).fit(X, y)
    with pytest.raises(ValueError, match=r"use its last step, `pipeline\[-1\]`"):
        prediction_set(pipeline, X)
    prediction_set(pipeline[-1], pipeline[:-1].transform(X))
    search = GridSearchCV(gp, {"noise_variance": [0.1, 0.2]}, cv=2).fit(X, y)
    with pytest.raises(ValueError, match="use its `best_estimator_`"):
        prediction_set(search, X)


@pytest.mark.parametrize("name", ["by_class", "allow_empty"])
@pytest.mark.parametrize("value", ["no", None, 1])
def test_a_wrong_flag_is_refused(name, value):
    X, y = spiral(30)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    with pytest.raises(ValueError, match=f"`{name}` must be True or False"):
        prediction_set(gp, X, **{name: value})
