# crowdwise: every routine job. CI (.ci/run) runs these same targets.
#
#   make PYTHON=python3.12 test     picks the interpreter of a new environment (default: python3)

PYTHON ?= python3
BENCH_PYTHON ?= .venv-bench/bin/python
# Processes of the test suite: on two cores one more than these, because some tests wait for processes of their own.
JOBS ?= 3
# The folder whose package `make house` describes.
HOUSE_SRC ?= src

PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt
SOURCES := $(shell find src -name '*.py' -o -name 'py.typed' -o -name '*.csv' -o -name '*.js' 2>/dev/null)
# pyenv hides the versions that are not switched on.
ALL_PYTHONS = $(if $(shell command -v pyenv 2>/dev/null),PYENV_VERSION=$(shell pyenv versions --bare | grep -E '^3\.[0-9]+\.[0-9]+$$' | paste -sd:))
# Removed on failure, so that a half-built environment is never taken for a finished one.
.DELETE_ON_ERROR:

.DEFAULT_GOAL := help
.PHONY: help demo venv test test-fast test-live collect fuzz lint format types layers house doctest docs hooks pre-commit changelog versions lowest bench bench-neighbours bench-learn bench-gp bench-active clean check-python

help: ## Show this list
	@echo "crowdwise: make <target>"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-16s%s\n", $$1, $$2}'

demo: .venv-demo/.installed ## See crowdwise at work: installs the small core, writes demo-output/
	@echo "==> running the demo"
	@.venv-demo/bin/python -m crowdwise demo -o demo-output
	@echo "==> open $(CURDIR)/demo-output/page.html"
	@echo "==> on your own votes: .venv-demo/bin/crowdwise aggregate votes.csv -o labels.csv"

venv: .venv/.installed ## Prepare .venv with all extras and tools (once; again when the requirements change)

# Without these files every process of a run compiles and rewrites all tests again.
unexport PYTHONDONTWRITEBYTECODE

test: venv ## Run the whole test suite
	@.venv/bin/python -m pytest -n $(JOBS) --dist worksteal

test-fast: venv ## Run every test that is not slow once, with the first of its parameters (under a minute)
	@.venv/bin/python -m pytest -n 2 --dist worksteal -m "not slow" --once

test-live: venv ## Run a campaign on a real Label Studio, in an environment of its own (minutes)
	@if [ -n "$$CI" ] && [ ! -e .venv-label-studio/.installed ]; then \
		echo "skipped: no Label Studio here; make .venv-label-studio/.installed takes minutes"; \
	elif $(MAKE) --no-print-directory .venv-label-studio/.installed; then \
		CROWDWISE_LIVE=1 .venv/bin/python -m pytest tests/live; \
	else echo "skipped: Label Studio could not be installed"; fi

collect: venv ## Import every test, which compiles it and all that it imports
	@.venv/bin/python -m pytest --collect-only --quiet

lint: venv ## Check style and format
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .

format: venv ## Repair style and format where that can be done safely
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

types: venv ## Check the types of src/crowdwise
	@.venv/bin/mypy

layers: venv ## Check that imports point downwards only
	@.venv/bin/lint-imports

house: venv ## Show lines, imports, cycles, private accesses and touched modules (HOUSE_SRC=DIR: of another checkout)
	@.venv/bin/python tools/house.py --src $(HOUSE_SRC)

fuzz: venv ## Read CASES damaged files in watched processes (a million by default; continues where it stopped)
	@.venv/bin/python -m tests.fuzz --cases $(or $(CASES),1000000) --jobs $(JOBS)

doctest: venv ## Run the examples in docstrings
	@.venv/bin/python -m pytest --doctest-modules src/crowdwise

docs: venv ## Build the documentation into site/; any warning is an error
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
	@echo "==> the pages are in $(CURDIR)/site"

hooks: venv ## Let git check style, format and types before every commit
	@.venv/bin/pre-commit install

pre-commit: venv ## Run the checks of a commit on every file
	@.venv/bin/pre-commit run --all-files

changelog: venv ## Show the changelog that the files of changelog.d give; a file without its kind or text is an error
	@.venv/bin/towncrier build --draft --version Unreleased
	@empty=$$(find changelog.d -name '*.md' -size -2c); test -z "$$empty" || { echo "no text in $$empty" >&2; exit 1; }

versions: .venv-nox/.installed ## Run the fast tests, without torch and Ray, on every Python found here (VERSION=3.12: on one)
	@$(ALL_PYTHONS) .venv-nox/bin/nox --session tests $(if $(VERSION),--python $(VERSION)) -- -n $(JOBS) --dist worksteal

lowest: .venv-nox/.installed ## Run the fast tests, without torch and Ray, with the lowest declared versions of the dependencies
	@$(ALL_PYTHONS) .venv-nox/bin/nox --session lowest $(if $(VERSION),--force-python $(VERSION)) -- -n $(JOBS) --dist worksteal

bench: $(if $(filter .venv-bench/%,$(BENCH_PYTHON)),.venv-bench/.installed) ## Compare with crowd-kit, cleanlab and choix, in an environment of their own
	@$(BENCH_PYTHON) -m benchmarks run versus
	@$(BENCH_PYTHON) -m benchmarks run versus_ranking

bench-neighbours: .venv-bench-neighbours/.installed ## Compare with six libraries by size, in an environment of their own (minutes)
	@.venv-bench-neighbours/bin/python -m benchmarks run neighbours

bench-learn: .venv-bench-learn/.installed ## Compare the crowd layer with crowd-kit's and scikit-activeml's, in an environment of their own
	@.venv-bench-learn/bin/python -m benchmarks run versus_learn

bench-active: .venv-bench-learn/.installed ## Compare policies with scikit-activeml's and cleanlab's, in an environment of their own
	@.venv-bench-learn/bin/python -m benchmarks run versus_active

bench-gp: .venv-bench-gp/.installed ## Compare an epoch of the Gaussian processes with GPyTorch's and GPflow's, in an environment of their own
	@.venv-bench-gp/bin/python -m benchmarks run versus_gp

clean: ## Delete everything these targets made
	rm -rf .cache .nox .venv .venv-nox .venv-demo .venv-bench .venv-bench-neighbours .venv-bench-learn .venv-bench-gp .venv-label-studio demo-output site build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache .coverage
	find src tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

check-python:
	@command -v $(PYTHON) >/dev/null || { echo "No '$(PYTHON)' here: install Python 3.10 or later, or name one: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "crowdwise needs Python 3.10 or later; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "'$(PYTHON)' lacks the venv module. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

# An existing environment is kept and brought up to date; only a missing one is created.
.venv/.installed: pyproject.toml constraints.txt | check-python
	@test -x .venv/bin/python || { echo "==> creating .venv"; $(PYTHON) -m venv .venv; }
	@echo "==> installing torch into .venv (the largest download; minutes on a slow line)"
	@# Alone and first: pip then settles on one build of torch before it resolves the rest. Of sixteen thousand files most are
	@# never imported; Python compiles those that are.
	@.venv/bin/python $(PIP_INSTALL) --no-compile torch==2.13.0
	@echo "==> installing crowdwise with all extras and tools into .venv"
	@.venv/bin/python $(PIP_INSTALL) --no-compile -e '.[torch,report,scale,serve,excel,dev]'
	@touch $@
	@echo "==> .venv is ready"

# Not editable: the demo shows what a user's install does. It follows the sources instead.
.venv-demo/.installed: pyproject.toml constraints.txt $(SOURCES) | check-python
	@test -x .venv-demo/bin/python || { echo "==> creating .venv-demo"; $(PYTHON) -m venv .venv-demo; }
	@echo "==> installing crowdwise into .venv-demo (the small core, without torch; about a minute)"
	@.venv-demo/bin/python $(PIP_INSTALL) .
	@touch $@

.venv-nox/.installed: constraints.txt | check-python
	@test -x .venv-nox/bin/python || { echo "==> creating .venv-nox"; $(PYTHON) -m venv .venv-nox; }
	@.venv-nox/bin/python $(PIP_INSTALL) nox
	@touch $@

.venv-bench/.installed: pyproject.toml constraints.txt | check-python
	@test -x .venv-bench/bin/python || { echo "==> creating .venv-bench"; $(PYTHON) -m venv .venv-bench; }
	@echo "==> installing crowdwise, crowd-kit, cleanlab and choix into .venv-bench (about a minute)"
	@.venv-bench/bin/python $(PIP_INSTALL) -e . crowd-kit==1.4.2 cleanlab==2.9.0 choix==0.4.1 psutil
	@touch $@

.venv-bench-neighbours/.installed: pyproject.toml constraints.txt | check-python
	@test -x .venv-bench-neighbours/bin/python || { echo "==> creating .venv-bench-neighbours"; $(PYTHON) -m venv .venv-bench-neighbours; }
	@echo "==> installing torch, crowdwise and its neighbours into .venv-bench-neighbours (minutes)"
	@.venv-bench-neighbours/bin/python $(PIP_INSTALL) torch==2.13.0
	@.venv-bench-neighbours/bin/python $(PIP_INSTALL) -e . crowd-kit==1.4.2 cleanlab==2.9.0 scikit-activeml==1.0.1 snorkel==0.10.0 psutil sparse==0.15.5 torchmetrics loguru line_profiler plotly
	@# Alone: peerannot also asks for torchvision, which its label models do not use.
	@.venv-bench-neighbours/bin/python $(PIP_INSTALL) --no-deps peerannot==0.0.1.post43
	@touch $@

.venv-bench-learn/.installed: pyproject.toml constraints.txt | check-python
	@test -x .venv-bench-learn/bin/python || { echo "==> creating .venv-bench-learn"; $(PYTHON) -m venv .venv-bench-learn; }
	@echo "==> installing torch, crowdwise, crowd-kit, scikit-activeml and cleanlab into .venv-bench-learn (minutes)"
	@.venv-bench-learn/bin/python $(PIP_INSTALL) torch==2.13.0
	@.venv-bench-learn/bin/python $(PIP_INSTALL) -e '.[torch]' 'crowd-kit[learning]==1.4.2' scikit-activeml==1.0.1 skorch==1.4.0 cleanlab==2.9.0
	@touch $@

.venv-bench-gp/.installed: pyproject.toml constraints.txt | check-python
	@test -x .venv-bench-gp/bin/python || { echo "==> creating .venv-bench-gp"; $(PYTHON) -m venv .venv-bench-gp; }
	@echo "==> installing torch, crowdwise, GPyTorch, tensorflow and GPflow into .venv-bench-gp (minutes)"
	@.venv-bench-gp/bin/python $(PIP_INSTALL) torch==2.13.0
	@.venv-bench-gp/bin/python $(PIP_INSTALL) -e '.[torch]' gpytorch==1.15.2 tensorflow-cpu==2.21.0 check-shapes==1.1.1 deprecated==1.3.1 multipledispatch==1.0.0 tabulate==0.10.0 decorator==5.3.1 dm-tree==0.1.10
	@# Alone: GPflow asks for numpy 1 (it runs on 2), tf-keras for the tensorflow with GPU parts.
	@.venv-bench-gp/bin/python $(PIP_INSTALL) --no-deps gpflow==2.11.2 tensorflow-probability==0.25.0 tf-keras==2.21.0
	@touch $@

# Beside the package an empty database: making one takes longer than starting with it.
.venv-label-studio/.installed: .venv/.installed
	@test -x .venv-label-studio/bin/python || { echo "==> creating .venv-label-studio"; $(PYTHON) -m venv .venv-label-studio; }
	@echo "==> installing Label Studio into .venv-label-studio (minutes)"
	@.venv-label-studio/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-compile label-studio==1.23.2
	@.venv/bin/python -m tests.live.studio
	@touch $@
