"""Apache Hudi 1.2 on its defaults reads all rows by the metadata tables that hudisql makes and keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.write.metadata_table import metadata_compaction
from hudisql.write.metadata_table.kept_metadata_table import find_kept
from tests.oracle.client import HudiOracle
from tests.oracle.shapes import SHAPES, Shape, bootstrap_shape, noted_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE_OF = {shape.name: shape for shape in SHAPES}
BY_METADATA = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
BY_LISTING = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
# Of every type of column, of meta columns, with AND, OR, nulls and the partition column.
FILTERS = (
    "seq >= 100",
    "seq = 14",
    "id = 'k000014'",
    "fare = 17.5",
    "total > 400000000000",
    "price > 5.0 AND seq < 60",
    "day > date'2024-03-01' OR seq < 3",
    "at >= timestamp'2020-01-01 12:36:00' AND is_even",
    "note = 'ours'",
    "note = 'theirs'",
    "note IS NULL",
    "note IS NOT NULL AND seq > 50",
    "_hoodie_record_key = 'k000014' AND seq = 14",
    "_hoodie_commit_time = '00000000000001' AND seq >= 15",
    "_hoodie_commit_time > '00000000000001'",
    "_hoodie_record_key >= 'k000100' OR note = 'ours'",
)
OURS = (
    "UPDATE {t} SET note = 'ours' WHERE seq IN (3, 14, 77)",
    "DELETE FROM {t} WHERE seq = 20",
    "UPDATE {t} SET note = NULL, price = -seq WHERE seq IN (4, 31, 78)",
)
OURS_OF_PARTITIONS = (
    "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') SELECT id, seq, total, fare, price, is_even, day, "
    "at, 'ours', place, labels, extra FROM {t} WHERE dt = '2024-03-02' AND seq < 60",
    "ALTER TABLE {t} DROP PARTITION (dt = '2024-03-03')",
)
OURS_AFTERWARDS = (
    "CALL run_clean(table => '{t}', retain_commits => 1)",
    "ALTER TABLE {t} ADD COLUMNS (extra_note STRING)",
    "UPDATE {t} SET extra_note = 'new' WHERE seq = 6",
)
SERVICE_OF = {
    "COPY_ON_WRITE": "CALL run_clustering(table => '{t}')",
    "MERGE_ON_READ": "CALL run_compaction(op => 'scheduleandexecute', table => '{t}')",
}


@dataclass
class KeptTable:
    """The table, in hudisql's session called `name`, which 1.2 reads with and without its metadata table."""

    oracle: HudiOracle
    session: Any
    path: str
    name: str
    shape: Shape

    def ours(self, statement: str) -> None:
        """The metadata table is kept by the statement, and lists what the storage has."""
        self.session.sql(statement.replace("{t}", self.name))
        assert find_kept(open_table(Storage(), self.path)) is not None
        call = f"CALL validate_metadata_table_files(table => '{self.name}')"
        assert [tuple(row) for row in self.session.sql(call).rows] == []

    def theirs(self, start: int, stop: int, options: Mapping[str, str] | None = None) -> None:
        """1.2 upserts on its defaults."""
        given = {
            **self.shape.write_options(),
            "hoodie.table.name": self.name.rpartition(".")[2],
            "hoodie.write.table.version": "9",
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.index.column.stats.enable": "true",
            **(options or {}),
        }
        self.oracle.upsert(noted_rows(self.shape, start, stop, "theirs"), self.path, given)

    def check(self) -> None:
        """Filters lose no row by the metadata table."""
        assert self.rows_of_filters(BY_METADATA) == self.rows_of_filters(BY_LISTING)

    def rows_of_filters(self, options: Mapping[str, str]) -> list[tuple[int, ...]]:
        """For each filter its number, and the count and the sum of `seq` of its rows."""
        self.oracle.view("kept", self.path, options=options)
        parts = [
            f"SELECT {number} AS filter, count(*) AS found, coalesce(sum(seq), 0) AS total FROM kept "
            f"WHERE {where}"
            for number, where in enumerate(FILTERS)
        ]
        return sorted(tuple(row.values()) for row in self.oracle.sql(" UNION ALL ".join(parts)).to_pylist())


@pytest.mark.parametrize(
    "name",
    parameters(["partitioned", "not_partitioned", "merge_on_read"], in_ci=["partitioned", "merge_on_read"]),
)
def test_hudi_loses_no_rows_by_a_metadata_table_that_both_write(
    session: Any, oracle_120: HudiOracle, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE_OF[name], name=f"kept_{name}")
    made = bootstrap_shape(session, shape, tmp_path, table_version="9")
    table = KeptTable(oracle_120, session, made.path, f"oracle.{shape.name}", shape)
    table.check()
    for statement in OURS:
        table.ours(statement)
    table.check()
    # It compacts the metadata table.
    table.theirs(30, 34, {"hoodie.metadata.compact.max.delta.commits": "1"})
    table.check()
    of_partitions = OURS_OF_PARTITIONS if shape.partition_columns else ()
    for statement in (*of_partitions, OURS[0], SERVICE_OF[shape.table_type]):
        table.ours(statement)
    table.theirs(90, 92)
    for statement in OURS_AFTERWARDS:
        table.ours(statement)
    table.check()
    assert list(Path(made.path, ".hoodie/metadata/files").glob("*.hfile"))


def test_hudi_loses_rows_by_the_metadata_table_that_it_makes_itself(
    session: Any, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    """Without the kept one: what the test above would show if the statistics were wrong."""
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE_OF["partitioned"], name="kept_not")
    made = bootstrap_shape(session, shape, tmp_path, table_version="9")
    table = KeptTable(oracle_120, session, made.path, f"oracle.{shape.name}", shape)
    session.sql(f"CALL delete_metadata_table(table => '{table.name}')")
    table.theirs(30, 34)
    found, expected = table.rows_of_filters(BY_METADATA), table.rows_of_filters(BY_LISTING)
    assert sum(mine != theirs for mine, theirs in zip(found, expected, strict=True)) > 3
    session.sql(f"CALL create_metadata_table(table => '{table.name}')")
    table.check()
