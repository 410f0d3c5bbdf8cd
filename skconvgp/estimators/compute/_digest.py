"""A digest of an object: of its values and of its code."""

import copyreg
import dis
import hashlib
import inspect
from collections.abc import Iterable, Iterator
from functools import cached_property
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from skconvgp.engine import to_numpy
from skconvgp.estimators.compute._libraries import library_of, name_in_library

PLAIN = {type(None), bool, int, float, complex, str, bytes, range, type(Ellipsis)}
PLAIN |= {type(NotImplemented), torch.dtype, torch.device}
SEQUENCES = (tuple, list)
SETS = (set, frozenset)
# Entries that Python adds to a class, and on which no result depends.
NOTES = {
    "__abstractmethods__",
    "__annotate__",
    "__annotate_func__",
    "__annotations__",
    "__annotations_cache__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__match_args__",
    "__module__",
    "__orig_bases__",
    "__parameters__",
    "__qualname__",
    "__slotnames__",
    "__static_attributes__",
    "__type_params__",
    "__weakref__",
    "_abc_impl",
}
HEAP_TYPE = 1 << 9  # flag of a class that was made at run time, as by a class statement
GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


class UnknownValueError(Exception):
    """A value is of a kind that has no digest; the message says where it is used."""


def digest_of(value: Any) -> str:
    """Return a digest that changes if the results of a value may change.

    The value is a function, an object or any other. The digest of a function covers its
    code, its defaults, its closure and the global names that it uses; that of an object
    covers its attributes and its class with all bases; and so on, recursively.
    Functions and classes of libraries are identified by their names and the versions of
    the libraries. Digests of equal values are equal in other processes too. Raises an
    `UnknownValueError` if the value, or one that it uses, has no digest.
    """
    try:
        return _Digester().digest(value, "it").hex()
    except RecursionError:
        raise UnknownValueError("values within values, too deep to follow") from None


class _Digester:
    """Digests each value once, also values that contain themselves."""

    def __init__(self) -> None:
        # The values are kept too: the id of a deleted value may be used again.
        self._done: dict[int, tuple[Any, bytes]] = {}
        self._open: list[int] = []
        self._roles: list[str] = []

    def digest(self, value: Any, role: str) -> bytes:
        """Return the digest of a value; its role, such as "item 3", is for messages."""
        if type(value) in PLAIN:
            return _joined(type(value).__name__, _text(value))
        key = id(value)
        if key in self._done:
            return self._done[key][1]
        if key in self._open:  # this distance is the same from any start
            return _joined("above", str(len(self._open) - self._open.index(key)))
        self._open.append(key)
        self._roles.append(role)
        parts = [
            part if isinstance(part, bytes) else part.encode(errors="surrogatepass")
            for part in self._parts(value)
        ]
        self._open.pop()
        self._roles.pop()
        self._done[key] = value, _joined(*parts)
        return self._done[key][1]

    def _parts(self, value: Any) -> Iterator[str | bytes]:
        """Yield the parts of the digest of a value."""
        kind = type(value)
        if kind in SEQUENCES:
            yield kind.__name__
            yield from self._items(value)
        elif kind in SETS:
            yield kind.__name__
            yield from sorted(self._items(value))
        elif kind is dict:
            yield "dict"
            yield from self._pairs(value.items())
        elif kind is np.ndarray and not value.dtype.hasobject:
            yield from ("array", str(value.dtype), repr(value.shape), value.tobytes())
        elif kind in (Tensor, torch.nn.Parameter) and value.layout is torch.strided:
            yield from ("tensor", str(value.dtype), repr(tuple(value.shape)))
            contents = value.detach().resolve_conj().resolve_neg().contiguous()
            yield to_numpy(contents.reshape(-1).view(torch.uint8)).tobytes()
        else:
            yield from self._parts_of_code(value)

    def _parts_of_code(self, value: Any) -> Iterator[str | bytes]:
        if isinstance(value, CodeType):
            yield from self._code(value)
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, MethodType):
            yield "method"
            yield self.digest(value.__func__, f"method {value.__name__!r}")
            yield self.digest(value.__self__, f"object of method {value.__name__!r}")
        elif isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, staticmethod | classmethod):
            yield type(value).__name__
            yield self.digest(value.__func__, "its function")
        elif isinstance(value, property):
            yield "property"
            yield from self._items((value.fget, value.fset, value.fdel))
        elif isinstance(value, cached_property):
            yield "cached_property"
            yield self.digest(value.func, "its function")
        else:
            yield from self._object(value)

    def _function(self, function: FunctionType) -> Iterator[str | bytes]:
        name = name_in_library(function)
        if name is not None:
            yield from ("function of a library", name)
            return
        yield "function"
        code = function.__code__
        yield self.digest(code, "its code")
        yield self.digest(function.__defaults__, "its defaults")
        yield self.digest(function.__kwdefaults__, "its defaults")
        yield self.digest(function.__dict__, "its attributes")
        enclosed = zip(code.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in enclosed:
            try:
                content = cell.cell_contents
            except ValueError:  # not set yet
                content = None
            yield self.digest(content, f"enclosed name {name!r}")
        names = _all_names(code)
        for name in sorted(_global_names(code) & function.__globals__.keys()):
            yield name
            value, role = function.__globals__[name], f"global name {name!r}"
            if isinstance(value, ModuleType):
                yield self._module(value, names, role)
            else:
                yield self.digest(value, role)

    def _code(self, code: CodeType) -> Iterator[str | bytes]:
        for name in _imported_names(code):
            library = library_of(name) if name else None
            if library is None:
                self._refuse(f"the import of {name or '.'!r} within a function")
            yield library
        yield from ("code", code.co_code, code.co_exceptiontable)
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        yield repr((counts, code.co_flags, names))
        yield from self._items(code.co_consts)

    def _module(self, module: ModuleType, names: set[str], role: str) -> bytes:
        """Return the digest of the attributes of a module that code names."""
        library = library_of(module.__name__)
        if library is not None:
            return _joined("library", module.__name__, library)
        used = sorted(name for name in names if hasattr(module, name))
        if not used:
            self._refuse(f"{role}, a module of which nothing is named")
        parts = []
        for name in used:
            value, inner = getattr(module, name), f"{role}, {name!r}"
            if isinstance(value, ModuleType):
                parts.append(self._module(value, names - {name}, inner))
            else:
                parts.append(self.digest(value, inner))
        return _joined("module", *used, *parts)

    def _class(self, cls: type) -> Iterator[str | bytes]:
        name = name_in_library(cls)
        if name is None and not cls.__flags__ & HEAP_TYPE:  # of Python itself, or in C
            library = library_of(cls.__module__)
            name = library and f"{cls.__module__}.{cls.__qualname__} of {library}"
        if name is not None:
            yield from ("class of a library", name)
            return
        yield from ("class", cls.__qualname__, self.digest(type(cls), "its metaclass"))
        for base in cls.__bases__:
            yield self.digest(base, f"base class {base.__name__!r}")
        for name, value in sorted(vars(cls).items()):
            is_slot = inspect.ismemberdescriptor(value)
            if name in NOTES or is_slot or inspect.isgetsetdescriptor(value):
                continue
            yield name
            yield self.digest(value, f"attribute {name!r} of {cls.__qualname__!r}")

    def _object(self, value: Any) -> Iterator[str | bytes]:
        """Yield the parts of any other object: those that a pickle would contain."""
        if isinstance(value, ModuleType):
            self._refuse("a module that is no global name")
        owner = getattr(value, "__objclass__", type(None))  # of a compiled method
        if inspect.ismethoddescriptor(value) and library_of(owner.__module__) is None:
            self._refuse(f"compiled code, {owner.__qualname__}.{value.__name__}")
        reduce = copyreg.dispatch_table.get(type(value))
        state: Any
        try:
            state = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:
            self._refuse(f"an object of type {type(value).__name__!r}")
        if isinstance(state, str):
            yield from self._named(value, state)
            return
        yield "object"
        if not isinstance(value, BuiltinFunctionType):
            yield self.digest(type(value), f"class {type(value).__name__!r}")
        parts: list[Any] = [*state, *[None] * 3]
        make, arguments, inner, items, pairs = parts[:5]
        yield self.digest(make, "what makes it")
        yield self.digest(arguments, "what it is made of")
        yield self.digest(inner, f"state of a {type(value).__name__!r}")
        yield from self._items(items or ())
        yield b"pairs"
        yield from self._pairs(pairs or ())

    def _named(self, value: Any, name: str) -> Iterator[str | bytes]:
        """Yield the parts of an object that a pickle would store by name only."""
        public_name = name_in_library(value, name)
        if public_name is not None:
            yield from ("object of a library", public_name)
            return
        held = getattr(value, "__dict__", None)
        if not held:
            self._refuse(f"{name!r}, which is known by name only")
        yield "named object"
        yield self.digest(type(value), f"class {type(value).__name__!r}")
        yield self.digest(dict(held), f"state of {name!r}")

    def _items(self, values: Iterable[Any]) -> list[bytes]:
        return [self.digest(value, f"item {i}") for i, value in enumerate(values)]

    def _pairs(self, pairs: Iterable[tuple[Any, Any]]) -> Iterator[bytes]:
        for key, value in pairs:
            yield self.digest(key, "a key")
            yield self.digest(value, f"item {key!r}")

    def _refuse(self, what: str) -> NoReturn:
        roles = " in ".join(reversed(self._roles[1:]))
        raise UnknownValueError(f"{what}, {roles}" if roles else what)


def _joined(*parts: str | bytes) -> bytes:
    """Return a digest of parts; lengths keep their boundaries apart."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode()
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()


def _text(value: Any) -> str | bytes:
    """Return a plain value as text, with all digits of numbers."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    return hex(value) if isinstance(value, int) else repr(value)


def _inner_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code and those of the functions that it makes."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _inner_codes(constant)


def _all_names(code: CodeType) -> set[str]:
    return {name for inner in _inner_codes(code) for name in inner.co_names}


def _global_names(code: CodeType) -> set[str]:
    """Return the names that code looks up outside of itself."""
    return {
        step.argval
        for inner in _inner_codes(code)
        for step in dis.get_instructions(inner)
        if step.opname in GLOBAL
    }


def _imported_names(code: CodeType) -> list[str]:
    """Return the modules that code imports when it runs; relative ones are empty."""
    steps = [
        step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"
    ]
    return [
        "" if steps[i - 2].argval else str(step.argval)  # its level is loaded first
        for i, step in enumerate(steps)
        if step.opname == "IMPORT_NAME"
    ]
