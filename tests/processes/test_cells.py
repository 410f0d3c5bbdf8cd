"""Laws of estimators that hold for every basis and every kind of labels."""

import copy
import re
from functools import cache

import numpy as np
import pytest
import torch

from skconvgp.processes.posterior._coded import Coded
from skconvgp.processes.posterior._solutions import coded_sums, shared_sums
from tests.helpers.cells import CELLS

N, FIRST, N_NEW = 34, 22, 5
LONG = ("patches alone", "patches by loo")  # fits
# Offsets of classes come from the same left-out functions.
GROWING = [cell for cell in CELLS if cell.can_grow and cell.labels != "offsets"]
DRAWING = [
    cell
    for cell in CELLS
    if cell.labels in ("gaussian", "dirichlet")
    and not cell.basis.startswith(("by ", "Iterative", "Soft", "Matrix"))
]
REFUSALS = re.compile("draws functions|no random features|method=")
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
    "ignore:Draws of coefficients leave out:UserWarning",
)


def params(cells):
    """Return cells, of which the gate skips those that take long."""
    return [
        pytest.param(
            cell,
            id=cell.name.replace(" ", "-"),
            marks=[pytest.mark.slow] if cell.basis in LONG else [],
        )
        for cell in cells
    ]


@cache
def fitted(cell):
    X, y, _ = cell.data(N, N_NEW)
    return cell.new().fit(X, y)


def in_batches(cell, *cuts):
    gp = cell.new()
    for batch in cell.batches(N, *cuts):
        cell.grow(gp, *batch)
    return gp


def results(cell, gp, new):
    """Return what users see of a model, by name."""
    mean, std = gp.predict_latent(new, return_std=True, **cell.diag(len(new)))
    found = {"mean": mean, "std": std, "evidence": gp.log_marginal_likelihood()}
    if cell.has_classes:
        found["probabilities"] = gp.predict_proba(new)
        found["left out"] = gp.loo_predict_proba()
    else:
        found["left out"], found["its std"] = gp.loo_predict(return_std=True)
    return found


def sums_of(gp):
    """Return the sums over the features of all samples, of each latent function."""
    process, host = gp._process, torch.device("cpu")
    if process.labels is None:
        return [vars(shared_sums(process, host))]
    return map(vars, coded_sums(process, Coded.of_process(process, host)))


@pytest.mark.parametrize("cell", params(GROWING))
def test_later_batches_are_one_batch(cell):
    """What a first batch decides stays: units, features, noise and prior means."""
    _, _, new = cell.data(FIRST, N_NEW)
    one, many = (
        results(cell, in_batches(cell, FIRST, *cuts), new) for cuts in ((), (24, 31))
    )
    for name, expected in one.items():
        size = np.nanmax(np.abs(expected))
        np.testing.assert_allclose(
            many[name], expected, rtol=1e-4, atol=1e-5 * size, err_msg=name
        )


@pytest.mark.parametrize("cell", params(GROWING))
def test_sums_add_whoever_computed_them(cell):
    """Two models that were given other batches have, together, all of the sums."""
    *begin, third, fourth = cell.batches(N, FIRST, 25, 29)
    gp = cell.new()
    for batch in begin:
        cell.grow(gp, *batch)
    one, other, both = (copy.deepcopy(gp) for _ in range(3))
    for grown, batches in ((one, [third]), (other, [fourth]), (both, [third, fourth])):
        for batch in batches:
            cell.grow(grown, *batch)
    for at_begin, *parts, whole in zip(
        *map(sums_of, (gp, one, other, both)), strict=True
    ):
        for name, expected in whole.items():
            added = sum(part[name] for part in parts) - at_begin[name]
            size = float(expected.abs().max())
            torch.testing.assert_close(added, expected, rtol=1e-9, atol=1e-9 * size)


@pytest.mark.parametrize("method", ["pathwise", "bootstrap"])
@pytest.mark.parametrize("cell", params(DRAWING))
def test_a_draw_is_one_function(cell, method):
    *_, new = cell.data(N, N_NEW)
    draw = {"n_samples": 2, "random_state": 0, "method": method, "n_features": 50}
    try:
        whole = fitted(cell).sample_y(new, **draw)
    except (TypeError, ValueError) as refusal:  # of cells that draw no functions
        assert REFUSALS.search(str(refusal))  # noqa: PT017
        return
    alone = fitted(cell).sample_y(new[3:1:-1], **draw)
    np.testing.assert_allclose(alone, whole[3:1:-1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cell", params(CELLS))
def test_a_sample_alone_is_as_among_others(cell):
    *_, new = cell.data(N, N_NEW)

    def latent(rows):
        diag = cell.diag(len(rows))
        return fitted(cell).predict_latent(rows, return_std=True, **diag)

    one_by_one = [latent(new[[i]]) for i in range(N_NEW)]
    for whole, *alone in zip(latent(new), *one_by_one, strict=True):
        size = np.abs(whole).max()
        each = np.concatenate(alone)
        np.testing.assert_allclose(each, whole, rtol=1e-5, atol=1e-6 * size)
