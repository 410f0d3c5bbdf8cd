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
from tests.helpers.lines import show_all

KERNEL = PatchKernel(rbf(2.0), patch_size=4, stride=2, location_lengthscale=2.0)
SETTINGS = {"n_inducing": 4, "n_locations": 2, "random_state": 0}
LINE = re.compile(r"(\w+): +(\d+)%, [^:]+:\d\d elapsed(?:, about .* left: ([^,]+).*)?")


def shown(capfd):
    """Return call, share and stage of the lines on stderr; stdout must be empty."""
    out, err = capfd.readouterr()
    assert out == ""
    lines = [LINE.fullmatch(line) for line in err.splitlines()]
    assert all(lines), err
    return [(line[1], int(line[2]), line[3] or "") for line in lines]


@pytest.fixture
def small_blocks(monkeypatch):
    """Show a line for each block, of ten images; keep twenty."""
    show_all(monkeypatch)
    monkeypatch.setattr(_patch_basis, "MOST_ROWS", 10)
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 20)


@twice
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("likelihood", ["gaussian", "dirichlet"])
def test_each_pass_over_images_is_shown(likelihood, n_jobs, small_blocks, capfd):
    X, y = digits(40)
    settings = SETTINGS | {"likelihood": likelihood, "n_jobs": n_jobs}
    gp = PatchGPClassifier(KERNEL, verbose=1, **settings).fit(X, y)
    algebra = ["noise"] if likelihood == "gaussian" else []
    algebra += ["solving", "calibration"]
    assert_stages(shown(capfd), "fit", [*["features"] * 4, *algebra])
    gp.predict_proba(X[:20])
    assert_stages(shown(capfd), "predict_proba", ["features"] * 2)
    gp.loo_predict_proba()
    assert_stages(shown(capfd), "loo_predict_proba", ["features"] * 4)
    gp.partial_fit(X[:20], y[:20])
    calls = {call for call, _, _ in shown(capfd)}
    assert calls == {"partial_fit"}


def assert_stages(lines, call, stages):
    """Check calls, shares and stages of lines."""
    calls, shares, names = zip(*lines, strict=True)
    assert set(calls) == {call}
    assert list(shares) == sorted(shares)
    assert (shares[-1], names) == (100, (*stages, ""))


def test_a_short_fit_shows_its_end(capfd):
    X, y = digits(20)
    gp = PatchGPRegressor(KERNEL, verbose=1, **SETTINGS).fit(X, y.astype(float))
    assert shown(capfd) == [("fit", 100, "")]
    gp.predict(X)
    assert shown(capfd) == [("predict", 100, "")]


def test_steps_of_learning_are_shown(capfd):
    X, y = digits(20)
    gp = PatchGPClassifier(KERNEL, optimizer="loo", verbose=1, **SETTINGS).fit(X, y)
    assert shown(capfd)[-1] == ("fit", 100, "")
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
