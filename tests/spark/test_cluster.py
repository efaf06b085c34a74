"""Executors that lack hudisql get it shipped; those that cannot run it are refused with a recipe."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudisql.spark.cluster import (
    REQUIRED_PACKAGES,
    PythonEnvironment,
    build_package_archive,
    compare_environment,
    is_cluster,
)
from tests.free_port import find_free_port
from tests.oracle.client import HudiOracle

ROOT = Path(__file__).parents[2]
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
INSTALLED: dict[str, str | None] = {
    "hudisql": "x",
    **{name: importlib.metadata.version(name) for name in REQUIRED_PACKAGES},
}

# Runs as a driver of its own: `sys.path` is set here, because PYTHONPATH would reach the workers.
DRIVER = """
import json, sys
root, warehouse, source = sys.argv[1:4]
sys.path.insert(0, root)
import hudisql
from hudisql.console import SilentConsole
from hudisql.errors import ExecutorEnvironmentError
from hudisql.config.settings import Settings

settings = Settings(master="local-cluster[2,1,1024]", warehouse=warehouse)
try:
    session = hudisql.connect(settings=settings, console=SilentConsole())
except ExecutorEnvironmentError as error:
    print(json.dumps({"error": str(error)}))
    raise SystemExit(0)
with session:
    def where_hudisql_is(numbers):
        import hudisql
        yield hudisql.__file__
    context = session.spark.sparkContext
    found = context.parallelize(range(8), 8).mapPartitions(where_hudisql_is).distinct().collect()
    session.sql(f"CALL bootstrap_table(table => 'lake.t', source => '{source}', record_key => 'id')")
    rows = session.sql("SELECT count(*), count(DISTINCT _hoodie_record_key), sum(value) FROM lake.t").rows
    print(json.dumps({"files": found, "rows": [list(row) for row in rows]}))
"""

# Loads 60,000 rows by four tasks. `disturbance` defines `disturb`, called between rows of the first
# attempt at the first task, and may define `begin`, called before the rows of each later attempt at it.
LOAD_DRIVER = """
import json, os, signal, sys, time
root, warehouse, directory, disturbance, master, conf = sys.argv[1:7]
sys.path.insert(0, root)
import hudisql
from hudisql.console import SilentConsole
from hudisql.config.settings import Settings

def begin():
    pass

exec(disturbance)

def pass_on(batches):
    from pyspark import TaskContext
    running = TaskContext.get()
    is_first_task, is_first_attempt = running.partitionId() == 0, running.attemptNumber() == 0
    if is_first_task and not is_first_attempt:
        begin()
    for number, batch in enumerate(batches):
        yield batch
        if number == 3 and is_first_task and is_first_attempt:
            disturb()

settings = Settings(master=master, warehouse=warehouse,
                    conf={"spark.sql.execution.arrow.maxRecordsPerBatch": "2000", **json.loads(conf)})
with hudisql.connect(settings=settings, console=SilentConsole()) as session:
    session.sql("CREATE DATABASE lake")
    source = session.spark.range(0, 60000, 1, 4).selectExpr("id", "id % 7 AS value")
    options = {"hoodie.bulkinsert.sort.mode": "NONE", "hoodie.table.recordkey.fields": "id"}
    rows = source.mapInArrow(pass_on, source.schema)
    result = session.write(rows, "lake.t", "bulk_insert", **options)
    # What a killed attempt still does, it does within seconds.
    time.sleep(3)
    [found] = session.sql("SELECT count(*), count(DISTINCT id), sum(value) FROM lake.t").rows
    print(json.dumps({"rows": [result.inserted, *found], "seen": sorted(os.listdir(directory))}))
"""

# The attempt dies with its executor.
KILL_EXECUTOR = """
def disturb():
    open(f"{directory}/died", "w").close()
    executor = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1]
    os.kill(int(executor), signal.SIGKILL)
    time.sleep(20)
"""

# The attempt waits until its speculative copy has won.
WAIT_FOR_COPY = """
def begin():
    open(f"{directory}/copied", "w").close()

def disturb():
    open(f"{directory}/waited", "w").close()
    time.sleep(120)
"""
SPECULATION = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
}

# Clusters three partitions again and again; of the tasks one kills its executor before a change of the store,
# each time a later one, until there are no more.
CLUSTERING_DRIVER = """
import itertools, json, os, sys
root, warehouse, directory, master = sys.argv[1:5]
sys.path.insert(0, root)
from pyspark import cloudpickle
import hudisql
import tests.fault_injection as faults
from hudisql.console import SilentConsole
from hudisql.context import Context
from hudisql.config.settings import Settings
from hudisql.sql.dispatch import execute
from tests.sql.changed_tables import ChangedTable

cloudpickle.register_pickle_by_value(faults)
settings = Settings(master=master, warehouse=warehouse)
with hudisql.connect(settings=settings, console=SilentConsole()) as session:
    session.sql("CREATE DATABASE lake")
    session.sql("CREATE TABLE lake.t (id bigint, value bigint, day string) USING hudi PARTITIONED BY (day) "
                "TBLPROPERTIES (primaryKey = 'id', 'hoodie.clustering.plan.strategy.sort.columns' = 'value')")
    table = ChangedTable(session, "lake.t", os.path.join(warehouse, "lake.db", "t"))
    session.sql("INSERT INTO lake.t SELECT id, id % 7, concat('d', id % 3) FROM range(3000)")
    kills, found = 0, []
    for step in itertools.count():
        session.sql(f"UPDATE lake.t SET value = value + {step} WHERE id % 5 = 0")
        before = table.rows("id, value, day")
        mark = os.path.join(directory, str(step))
        os.mkdir(mark)
        storage = faults.FaultyStorage(
            target=table.path, process="worker", fault="kill_executor", step=step, barrier=mark)
        context = Context(session.context.spark, session.context.metastore, storage)
        execute(context, "CALL run_clustering(table => 'lake.t')")
        after, last = table.rows("id, value, day"), table.instants()[-1]
        found.append([before == after, last.split()[1], table.orphans()])
        if not os.listdir(mark):
            break
        kills += 1
    rows = table.rows("id, value")
    print(json.dumps({"kills": kills, "found": found, "rows": rows}))
"""


@pytest.mark.parametrize(
    ("master", "cluster"),
    [
        ("local", False),
        ("local[*]", False),
        ("local[4,2]", False),
        ("local-cluster[2,1,1024]", True),
        ("yarn", True),
        ("spark://host:7077", True),
        ("k8s://https://host", True),
    ],
)
def test_a_master_is_local_or_a_cluster(master: str, cluster: bool) -> None:
    assert is_cluster(master) is cluster


def test_the_shipped_archive_is_importable_on_its_own(tmp_path: Path) -> None:
    archive = tmp_path / "package.zip"
    build_package_archive(archive)
    names = zipfile.ZipFile(archive).namelist()
    assert "hudisql/__init__.py" in names
    assert "pyspark_hudisql/__init__.py" in names
    assert not [name for name in names if "__pycache__" in name]
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from hudisql.read.files import splits; print(splits.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, archive], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout.startswith(str(archive))


@pytest.mark.parametrize(
    ("python", "changes", "problem"),
    [
        (HERE, {}, None),
        ("3.9", {}, f"worker: Python 3.9, the driver has {HERE}"),
        (HERE, {"pyarrow": None}, "worker: no pyarrow (the driver has "),
        (HERE, {"pyarrow": "1.0.0"}, "worker: pyarrow 1.0.0, the driver has "),
        (HERE, {"hudisql": None}, "worker: the shipped hudisql package cannot be imported"),
    ],
)
def test_what_differs_on_an_executor_is_named(
    python: str, changes: dict[str, str | None], problem: str | None
) -> None:
    problems = compare_environment(PythonEnvironment("worker", python, INSTALLED | changes))
    assert (problems == []) if problem is None else problems[0].startswith(problem)


def worker_python(directory: Path, *, with_packages: bool) -> Path:
    """A Python without hudisql; with the packages of this one, or with none at all."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    if with_packages:
        site = directory / "lib" / f"python{HERE}" / "site-packages"
        packages = {str(Path(pa.__file__).parent.parent), str(Path(pytest.__file__).parent.parent)}
        (site / "packages.pth").write_text("\n".join(sorted(packages)) + "\n")
    return directory / "bin" / "python"


def spark_environment(tmp_path: Path, spark_home: Path, python: Path, host: str) -> dict[str, str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HUDISQL_", "PYSPARK_", "SPARK_")) and name != "PYTHONPATH"
    }
    return environment | {
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": host,
        "PYSPARK_PYTHON": str(python),
        "HOME": str(tmp_path),
    }


@contextmanager
def standalone_cluster(tmp_path: Path, spark_home: Path) -> Iterator[str]:
    """The URL of a master with two workers on two hosts: Spark speculates between hosts alone."""
    port = find_free_port()
    url = f"spark://127.0.0.1:{port}"
    parts = [("127.0.0.1", ["master.Master", "--port", str(port)])]
    for host in ("127.0.0.1", "127.0.0.2"):
        directory = tmp_path / f"work-{host}"
        options = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory), url]
        parts.append((host, ["worker.Worker", *options]))
    with ExitStack() as running, (tmp_path / "cluster.log").open("wb") as log:
        for host, (name, *options) in parts:
            process = subprocess.Popen(
                [
                    str(spark_home / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{name}",
                    *("--host", host, "--webui-port", "0", *options),
                ],
                env=spark_environment(tmp_path, spark_home, Path(sys.executable), host),
                stdout=log,
                stderr=log,
            )
            running.callback(process.wait)
            running.callback(process.terminate)
        yield url


def run_driver(
    tmp_path: Path, spark_home: Path, python: Path, source: Path, *more: str, driver: str = DRIVER
) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", driver, str(ROOT), str(tmp_path / "warehouse"), str(source), *more],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=spark_environment(tmp_path, spark_home, python, "127.0.0.1"),
        check=False,
        timeout=560,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.slow
def test_executors_without_hudisql_bootstrap_and_read(tmp_path: Path, spark_home: Path) -> None:
    python = worker_python(tmp_path / "worker", with_packages=True)
    absent = subprocess.run([python, "-c", "import hudisql"], capture_output=True, cwd=tmp_path, check=False)
    assert absent.returncode != 0, "this test needs a worker Python without hudisql"
    source = tmp_path / "source"
    for day in ("2024-01-01", "2024-01-02"):
        (source / f"dt={day}").mkdir(parents=True)
        ids = pa.array([f"{day}-{number}" for number in range(100)])
        table = pa.table({"id": ids, "value": pa.array(range(100), pa.int64())})
        pq.write_table(table, source / f"dt={day}" / "part-0.parquet")
    answer = run_driver(tmp_path, spark_home, python, source)
    assert answer["rows"] == [[200, 200, 9900]]
    assert answer["files"] == ["./hudisql-package.zip/hudisql/__init__.py"]


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.slow
@pytest.mark.soak
def test_executors_without_the_packages_are_refused_with_the_recipe(tmp_path: Path, spark_home: Path) -> None:
    python = worker_python(tmp_path / "bare", with_packages=False)
    answer = run_driver(tmp_path, spark_home, python, tmp_path)
    assert "the executors cannot run hudisql's tasks" in answer["error"]
    for name in REQUIRED_PACKAGES:
        assert f"no {name}" in answer["error"]
    assert "--conf spark.archives=" in answer["error"]
    assert "venv-pack" in answer["error"]


def assert_all_rows_are_there(answer: dict[str, Any], oracle: HudiOracle, table: Path) -> None:
    values = sum(number % 7 for number in range(60_000))
    assert answer["rows"] == [60_000, 60_000, 60_000, values]
    theirs = oracle.read(str(table))
    assert (theirs.num_rows, pc.sum(theirs["value"]).as_py()) == (60_000, values)


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.soak
def test_a_task_that_dies_with_its_executor_leaves_no_rows(
    tmp_path: Path, spark_home: Path, oracle_015: HudiOracle
) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()
    more = (KILL_EXECUTOR, "local-cluster[2,1,1024]", "{}")
    answer = run_driver(tmp_path, spark_home, Path(sys.executable), directory, *more, driver=LOAD_DRIVER)
    assert answer["seen"] == ["died"]
    assert_all_rows_are_there(answer, oracle_015, tmp_path / "warehouse" / "lake.db" / "t")


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.soak
def test_an_attempt_that_loses_to_its_speculative_copy_leaves_no_rows(
    tmp_path: Path, spark_home: Path, oracle_015: HudiOracle
) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()
    with standalone_cluster(tmp_path, spark_home) as master:
        more = (WAIT_FOR_COPY, master, json.dumps(SPECULATION))
        answer = run_driver(tmp_path, spark_home, Path(sys.executable), directory, *more, driver=LOAD_DRIVER)
    assert answer["seen"] == ["copied", "waited"]
    assert_all_rows_are_there(answer, oracle_015, tmp_path / "warehouse" / "lake.db" / "t")


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.soak
def test_a_clustering_outlives_executors_that_die_at_any_step(
    tmp_path: Path, spark_home: Path, oracle_015: HudiOracle
) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()
    more = ("local-cluster[2,1,1024]",)
    answer = run_driver(
        tmp_path, spark_home, Path(sys.executable), directory, *more, driver=CLUSTERING_DRIVER
    )
    assert answer["kills"] > 1
    assert answer["found"] == [[True, "replacecommit", []]] * (answer["kills"] + 1)
    theirs = oracle_015.read(str(tmp_path / "warehouse" / "lake.db" / "t")).sort_by("id")
    assert len(answer["rows"]) == 3000
    assert [
        list(row) for row in zip(*(theirs[name].to_pylist() for name in ("id", "value")), strict=True)
    ] == (answer["rows"])
