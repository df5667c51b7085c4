# Everything that is done with this repository, by name. `make` alone lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first Python on this machine that will do; say PYTHON=… for another one.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
PYTHON313 ?= $(shell for p in python3.13 $$HOME/.pyenv/versions/3.13*/bin/python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null && echo "$$p" && break; done)
PIP := -m pip --disable-pip-version-check --quiet

BIN := .venv/bin
SETUP := .venv/.set-up
SETUPCOMPILED := .venv-compiled/.set-up
# Tests that hold the rules of the tree and keep the documents in step with the code.
RULES := tests/test_architecture.py tests/docs tests/config/test_docs.py tests/policy/test_policies_page.py tests/dialects
ARGS ?=

.PHONY: help setup parts demo check lint format types dead duplicates rules fix test test-quick test-compiled fuzz schema has-3.13 bench soak certs lock clean

help:  ## list the targets
	@grep -hE '^[a-z0-9.-]+:.*  ## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*  ## /\t/' | expand -t 14

setup: $(SETUP)  ## the environment of the project in .venv, from requirements.lock

# $(1): folder of the environment, $(2): the Python to make it with. Debian packs `venv` apart from Python.
define environment
	test -n "$(2)" || { echo "make: no suitable Python was found (3.11 or later)" >&2; exit 1; }
	"$(2)" -c 'import ensurepip' 2>/dev/null || { \
	  test "$$(id -u)" = 0 || { echo "make: install python3-venv and try again" >&2; exit 1; }; \
	  apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv; }
	test -x $(1)/bin/python || "$(2)" -m venv $(1)
	$(1)/bin/python $(PIP) install --require-hashes -r requirements.lock
	$(1)/bin/python $(PIP) install --no-deps --no-build-isolation -e .
	touch $@
endef

$(SETUP): requirements.lock pyproject.toml
	@$(call environment,.venv,$(PYTHON))

# Python 3.13 where there is one, so that both are tested; else the same Python again.
$(SETUPCOMPILED): requirements.lock pyproject.toml
	@$(call environment,.venv-compiled,$(or $(PYTHON313),$(PYTHON)))

parts: setup  ## the real servers that the tests talk to, in .venv-parts and .parts
	@$(BIN)/python -m tests.parts.install

demo: setup  ## simulated models, Triton and identity provider behind a gateway; DEMO_SECONDS=20 checks itself
	@$(BIN)/nim-gateway demo $(if $(DEMO_SECONDS),--seconds $(DEMO_SECONDS))

CHECKS := lint format types dead duplicates rules
check: $(CHECKS)  ## lint, format, types, import rules, dead and duplicate code, docs in step (`-k` goes on after a failure)

lint: setup
	$(BIN)/ruff check .

format: setup
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

dead: setup
	$(BIN)/vulture gateway bench fuzz soak certs config --ignore-names "$$(grep -v '^#' tests/checks/alive.txt | paste -sd, -)"

duplicates: setup
	$(BIN)/python -m tests.checks.duplicates gateway

rules: setup
	$(BIN)/pytest -q -m "not parts" $(RULES)

fix: setup  ## what the linter can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: parts  ## the whole suite against the real servers; ARGS go to pytest
	$(BIN)/pytest $(ARGS)

test-quick: setup  ## what needs no real server
	$(BIN)/pytest -m "not parts" $(ARGS)

FUZZ_SECONDS ?= 600
FUZZ ?=
fuzz: setup  ## search for inputs that are read wrong: FUZZ_SECONDS=600 over all harnesses, or over those of FUZZ="json forms"
	@$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS) $(FUZZ)

schema: setup  ## the JSON Schemas of configuration and policies for editors, in config/schema/
	@$(BIN)/python config/schema/make.py

has-3.13:
	@test -n "$(PYTHON313)" || { echo "make: there is no Python 3.13 on this machine (say PYTHON313=…)" >&2; exit 1; }

# In a copy of the tracked files: compiled modules would hide what is edited next.
COMPILED := build/compiled
# How compiled coroutines pass exceptions on to plain ones (docs/decisions/0005).
PASSED_ON := ignore:the (type, exc, tb) signature of throw:DeprecationWarning
test-compiled: parts $(SETUPCOMPILED)  ## the whole suite with the call path compiled (docs/decisions/0005), on Python 3.13 if there is one
	sh packaging/compiled.sh .venv-compiled/bin/python $(COMPILED)
	.venv-compiled/bin/python $(PIP) install --no-deps --no-index --force-reinstall $(COMPILED)/dist/*.whl
	.venv-compiled/bin/nim-gateway --version | grep compiled
	ln -s "$(CURDIR)/.venv-parts" "$(CURDIR)/.parts" $(COMPILED)/
	cd $(COMPILED) && "$(CURDIR)/.venv-compiled/bin/python" -m pytest -p no:cacheprovider -W "$(PASSED_ON)" $(ARGS)

bench: setup  ## side by side with other proxies, into bench/results.md (installs them)
	sh bench/install.sh
	$(BIN)/python -m bench --write

SOAK_SECONDS ?= 600
SOAK_SEED ?=
soak: setup  ## mixed and hostile traffic for SOAK_SECONDS, after which all must be level; SOAK_SEED=… repeats one
	$(BIN)/python -m soak --seconds $(SOAK_SECONDS) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

certs: setup  ## a development authority and certificate in certs/
	@$(BIN)/python certs/make_dev_certs.py

# uv is no dependency: any copy of it will do.
UV ?= $(BIN)/uv
COMPILE = $(UV) pip compile --quiet --upgrade --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
	--python-version 3.11

BUILT_WITH = import tomllib; all = tomllib.load(open("pyproject.toml", "rb")); \
	print(*all["build-system"]["requires"], *all["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]["dependencies"], sep="\n")

lock:  ## renew the locks: of development, of running and of building alone (for the image), and of the real servers
	$(COMPILE) --universal --group pyproject.toml:dev -o requirements.lock pyproject.toml tests/requirements-tests.txt
	$(COMPILE) --universal -c requirements.lock -o requirements-run.lock pyproject.toml
	$(BIN)/python -c '$(BUILT_WITH)' | $(COMPILE) --universal -c requirements.lock -o requirements-build.lock -
	$(COMPILE) --python-platform x86_64-manylinux_2_36 -o tests/requirements-parts.lock tests/requirements-parts.txt

clean:  ## everything that was made here, but not what was installed
	rm -rf .demo .fuzz build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
