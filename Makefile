# Development commands. `make` alone lists them. Needs only make and a Python of at least 3.11.
# Searches, comparisons with real servers and recordings: tests/targets.mk.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DIST   := .venv-dist
MINUTES ?= 60
JOBS   ?= 2
WORKERS ?= 4
THREADS := $(foreach thread,1889 24035 24143 923 929 1006,$(wildcard scenarios/*/threads/*-$(thread)-*.toml))
# Four processes on two cores: each collects a quarter of the files, and needs less memory than one of two
SPREAD  = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
DOORS   = tests/unit/cli tests/unit/test_api.py tests/unit/test_pytest_plugin.py tests/unit/tools/run tests/scenarios tests/properties \
          tests/replay tests/conformance tests/sentences
PIP     = $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help run test doors long check lint docs bench fuzz dist release clean

help:
	@echo 'make run      set up and run a first scenario        make run'
	@echo 'make test     run the test suite                     make test ARGS="tests/house -x" WORKERS=0'
	@echo 'make doors    the part of it that users see:   make doors'
	@echo 'make long     run tests that take longer             make long'
	@echo 'make check    ruff, mypy, then the tests             make check'
	@echo 'make docs     update outputs in the documents        make docs'
	@echo 'make bench    measure speed, compare with a commit   make bench AGAINST=COMMIT'
	@echo 'make fuzz     search all engines for new failures    make fuzz MINUTES=60 JOBS=2'
	@echo 'make dist     build and check sdist and wheel        make dist'
	@echo 'make release  rehearse the steps of a release        make release'
	@echo 'make clean    remove the environments and caches     make clean'
	@echo 'make more     list the other targets'

# A first case under two rule sets, then all cases of the five threads that cachesim began with.
run: $(VENV)/.run
	@$(BIN)/cachesim run llama-24143-entry-removed-dense -p llama_cpp@b11549 -p llama_cpp@pr24143-on-b10587 \
	  --color $$(test -t 2 -a -z "$$NO_COLOR" && echo always || echo auto) 2>&1 | \
	  sed -e '/ runs: /d' -e 's|^next: |&$(BIN)/|'
	@start=$$(date +%s); $(BIN)/cachesim run $(THREADS) --as-expected --provenance -q -j auto > /dev/null && \
	  echo "$(words $(THREADS)) cases of five threads checked in $$(($$(date +%s) - start)) s: all as expected. The command: $(BIN)/cachesim"

test: $(VENV)/.dev
	@$(BIN)/python -m pytest $(SPREAD) $(ARGS)

# The command line, the Python interface, scenarios, properties; the rest are tests of single modules and of our own text.
doors: $(VENV)/.dev
	@$(BIN)/python -m pytest $(SPREAD) $(DOORS) $(ARGS)

# Replays of one recording in eight, packages, killed processes, campaigns and tests that take seconds.
long: WORKERS = 2
long: $(VENV)/.dev
	@$(BIN)/python -m pytest $(SPREAD) -m 'long and not slow' $(ARGS)

check: lint
	@$(MAKE) --no-print-directory test

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/mypy

# CPU time and peak memory of whole commands, and CPU time until their first line; ARGS='why import' takes rows by words of their
# names, ARGS='--pairs 1' is quick. ARGS='--record "issue N"' writes the ratios into tests/bench/results.md.
bench: $(VENV)/.run
	@$(BIN)/python -m tests.bench $(if $(AGAINST),--against '$(AGAINST)') $(ARGS)

fuzz: $(VENV)/.run
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --jobs $(JOBS)

docs: $(VENV)/.dev
	$(BIN)/python -m tests.docs.examples
	$(BIN)/python -m tests.docs.pictures
	$(BIN)/python -m tests.docs.lessons
	$(BIN)/python -m tests.docs.reference
	$(BIN)/python -m tests.scenarios.tables
	$(BIN)/python -m tests.scenarios.bugs_page

dist: $(VENV)/.made
	@$(PYTHON) -m venv $(DIST)
	@$(DIST)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --only-binary :all: \
	  -r .github/requirements/release.txt
	@$(DIST)/bin/python .ci/release.py build
	@$(DIST)/bin/twine check --strict dist/*

# The commands of CONTRIBUTING, "A release", with a temporary origin and package index; nothing is published.
release:
	@$(PYTHON) .ci/release.py rehearse

clean:
	rm -rf $(VENV) $(PEERS) $(PEERS_VLLM) $(PEERS_SGLANG) .venv-adapters $(LIVE) $(XLLAMA) $(DIST) $(BROWSER) $(SITE) .venv-ci .venv-targets dist .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info

# Stamps: the environment is created once and updated when pyproject.toml changes.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'cachesim needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	@echo 'creating $(VENV)' >&2
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.made pyproject.toml
	@echo 'installing cachesim' >&2
	@$(PIP) install -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@echo 'installing cachesim and the development tools' >&2
	@$(PIP) install -e '.[dev]'
	@touch $@ $(VENV)/.run

include tests/targets.mk
