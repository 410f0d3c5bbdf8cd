"""Covariances for probabilities: in single precision, responses computed once."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import skconvgp as sk
from skconvgp.backends import Responses
from skconvgp.kernels import PatchKernel, PatchWhitening, rbf
from skconvgp.processes import NewRows
from skconvgp.processes.basis._inducing import lifted
from skconvgp.processes.basis._sight import Sight
from tests.helpers.estimators import digits

N, NEW = 30, 7
PLACED = PatchKernel(rbf(2.0), patch_size=3, location_lengthscale=2.0)
ANYWHERE = PLACED.replace(location_lengthscale=None)
OTHERS = {
    "base": ANYWHERE.replace(base=rbf(1.0)),
    "size": ANYWHERE.replace(patch_size=2),
    "normalization": ANYWHERE.replace(normalization=PatchWhitening()),
    "no patches": rbf(3.0),
}


def covariances(basis, gp, new):
    """Return covariances (b, n) and prior variances (b,), in double precision."""
    run = gp._resources().run(gp._resources().placement(0))
    blocks = basis.stream(NewRows(new.reshape(len(new), -1)), run)
    cross, diag = (torch.cat(part).numpy() for part in zip(*blocks, strict=True))
    assert cross.dtype == diag.dtype == np.float64
    return cross, diag


def fitted(parts, **settings):
    X, y = digits(N + NEW)
    weights = np.arange(1.0, len(parts) + 1.0)
    gp = sk.ImageClassifier(
        parts, part_weights=weights / weights.sum(), random_state=0, **settings
    )
    return gp.fit(X[:N], (y % 3)[:N]), X[N:]


@pytest.mark.parametrize("flips", [False, True])
@pytest.mark.parametrize("parts", [[PLACED], [PLACED, rbf(3.0), ANYWHERE]])
def test_quick_covariances_are_those_in_double_precision(parts, flips):
    gp, new = fitted(parts, flips=flips)
    basis = gp._process.basis
    exact, found = (covariances(one, gp, new) for one in (basis, basis.quick()))
    for one, other in zip(exact, found, strict=True):
        assert_allclose(other, one, atol=1e-5 * exact[1].mean())


def test_kept_features_and_variances_are_those_in_double_precision():
    gp, new = fitted([PLACED, ANYWHERE], flips=True)
    basis, run = gp._process.basis, gp._resources().run(gp._resources().placement(0))
    images = basis.images.images()
    for part in basis.parts:
        exact = part._features(Sight(images), run)
        assert exact.dtype == torch.float64
        scale = exact.square().sum(1).mean().sqrt()
        assert_allclose(part.features, exact.numpy(), atol=5e-5 * float(scale))
    expected = covariances(basis, gp, new)[1]
    found = basis.variances(new.reshape(NEW, -1), run)
    assert found.dtype == torch.float64
    assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_quick_covariances_have_the_precision_of_responses():
    gp, new = fitted([PLACED, ANYWHERE], dtype="float64")
    basis = gp._process.basis
    exact, found = (covariances(one, gp, new) for one in (basis, basis.quick()))
    for one, other in zip(exact, found, strict=True):
        assert_allclose(other, one, rtol=1e-11, atol=1e-12)


def test_parts_of_the_same_patches_share_responses(monkeypatch):
    gp, new = fitted([PLACED, rbf(3.0), ANYWHERE], flips=False)
    counts, pooled = [], Responses.pooled

    def counted(self, *args):
        counts.append(1)
        return pooled(self, *args)

    monkeypatch.setattr(Responses, "pooled", counted)
    basis = gp._process.basis
    covariances(basis, gp, new)
    assert len(counts) == 2
    covariances(basis.quick(), gp, new)
    assert len(counts) == 3
    assert len(basis.quick().parts) == 2


@pytest.mark.parametrize("other", OTHERS)
def test_parts_that_see_other_patches_share_nothing(other):
    gp, _ = fitted([PLACED, OTHERS[other]])
    assert len(gp._process.basis.quick().parts) == 2


@pytest.mark.parametrize("shape", [(9, 9), (9, 6), (9, 1)])
def test_products_with_a_triangle_leave_out_zeros_alone(shape):
    generator = torch.Generator().manual_seed(0)
    sums = torch.randn(3, 1, 2, 2, shape[0], generator=generator).double()
    lift = torch.randn(shape, generator=generator).double().tril()
    expected = (sums @ lift).flatten(1)
    torch.testing.assert_close(lifted(sums, lift), expected)
    assert not torch.allclose(lifted(sums, lift + lift.mean()), expected)
