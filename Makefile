# Every target sets up what it needs. PYTHON may name another interpreter (3.11 or later).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test check format bench clean help

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

# One stamp per set of extras, renewed when the project's metadata changes.
$(VENV)/stamp-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing fairboost[$*] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: $(VENV)/stamp-all  ## plain LightGBM against fairboost on generated loans, under a minute
	$(BIN)/fairboost demo --force

test: $(VENV)/stamp-dev  ## all tests, with coverage of src/
	$(BIN)/python -m pytest -n auto --cov --cov-report=term

check: $(VENV)/stamp-dev  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/stamp-dev  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/stamp-bench  ## overhead over plain LightGBM; writes benchmarks/overhead.md
	$(BIN)/python -m benchmarks.overhead

clean:  ## remove the environment and caches
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
