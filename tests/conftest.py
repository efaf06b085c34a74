"""Fixtures shared by all tests."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from hudisql.format.hfile.bootstrap_index import read_bootstrap_mappings
from hudisql.storage import Storage
from tests.hive.server import HiveServer, start_hive_server
from tests.oracle.client import SHORT_LIVED_JAVA, HudiOracle, start_oracle
from tests.oracle.line_process import LineProcess
from tests.sources import fingerprint
from tests.spark_versions import warning_filters
from tests.sql.changed_tables import ChangedTable, write_source
from tests.write.crashed_commits import start_committer

if TYPE_CHECKING:
    from hudisql.session import Session
    from tests.ingest.broker import KafkaBroker
    from tests.ingest.worker_processes import WorkerServer

GOLDEN = Path(__file__).parent / "golden"

# Examples are timed by the clock, which says nothing on a machine that runs other things too.
settings.register_profile("quick", deadline=None, max_examples=40)
settings.register_profile("soak", deadline=None, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


# About what a test takes in seconds, by the first of these marks that it has.
SECONDS_BY_MARK = {"slow": 10.0, "hive": 4.0, "oracle": 3.0, "spark": 1.0, "hms": 0.5}


def pytest_configure(config: pytest.Config) -> None:
    for each in warning_filters():
        config.addinivalue_line("filterwarnings", each)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers begin with the files that take longest, so that the last ones end at about the same time."""
    if not hasattr(config, "workerinput"):
        return
    seconds: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        marks = [SECONDS_BY_MARK[name] for name in SECONDS_BY_MARK if item.get_closest_marker(name)]
        seconds[item.path] += next(iter(marks), 0.05)
    items.sort(key=lambda item: -seconds[item.path])


@dataclass(frozen=True)
class GoldenTable:
    name: str
    table: str
    source: str
    schema: dict[str, Any]
    rows: list[dict[str, Any]]
    meta_rows: list[Any]
    read_optimized: list[Any]
    incremental: dict[str, list[Any]]


@cache
def _unpack_golden(name: str) -> GoldenTable:
    # Apache Hudi stored absolute paths below that place in the tables' index and properties, so that
    # all runs and workers share it: a table is unpacked beside it and appears there as a whole.
    described = json.loads((GOLDEN / f"{name}.json").read_text())
    directory = Path(described.get("base", f"/tmp/golden/{name}")).parent
    is_there = (directory / name).exists()
    if not (directory / name / "table").exists():
        if is_there:
            # Left by something else: a table appears as a whole.
            shutil.rmtree(directory / name, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=directory) as aside:
            with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
                archive.extractall(aside)
            try:
                (Path(aside) / name).rename(directory / name)
            except OSError:
                # Another worker was first, else the error stands.
                if not (directory / name / "table").exists():
                    raise
    for mapping in read_bootstrap_mappings(Storage(), str(directory / name / "table")):
        # An archive keeps no modification times, without which a source file counts as replaced.
        moment = mapping.external_file.modification_time_ms * 1_000_000
        os.utime(mapping.external_file.path, ns=(moment, moment))
    return GoldenTable(
        name,
        str(directory / name / "table"),
        str(directory / name / "source"),
        described["schema"],
        described["rows"],
        described["hoodie_meta_rows"],
        described.get("read_optimized", []),
        described.get("incremental", {}),
    )


@pytest.fixture(scope="session")
def golden() -> Callable[[str], GoldenTable]:
    return _unpack_golden


@pytest.fixture(scope="session")
def third_party(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Path of a table that other writers made, by the name of its directory (`v6_nonpartitioned`)."""
    directory = tmp_path_factory.mktemp("third-party")
    for archive_path in (GOLDEN / "third_party").glob("*.zip"):
        with zipfile.ZipFile(archive_path) as archive:
            archive.extractall(directory)
    return lambda name: str(directory / name)


@pytest.fixture(scope="session")
def storage() -> Storage:
    return Storage()


@pytest.fixture(scope="module")
def s3_storage() -> Iterator[Storage]:
    """The storage of an S3 server with one empty bucket."""
    from tests.storage.servers import s3_server

    with s3_server() as settings:
        yield Storage(settings)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse directory of the suite's metastore and of its Spark session."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def metastore_uri(warehouse: Path) -> Iterator[str]:
    """A real Hive Metastore 2.3.10 on Derby, started once per run, with a warehouse of its own."""
    from hudisql.catalog.embedded import acquire_embedded_metastore

    # Derby without fsync: several times faster, and a crash may cost what nobody keeps.
    with acquire_embedded_metastore(warehouse, java_options=["-Dderby.system.durability=test"]) as metastore:
        yield metastore.uri


@pytest.fixture(scope="module")
def committer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineProcess]:
    """The program that commits in children of its own, which are killed."""
    process = start_committer(tmp_path_factory.mktemp("committer"))
    yield process
    process.close()


@pytest.fixture(autouse=True, scope="module")
def _no_views_left_behind() -> Iterator[None]:
    """Drop the temporary views that a module's tests made: a name would hide another module's table."""
    yield
    pyspark = sys.modules.get("pyspark.sql")
    spark = pyspark.SparkSession.getActiveSession() if pyspark is not None else None
    if spark is not None:
        catalog = spark._jsparkSession.sessionState().catalog()
        views = catalog.listLocalTempViews("*")
        for name in [views.apply(number).table() for number in range(views.size())]:
            spark.catalog.dropTempView(name)


@pytest.fixture(scope="session")
def spark(warehouse: Path, metastore_uri: str) -> Iterator[Any]:
    """A Spark session whose catalog is the suite's metastore."""
    from pyspark.sql import SparkSession

    # Workers run the tests' own Python, whatever `python3` is on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("hudisql-tests")
        .config(map=dict(SHORT_LIVED_JAVA))
        .config("spark.ui.enabled", "false")
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.sql.catalogImplementation", "hive")
        .config("spark.hadoop.hive.metastore.uris", metastore_uri)
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def session(spark: Any) -> Iterator[Any]:
    """A hudisql session on the suite's Spark session and metastore."""
    from hudisql.console import SilentConsole
    from hudisql.session import open_session

    # Tests look at tables as plain Spark does, too: its SparkSession does not know the names.
    with open_session(spark=spark, console=SilentConsole()) as opened:
        yield opened


@pytest.fixture(scope="module")
def lake_database(session: Session) -> Iterator[None]:
    """The database `lake`, which goes after the module's tests with all that they left in it."""
    session.sql("CREATE DATABASE lake")
    yield
    session.spark.sql("DROP DATABASE lake CASCADE")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A Kafka broker, started once per run."""
    from tests.ingest.broker import kafka_broker

    with kafka_broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


@pytest.fixture(scope="session")
def worker_processes(tmp_path_factory: pytest.TempPathFactory, metastore_uri: str) -> Iterator[WorkerServer]:
    """Starts ingest workers as processes."""
    from tests.ingest.worker_processes import worker_server

    with worker_server(tmp_path_factory.mktemp("workers"), metastore_uri) as started:
        yield started


@pytest.fixture
def workers(worker_processes: WorkerServer) -> Iterator[WorkerServer]:
    """Starts ingest workers; those that still run at the end of the test are killed."""
    yield worker_processes
    worker_processes.kill_all()


@pytest.fixture(scope="session")
def oracle_015(tmp_path_factory: pytest.TempPathFactory, metastore_uri: str) -> Iterator[HudiOracle]:
    """Apache Hudi 0.15.0 on PySpark 3.5 and the suite's metastore, in a process of its own."""
    directory = tmp_path_factory.mktemp("oracle-015")
    oracle = start_oracle("0.15.0", directory, metastore_uri=metastore_uri, config=SHORT_LIVED_JAVA)
    yield oracle
    oracle.close()


@pytest.fixture(scope="session")
def oracle_120(tmp_path_factory: pytest.TempPathFactory, metastore_uri: str) -> Iterator[HudiOracle]:
    """Apache Hudi 1.2.0, writing table version 6, in a process of its own."""
    directory = tmp_path_factory.mktemp("oracle-120")
    oracle = start_oracle("1.2.0", directory, metastore_uri=metastore_uri, config=SHORT_LIVED_JAVA)
    yield oracle
    oracle.close()


@pytest.fixture(scope="session")
def hive_server(tmp_path_factory: pytest.TempPathFactory, metastore_uri: str) -> Iterator[HiveServer]:
    """A real HiveServer2 2.3.10 on the suite's metastore."""
    server = start_hive_server(tmp_path_factory.mktemp("hive"), metastore_uri)
    yield server
    server.close()


@pytest.fixture(scope="session")
def bootstrapped_original(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory with the source and the table that `table` copies."""
    directory = tmp_path_factory.mktemp("changes")
    source = write_source(directory / "source")
    session.sql("CREATE DATABASE changes")
    session.sql(
        f"CALL bootstrap_table(table => 'changes.original', source => '{source}', record_key => 'id', "
        f"precombine => 'seq', target_path => '{directory / 'table'}')"
    )
    session.sql(
        f"CALL bootstrap_table(table => 'changes.original_log', source => '{source}', record_key => 'id', "
        f"precombine => 'seq', table_type => 'mor', target_path => '{directory / 'merge-on-read'}', "
        "sync => false)"
    )
    yield directory
    session.sql("DROP TABLE IF EXISTS changes.original")
    session.sql("DROP DATABASE changes CASCADE")


@pytest.fixture
def table(session: Session, bootstrapped_original: Path, tmp_path: Path) -> Iterator[ChangedTable]:
    """A copy of the bootstrapped table; whatever is done with it, its source stays byte for byte."""
    yield from _copied(session, bootstrapped_original, tmp_path, "table", "t")


@pytest.fixture
def merge_on_read_table(
    session: Session, bootstrapped_original: Path, tmp_path: Path
) -> Iterator[ChangedTable]:
    """A copy of the same rows as a merge-on-read table."""
    yield from _copied(session, bootstrapped_original, tmp_path, "merge-on-read", "m")


def _copied(
    session: Session, directory: Path, tmp_path: Path, original: str, name: str
) -> Iterator[ChangedTable]:
    path = tmp_path / "table"
    shutil.copytree(directory / original, path)
    session.sql(f"CALL hive_sync(table => 'changes.{name}', path => '{path}')")
    before = fingerprint(directory / "source")
    yield ChangedTable(session, f"changes.{name}", str(path))
    assert fingerprint(directory / "source") == before
    session.sql(f"DROP TABLE IF EXISTS changes.{name}")
