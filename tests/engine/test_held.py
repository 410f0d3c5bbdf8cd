"""Arrays and rows that a pretended GPU holds while a call lasts."""

import gc

import numpy as np
import pytest
import torch

from skconvgp._resident import held_bytes, once, require_finite, resident
from skconvgp.engine import held, join_rows, keep_held, place, place_rows
from skconvgp.exceptions import NotFiniteError
from tests.helpers.card import CARD, HOST, TO_CARD, TO_HOST, Card


@pytest.fixture
def card(monkeypatch):
    with Card(monkeypatch) as found:
        yield found


def room(monkeypatch, n_bytes):
    """Let a card have so many free bytes, all of which count."""
    monkeypatch.setattr("skconvgp.engine._held.FEW_BYTES", 0)
    monkeypatch.setattr("skconvgp.engine._held.free_memory", lambda device: n_bytes)


def test_an_array_is_copied_once_in_a_call(card):
    array = np.arange(6.0)
    with resident(), resident():
        one, two = held(array, CARD), held(array, CARD)
        single = held(array, CARD, torch.float32)
    assert one is two
    assert single.dtype == torch.float32
    assert card.counts == {TO_CARD: 2}
    assert held(array, CARD) is not one
    np.testing.assert_array_equal(one.cpu().numpy(), array)


def test_an_array_of_the_host_is_not_kept():
    array = np.arange(6.0)
    with resident():
        assert held(array, HOST).data_ptr() == array.ctypes.data


def test_what_is_held_ends_with_its_owner(card):
    with resident():
        array = np.arange(6.0)
        held(array, CARD)
        assert held_bytes() == array.nbytes
        del array
        gc.collect()
        assert held_bytes() == 0
        # Another array may have the address of the first one.
        other = np.arange(6.0) + 1.0
        assert held(other, CARD).tolist() == other.tolist()


def test_features_that_are_kept_are_not_copied_again(card):
    features = torch.ones(3, 2, device=CARD)
    with resident():
        array = keep_held(features)
        assert held(array, CARD) is features
    assert card.counts == {TO_HOST: 1}


@pytest.mark.usefixtures("card")
def test_a_quarter_of_the_memory_is_held(monkeypatch):
    one, two = np.zeros(4), np.zeros(4)
    room(monkeypatch, 4 * one.nbytes)
    with resident():
        assert held(one, CARD) is held(one, CARD)
        assert held(two, CARD) is not held(two, CARD)
        images = torch.zeros(5, device=HOST)
        assert place(images, CARD) is images
        assert place_rows(two, CARD).device == HOST


def test_images_go_to_the_card_once(card):
    images = torch.zeros(2, 1, 3, 3, device=HOST)
    there = place(images, CARD)
    assert place(there, CARD) is there
    assert place(images, HOST) is images
    assert there.device == CARD
    assert card.counts == {TO_CARD: 1}


def test_rows_are_joined_where_they_are(card):
    one, two = np.zeros((2, 3)), np.ones((1, 3))
    expected = np.vstack([one, two])
    np.testing.assert_array_equal(join_rows([one, two]), expected)
    there = join_rows([place_rows(rows, CARD) for rows in (one, two)])
    assert there.device == CARD
    assert card.counts == {TO_CARD: 2}
    np.testing.assert_array_equal(there.cpu().numpy(), expected)


def test_outside_of_a_call_everything_is_made_anew():
    owner, made = np.zeros(1), []
    once(owner, "key", lambda: made.append(1))
    once(owner, "key", lambda: made.append(1))
    assert len(made) == 2


def asks_and_goes_on(*checks, error=None):
    """Require numbers to be finite in a call; return whether it went on."""
    went_on = []
    with pytest.raises(NotFiniteError) as told, resident():  # noqa: PT012
        for is_finite, message in checks:
            require_finite(torch.tensor(is_finite), message)
        went_on.append(True)
        if error is not None:
            raise error
    assert went_on
    return str(told.value)


def test_numbers_that_are_not_finite_are_told_at_the_end():
    checks = (True, "first"), (False, "second"), (True, "third")
    assert asks_and_goes_on(*checks) == "second"
    with resident():  # the last call is forgotten
        require_finite(torch.tensor(data=True), "first")
    with pytest.raises(NotFiniteError, match="at once"):
        require_finite(torch.tensor(data=False), "at once")


def test_an_error_may_come_of_numbers_that_are_not_finite():
    assert asks_and_goes_on((False, "cause"), error=ZeroDivisionError()) == "cause"
    with pytest.raises(ZeroDivisionError), resident():
        raise ZeroDivisionError
