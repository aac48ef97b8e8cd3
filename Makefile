# Every target sets up what it needs. PYTHON may name another interpreter (3.11 or later).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Tests start many processes; without compiled files each would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick coverage sanitize races fuzz browser check format bench docs clean help

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

# One stamp per set of extras, renewed when the project's metadata or its compiled part changes.
$(VENV)/stamp-%: pyproject.toml hatch_build.py src/fairboost/kernel/loops.c src/fairboost/kernel/loops_real.h src/fairboost/kernel/loops_numbers.h src/fairboost/kernel/loops_classes.h
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing fairboost[$*] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: $(VENV)/stamp-plots  ## plain LightGBM against fairboost on generated loans, under a minute
	$(BIN)/fairboost demo --force

test: $(VENV)/stamp-dev browser  ## all tests
	$(BIN)/python -m pytest -n auto

# Counting branches makes the tests take 60% longer, so CI does without.
coverage: $(VENV)/stamp-dev browser  ## all tests, with the coverage of src/, which must be 95%
	$(BIN)/python -m pytest -n auto --cov --cov-report=term

QUICK := data fairness kernel tasks algorithm metrics verdicts laws golden

quick: $(VENV)/stamp-dev  ## unit tests, laws and exact answers: what one runs while writing
	$(BIN)/python -m pytest -n auto -q $(wildcard $(QUICK:%=tests/%)) tests/test_architecture.py

# Python itself is not built with the sanitizers: their library is loaded before it. So is that of
# C++, or exceptions of the engines would end the program.
sanitize: $(VENV)/stamp-dev  ## the compiled part with address and undefined-behaviour sanitizers
	@asan=$$(gcc -print-file-name=libasan.so 2>/dev/null); \
	case "$$asan" in /*) ;; *) echo "no gcc with libasan here; sanitizers are skipped"; exit 0;; esac; \
	made=$$(mktemp -d) && trap 'rm -rf "$$made"' EXIT && \
	CC=gcc $(BIN)/python hatch_build.py --sanitize "$$made/libloops.so" && \
	LD_PRELOAD="$$asan $$(gcc -print-file-name=libstdc++.so.6)" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  FAIRBOOST_LIBRARY="$$made/libloops.so" \
	  $(BIN)/python -m pytest -q -n 0 -p no:cacheprovider tests/kernel

# Threads of Python share the rows here: OpenMP's are not known to the sanitizer. It finds what the
# compiled part does; Python and the engines are not built with it.
races: $(VENV)/stamp-dev  ## the compiled part with the sanitizer of threads
	@made=$$(mktemp -d) && trap 'rm -rf "$$made"' EXIT && \
	CC=gcc $(BIN)/python hatch_build.py --races "$$made/libloops.so" && \
	LD_PRELOAD="$$(gcc -print-file-name=libtsan.so) $$(gcc -print-file-name=libstdc++.so.6)" \
	  FAIRBOOST_LIBRARY="$$made/libloops.so" FAIRBOOST_THREADS=python TSAN_OPTIONS=exitcode=66 \
	  $(BIN)/python -m pytest -q -n 0 -p no:cacheprovider tests/kernel/test_threads.py tests/kernel/test_row_pass.py

N       ?= 200
SEED    ?= 0
WORKERS ?= 2

fuzz: $(VENV)/stamp-dev  ## N random fits and as much of the rest; writes benchmarks/robustness.md
	$(BIN)/python -m tests.fuzz all --n $(N) --seed $(SEED) --workers $(WORKERS)

# Where it cannot be had, those tests are skipped and say so.
browser:  ## Chromium for the tests of the report, and shells for completion (root on Debian)
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then :; \
	elif test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
	  echo "Installing chromium ..."; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get update -qq && \
	    apt-get install -y -qq --no-install-recommends chromium chromium-driver zsh fish; } >/dev/null \
	  || echo "chromium could not be installed; tests in the browser will be skipped"; \
	else echo "no chromium here; tests in the browser will be skipped"; fi

check: $(VENV)/stamp-dev  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/stamp-dev  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/stamp-bench  ## overhead over plain LightGBM; writes benchmarks/overhead.md
	$(BIN)/python -m benchmarks.overhead

# The source folder is the root, so that links between docs/ and benchmarks/ stay valid. Warnings are errors. FAIRBOOST_GALLERY=0 leaves
# out the examples, which take most of the time.
docs: $(VENV)/stamp-docs  ## the documentation site, in docs/_build/html, with all examples run
	$(BIN)/python -m sphinx -b html -W --keep-going -q -d docs/_build/doctrees -c docs . docs/_build/html
	@echo "The site is at docs/_build/html/index.html"

clean:  ## remove the environment and caches
	rm -rf $(VENV) demo docs/_build docs/gallery docs/reference .pytest_cache .mypy_cache .ruff_cache .hypothesis
