# One command each; `make help` lists them.  They need nothing but Python 3.11 or later.

PYTHON ?= python3
VENV   ?= .venv
EXTRAS ?= dev,cuda13
PYTEST_ARGS ?=

BIN     := $(VENV)/bin
RUN     := $(BIN)/python
STAMP   := $(VENV)/.installed
RUNTIME := $(VENV)/.runtime

.DEFAULT_GOAL := help
.PHONY: help venv demo test check bench golden clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP)  ## make .venv with the package and its tools

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or later is needed; say make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet --editable ".[$(EXTRAS)]"
	touch $@ $(RUNTIME)

# What users install, without the tools of developers: the demo starts sooner.
$(RUNTIME): pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet --editable ".[cuda13]"
	touch $@

demo: $(RUNTIME)  ## compile and run a few kernels on what this machine has
	$(RUN) examples/demo.py

test: $(STAMP)  ## run the tests, except the slow ones
	$(RUN) -m pytest -n auto -m "not slow" $(PYTEST_ARGS)

check: $(STAMP)  ## lint, format, types, layers and sizes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(RUN) -m pytest -q tests/test_layers.py tests/test_file_sizes.py

bench: $(STAMP)  ## measure every bar beside its baseline; README's tables follow
	$(RUN) benchmarks/run.py
	$(RUN) benchmarks/tables.py

golden: $(STAMP)  ## rewrite the golden files and generated docs; review the diff
	$(RUN) -m tilelang docs
	$(RUN) -m pytest -n auto --update-golden $(PYTEST_ARGS)
	git --no-pager diff --stat -- tests docs

clean:  ## remove .venv and the caches of the tools
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
