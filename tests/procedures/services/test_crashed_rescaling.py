"""Changes of the numbers of buckets crashed at their steps: rows and numbers are from before or after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.timeline.timeline_layout import bucket_rules_directory
from hudisql.session import Session
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.write.index.partition_buckets import stored_bucket_rules
from tests.fault_injection import run_with_fault, wait_for_late_tasks
from tests.sql.changed_tables import ChangedTable
from tests.sql.dml.test_bucket_index import check_buckets

pytestmark = [pytest.mark.spark, pytest.mark.hms]

MORE_STEPS_THAN_A_CALL_HAS = 60
BEFORE, AFTER = {"dt=d0": 2, "dt=d1": 3}, {"dt=d0": 5, "dt=d1": 3}
CALL = "CALL partition_bucket_index_manager(table => '{}', overwrite => 'd0,5', dry_run => false)"


@pytest.fixture(params=["cow", "mor"])
def numbered(request: pytest.FixtureRequest, session: Session, tmp_path: Path) -> Iterator[ChangedTable]:
    """Two partitions of 20 rows, some of them in log files; of `dt=d0` with two buckets, else three."""
    path = tmp_path / "table"
    session.sql("CREATE DATABASE IF NOT EXISTS rescaled")
    session.sql(
        "CREATE TABLE rescaled.n (id STRING, seq BIGINT, note STRING, dt STRING) USING hudi "
        f"PARTITIONED BY (dt) LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', type = '{request.param}', "
        "preCombineField = 'seq', "
        "hoodie.index.type = 'BUCKET', hoodie.bucket.index.num.buckets = '3', "
        "hoodie.bucket.index.partition.expressions = 'd0,2')"
    )
    table = ChangedTable(session, "rescaled.n", str(path))
    table.run(
        "INSERT INTO {t} SELECT concat('k', id), id, 'a', concat('d', id % 2) FROM range(40)",
    )
    yield table
    session.sql("DROP TABLE IF EXISTS rescaled.n")
    session.sql("DROP DATABASE rescaled")


@pytest.mark.soak
@pytest.mark.parametrize("first", [0, 1])
def test_a_crashed_rescaling_is_seen_atomically(
    numbered: ChangedTable, spark: Any, metastore_uri: str, first: int
) -> None:
    """Of the steps of a call every second one, from `first` on."""
    files = 1
    for step in range(first, MORE_STEPS_THAN_A_CALL_HAS, 2):
        numbered.run(f"UPDATE {{t}} SET note = 'step {step}' WHERE seq % 10 < 5")
        rows = numbered.rows("id, seq, note, dt")
        ended = run_with_fault(
            spark,
            metastore_uri,
            statement=CALL.format(numbered.name),
            target=numbered.path,
            process="driver",
            step=step,
        )
        assert numbered.rows("id, seq, note, dt") == rows
        is_done = _rules(numbered) == "d0,5"
        assert is_done or _rules(numbered) == "d0,2"
        check_buckets(numbered, AFTER if is_done else BEFORE)
        wait_for_late_tasks(spark)
        # The next writer goes by the numbers that count, and rolls a crashed commit back.
        numbered.run("UPDATE {t} SET note = concat(note, '!') WHERE seq < 20")
        numbered.run("INSERT INTO {t} VALUES ('k4', 4, 'upserted', 'd0')")
        check_buckets(numbered, AFTER if is_done else BEFORE)
        assert len(numbered.rows("id")) == len(rows) == 40
        assert numbered.orphans() == []
        assert open_table(Storage(), numbered.path).timeline.pending == ()
        assert len(_files(numbered)) == files + is_done
        if ended.returncode == 0:
            assert is_done
            return
        if is_done:
            numbered.session.sql(CALL.format(numbered.name).replace("d0,5", "d0,2"))
        files = len(_files(numbered))
    raise AssertionError("the call has more steps")


def _files(table: ChangedTable) -> list[Path]:
    return [file for file in Path(bucket_rules_directory(table.path)).iterdir() if file.suffix != ".crc"]


def _rules(table: ChangedTable) -> str:
    rules = stored_bucket_rules(open_table(Storage(), table.path))
    assert rules is not None
    return rules.expressions
