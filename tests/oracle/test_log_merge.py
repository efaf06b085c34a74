"""Merge-on-read tables of Apache Hudi 0.15 with late rows and deletes: hudisql reads the same rows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.table.files.snapshot import load_file_slices
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows, our_rows
from tests.soak import parameters

pytestmark = pytest.mark.oracle

OPTIONS = {
    "hoodie.table.name": "merged",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ord",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.compact.inline": "false",
}
PAYLOADS = ("OverwriteWithLatestAvroPayload", "DefaultHoodieRecordPayload")
ORDERINGS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int": (pa.int32(), lambda n: n),
    "long": (pa.int64(), lambda n: n * 5_000_000_000),
    "string": (pa.string(), lambda n: f"v{n:03d}"),
    "double": (pa.float64(), lambda n: n / 4),
    # NaN is the highest value, -0.0 is lower than 0.0.
    "odd double": (pa.float64(), {8: -0.0, 9: 0.0, 10: 1.5, 11: math.inf, 12: math.nan}.__getitem__),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        lambda n: datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=n),
    ),
    "date": (pa.date32(), lambda n: date(2020, 1, 1) + timedelta(days=n)),
    "decimal": (pa.decimal128(12, 2), lambda n: Decimal(n) / 4),
}


def _batch(ordering: str, rows: list[tuple[int, int, str, bool]]) -> pa.Table:
    kind, make = ORDERINGS[ordering]
    return pa.table(
        {
            "id": pa.array([f"k{number:03d}" for number, *_ in rows]),
            "ord": pa.array([make(value) for _, value, *_ in rows], kind),
            "v": pa.array([text for *_, text, _ in rows]),
            "_hoodie_is_deleted": pa.array([deleted for *_, deleted in rows]),
        }
    )


def _write_late_rows_and_deletes(oracle: HudiOracle, path: str, ordering: str, payload: str) -> None:
    options = {
        **OPTIONS,
        "hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{payload}",
    }
    chosen = random.Random(7)
    keys = range(40)
    oracle.upsert(_batch(ordering, [(key, 10, "base", False) for key in keys]), path, options)
    for commit in range(3):
        rows = [
            (key, chosen.randint(8, 12), f"log {commit}", chosen.random() < 0.3)
            for key in keys
            if chosen.random() < 0.6
        ]
        oracle.upsert(_batch(ordering, rows), path, options)
    (found,) = load_file_slices(open_at(path))
    assert len(found.log_files) >= 3


@pytest.mark.parametrize(
    ("ordering", "payload"),
    parameters(
        [
            *((ordering, PAYLOADS[0]) for ordering in ORDERINGS),
            *((ordering, PAYLOADS[1]) for ordering in ("int", "string", "odd double")),
        ],
        in_ci=[
            *((ordering, PAYLOADS[0]) for ordering in ("timestamp",)),
            *((ordering, PAYLOADS[1]) for ordering in ("odd double",)),
        ],
    ),
)
def test_late_rows_and_deletes_are_merged_as_hudi_015_merges_them(
    oracle_015: HudiOracle, tmp_path: Path, ordering: str, payload: str
) -> None:
    path = str(tmp_path / "table")
    _write_late_rows_and_deletes(oracle_015, path, ordering, payload)
    theirs, ours = oracle_015.read(path), our_rows(open_at(path))
    assert_same_rows(theirs.select(ours.column_names), ours, sort_by=["_hoodie_record_key"])
    assert 5 < ours.num_rows < 40


@pytest.mark.parametrize(
    ("ordering", "payload"),
    parameters(
        [("int", PAYLOADS[0]), ("int", PAYLOADS[1]), ("string", PAYLOADS[1])],
        in_ci=[("string", PAYLOADS[1])],
    ),
)
def test_late_rows_and_deletes_of_hudi_120_are_merged_as_it_merges_them(
    oracle_120: HudiOracle, tmp_path: Path, ordering: str, payload: str
) -> None:
    path = str(tmp_path / "table")
    _write_late_rows_and_deletes(oracle_120, path, ordering, payload)
    theirs, ours = oracle_120.read(path), our_rows(open_at(path))
    assert_same_rows(theirs.select(ours.column_names), ours, sort_by=["_hoodie_record_key"])


def test_hudi_015_takes_nan_for_the_highest_ordering_value_of_one_write(
    oracle_015: HudiOracle, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    rows = [(1, 12, "nan"), (1, 11, "infinite"), (2, 11, "infinite"), (2, 12, "nan")]
    rows += [(3, 8, "minus"), (3, 9, "zero"), (4, 9, "zero"), (4, 8, "minus")]
    oracle_015.upsert(_batch("odd double", [(*row, False) for row in rows]), path, OPTIONS)
    found = oracle_015.read(path).sort_by("id")["v"].to_pylist()
    # As `test_session_settings` has it for the statements of hudisql.
    assert found == ["nan", "nan", "zero", "zero"]


def _assert_read_alike(oracle: HudiOracle, path: str, rows: int) -> None:
    theirs, ours = oracle.read(path), our_rows(open_at(path))
    assert_same_rows(theirs.select(ours.column_names), ours, sort_by=["_hoodie_record_key"])
    assert ours.num_rows == rows


def test_blocks_of_several_schemas_are_read_as_the_newest(oracle_015: HudiOracle, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    options = {
        **OPTIONS,
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.datasource.write.reconcile.schema": "false",
    }
    first = _batch("int", [(key, 10, "first", False) for key in range(20)])
    oracle_015.upsert(first, path, options)
    second = _batch("int", [(key, 11, "second", key == 12) for key in range(10, 30)])
    second = second.append_column("extra", pa.array([{"a": key, "b": [f"x{key}"]} for key in range(20)]))
    oracle_015.upsert(second, path, options)
    slices = load_file_slices(open_at(path))
    assert [each.has_log_files for each in slices] == [True, True]
    _assert_read_alike(oracle_015, path, 29)
    wider = second.set_column(1, "ord", second["ord"].cast(pa.int64()))
    oracle_015.upsert(wider.slice(5, 3), path, options)
    _assert_read_alike(oracle_015, path, 29)


def test_logs_around_a_compaction_that_is_scheduled_and_then_run(
    oracle_015: HudiOracle, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    parquet = {"hoodie.logfile.data.block.format": "parquet"}
    oracle_015.upsert(_batch("long", [(key, 10, "base", False) for key in range(40)]), path, OPTIONS)
    oracle_015.upsert(_batch("long", [(key, 11, "one", key == 5) for key in range(20)]), path, OPTIONS)
    compact = "CALL run_compaction(op => '{}', path => '{}', options => '{}')"
    settings = "hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1"
    oracle_015.sql(compact.format("schedule", path, settings))
    oracle_015.upsert(
        _batch("long", [(key, 12, "two", key == 15) for key in range(10, 30)]), path, {**OPTIONS, **parquet}
    )
    (found,) = load_file_slices(open_at(path))
    assert len({each.base_instant_time for each in found.log_files}) == 2
    _assert_read_alike(oracle_015, path, 38)
    oracle_015.sql(compact.format("run", path, settings))
    (found,) = load_file_slices(open_at(path))
    assert len({each.base_instant_time for each in found.log_files}) == 1
    _assert_read_alike(oracle_015, path, 38)
    oracle_015.write(
        _batch("long", [(key, 0, "", False) for key in range(30, 35)]),
        path,
        {**OPTIONS, "hoodie.datasource.write.operation": "delete"},
    )
    _assert_read_alike(oracle_015, path, 33)
