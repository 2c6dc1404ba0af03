# Everything runs in .venv, created on first use with the versions in constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install test lint demo bench docs clean

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gln needs Python 3.11 or newer; point PYTHON= at one")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,lint,docs]'
	touch $@

install: $(VENV)/installed ## create .venv with the locked versions

test: install ## run the test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: install ## ruff, mypy and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

demo: install ## train a small model, then predict 3-D surfaces with a shipped one; pictures in demo/
	$(BIN)/python examples/demo.py

bench: install ## time the generators
	$(BIN)/python -m benchmarks families

docs: install ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove .venv and caches
	rm -rf $(VENV) demo site build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
