# Every target sets up what it needs. The first time that takes a few minutes.
#   make test PYTHON=python3.12 VENV=.venv-3.12    another interpreter, own environment
#   make demo ARGS="--help"                        arguments for the program that is run

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-oldest lint docs bench clean distclean

VENV ?= .venv
VENV_OLDEST ?= .venv-oldest
JOBS ?= 2
BENCHMARKS ?= $(wildcard benchmarks/*.py)

# The first interpreter of list (1) whose sys.hexversion fulfils condition (2).
find_python = $(shell for p in $(1); do \
    if $$p -c 'import sys, ensurepip; v = sys.hexversion; sys.exit(not ($(2)))' \
    2>/dev/null; then echo $$p; break; fi; done)

ifndef PYTHON
PYTHON := $(call find_python,python3 python3.13 python3.12 python3.11 python3.14,\
    v >= 0x030b0000)
endif
# The oldest numpy and scipy have wheels for Python 3.11 and 3.12 only.
PYTHON_OLDEST ?= $(call find_python,python3.11 $(PYTHON) python3.12,\
    0x030b0000 <= v < 0x030d0000)

BIN = $(VENV)/bin/python
# One thread a worker, as the workers share the cores already; no plugins but ours, as
# the environment may see packages of another one for the sake of its torch.
TEST_ENV = OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
PYTEST = -m pytest -p xdist -p pytest_cov -p hypothesispytest -n $(JOBS)

help:
	@echo "make demo          classify handwritten digits, compare, draw the least certain"
	@echo "make test          run the tests and the coverage gate"
	@echo "make test-oldest   run the tests on the oldest supported versions"
	@echo "make lint          run the other gates: style, types, imports, docstrings, spelling"
	@echo "make docs          build the documentation into docs/_build/html"
	@echo "make bench         run the benchmarks"
	@echo "make clean         remove what was built;  make distclean: environments too"

$(VENV)/.ready-%: pyproject.toml constraints.txt
	@.ci/venv $(VENV) "$(PYTHON)" constraints.txt $*
	@touch $@

$(VENV_OLDEST)/.ready-%: pyproject.toml constraints-oldest.txt
	@.ci/venv $(VENV_OLDEST) "$(PYTHON_OLDEST)" constraints-oldest.txt $*
	@touch $@

demo: $(VENV)/.ready-display
	$(BIN) examples/demo.py $(ARGS)

test: $(VENV)/.ready-test
	$(TEST_ENV) $(BIN) $(PYTEST) --cov $(ARGS)

test-oldest: $(VENV_OLDEST)/.ready-test
	$(TEST_ENV) $(VENV_OLDEST)/bin/python $(PYTEST) $(ARGS)

lint: $(VENV)/.ready-dev
	$(BIN) -m ruff check .
	$(BIN) -m ruff format --check .
	$(BIN) -m mypy
	$(BIN) -c "import importlinter.cli as c; c.lint_imports_command()"
	$(BIN) -m codespell_lib
	$(BIN) -m numpydoc lint --config .ci/numpydoc $$(find skconvgp -name '*.py')

docs: $(VENV)/.ready-docs
	$(BIN) -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.ready-display
	@for f in $(BENCHMARKS); do echo "$$f"; $(BIN) $$f $(ARGS) || exit 1; done

clean:
	rm -rf build dist *.egg-info .coverage .coverage.* .hypothesis .import_linter_cache
	rm -rf .mypy_cache .pytest_cache .ruff_cache docs/_build docs/auto_examples
	rm -rf docs/api/generated docs/gen_modules docs/sg_execution_times.rst
	find . -name '.venv*' -prune -o -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .venv-*
