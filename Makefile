# Every target sets up what it needs. The first time that takes a few minutes.
#   make test PYTHON=python3.12 VENV=.venv-3.12    another interpreter, own environment
#   make demo ARGS="--help"                        arguments for the program that is run

.DEFAULT_GOAL := help
.NOTPARALLEL:
# Modules are compiled once, even where the shell forbids it: else each process that a
# test starts compiles all of the package for seconds.
export PYTHONDONTWRITEBYTECODE :=
.PHONY: help demo check test test-oldest test-pure test-lanes test-processors \
    test-sanitize test-all test-gpu lint docs linkcheck dist bench clean distclean

VENV ?= .venv
VENV_OLDEST ?= .venv-oldest
VENV_PURE ?= .venv-pure
VENV_SANITIZE ?= .venv-sanitize
JOBS ?= 2
BENCHMARKS ?= $(notdir $(patsubst %/__init__,%,$(basename \
    $(shell grep -l '^PARTS' benchmarks/*.py benchmarks/*/__init__.py))))

# The first interpreter of list (1) whose sys.hexversion fulfils condition (2).
find_python = $(shell for p in $(1); do \
    if $$p -c 'import sys, ensurepip; v = sys.hexversion; sys.exit(not ($(2)))' \
    2>/dev/null; then echo $$p; break; fi; done)

ifndef PYTHON
PYTHON := $(call find_python,python3 python3.13 python3.12 python3.11 python3.14,\
    v >= 0x030b0000)
ifeq ($(PYTHON),)
PYTHON := python3
endif
endif
# The oldest numpy and scipy have wheels for Python 3.11 and 3.12 only.
PYTHON_OLDEST ?= $(call find_python,python3.11 $(PYTHON) python3.12,\
    0x030b0000 <= v < 0x030d0000)

BIN = $(VENV)/bin/python
NATIVE = $(wildcard skconvgp/backends/native/*.[ch]pp skconvgp/backends/warp/*.hpp)
WRITTEN_BY_A_SCRIPT = $(addprefix skconvgp/backends/warp/,coefficients.hpp opcodes.hpp)
# What is installed, and compiled, anew when it changes.
BUILD = pyproject.toml CMakeLists.txt $(NATIVE)
# One thread a worker, as the workers share the cores already; no plugins but ours, as
# the environment may see packages of another one for the sake of its torch.
TEST_ENV = OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
# Neighbours stay in one process, as they share what is computed once.
PYTEST_PLUGINS = -p xdist -p pytest_cov -p hypothesispytest -n $(JOBS) --dist worksteal
PYTEST = -m pytest $(PYTEST_PLUGINS)
# The gates leave out what is marked slow; `make test-all` runs it: ONLY=
ONLY ?= -m "not slow"
# On the oldest versions one estimator of a class stands for all.
ONLY_OLDEST ?= -m "not slow and not variant"
TESTS ?=
# A user's minute: images, files of models, and the compiled code against torch.
CHECK_TESTS ?= tests/estimators/images/test_images.py \
    tests/estimators/images/test_single_parts.py tests/estimators/test_persistence.py \
    tests/backends/test_scattering.py tests/kernels/test_reference_values.py \
    tests/kernels/test_vectors.py
# And the files of a release.
DIST_TESTS ?= $(CHECK_TESTS) $(addprefix tests/test_,addresses.py documentation.py \
    papers.py readme.py release_files.py site_files.py types.py)
# What other libraries decide: scikit-learn's checks, arrays and frames of others, files,
# pictures, data sets, linear algebra. And what the package does without its extension.
OLDEST_TESTS ?= tests/test_common.py tests/test_parts.py tests/datasets tests/display \
    tests/metrics tests/linalg tests/flows/test_bayesian.py \
    $(addprefix tests/estimators/,compute/test_threads.py functions/test_sklearn_kernel.py \
    images/test_versions.py test_ecosystem.py test_inputs.py test_persistence.py \
    test_precomputed.py test_weights.py)
PURE_TESTS ?= tests/backends/test_choose.py tests/backends/test_reference.py \
    tests/backends/test_program.py tests/backends/test_pullback.py \
    tests/backends/test_patch_responses.py tests/estimators/functions/test_gram.py \
    tests/estimators/compute/test_backend.py
SANITIZE_TESTS ?= tests/backends/test_fused.py tests/backends/test_fused_malformed.py \
    tests/backends/test_fused_tangents.py tests/backends/test_fused_pools.py \
    tests/backends/test_patch_responses.py tests/backends/test_scattering.py
# Wider vectors are the same code, which takes minutes to compile with sanitizers.
SANITIZE_WIDE ?= OFF
# What holds for the arithmetic of a GPU too: maps of up to 128 columns, one thread.
FEWER_COLUMNS = -k "not many_positions and not instruction_set_that \
    and not interpreter_is_free"
LANES_TESTS ?= tests/backends/test_fused.py tests/backends/test_fused_tangents.py
# Numbers, which the last bit of another processor must not move beyond what is checked:
# with the plainest kernels that MKL, OpenBLAS, torch and the extension have.
PROCESSORS_ENV = MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Prescott ATEN_CPU_CAPABILITY=default
PROCESSORS_TESTS ?= $(addprefix tests/,linalg solvers likelihoods metrics inference \
    completion flows kernels networks) $(addprefix docs/,index.rst maths.rst notation.rst) \
    docs/user_guide docs/extending skconvgp
# The interpreter is not built with the sanitizers, so they come first; leaks at its
# exit are its own.
SANITIZE_ENV = ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
    LD_PRELOAD="$(shell $(CXX) -print-file-name=libasan.so) \
    $(shell $(CXX) -print-file-name=libubsan.so)"

help:
	@echo "make demo          classify handwritten digits, compare, draw the least certain"
	@echo "make check         run some 200 tests of what is installed: a minute"
	@echo "make test          run the tests, but for the slow ones"
	@echo "make test-all      run everything, before a release: an hour"
	@echo "make test-oldest   run the tests on the oldest supported versions"
	@echo "make test-pure     run a part of the tests without the compiled extension"
	@echo "make test-lanes    run the extension's tests with the arithmetic of a GPU"
	@echo "make test-processors  run what computes numbers with another processor's kernels"
	@echo "make test-sanitize run the extension's tests with g++'s sanitizers in it"
	@echo "make test-gpu      run the tests that need a GPU"
	@echo "make lint          run the other gates: style, types, imports, docstrings, spelling"
	@echo "make docs          build the documentation into docs/_build/html"
	@echo "make linkcheck     ask whether the sites that pages link to answer"
	@echo "make dist          build the files of a release, and test them"
	@echo "make bench         run the benchmarks"
	@echo "docs/testing.rst   what each of them asks, and when to run it"
	@echo "make clean         remove what was built;  make distclean: environments too"

$(VENV)/.ready-%: $(BUILD) constraints.txt
	@BUILT_FROM="$(BUILD)" .ci/venv $(VENV) "$(PYTHON)" constraints.txt $*
	@touch $@

# With WHEEL=FILE this is not built anew: what was built is tested.
$(VENV_OLDEST)/.ready-%: $(BUILD) constraints-oldest.txt
	@WHEEL="$(WHEEL)" BUILT_FROM="$(BUILD)" \
	    .ci/venv $(VENV_OLDEST) "$(PYTHON_OLDEST)" constraints-oldest.txt $*
	@touch $@

# All that the tests need there, while there is no wheel yet.
$(VENV_OLDEST)/.needs: constraints-oldest.txt
	@ONLY_NEEDS=1 .ci/venv $(VENV_OLDEST) "$(PYTHON_OLDEST)" constraints-oldest.txt test
	@touch $@

# These two borrow what $(VENV) has, torch too.
$(VENV_PURE)/.ready-test: $(VENV)/.ready-test
	@SKCONVGP_REQUIRE_EXTENSION=0 CC=/bin/false CXX=/bin/false \
	    .ci/venv $(VENV_PURE) "$(BIN)" constraints.txt test
	@touch $@

$(VENV_SANITIZE)/.ready-test: $(VENV)/.ready-test
	@SKCONVGP_REQUIRE_EXTENSION=1 CXX="$(CXX)" \
	    .ci/venv $(VENV_SANITIZE) "$(BIN)" constraints.txt test \
	    --config-settings=cmake.define.SKCONVGP_SANITIZE=ON \
	    --config-settings=cmake.define.SKCONVGP_WIDE=$(SANITIZE_WIDE)
	@touch $@

demo: $(VENV)/.ready-display
	$(BIN) -m skconvgp demo $(ARGS)

check: $(VENV)/.ready-test
	$(TEST_ENV) $(BIN) $(PYTEST) $(ONLY) $(CHECK_TESTS) $(ARGS)

test: $(VENV)/.ready-test
	$(TEST_ENV) $(BIN) $(PYTEST) $(ONLY) $(TESTS) $(ARGS)

# All tests, with coverage, in every environment, and every page of the gallery.
ALL = ONLY= ONLY_OLDEST= OLDEST_TESTS= PURE_TESTS="tests/backends tests/estimators/functions/test_gram.py \
    tests/test_common.py" SANITIZE_TESTS="$(wildcard tests/backends/test_fused*.py) \
    tests/backends/test_scattering.py" \
    SANITIZE_WIDE=ON VENV_SANITIZE=.venv-sanitize-wide \
    LANES_TESTS="$(addprefix tests/backends/test_,fused.py fused_bits.py fused_fuzz.py \
    fused_tangents.py)"
test-all: lint
	$(MAKE) test ARGS="--cov --hypothesis-profile=all" $(ALL)
	$(MAKE) test-oldest test-pure test-lanes test-processors test-sanitize $(ALL)
	$(MAKE) docs demo

test-oldest: $(VENV_OLDEST)/.ready-test
	$(TEST_ENV) $(VENV_OLDEST)/bin/python $(if $(WHEEL),-P) $(PYTEST) \
	    $(if $(WHEEL),-o pythonpath=) $(ONLY_OLDEST) $(OLDEST_TESTS) $(ARGS)

test-pure: $(VENV_PURE)/.ready-test
	@$(VENV_PURE)/bin/python -c "from skconvgp.backends import missing_extension as m; \
	    m() or exit('An extension was found, though none was built: is one in the tree?')"
	$(TEST_ENV) $(VENV_PURE)/bin/python $(PYTEST) $(ONLY) $(PURE_TESTS) $(ARGS)

test-lanes: $(VENV)/.ready-test
	$(TEST_ENV) $(BIN) $(PYTEST) --instruction-set lanes $(ONLY) $(LANES_TESTS) \
	    $(FEWER_COLUMNS) $(ARGS)

test-processors: $(VENV)/.ready-test
	$(TEST_ENV) $(PROCESSORS_ENV) $(BIN) $(PYTEST) --instruction-set baseline $(ONLY) \
	    $(PROCESSORS_TESTS) $(ARGS)

test-sanitize: $(VENV_SANITIZE)/.ready-test
	$(TEST_ENV) $(SANITIZE_ENV) \
	    $(VENV_SANITIZE)/bin/python $(PYTEST) --capture=sys $(ONLY) \
	    $(SANITIZE_TESTS) $(ARGS)

# In one process: all tests share the device. The first folder says so where there is none.
test-gpu: $(VENV)/.ready-test
	$(TEST_ENV) $(BIN) $(PYTEST) -n 0 -m gpu tests/gpu tests/engine tests/estimators $(ARGS)

lint: $(VENV)/.ready-dev
	$(BIN) -m ruff check .
	$(BIN) -m ruff format --check .
	$(VENV)/bin/clang-format --dry-run --Werror \
	    $(filter-out $(WRITTEN_BY_A_SCRIPT),$(NATIVE))
	$(BIN) -m mypy
	$(BIN) -c "import importlinter.cli as c; c.lint_imports_command()"
	$(BIN) -m codespell_lib
	$(BIN) -m numpydoc lint --config .ci/numpydoc $$(find skconvgp -name '*.py')

# GALLERY=changed runs only the examples that changed since CI_BASE, or the last release.
docs: $(VENV)/.ready-docs
	SKCONVGP_GALLERY=$(GALLERY) $(BIN) -m sphinx -W --keep-going -b html docs docs/_build/html
	$(BIN) .ci/check_pages.py docs/_build/html

# Asks every site that a page links to, so it needs the network.
linkcheck: $(VENV)/.ready-docs
	$(BIN) -m sphinx -b linkcheck -D plot_gallery=0 docs docs/_build/linkcheck

dist:
	$(TEST_ENV) .ci/dist "$(PYTHON)" $(PYTEST_PLUGINS) $(ONLY) $(DIST_TESTS) $(ARGS)

bench: $(VENV)/.ready-display
	@for name in $(BENCHMARKS); do echo "$$name"; \
	    $(BIN) -m benchmarks $$name $(ARGS) || exit 1; done

clean:
	rm -rf build dist wheelhouse *.egg-info .coverage .coverage.* .hypothesis .import_linter_cache
	rm -rf .mypy_cache .pytest_cache .ruff_cache docs/_build docs/_generated docs/auto_examples
	rm -rf docs/api/generated docs/gen_modules docs/sg_execution_times.rst
	find . -name '.venv*' -prune -o -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .venv-*
