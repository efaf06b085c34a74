"""Drives a real Apache Hudi in its own process and virtual environment: reads, SQL, upserts, bootstraps.

Each Hudi version is one process for a whole test run, because a start costs half a minute. What it reads
comes back as Arrow tables; what it writes is handed over as parquet. `server.py` is the other end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.java_runtime import ensure_java_home
from scripts.setup_oracles import (
    install_delta_jars,
    install_delta_python,
    install_hudi_bundle,
    install_oracle_python,
)
from tests.oracle.line_process import ChildError, LineProcess, start_line_process

OracleError = ChildError
SERVER = Path(__file__).parent / "server.py"
START_SECONDS = 240
ANSWER_SECONDS = 900
# Hudi 1.2 takes column statistics and its own table version unless told; both would lock 0.15 out.
WRITE_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "0.15.0": {"hoodie.metadata.enable": "false"},
    "1.2.0": {"hoodie.metadata.enable": "false", "hoodie.write.table.version": "6"},
}
# With these reads ask the metadata table and its indexes, and without.
BY_METADATA: Mapping[str, str] = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
BY_LISTING: Mapping[str, str] = dict.fromkeys(BY_METADATA, "false")
# For tests only: a JVM that lives for minutes takes a quarter less CPU without the second compiler and G1,
# and with room for its classes and young objects from the start. The 48 MB that it reserves for code are full
# after ten minutes, and Java then removes code all the time. Hudi's bloom index by metadata tables sends
# locks to tasks, which Spark's own options do not open.
SHORT_LIVED_JAVA: Mapping[str, str] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-Xmn256m -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=240m "
    "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED"
}
# What Hudi's own quick start asks for.
HUDI_SETTINGS: Mapping[str, str] = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}
DELTA_SETTINGS: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@dataclass
class HudiOracle:
    """A running Apache Hudi; make one with `start_oracle`."""

    version: str
    child: LineProcess
    numbers: Any = field(default_factory=count)

    def sql(self, text: str) -> pa.Table:
        """Run one SQL statement (CALL too) and return its rows."""
        output = self._new_file("arrow")
        self.request("sql", text=text, output=str(output))
        return _read_arrow(output)

    @contextmanager
    def settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        """The session has these settings meanwhile; afterwards its statements make no metadata tables."""
        for key, value in settings.items():
            self.sql(f"SET {key}={value}")
        try:
            yield
        finally:
            for key in settings:
                self.sql(f"RESET {key}")
            self.sql("SET hoodie.metadata.enable=false")

    def read(
        self,
        path: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        options: Mapping[str, str] | None = None,
        format: str = "hudi",
    ) -> pa.Table:
        """Read the Hudi table at `path`, meta columns included, rows in no promised order."""
        output = self._new_file("arrow")
        self.request(
            "read",
            path=path,
            output=str(output),
            options=dict(options or {}),
            columns=list(columns) if columns is not None else None,
            where=where,
            format=format,
        )
        return _read_arrow(output)

    def stream(self, path: str, checkpoint: Path, *, options: Mapping[str, str] | None = None) -> pa.Table:
        """The rows that a stream with this checkpoint reads now; the table must have some for it."""
        output = self._new_file("arrow")
        rows = self._new_file("stream")
        given = {"rows": str(rows), "checkpoint": str(checkpoint), "options": dict(options or {})}
        self.request("stream", path=path, output=str(output), **given)
        return _read_arrow(output)

    def upsert(self, rows: pa.Table, path: str, options: Mapping[str, str]) -> None:
        """Upsert `rows` (the table's data and partition columns) into the Hudi table at `path`."""
        self.write(rows, path, {"hoodie.datasource.write.operation": "upsert", **options})

    def write(
        self,
        rows: pa.Table,
        path: str,
        options: Mapping[str, str],
        *,
        mode: str = "append",
        format: str = "hudi",
    ) -> None:
        """Write `rows` with the oracle Spark's DataFrame writer."""
        source = self._new_file("parquet")
        pq.write_table(rows, source, coerce_timestamps="us")
        self.request("save", path=path, options=dict(options), mode=mode, input=str(source), format=format)
        source.unlink()

    def view(
        self, name: str, path: str, *, options: Mapping[str, str] | None = None, format: str = "hudi"
    ) -> None:
        """Name the table at `path` for later `sql`; `REFRESH`ed by calling this again."""
        self.request("view", name=name, path=path, options=dict(options or {}), format=format)

    def bootstrap(self, source: str, path: str, options: Mapping[str, str]) -> None:
        """Bootstrap the parquet below `source` into a new Hudi table at `path`, metadata only by default."""
        chosen = {
            "hoodie.datasource.write.operation": "bootstrap",
            "hoodie.bootstrap.base.path": source,
            "hoodie.datasource.write.hive_style_partitioning": "true",
            **options,
        }
        self.request("save", path=path, options=chosen, mode="overwrite")

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send one command and wait for its answer. Raises OracleError with Hudi's message."""
        return self.child.request({"command": command, **arguments}, seconds=ANSWER_SECONDS)

    def close(self) -> None:
        """End the process."""
        self.child.close()

    def _new_file(self, extension: str) -> Path:
        return self.child.directory / f"{next(self.numbers)}.{extension}"


def start_oracle(
    version: str,
    directory: Path,
    *,
    metastore_uri: str | None = None,
    memory: str = "1500m",
    cores: int = 2,
    config: Mapping[str, str] | None = None,
) -> HudiOracle:
    """Start Apache Hudi `version`; `directory` takes its log and exchange files, `metastore_uri` its catalog.

    Installs what is missing. Raises OracleError if it does not come up.
    """
    settings = {
        **HUDI_SETTINGS,
        "spark.jars": str(install_hudi_bundle(version)),
        **_common_settings(directory, memory, cores),
        **(
            {
                "spark.sql.catalogImplementation": "hive",
                "spark.hadoop.hive.metastore.uris": metastore_uri,
            }
            if metastore_uri
            else {}
        ),
        **(config or {}),
    }
    child = _start_server(
        f"Hudi {version}", install_oracle_python(), directory, settings, WRITE_DEFAULTS[version]
    )
    return HudiOracle(version, child)


def start_delta(
    directory: Path, *, memory: str = "1g", cores: int = 2, config: Mapping[str, str] | None = None
) -> HudiOracle:
    """Start Delta Lake on the Spark that it is made for, where only `sql` is of use; install it if absent.

    Raises OracleError if it does not come up.
    """
    settings = {
        **DELTA_SETTINGS,
        "spark.jars": ",".join(map(str, install_delta_jars())),
        **_common_settings(directory, memory, cores),
        **(config or {}),
    }
    return HudiOracle("delta", _start_server("Delta", install_delta_python(), directory, settings, {}))


def _common_settings(directory: Path, memory: str, cores: int) -> dict[str, str]:
    return {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.default.parallelism": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }


def _start_server(
    name: str, python: Path, directory: Path, config: Mapping[str, str], hoodie: Mapping[str, str]
) -> LineProcess:
    ensure_java_home()
    # The oracle's Spark is not the project's: no variable of ours may lead it astray.
    foreign = ("SPARK_", "PYSPARK_", "PYTHON", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    child = start_line_process(
        name,
        [str(python), "-u", str(SERVER)],
        directory,
        {**environment, "TZ": "UTC", "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    child.request({"config": dict(config), "hoodie": dict(hoodie)}, seconds=START_SECONDS)
    return child


def _read_arrow(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    path.unlink()
    return table
