"""How much of the prior variance inducing patches explain."""

import numpy as np
import pytest

from skconvgp import PatchGPClassifier, PatchGPRegressor, gram_diag
from skconvgp.kernels import PatchKernel, rbf
from tests.estimators.patches.test_patches import (
    explained,
    images,
    kernel,
    some_patches,
)
from tests.helpers.estimators import all_digits

FAR = PatchKernel(rbf(0.2), patch_size=3, location_lengthscale=None)


def test_share_is_that_of_the_traces():
    X, Z, spec = images(20), some_patches(), kernel(location_lengthscale=1.5)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 20)
    gp = PatchGPRegressor(spec, inducing=Z, n_locations=2, dtype="float64")
    gp.fit(X, np.arange(20.0), sample_weight=weights)
    of_features = np.diag(explained(X, Z, gp.locations_, length=1.5))
    of_kernel = gram_diag(spec, X, dtype="float64")
    expected = weights @ of_features / (weights @ of_kernel)
    assert gp.explained_variance_ == pytest.approx(expected, rel=1e-8)
    assert f"{expected:.1%} of the prior variance" in str(gp.fit_report_)


def test_all_patches_explain_all_and_more_explain_more():
    X, y = all_digits()
    shares = [
        PatchGPClassifier(n_inducing=m, random_state=0)
        .fit(X[:100], y[:100])
        .explained_variance_
        for m in (4, 16, 64)
    ]
    assert 0.0 < shares[0] < shares[1] < shares[2] < 1.0
    spec = PatchKernel(rbf(2.0), patch_size=3, stride=3, location_lengthscale=None)
    whole = PatchGPRegressor(spec, inducing="unique", dtype="float64")
    whole.fit(images(4), np.arange(4.0))
    assert whole.explained_variance_ == pytest.approx(1.0, abs=1e-4)


def test_little_is_told_if_it_is_ignored():
    X, Z = images(20), some_patches()
    y = np.arange(20.0)
    with pytest.warns(UserWarning, match=r"explain \d%.*n_inducing.*variance='dtc'"):
        PatchGPRegressor(FAR, inducing=Z, variance="sor").fit(X, y)
    gp = PatchGPRegressor(FAR, inducing=Z).fit(X, y)  # whose deviations know of it
    assert gp.explained_variance_ < 0.1


def test_other_estimators_report_no_share():
    gp = PatchGPRegressor(kernel(), inducing=some_patches())
    assert not hasattr(gp, "explained_variance_")
