"""Attacks: what they do to a classifier with known derivatives, and to a process."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor
from skconvgp.kernels import convnet, rbf
from skconvgp.metrics import robustness_curve
from tests.helpers.estimators import blobs, digits


class Linear:
    """Latent means X W: the steepest attack is known."""

    def __init__(self, slopes, temperature=1.0):
        self.slopes, self.temperature_ = np.asarray(slopes, dtype=float), temperature
        self.classes_ = np.arange(self.slopes.shape[1])

    def predict_latent(self, X, return_std=False):
        mean = X @ self.slopes
        return (mean, 1.0 + np.abs(mean)) if return_std else mean

    def predict_proba(self, X):
        return softmax(self.predict_latent(X) / self.temperature_, axis=1)

    def latent_gradient(self, X, weights=None):
        return weights @ self.slopes.T


SLOPES = [[-1.0, 1.0], [0.5, -0.5]]


def samples(n=40):
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (n, 2))
    return X, (X @ np.asarray(SLOPES)).argmax(1)


@pytest.mark.parametrize("attack", ["fgsm", "pgd"])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_attack_on_a_linear_classifier_is_the_steepest(attack, temperature):
    X, y = samples()
    model = Linear(SLOPES, temperature)
    curve = robustness_curve(
        model, X, y, (0.0, 0.2, 0.5), attack=attack, clip=(-9.0, 9.0)
    )
    for i, epsilon in enumerate((0.0, 0.2, 0.5)):
        # Against the label: the difference of its slopes, by sign.
        away = np.where(y == 1, -1.0, 1.0)[:, None] * np.sign([1.0, -0.5])
        moved = X + epsilon * away
        expected = model.predict_proba(moved)
        assert curve.accuracy[i] == (expected.argmax(1) == y).mean()
        entropy = -(expected * np.log(expected)).sum(1).mean()
        assert curve.entropy[i] == pytest.approx(entropy)
        variance = (model.predict_latent(moved, return_std=True)[1] ** 2).mean()
        assert curve.variance[i] == pytest.approx(variance)
    np.testing.assert_array_equal(curve.epsilon, [0.0, 0.2, 0.5])
    assert curve.accuracy[0] == 1.0 > curve.accuracy[2]


def test_moves_go_up_the_cross_entropy_of_three_classes():
    slopes = [[1.0, -0.5, 0.2], [0.2, 1.0, -0.8], [-0.7, 0.4, 1.0]]
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    moved = []

    class Watched(Linear):
        def predict_latent(self, X, return_std=False):
            if return_std:
                moved.append(X)
            return super().predict_latent(X, return_std)

    def cross_entropy(X):
        return -np.log(Linear(slopes).predict_proba(X)[np.arange(40), y])

    steps = 1e-6 * np.eye(3)
    slope = [cross_entropy(X + step) - cross_entropy(X - step) for step in steps]
    robustness_curve(Watched(slopes), X, y, (0.1,), clip=(-9.0, 9.0))
    np.testing.assert_allclose(moved[-1], X + 0.1 * np.sign(slope).T, rtol=1e-12)


def test_moves_stay_within_the_range_of_the_data():
    X, y = samples()
    seen = []

    class Watched(Linear):
        def predict_proba(self, X):
            seen.append(X)
            return super().predict_proba(X)

    robustness_curve(Watched(SLOPES), X, y, (0.5,))
    assert X.min() <= seen[-1].min()
    assert seen[-1].max() <= X.max()
    low, high = X.min() - 0.1, X.max() + 0.2
    robustness_curve(Watched(SLOPES), X, y, (0.5,), clip=(low, high))
    assert seen[-1].min() == low
    assert seen[-1].max() == high
    robustness_curve(Watched(SLOPES), X, y, (1e-3,), clip=(-0.4, 0.6))
    np.testing.assert_allclose(seen[-1], X, rtol=0.0, atol=1.001e-3)
    is_outside = (X < -0.4) | (X > 0.6)
    assert is_outside.any()
    assert (np.abs(seen[-1] - 0.1) <= np.maximum(np.abs(X - 0.1), 0.5)).all()


def test_attack_goes_on_where_a_label_is_certain():
    X, y = samples()
    model = Linear(SLOPES, temperature=1e-2)
    assert (model.predict_proba(X).max(axis=1) == 1.0).any()
    usual = robustness_curve(Linear(SLOPES), X, y, (0.0, 0.5))
    np.testing.assert_array_equal(
        robustness_curve(model, X, y, (0.0, 0.5)).accuracy, usual.accuracy
    )


def test_a_process_is_attacked_through_its_exact_derivatives():
    X, y = digits(150)
    gp = ConvNetGPClassifier(convnet(depth=1, kernel_size=3)).fit(X[:100], y[:100])
    one = robustness_curve(gp, X[100:], y[100:], (0.0, 0.1))
    many = robustness_curve(gp, X[100:], y[100:], (0.1,), attack="pgd", n_steps=15)
    assert one.accuracy[0] == gp.score(X[100:], y[100:])
    assert one.accuracy[1] < one.accuracy[0] - 0.2
    assert many.accuracy[0] <= one.accuracy[1]
    # Random moves of the same size hardly matter.
    signs = np.random.default_rng(0).choice([-0.1, 0.1], X[100:].shape)
    noisy = gp.score(np.clip(X[100:] + signs, 0.0, 1.0), y[100:])
    assert noisy > one.accuracy[1] + 0.2


@pytest.mark.parametrize("likelihood", ["dirichlet", "laplace"])
def test_likelihoods_that_read_the_variance_are_attacked_too(likelihood):
    X, y = blobs(60)
    gp = ConvNetGPClassifier(rbf(1.0), likelihood=likelihood).fit(X, y)
    curve = robustness_curve(gp, X, y, (0.0, 1.0))
    assert curve.accuracy[1] < curve.accuracy[0]


def test_labels_that_are_not_known_are_named():
    X, y = samples()
    with pytest.raises(ValueError, match=r"labels that `classes_` does not.*7"):
        robustness_curve(Linear(SLOPES), X, np.where(y == 0, 7, y))


def test_estimators_without_derivatives_are_refused():
    X, y = samples()
    model = make_pipeline(LogisticRegression()).fit(X, y)
    with pytest.raises(TypeError, match="must have `latent_gradient`"):
        robustness_curve(model, X, y)


@pytest.mark.parametrize("estimator", [ConvNetGPClassifier(), ConvNetGPRegressor()])
def test_estimators_that_know_no_classes_are_refused(estimator):
    X, y = samples()
    with pytest.raises(ValueError, match="must be a fitted classifier"):
        robustness_curve(estimator, X, y)


@pytest.mark.parametrize(
    ("X", "message"),
    [([[np.nan, 0.0]], "NaN"), (np.empty((0, 2)), r"0 sample\(s\)")],
    ids=["not finite", "none"],
)
def test_samples_that_are_none_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        robustness_curve(Linear(SLOPES), X, np.zeros(len(X), dtype=int))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attack": "cw"}, "`attack` must be one of"),
        ({"epsilons": (-0.1,)}, "`epsilons` must be finite numbers >= 0"),
        ({"epsilons": (np.nan,)}, "`epsilons` must be finite numbers >= 0"),
        ({"n_steps": 0}, "`n_steps` must be an int >= 1"),
        ({"n_steps": "many"}, "`n_steps` must be an int >= 1"),
        ({"clip": (1.0, 0.0)}, "`clip` must be a pair"),
        ({"clip": 3.0}, "`clip` must be a pair"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(settings, message):
    X, y = samples()
    with pytest.raises(ValueError, match=message):
        robustness_curve(Linear(SLOPES), X, y, **settings)
