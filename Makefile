PYTHON ?= python3
UV ?= uv
# E.g. make test PYTEST_FLAGS="-x -k windows"; make lock LOCK_FLAGS=--upgrade
PYTEST_FLAGS ?=
WORKERS ?= auto
LOCK_FLAGS ?=
# E.g. make chaos CHAOS_FLAGS="--rounds 20 --seed 7"
CHAOS_FLAGS ?= --rounds 200 --seed 1

BIN := .venv/bin
INSTALLED := .venv/installed
COMPILE_LOCK = $(UV) pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-emit-index-url --no-header $(LOCK_FLAGS)

.DEFAULT_GOAL := help
# The checks of the tools come before what needs the tools, even with -j.
.NOTPARALLEL:
.PHONY: help setup demo test test-fast test-slow test-matrix chaos lint lock check-java

help: ## show this
	@echo "Headrace needs Python 3.11 to 3.13 and Java 17 or 21; everything else goes into .venv."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Another Python: make setup PYTHON=python3.12. Some tests: make test-fast PYTEST_FLAGS='-k windows'."

setup: $(INSTALLED) ## install Headrace and its tools into .venv (once; again when the locks change)
	@echo "Installed: try $(BIN)/headrace --help"

demo: check-java $(INSTALLED) ## see Headrace answer many queries over one stream
	@$(BIN)/headrace demo

test: check-java lint ## lint, and all tests but the slow ones
	$(BIN)/pytest -n $(WORKERS) -m "not slow" $(PYTEST_FLAGS)

test-fast: $(INSTALLED) ## only the tests that need no Java
	$(BIN)/pytest -n $(WORKERS) -m "not jvm and not slow" $(PYTEST_FLAGS)

test-slow: check-java $(INSTALLED) ## only the slow tests
	$(BIN)/pytest -n $(WORKERS) -m slow $(PYTEST_FLAGS)

test-matrix: check-java $(INSTALLED) ## the tests that need Java, with Spark 4.1 and 4.2
	scripts/test-matrix $(SPARK_VERSIONS)

chaos: check-java $(INSTALLED) ## kill a running job 200 times and check its results: about an hour
	$(BIN)/python -m tests.faults.chaos $(CHAOS_FLAGS)

lint: $(INSTALLED) ## style, types, the import contract, names and words
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	scripts/check-language

lock: ## resolve the dependencies again (the only target that needs uv)
	$(COMPILE_LOCK) --group build -o requirements-build.lock
	$(COMPILE_LOCK) --all-extras pyproject.toml -o requirements.lock

check-java:
	@scripts/check-tools java

$(INSTALLED): requirements-build.lock requirements.lock pyproject.toml
	@scripts/check-tools platform
	@scripts/check-tools python "$(PYTHON)"
	@echo "Installing into .venv; the first time this downloads about 700 MB, most of it Spark."
	@"$(PYTHON)" -m venv .venv
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements-build.lock
	@DIST_EXTRA_CONFIG="$(CURDIR)/scripts/uncompressed-wheels.cfg" \
		$(BIN)/python -m pip install --quiet --no-build-isolation --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@
