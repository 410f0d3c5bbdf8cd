"""Pluggable parts: dataclasses that hold settings and speak get_params."""

import copy
import dataclasses
import inspect
from typing import Any, ClassVar, Self

import numpy as np

from skconvgp._ambient import named_recursion

__all__ = ["Part", "distinct", "same_settings"]


class Part:
    """Base class of pluggable parts: dataclasses that hold nothing but settings.

    It gives the dataclass ``get_params`` and ``set_params`` with nested names
    (``layer0__weight_variance``), support of scikit-learn's ``clone``, and a short
    repr. If a part consists of a varying number of parts, they are its attribute
    ``parts``, and ``part_name`` makes their names: "layer" gives ``layer0``,
    ``layer1``, ...

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from skconvgp.solvers import Part
    >>> @dataclass(repr=False)
    ... class MySolver(Part):
    ...     tolerance: float = 1e-6
    >>> MySolver().set_params(tolerance=1e-3)
    MySolver(tolerance=0.001)
    """

    part_name: ClassVar[str | None] = None
    parts: tuple["Part", ...]

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the settings by name, also of nested parts.

        Parameters
        ----------
        deep : bool, default=True
            Whether to add the settings of nested parts as ``part__setting``.

        Returns
        -------
        params : dict
            Names and values.
        """
        params = self._direct_params()
        if deep:
            with named_recursion():
                return params | self._nested_params(params)
        return params

    def _nested_params(self, params: dict[str, object]) -> dict[str, object]:
        """Return the settings of all nested parts as ``part__setting``."""
        nested: dict[str, object] = {}
        for name, value in params.items():
            if isinstance(value, Part):
                inner = value.get_params()
                nested |= {f"{name}__{key}": item for key, item in inner.items()}
        return nested

    def set_params(self, **params: object) -> Self:
        """Set settings by name; ``part__setting`` reaches nested parts.

        Parameters
        ----------
        **params : object
            Names and new values.

        Returns
        -------
        self : Part
            The same object.
        """
        valid = self._direct_params()
        nested: dict[str, dict[str, object]] = {}
        for key, value in params.items():
            name, _, nested_name = key.partition("__")
            if name not in valid:
                raise ValueError(
                    f"Invalid parameter {name!r} for {self!r}. Valid parameters are: "
                    f"{sorted(valid)!r}."
                )
            if nested_name:
                nested.setdefault(name, {})[nested_name] = value
            else:
                self._assign(name, value)
        # Nested settings come last, so that they reach a part that the same call sets.
        for name, settings in nested.items():
            part = self._direct_params()[name]
            if not isinstance(part, Part):
                raise ValueError(  # noqa: TRY004  (scikit-learn raises ValueError here)
                    f"{name!r} of {self!r} is not a part and has no nested settings; "
                    f"got {sorted(settings)!r}."
                )
            part.set_params(**settings)
        return self

    def __sklearn_clone__(self) -> Self:
        """Copy for :func:`sklearn.base.clone`."""
        with named_recursion():
            return copy.deepcopy(self)

    def __eq__(self, other: object) -> bool:
        """Compare settings; an array equals a tuple of the same numbers."""
        if not isinstance(other, type(self)):
            return NotImplemented
        return same_settings(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the settings that differ from their defaults."""
        try:
            return self._text()
        except RecursionError:  # of parts that are nested deeply
            return f"{type(self).__name__}(...)"

    def _text(self) -> str:
        if self.part_name is not None:
            shown = [repr(part) for part in self.parts]
        else:
            shown = []
        shown += [
            f"{field.name}={_shown(getattr(self, field.name))}"
            for field in self._single_settings()
            if not _equal(getattr(self, field.name), field.default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _direct_params(self) -> dict[str, object]:
        """Return the settings of this part by name, without its nested parts."""
        single = self._single_settings()
        settings = {field.name: getattr(self, field.name) for field in single}
        if self.part_name is None:
            return settings
        parts = {f"{self.part_name}{i}": part for i, part in enumerate(self.parts)}
        return parts | settings

    def _single_settings(self) -> list[dataclasses.Field[object]]:
        """Return the fields that are settings, without those that hold all parts."""
        fields = _settings(self)
        if self.part_name is None:
            return fields
        return [field for field in fields if field.name != "parts"]

    def _assign(self, name: str, value: object) -> None:
        is_single = name in [field.name for field in self._single_settings()]
        if self.part_name is None or is_single:
            setattr(self, name, value)
            return
        if not isinstance(value, Part):
            raise TypeError(
                f"{name!r} of {self!r} must be a part of a kernel, got {value!r}."
            )
        index = int(name.removeprefix(self.part_name))
        self.parts = (*self.parts[:index], value, *self.parts[index + 1 :])


def _settings(part: Part) -> list[dataclasses.Field[object]]:
    fields = dataclasses.fields(part)  # type: ignore[arg-type]
    return [field for field in fields if field.init]


def distinct(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy repeated parts, so that setting a parameter of one changes no other."""
    seen: set[int] = set()
    found = []
    for part in parts:
        found.append(copy.deepcopy(part) if id(part) in seen else part)
        seen.add(id(part))
    return tuple(found)


def same_settings(one: Part, two: Part) -> bool:
    """Say whether two parts of one class have equal settings, arrays included."""
    return all(
        _equal(getattr(one, field.name), getattr(two, field.name))
        for field in _settings(one)
    )


def _shown(value: object) -> str:
    """Return a setting as text; functions by name, as their repr is an address."""
    if inspect.isroutine(value):
        return value.__qualname__
    if isinstance(value, np.ndarray | np.generic):
        return repr(value.tolist())
    return repr(value)


def _equal(value: object, default: object) -> bool:
    return value is default or bool(_plain(value) == _plain(default))


def _plain(value: object) -> object:
    """Return a setting in a form that ``==`` compares: arrays and lists as tuples."""
    items = value.tolist() if hasattr(value, "tolist") else value
    return tuple(map(_plain, items)) if isinstance(items, list | tuple) else items
