"""Statements killed at every step on a table that writers share: Hudi sees what we see, and clears up.

It is Hudi 0.15 for tables of version 6, and 1.2 for those of version 9. After each crash the next writer is
hudisql or Apache Hudi, in turns, on the same table.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import TableLockedError
from hudisql.format.paths.file_names import parse_base_file_name
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.transaction.concurrency import FILE_SYSTEM_PROVIDER
from tests.fault_injection import run_with_fault, wait_for_late_tasks
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import Shape, bootstrap_shape
from tests.oracle.sources import sample_rows

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.hms]

STORAGE = Storage()
SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": FILE_SYSTEM_PROVIDER,
    "hoodie.write.lock.filesystem.expire": "1",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
    "hoodie.write.lock.client.num_retries": "1",
}
SILENT_SECONDS = 600
COLUMNS = ", ".join(
    {"total": "total + 1"}.get(name, name) for name in (*sample_rows(0, 1).column_names, "dt")
)
STATEMENTS = {
    "update": "UPDATE {t} SET total = total + 1 WHERE seq % 10 < 5",
    "merge": "MERGE INTO {t} t USING (SELECT * FROM {t} WHERE seq < 20) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET total = t.total + 1",
    "upsert": f"INSERT INTO {{t}} SELECT {COLUMNS} FROM {{t}} WHERE seq < 20",
    "overwrite": f"INSERT OVERWRITE {{t}} SELECT {COLUMNS} FROM {{t}}",
}
STEPS = [
    *(("driver", first, first + 4) for first in range(0, 32, 4)),
    ("driver", 32, None),
    ("worker", 0, 2),
    ("worker", 2, None),
]
"""Parts that take minutes each: the steps of a process from one on up to another, or as many as it has."""
LEAST_STEPS = {"driver": 12, "worker": 2}
"""Each statement has as many; of later parts there may be nothing to crash."""
DAYS = {"dt": lambda number: f"2024-03-0{number % 3 + 1}"}
SHAPES = (
    Shape("crashed", rows=30, files=1, partition_columns=DAYS),
    Shape("crashed_log", rows=30, files=1, partition_columns=DAYS, table_type="MERGE_ON_READ"),
)


@dataclass
class SharedTable:
    """A table that hudisql and Apache Hudi change in turns; every `insert` adds one row."""

    session: Any
    oracle: HudiOracle
    shape: Shape
    name: str
    path: str
    next_seq: int = 1000

    @property
    def table(self) -> HudiTable:
        return open_table(STORAGE, self.path)

    def hidden(self, pattern: str) -> list[Path]:
        return [each for each in Path(self.path, ".hoodie").glob(pattern) if each.suffix != ".crc"]

    def commits(self) -> int:
        return len(self.table.timeline.commits)

    def rows(self) -> pa.Table:
        """The rows, which both readers see alike."""
        theirs = self.oracle.read(self.path)
        ours = self.session.sql(f"SELECT * FROM {self.name}").arrow()
        assert_same_rows(ours.select(theirs.column_names), theirs, sort_by=["seq"])
        return theirs.sort_by("seq")

    def insert(self, *, by_hudi: bool) -> None:
        self.next_seq += 1
        rows = self.shape.with_partition_columns(sample_rows(self.next_seq, self.next_seq + 1))
        if by_hudi:
            options = self.shape.write_options() | {"hoodie.table.name": self.name.partition(".")[2]}
            options["hoodie.write.table.version"] = str(self.table.version)
            self.oracle.upsert(rows, self.path, options | SHARED)
        else:
            self.session.write(self.session.spark.createDataFrame(rows), self.name, "upsert")

    def make_old(self) -> None:
        """As if the dead writer had been silent for ten minutes."""
        for pattern in ("lock", ".heartbeat/*", "*.rollback.*", "timeline/*.rollback.*"):
            for path in self.hidden(pattern):
                os.utime(path, (time.time() - SILENT_SECONDS, time.time() - SILENT_SECONDS))

    def files_of_no_commit(self) -> list[Path]:
        completed = {each.timestamp for each in self.table.timeline.completed}
        parquet = [(path, parse_base_file_name(path.name)) for path in Path(self.path).glob("*/*.parquet")]
        return [path for path, found in parquet if found is None or found.instant_time not in completed]


@pytest.fixture
def shared(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, version: int
) -> Iterator[SharedTable]:
    shape: Shape = request.param
    oracle: HudiOracle = request.getfixturevalue("oracle_015" if version == 6 else "oracle_120")
    name = f"oracle.{shape.name}_{version}"
    path = bootstrap_shape(session, shape, tmp_path, table=name, table_version=str(version)).path
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in SHARED.items())
    session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({listed})")
    yield SharedTable(session, oracle, shape, name, path)
    for suffix in ("", "_ro", "_rt"):
        session.sql(f"DROP TABLE IF EXISTS {name}{suffix}")


Crash = Callable[[SharedTable, str, str, int], bool]


@pytest.fixture
def crash(spark: Any, metastore_uri: str) -> Crash:
    """`crash(table, statement, process, step)`, then what must hold; False if nothing crashed."""

    def run(shared: SharedTable, statement: str, process: str, step: int) -> bool:
        before, commits = shared.rows(), shared.commits()
        ended = run_with_fault(
            spark,
            metastore_uri,
            statement=STATEMENTS[statement].replace("{t}", shared.name),
            target=shared.path,
            process=process,
            step=step,
        )
        seen = shared.rows()
        assert seen.equals(before) is (shared.commits() == commits)
        if ended.returncode == 1:
            # Its driver is alive and has rolled everything back.
            assert re.search("exited unexpectedly|crashed", ended.stderr), ended.stderr
            assert shared.table.timeline.pending == ()
            assert shared.hidden("lock") == []
        if shared.hidden("lock"):
            with pytest.raises(TableLockedError, match=r"by hudisql .* process .*expires after 1 minutes"):
                shared.insert(by_hudi=False)
        shared.make_old()
        wait_for_late_tasks(spark)
        for by_hudi in (step % 2 == 1, False):
            shared.insert(by_hudi=by_hudi)
            assert shared.table.timeline.pending == ()
            assert shared.files_of_no_commit() == []
            assert shared.hidden("lock") == []
        assert shared.hidden(".heartbeat/*") == []
        assert shared.hidden(".temp/*") == []
        assert shared.rows().num_rows == seen.num_rows + 2
        return ended.returncode != 0

    return run


@pytest.mark.parametrize("shared", SHAPES, indirect=True, ids=lambda shape: shape.name)
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize(("process", "first", "end"), STEPS)
def test_a_statement_crashed_at_any_step_is_seen_atomically_by_both_who_clear_up_after_it(
    crash: Crash, shared: SharedTable, statement: str, process: str, first: int, end: int | None
) -> None:
    step = first
    while step != end and crash(shared, statement, process, step):
        step += 1
    assert step == end or first >= LEAST_STEPS[process]
