"""The rules of the house that no other tool holds."""

import ast
import functools
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import textwrap
import traceback
from collections import Counter
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import skconvgp
from skconvgp import transforms
from skconvgp.engine import KernelOracle
from skconvgp.flows import Adam
from skconvgp.kernels import PatchKernel, rbf
from tests.helpers.sources import FILES, PACKAGE, lines_of_code, name_of, nodes_of

ROOT = PACKAGE.parent
CHECKOUT = Path(__file__).parents[1]
FOLDERS = (".ci", "benchmarks", "docs", "examples", "skconvgp", "tests")
GENERATED = {"_build", "_generated", "auto_examples", "gen_modules", "generated"}
TEXTS = {".cpp", ".hpp", ".md", ".py", ".rst", ".toml"}
MAX_LINES = 250  # of code
MOST_CLASSES, MOST_OWN_CLASSES = 12, 4  # that a public estimator is made of
LONGEST_FIT = 10  # lines
MOST_PRIVATE = 4  # attributes of a fitted estimator
# From a public `fit` to the Gram matrix: files of two floors, and frames.
MOST_FILES = {"estimators": 5, "processes": 3}
MOST_FRAMES = 15
# Who asks whether something is a kernel: the door, and the prior of a strategy that has
# a kernel as a setting.
KERNEL_DOORS = {"estimators/settings/_checks.py", "processes/basis/_coarse.py"}
MOST_KERNEL_QUESTIONS = 4
MOST_ASSERTS = 10  # in estimators
MOST_DECISIONS = 30  # pages
# Lines of docstrings of private objects from their first section on, but blank ones.
MOST_PRIVATE_SECTIONS = 700
SECTION = re.compile(r"^ *(Parameters|Returns|Yields|Raises|Attributes)\n *---", re.M)
SHOWN = re.compile(r"literalinclude:: \S*(skconvgp/\S+)\.py\n +:pyobject: (\w+)")
# What scikit-learn and Python ask each class for; all of them call `super()`.
EXTENDED = {"__init__", "__sklearn_tags__", "__getstate__", "__setstate__"}

PUBLIC_NAMES = {
    "skconvgp": """SKOPS_TRUSTED_TYPES BayesianNetworkClassifier
        BayesianNetworkRegressor BinaryEncoder ConvNetGPClassifier ConvNetGPRegressor
        ImageClassifier ImagePart ImageRegressor
        KernelEnsembleClassifier KernelFeatures KernelFlowsClassifier
        KernelFlowsRegressor KernelFlowsWarp
        NystromCompletedGP NystromCompletedGPRegressor PatchGPClassifier
        PatchGPRegressor __version__ as_sklearn_kernel
        check_precision from_sklearn_kernel gram_diag gram_gradient gram_matrix
        gram_vjp selection_report show_versions""",
    "skconvgp.augmentation": "Flip Part Shift",
    "skconvgp.completion": """CoarseKernel CompletedGram EnsembleNystrom
        IterativeSVD MatrixFactorization NearestNeighbors Nystrom Part RandomFeatures
        SoftImpute SubsetOfData""",
    "skconvgp.datasets": """fetch_cifar10 fetch_mnist load_digits_images
        load_image_folder load_uci make_doppler make_rectangles
        make_swissroll_cheesecake make_three_bumps""",
    "skconvgp.display": """AttributionDisplay AuditDisplay CompletionErrorDisplay
        NoveltyDisplay PatchesDisplay PredictionSetDisplay QueryCurvesDisplay
        ReliabilityDisplay RhoTraceDisplay SelectionDisplay SpectrumDisplay
        UncertainDigitsDisplay""",
    "skconvgp.estimators": """SKOPS_TRUSTED_TYPES BayesianNetworkClassifier
        BayesianNetworkRegressor BinaryEncoder NetworkReport ConvNetGPClassifier
        ConvNetGPRegressor FitPlan FitReport ImageClassifier ImagePart ImageRegressor
        KernelEnsembleClassifier KernelFeatures KernelFlowsClassifier
        KernelFlowsRegressor
        KernelFlowsWarp NystromCompletedGP NystromCompletedGPRegressor OtherPlan
        PatchGPClassifier PatchGPRegressor PlannedStage
        PrecisionReport SelectionReport as_sklearn_kernel check_precision
        from_sklearn_kernel gram_diag gram_gradient gram_matrix gram_vjp
        selection_report show_versions""",
    "skconvgp.exceptions": """CompletionError ImageShapeWarning JitterWarning
        NotFiniteError NotPSDError ScaleWarning TileMemoryError
        VersionMismatchWarning""",
    "skconvgp.flows": """Adam BayesianOptimization FlowResult GradientDescent LBFGS
        OptimizerResult Part Rho Score Step VariationalBound rho_path""",
    "skconvgp.kernels": """GELU Abs AvgPool2d Conv2d Dense Dropout Elementwise Erf
        Flatten FlipAverage GlobalAvgPool2d Hyperparameter Identity Kernel Layer
        LayerNorm LeakyReLU Maps
        MaxNormalization OnColumns OrbitAverage PatchContrast PatchKernel
        PatchWhitening Product ReLU Residual Scale Sequential SiLU Sigmoid Sin
        Softplus Sum Tanh arcsine
        convnet convnet_gap dense dot_product literal_max_normalization matern myrtle
        optical polynomial rbf residual_convnet resnet32 three_layer_convnet""",
    "skconvgp.likelihoods": (
        "Bernoulli Beta Calibration Dirichlet ExpectedSites Familiarity Gaussian "
        "Laplace Part "
        "RobustMax Sites Softmax Span Targets"
    ),
    "skconvgp.metrics": """accuracy_rejection_auc_score accuracy_rejection_curve
        brier_decomposition expected_calibration_error gaussian_wasserstein
        interval_coverage interval_width negative_log_predictive_density
        reliability_table robustness_curve split_rhat""",
    "skconvgp.questions": """Audit attribution audit novelty prediction_interval
        prediction_set query representer_points select_threshold""",
    "skconvgp.solvers": """Cholesky CholeskyState ConjugateGradient
        ConjugateGradientState Lsqr Part RefinedCholesky RefinedCholeskyState
        Solution""",
    "skconvgp.transforms": """ChannelScaler ChannelWhitening ContrastNormalization
        Downsample ReadImages ScatteringTransform ZCAWhitening""",
}
# Made by the package and never by a user.
WITHOUT_EXAMPLES = {"CholeskyState", "ConjugateGradientState", "RefinedCholeskyState"}
ESTIMATORS = [
    "ConvNetGPClassifier",
    "ConvNetGPRegressor",
    "KernelFlowsClassifier",
    "KernelFlowsRegressor",
    "NystromCompletedGP",
    "NystromCompletedGPRegressor",
    "PatchGPClassifier",
    "PatchGPRegressor",
    "ImageClassifier",
    "ImageRegressor",
    "KernelEnsembleClassifier",
    "KernelFeatures",
    "KernelFlowsWarp",
    "BayesianNetworkClassifier",
    "BayesianNetworkRegressor",
    "BinaryEncoder",
]
TRANSFORMERS = transforms.__all__
SECTIONS = ["Parameters", "Attributes", "Raises", "See Also", "Notes", "References"]
SECTIONS += ["Examples"]
HEAVY = ["matplotlib", "skopt", "pandas", "polars", "zarr", "dask", "optuna"]


def calls(path):
    """Yield the function of each call in a file."""
    for node in nodes_of(path):
        if isinstance(node, ast.Call):
            yield node.func


def method_calls(path, *names):
    """Return the calls of methods with one of these names."""
    return [
        func
        for func in calls(path)
        if isinstance(func, ast.Attribute) and func.attr in names
    ]


def texts():
    """Yield the path and the text of each file that people write."""
    paths = [path for path in CHECKOUT.iterdir() if path.suffix in TEXTS]
    for folder in FOLDERS:
        paths += (CHECKOUT / folder).rglob("*")
    for path in paths:
        written = not GENERATED & set(path.relative_to(CHECKOUT).parts)
        if written and path.suffix in TEXTS:
            yield path, path.read_text(encoding="utf-8")


def files_with(found):
    return {name_of(path) for path in FILES if found(path)}


def public_objects():
    for module, names in PUBLIC_NAMES.items():
        for name in names.split():
            item = getattr(importlib.import_module(module), name)
            if inspect.isclass(item) or inspect.isfunction(item):
                yield pytest.param(item, id=f"{module}.{name}")


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(
    not (ROOT / "setup.cfg").exists(), reason="the contracts are not installed"
)
def test_imports_keep_to_the_floors():
    pytest.importorskip("importlinter")
    done = run_python("import importlinter.cli as cli; cli.lint_imports_command()")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_files_are_short():
    lengths = {name_of(path): lines_of_code(path) for path in FILES}
    assert not {name: n for name, n in lengths.items() if n > MAX_LINES}


def class_of(name):
    """Return an estimator or a transformer."""
    return getattr(skconvgp if name in ESTIMATORS else transforms, name)


def own_classes(cls):
    return [one for one in cls.__mro__ if one.__module__.startswith("skconvgp.")]


def bodies_of(cls):
    """Yield the names of methods of a class that do something."""
    for name, member in vars(cls).items():
        if inspect.isfunction(member) or isinstance(member, property):
            yield name


@pytest.mark.parametrize("name", ESTIMATORS + TRANSFORMERS)
def test_estimators_are_made_of_few_classes(name):
    cls = class_of(name)
    assert len(cls.__mro__) <= MOST_CLASSES, cls.__mro__
    own = own_classes(cls)
    assert len(own) <= MOST_OWN_CLASSES, own


@pytest.mark.parametrize("name", ESTIMATORS + TRANSFORMERS)
def test_no_method_overrides_another(name):
    seen = Counter(
        method
        for cls in own_classes(class_of(name))
        for method in set(bodies_of(cls)) - EXTENDED
    )
    assert not {method for method, count in seen.items() if count > 1}


@pytest.mark.parametrize("name", ESTIMATORS + TRANSFORMERS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_fits_are_read_in_the_public_class(name, method):
    public, *bases = own_classes(class_of(name))
    assert not [cls for cls in bases if method in vars(cls)]
    assert method == "partial_fit" or method in vars(public)


@pytest.mark.parametrize("name", ESTIMATORS + TRANSFORMERS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_fits_are_short(name, method):
    fit = vars(class_of(name)).get(method)
    if fit is not None:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(fit))).body
        first, last = node.body[1], node.body[-1]  # behind the docstring
        assert last.end_lineno - first.lineno < LONGEST_FIT


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if "Flows" in name])
def test_kernel_flows_take_no_sample_weights(name):
    fit = inspect.signature(getattr(skconvgp, name).fit)
    assert list(fit.parameters) == ["self", "X", "y"]


@pytest.mark.parametrize("name", ESTIMATORS + TRANSFORMERS)
def test_what_is_extended_is_called(name):
    own = own_classes(class_of(name))
    for cls in own:
        for method in (EXTENDED - {"__init__"}) & set(bodies_of(cls)):
            assert f"super().{method}" in inspect.getsource(vars(cls)[method])


@pytest.mark.parametrize("name", ESTIMATORS + TRANSFORMERS)
def test_own_methods_stand_in_files_that_the_caller_imports(name):
    own = own_classes(class_of(name))
    home = {method: cls.__module__ for cls in own for method in bodies_of(cls)}
    for cls in own:
        tree = ast.parse(inspect.getsource(sys.modules[cls.__module__]))
        near = {cls.__module__}
        near |= {
            node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
        }
        called = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
        }
        assert not {method for method in called & set(home) if home[method] not in near}


@pytest.mark.parametrize("name", ["ConvNetGPClassifier", "ConvNetGPRegressor"])
def test_the_way_to_the_gram_matrix_is_short(name, monkeypatch):
    gram, ways = KernelOracle.gram, []

    def recorded(self, *arguments):
        frames = [inspect.getfile(frame) for frame, _ in traceback.walk_stack(None)]
        ways.append([Path(file) for file in frames if str(PACKAGE) in file])
        return gram(self, *arguments)

    monkeypatch.setattr(KernelOracle, "gram", recorded)
    getattr(skconvgp, name)(rbf(1.0)).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    (way,) = ways
    assert len(way) <= MOST_FRAMES
    for floor, most in MOST_FILES.items():
        files = {path for path in way if name_of(path).startswith(f"{floor}/")}
        assert 0 < len(files) <= most


@pytest.mark.parametrize("name", ESTIMATORS)
def test_private_attributes_of_fitted_estimators_are_few(name):
    X, y = np.random.default_rng(0).normal(size=(40, 1, 4, 4)), np.arange(40) % 2
    kernel = (
        PatchKernel(patch_size=2, location_lengthscale=None)
        if "Patch" in name
        else rbf(1.0)
    )
    kernel = [kernel] if name.startswith("Image") else kernel
    quick = {"n_steps": 1, "n_inducing": 4, "estimators": [("a", rbf(1.0))]}
    quick |= {"optimizer": Adam(max_iter=1) if "Flows" in name else None}
    kernel = (3,) if "Network" in name else kernel  # sizes of layers
    kernel = 3 if name == "BinaryEncoder" else kernel  # bits
    quick |= {"n_features": 20}
    quick |= {"max_iter": 3} if "Network" in name or "Binary" in name else {}
    estimator = getattr(skconvgp, name)(kernel)
    known = estimator.get_params()
    estimator.set_params(**{key: quick[key] for key in quick if key in known})
    estimator.fit(X, y)
    private = [name for name in vars(estimator) if name.startswith("_")]
    assert len(private) <= MOST_PRIVATE, private


@pytest.mark.parametrize("name", sorted(set(TRANSFORMERS) - {"ReadImages"}))
def test_fitted_transformers_have_no_private_attributes(name):
    transformer = class_of(name)().fit(np.ones((2, 1, 4, 4)))
    assert not [name for name in vars(transformer) if name.startswith("_")]


def test_only_doors_ask_whether_something_is_a_kernel():
    question = re.compile(r"isinstance\(.+, Kernel\)")
    asked = {name_of(path): len(question.findall(path.read_text())) for path in FILES}
    above = {
        name: count
        for name, count in asked.items()
        if count and name.startswith(("estimators/", "processes/"))
    }
    assert set(above) <= KERNEL_DOORS
    assert sum(above.values()) <= MOST_KERNEL_QUESTIONS


def test_estimators_assert_little():
    asserts = [
        name_of(path)
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Assert)
    ]
    own = [name for name in asserts if name.startswith("estimators/")]
    assert len(own) <= MOST_ASSERTS, own


def test_only_pages_of_the_repository_are_cited():
    found = dict(texts())
    here = {path.name for path in found}
    cited = {
        (path.name, name)
        for path, text in found.items()
        for name in re.findall(r"[\w-]+\.md\b", text)
    }
    assert {name for _, name in cited} >= {"CHANGELOG.md", "README.md"}
    assert not {pair for pair in cited if pair[1] not in here}


def test_decisions_are_few_and_come_first():
    pages = list((CHECKOUT / "docs" / "adr").iterdir())
    listed = (CHECKOUT / "docs" / "decisions.rst").read_text(encoding="utf-8")
    assert len(pages) <= MOST_DECISIONS
    assert {page.suffix for page in pages} == {".md"}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert re.match(r"# \S.*\n\n## Decision\n\n\S", text), page
    names = sorted(f"adr/{page.stem}" for page in pages)
    assert sorted(re.findall(r"^ +(adr/\S+)$", listed, re.M)) == names


def test_cited_sections_of_the_mathematics_exist():
    page = "docs/" + "maths.rst"
    lines = (CHECKOUT / page).read_text(encoding="utf-8").splitlines()
    titles = {
        title
        for title, rule in pairwise(lines)
        if title and re.fullmatch("-+", rule) and len(rule) == len(title)
    }
    n_cited = 0
    for path, text in texts():
        if path.suffix not in {".cpp", ".hpp", ".py"}:
            continue
        plain = re.sub(r"\s*\n[\s#/]*", " ", text)
        sections = re.findall(re.escape(page) + ', "([^"]+)"', plain)
        assert len(sections) == plain.count(page), path  # all name a section
        assert set(sections) <= titles, path
        n_cited += len(sections)
    assert n_cited > 30


def test_tensors_become_arrays_at_the_door_only():
    doors = {"engine/_arrays.py", "engine/_files.py", "engine/_store.py"}
    doors |= {"linalg/_in_place.py"}  # LAPACK overwrites the memory of a tensor
    assert files_with(lambda path: method_calls(path, "numpy", "cpu")) <= doors


def test_only_estimators_warn():
    found = files_with(lambda path: method_calls(path, "warn"))
    assert found
    assert all(name.startswith("estimators/") for name in found)


def test_nothing_prints():
    def prints(path):
        return [
            func
            for func in calls(path)
            if isinstance(func, ast.Name) and func.id in ("print", "breakpoint")
        ]

    assert not files_with(prints)


def test_only_progress_versions_and_commands_write_to_the_terminal():
    def writers(path):
        return {
            node.name
            for node in nodes_of(path)
            if isinstance(node, ast.FunctionDef) and "sys.std" in ast.unparse(node)
        }

    found = files_with(lambda path: "sys.std" in path.read_text())
    found = {name for name in found if not name.startswith("_command/")}
    assert found == {"estimators/compute/_bar.py", "estimators/_report.py"}
    assert writers(PACKAGE / "estimators/_report.py") == {"show_versions"}


def test_linear_algebra_stays_in_its_floor():
    found = files_with(lambda path: "torch.linalg" in path.read_text())
    assert all(name.startswith("linalg/") for name in found)


def test_no_random_number_without_a_generator():
    draws = ("rand", "randn", "randint", "randperm", "normal_", "uniform_")

    def draws_without(path):
        return [
            node
            for node in nodes_of(path)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in draws
            and not re.search("generator|random_state", ast.unparse(node))
        ]

    assert not files_with(draws_without)


# Functions of torch that take their precision and their device from its defaults, or
# from arrays; `torch.nn` and `SobolEngine` are under `ordinary_torch`.
CREATIONS = {
    "arange",
    "as_tensor",
    "asarray",
    "empty",
    "empty_strided",
    "eye",
    "full",
    "hann_window",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randint",
    "randn",
    "randperm",
    "range",
    "scalar_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "vander",
    "zeros",
}


def test_no_tensor_without_its_precision_and_its_device():
    def created(path):
        return [
            ast.unparse(node)
            for node in nodes_of(path)
            if isinstance(node, ast.Call)
            and ast.unparse(node.func) in {f"torch.{name}" for name in CREATIONS}
            and not {"dtype", "device"} <= {word.arg for word in node.keywords}
        ]

    assert not {name_of(path): created(path) for path in FILES if created(path)}


def test_names_of_torch_are_not_imported_past_the_rule():
    imported = {
        alias.name
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and node.module == "torch"
        for alias in node.names
    }
    assert imported.isdisjoint(CREATIONS)


def test_nothing_that_all_threads_share_is_set():
    setters = ("set_default_dtype", "set_default_device", "set_default_tensor_type")
    setters += ("use_deterministic_algorithms", "set_flush_denormal", "manual_seed_all")
    setters += ("set_float32_matmul_precision", "set_printoptions", "set_rng_state")
    assert not files_with(lambda path: method_calls(path, *setters))


# What sets or describes, and computes nothing.
SETTINGS = {"get_params", "set_params", "get_feature_names_out"}


def is_behind_the_door(function):
    """Return whether a decorator of a function sets torch's state."""
    while function is not None:
        if Path(function.__code__.co_filename).stem in ("_ambient", "_public_fit"):
            return True
        function = getattr(function, "__wrapped__", None)
    return False


@pytest.mark.parametrize("name", ESTIMATORS + TRANSFORMERS)
def test_public_methods_compute_behind_the_door(name):
    methods = {
        method: member
        for cls in own_classes(class_of(name))
        for method, member in vars(cls).items()
        if inspect.isfunction(member) and not method.startswith("_")
    }
    open_ones = {
        method
        for method, member in methods.items()
        if method not in SETTINGS
        and not inspect.isgeneratorfunction(member)  # enters the door for each step
        and not is_behind_the_door(member)
    }
    assert not open_ones


@pytest.mark.parametrize(
    "module", ["skconvgp", "skconvgp.metrics", "skconvgp.questions"]
)
def test_public_functions_compute_behind_the_door(module):
    found = importlib.import_module(module)
    functions = [getattr(found, name) for name in found.__all__]
    functions = [one for one in functions if inspect.isfunction(one)]
    assert functions
    assert all(map(is_behind_the_door, functions))


@pytest.mark.parametrize("module", PUBLIC_NAMES)
def test_public_names_are_these(module):
    names = importlib.import_module(module).__all__
    assert sorted(names) == sorted(PUBLIC_NAMES[module].split())


def test_every_name_of_every_module_exists():
    for info in pkgutil.walk_packages(skconvgp.__path__, "skconvgp."):
        module = importlib.import_module(info.name)
        names = getattr(module, "__all__", [])
        assert len(set(names)) == len(names), info.name
        missing = [name for name in names if not hasattr(module, name)]
        assert not missing, info.name


@pytest.mark.parametrize("item", list(public_objects()))
def test_public_objects_are_documented_with_an_example(item):
    assert item.__doc__, item
    doc = inspect.getdoc(item)
    assert doc.splitlines()[0].endswith("."), doc.splitlines()[0]
    if inspect.isabstract(item) or item.__name__ in WITHOUT_EXAMPLES:
        return
    example = doc.partition("Examples\n--------\n")[2]
    assert ">>> " in example


@pytest.mark.parametrize("item", list(public_objects()))
def test_public_methods_are_documented(item):
    if not inspect.isclass(item):
        return
    for name, member in vars(item).items():
        is_callable = inspect.isfunction(member) or isinstance(member, property)
        if is_callable and not name.startswith("_"):
            assert inspect.getdoc(member), f"{item.__name__}.{name}"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_have_every_section_in_order(name):
    doc = inspect.getdoc(getattr(skconvgp, name))
    found = re.findall(r"^([A-Z][\w ]+)\n-{3,}$", doc, flags=re.MULTILINE)
    assert found == SECTIONS


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_document_every_parameter_in_order(name):
    cls = getattr(skconvgp, name)
    section = inspect.getdoc(cls).split("Attributes\n---")[0]
    documented = re.findall(r"^(\w+) : ", section, flags=re.MULTILINE)
    assert documented == list(inspect.signature(cls).parameters)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_docstrings_of_estimators_are_valid(name):
    validate = pytest.importorskip("numpydoc.validate").validate
    cls = getattr(skconvgp, name)
    methods = [
        method
        for method, member in vars(cls).items()
        if inspect.isfunction(member) and not method.startswith("_")
    ]
    allowed = {"ES01", "EX01", "GL01", "SA01", "SS05", "RT02", "YD01"}  # setup.cfg
    for path in [f"skconvgp.{name}", *(f"skconvgp.{name}.{m}" for m in methods)]:
        errors = validate(path)["errors"]
        assert not [error for error in errors if error[0] not in allowed], path


@functools.cache
def documented():
    """Yield module and name of what `docs/api.rst` lists and what other pages show."""
    for param in public_objects():
        (item,) = param.values
        yield item.__module__, item.__qualname__
        for cls in inspect.getmro(item) if inspect.isclass(item) else ():
            for name in vars(cls):
                if not name.startswith("_"):
                    yield cls.__module__, f"{cls.__qualname__}.{name}"
    for page in (CHECKOUT / "docs").rglob("*.rst"):
        for path, name in SHOWN.findall(page.read_text(encoding="utf-8")):
            module = path.replace("/", ".")
            yield module, name
            item = getattr(importlib.import_module(module), name)
            for member in vars(item):
                yield module, f"{name}.{member}"


def docstrings(node, prefix=""):
    """Yield the name and the docstring of each function and class of a file."""
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield f"{prefix}{child.name}", ast.get_docstring(child, clean=False) or ""
            name = f"{prefix}{child.name}."
        yield from docstrings(child, name)


def test_private_docstrings_have_few_sections():
    public = set(documented())
    lengths = Counter()
    for path in FILES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name, text in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
            found = SECTION.search(text)
            if found and (module.removesuffix(".__init__"), name) not in public:
                lines = text[found.start() :].splitlines()
                lengths[name_of(path)] += sum(map(bool, map(str.strip, lines)))
    assert sum(lengths.values()) <= MOST_PRIVATE_SECTIONS, lengths.most_common(20)


@functools.cache
def imported():
    """Return what a program writes that imports and fits, and what it tells."""
    # What scikit-learn loads by itself (1.9: pandas, where it is installed) is its own.
    done = run_python("""
import json, sys, warnings
import sklearn.datasets, sklearn.gaussian_process, sklearn.utils.parallel, torch
before = set(sys.modules)
import skconvgp
told = {"loaded": sorted(set(sys.modules) - before), "offered": dir(skconvgp)}
gp = skconvgp.ConvNetGPRegressor(skconvgp.kernels.rbf())
gp.fit([[0.0], [1.0]], [0.0, 1.0]).predict([[0.5]])
told["pictures"] = "PIL" in sys.modules
warnings.simplefilter("ignore")
from skconvgp import kernels as k
from skconvgp.completion import NearestNeighbors, Nystrom
X, y = skconvgp.datasets.load_digits_images(return_X_y=True)
X, y = X[:40], y[:40]
network, few = k.convnet(depth=1, kernel_size=3), skconvgp.flows.Adam(max_iter=2)
GP = skconvgp.ConvNetGPClassifier
for model in (
    GP(k.rbf(), optimizer="evidence"),
    GP(k.rbf() + k.matern(), optimizer="loo"),
    GP(network, optimizer="loo"),
    GP(k.rbf(), optimizer="evidence", likelihood="laplace"),
    GP(k.rbf(), optimizer="loo", completion=NearestNeighbors()),
    GP(network, completion=Nystrom(n_landmarks=20)),
    skconvgp.KernelFlowsClassifier(k.rbf(), optimizer=few),
    skconvgp.KernelFlowsRegressor(network.replace(kind="ntk"), optimizer=few),
    skconvgp.PatchGPClassifier(),
    skconvgp.ImageClassifier(),
    skconvgp.BayesianNetworkClassifier(max_iter=3),
    skconvgp.BinaryEncoder(max_iter=3),
):
    model.fit(X, y)
skconvgp.gram_gradient(network + k.PatchKernel(k.rbf(1.0), patch_size=3), X[:9])
skconvgp.gram_gradient(network, X[:9], backend="torch")
told["compiler"] = "torch._dynamo" in sys.modules
skconvgp.display, skconvgp.datasets, skconvgp.transforms, skconvgp.metrics
skconvgp.questions
told["nothing"] = hasattr(skconvgp, "nothing")
print(json.dumps(told))
""")
    assert done.returncode == 0, done.stderr
    return done, json.loads(done.stdout.splitlines()[-1])


def test_import_loads_no_optional_package():
    _, told = imported()
    loaded = {name.partition(".")[0] for name in told["loaded"]}
    assert "skconvgp" in loaded
    assert loaded.isdisjoint(HEAVY)
    assert not told["pictures"]


def test_nothing_usual_imports_the_compiler_of_torch():
    _, told = imported()  # it takes seconds; forward derivatives of torch import it
    assert not told["compiler"]


def test_the_package_offers_modules_that_it_has_not_imported():
    _, told = imported()
    later = {"datasets", "display", "questions", "transforms"}
    assert later <= set(told["offered"])
    assert {"skconvgp.questions", "skconvgp.transforms"}.isdisjoint(told["loaded"])
    assert not told["nothing"]


def test_import_and_a_fit_write_nothing():
    done, _ = imported()
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_version_is_that_of_the_package():
    assert skconvgp.__version__ == version("skconvgp")


def test_types_are_shipped():
    assert (PACKAGE / "py.typed").exists()
