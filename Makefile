# The way in. `make demo` and `make test` each set up everything they need on a machine with Python 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/pytest
# A test waits for half of its time: two workers, each with its own Spark, metastore and oracles, share the files.
WORKERS ?= 2
PYTEST_WORKERS := $(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
# The demo's data: lineitem of TPC-H as plain parquet, partitioned by year.
DEMO_SOURCE := demo-warehouse/source
.PHONY: kerberos kerberos-package kerberos-system dist release-check help install site versions demo demo-ingest demo-warehouse test test-unit test-fast soak oracle hive bench scale lint format lock docs clean oracles

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml requirements.lock scripts/install_java.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint requirements.lock uv
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --compile-bytecode --constraint requirements.lock --editable '.[test,dev,docs]'
	$(BIN)/python -m compileall -q hudisql pyspark_hudisql pyspark_hudisql_full_name
	$(BIN)/python scripts/install_java.py
	touch $@

install: $(STAMP) ## virtual environment with locked packages, and a Java if none is found

demo: $(STAMP) ## bootstrap, change and query a real sample on the embedded metastore, read it by DuckDB
	$(BIN)/python sql/make_demo_data.py $(DEMO_SOURCE)
	rm -rf demo-warehouse/warehouse
	$(BIN)/hudisql --warehouse demo-warehouse/warehouse --hivevar source=$(abspath $(DEMO_SOURCE)) -v -f sql/demo.sql
	$(BIN)/python -m sql.demo_duckdb demo-warehouse/warehouse/lake.db/lineitem

demo-ingest: $(STAMP) ## events from a local Kafka broker (fetched by Maven) into Hudi tables, on the embedded metastore
	$(BIN)/python -m sql.demo_ingest demo-warehouse/ingest

demo-warehouse: $(STAMP) ## ODS (fed from a local Kafka broker, or by MERGE), DWD, DWS and ADS of TPC-H through rounds of changes
	$(BIN)/python -m sql.demo_warehouse demo-warehouse/layers

dist: $(STAMP) ## sdist and wheel in dist/; the wheel, installed without the checkout, runs the demo
	$(BIN)/python sql/make_demo_data.py $(DEMO_SOURCE)
	$(BIN)/python scripts/try_wheel.py dist $(DEMO_SOURCE)

release-check: dist ## what is missing for a release of pyproject's version
	$(BIN)/python scripts/release_check.py

test: $(STAMP) ## everything that CI runs: lint, types, the wheel, tests, Apache Hudi, Apache Hive
	$(MAKE) --jobs 2 lint oracles dist kerberos-package
	$(PYTEST_WORKERS) -m "not soak"

test-unit: $(STAMP) ## the tests without Spark, a metastore, Kafka and oracles, in about a minute
	$(PYTEST) -m "not spark and not hms and not hive and not oracle and not kafka and not slow and not soak"

test-fast: $(STAMP) ## all tests but those with Apache Hudi and Apache Hive
	$(PYTEST_WORKERS) -m "not oracle and not hive and not soak"

soak: oracles kerberos-package ## long matrices, crashes at every step (processes killed, disk full), 500 examples of each property (hours)
	HYPOTHESIS_PROFILE=soak $(PYTEST) -m "soak or hypothesis"

kerberos: kerberos-package ## logins on a realm of their own, whose programs kerberos-system installs
	$(PYTEST) tests/kerberos tests/server/test_directory_groups.py -m "kerberos or not soak"

kerberos-package: $(STAMP)
	$(BIN)/python scripts/install_kerberos.py package

kerberos-system: ## apt-get install what the tests of Kerberos and LDAP need, as root or by sudo
	$(PYTHON) scripts/install_kerberos.py system

oracles: $(STAMP) ## fetch Apache Hudi (0.15, 1.2 on PySpark 3.5), hudi-rs, Delta, Apache Hive 2.3 and Kafka into the user's cache
	$(BIN)/python -m scripts.setup_oracles

oracle: oracles ## Apache Hudi reads and goes on writing what we wrote
	$(PYTEST_WORKERS) -m "oracle and not soak"

hive: oracles ## beeline, spark-sql + Hudi, hudisql and plain Spark by table name
	$(PYTEST_WORKERS) -m "hive and not soak"

bench: oracles ## side by side with Apache Hudi and plain Spark; writes docs/benchmarks*.md
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.changes
	$(BIN)/python -m benchmarks.merged_reads
	$(BIN)/python -m benchmarks.services
	$(BIN)/python -m benchmarks.incremental_tables

scale: oracles ## 1,000 to 10,000 files, then 250,000 in 3,500 partitions, and 100 M keys (hours); writes docs/benchmarks-scale.md
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.change_scale
	$(BIN)/python -m benchmarks.version_scale
	$(BIN)/python -m benchmarks.statement_scale
	$(BIN)/python -m benchmarks.iceberg_scale
	$(BIN)/python -m benchmarks.many_files
	$(BIN)/python -m benchmarks.record_keys
	$(BIN)/python -m benchmarks.metadata_scale
	$(BIN)/python -m benchmarks.metadata_bootstrap
	$(BIN)/python -m benchmarks.metadata_commits
	$(BIN)/python -m benchmarks.old_metadata_reads

lint: $(STAMP) ## ruff, mypy (strict, less so for tests), words, reference pages up to date
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python scripts/check_words.py
	$(BIN)/python scripts/write_reference_docs.py --check docs
	$(MAKE) site

format: $(STAMP) ## let ruff format and mend the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(STAMP) ## renew requirements.lock from pyproject's ranges
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip compile --quiet --upgrade --extra test --extra dev --extra docs --extra kerberos --no-header --no-annotate --no-emit-index-url --output-file requirements.lock pyproject.toml
	echo "uv==$$($(BIN)/uv --version | cut -d' ' -f2)" >> requirements.lock

docs: $(STAMP) ## write the reference pages of docs/ from the code's declarations
	$(BIN)/python scripts/write_reference_docs.py docs

site: $(STAMP) ## the docs site in build/site, without warnings
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

versions: oracles ## a table on PySpark 4.0 and 3.5, Python 3.12 and 3.13 (as far as this machine has them)
	$(PYTEST) tests/versions -m "soak or not soak"

clean: ## remove the virtual environment and the demo's data
	rm -rf $(VENV) demo-warehouse build dist *.egg-info
