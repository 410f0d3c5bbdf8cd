"""Parts: settings by name."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone

from skconvgp._parts import Part


@dataclass(repr=False)
class Bolt(Part):
    size: int
    thread: str = "coarse"
    uses: int = field(default=0, init=False)


@dataclass(repr=False)
class Hinge(Part):
    bolt: Bolt
    angle: float = 90.0


@dataclass(repr=False, init=False)
class Chain(Part):
    part_name: ClassVar[str] = "link"
    parts: tuple[Part, ...]

    def __init__(self, *parts):
        self.parts = parts


def chain() -> Chain:
    return Chain(Bolt(3), Hinge(Bolt(4, "fine")))


def test_settings_by_name():
    assert Bolt(3).get_params() == {"size": 3, "thread": "coarse"}
    hinge = Hinge(Bolt(3))
    assert hinge.get_params(deep=False) == {"bolt": Bolt(3), "angle": 90.0}
    nested = {"bolt__size": 3, "bolt__thread": "coarse"}
    assert hinge.get_params() == {"bolt": Bolt(3), "angle": 90.0} | nested


def test_settings_of_many_parts():
    params = chain().get_params()
    assert list(chain().get_params(deep=False)) == ["link0", "link1"]
    assert params["link0__size"] == 3
    assert params["link1__bolt__thread"] == "fine"


def test_settings_round_trip():
    part = chain()
    assert part.set_params(**part.get_params()) is part
    assert part == chain()


def test_setting_nested_settings():
    part = chain().set_params(link0__size=7, link1__bolt__size=8, link1__angle=45.0)
    assert part == Chain(Bolt(7), Hinge(Bolt(8, "fine"), angle=45.0))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_part_and_its_settings_in_any_order(reverse):
    changes = {"link1": Bolt(5), "link1__thread": "fine"}
    order = reversed(changes) if reverse else changes
    part = chain().set_params(**{name: changes[name] for name in order})
    assert part == Chain(Bolt(3), Bolt(5, "fine"))


@pytest.mark.parametrize(
    ("part", "name", "valid"),
    [
        (Bolt(3), "width", r"\['size', 'thread'\]"),
        (Bolt(3), "uses", r"\['size', 'thread'\]"),
        (chain(), "link2", r"\['link0', 'link1'\]"),
        (chain(), "parts", r"\['link0', 'link1'\]"),
        (chain(), "link1__bolt__width", r"\['size', 'thread'\]"),
    ],
)
def test_unknown_settings_are_refused(part, name, valid):
    message = rf"Invalid parameter '{name.split('__')[-1]}' for .*{valid}"
    with pytest.raises(ValueError, match=message):
        part.set_params(**{name: 1})


def test_settings_of_plain_values_are_refused():
    with pytest.raises(ValueError, match=r"'size' of Bolt\(.*has no nested settings"):
        Bolt(3).set_params(size__unit="mm")


def test_links_must_be_parts():
    with pytest.raises(TypeError, match=r"'link0' of Chain\(.*got 3"):
        chain().set_params(link0=3)


def test_clone_is_deep():
    part = chain()
    twin = clone(part)
    assert twin == part
    twin.set_params(link0__size=9)
    assert part == chain()


def test_repr_shows_numbers_of_numpy_as_numbers():
    assert repr(Bolt(np.int64(3))) == "Bolt(size=3)"
    assert repr(Hinge(Bolt(3), np.logspace(0, 1, 3)[2])) == (
        "Hinge(bolt=Bolt(size=3), angle=10.0)"
    )


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(Bolt(3)) == "Bolt(size=3)"
    assert repr(Bolt(3, thread="fine")) == "Bolt(size=3, thread='fine')"
    assert repr(chain()) == (
        "Chain(Bolt(size=3), Hinge(bolt=Bolt(size=4, thread='fine')))"
    )
