# One place for every command; CI calls `make check test`.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo setup check test bench golden clean

demo: setup
	$(BIN)/kagent optimize rmsnorm --target cpu --minutes 2

setup: .venv/.ready
	@bash scripts/install-system-packages.sh

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python scripts/install_torch_first.py
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup
	$(BIN)/pytest

bench: setup
	$(BIN)/python benchmarks/cpu_library.py

golden: setup
	$(BIN)/python -m tests.golden

clean:
	rm -rf .venv build dist
