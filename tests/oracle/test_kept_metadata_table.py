"""Apache Hudi 1.2 on its defaults reads all rows by the metadata tables that hudisql makes and keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.read.scan import data_skipping
from hudisql.write.metadata_table import metadata_compaction
from tests.opened import open_at
from tests.oracle.client import BY_LISTING, BY_METADATA, HudiOracle
from tests.oracle.kept_table import OURS, OURS_OF_PARTITIONS, SERVICE_OF, TableWithMetadata
from tests.oracle.shapes import SHAPES, bootstrap_shape
from tests.oracle.sources import write_readable
from tests.soak import parameters
from tests.sql.changed_tables import setting

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE_OF = {shape.name: shape for shape in SHAPES}
OURS_AFTERWARDS = (
    "CALL run_clean(table => '{t}', retain_commits => 1)",
    "ALTER TABLE {t} ADD COLUMNS (extra_note STRING)",
    "UPDATE {t} SET extra_note = 'new' WHERE seq = 6",
)


class KeptTable(TableWithMetadata):
    """1.2 reads it with and without its metadata table."""

    def theirs(self, start: int, stop: int, options: Mapping[str, str] | None = None) -> None:
        """1.2 upserts on its defaults."""
        given = {
            "hoodie.write.table.version": "9",
            "hoodie.metadata.index.column.stats.enable": "true",
            **(options or {}),
        }
        self.upsert(self.readers[0], start, stop, given)

    def check(self) -> None:
        """Filters lose no row by the metadata table, neither 1.2's nor hudisql's."""
        (hudi,) = self.readers
        assert self.rows_of_filters(hudi, BY_METADATA) == self.rows_of_filters(hudi, BY_LISTING)
        # Not compared with those of 1.2, which finds no -0.0 by `f = 0`.
        with setting(self.session, "hoodie.enable.data.skipping", "false"):
            expected = self.our_rows()
        assert self.our_rows() == expected


@pytest.fixture(autouse=True)
def skips_in_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_skipping, "FEWEST_TO_SKIP", 1)


@pytest.mark.parametrize(
    ("name", "is_long"),
    parameters(
        [
            *(("partitioned", True), ("not_partitioned", True), ("merge_on_read", True)),
            ("merge_on_read", False),
        ],
        in_ci=[("merge_on_read", False)],
    ),
)
def test_hudi_loses_no_rows_by_a_metadata_table_that_both_write(
    session: Any,
    oracle_120: HudiOracle,
    name: str,
    is_long: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE_OF[name], name=f"kept_{name}" if is_long else f"kept_{name}_short")
    made = bootstrap_shape(session, shape, tmp_path, table_version="9")
    table = KeptTable((oracle_120,), session, made.path, f"oracle.{shape.name}", shape)
    table.check()
    for statement in OURS:
        table.ours(statement)
    table.check()
    # It compacts the metadata table.
    table.theirs(30, 34, {"hoodie.metadata.compact.max.delta.commits": "1"})
    table.check()
    if not is_long:
        return
    of_partitions = OURS_OF_PARTITIONS if shape.partition_columns else ()
    for statement in (*of_partitions, OURS[0], SERVICE_OF[shape.table_type]):
        table.ours(statement)
    table.theirs(90, 92)
    for statement in OURS_AFTERWARDS:
        table.ours(statement)
    table.check()
    assert list(Path(made.path, ".hoodie/metadata/files").glob("*.hfile"))


LOSING_FILTERS = (
    "fare > 5.0",
    "price > 5.0 AND seq < 60",
    "note IS NULL OR fare > 50.0",
    "dt = '2024-03-01' AND total > 400000000000",
    "_hoodie_record_key = 'k000015' AND fare > 1.0",
    "_hoodie_commit_time = '00000000000001' AND seq >= 15",
)
"""By statistics that Hudi 1.2 itself has made of skeletons it loses rows of four of these."""


def test_hudi_on_its_defaults_loses_no_rows_of_a_bootstrapped_copy_on_write_table(
    session: Any, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE_OF["partitioned"], name="kept_defaults")
    made = bootstrap_shape(session, shape, tmp_path, table_version="9")
    table = KeptTable(
        (oracle_120,), session, made.path, f"oracle.{shape.name}", shape, filters=LOSING_FILTERS
    )
    with setting(session, "hoodie.enable.data.skipping", "false"):
        for statement in (None, OURS[0]):
            if statement is not None:
                table.ours(statement)
            expected = table.our_rows()
            assert all(found for _, found, _ in expected)
            assert table.rows_of_filters(oracle_120, BY_METADATA) == expected


ODD_FILTERS = (
    *("f > 12", "f < 0", "f = 0", "f = 3", "not (f = 0.0)", "f is null", "f > 5000"),
    *("s > 'b'", "s = '\uff22x'", "s >= '\U0001f600'", "s < 'aa' and seq > 5", "s = 'zzz'"),
    *("exact < -100", "exact = 0.01", "exact > 1000", "exact = 99999.99", "small < -100", "small = 1 and b"),
    *("not b", "day > date'2024-01-05'", "day = date'1970-01-01' or seq = 1", "at is not null and f is null"),
    *("none is null", "none is not null", "none = 'set'", "p = 30 and f > 1", "p > 1 and seq < 250"),
    *("region = 'eu' and s is null", "region is null", "_hoodie_record_key = 'k100' and f > 1"),
)
OURS_OF_ODD_VALUES = (
    "UPDATE {t} SET f = 6000, s = 'zzz', none = 'set' WHERE seq IN (100, 210)",
    "UPDATE {t} SET exact = 99999.99, small = -9000, day = date'2030-01-01', f = double('NaN') "
    "WHERE seq IN (101, 3000)",
    "DELETE FROM {t} WHERE seq IN (100, 3010)",
    "MERGE INTO {t} t USING (SELECT id FROM {t} WHERE seq = 102) s ON t.id = s.id WHEN MATCHED THEN UPDATE "
    "SET t.f = 7.0",
    "INSERT INTO {t} SELECT 'new', 5, double(-5), 'q', 1.0, 7, true, date'2001-01-01', "
    "timestamp'2001-01-01 00:00:00', 'set', CAST(NULL AS STRING), 7",
)


def _odd_values(first: int, number: int, day: int) -> pa.Table:
    """Four rows: NaN and -0.0, texts that UTF-8 and UTF-16 order otherwise, long texts, long decimals."""
    exact = [Decimal("-12345678901234567890.12"), Decimal("0.01"), Decimal(first), None]
    return pa.table(
        {
            "id": [f"k{first + row}" for row in range(4)],
            "seq": pa.array([first + row for row in range(4)], pa.int32()),
            "f": pa.array([1.5 * first, -0.0, float("nan") if number else 3.0, None], pa.float64()),
            "s": pa.array([f"\U0001f600{first}", "\uff22x", "a" * 5000 if number else "a", None]),
            "exact": pa.array(exact, pa.decimal128(30, 2)),
            "small": pa.array([-first, 1, 2, None], pa.int16()),
            "b": [True, False, None, True],
            "day": pa.array([date(1970, 1, 1), date(2024, 1, day), date(1999, 12, 31), None]),
            "at": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 3 + [None], pa.timestamp("us", "UTC")),
            "none": pa.nulls(4, pa.string()),
        }
    )


@pytest.mark.soak
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_hudi_loses_no_rows_with_odd_values_and_partitions(
    session: Any, oracle_120: HudiOracle, table_type: str, tmp_path: Path
) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    for part in (1, 2, 30):
        directory = tmp_path / "source" / f"region={'eu' if part < 3 else 'us'}" / f"p={part}"
        directory.mkdir(parents=True)
        for number in range(2):
            rows = _odd_values(part * 100 + number * 10, number, min(part, 29))
            write_readable(rows, directory / f"part-{number}.parquet")
    shape = replace(SHAPE_OF["partitioned"], name=f"odd_{table_type[:5].lower()}", table_type=table_type)
    table = KeptTable(
        (oracle_120,), session, str(tmp_path / "t"), f"oracle.{shape.name}", shape, filters=ODD_FILTERS
    )
    session.sql(f"DROP TABLE IF EXISTS {table.name}")
    session.sql(
        f"CALL bootstrap_table(table => '{table.name}', source => '{tmp_path / 'source'}', "
        f"record_key => 'id', precombine => 'seq', target_path => '{table.path}', table_version => 9, "
        f"table_type => '{table_type}', partition_by => 'region string, p int')"
    )
    table.check()
    for statement in OURS_OF_ODD_VALUES:
        table.ours(statement)
        table.check()
    # Ranges of both types would stand side by side: dropped.
    session.sql(f"ALTER TABLE {table.name} ALTER COLUMN seq TYPE BIGINT")
    assert not open_at(table.path).properties.metadata_partitions
    session.sql(f"CALL create_metadata_table(table => '{table.name}')")
    table.check()
