# Everything runs from .venv, which this file makes. `make demo` and `make test` need nothing else to be set up.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
SOURCES := acp_bridge plugins composition

.PHONY: all venv demo test check docs bench clean compiled sandbox

all: check test

venv: .venv/stamp-run compiled

# Runtime and the OpenAI SDK: what a user of the agent needs.
.venv/stamp-run: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed (python3 on PATH)."; exit 1; }
	@echo "==> Preparing .venv with $(PYTHON): the agent and its libraries"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@scripts/install.sh openai
	@touch $@

# What the tests and checks need on top.
.venv/stamp-dev: .venv/stamp-run
	@echo "==> Adding the development tools"
	@scripts/install.sh openai,dev
	@touch $@

# An editable install has no bytecode of ours, and some environments forbid writing it: starts would compile each time.
compiled: .venv/stamp-run
	@$(BIN)/python -m compileall -q $(SOURCES)

sandbox:
	@scripts/ensure_bubblewrap.sh

demo: venv sandbox
	@$(BIN)/acp-bridge demo $(if $(YES),--yes)

test: .venv/stamp-dev compiled sandbox
	@$(BIN)/python -m pytest $(TESTS)

check: .venv/stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Pages that are made from the code; a test fails when they are not up to date.
docs: .venv/stamp-dev
	@$(BIN)/python scripts/hooks_doc.py

bench: .venv/stamp-dev compiled sandbox
	@$(BIN)/python benchmarks/bench.py

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
