# Every target creates what it needs: a virtual environment in .venv, filled from uv.lock. Nothing is installed globally.
PYTHON ?= python3
LAB ?= inference-sharing
export KUBERNETES_VERSION
UV_VERSION := 0.13.9
WORKERS ?= auto
BIN := .venv/bin

.PHONY: help setup run test test-kubernetes kubernetes-binaries lint format bench docs check clean
.DEFAULT_GOAL := help

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 21

setup: .venv/ready ## Create the environment (.venv)

.venv/ready: pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than 3.11. Remedy: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv || \
	  { echo "error: no virtual environment. Remedy on Debian: apt-get install python3-venv" >&2; exit 2; }
	@echo "Creating .venv (about a minute the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv sync --quiet --active --frozen --inexact --compile-bytecode
	@$(BIN)/python -m compileall -q src
	@touch $@

run: .venv/ready ## Start a GPU cluster in one process and run a lab on it (LAB=name)
	@$(BIN)/tonnage up --lab $(LAB)

test: .venv/ready ## Run every test that needs no GPU and no real cluster
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal -q

test-kubernetes: kubernetes-binaries ## Run labs, contracts and bad days on a genuine Kubernetes
	@$(BIN)/python scripts/test_kubernetes.py -q

kubernetes-binaries: .venv/ready ## Build etcd and Kubernetes into the cache, once (KUBERNETES_VERSION=1.35)
	@$(BIN)/python -m scripts.build_kubernetes $(PROGRAMS)

lint: .venv/ready ## Style, types, house rules, generated files, sizes
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/generate_protos.py --check
	@$(BIN)/python scripts/size_report.py

format: .venv/ready ## Rewrite the code in the project's format
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

bench: .venv/ready ## Print the figures that the README quotes
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m benchmarks

# test-kubernetes joins once its cold build is known to fit into CI's time.
check: lint test ## The gate: what CI runs

clean: ## Remove the environment and caches
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
