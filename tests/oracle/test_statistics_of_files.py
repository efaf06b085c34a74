"""Statistics of files of all writers: their bounds hold, and queries of hudisql lose no row by them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.metadata_table.metadata_records import COLUMN_STATS
from hudisql.read.scan import data_skipping
from hudisql.table.metadata_table.kept_metadata_table import (
    find_kept,
    has_trusted_statistics,
)
from hudisql.table.metadata_table.metadata_table import readable_metadata_table
from hudisql.write.metadata_table import metadata_compaction
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.wild_rows import FILTERS, LONG_TEXT, wild_rows
from tests.soak import parameters
from tests.sql.changed_tables import setting
from tests.write.metadata_table.kept_indexes import assert_bounds_hold

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "seq",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.compact.inline": "false",
}
BY_DELETE = {"hoodie.datasource.write.operation": "delete"}
SMALL_LOGS = {"hoodie.logfile.data.block.max.size": "2000", "hoodie.logfile.max.size": "4000"}
COMPACTED = {"hoodie.metadata.compact.max.delta.commits": "1"}
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "small_blocks": {"hoodie.logfile.data.block.max.size": "2000", "hoodie.parquet.block.size": "2048"},
    "small_logs": SMALL_LOGS,
    "parquet_logs": {"hoodie.logfile.data.block.format": "parquet"},
}
WRITERS = (("0.15", 6), ("1.2", 6), ("1.2", 8), ("1.2", 9))


def _check_bounds(path: str) -> None:
    metadata = readable_metadata_table(open_at(path))
    assert metadata is not None
    assert COLUMN_STATS in metadata.indexes
    assert_bounds_hold(metadata, has_odd_values=True)


@pytest.mark.parametrize(
    ("writer", "version", "variant"),
    parameters(
        [(*writer, variant) for writer in WRITERS for variant in VARIANTS], in_ci=[("1.2", 9, "plain")]
    ),
)
def test_bounds_of_files_of_hudi_hold(
    oracle_015: HudiOracle, oracle_120: HudiOracle, writer: str, version: int, variant: str, tmp_path: Path
) -> None:
    hudi = oracle_015 if writer == "0.15" else oracle_120
    random, path = Random(f"{writer}{version}{variant}"), str(tmp_path / "t")
    options = {**OPTIONS, **VARIANTS[variant], "hoodie.write.table.version": str(version)}
    options["hoodie.datasource.write.table.type"] = "MERGE_ON_READ"
    for numbers in (range(200), range(200, 230), range(50, 150), range(90, 110)):
        hudi.upsert(wild_rows(random, numbers), path, options)
    _check_bounds(path)
    hudi.write(wild_rows(random, range(30, 40)), path, {**options, **BY_DELETE})
    _check_bounds(path)


@pytest.mark.soak
@pytest.mark.parametrize(("writer", "version"), WRITERS)
def test_bounds_of_files_with_several_row_groups_hold(
    oracle_015: HudiOracle, oracle_120: HudiOracle, writer: str, version: int, tmp_path: Path
) -> None:
    """Of row groups without bounds Hudi takes none, or 0.0, into the bounds of the file."""
    hudi = oracle_015 if writer == "0.15" else oracle_120
    rows = pa.table(
        {
            "id": [f"k{number:05}" for number in range(1000)],
            "seq": pa.array(range(1000), pa.int32()),
            "note": ["m" if number < 500 else ("a" if number % 2 else LONG_TEXT) for number in range(1000)],
            "raw": [b"m" if number < 500 else LONG_TEXT.encode() for number in range(1000)],
            "fare": [5.0 if number < 500 else (-5.0 if number % 7 else math.nan) for number in range(1000)],
            "total": pa.array([5 if number < 500 else None for number in range(1000)], pa.int64()),
            "dt": ["p0"] * 1000,
        }
    )
    options = {
        **OPTIONS,
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.bulkinsert.shuffle.parallelism": "1",
        "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT",
        "hoodie.parquet.block.size": "10000",
        "hoodie.parquet.page.size": "1000",
        "hoodie.parquet.dictionary.enabled": "false",
    }
    hudi.write(rows, str(tmp_path / "t"), options)
    _check_bounds(str(tmp_path / "t"))


OURS = (
    "UPDATE {t} SET note = 'ours', total = -777, fare = double('NaN') WHERE seq IN (3, 14, 77)",
    "DELETE FROM {t} WHERE seq IN (20, 21)",
    "UPDATE {t} SET note = NULL, price = -seq, raw = X'FF' WHERE seq % 40 = 5",
    "MERGE INTO {t} t USING (SELECT id, seq FROM {t} WHERE seq IN (30, 31, 90)) s ON t.id = s.id "
    "WHEN MATCHED AND s.seq = 30 THEN DELETE WHEN MATCHED THEN UPDATE SET fare = -3.5",
    "INSERT INTO {t} SELECT concat('n', id), seq + 1000, total, fare, small, price, is_even, day_of, at, "
    "note, raw, lonely, {extra}dt FROM {t} WHERE seq < 12",
)
SERVICES = {
    "MERGE_ON_READ": "CALL run_compaction(op => 'scheduleandexecute', table => '{t}')",
    "COPY_ON_WRITE": "CALL run_clustering(table => '{t}')",
}
CLEAN = "CALL run_clean(table => '{t}', retain_commits => 1)"
ADD_A_COLUMN = "ALTER TABLE {t} ADD COLUMNS (extra_note STRING)"
SET_IT = "UPDATE {t} SET extra_note = 'new' WHERE seq IN (6, 60)"


@pytest.mark.soak
@pytest.mark.parametrize("table_type", SERVICES)
# A process of 1.2 whose first write compacts a metadata table of version 6 fails (docs/facts.md).
@pytest.mark.parametrize(("writer", "version"), [each for each in WRITERS if each != ("1.2", 6)])
@pytest.mark.parametrize("seed", [1, 2])
def test_queries_lose_no_row_by_statistics_of_all_writers(
    session: Any,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    writer: str,
    version: int,
    table_type: str,
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Writes of Hudi and of hudisql in a random order, on a metadata table that hudisql made."""
    monkeypatch.setattr(data_skipping, "FEWEST_TO_SKIP", 1)
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    hudi = oracle_015 if writer == "0.15" else oracle_120
    random, path = Random(f"{writer}{version}{table_type}{seed}"), str(tmp_path / "t")
    database = "statistics_of_files"
    session.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
    name = f"{database}.t{version}_{writer[0]}_{table_type[:4].lower()}_{seed}"
    options = {
        **OPTIONS,
        "hoodie.table.name": name.partition(".")[2],
        "hoodie.write.table.version": str(version),
    }
    options |= {"hoodie.datasource.write.table.type": table_type, "hoodie.clean.commits.retained": "2"}
    # Small files stay alone: there is something to skip.
    options["hoodie.parquet.small.file.limit"] = "0"
    for start in (0, 60, 120):
        rows = wild_rows(random, range(start, start + 60))
        hudi.upsert(rows, path, {**options, "hoodie.metadata.enable": "false"})
    session.sql(f"CALL hive_sync(table => '{name}', path => '{path}')")
    session.sql(f"CALL create_metadata_table(table => '{name}')")
    steps = [*OURS, *OURS[:3], SERVICES[table_type], CLEAN, *("theirs",) * 5, "add"]
    random.shuffle(steps)
    has_extra, skipped = False, Counter[str]()
    _check_filters(session, name, has_extra, skipped)
    for number, step in enumerate(steps):
        if step == "theirs":
            start = random.randrange(0, 240)
            rows = wild_rows(random, range(start, start + random.randrange(1, 40)))
            if has_extra:
                rows = rows.append_column("extra_note", pa.array(["theirs"] * len(rows)))
                rows = rows.select([*(each for each in rows.column_names if each != "dt"), "dt"])
            chosen = random.choice(
                [{}, {}, SMALL_LOGS, BY_DELETE, {"hoodie.metadata.compact.max.delta.commits": "1"}]
            )
            hudi.write(rows, path, {"hoodie.datasource.write.operation": "upsert", **options, **chosen})
        elif step == "add":
            has_extra = True
            for statement in (ADD_A_COLUMN, SET_IT):
                session.sql(statement.replace("{t}", name))
        else:
            session.sql(step.replace("{t}", name).replace("{extra}", "NULL, " if has_extra else ""))
        _check_bounds(path)
        metadata = find_kept(open_at(path))
        assert metadata is not None, step
        assert has_trusted_statistics(metadata), step
        if number % 3 == 2 or number == len(steps) - 1:
            _check_filters(session, name, has_extra, skipped)
    assert skipped["files"] > 0


def _check_filters(session: Any, name: str, has_extra: bool, skipped: Counter[str]) -> None:
    filters = FILTERS if has_extra else [each for each in FILTERS if "extra_note" not in each]
    text = " UNION ALL ".join(
        f"SELECT {number} AS filter, count(*) AS found, coalesce(sum(seq), 0) AS total FROM {name} "
        f"WHERE {where}"
        for number, where in enumerate(filters)
    )
    found = sorted(tuple(row) for row in session.sql(text).rows)
    with setting(session, "hoodie.enable.data.skipping", "false"):
        assert found == sorted(tuple(row) for row in session.sql(text).rows)
    ((plan,),) = [tuple(row) for row in session.sql(f"EXPLAIN SELECT id FROM {name} WHERE seq < 3").rows]
    skipped["files"] += "skipped by statistics" in plan
