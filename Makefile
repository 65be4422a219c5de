# `make help` lists the targets, from the comments that begin with two #.
.DEFAULT_GOAL := help
.PHONY: help setup demo platform test parity drills soak check format bench docs wheel clean

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
	@echo 'Millrace: Kafka Streams for Python people who run Spark and Airflow. Begin with `make demo`, then docs/start.md.'
	@awk '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^## /{text = text substr($$0, 4) "\n"; next} \
		/^[a-z]+:/{if (text != "") {sub(/:.*/, ""); n = split(text, lines, "\n"); printf "  make %-9s %s\n", $$0, lines[1]; \
		for (i = 2; i < n; i++) printf "  %-14s %s\n", "", lines[i]} text = ""}' Makefile

##@ The first time, and to see it at work. Python 3.11 or 3.12 and make must be there; each installs what it needs.
## the environment in .venv from uv.lock, Java, the jars; then `. .venv/bin/activate` and `millrace --help`
setup:
	@scripts/setup.sh --prepared

## a payment stream to fraud alerts, deployed by Airflow, until Ctrl-C
## FOR=90: for as many seconds; RATE=500: payments a second
demo:
	@scripts/setup.sh
	@$(PYTHON) -m demo --rate $(RATE) $(if $(FOR),--seconds $(FOR))

## the same with three brokers, a Spark cluster, Airflow on PostgreSQL; FOR and RATE too
platform:
	@scripts/setup.sh --platform
	@$(PYTHON) -m demo --cluster --rate $(RATE) $(if $(FOR),--seconds $(FOR))

##@ While you change something
## fix what ruff can fix, and the layout
format: setup
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

## ruff, mypy, import-linter, audit of the dependencies: a minute
check: setup
	@$(PYTHON) scripts/check.py

## everything that must hold: half an hour on two cores
## PARTS="check unit": some parts, a few minutes; PARTS=list: which there are; PARTS=full: all of them, hours
test:
	@scripts/setup.sh --tests
	@$(PYTHON) -m scripts.run_tests $(PARTS)

## the generated pages of docs/ (a test holds them current), and the site in site/
docs: setup
	@$(PYTHON) -m scripts.references
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

## dist/millrace-VERSION-py3-none-any.whl, for projects outside of this checkout
wheel:
	@scripts/setup.sh
	@$(PYTHON) -m scripts.wheel dist

##@ To look for faults, and to measure
## random scenarios against Kafka Streams' own test driver
## N=10000 SEED=1: how many, from which seed; REPLAY=file: one again
parity: setup
	@PYTHONPATH=jobs:. $(PYTHON) -m tests.parity.run --scenarios $(N) --seed $(SEED) $(if $(REPLAY),--replay $(REPLAY))

## kills, savepoints, restores, resets at random, and a checker; MINUTES=30 SEED=1
soak: setup
	@PYTHONPATH=jobs:. $(PYTHON) -m tests.soak.run --minutes $(MINUTES) --seed $(SEED)

## every kind of failure, and the page docs/failure-matrix.md of it
drills: setup
	@MILLRACE_DRILLS_RECORD=docs/failure-matrix.json $(PYTHON) -m pytest tests/chaos/drills tests/chaos/test_exactly_once.py
	@$(PYTHON) -m tests.chaos.drills.page > docs/failure-matrix.md

## against Kafka Streams and Spark on this machine; BENCH="--workload W1,W2"
bench: setup
	@$(PYTHON) -m tests.bench.run $(BENCH)

##@ Afterwards
## delete what all of these have made here, the embedded broker's data included
clean:
	@rm -rf site dist .venv .tools .millrace .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
