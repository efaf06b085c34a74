"""What `hudisql services run` costs while nothing is due: CPU seconds of the process and of its metastore.

`python -m benchmarks.idle_services [tables] [seconds]` registers so many small Hudi tables (200 by default),
whose timelines hold nine commits, in a metastore of its own, runs the command as a process with its default
interval of 60 seconds, and reads its CPU time from /proc once it has looked at every table. What a process
without tables costs is measured beside it; for 1,000 tables the difference is multiplied. Prints the figures.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.process_tree import started_clock
from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.embedded import acquire_embedded_metastore
from hudisql.catalog.metastore_table import (
    HUDI_INPUT_FORMAT,
    PARQUET_OUTPUT_FORMAT,
    PARQUET_SERDE,
    PROVIDER_PROPERTY,
    MetastoreColumn,
    MetastoreTable,
)
from hudisql.format.table_properties import render_table_properties
from hudisql.format.timeline.commit_metadata import CommitMetadata

COMMITS: Final = 9
COLUMNS: Final = 20
SCHEMA: Final = (
    '{"type":"record","name":"t","fields":[{"name":"id","type":["null","string"],"default":null}]}'
)
STARTED: Final = "maintaining"


@dataclass(frozen=True)
class Idle:
    """CPU seconds of the start (with the first look at each table), and of so many seconds afterwards."""

    tables: int
    start_cpu: float
    idle_cpu: float
    metastore_cpu: float
    seconds: float

    @property
    def share(self) -> float:
        """Of one core, while nothing is due."""
        return self.idle_cpu / self.seconds


def main() -> None:
    """Measure without tables and with them, and print both."""
    tables = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 300.0
    with tempfile.TemporaryDirectory() as directory, acquire_embedded_metastore(directory) as metastore:
        client = MetastoreClient(metastore.uri)
        metastore_pid = _listener(metastore.uri)
        client.create_database("empty")
        client.create_database("idle")
        for number in range(tables):
            client.create_table(_make_table(Path(directory), f"t{number:04d}"))
        found = [
            _measure(metastore.uri, metastore_pid, name, count, seconds)
            for name, count in (("empty", 0), ("idle", tables))
        ]
    for each in found:
        print(
            f"{each.tables:,} tables: start and first look {each.start_cpu:.1f} s of CPU, then "
            f"{each.idle_cpu:.2f} s in {each.seconds:.0f} s ({each.share:.2%} of a core), "
            f"metastore {each.metastore_cpu:.2f} s"
        )
    none, some = found
    extrapolated = none.share + (some.share - none.share) * 1000 / tables
    print(f"1,000 tables, extrapolated: {extrapolated:.2%} of a core")


def _make_table(directory: Path, name: str) -> MetastoreTable:
    path = directory / "idle.db" / name
    hoodie = path / ".hoodie"
    hoodie.mkdir(parents=True)
    values = {"hoodie.table.name": name, "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "6"}
    (hoodie / "hoodie.properties").write_bytes(render_table_properties(values, datetime.now(UTC)))
    commit = CommitMetadata(partition_to_write_stats={}, extra_metadata={"schema": SCHEMA}).to_json()
    for number in range(COMMITS):
        instant = f"202403010000{number:02d}000"
        for ending, content in ((".commit.requested", b""), (".inflight", b""), (".commit", commit)):
            (hoodie / f"{instant}{ending}").write_bytes(content)
    return MetastoreTable(
        database="idle",
        name=name,
        table_type="EXTERNAL_TABLE",
        location=f"file:{path}",
        columns=tuple(MetastoreColumn(f"c{number}", "string") for number in range(COLUMNS)),
        input_format=HUDI_INPUT_FORMAT,
        output_format=PARQUET_OUTPUT_FORMAT,
        serde=PARQUET_SERDE,
        parameters={PROVIDER_PROPERTY: "hudi", "EXTERNAL": "TRUE"},
    )


def _measure(uri: str, metastore_pid: int, database: str, tables: int, seconds: float) -> Idle:
    command = [sys.executable, "-m", "hudisql", "--metastore", uri, "services", "run", "--database", database]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        if not line.startswith(STARTED):
            raise RuntimeError(line + process.stderr.read())
        clock, server = started_clock(process.pid), started_clock(metastore_pid)
        # The first look opens each table.
        before = -1.0
        while (now := clock.seconds()) - before > 0.02:
            before = now
            time.sleep(3)
        served = server.seconds()
        time.sleep(seconds)
        after, served_after = clock.seconds(), server.seconds()
        clock.stop()
        server.stop()
        process.terminate()
        process.wait()
    return Idle(tables, now, after - now, served_after - served, seconds)


def _listener(uri: str) -> int:
    """The process that listens on the port of the URI, by /proc (Linux)."""
    port = f"{int(uri.rpartition(':')[2]):04X}"
    sockets = {
        f"socket:[{fields[9]}]"
        for table in ("tcp", "tcp6")
        for fields in (line.split() for line in Path("/proc/net", table).read_text().splitlines()[1:])
        if fields[1].endswith(f":{port}") and fields[3] == "0A"
    }
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if any(str(each.readlink()) in sockets for each in (process / "fd").iterdir()):
                    return int(process.name)
            except OSError:
                continue
    raise ProcessLookupError(f"no process listens on {uri}")


if __name__ == "__main__":
    main()
