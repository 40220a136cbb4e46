# Every target creates what it needs: a virtual environment in .venv, filled from uv.lock. Nothing is installed globally.
# A distribution's Python is built with profile-guided optimization. One that pyenv built is not, and a third slower.
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo /usr/bin/)python3
LAB ?= inference-sharing
GPU_RESULTS ?= benchmarks/results
DATE ?= $(shell date -u +%F)
export KUBERNETES_VERSION
# More than there are processors: half the time tests wait, for programs and for each other.
WORKERS ?= $(shell echo $$(($$(nproc) + 6)))
# So many tests may fail among others if they pass alone afterwards; the summary names them (docs/decisions/0033).
SECOND_TRIES ?= --second-tries 3
FUZZ_SECONDS ?= 30
CLAIM_TESTS ?= tests/kubernetes/claims
BIN := .venv/bin
# What builds Tonnage is a part of the environment, out of uv.lock: built apart it would be the index's newest.
SYNC = VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv sync --quiet --active --frozen --inexact --no-build-isolation-package tonnage

.PHONY: bench-operator help setup run test test-long test-properties test-kubernetes test-gpu test-servers test-claims preflight kubernetes-binaries image release licences fuzz fuzz-gate golden lint format bench profile bench-kubernetes pictures monitoring check check-all programs clean
.DEFAULT_GOAL := help

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 21

setup: .venv/ready ## Create the environment (.venv)

.venv/ready: pyproject.toml uv.lock scripts/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than 3.11. Remedy: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv || \
	  { echo "error: no virtual environment. Remedy on Debian: apt-get install python3-venv" >&2; exit 2; }
	@echo "Creating .venv (about a minute the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r scripts/uv.txt
	@$(SYNC) --compile-bytecode
	@$(BIN)/python -m compileall -q src
	@touch $@

run: .venv/ready ## Start a GPU cluster in one process and run a lab on it (LAB=name)
	@$(BIN)/tonnage up --lab $(LAB)

# Of each recording at least a fifth, which changes with the day. TONNAGE_SEED=2026-11-26 repeats that day's.
test test-long test-kubernetes: export TONNAGE_SAMPLE ?= day

# A test that takes 300 s says where it hangs, and has failed half a minute later (tests/support/workers.py).
# Compiled files are kept: to rewrite the assertions of all tests takes eight seconds. Tests have generators of
# their own: nothing resets Python's three times for each of sixteen thousand tests, which takes as long.
test test-long: export PYTHONDONTWRITEBYTECODE =
test test-long: ALL_TESTS = --hung-after 300 --randomly-dont-reset-seed $(SECOND_TRIES)
test: .venv/ready ## Run every test that needs no GPU and no real cluster, but the longest
	@$(BIN)/python -m compileall -q src
	@$(BIN)/pytest --workers $(WORKERS) -q --ignore=tests/kubernetes $(ALL_TESTS)

test-long: .venv/ready ## Run the tests that `make test` leaves out because they are long
	@$(BIN)/python -m compileall -q src
	@$(BIN)/pytest --workers $(WORKERS) -q --ignore=tests/kubernetes -m long $(ALL_TESTS) \
	  --left-out=.pytest_cache/left-out-long.txt

test-properties: .venv/ready ## Hold each property that sets no number against 1,500 new examples
	@$(BIN)/pytest --workers $$(nproc) -q --ignore=tests/kubernetes -m hypothesis --hypothesis-profile=deep

# Without root there is no genuine node, so nothing is built for one.
programs test-kubernetes: PROGRAMS ?= $(if $(filter 0,$(shell id -u)),,control-plane)
programs: preflight kubernetes-binaries ## Build, once, what `make test-kubernetes` needs

test-kubernetes: programs ## Run labs, contracts and bad days on a genuine Kubernetes
	@$(SYNC) --group clients
	@$(BIN)/python scripts/test_kubernetes.py -q $(SECOND_TRIES) --left-out=.pytest_cache/left-out-kubernetes.txt

test-servers: preflight ## Hold what is published of claims against an API server (KUBERNETES_VERSION=1.34)
	@$(BIN)/python -m scripts.build_kubernetes etcd kube-apiserver
	@$(BIN)/pytest -q -p no:randomly -m kubernetes tests/kubernetes/apiserver/test_publishing.py \
	  tests/kubernetes/apiserver/test_claim_admission.py

test-claims: programs ## Have a genuine node prepare claims, as root (KUBERNETES_VERSION=1.34, CLAIM_TESTS=file)
	@$(SYNC) --group clients
	@$(BIN)/python scripts/test_kubernetes.py -q $(CLAIM_TESTS)

fuzz: .venv/ready ## Fuzz readers and handlers: every hostile input, then atheris (FUZZ_SECONDS=30 for each, TARGET=name)
	@$(SYNC) --group fuzz
	@PYTHONPATH=tests $(BIN)/python -m fuzz.gate --every-hostile $(TARGET)
	@PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS) $(TARGET)

fuzz-gate: .venv/ready ## Fuzz every reader for a minute in all, without atheris (FUZZ_SEED=20260101 repeats that day's)
	@PYTHONPATH=tests $(BIN)/python -m fuzz.gate --seconds 60 $(if $(FUZZ_SEED),--seed $(FUZZ_SEED)) $(TARGET)

test-gpu: .venv/ready ## Run the device contract on this machine's GPUs; figures go to benchmarks/results
	@$(BIN)/pytest tests/gpu -q -p no:randomly --gpu-results $(GPU_RESULTS) --gpu-date $(DATE)

golden: .venv/ready ## Write the records of what every command prints again (tests/golden)
	@PYTHONPATH=tests $(BIN)/python -m golden

preflight: .venv/ready
	@$(BIN)/python scripts/test_kubernetes.py --preflight

kubernetes-binaries: .venv/ready ## Build Kubernetes, containerd, runc into the cache, once (PROGRAMS=node)
	@$(BIN)/python -m scripts.build_kubernetes $(PROGRAMS)

image: .venv/ready ## Build the container image, dist/tonnage-image.tar (IMAGE_OPTIONS=--help)
	@$(BIN)/python -m scripts.image $(IMAGE_OPTIONS)

release: .venv/ready ## Build wheel, image, bills of materials, checksums: dist/tonnage-VERSION (RELEASE_OPTIONS=--help)
	@$(SYNC) --group release
	@$(BIN)/python -m scripts.release $(RELEASE_OPTIONS)

licences: .venv/ready ## List the licences of all that is shipped; fail at one that is not allowed
	@$(BIN)/python -m scripts.licences

pictures: .venv/ready ## Draw the README's pictures again: what commands print on the twin
	@$(BIN)/python scripts/draw_picture.py docs/images

monitoring: .venv/ready ## Write rules, dashboards and the page of alerts out of their tables (deploy/monitoring)
	@$(BIN)/python -m scripts.generate_monitoring

lint: .venv/ready ## Style, types, house rules, generated files, sizes
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m scripts.laws
	@$(BIN)/python -m scripts.draw_rooms --check
	@$(BIN)/python -m scripts.generate_reason_codes --check
	@$(BIN)/python -m scripts.draw_mig --check
	@$(BIN)/python scripts/generate_protos.py --check
	@$(BIN)/python scripts/generate_crds.py --check
	@$(BIN)/python -m scripts.generate_monitoring --check
	@$(BIN)/python scripts/generate_chart_reference.py --check
	@$(BIN)/python scripts/generate_chart_schema.py --check
	@$(BIN)/python -m scripts.generate_exporter_metrics --check
	@$(BIN)/python -m scripts.render_chart --check
	@$(BIN)/python -m scripts.licences --check
	@$(BIN)/python scripts/size_report.py

format: .venv/ready ## Rewrite the code in the project's format
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

bench: .venv/ready ## Print the figures that the README quotes
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m benchmarks

profile: .venv/ready ## Show where the start of `tonnage --help` and `tonnage up` spends its time, and its memory
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m benchmarks.start_profile

bench-operator: .venv/ready ## Print what the controller costs on 1,000 nodes (OPERATOR_OPTIONS="--nodes 10000 --at-rest", --genuine)
	@$(BIN)/python -m benchmarks.operating $(OPERATOR_OPTIONS)

bench-kubernetes: kubernetes-binaries ## Print the figures that need a genuine Kubernetes (root, half an hour)
	@$(BIN)/python -m benchmarks.kubernetes

check: ## The gate: lint and all tests, as CI runs them; budget and time of each part at the end
	@$(PYTHON) scripts/gate.py

check-all: export TONNAGE_SAMPLE = all
check-all: ## The same without a sample: every row of every recording, every lab, 1,500 examples of each property
	@$(PYTHON) scripts/gate.py --all

clean: ## Remove the environment and caches
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
