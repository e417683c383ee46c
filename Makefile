# SPDX-License-Identifier: Apache-2.0
# All targets run in .venv; the first one creates it. To use another interpreter:
#   make demo PYTHON=python3.13

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# A change of one of these files causes a new installation.
PACKAGING := setup.cfg setup.py pyproject.toml constraints.txt tools/build_with_pbr.py
TESTS ?=
ARGS ?=
# Two workers per processor: many tests wait for a deadline or a database.
WORKERS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
STESTR := $(BIN)/stestr run --concurrency $(WORKERS)
# Tests of load, crashes, cut links and trees of zones, and functional tests through a service.
PROOFS := tests\.(proofs|functional\.test_through)\.
# Tests of the store on PostgreSQL and MariaDB, which it passes on SQLite: each takes as long again.
SERVERS := _(postgresql|mysql)\.
# The number of requests of each client in a load test; if empty, the proofs have the size of CI.
SOAK ?= 300
ROOM ?= weighers
MUTANTS = .mutants/$(subst /,-,$(ROOM))
# Files that packages install beside the programs: completion and manual pages.
SHARE := doc/build/share
STEPS ?=
# Two builds of a commit are the same bytes.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || date +%s)

.PHONY: help install demo demo-live test cover proofs bench mutants lint check format types docs notes dist deb \
	release-check clean
.DEFAULT_GOAL := help

help:
	@echo 'make install               install the packages of all targets; each target also installs its own'
	@echo 'make demo                  schedule a GPU node on examples/site.json and explain the decision'
	@echo 'make demo-live             the same with four simulated pod managers, which it starts'
	@echo 'make test                  run the tests except the proofs; TESTS=regex selects from all tests,'
	@echo '                           ARGS=... are arguments of stestr run'
	@echo 'make proofs                test crashes, cut links, races and database servers in full size; SOAK= for the'
	@echo '                           size of CI'
	@echo 'make cover                 run the tests and report the coverage of both packages'
	@echo 'make bench                 run the benchmarks, a JSON line each; ARGS=name runs one'
	@echo 'make mutants ROOM=weighers  list changed lines of a folder that its tests do not detect'
	@echo 'make lint                  run ruff check, ruff format --check and mypy --strict'
	@echo 'make docs                  build doc/build/html; warnings are errors'
	@echo 'make notes                 check the release notes with reno lint; needs the git history'
	@echo 'make dist                  build dist/*.tar.gz and dist/*.whl'
	@echo 'make deb                   build dist/*.deb; needs debhelper, dh-virtualenv and python3-venv of Debian'
	@echo 'make release-check         install and run the packages on empty systems; STEPS=... runs some steps'
	@echo 'make clean                 remove .venv and all generated files'

# One run of pip is faster than one for each target.
install: .venv/installed-together

demo: .venv/installed
	$(BIN)/valence-sched podm schedule --inventory examples/site.json --warn-age never --flavor gpu-large --alternates 2 --explain

demo-live: .venv/installed-serve
	@sh examples/live.sh $(BIN)

test: .venv/installed-test
	PYTHON=$(BIN)/python $(STESTR) $(if $(TESTS),'$(TESTS)',--exclude-regex '$(PROOFS)|$(SERVERS)') $(ARGS)

proofs: .venv/installed-test
	VALENCE_SCHED_SOAK=$(SOAK) PYTHON=$(BIN)/python $(STESTR) '$(PROOFS)|$(SERVERS)$(if $(SOAK),|tests\.unit\.(core|planning|drivers)\.)' $(ARGS)

cover: .venv/installed-test
	$(BIN)/coverage erase
	PYTHON='$(BIN)/coverage run' $(STESTR) --exclude-regex '$(PROOFS)' $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

bench: .venv/installed-test
	@$(BIN)/python -m tests.benchmarks $(ARGS)

# Not in CI: a folder takes minutes. An interrupted run can be continued.
mutants: .venv/installed-test .venv/installed-mutants
	@test -d valence_sched/$(ROOM) -a -d tests/unit/$(ROOM) || \
		{ echo 'ROOM=$(ROOM): not a folder of both valence_sched and tests/unit' >&2; exit 2; }
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

# The source archive holds the manual pages, so that a wheel built from it has them without Sphinx.
dist: .venv/installed-dist .venv/installed-docs
	rm -rf dist $(SHARE)
	@mkdir -p $(SHARE)/bash-completion/completions $(SHARE)/fish/vendor_completions.d $(SHARE)/zsh/site-functions
	$(BIN)/sphinx-build -q -n -b man -D man_make_section_directory=1 -d doc/build/doctrees doc/source $(SHARE)/man
	$(BIN)/valence-sched complete --shell bash | sed '/^#compdef/d' >$(SHARE)/bash-completion/completions/valence-sched
	$(BIN)/valence-sched complete --shell fish >$(SHARE)/fish/vendor_completions.d/valence-sched.fish
	$(BIN)/valence-sched complete --shell zsh >$(SHARE)/zsh/site-functions/_valence-sched
	$(BIN)/python -m build --outdir dist
	@rm -rf valence_sched.egg-info  # entry points of this build, which tests in the checkout would read

# The package has the Python packages of this machine's version of Python.
deb: dist
	tools/build-deb dist/*.tar.gz dist

# Not in CI: the steps install systems and packages for an hour.
release-check:
	tools/release_check/run $(STEPS)

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
	@echo 'Installing the packages of "$*" into .venv ...' >&2
	$(PIP_INSTALL) --editable '.[$*]'
	@touch $@
