"""The head that is refitted, against scikit-learn and explicit leave-one-out."""

import numpy as np
import torch
from sklearn.linear_model import Ridge

from skconvgp.networks import fit_readout
from skconvgp.networks._readout import PENALTIES


def blocks_of(F, Y, size=7):
    def blocks():
        for start in range(0, len(F), size):
            rows = slice(start, start + size)
            yield torch.from_numpy(F[rows]), torch.from_numpy(Y[rows])

    return blocks


def test_the_readout_is_the_ridge_regression_with_the_best_left_out_error():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(25, 4)) + 30.0  # far from 0: the intercept is no feature
    Y = F @ rng.normal(size=(4, 2)) + rng.normal(size=(25, 2))
    found = fit_readout(blocks_of(F, Y))
    scatter = (F - F.mean(0)).T @ (F - F.mean(0))
    unit = np.trace(scatter) / 4

    def left_out_error(alpha):
        error = 0.0
        for i in range(25):
            kept = np.arange(25) != i
            model = Ridge(alpha).fit(F[kept], Y[kept])
            error += ((model.predict(F[i : i + 1]) - Y[i]) ** 2).sum()
        return error

    alphas = unit * np.array(PENALTIES)
    best = alphas[np.argmin([left_out_error(alpha) for alpha in alphas])]
    np.testing.assert_allclose(found.alpha, best)
    model = Ridge(best).fit(F, Y)
    np.testing.assert_allclose(found.coef.numpy(), model.coef_.T, rtol=1e-6)
    outputs = found(torch.from_numpy(F)).numpy()
    np.testing.assert_allclose(outputs, model.predict(F), rtol=1e-6)


def test_constant_features_and_single_samples_have_a_readout():
    F, Y = np.ones((1, 3)), np.full((1, 2), 5.0)
    found = fit_readout(blocks_of(F, Y))
    np.testing.assert_allclose(found(torch.from_numpy(F)).numpy(), Y)
