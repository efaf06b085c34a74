"""Real Hive Metastores 3.1.3 and 4.0.1, as processes on a free port of 127.0.0.1."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hudisql.catalog.embedded import render_hive_site
from hudisql.java_runtime import find_java_home
from scripts.setup_metastores import install_metastore, metastore_schema_tool
from tests.catalog.metastores.postgres import PostgresDatabase, postgres_database
from tests.free_port import find_free_port
from tests.processes import wait_for_port

START_SECONDS = 180
HERE = Path(__file__).parent
# 3.1 has no setting for the address to listen on.
MAINS = {
    "3.1.3": (str(HERE / "LoopbackMetastore3.java"),),
    "4.0.1": ("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p"),
}


@dataclass(frozen=True)
class MetastoreLaunch:
    """What a metastore is started with beside the usual: its main class, options of Java, and settings.

    `core` is its core-site.xml, `database` an empty one in place of Derby.
    """

    main: Sequence[str]
    java_options: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    core: Mapping[str, str] = field(default_factory=dict)
    database: PostgresDatabase | None = None


@dataclass(frozen=True)
class OtherMetastore:
    """A running metastore: `warehouse` is for external tables, beside the one of managed tables."""

    version: str
    is_on_derby: bool
    uri: str
    warehouse: Path
    managed_warehouse: Path
    log: Path


@contextmanager
def other_metastore(
    version: str, directory: Path, launch: MetastoreLaunch | None = None
) -> Iterator[OtherMetastore]:
    """Run a metastore of `version`; `directory` takes its database, warehouses, configuration and log.

    Installs it if it is missing. Raises RuntimeError with the end of its log if it does not start.
    """
    installed = install_metastore(version)
    directory.mkdir(exist_ok=True)
    launch = launch or MetastoreLaunch(MAINS[version])
    class_path = [f"{installed.libraries}/*"]
    if launch.database is None:
        shutil.copytree(installed.derby, directory / "derby")
    else:
        class_path.append(str(launch.database.driver))
        metastore_schema_tool(version).make_schema("postgres", launch.database.settings, class_path)
    port = find_free_port()
    started = OtherMetastore(
        version,
        launch.database is None,
        f"thrift://127.0.0.1:{port}",
        directory / "external",
        directory / "managed",
        directory / "log",
    )
    database = launch.database.settings if launch.database else derby_settings(directory / "derby")
    settings = {**_settings(started), **database, **launch.settings}
    (directory / "metastore-site.xml").write_text(render_hive_site(settings))
    (directory / "core-site.xml").write_text(render_hive_site(launch.core))
    command = [
        *(str(Path(find_java_home()) / "bin" / "java"), "-Xmx512m", "-Xss8m", "-XX:TieredStopAtLevel=1"),
        *("-XX:+UseSerialGC", "-Dderby.system.durability=test"),
        *(f"-Dderby.stream.error.file={directory / 'derby.log'}", f"-Djava.io.tmpdir={directory}"),
        *("--add-opens=java.base/java.net=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED"),
        *launch.java_options,
        *("-cp", ":".join([str(directory), *class_path]), *launch.main, str(port)),
    ]
    with started.log.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory)
    try:
        wait_for_port(process, port, started.log, START_SECONDS)
        yield started
    finally:
        process.kill()
        process.wait()


@contextmanager
def metastore_on_postgres(version: str, directory: Path) -> Iterator[OtherMetastore]:
    """Run a metastore of `version` on an empty database of PostgreSQL; skips the test without one."""
    with postgres_database() as database:
        launch = MetastoreLaunch(MAINS[version], database=database)
        with other_metastore(version, directory, launch) as metastore:
            yield metastore


def derby_settings(directory: Path) -> Mapping[str, str]:
    """The settings by which a metastore opens a database of Derby."""
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={directory}",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        # Derby's refusal to compare a property would be tried ten times, two seconds apart.
        "metastore.hmshandler.retry.attempts": "1",
    }


def _settings(metastore: OtherMetastore) -> Mapping[str, str]:
    return {
        "metastore.thrift.uris": metastore.uri,
        "metastore.thrift.bind.host": "127.0.0.1",
        "metastore.warehouse.dir": metastore.managed_warehouse.as_uri(),
        "metastore.warehouse.external.dir": metastore.warehouse.as_uri(),
        # The defaults of both need Hive's own classes (hive-exec).
        "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
    }
