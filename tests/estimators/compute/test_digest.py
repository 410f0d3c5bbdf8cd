"""A digest changes with what decides what a value computes, and with nothing else."""

import math
import sys
import textwrap
import types
from collections import deque

import numpy as np
import pytest
import scipy.special
import torch

from skconvgp.estimators.compute._digest import UnknownValueError, digest_of
from skconvgp.estimators.compute._libraries import library_of, name_in_library
from skconvgp.kernels import Dense, Elementwise, Erf, Flatten, Sequential, convnet


def made(source):
    """Return what a module of yours with this source has as `f`."""
    space = {"__name__": "module_of_yours"}
    exec(compile(textwrap.dedent(source), "module_of_yours.py", "exec"), space)
    return space["f"]


# Where 1.0 becomes 5.0 something else is computed.
SOURCES = {
    "constant": "def f(x): return 1.0 * x",
    "lambda": "f = lambda x: 1.0 * x",
    "global": """
        A = 1.0
        def f(x): return A * x
        """,
    "global of an inner function": """
        A = 1.0
        def f(x):
            def inner(x): return A * x
            return inner(x)
        """,
    "global of a comprehension": """
        A = 1.0
        def f(x): return sum(A * y for y in x)
        """,
    "default": """
        C = 1.0
        def f(x, c=C): return c * x
        """,
    "keyword default": "def f(x, *, c=1.0): return c * x",
    "enclosed": """
        def outer(a):
            def inner(x): return a * x
            return inner
        f = outer(1.0)
        """,
    "called function": """
        def g(x): return 1.0 * x
        def f(x): return g(x)
        """,
    "global of a called function": """
        A = 1.0
        def h(x): return A * x
        def g(x): return h(x)
        def f(x): return g(x)
        """,
    "functions that call each other": """
        def g(x): return f(x - 1.0)
        def f(x): return x if x < 0 else g(x)
        """,
    "function in a dict": """
        def g(x): return 1.0 * x
        TABLE = {"a": [g]}
        def f(x): return TABLE["a"][0](x)
        """,
    "partial": """
        from functools import partial
        def g(a, x): return a * x
        f = partial(g, 1.0)
        """,
    "global of a partial": """
        from functools import partial
        A = 1.0
        def g(b, x): return A * b * x
        f = partial(g, 2.0)
        """,
    "cached function": """
        from functools import lru_cache
        @lru_cache
        def scale(n): return 1.0 * n
        def f(x): return scale(3) * x
        """,
    "decorated function": """
        from functools import wraps
        def twice(function):
            @wraps(function)
            def inner(x): return function(function(x))
            return inner
        @twice
        def f(x): return 1.0 * x
        """,
    "decorator": """
        from functools import wraps
        def scaled(function):
            @wraps(function)
            def inner(x): return 1.0 * function(x)
            return inner
        @scaled
        def f(x): return x
        """,
    "decorated by a library": """
        import torch
        A = 1.0
        @torch.no_grad()
        def g(x): return A * x
        f = torch.vmap(g)
        """,
    "method": """
        class C:
            def __call__(self, x): return 1.0 * x
        f = C()
        """,
    "bound method": """
        class C:
            def __init__(self, a): self.a = a
            def scale(self, x): return self.a * x
        f = C(1.0).scale
        """,
    "attribute": """
        class C:
            def __init__(self, a): self.a = a
            def __call__(self, x): return self.a * x
        f = C(1.0)
        """,
    "attribute in a slot": """
        class C:
            __slots__ = ("a",)
            def __init__(self, a): self.a = a
            def __call__(self, x): return self.a * x
        f = C(1.0)
        """,
    "class attribute": """
        class C:
            a = 1.0
            def __call__(self, x): return self.a * x
        f = C()
        """,
    "attribute of a base class": """
        class B:
            a = 1.0
        class C(B):
            def __call__(self, x): return self.a * x
        f = C()
        """,
    "method of a base class": """
        class B:
            def scale(self, x): return 1.0 * x
        class C(B):
            def __call__(self, x): return super().scale(x)
        f = C()
        """,
    "attribute of a metaclass": """
        class M(type):
            a = 1.0
        class C(metaclass=M):
            def __call__(self, x): return type(self).a * x
        f = C()
        """,
    "property": """
        class C:
            @property
            def a(self): return 1.0
            def __call__(self, x): return self.a * x
        f = C()
        """,
    "cached property": """
        from functools import cached_property
        class C:
            @cached_property
            def a(self): return 1.0
            def __call__(self, x): return self.a * x
        f = C()
        """,
    "static method": """
        class C:
            @staticmethod
            def scale(x): return 1.0 * x
            def __call__(self, x): return self.scale(x)
        f = C()
        """,
    "class method": """
        class C:
            @classmethod
            def scale(cls, x): return 1.0 * x
            def __call__(self, x): return self.scale(x)
        f = C()
        """,
    "class that a function makes objects of": """
        class C:
            def __call__(self, x): return 1.0 * x
        def f(x): return C()(x)
        """,
    "enumeration": """
        from enum import Enum
        class E(Enum):
            A = 1.0
        def f(x): return E.A.value * x
        """,
    "named tuple": """
        from typing import NamedTuple
        class T(NamedTuple):
            a: float
        P = T(1.0)
        def f(x): return P.a * x
        """,
    "subclass of a list": """
        class L(list):
            def scale(self, x): return 1.0 * x
        P = L([2.0])
        def f(x): return P.scale(x)
        """,
    "set": """
        S = {1.0, "a"}
        def f(x): return x in S
        """,
    "array": """
        import numpy as np
        A = np.array([[1.0, 2.0]], order="F")
        def f(x): return A * x
        """,
    "array of objects": """
        import numpy as np
        A = np.array([1.0, "a"], dtype=object)
        def f(x): return A * x
        """,
    "tensor": """
        import torch
        A = torch.tensor([1.0, 2.0], requires_grad=True)
        def f(x): return A * x
        """,
    "complex view of a tensor": """
        import torch
        A = torch.tensor([1.0j]).conj()
        def f(x): return (A * x).real
        """,
    "weights of a network": """
        import torch
        f = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(f.weight, 1.0)
        torch.nn.init.constant_(f.bias, 0.0)
        """,
    "network of yours": """
        import torch
        class Net(torch.nn.Module):
            def forward(self, x): return 1.0 * x
        f = Net()
        """,
    "layer of yours": """
        from dataclasses import dataclass
        from skconvgp.kernels import Layer
        @dataclass(repr=False)
        class Slope(Layer):
            slope: float = 2.0
            is_spatial = False
            def out_shape(self, shape): return shape
            def image_pass(self, var): return 1.0 * var, None
            def pair_pass(self, maps, one, two):
                return maps.with_nngp(self.slope * maps.nngp)
        f = Slope()
        """,
    "setting of a layer of yours": """
        from dataclasses import dataclass, field
        from skconvgp.kernels import Layer
        def makes(): return 1.0
        @dataclass(repr=False)
        class Slope(Layer):
            slope: float = field(default_factory=makes)
            def out_shape(self, shape): return shape
            def image_pass(self, var): return self.slope * var, None
            def pair_pass(self, maps, one, two):
                return maps.with_nngp(self.slope * maps.nngp)
            @property
            def is_spatial(self): return False
        f = Slope()
        """,
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_computes_something_else_has_another_digest(name):
    source = SOURCES[name]
    digest = digest_of(made(source))
    assert digest == digest_of(made(source))
    other = source.replace("1.0", "5.0")
    assert other != source
    assert digest != digest_of(made(other))


def test_names_that_are_set_at_run_time_count():
    f = made(SOURCES["global of a called function"])
    digest = digest_of(f)
    h = f.__globals__["h"]
    f.__globals__["A"] = 5.0
    assert digest_of(f) != digest
    f.__globals__["A"] = 1.0
    assert digest_of(f) == digest
    f.__globals__["h"] = h
    assert digest_of(f) == digest


def test_modules_of_yours_count_by_what_is_used_of_them(monkeypatch):
    outer, inner = types.ModuleType("outer"), types.ModuleType("inner")
    inner.a, inner.b, outer.inner = 1.0, 2.0, inner
    for module in (outer, inner):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    f = made("import outer\ndef f(x): return outer.inner.a * x")
    digest = digest_of(f)
    inner.b = 3.0
    assert digest_of(f) == digest
    inner.a = 5.0
    assert digest_of(f) != digest


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    # a note\n    return (1.0\n        * x)",
        "B = 3.0\n\ndef f(x): return 1.0 * x",
        "def g(x): return 7.0\ndef f(x): return 1.0 * x",
        "import threading\nx = threading.Lock()\ndef f(x): return 1.0 * x",
    ],
)
def test_what_is_not_used_does_not_count(source):
    assert digest_of(made(source)) == digest_of(made(SOURCES["constant"]))


FUNCTIONS = [
    torch.tanh,
    torch.sigmoid,
    torch.nn.functional.relu,
    torch.nn.functional.gelu,
    torch.Tensor.sin,
    torch.special.erf,
    np.tanh,
    np.sin,
    np.mean,
    scipy.special.erf,
    math.sin,
    np.random.default_rng(0).normal,
    np.random.default_rng(1).normal,
    [1.0].count,
    [2.0].count,
    torch.nn.functional.max_pool2d,
]
VALUES = [
    *(None, True, False, 0, 1, 0.0, -0.0, 1.0, 1j, "", "1", b"", b"1", math.nan),
    *((), [], {}, set(), frozenset(), (1,), ((1,),), (1, 1), [1], {1}, {1: 2}, {2: 1}),
    *(range(3), slice(1, 2), ..., 10**5000, "\ud800", torch.float64, np.float64(1.0)),
    *(np.zeros(2), np.zeros((2, 1)), np.zeros(2, "f4"), torch.zeros(2), np.dtype("f4")),
    *(float, int, torch.nn.Linear, Erf, convnet(), convnet(depth=3)),
]


@pytest.mark.parametrize("values", [FUNCTIONS, VALUES])
def test_values_that_differ_have_digests_that_differ(values):
    digests = [digest_of(value) for value in values]
    assert len(set(digests)) == len(values)
    assert digests == [digest_of(value) for value in values]


def test_equal_values_have_equal_digests():
    one, other = [1.0, 2.0], (3.0,)
    assert digest_of([one, one, other]) == digest_of([[1.0, 2.0], list(one), (3.0,)])
    assert digest_of({0, 8}) == digest_of({8, 0})  # that come in another order
    own = {}
    own["own"] = own
    assert digest_of(own) == digest_of(own)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "import threading\nLOCK = threading.Lock()\ndef f(x): return LOCK",
            "an object of type 'lock', global name 'LOCK'",
        ),
        (
            "import sys\nclass C:\n    a = sys\nf = C()",
            "a module that is no global name, attribute 'a' of 'C'",
        ),
        (
            "def f(x):\n    import module_of_mine\n    return x",
            "the import of 'module_of_mine' within a function, its code",
        ),
        (
            "def f(x):\n    from . import torch\n    return x",
            "the import of '.' within a function",
        ),
        (
            "import numpy as np\ng = np.frompyfunc(lambda x: x, 1, 1)\n"
            "def f(x): return g(x)",
            "which is known by name only, global name 'g'",
        ),
        ("def g(): yield 1\nf = g()", "an object of type 'generator'"),
    ],
)
def test_what_has_no_digest_is_told_with_where_it_is_used(source, told):
    with pytest.raises(UnknownValueError, match=told):
        digest_of(made(source))


def test_compiled_code_of_yours_is_told(monkeypatch):
    of_library = "skconvgp.estimators.compute._digest.library_of"
    assert digest_of(deque.append) != digest_of(deque.pop)
    monkeypatch.setattr(of_library, lambda name: name != "collections" or None)
    with pytest.raises(UnknownValueError, match=r"compiled code, deque\.append"):
        digest_of(deque.append)


def test_values_too_deep_are_told():
    deep = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(UnknownValueError, match="too deep"):
        digest_of(deep)


def test_imports_of_libraries_within_a_function_are_fine():
    source = "def f(x):\n    from math import sin\n    return 1.0 * sin(x)"
    assert digest_of(made(source)) != digest_of(made(source.replace("1.0", "5.0")))


@pytest.mark.parametrize(
    ("module", "library"),
    [
        ("math", "python 3."),
        ("collections.abc", "python 3."),
        ("builtins", "python 3."),
        ("torch._C._nn", f"torch {torch.__version__.partition('+')[0]}"),
        ("sklearn.base", "scikit-learn "),
        ("skconvgp.kernels", "skconvgp "),
    ],
)
def test_libraries_are_known_with_their_versions(module, library):
    assert library_of(module).startswith(library)


@pytest.mark.parametrize("module", ["__main__", "", "no_such_module", __name__])
def test_code_of_yours_is_of_no_library(module):
    assert library_of(module) is None


def test_a_library_counts_with_its_version(monkeypatch):
    f = made("import torch\ndef f(x): return torch.tanh(x)")
    kernel = Sequential(Flatten(), Dense(), Elementwise(torch.tanh), Dense())
    before = [digest_of(f), digest_of(torch.tanh), digest_of(kernel)]
    library_of.cache_clear()
    monkeypatch.setattr(
        "skconvgp.estimators.compute._libraries.version", lambda _: "99.0"
    )
    after = [digest_of(f), digest_of(torch.tanh), digest_of(kernel)]
    library_of.cache_clear()
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_an_installed_package_that_is_worked_on_is_yours(tmp_path, monkeypatch):
    for folder in ("site-packages", "work"):
        package = tmp_path / folder / f"sealed_{folder[:4]}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("def f(x): return x")
        monkeypatch.syspath_prepend(str(package.parent))
    distributions = {"sealed_site": ["sealed"], "sealed_work": ["open"]}
    place = "skconvgp.estimators.compute._libraries"
    monkeypatch.setattr(f"{place}._distributions", lambda: distributions)
    monkeypatch.setattr(f"{place}.version", lambda name: f"of {name}")
    import sealed_site
    import sealed_work

    name = "sealed_site.f of sealed of sealed"
    assert name_in_library(sealed_site.f) == name
    assert name_in_library(sealed_work.f) is None
