"""What a GPU copies and waits for, on a pretended one: it does not grow with blocks."""

import importlib
from collections import Counter

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skconvgp import (
    ConvNetGPClassifier,
    ImageClassifier,
    ImageRegressor,
    PatchGPClassifier,
)
from skconvgp.engine import to_tensor
from skconvgp.exceptions import NotFiniteError, ScaleWarning
from skconvgp.image_maps import ScatteredView
from skconvgp.image_maps._filters import filter_bank
from skconvgp.image_maps._scattering import _reflected_on
from skconvgp.kernels import convnet
from tests.helpers.card import CARD, READ, TO_CARD, TO_HOST, Card

N, SIDE = 16, 8
MOST_TO_CARD = 20  # for means: images, inducing patches, weights, constants of views
# Numbers of images, of rows of a matrix or of patches that are in work at once, as
# multiples of the images of a block.
BLOCKS = {
    "engine._plan": {"MAX_BLOCK": 1},
    "image_maps._scattered": {"AT_ONCE": 1},
    "image_maps._scattering": {"HELD_ON_GPU": 4000},
    "processes.basis._views": {"ON_GPU": 1},
    "processes.basis._patch_basis": {"ON_GPU": 1, "MOST_ROWS": 1},
    "processes.basis._patch_part": {"PRODUCTS": 1},
    "processes.basis._parts": {"PAIRED": 1},
    "processes.basis._folded": {"MOST_IMAGES": 1},
    "processes.basis._chosen_patches": {"IMAGES_AT_ONCE": 1, "LLOYD_ON_GPU": 16},
}
# Without these, which differ little from others, a fit has three or four parts.
UNUSED = {
    1: [
        "patches of pixels anywhere",
        "network on pixels",
        "scattering of upright images, J=1",
        "network on scattering, J=1",
        "scattering, J=1",
    ],
    3: ["patches of pixels anywhere", "network on pixels"],
}
GREY, COLOUR = (
    {"part_weights": dict.fromkeys(names, 0.0), "random_state": 0}
    for names in UNUSED.values()
)
SHARES = {
    "patches of pixels": 0.3,
    "scattering anywhere, J=1": 0.3,
    "network on scattering of upright images, J=1": 0.4,
}
SCATTERING = dict.fromkeys(SHARES, 0.0) | {"scattering anywhere, J=1": 1.0}
GIVEN, SINGLE = (
    GREY | {"part_weights": GREY["part_weights"] | shares, "flips": False}
    for shares in (SHARES, SCATTERING)
)
CASES = {
    "grey": (ImageClassifier(**GREY), 1),
    "colour": (ImageClassifier(**COLOUR), 3),
    "numbers": (ImageRegressor(**SINGLE), 1),
    "landmarks": (ImageClassifier(**GIVEN, n_landmarks=10), 1),
    "patches alone": (ImageClassifier("patches", random_state=0), 1),
    "patches": (PatchGPClassifier(n_inducing=20, random_state=0), 1),
    "network": (ConvNetGPClassifier(convnet(2, 3)), 1),
}


def images(channels):
    """Return images of three kinds, with noise."""
    generator = np.random.default_rng(0)
    y = np.arange(N) % 3
    kinds = generator.normal(size=(3, channels, SIDE, SIDE))
    X = kinds[y] + generator.normal(size=(N, channels, SIDE, SIDE))
    return X.astype(np.float32), y


def on_card(case, n_blocks, depth=1, **settings):
    """Return counts, by place, and results of a fit and of predictions."""
    (estimator, channels), found, results = CASES[case], {}, {}
    estimator, (X, y) = clone(estimator).set_params(**settings), images(channels)
    for cached in (filter_bank, _reflected_on):  # which other calls have filled
        cached.cache_clear()
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, sizes in BLOCKS.items():
            module = importlib.import_module(f"skconvgp.{name}")
            for constant, factor in sizes.items():
                monkeypatch.setattr(module, constant, factor * N // n_blocks)
        calls = {"fit": lambda: estimator.fit(X, y) and 0.0}
        for name in ("predict", "predict_proba"):
            if hasattr(estimator, name):
                calls[name] = lambda name=name: getattr(estimator, name)(X)
        for name, call in calls.items():
            with Card(monkeypatch, depth) as card:
                results[name] = call()
            found[name] = card.places
    return found, results


def counts(places):
    """Return how often each thing was counted, wherever it was."""
    found = Counter()
    for (what, _), n in places.items():
        found[what] += n
    return found


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_read_or_copied_for_each_block(case):
    few, expected = on_card(case, 2)
    many, results = on_card(case, 8)
    assert many == few
    assert counts(few["predict"])[TO_CARD] <= MOST_TO_CARD
    assert counts(few["predict"])[TO_HOST] == 1  # the means
    for name, values in expected.items():
        np.testing.assert_allclose(results[name], values, rtol=1e-3, atol=1e-3)


def test_a_number_that_is_read_in_each_block_is_found(monkeypatch):
    project = ScatteredView.project

    def reading(view, values):
        assert float(values.sum()) != 0.0
        return project(view, values)

    monkeypatch.setattr(ScatteredView, "project", reading)
    few, _ = on_card("numbers", 2)
    many, _ = on_card("numbers", 8)
    for name in ("fit", "predict"):
        assert counts(many[name])[READ] > counts(few[name])[READ]
        assert counts(many[name])[TO_CARD] == counts(few[name])[TO_CARD]


def test_constants_that_are_copied_in_each_block_are_found(monkeypatch):
    monkeypatch.setattr("skconvgp.image_maps._channels.held", to_tensor)
    few, _ = on_card("numbers", 2)
    many, _ = on_card("numbers", 8)
    for name in ("fit", "predict"):
        assert counts(many[name])[TO_CARD] > counts(few[name])[TO_CARD]


def test_a_card_without_room_is_sent_blocks(monkeypatch):
    monkeypatch.setattr("skconvgp.engine._held.FEW_BYTES", 0)
    monkeypatch.setattr("skconvgp.engine._held.free_memory", lambda device: 0)
    few, expected = on_card("grey", 2)
    many, results = on_card("grey", 8)
    assert counts(many["predict"])[TO_CARD] > counts(few["predict"])[TO_CARD]
    np.testing.assert_array_equal(results["predict"], expected["predict"])


@pytest.mark.parametrize("case", ["grey", "patches", "network"])
def test_the_card_computes_what_the_processor_does(case):
    settings = {"dtype": "float64", "backend": "torch"}
    _, results = on_card(case, 2, **settings)
    estimator, channels = CASES[case]
    X, y = images(channels)
    gp = clone(estimator).set_params(device="cpu", **settings).fit(X, y)
    np.testing.assert_allclose(
        results["predict_proba"], gp.predict_proba(X), rtol=1e-6, atol=1e-9
    )


def test_values_that_are_not_finite_are_an_error(monkeypatch):
    X, y = images(1)
    gp = ConvNetGPClassifier(convnet(2, 3), dtype="float32")
    with Card(monkeypatch), pytest.raises(NotFiniteError, match="is not finite in"):
        gp.fit(1e25 * X, y)
    with Card(monkeypatch):
        gp.fit(X, y)
    is_told = pytest.raises(NotFiniteError, match="is not finite in")
    with Card(monkeypatch), pytest.warns(ScaleWarning), is_told:
        gp.predict(1e25 * X)


def test_finished_tiles_are_finite(monkeypatch, tmp_path):
    monkeypatch.setattr("skconvgp.engine._evaluate.is_worth_files", lambda *_: True)
    X, y = images(1)
    gp = ConvNetGPClassifier(convnet(2, 3), dtype="float32", cache_dir=tmp_path)
    for _ in range(2):
        with Card(monkeypatch), pytest.raises(NotFiniteError, match="is not finite in"):
            gp.fit(1e25 * X, y)
    assert not list(tmp_path.rglob("*.npy"))


CALLS = {
    "an item": (lambda one: float(one[0]), {READ: 1}),
    "a list": (lambda one: one.tolist(), {TO_HOST: 1}),
    "a mask": (lambda one: one[one > 0.0], {READ: 1}),
    "places": (lambda one: one.nonzero(), {READ: 1}),
    "an index of the host": (lambda one: one[torch.tensor([1, 0])], {TO_CARD: 1}),
    "a copy": (lambda one: one.cpu(), {TO_HOST: 1}),
    "a copy into a tensor": (lambda one: torch.empty(3).copy_(one), {TO_HOST: 1}),
    "new numbers": (lambda one: torch.tensor([1.0], device=one.device), {TO_CARD: 1}),
    "zeros": (lambda one: one.new_zeros(3) + one.square(), {}),
    "a precision": (lambda one: one.to(torch.float64), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_card_counts(monkeypatch, name):
    call, expected = CALLS[name]
    with Card(monkeypatch) as card:
        one = torch.arange(3.0, device=CARD)
        call(one)
    assert card.counts == expected


def test_the_card_does_not_mix_places(monkeypatch):
    with Card(monkeypatch), pytest.raises(RuntimeError, match="are on the host"):
        torch.ones(3, device=CARD) + torch.ones(3)
