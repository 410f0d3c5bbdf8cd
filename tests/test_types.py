"""Types of settings say what the checks accept; `make lint` tries them with mypy."""

import ast
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

import skconvgp
from skconvgp.backends import BACKENDS
from skconvgp.estimators import _nystrom, _patches
from skconvgp.estimators.settings import _checks, _search, _types

PROGRAM = Path(__file__).parent / "typing" / "settings.py"
GPS = [
    name for name in skconvgp.__all__ if re.search(r"GP(Class|Regr|$)|^Image[CR]", name)
]
# Settings whose values are of too many kinds.
UNTYPED = {"inducing", "landmarks", "n_inducing", "n_locations"}


def words_of(given):
    """Return the words that a type allows."""
    found = [one for part in get_args(given) for one in (part, *get_args(part))]
    return {one for one in found if isinstance(one, str)}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (_types.NoiseVariance, _checks.NOISE_WORDS),
        (_types.LabelLikelihood, _checks.LIKELIHOODS),
        (_types.BackendName, BACKENDS),
        (_types.Dtype, ("auto", *_checks.DTYPES)),
        (_types.SolveDtype, _checks.DTYPES),
        (_types.OptimizerOrWord, _search.KINDS),
        (_types.PatchOptimizer, (*_search.PATCH_KINDS, _search.BOUND)),
        (_types.NystromVariance, _nystrom.VARIANCES),
        (_types.PatchVariance, _patches.VARIANCES),
        (
            _types.AnyLikelihood,
            _checks.LIKELIHOODS | _checks.VARIATIONAL_LIKELIHOODS,
        ),
    ],
)
def test_words_are_those_of_the_checks(given, words):
    assert words_of(given) == set(words)


def test_solvers_have_the_words_of_the_check():
    for word in words_of(_types.SolverOrWord):
        _checks.as_solver(word)
    assert _checks.as_amplitude(*words_of(_types.Amplitude)) == "profile"


@pytest.mark.parametrize("name", GPS)
def test_settings_of_processes_have_types(name):
    assert len(GPS) == 8
    parameters = inspect.signature(getattr(skconvgp, name)).parameters
    untyped = {key for key, one in parameters.items() if one.annotation is object}
    assert untyped <= UNTYPED


def wrong_lines():
    """Return the lines of the program that mypy must refuse."""
    tree = ast.parse(PROGRAM.read_text(encoding="utf-8"))
    (wrong,) = [one for one in tree.body if getattr(one, "name", "") == "wrong"]
    return [ast.unparse(one) for one in wrong.body[1:]]


@pytest.mark.parametrize("line", wrong_lines())
def test_what_the_type_refuses_a_fit_refuses_too(line):
    names = {}
    exec(PROGRAM.read_text(encoding="utf-8"), names)
    found = re.search(r"\((\w+)=", line)
    setting = found[1] if found else "parts" if "Image" in line else "kernel"
    if not line.startswith("gram_matrix"):
        line += ".fit(X, [0.0, 1.0])"
    with pytest.raises((TypeError, ValueError), match=rf"['` ]{setting}['`=]"):
        eval(line, names)


def test_the_program_is_checked_by_the_gate():
    settings = (PROGRAM.parents[2] / "setup.cfg").read_text(encoding="utf-8")
    assert "\nfiles = skconvgp, tests/typing\n" in settings
    text = PROGRAM.read_text(encoding="utf-8")
    assert text.count("# type: ignore[arg-type]") == len(wrong_lines()) > 15
