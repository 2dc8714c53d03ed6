# `make` alone lists the commands. The first one that needs it prepares .venv (one of them build/released); nothing is
# installed anywhere else.

SUBJECTS ?=#  what to certify; nothing means every pair of the registry that needs no outside service
TESTS ?=#     what to test; nothing means everything
WORKERS ?= 3# tests at a time: one more than cores of a small machine, as many wait for a broker or a JVM

unexport PYTHONDONTWRITEBYTECODE # hundreds of interpreters are started: each would compile everything again

.DEFAULT_GOAL := help
.PHONY: help certify test test-quick test-released lint bench soak soak-hosts zoo-under-load mutants samples clean java browser services

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

certify: .venv/ready java ## crash the built-in sinks everywhere and write the report (SUBJECTS="files/two-phase ...")
	@.venv/bin/sinkproof certify $(SUBJECTS)

test: .venv/ready java browser services ## run the whole test suite (TESTS=tests/house/test_tidy.py)
	@.venv/bin/pytest -q -n $(WORKERS) --dist worksteal --durations 20 --durations-min 10 $(TESTS)

test-quick: .venv/ready ## run the fast tests, stop at the first failure
	@.venv/bin/pytest -q -n $(WORKERS) --dist worksteal -x -m "not slow and not longer and not released" $(TESTS)

test-released: build/released/ready ## certify sinks that write with released libraries (in build/released; half an hour)
	@build/released/bin/pytest -q -m released tests/released

lint: .venv/ready build/types ## ruff, ruff format --check, mypy --strict
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

bench: .venv/ready java ## measure, beside the alternatives, in one run
	@.venv/bin/python tests/bench/run.py

soak: .venv/ready java ## the long job on Spark under random deaths (HOURS=1, or MINUTES=...); summary in .sinkproof/soak.json
	@.venv/bin/python tests/soak/run.py $(if $(MINUTES),--minutes $(MINUTES),--hours $(or $(HOURS),1))

soak-hosts: .venv/ready java services ## jobs on three hosts on this machine: fifty are cut off, 120 die; an hour and more
	@.venv/bin/python tests/soak/failing_hosts.py
	@.venv/bin/python tests/soak/etl_on_failing_hosts.py

zoo-under-load: .venv/ready ## certify 24 members of the zoo, alone and beside busy loops (SEED=1); hours
	@.venv/bin/python tests/soak/zoo_under_load.py --seed $(or $(SEED),1)

mutants: .venv/ready java ## break the code one line at a time; certify must notice each
	@.venv/bin/python tests/mutants/run.py

samples: .venv/ready browser ## make reports/examples anew, pictures included; those to be looked at go to build/pictures
	@.venv/bin/python tests/support/make_samples.py

clean: ## remove .venv, .sinkproof (all reports) and every cache
	rm -rf .venv .sinkproof build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The file holds the folder it was prepared in: an environment does not survive being moved.
ifneq ($(shell cat .venv/ready 2>/dev/null),$(CURDIR))
.PHONY: .venv/ready
endif
.venv/ready: pyproject.toml .ci/venv .ci/constraints.txt
	@.ci/venv
ifneq ($(shell cat build/released/ready 2>/dev/null),$(CURDIR))
.PHONY: build/released/ready
endif
build/released/ready: pyproject.toml .ci/venv .ci/constraints.txt
	@.ci/venv build/released released

java: .venv/ready # Spark needs one; in this order, so that missing programs are reported one after the other
	@.ci/java
	@.venv/bin/python -m sinkproof.reference_engine.shells.spark.spark_session

services: .venv/ready java # tests start them: what they need is resolved or built once, into the user's cache
	@.venv/bin/sinkproof services prepare kafka cassandra toxiproxy
	@.ci/engine

browser: .venv/ready # tests open the report in one
	@.ci/chromium

# mypy cannot follow an editable install. It gets the package as links: what is in harness/, and beside it the folders.
.PHONY: build/types
build/types:
	@rm -rf $@ && mkdir -p $@/sinkproof
	@cd $@/sinkproof && ln -s $(addprefix ../../../,harness/* chaos reference_engine reports sink_adapters) .
