"""The types of the compiled extension are those that it has."""

import ast
import re
from pathlib import Path

from skconvgp.backends import _fused_cpu as door
from tests.helpers.fused import needs_extension

STUB = Path(door.__file__).with_name("_native.pyi")
KINDS = {"ndarray": "_Array", "collections": "Sequence"}


def written(node):
    """Return the types of a function of the stub, by the names of its arguments."""
    types = {
        one.arg: ast.unparse(one.annotation) for one in node.args.args if one.annotation
    }
    return types | {"return": ast.unparse(node.returns)}


def of_the_stub():
    """Return the types of all functions and methods."""
    found = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = written(node)
        elif isinstance(node, ast.ClassDef):
            methods = {f"{node.name}.{one.name}": written(one) for one in node.body}
            found |= methods
    return found


def compiled(function):
    """Return the types of a function's first signature, as nanobind states it."""
    signature = function.__nb_signature__[0][0]
    inside, _, result = signature.rpartition(" -> ")
    found = re.findall(r"[(,] ?(\w+): (\w+)", inside)
    types = {name: KINDS.get(kind, kind) for name, kind in found}
    return types | {"return": result}


def of_the_code():
    """Return the same, of the extension."""
    found = {}
    for name, item in vars(door._native).items():
        if isinstance(item, type):
            for method in ("__init__", *(one for one in vars(item) if one[0] != "_")):
                found[f"{name}.{method}"] = compiled(getattr(item, method))
        elif hasattr(item, "__nb_signature__"):
            found[name] = compiled(item)
    return found


def plain(types):
    """Return types without what is in their brackets, which nanobind writes longer."""
    return {
        name: kind if name == "return" else kind.partition("[")[0]
        for name, kind in types.items()
    }


@needs_extension
def test_functions_have_the_arguments_that_the_stub_states():
    stub, code = of_the_stub(), of_the_code()
    assert len(code) == 10
    assert {name: plain(types) for name, types in stub.items()} == code
    assert list(stub["cross"])[-2:] == ["instruction_set", "return"]
    for name in code:  # and in the same order
        assert list(stub[name]) == list(code[name])
