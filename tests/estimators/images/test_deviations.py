"""Deviations of ImageRegressor: images that chose the parts are missed too little."""

import numpy as np
import pytest

from skconvgp import ImageRegressor
from skconvgp.kernels import rbf

SIDE, N = 8, 40
PARTS = [(None, rbf(scale)) for scale in (1.0, 3.0, 10.0)]


def waves(n, seed):
    """Return noisy waves (n, h, w) and their tones."""
    rng = np.random.default_rng(seed)
    tones, phases = rng.uniform(0.5, 1.5, n), rng.uniform(0.0, 2.0 * np.pi, n)
    columns = np.arange(SIDE)
    rows = np.sin(tones[:, None] * columns + phases[:, None])
    images = np.repeat(rows[:, None], SIDE, 1)
    return images + 0.2 * rng.normal(size=images.shape), tones


def fit(**settings):
    return ImageRegressor(PARTS, flips=False, random_state=0, **settings)


@pytest.mark.parametrize("n_landmarks", ["auto", 30])
def test_deviations_and_intervals_grow_by_the_factor_of_a_choice(n_landmarks):
    X, y = waves(N, 0)
    new, _ = waves(5, 1)
    chosen = fit(n_landmarks=n_landmarks).fit(X, y)
    factor = chosen._process.model.error_factor
    assert factor > 1.0
    report = chosen.fit_report_
    given = fit(
        n_landmarks=n_landmarks,
        part_weights=report.part_weights,
        noise_variance=chosen.noise_variance_,
    ).fit(X, y)
    assert given._process.model.error_factor == 1.0
    np.testing.assert_allclose(chosen.predict(new), given.predict(new), rtol=1e-6)
    _, wide = chosen.predict(new, return_std=True)
    _, narrow = given.predict(new, return_std=True)
    # The factor of deviations has a prior that is worth one sample.
    np.testing.assert_allclose(wide / narrow, factor, rtol=1.0 / N)
    widths = [np.ptp(gp.predict_interval(new), axis=1) for gp in (chosen, given)]
    np.testing.assert_allclose(widths[0] / widths[1], factor, rtol=1e-6)


def test_further_images_keep_the_factor():
    X, y = waves(N, 0)
    gp = fit(n_landmarks=20).fit(X[:30], y[:30])
    before = gp._process.model.error_factor
    assert before > 1.0
    assert gp.partial_fit(X[30:], y[30:])._process.model.error_factor == before


@pytest.mark.slow
def test_intervals_of_a_few_images_cover():
    covered = []
    for draw in range(20):
        (X, y), (new, y_new) = waves(N, draw), waves(300, 100 + draw)
        low, high = fit().fit(X, y).predict_interval(new, level=0.9).T
        covered.append(np.mean((low <= y_new) & (y_new <= high)))
    assert np.mean(covered) == pytest.approx(0.9, abs=0.03)
