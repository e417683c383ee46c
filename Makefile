# SPDX-License-Identifier: Apache-2.0
# Everything runs in .venv, which the first target that needs it makes. Another interpreter:
#   make demo PYTHON=python3.13

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# A change in one of these is a reason to install again.
PACKAGING := setup.cfg setup.py pyproject.toml constraints.txt tools/build_with_pbr.py
TESTS ?=
ARGS ?=
# Two workers a processor: many tests wait for a deadline or a database.
WORKERS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
STESTR := $(BIN)/stestr run --concurrency $(WORKERS)
# Services under load, deaths, cut links, trees of zones, and functional tests again through a service.
PROOFS := tests\.(proofs|functional\.test_through)\.
# How often each client of a load asks, in full size; with none, the proofs have the size of CI.
SOAK ?= 300
ROOM ?= weighers
MUTANTS = .mutants/$(subst /,-,$(ROOM))

.PHONY: help install demo demo-live test cover proofs bench mutants lint check format types docs notes clean
.DEFAULT_GOAL := help

help:
	@echo 'make install               all that the targets below need, at once; each also installs its own'
	@echo 'make demo                  schedule a GPU node on examples/site.json and say why'
	@echo 'make demo-live             the same against four live pod managers that it serves itself'
	@echo 'make test                  all tests but the proofs; TESTS=regex chooses of all, ARGS=... goes to stestr run'
	@echo 'make proofs                deaths, cut links and races in full size; SOAK= for the size of CI'
	@echo 'make cover                 the tests, with the coverage of both packages'
	@echo 'make bench                 the benchmarks, a JSON line each; ARGS=name runs one'
	@echo 'make mutants ROOM=weighers  changes of lines that the tests of a room do not notice'
	@echo 'make lint                  ruff check, ruff format --check, mypy --strict'
	@echo 'make docs                  doc/build/html, warnings are errors'
	@echo 'make notes                 reno lint of the release notes; needs git history'
	@echo 'make clean                 remove what these have made'

# One run of pip is quicker than one for each target.
install: .venv/installed-together

demo: .venv/installed
	$(BIN)/valence-sched podm schedule --inventory examples/site.json --warn-age never --flavor gpu-large --alternates 2 --explain

demo-live: .venv/installed-serve
	@sh examples/live.sh $(BIN)

test: .venv/installed-test
	PYTHON=$(BIN)/python $(STESTR) $(if $(TESTS),'$(TESTS)',--exclude-regex '$(PROOFS)') $(ARGS)

proofs: .venv/installed-test
	VALENCE_SCHED_SOAK=$(SOAK) PYTHON=$(BIN)/python $(STESTR) '$(PROOFS)$(if $(SOAK),|tests\.unit\.(core|planning|store\.test_(races|database_errors)|lifecycle\.test_(reconcile|stored))\.)' $(ARGS)

cover: .venv/installed-test
	$(BIN)/coverage erase
	PYTHON='$(BIN)/coverage run' $(STESTR) --exclude-regex '$(PROOFS)' $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

bench: .venv/installed-test
	@$(BIN)/python -m tests.benchmarks $(ARGS)

# Not in CI: a room takes minutes. It goes on where it was ended.
mutants: .venv/installed-mutants
	@test -d valence_sched/$(ROOM) -a -d tests/unit/$(ROOM) || \
		{ echo 'no room $(ROOM): name a folder of both valence_sched and tests/unit' >&2; exit 2; }
	@mkdir -p $(MUTANTS)
	@ln -sfn $(foreach name,valence_sched valence_sched_cli tests examples doc,$(CURDIR)/$(name)) $(MUTANTS)
	@cp tests/mutants/conftest.py tests/mutants/reached.py $(MUTANTS)
	@sed 's|ROOM|$(ROOM)|' tests/mutants/setup.cfg >$(MUTANTS)/setup.cfg
	@cd $(MUTANTS) && $(CURDIR)/$(BIN)/mutmut run $(ARGS) && $(CURDIR)/$(BIN)/mutmut results

lint: check format types

check: .venv/installed-lint
	$(BIN)/ruff check .

format: .venv/installed-lint
	$(BIN)/ruff format --check .

types: .venv/installed-lint
	$(BIN)/mypy --strict

docs: .venv/installed-docs
	$(BIN)/sphinx-build -q -W -n --keep-going -b html -d doc/build/doctrees doc/source doc/build/html
	$(BIN)/sphinx-build -q -W -n --keep-going -b man -d doc/build/doctrees doc/source doc/build/man

notes: .venv/installed-docs
	$(BIN)/reno -q lint

clean:
	rm -rf .venv .stestr .hypothesis .mutants .mypy_cache .ruff_cache build dist doc/build cover *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/installed: $(PACKAGING)
	@echo 'Installing into .venv ...' >&2
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) --editable .
	@touch $@

.venv/installed-together: $(PACKAGING)
	@echo 'Installing into .venv ...' >&2
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) --editable '.[test,lint,docs]'
	@touch .venv/installed .venv/installed-test .venv/installed-lint .venv/installed-docs $@

.venv/installed-%: .venv/installed
	@echo 'Installing what "$*" needs into .venv ...' >&2
	$(PIP_INSTALL) --editable '.[$*]'
	@touch $@
