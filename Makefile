# `make demo` shows what this is; `make test` checks that it still holds.
# Everything is installed into .venv, made by a bare python3 with venv and pip; no Java and no root are needed.

PYTHON ?= python3
# Two more than there are cores: a third of the time of the tests is spent waiting, and the cores would be idle meanwhile.
WORKERS ?= $(shell expr $$(nproc) + 2)
BIN := .venv/bin
# Named, because to collect the others takes each worker some ten seconds.
LONG_FILES := $(addprefix tests/jepsen_like/,run/test_command.py systems/raft_target/test_runs.py nemesis/test_machine_faults.py \
	mirror/kafka/test_mirror.py nemesis/test_nemesis.py systems/kafka_target/test_runs.py claims/test_recordings.py) \
	tests/fuzz/test_rocketmq.py
CLUSTER_FILES = $(LONG_FILES) $(filter-out $(LONG_FILES),$(shell grep -rl --include='test_*.py' 'mark.cluster' tests))
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where this is set, each of the thousand processes that tests start would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
# An installation is good for one content of pyproject.toml, whatever the file times say after a checkout.
KEY := $(firstword $(shell cksum < pyproject.toml))
DEMO := .venv/.installed-demo-$(KEY)
DEV := .venv/.installed-dev-$(KEY)
DOCS := .venv/.installed-docs-$(KEY)

.PHONY: help demo test check format pythons campaign foreign docs clean

help:
	@echo 'make demo      a real cluster, broken on purpose, checked; the report opens from disk (first time: installs)'
	@echo 'make test      house checks and every test, under 10 minutes on two cores'
	@echo 'make check     house checks alone: lint, format, types, import directions, tidiness'
	@echo 'make format    let ruff rewrite the layout of the source'
	@echo 'make pythons   the quick tests on Python 3.11, 3.12 and 3.13, as far as they are on this machine'
	@echo 'make campaign  the long ranges: seeds, histories, damaged frames and deliberate bugs; an hour or two'
	@echo 'make foreign   programs in other languages against brokers of ours: kcat, Java, Streams, Connect, Spark, Node, Go; 15 minutes'
	@echo 'make docs      the pages and the API as a site in build/docs; a warning fails it; make test leaves it to the workflow'
	@echo 'make clean     remove .venv, caches and the site; runs/ stays'

demo: $(DEMO)
	$(BIN)/quorumlog run

check: $(DEV)
	$(BIN)/python -m tests.house

# The house first: it is the quickest to fail. Then what computes, side by side: the JVM, too, because it would starve real
# processes. Those come last, four tests at a time: they mostly wait for elections and for faults to end, and a test that breaks
# when others have most of the machine holds a time against the wrong bound. Those of a file share the clusters that it starts.
# The longest files begin first.
test: $(DEV)
	$(BIN)/python -m tests.house
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m 'not house and not cluster and not campaign'
	$(BIN)/python -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder -m 'cluster and not house and not campaign' $(CLUSTER_FILES)

format: $(DEV)
	$(BIN)/python -m ruff check --fix-only .
	$(BIN)/python -m ruff format .

pythons: $(DEV)
	$(BIN)/python -m tests.pythons --workers $(WORKERS)

campaign: $(DEV)
	$(BIN)/quorumlog sim --level core --seeds 0:5000
	$(BIN)/quorumlog sim --explore
	$(BIN)/quorumlog sim --explore --scope timeouts=2,entries=0,crashes=0,trims=1,logs=//
	$(BIN)/quorumlog sim --explore --scope timeouts=1,entries=0,crashes=0,changes=1,logs=// --minutes 20
	$(BIN)/quorumlog sim --explore --scope timeouts=1,entries=0,crashes=0,changes=2,logs=// --minutes 20
	$(BIN)/python -m tests.simulation.marks
	$(BIN)/quorumlog sim --system kafka --seeds 0:5000
	$(BIN)/quorumlog sim --system kafka --explore --minutes 10
	$(BIN)/quorumlog sim --system kafka --explore --scope records=0,elections=1,shrinks=0,transactions=1 --minutes 10
	$(BIN)/quorumlog sim --system rocketmq --seeds 0:5000
	$(BIN)/quorumlog sim --system rocketmq --explore --minutes 10
	QUORUMLOG_EXAMPLES=17 $(BIN)/python -m pytest -q -n auto --timeout 3600 -o faulthandler_timeout=0 -m 'not house and not cluster and not spark'
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --timeout 600 -m 'campaign and (spark or cluster)'
	$(BIN)/python -m tests.jepsen_like.checker.differential --count 1000000
	$(BIN)/python -m tests.jepsen_like.checker.differential --maps --count 100000
	$(BIN)/python -m tests.jepsen_like.checker.register.in_pieces --count 20000
	$(BIN)/python -m tests.jepsen_like.checker.plants_at_scale
	$(BIN)/python -m tests.fuzz.wire --frames 100000 --seed 1
	$(BIN)/python -m tests.fuzz.kafka --frames 100000 --seed 1
	$(BIN)/python -m tests.fuzz.rocketmq --frames 100000 --seed 1
	$(BIN)/python -m tests.fuzz.tls --records 100000 --seed 1
	set -e; for name in $$($(BIN)/quorumlog scenario | sed -n 's/^\([a-z0-9-]*\)  .*/\1/p'); do $(BIN)/quorumlog scenario $$name; done
	$(BIN)/quorumlog scenario all-killed-copy-gone --trial eligible.leader.replicas.version=1 --draws 20 --quick
	$(BIN)/python -m tests.mutants run --happy
	$(BIN)/python -m tests.mutation

# All of them run, whichever fail; Maven, npm and Go bring what is missing.
foreign: $(DEV)
	failed=; for programs in foreign foreign.secured foreign.programs; do \
		$(BIN)/python -m tests.kafka_compat.$$programs || failed="$$failed $$programs"; \
	done; test -z "$$failed"

docs: $(DOCS)
	$(BIN)/python -m sphinx -q -W --keep-going -c docs -d build/doctrees . build/docs
	@echo 'open build/docs/index.html'

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build/docs build/doctrees

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'make: need Python 3.11 or newer; name one: make PYTHON=python3.11 ...' >&2; exit 4; }
	$(PYTHON) -m venv .venv

$(DEMO): | .venv/bin/python
	@echo 'installing quorumlog with Spark and a Java runtime into .venv (about 1 GB; a minute or two, once)'
	$(BIN)/python -m pip install --quiet -e '.[spark,java]'
	@rm -f .venv/.installed-*
	@touch $@

$(DEV): | .venv/bin/python
	@echo 'installing quorumlog and its tools into .venv (about 1 GB; a minute or two, once)'
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@rm -f .venv/.installed-*
	@touch $@ $(DEMO)

$(DOCS): | .venv/bin/python
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	@rm -f $(filter-out %-$(KEY),$(wildcard .venv/.installed-*))
	@touch $@
