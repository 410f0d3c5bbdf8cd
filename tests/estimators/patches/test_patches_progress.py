"""What the estimators of patches show on stderr while they work."""

import re

import numpy as np
import pytest

from skconvgp import PatchGPClassifier, PatchGPRegressor
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.processes.basis import _patch_basis
from skconvgp.processes.fits import _image_rows
from tests.helpers.batches import twice
from tests.helpers.estimators import digits

KERNEL = PatchKernel(rbf(2.0), patch_size=4, stride=2, location_lengthscale=2.0)
SETTINGS = {"n_inducing": 4, "n_locations": 2, "random_state": 0}
LINE = re.compile(
    r"(fit|predict|leave out|loo|variational steps): +(\d+)%, \S+ (images|steps)/s, "
    r"\d+:\d\d elapsed, \d+:\d\d left"
)


def shown(capfd):
    """Return labels and shares of the lines on stderr; nothing may be on stdout."""
    out, err = capfd.readouterr()
    assert out == ""
    lines = [LINE.fullmatch(line) for line in err.splitlines()]
    assert all(lines), err
    return [(line[1], int(line[2])) for line in lines]


@pytest.fixture
def small_blocks(monkeypatch):
    """Show a line for each block, of ten images; keep twenty."""
    monkeypatch.setattr("skconvgp.estimators.compute._progress.INTERVAL", 0.0)
    monkeypatch.setattr(_patch_basis, "MOST_ROWS", 10)
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 20)


@twice
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("likelihood", ["gaussian", "dirichlet"])
def test_each_pass_over_images_is_shown(likelihood, n_jobs, small_blocks, capfd):
    X, y = digits(40)
    settings = SETTINGS | {"likelihood": likelihood, "n_jobs": n_jobs}
    gp = PatchGPClassifier(KERNEL, verbose=1, **settings).fit(X, y)
    assert shown(capfd) == [("fit", share) for share in (25, 50, 75, 100)]
    gp.predict_proba(X[:20])
    assert shown(capfd) == [("predict", share) for share in (50, 100)]
    gp.loo_predict_proba()
    assert shown(capfd) == [("leave out", share) for share in (25, 50, 75, 100)]
    gp.partial_fit(X[:20], y[:20])
    labels = [label for label, _ in shown(capfd)]
    assert labels[:2] == ["fit", "fit"]


def test_a_short_fit_shows_its_end(capfd):
    X, y = digits(20)
    gp = PatchGPRegressor(KERNEL, verbose=1, **SETTINGS).fit(X, y.astype(float))
    assert shown(capfd) == [("fit", 100)]
    gp.predict(X)
    assert shown(capfd) == [("predict", 100)]


def test_steps_of_learning_are_shown(capfd):
    X, y = digits(20)
    gp = PatchGPClassifier(KERNEL, optimizer="loo", verbose=1, **SETTINGS).fit(X, y)
    assert shown(capfd)[-1] == ("fit", 100)
    assert gp.optimizer_result_.n_evaluations > 0


@twice
@pytest.mark.parametrize("cls", [PatchGPClassifier, PatchGPRegressor])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_nothing_is_written_by_default(cls, n_jobs, capfd):
    X, y = digits(20)
    gp = cls(KERNEL, n_jobs=n_jobs, **SETTINGS).fit(X, y)
    gp.partial_fit(X, y)
    gp.predict(X)
    gp.sample_y(X[:2])
    assert capfd.readouterr() == ("", "")
    assert np.isfinite(gp.predict(X)).all()
