# Everything sets itself up: a virtual environment from the locked list, servers from the package
# registries into the user's cache. A second run starts in seconds.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILED_TESTS := $(addprefix tests/,unit/core unit/wire unit/service property scenarios simulation/test_simulation.py)
# As native/Cargo.toml wants it; an older one is as good as none.
RUST_MINOR := 88
RUST := $(shell cargo --version 2>/dev/null | awk '{split($$2, v, "."); if (v[1] > 1 || v[2] >= $(RUST_MINOR)) print "yes"}')
C_COMPILER := $(shell command -v cc)
CONTAINER_TESTS := tests/contract $(addprefix tests/integration/,$(addsuffix .py,test_engine test_operations test_topics \
	test_undeliverable test_parked_store test_checkback_engine test_checkback_conflicts test_rocketmq_door test_testing_container))
STAMP := $(VENV)/.installed-$(shell cat requirements.lock build.lock | cksum | cut -d' ' -f1)
UPGRADES := upgrade-before-seals,upgrade-kill-before-seals,upgrade-before-proofs,upgrade-before-digests,all-drain
DOCS := build/docs-tools/bin
DOCS_STAMP := build/docs-tools/.installed-$(shell cksum < docs.lock | cut -d' ' -f1)
BENCH := build/bench-tools/bin
BENCH_STAMP := build/bench-tools/.installed-$(shell cksum < bench.lock | cut -d' ' -f1)
TOOLS := build/tools/bin
TOOLS_STAMP := build/tools/.installed-$(shell cksum < release.lock | cut -d' ' -f1)
IS_LINUX := $(filter Linux,$(shell uname))
# Of the image: with the fast path where it can be built, and for which machines its packages are.
FAST := $(if $(and $(RUST),$(C_COMPILER)),yes,no)
MACHINES := $(shell uname -m)
# Of the kits that start sidecars: NATIVE=yes for those with halfhitch-native.
WAY := $(if $(NATIVE),--native)
MANYLINUX := manylinux2014 $(foreach minor,17 24 26 27 28 31 34,manylinux_2_$(minor))
PLATFORMS := linux/amd64,linux/arm64
IMAGE := halfhitch:$(shell sed -n 's/^__version__.*= "\(.*\)"/\1/p' sidecar/halfhitch/__init__.py)

.DEFAULT_GOAL := help
.PHONY: help docs audit browser fuzz setup servers demo test test-all test-upgrade test-neighbour mutations simulate faults soak crash-matrix check format conformance bench bench-before bench-rocketmq \
	bench-rights bench-neighbour bench-idle bench-spark bench-audit bench-operators bench-compiled compiled test-compiled native wheels wheel wheel-native wheel-compiled bench-native \
	check-wheels test-wheels sbom image image-parts image-built image-release test-image lock clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

setup: $(STAMP) servers ## virtual environment with everything, from requirements.lock; servers for tests

servers: # MariaDB, pgbouncer, kcat, Prometheus and Chromium, from Debian, unless they are there
	@tests/harness/packages.sh

$(STAMP): requirements.lock build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Half Hitch needs Python 3.11 or newer; say which one with make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r build.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## the main job on real servers, disturbed on purpose (three minutes or four)
	$(BIN)/halfhitch demo

# Where there is no Rust the native way stays untried, and says so.
.PHONY: native-if-rust
native-if-rust:
	@$(if $(RUST),$(MAKE) --no-print-directory native,echo "no Rust: the native way is not built")

test: $(STAMP) servers ## tests on real servers; core and wire covered whole; the native way too where Rust is installed (COVERAGE=all for the rest; ten minutes)
	@$(MAKE) --no-print-directory native-if-rust
	$(BIN)/coverage erase
	$(if $(COVERAGE),HALFHITCH_TEST_TRACE_ALL=yes) $(BIN)/python tests/side_by_side.py --coverage $(if $(ALL),--all)
	$(BIN)/coverage combine --quiet
	$(if $(COVERAGE),$(BIN)/coverage report --skip-covered)
	$(BIN)/coverage report --include='*/halfhitch/core/*,*/halfhitch/wire/*' --fail-under=100

# What is compiled is tried where there is a compiler, as the native way is where there is Rust.
test-all: ## all of that and what takes longer: servers that are hurt, RocketMQ's clients, all lives, a soak, compiled, wheels (40 minutes)
	@$(MAKE) --no-print-directory test ALL=yes
	@$(MAKE) --no-print-directory test-neighbour
	$(BIN)/python chaos --soak 20000 --unrecorded $(if $(RUST),--native)
	$(if $(C_COMPILER),@$(MAKE) --no-print-directory $(if $(RUST),wheels test-wheels,compiled) test-compiled,\
		@echo "no C compiler: the compiled hot path was not tried")

# Building takes Go; without it this says so, and nothing else needs it.
.PHONY: test-cluster test-kubelet test-containers containers-tested
test-cluster: $(STAMP) ## charts, `inject` and policies on a real API server and controllers of Kubernetes 1.36, built once (needs Go, Debian's etcd)
	@tests/harness/apiserver.sh
	$(BIN)/python -m pytest -q -m cluster tests/deploy

test-kubelet: $(STAMP) ## the sidecar in real pods, by Kubernetes' own kubelet: start, Job, upgrade, drain (root; after make image; five minutes)
	@tests/harness/apiserver.sh node
	tests/harness/engine.sh $(BIN)/python -m pytest -q -rP -m kubelet tests/deploy/test_kubelet.py

test-neighbour: $(STAMP) ## a hostile neighbour at every door; compares latencies, so nothing else may run (a minute)
	$(BIN)/python -m pytest -q -m neighbour tests/integration/test_neighbour.py

test-containers: $(STAMP) ## broker tests on Kafka and Redis in containers, whose images it builds; the image of `make image` too, if it is there
	tests/harness/engine.sh $(MAKE) --no-print-directory containers-tested

containers-tested: # by the engine that answers
	PYTHONPATH=tests $(BIN)/python tests/containers/build.py
	HALFHITCH_TEST_CONTAINERS=yes TESTCONTAINERS_RYUK_DISABLED=true $(BIN)/python -m pytest -q -m "not mutation" $(CONTAINER_TESTS)

fuzz: $(STAMP) ## changed inputs against every reader of bytes from outside (FOR=600 seconds, SEED=, ONLY=http,op)
	PYTHONPATH=tests:. $(BIN)/python tests/fuzz/mutating.py --seconds $(or $(FOR),600) \
		$(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

# Rust's stable compiler has AddressSanitizer, behind a switch; the runtime that is preloaded is gcc's.
# Python itself is not watched, and what it keeps to its end is no leak of ours.
ASAN := build/asan
.PHONY: fuzz-native
fuzz-native: $(STAMP) ## the native module under AddressSanitizer: fuzzed (FOR=300), then compared with its twin (needs Rust and gcc; ten minutes)
	@$(PYTHON) native/crates.py
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Cdebuginfo=1" cargo build --locked --quiet --release --manifest-path native/Cargo.toml \
		--target-dir $(ASAN) --target $(shell rustc -vV | sed -n 's/^host: //p')
	mkdir -p $(ASAN)/native
	cp $(ASAN)/*/release/libhalfhitch_native.so $(ASAN)/native/halfhitch_native.abi3.so
	$(WATCHED) $(BIN)/python tests/fuzz/mutating.py --only rust,rust-json,owner --seconds $(or $(FOR),300) $(if $(SEED),--seed $(SEED))
	$(WATCHED) $(BIN)/python -m pytest -q -p no:cacheprovider $(NATIVE_TESTS)

WATCHED = env PYTHONPATH=tests:. HALFHITCH_NATIVE_FOLDER=$(CURDIR)/$(ASAN)/native ASAN_OPTIONS=detect_leaks=0 \
	LD_PRELOAD=$$(gcc -print-file-name=libasan.so)
NATIVE_TESTS = $(shell grep -rl "harness.native import" tests/unit tests/property | sort)

browser: $(STAMP) ## can a page in a real browser become a producer? (BROWSER=chromium, which must be there)
	PYTHONPATH=tests:. $(BIN)/python tests/fuzz/browser.py --browser $(or $(BROWSER),chromium)

.PHONY: pictures
pictures: $(STAMP) ## the pictures of docs/console.md anew (Chromium and its driver must be there)
	PYTHONPATH=tests:. $(BIN)/python tests/acceptance/console_pictures.py

mutations: $(STAMP) ## break the ledger on purpose; tests must find each of the mistakes (twenty minutes)
	$(BIN)/python -m pytest -m mutation tests/property tests/simulation

simulate: $(STAMP) ## whole lives in simulated time: SEEDS=20000 for more, SEED=17 for one and its trace
	HALFHITCH_SEEDS=$(if $(SEED),1,$(or $(SEEDS),2000)) HALFHITCH_FIRST_SEED=$(or $(SEED),0) \
		HALFHITCH_SEVERAL_SEEDS=$(if $(SEED),1,$(or $(SEEDS),500)) \
		$(BIN)/python -m pytest -q -rP $(or $(LIVES),tests/simulation) -k every_invariant

faults: $(STAMP) ## every fault on real servers, then docs/reliability.md anew (an hour; ONLY=, SEED=, NATIVE=yes)
	$(BIN)/python chaos $(WAY) $(if $(ONLY),--only $(ONLY)) --mixes $(or $(MIXES),5) --seed $(or $(SEED),1)

# Sidecars of older releases are made of the history: a source archive or a shallow clone has none.
test-upgrade: $(STAMP) ## older releases replaced by this one under load, one by one, and back (ten minutes; needs git's history)
	$(BIN)/python chaos $(WAY) --only $(or $(ONLY),$(UPGRADES)) --seed $(or $(SEED),1) $(if $(BROKERS),--brokers $(BROKERS))

soak: $(STAMP) ## N transactions (a million) under one fault after the other, judged; docs/reliability.md anew
	$(BIN)/python chaos $(WAY) --soak $(or $(N),1000000) --seed $(or $(SEED),1)

crash-matrix: $(STAMP) ## programs struck at every step, on three databases (hours; SHARE=24 steps of each class, SEED=)
	$(BIN)/python chaos --crashes $(or $(SHARE),0) --seed $(or $(SEED),1)

check: $(STAMP) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(if $(RUST),@! cargo fmt --version >/dev/null 2>&1 || cargo fmt --check --manifest-path native/Cargo.toml)
	$(if $(RUST),@! cargo clippy --version >/dev/null 2>&1 || { $(BIN)/python native/crates.py && \
		cargo clippy --locked --quiet --release --manifest-path native/Cargo.toml --target-dir build/cargo -- -D warnings; })

format: $(STAMP) ## put the code into its form; make the blocking twins anew
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python tools/blocking.py
	$(BIN)/python tools/charts.py
	$(BIN)/python tools/chart_options.py
	$(BIN)/python tools/annotations.py
	$(BIN)/python tools/pages.py
	$(BIN)/python tools/logs_page.py
	$(BIN)/python tools/metrics_page.py
	$(BIN)/python tools/monitoring
	$(if $(RUST),@! cargo fmt --version >/dev/null 2>&1 || cargo fmt --manifest-path native/Cargo.toml)

conformance: $(STAMP) ## RocketMQ's own clients on RocketMQ and on Half Hitch, then docs/conformance.md (needs mvn, javac)
	$(BIN)/python conformance $(WAY)

bench: $(STAMP) ## throughput, latency and check-back on the embedded Kafka, beside raw Kafka
	$(BIN)/python bench

.PHONY: bench-raw
bench-raw: $(STAMP) fast-path ## each way of preparing and committing beside raw Kafka, in turns (ten minutes; ARGS=--record)
	$(BIN)/python bench --beside-raw $(ARGS)

bench-before: $(STAMP) ## the same load on REV=commit and on this tree, alternately
	$(BIN)/python bench --only engine,http --before $(REV)

bench-native: $(STAMP) ## native threads and the interpreter in turns, over HTTP (after `make native`; five minutes)
	$(BIN)/python bench --native --concurrency 32 --pairs 3 --seconds 5 $(ARGS)

bench-rocketmq: $(STAMP) ## RocketMQ's own benchmark on RocketMQ and on Half Hitch, in turns (an hour)
	$(BIN)/python bench/rocketmq $(ARGS)

# What a release has: the hot path in C, anew when its sources are newer, and the native module.
.PHONY: fast-path
fast-path:
	@$(MAKE) --no-print-directory native
	@[ -e build/.compiled-for ] && [ -d build/compiled ] && \
		[ -z "$$(find sidecar/halfhitch -name '*.py' -newer build/.compiled-for -print -quit)" ] || \
		{ $(MAKE) --no-print-directory compiled && touch build/.compiled-for; }

.PHONY: bench-dtm
bench-dtm: $(STAMP) fast-path ## prepare and commit over HTTP beside dtm 1.19 on Redis, under wrk, in turns (twenty minutes; ARGS=--record; needs Go, Rust, a C compiler)
	@bench/dtm/programs.sh
	$(BIN)/python bench/dtm $(ARGS)

.PHONY: bench-curves curve-pictures
bench-curves: $(STAMP) fast-path ## cost by half partitions, payload, undecided, length of the log, instances (an hour; ARGS="--only payload --record")
	$(BIN)/python bench/curves $(ARGS)
	$(if $(findstring --record,$(ARGS)),@$(MAKE) --no-print-directory curve-pictures)

curve-pictures: $(BENCH_STAMP) ## the pictures of docs/sizing.md anew, from what is kept
	$(BENCH)/python bench/curves/draw.py bench/curves/records docs

$(BENCH_STAMP): bench.lock
	$(PYTHON) -m venv build/bench-tools
	$(BENCH)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r bench.lock
	@touch $@

bench-rights: $(STAMP) ## what it costs to ask for rights, in one process (a minute)
	$(BIN)/python bench/rights.py $(ARGS)

bench-neighbour: $(STAMP) ## how much slower is one application while another attacks? (fifteen minutes; ARGS="--only stall")
	$(BIN)/python bench/neighbour.py $(ARGS)

.PHONY: previews
previews: $(STAMP) ## pictures of the dashboards for docs/production.md, of a sidecar under load (two minutes)
	PYTHONPATH=tests:. $(BIN)/python bench/dashboards.py $(ARGS)

.PHONY: top-pictures
top-pictures: $(STAMP) ## the pictures of docs/top.md anew
	PYTHONPATH=tests:. $(BIN)/python tests/acceptance/top_pictures.py

.PHONY: dev-picture
dev-picture: $(STAMP) ## the picture of `halfhitch dev` in docs/tutorial.md anew
	PYTHONPATH=tests:. $(BIN)/python tests/acceptance/dev_picture.py

.PHONY: bench-owner
bench-owner: $(STAMP) native ## what an owner takes to carry out a committed message, natively and interpreted in turns (some minutes)
	$(BIN)/python bench/owner.py $(ARGS)

bench-idle: $(STAMP) ## what a sidecar costs that has nothing to do (three minutes; ARGS="--image halfhitch:0.1.0" for the image)
	$(BIN)/python bench/idle.py $(ARGS)

bench-spark: $(STAMP) ## rows a second by Spark's connector and by the source without it, and whole transactions (five minutes)
	$(BIN)/python bench/spark_rows.py $(ARGS)

bench-audit: $(STAMP) ## the audit on Spark beside verify, three sizes (ARGS="--records 200000")
	$(BIN)/python bench/spark_audit.py $(ARGS)

bench-operators: $(STAMP) ## what a person waits for with a million records in the logs, and what the audit topic costs (half an hour; ARGS="--records 20000 --pending 2000")
	$(BIN)/python bench/operators.py $(ARGS)

bench-compiled: $(STAMP) ## interpreted against compiled, in one process (after `make compiled`; a minute)
	$(BIN)/python bench/twins $(ARGS)

# Into a folder of its own: what is not asked for is not found, and everything runs without it.
native: ## the hot requests of RocketMQ's clients on native threads, in build/native (a minute; needs Rust)
	@test -n "$(RUST)" || { echo "make native needs Rust 1.$(RUST_MINOR) or newer (cargo; see rustup.rs)"; exit 1; }
	@$(PYTHON) native/crates.py
	cargo build --locked --quiet --release --manifest-path native/Cargo.toml --target-dir build/cargo
	mkdir -p build/native
	cp build/cargo/release/libhalfhitch_native.$(if $(filter Darwin,$(shell uname)),dylib,so) build/native/renewed
	mv build/native/renewed build/native/halfhitch_native.abi3.so # not in place: who runs with it would crash

compiled: wheel-compiled ## the hot path in C, ready to run, in build/compiled (mypyc; minutes; needs a C compiler)

test-compiled: $(STAMP) ## what the tests say of the compiled hot path (after `make compiled`)
	PYTHONPATH=$(CURDIR)/build/compiled $(BIN)/python -m pytest -q --compiled $(COMPILED_TESTS)

# What a release has. Each part is built with the tools of release.lock, and with nothing else: no
# isolated environment is filled with whatever is newest on that day.
wheels: ## what a release has, into dist/, and looked at (minutes; needs Rust and a C compiler)
	rm -rf dist
	@$(MAKE) --no-print-directory wheel wheel-native wheel-compiled
	cp build/compiled-wheel/*.whl dist
	@$(MAKE) --no-print-directory check-wheels

$(TOOLS_STAMP): release.lock
	$(PYTHON) -m venv build/tools
	$(TOOLS)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r release.lock
	@touch $@

wheel: $(TOOLS_STAMP) # source distribution, and of that the wheel for every Python
	$(TOOLS)/python -m build --no-isolation --outdir dist .

wheel-native: $(TOOLS_STAMP) # halfhitch-native, one wheel for all Pythons of this platform
	@test -n "$(RUST)" || { echo "$@ needs Rust 1.$(RUST_MINOR) or newer (cargo; see rustup.rs)"; exit 1; }
	$(TOOLS)/python native/crates.py
	$(TOOLS)/maturin build --quiet --release --strip --manifest-path native/Cargo.toml --target-dir build/cargo --out dist
	$(TOOLS)/maturin sdist --manifest-path native/Cargo.toml --out dist

wheel-compiled: $(TOOLS_STAMP) # the core in C, for this Python and platform; unpacked beside it
	rm -rf build/compiled-wheel build/compiled-here
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(TOOLS)/python -m build --no-isolation --wheel --outdir build/compiled-here .
	$(if $(IS_LINUX),PATH=$(CURDIR)/$(TOOLS):$$PATH $(TOOLS)/auditwheel repair --wheel-dir build/compiled-wheel build/compiled-here/*.whl,\
		mv build/compiled-here build/compiled-wheel)
	rm -rf build/compiled
	$(TOOLS)/python -m zipfile -e build/compiled-wheel/*.whl build/compiled

check-wheels: $(TOOLS_STAMP) # do they say what they are, and will they run where they say?
	$(TOOLS)/twine check --strict dist/*.whl dist/*.tar.gz
	$(TOOLS)/abi3audit --strict --report dist/halfhitch_native-*.whl
	$(if $(IS_LINUX),for wheel in dist/*linux*.whl; do $(TOOLS)/auditwheel show $$wheel || exit 1; done)

test-wheels: $(STAMP) ## install what is in dist/ into bare environments and run it (after `make wheels`)
	$(BIN)/python -m pytest -q -m wheels tests/acceptance/test_wheels.py

sbom: $(TOOLS_STAMP) # what the sidecar with all extras is made of, as CycloneDX, into dist/
	mkdir -p dist
	$(TOOLS)/cyclonedx-py requirements --of JSON --output-reproducible -o dist/halfhitch.cdx.json requirements.lock
	$(TOOLS)/python native/crates.py --sbom dist/halfhitch.cdx.json

image: ## the container image, of this tree's wheels (minutes; Docker, or Debian where it is installed; FAST=no for pure Python)
	@$(MAKE) --no-print-directory $(if $(filter yes,$(FAST)),wheels,wheel)
	@$(MAKE) --no-print-directory image-parts
	tests/harness/engine.sh $(MAKE) --no-print-directory image-built

# Of each machine's packages, so that nothing is fetched while the image is built.
image-parts: $(TOOLS_STAMP) # all that goes into the image, into build/image: the wheels of dist/, others', the list of them
	rm -rf build/image
	mkdir -p build/image/wheels
	cp dist/*.whl build/image/wheels
	for machine in $(MACHINES); do $(TOOLS)/python -m pip download --quiet --disable-pip-version-check --no-deps \
		--require-hashes --only-binary=:all: --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none \
		$$(printf -- "--platform %s_$$machine " $(MANYLINUX)) --requirement deploy/image.lock --dest build/image/wheels || exit 1; done
	$(TOOLS)/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application --of JSON --output-reproducible \
		-o build/image/sbom.cdx.json deploy/image.lock
	$(if $(filter yes,$(FAST)),$(TOOLS)/python native/crates.py --sbom build/image/sbom.cdx.json)

image-built: # of build/image; BASES=... names other bases
	docker build --quiet --network none $(or $(BASES),$$(tests/harness/bases.sh)) --build-arg FAST=$(FAST) \
		--build-arg REVISION=$$(git rev-parse --verify --quiet HEAD || echo unknown) --tag $(IMAGE) --file deploy/Dockerfile .

# What the engine knows of its making goes beside it: from what and how it was built, and every package in it.
image-release: # of build/image with wheels of both kinds of machine, one image for both, into build/image.oci.tar (buildx)
	docker buildx inspect halfhitch-release >/dev/null 2>&1 || docker buildx create --name halfhitch-release --driver docker-container
	docker buildx build --builder halfhitch-release --platform $(PLATFORMS) --network none --provenance mode=max --sbom true \
		--build-arg FAST=yes --build-arg REVISION=$$(git rev-parse --verify HEAD) --tag $(IMAGE) \
		--output type=oci,dest=build/image.oci.tar --file deploy/Dockerfile .

test-image: $(STAMP) ## run the image of `make image` as a cluster does: any user, no rights, nothing that can be written (a minute)
	tests/harness/engine.sh $(BIN)/python -m pytest -q -rP -m image tests/deploy/test_image.py

docs: $(DOCS_STAMP) ## the documentation as a site, into build/site; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(DOCS)/mkdocs build --quiet --strict
	$(DOCS)/python tools/site.py build/site

$(DOCS_STAMP): docs.lock
	$(PYTHON) -m venv build/docs-tools
	$(DOCS)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r docs.lock
	@touch $@

audit: $(TOOLS_STAMP) ## is anything known against what the lock files name? (needs the network; cargo-audit for Rust)
	for lock in requirements.lock build.lock release.lock docs.lock bench.lock; do $(TOOLS)/pip-audit --disable-pip --require-hashes -r $$lock || exit 1; done
	$(PYTHON) native/crates.py
	cargo audit --file native/Cargo.lock

lock: ## newest versions into the lock files (needs uv and Rust)
	$(PYTHON) native/crates.py --renew
	uv pip compile pyproject.toml --extra demo --extra test --constraint constraints.txt \
		--python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --upgrade --quiet --output-file requirements.lock
	# What is tested, but for the tests' dateutil, which botocore does not take.
	mkdir -p build
	sed -nE '/^python-dateutil=/d; s/^([a-z0-9-]+==[^ ]+) .*/\1/p' requirements.lock > build/tested.txt
	uv pip compile pyproject.toml --extra sidecar --extra rocketmq --extra msk --extra kubernetes \
		--group pyproject.toml:image --constraint build/tested.txt --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --no-emit-find-links --upgrade --quiet --output-file deploy/image.lock
	uv pip compile --group pyproject.toml:release --universal --python-version 3.11 \
		--generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --upgrade --quiet --output-file release.lock
	uv pip compile --group pyproject.toml:docs --universal --python-version 3.11 \
		--generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --upgrade --quiet --output-file docs.lock
	uv pip compile --group pyproject.toml:bench --universal --python-version 3.11 \
		--generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --upgrade --quiet --output-file bench.lock
	uv pip compile --group pyproject.toml:build --universal --python-version 3.11 --constraint release.lock \
		--generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --upgrade --quiet --output-file build.lock

clean: ## everything that was made here
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
