# make demo [FOR=seconds] [RATE=payments a second]   the platform at work
# make platform [FOR=seconds] [RATE=number]        the same with three brokers, a Spark cluster, Airflow on PostgreSQL
# make test [PARTS="check unit ..."]                 everything that must hold
# make parity [N=scenarios] [SEED=number] [REPLAY=file]   random scenarios against Kafka Streams' test driver
# make drills                                      every kind of failure, and the page docs/failure-matrix.md of it
# make docs                                        the generated pages of docs/, and the site in site/
# make soak [MINUTES=30] [SEED=number]             kills, savepoints, restores, resets at random, and a checker
.DEFAULT_GOAL := help
.PHONY: help setup demo platform test parity drills soak check format bench docs clean

# Modules are compiled once, also where the environment (many container images) would have every process compile them
# again: that costs each one 2 to 4 s.
export PYTHONDONTWRITEBYTECODE =

PYTHON := .venv/bin/python
FOR ?=
RATE ?= 500
PARTS ?=
BENCH ?=
N ?= 10000
SEED ?= 1
REPLAY ?=
MINUTES ?= 30

help:
	@sed -n 's/^# //p' Makefile
	@echo 'make check | format | bench [BENCH="--workload W1,W2"] | clean'

setup:
	@scripts/setup.sh --prepared

demo:
	@scripts/setup.sh
	@$(PYTHON) -m demo --rate $(RATE) $(if $(FOR),--seconds $(FOR))

platform:
	@scripts/setup.sh --platform
	@$(PYTHON) -m demo --cluster --rate $(RATE) $(if $(FOR),--seconds $(FOR))

test:
	@scripts/setup.sh --tests
	@$(PYTHON) -m scripts.run_tests $(PARTS)

parity: setup
	@PYTHONPATH=jobs:. $(PYTHON) -m tests.parity.run --scenarios $(N) --seed $(SEED) $(if $(REPLAY),--replay $(REPLAY))

drills: setup
	@MILLRACE_DRILLS_RECORD=docs/failure-matrix.json $(PYTHON) -m pytest tests/chaos/drills tests/chaos/test_exactly_once.py
	@$(PYTHON) -m tests.chaos.drills.page > docs/failure-matrix.md

soak: setup
	@PYTHONPATH=jobs:. $(PYTHON) -m tests.soak.run --minutes $(MINUTES) --seed $(SEED)

check: setup
	@$(PYTHON) scripts/check.py

format: setup
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

bench: setup
	@$(PYTHON) -m tests.bench.run $(BENCH)

docs: setup
	@$(PYTHON) -m scripts.references
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

clean:
	@rm -rf site .venv .tools .millrace .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
