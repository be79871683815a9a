# Everything sets itself up: a virtual environment from the locked list, servers from the package
# registries into the user's cache. A second run starts in seconds.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILED_TESTS := $(addprefix tests/,unit/core unit/wire unit/service unit/doors property scenarios simulation/test_simulation.py)
# As native/Cargo.toml wants it; an older one is as good as none.
RUST_MINOR := 88
RUST := $(shell cargo --version 2>/dev/null | awk '{split($$2, v, "."); if (v[1] > 1 || v[2] >= $(RUST_MINOR)) print "yes"}')
STAMP := $(VENV)/.installed-$(shell cksum < requirements.lock | cut -d' ' -f1)

.DEFAULT_GOAL := help
.PHONY: help setup servers demo test mutations simulate faults soak crash-matrix check format conformance bench bench-before bench-rocketmq \
	bench-compiled compiled test-compiled native lock clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

setup: $(STAMP) servers ## virtual environment with everything, from requirements.lock; servers for tests

servers: # MariaDB and pgbouncer, from Debian, unless they are there
	@tests/harness/packages.sh

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Half Hitch needs Python 3.11 or newer; say which one with make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

demo: $(STAMP) ## the main job on real servers, disturbed on purpose (two to three minutes)
	$(BIN)/halfhitch demo

test: $(STAMP) servers ## all tests on real servers, with coverage; the native way's too where Rust is installed
	$(if $(RUST),@$(MAKE) --no-print-directory native)
	$(BIN)/coverage erase
	$(BIN)/python tests/side_by_side.py --coverage
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered
	$(BIN)/coverage report --include='*/halfhitch/core/*,*/halfhitch/wire/*' --fail-under=100

mutations: $(STAMP) ## break the ledger on purpose; tests must find each of the mistakes (ten minutes)
	$(BIN)/python -m pytest -m mutation tests/property tests/simulation

simulate: $(STAMP) ## whole lives in simulated time: SEEDS=20000 for more, SEED=17 for one and its trace
	HALFHITCH_SEEDS=$(if $(SEED),1,$(or $(SEEDS),2000)) HALFHITCH_FIRST_SEED=$(or $(SEED),0) \
		HALFHITCH_SEVERAL_SEEDS=$(if $(SEED),1,$(or $(SEEDS),500)) \
		$(BIN)/python -m pytest -q -rP $(or $(LIVES),tests/simulation) -k every_invariant

faults: $(STAMP) ## every fault on real servers, then docs/reliability.md anew (an hour; ONLY=, SEED=)
	$(BIN)/python tests/faults $(if $(ONLY),--only $(ONLY)) --mixes $(or $(MIXES),5) --seed $(or $(SEED),1)

soak: $(STAMP) ## N transactions (a million) under one fault after the other, judged; docs/reliability.md anew
	$(BIN)/python tests/faults --soak $(or $(N),1000000) --seed $(or $(SEED),1)

crash-matrix: $(STAMP) ## programs struck at every step, on three databases (hours; SHARE=24 steps of each class, SEED=)
	$(BIN)/python tests/faults --crashes $(or $(SHARE),0) --seed $(or $(SEED),1)

check: $(STAMP) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(if $(RUST),@! cargo fmt --version >/dev/null 2>&1 || cargo fmt --check --manifest-path native/Cargo.toml)
	$(if $(RUST),@! cargo clippy --version >/dev/null 2>&1 || \
		cargo clippy --quiet --release --manifest-path native/Cargo.toml --target-dir build/cargo -- -D warnings)

format: $(STAMP) ## put the code into its form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(if $(RUST),@! cargo fmt --version >/dev/null 2>&1 || cargo fmt --manifest-path native/Cargo.toml)

conformance: $(STAMP) ## RocketMQ's own clients on RocketMQ and on Half Hitch, then docs/conformance.md (needs mvn, javac)
	$(BIN)/python tests/conformance

bench: $(STAMP) ## throughput, latency and check-back on the embedded Kafka, beside raw Kafka
	$(BIN)/python tests/benchmarks

bench-before: $(STAMP) ## the same load on REV=commit and on this tree, alternately
	$(BIN)/python tests/benchmarks --only engine,http --before $(REV)

bench-rocketmq: $(STAMP) ## RocketMQ's own benchmark on RocketMQ and on Half Hitch, in turns (an hour)
	$(BIN)/python tests/benchmarks/rocketmq $(ARGS)

bench-compiled: $(STAMP) ## interpreted against compiled, in one process (after `make compiled`; a minute)
	$(BIN)/python tests/benchmarks/twins $(ARGS)

# Into a folder of its own: what is not asked for is not found, and everything runs without it.
native: ## the hot requests of RocketMQ's clients on native threads, in build/native (a minute; needs Rust)
	@test -n "$(RUST)" || { echo "make native needs Rust 1.$(RUST_MINOR) or newer (cargo; see rustup.rs)"; exit 1; }
	cargo build --quiet --release --manifest-path native/Cargo.toml --target-dir build/cargo
	mkdir -p build/native
	cp build/cargo/release/libhalfhitch_native.$(if $(filter Darwin,$(shell uname)),dylib,so) build/native/halfhitch_native.abi3.so

# Not with pip, which would build the wheel twice, the first time for its metadata.
compiled: $(STAMP) ## the hot path in C, ready to run, in build/compiled (mypyc; minutes; needs a C compiler)
	test -x build/tools/bin/pyproject-build || { $(PYTHON) -m venv build/tools && \
		build/tools/bin/python -m pip install --quiet --disable-pip-version-check build; }
	rm -rf build/compiled build/compiled-wheel
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 build/tools/bin/pyproject-build --wheel --outdir build/compiled-wheel .
	$(BIN)/python -m zipfile -e build/compiled-wheel/*.whl build/compiled

test-compiled: $(STAMP) ## what the tests say of the compiled hot path (after `make compiled`)
	PYTHONPATH=$(CURDIR)/build/compiled $(BIN)/python -m pytest -q --compiled $(COMPILED_TESTS)

lock: ## newest versions into requirements.lock (needs uv)
	uv pip compile pyproject.toml --extra demo --extra test --constraint constraints.txt \
		--python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --upgrade --quiet --output-file requirements.lock

clean: ## everything that was made here
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
