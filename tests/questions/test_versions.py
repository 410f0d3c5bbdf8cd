"""Questions of models with versions of images, against refits word for word."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, gram_matrix
from skconvgp.augmentation import Flip, Shift
from skconvgp.kernels import rbf
from skconvgp.questions import novelty, prediction_interval, prediction_set
from tests.helpers.conformal import all_left_out, margin, unit_shares
from tests.helpers.estimators import digits

LEVELS = np.linspace(0.02, 0.98, 25)
NOISE = 0.2
PARTS = [
    pytest.param([Flip()], id="flip"),
    pytest.param([Shift(1), Flip()], id="both", marks=pytest.mark.slow),
]
each_parts = pytest.mark.parametrize("parts", PARTS)
ignored = pytest.mark.filterwarnings("ignore:Every set", "ignore:The classes")


def images_and_labels(n_train=12):
    """Return images, labels, and new images; some are equal, and one is symmetric."""
    images, y = digits(n_train + 3)
    images = images.copy()
    images[3] = images[0]
    images[4] = images[4] + images[4][..., ::-1]
    return images[:n_train], y[:n_train] % 3, images[n_train:]


def versions_of(images, parts):
    """Return versions (v, n, d) of images, themselves first."""
    found = [torch.from_numpy(images)]
    for part in parts:
        found += [new for old in found for new in part.versions(old)]
    return torch.stack(found).flatten(2).numpy()


class Rows:
    """Rows of training images and of one new image, each as its versions."""

    def __init__(self, gp, train, new, parts, weights=None, groups=None):
        rows = versions_of(np.concatenate([train, new[None]]), parts)
        self.v, self.n, _ = rows.shape
        self.gram = gram_matrix(gp.kernel_, rows.reshape(self.v * self.n, -1))
        self.gram /= gp._process.model.mean_diag
        _, equal = np.unique(train.reshape(len(train), -1), axis=0, return_inverse=True)
        units = equal.ravel() if groups is None else np.asarray(groups)
        self.units = np.append(units, units.max() + 1)
        self.weights = np.append(np.ones(len(train)) if weights is None else weights, 1)

    def left_out(self, targets, noise, *, new_weight=1.0):
        """Return left-out means and variances of images (n,), given targets (n, k)."""
        weights = self.weights.copy()
        weights[-1] = new_weight
        mean, var = all_left_out(
            self.gram,
            np.tile(self.v * noise / weights, self.v),
            np.tile(targets, (self.v, 1)),
            np.tile(self.units, self.v),
        )
        return mean[: self.n], var[: self.n]

    def p_value(self, scores, kinds=None, label=None):
        """Return the share of units that conform no better than the last."""
        shares = unit_shares(self.units, self.weights, kinds)
        if label is not None:
            shares = shares * (kinds == label)
        return shares[scores >= scores[-1] - 1e-9].sum() / shares.sum()


def code():
    return np.eye(3) * 1.5 - 0.5


@ignored
@pytest.mark.parametrize("by_class", [False, True])
@each_parts
def test_sets_are_those_of_refits(parts, by_class):
    train, y, new = images_and_labels()
    weights = 1.0 + np.arange(12) % 2
    gp = ConvNetGPClassifier(rbf(2.0), noise_variance=NOISE, augment=parts)
    gp.fit(train, y, sample_weight=weights)
    expected = np.empty((3, 3))
    for i, one in enumerate(new):
        rows = Rows(gp, train, one, parts, weights)
        for label in range(3):
            every = np.append(y, label)
            mean, _ = rows.left_out(code()[every], NOISE)
            scores = np.array([-margin(m, c) for m, c in zip(mean, every, strict=True)])
            given = (every, label) if by_class else ()
            expected[i, label] = rows.p_value(scores, *given)
    for level in LEVELS:
        found = prediction_set(gp, new, level, by_class=by_class, allow_empty=True)
        np.testing.assert_array_equal(found, expected > 1.0 - level + 1e-9)


@ignored
def test_class_weights_and_groups_hold_for_versions():
    train, y, new = images_and_labels()
    groups = np.arange(12) // 2
    gp = ConvNetGPClassifier(rbf(2.0), noise_variance=NOISE, augment=Flip())
    gp.fit(train, y, groups=groups)
    expected = np.empty((3, 3))
    groups[3] = groups[0]  # equal images are of one group
    groups[2] = groups[0]
    groups[1] = groups[0]
    for i, one in enumerate(new):
        rows = Rows(gp, train, one, [Flip()], groups=groups)
        for label in range(3):
            every = np.append(y, label)
            mean, _ = rows.left_out(code()[every], NOISE)
            scores = [-margin(m, c) for m, c in zip(mean, every, strict=True)]
            expected[i, label] = rows.p_value(np.array(scores))
    for level in LEVELS:
        found = prediction_set(gp, new, level, allow_empty=True)
        np.testing.assert_array_equal(found, expected > 1.0 - level + 1e-9)


@pytest.mark.parametrize("level", [0.3, 0.8])
@each_parts
def test_intervals_have_the_targets_that_refits_keep(parts, level):
    train, y, new = images_and_labels()
    y = y + 0.3 * np.random.default_rng(0).normal(size=12)
    gp = ConvNetGPRegressor(rbf(2.0), noise_variance=NOISE, augment=parts)
    gp.fit(train, y)
    found = prediction_interval(gp, new, level)
    scaled = (y - gp.y_mean_) / gp.y_scale_
    for one, (lower, upper) in zip(new, found, strict=True):
        rows, width = Rows(gp, train, one, parts), upper - lower
        assert 0.0 < width < np.inf
        near = 1e-6 * width
        ends = [lower - near, lower + near, upper - near, upper + near]
        for target in [*np.linspace(lower - width, upper + width, 12), *ends]:
            own = (target - gp.y_mean_[0]) / gp.y_scale_[0]
            targets = np.append(scaled, own)[:, None]
            mean, var = rows.left_out(targets, NOISE)
            scores = np.abs(targets - mean)[:, 0] / np.sqrt(var + NOISE)
            p_value = rows.p_value(scores)
            assert (lower <= target <= upper) == (p_value > 1.0 - level + 1e-9)


@each_parts
def test_novelty_is_that_of_refits(parts):
    train, y, new = images_and_labels()
    gp = ConvNetGPRegressor(rbf(2.0), noise_variance=NOISE, augment=parts)
    found = novelty(gp.fit(train, y.astype(float)), new)
    for one, p_value in zip(new, found, strict=True):
        rows = Rows(gp, train, one, parts)
        _, var = rows.left_out(np.zeros((13, 1)), 1e-3)
        assert p_value == pytest.approx(rows.p_value(var * (1.0 + 1e-9)), abs=1e-9)


@each_parts
def test_left_out_means_are_those_of_refits(parts, monkeypatch):
    train, y, new = images_and_labels()
    gp = ConvNetGPClassifier(rbf(2.0), noise_variance=NOISE, augment=parts)
    gp.fit(train, y)
    seen = []

    def record(augmented, *given):
        seen.append(augmented)
        return torch.zeros_like(augmented.new_mean)

    monkeypatch.setattr("skconvgp.questions._sets.label_counts", record)
    prediction_set(gp, new, allow_empty=True)
    means = torch.cat([one.means(torch.tensor(code()[1])) for one in seen]).numpy()
    variances = torch.cat([one.var for one in seen]).numpy()
    of = gp._process.left_out.scored(gp._process).of
    for i, one in enumerate(new):
        rows = Rows(gp, train, one, parts)
        expected, var = rows.left_out(code()[np.append(y, 1)], NOISE)
        np.testing.assert_allclose(means[i, of], expected[:-1], rtol=1e-9, atol=1e-12)
        alone = np.ones(12, dtype=bool)
        alone[[0, 3, 4]] = False  # whose rows are merged, with less noise
        noise = NOISE * rows.v
        np.testing.assert_allclose(
            (variances[i, of] - noise)[alone], var[:-1][alone], rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("ask", [prediction_interval, novelty], ids=["interval", "new"])
def test_other_versions_than_those_of_the_fit_are_refused(ask):
    train, y, new = images_and_labels()
    gp = ConvNetGPRegressor(rbf(2.0), augment=Flip()).fit(train, y.astype(float))
    gp.augment = None
    with pytest.raises(ValueError, match=r"is not that of `fit`.* 2 versions: set it"):
        ask(gp, new)


def test_intervals_with_versions_move_with_a_prior_mean():
    train, y, new = images_and_labels()
    y = y + 0.1 * np.arange(12.0)
    gp = ConvNetGPRegressor(rbf(2.0), noise_variance=NOISE, augment=Flip())
    rest = clone(gp)
    gp.set_params(mean=Ridge(10.0)).fit(train, y)
    whole = gp.mean_.predict
    rest.fit(train, y - whole(train.reshape(12, -1)))
    expected = prediction_interval(rest, new, 0.8) + whole(new.reshape(3, -1))[:, None]
    np.testing.assert_allclose(prediction_interval(gp, new, 0.8), expected, rtol=1e-9)


def test_many_new_images_are_asked_a_few_at_a_time(monkeypatch):
    train, y, _ = images_and_labels()
    gp = ConvNetGPClassifier(rbf(2.0), noise_variance=NOISE, augment=Flip())
    gp.fit(train, y)
    new = digits(40)[0]
    expected = novelty(gp, new)
    monkeypatch.setattr("skconvgp.processes.posterior._one_more.MOST_ROWS", 6)
    np.testing.assert_allclose(novelty(gp, new), expected, rtol=1e-9)
