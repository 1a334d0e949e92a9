# Everything a contributor or an operator does here. Bare `make` lists the targets.

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup run test check browser migrate openapi bench bench-growth bench-peers bench-profile faketime faults faults-full planted soak lock clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(DEV) ## Install everything for development and tests into .venv.

run: $(RUNTIME) ## Run a test instance with a demo on http://127.0.0.1:8484 (PORT=… for another port).
	@BURSAR_ENV=test $(BIN)/bursar serve $(if $(PORT),--port $(PORT))

test: browser ## Run all tests (JOBS=… processes, ARGS=… for pytest).
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

check: $(DEV) ## Check format, lint, types and import directions.
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest tests/cli/test_imports.py

browser: $(DEV) ## Install a browser for the tests: Debian's where apt is at hand, else Playwright's own.
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing chromium …" \
	       && apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y chromium >/dev/null; } \
	  || $(BIN)/playwright install chromium

migrate: $(RUNTIME) ## Bring the database to this version's schema.
	@$(BIN)/bursar migrate

openapi: $(RUNTIME) ## Write docs/openapi.json.
	@BURSAR_ENV=test $(BIN)/bursar openapi --output docs/openapi.json

bench: $(DEV) ## Measure every case beside its floor (ARGS="--seconds 1 payments" for less).
	@$(BIN)/python -m bench $(ARGS)

bench-growth: $(DEV) ## Compare 10 million payments with a few (ARGS="--rows 300000" for less; about 10 GB of disk).
	@$(BIN)/python -m bench.growth $(ARGS)

bench-peers: $(DEV) ## Measure peers from the package registries beside the service.
	@$(BIN)/python -m bench.peers

bench-profile: $(DEV) ## Draw a flame graph of one case (CASE=create, read, list, outcome, ledger, deliver).
	@$(BIN)/python -m bench.profiling $(or $(CASE),create)

FAULTS = $(BIN)/python -m tests.faults $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

# Moves a process's clock. Without it, and where it cannot be installed, the suite says what it did not try.
faketime:
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing libfaketime …" \
	       && apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y libfaketime >/dev/null; } \
	  || true

faults: $(DEV) faketime ## Break the service on purpose, the part that fits into 9 minutes (SEED=…, ONLY=…).
	@$(FAULTS) --tier push

faults-full: $(DEV) faketime ## Break it in every way there is, in 45 minutes.
	@$(FAULTS) --tier full

planted: $(DEV) ## Plant twelve bugs, one at a time, into a copy: the faults must notice each (SEED=…, ONLY=…).
	@$(BIN)/python -m tests.faults.planted $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

soak: $(DEV) faketime ## Break it for two hours.
	@$(FAULTS) --tier soak

lock: ## Pin the requirements anew (for maintainers; needs uv).
	@for name in runtime dev; do \
	  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	    --no-annotate --upgrade --output-file requirements/$$name.txt requirements/$$name.in || exit 1; \
	done

clean: ## Remove what was installed and built; data/ stays.
	@rm -rf $(VENV) build bench/.peers .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  $$python -m venv $(VENV) >/dev/null 2>&1 && exit 0; \
	  rm -rf $(VENV); \
	  echo "$$python cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; \
	  exit 1; \
	done; \
	echo "Python 3.11 or later is needed; put it on the PATH or run: make PYTHON=/path/to/python3 …" >&2; \
	exit 1

$(RUNTIME): requirements/runtime.txt pyproject.toml | $(BIN)/python
	@echo "Installing what the service needs …"
	@$(PIP) install --require-hashes -r requirements/runtime.txt
	@$(PIP) install --no-build-isolation --no-deps -e .
	@touch $@

$(DEV): requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "Installing what development and tests need …"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-build-isolation --no-deps -e .
	@touch $(RUNTIME) $@
