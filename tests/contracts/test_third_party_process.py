"""A basis and a posterior of a third party are one class each."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from skconvgp.processes import Basis, KeptLeftOut, Model, NewRows, Process
from skconvgp.processes.basis._basis import BasisReport
from skconvgp.processes.posterior._posterior import Spread
from tests.helpers.processes import RESOURCES
from tests.helpers.tolerances import assert_close

rng = np.random.default_rng(0)
X, NEW = rng.normal(size=(12, 2)), rng.normal(size=(5, 2))
Y, NOISE, UNIT = np.sin(X[:, :1]), 0.1, 2.0


def monomials(rows):
    """Return features (n, 3): 1 and both coordinates."""
    return np.column_stack([np.ones(len(rows)), rows])


@dataclass(frozen=True)
class Lines(Basis):
    """A third party's basis: features 1, x and y of points in the plane."""

    n_samples = 3
    tile_dtype = torch.float64

    def stream(self, new, run, width=0, *, needs_diag=True):
        """Yield features, and their squared lengths."""
        features = run.tensor(monomials(new.rows))
        for part in features.split(2):
            yield part, part.square().sum(1)

    def covariance(self, rows, run, unit):
        """Return products of features."""
        features = run.tensor(monomials(rows))
        return features @ features.mT / unit

    def pull(self, rows, sums, run):
        """Return derivatives by both coordinates."""
        return sums[:, 1:]

    def precision(self, config):
        """Return double precision."""
        return torch.float64

    def report(self, run):
        """Return what is said of it."""
        return BasisReport("numpy", torch.float64)


@dataclass(frozen=True)
class Ridge:
    """A third party's posterior: ridge regression, by the inverse of a precision."""

    dual: np.ndarray
    state: np.ndarray  # (3, 3), covariance of coefficients

    is_accurate = True
    n_covariances = 1
    draws_coefficients = False
    width = 0

    @classmethod
    def of(cls, features):
        """Return the posterior of targets at features in the unit of the process."""
        covariance = np.linalg.inv(np.eye(3) + features.T @ features / NOISE)
        dual = covariance @ features.T @ Y / NOISE
        return cls(dual / np.sqrt(UNIT), covariance / UNIT)

    def at(self, basis, run):
        """Return itself with a tensor."""
        return type(self)(self.dual, run.tensor(self.state))

    def reads_variances(self, basis, *, needs_var):
        """Return that features say all."""
        return False

    def spread(self, values, prior):
        """Return the variances of the sums."""
        return Spread((values @ self.state * values).sum(1)[:, None])

    def part(self, values, prior):
        """Return the features."""
        return values, 0.0

    def joint(self, parts, prior):
        """Return the covariances of the sums."""
        values = torch.cat(parts)
        return (values @ self.state @ values.mT)[:, :, None]

    def facts(self):
        """Return nothing."""
        return []

    def has_whole_draws(self, basis):
        """Return that there are no draws."""
        return False

    def draws(self, model, basis, rows, wanted, resources):
        """Refuse."""
        raise ValueError("no draws")


def process():
    features = monomials(X) / np.sqrt(UNIT)
    gram = features @ features.T
    ones = np.ones(len(X))
    model = Model(Y, ones, ones, ones, np.ones(1), UNIT, NOISE, np.ones(1), None)
    inverse = np.linalg.inv(gram + NOISE * np.eye(len(X)))
    var = 1.0 / inverse.diagonal()
    left_out = KeptLeftOut(Y - (inverse @ Y) * var[:, None], var, has_noise=True)
    return Process(model, Lines(), Ridge.of(features), left_out)


def dense():
    """Return means and covariances of new samples, by the whole Gram matrix."""
    gram, cross = (monomials(rows) @ monomials(X).T / UNIT for rows in (X, NEW))
    own = monomials(NEW) @ monomials(NEW).T / UNIT
    solved = np.linalg.solve(gram + NOISE * np.eye(len(X)), cross.T)
    return solved.T @ Y, own - cross @ solved


@pytest.mark.parametrize("wanted", ["needs_var", "needs_cov"])
def test_both_predict_what_dense_algebra_predicts(wanted):
    latent = process().latent(NewRows(NEW), RESOURCES, **{wanted: True})
    mean, covariance = dense()
    assert_close(latent.mean, mean, kind="solve")
    if wanted == "needs_cov":
        assert_close(latent.cov[:, :, 0], covariance, kind="solve")
        assert latent.cov_scale == pytest.approx(
            (monomials(NEW) ** 2).sum(1).mean() / UNIT
        )
    else:
        assert_close(latent.var[:, 0], covariance.diagonal(), kind="solve")
    assert not latent.facts


def test_the_rest_of_a_process_is_there():
    fitted = process()
    assert_close(fitted.leave_out(RESOURCES).var, fitted.left_out.var, kind="solve")
    assert not fitted.has_whole_draws()
    assert fitted.of_mean_variance() is not None
    assert fitted.basis.kept_rows is None
    assert fitted.basis.take(np.arange(2)) is fitted.basis
    assert_close(
        fitted.basis.gram_of(NEW, RESOURCES.run(RESOURCES.placement(0)), UNIT),
        monomials(NEW) @ monomials(NEW).T / UNIT,
        kind="solve",
    )
