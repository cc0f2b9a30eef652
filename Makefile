# One place for every command; CI calls `make check test`.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo setup system-packages check test bench golden clean

demo: setup
	$(BIN)/kagent optimize rmsnorm --target cpu --minutes 2

setup: system-packages .venv/.ready

system-packages:
	@bash scripts/install-system-packages.sh

# torch comes first: pip would else weigh every release that other packages allow
.venv/.ready: pyproject.toml | system-packages
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet torch==2.13.0
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
