"""Gates that only move one way: what a restructuring of two floors has lowered.

Each ceiling is the number of today and is only ever lowered. A number that falls
clearly below its ceiling fails too, so that the ceiling comes down with the change that
earned it. The floors are `estimators` and `processes`.
"""

import ast
import inspect
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import skconvgp
from skconvgp import ConvNetGPClassifier
from tests.helpers.estimators import digits
from tests.helpers.sources import FILES, PACKAGE, name_of, nodes_of

MOST_QUESTIONS_OF_KIND = 2  # isinstance or match on classes of processes
MOST_BODIES_OF_LATENT = 2
MOST_PLANS = 1  # classes
MOST_FUNCTIONS_OF_ESTIMATORS = 20  # functions with one as a parameter
MOST_STORED_FROM_OUTSIDE = 0  # attributes of estimators
MOST_PRIVATE_FROM_OUTSIDE = 2  # uses of attributes of estimators
MOST_FILES_RUN = {"estimators": 26, "processes": 6}  # before the first tile
MOST_CALLS = 849  # of named functions of the package before it
MOST_NETWORKS_BUILT = 1  # before it
MOST_HIDDEN_IMPORTS = 0  # under TYPE_CHECKING, below `display`
MOST_ASSERTS = 19  # in processes
MOST_FILES_IN_CIRCLES = 0  # of imports, on the two floors
MOST_FLAT_TESTS = 39  # files beside each other in tests/estimators
SLACK = 0.03  # that a number may lie below its ceiling

PAGE = Path(__file__).parents[1] / "docs" / "how_it_is_built.rst"
ESTIMATORS = [path for path in FILES if name_of(path).startswith("estimators/")]
PROCESSES = [path for path in FILES if name_of(path).startswith("processes/")]
FLOORS = ESTIMATORS + PROCESSES
KINDS = re.compile("(Process|Prior|Basis|Posterior|State|Plan)$")
PARAMETERS = {"classifier", "estimator", "gp", "model", "owner", "regressor"}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
TWINS = {
    "ConvNetGPClassifier": "ConvNetGPRegressor",
    "KernelFlowsClassifier": "KernelFlowsRegressor",
    "NystromCompletedGP": "NystromCompletedGPRegressor",
    "PatchGPClassifier": "PatchGPRegressor",
    "ImageClassifier": "ImageRegressor",
    "BayesianNetworkClassifier": "BayesianNetworkRegressor",
}
# What labels and targets give different meanings or defaults.
DIFFERENT = {
    "ConvNetGPClassifier": "amplitude augment noise_variance optimizer",
    "KernelFlowsClassifier": "amplitude noise_variance",
    "NystromCompletedGP": "amplitude noise_variance variance",
    "PatchGPClassifier": "amplitude memory_budget noise_variance variance",
    "ImageClassifier": "amplitude flips noise_variance",
    "BayesianNetworkClassifier": """inference learning_rate max_iter network optimizer
        prior validation_fraction""",
}


def assert_at(ceiling, found):
    """Fail above a ceiling, and so far below it that the ceiling is to be lowered."""
    number = found if isinstance(found, int) else len(found)
    assert number <= ceiling, found
    assert number >= ceiling * (1.0 - SLACK), f"lower the ceiling to {number}"


def nodes_on(paths, kind):
    """Return the nodes of a kind in files."""
    return [node for path in paths for node in nodes_of(path) if isinstance(node, kind)]


def words_of(node):
    return set(re.findall(r"\w+", ast.unparse(node)))


@cache
def kinds():
    """Return the classes of processes and what they are made of, and their aliases."""
    found = {one.name for one in nodes_on(PROCESSES, ast.ClassDef)}
    found = {name for name in found if KINDS.search(name)}
    aliases = [
        node
        for node in nodes_on(PROCESSES, ast.AnnAssign)
        if ast.unparse(node.annotation) == "TypeAlias" and KINDS.search(node.target.id)
    ]
    return found | {node.target.id for node in aliases}


def test_kinds_are_rarely_asked_for():
    calls = nodes_on(FLOORS, ast.Call)
    asked = [one.args[1] for one in calls if ast.unparse(one.func) == "isinstance"]
    asked += [one.cls for one in nodes_on(FLOORS, ast.MatchClass)]
    assert_at(MOST_QUESTIONS_OF_KIND, [one for one in asked if words_of(one) & kinds()])


def test_functions_of_new_samples_are_written_few_times():
    functions = nodes_on(PROCESSES, FUNCTIONS)
    assert_at(MOST_BODIES_OF_LATENT, [one for one in functions if one.name == "latent"])


def test_plans_are_few():
    classes = [one.name for one in nodes_on(PROCESSES, ast.ClassDef)]
    assert_at(MOST_PLANS, [name for name in classes if name.endswith("Plan")])


@cache
def types_of_estimators():
    """Return the words for a type that estimators have."""
    return {one.name for one in nodes_on(ESTIMATORS, ast.ClassDef)} | {"Any", "object"}


def estimators_of(function):
    """Return the names of the parameters of a function that are estimators.

    Beside their names, types tell: a text is the name of one, and a type of the floor
    below is none.
    """
    given = function.args
    return {
        one.arg
        for one in given.posonlyargs + given.args + given.kwonlyargs
        if one.arg in PARAMETERS and words_of(one.annotation) & types_of_estimators()
    }


@cache
def outside_attributes():
    """Return the attributes of estimators that a function has as its parameters."""
    found = set()
    for function in nodes_on(ESTIMATORS, FUNCTIONS):
        if names := estimators_of(function):
            found |= {
                node
                for node in ast.walk(function)
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) in names
            }
    return found


def test_few_functions_take_an_estimator():
    functions = nodes_on(ESTIMATORS, FUNCTIONS)
    found = [one.name for one in functions if estimators_of(one)]
    assert_at(MOST_FUNCTIONS_OF_ESTIMATORS, found)


def test_estimators_store_their_own_attributes():
    stored = [one for one in outside_attributes() if isinstance(one.ctx, ast.Store)]
    assert_at(MOST_STORED_FROM_OUTSIDE, [ast.unparse(one) for one in stored])


def test_private_attributes_of_estimators_are_used_inside():
    texts = [ast.unparse(one) for one in outside_attributes()]
    private = [text for text in texts if re.search(r"\._(?!_)", text)]
    assert_at(MOST_PRIVATE_FROM_OUTSIDE, private)


class FirstTile(Exception):
    """The first tile is about to be computed."""


@cache
def calls_before_the_first_tile():
    """Return file and function of all own calls that the default classifier makes."""
    X, y = digits(40)

    def stop(*_):
        raise FirstTile

    ConvNetGPClassifier(n_jobs=1).fit(X, y)  # what happens once in a process
    calls = []

    def record(frame, event, _):
        code = frame.f_code
        # Comprehensions and generators are calls in some versions of Python.
        if event == "call" and not code.co_name.startswith("<"):
            calls.append((code.co_filename, code.co_name))

    before = sys.getprofile()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("skconvgp.engine._evaluate._evaluate_tile", stop)
        sys.setprofile(record)
        try:
            with pytest.raises(FirstTile):
                ConvNetGPClassifier(n_jobs=1).fit(X, y)
        finally:
            sys.setprofile(before)
    return [
        (name_of(Path(file)), function)
        for file, function in calls
        if file.startswith(f"{PACKAGE}/")
        # It reads as many files as the machine has nested groups of processes.
        and not file.endswith("_host_memory.py")
    ]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="versions differ in calls")
def test_the_walk_to_the_first_tile_is_short():
    calls = calls_before_the_first_tile()
    for floor, most in MOST_FILES_RUN.items():
        files = {file for file, _ in calls if file.startswith(f"{floor}/")}
        assert 0 < len(files) <= most, sorted(files)
    networks = [file for file, function in calls if function == "_build"]
    assert len(networks) <= MOST_NETWORKS_BUILT
    assert len(calls) <= MOST_CALLS, Counter(calls).most_common(20)


@pytest.mark.parametrize("floor", MOST_FILES_RUN)
def test_the_page_about_the_source_lists_the_files_of_a_fit(floor):
    """Compare a section of docs/how_it_is_built.rst with the files that a fit runs."""
    _, _, text = PAGE.read_text().partition(f"\nFiles of a fit in ``{floor}``\n~~~")
    section = re.split(r"\n(?:~~~|---)", text)[0]
    listed = {f"{floor}/{name}" for name in re.findall(r"``([\w/]+\.py)``", section)}
    files = {file for file, _ in calls_before_the_first_tile()}
    run = {file for file in files if file.startswith(f"{floor}/")}
    assert not run - listed, f"add to the page: {sorted(run - listed)}"
    assert not listed - run, f"drop from the page: {sorted(listed - run)}"


def test_imports_are_not_hidden():
    files = [path for path in FILES if not name_of(path).startswith("display/")]
    guards = [ast.unparse(node.test) for node in nodes_on(files, ast.If)]
    assert_at(MOST_HIDDEN_IMPORTS, [one for one in guards if "TYPE_CHECKING" in one])


def test_processes_assert_little():
    assert_at(MOST_ASSERTS, nodes_on(PROCESSES, ast.Assert))


@cache
def imports():
    """Return the modules of the two floors that each of their modules imports."""
    modules = {
        "skconvgp." + name_of(path).removesuffix(".py").replace("/", "."): path
        for path in FLOORS
    }
    found = {}
    for module, path in modules.items():
        nodes = nodes_on([path], ast.Import | ast.ImportFrom)
        named = {alias.name for node in nodes for alias in node.names}
        named |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
        named |= {f"{one}.__init__" for one in named}
        found[module] = named & set(modules)
    return found


def reached_from(module):
    """Return the modules that a module imports, by way of others too."""
    found, left = set(), [module]
    while left:
        new = imports()[left.pop()] - found
        found |= new
        left += new
    return found


def test_imports_go_in_no_circle():
    circles = [module for module in imports() if module in reached_from(module)]
    assert_at(MOST_FILES_IN_CIRCLES, circles)


def parameters_of(name):
    """Return the descriptions of the parameters of an estimator."""
    doc = inspect.getdoc(getattr(skconvgp, name)).partition("\nAttributes\n---")[0]
    entries = re.findall(r"^([\w, ]+) : .*\n((?:(?: {4}.*)?\n)*)", doc, flags=re.M)
    return {
        word: " ".join(text.split())
        for words, text in entries
        for word in words.split(", ")
    }


@pytest.mark.parametrize("classifier", TWINS)
def test_a_parameter_is_described_alike_for_labels_and_targets(classifier):
    one, other = parameters_of(classifier), parameters_of(TWINS[classifier])
    common = one.keys() & other.keys()
    assert len(common) > 10
    different = {name for name in common if one[name] != other[name]}
    assert different == set(DIFFERENT[classifier].split())


def test_tests_of_estimators_lie_in_folders():
    files = (Path(__file__).parent / "estimators").glob("test_*.py")
    assert_at(MOST_FLAT_TESTS, [path.name for path in files])
