"""Apache Hudi 1.2 on its defaults reads all rows by the metadata tables that hudisql makes and keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
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
    "price > 5.0 AND seq < 60",
    "day > date'2020-01-01' OR seq < 3",
    "note = 'ours'",
    "note = 'theirs'",
    "note IS NULL",
    "note IS NOT NULL AND seq > 50",
    "_hoodie_record_key = 'k000014' AND seq = 14",
    "_hoodie_commit_time = '00000000000001' AND seq >= 15",
    "_hoodie_commit_time > '00000000000001'",
    "_hoodie_record_key >= 'k000100' OR note = 'ours'",
)


@dataclass
class KeptTable:
    """The table, in hudisql's session called `name`, which 1.2 reads with and without its metadata table."""

    oracle: HudiOracle
    session: Any
    path: str
    name: str
    shape: Shape

    def ours(self, statement: str) -> None:
        self.session.sql(statement.format(t=self.name))
        self.check()

    def theirs(self, start: int, stop: int, options: dict[str, str] | None = None) -> None:
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
        self.check()

    def check(self) -> None:
        """The metadata table is kept, lists what the storage has, and filters by it lose no row."""
        table = open_table(Storage(), self.path)
        assert find_kept(table) is not None
        call = f"CALL validate_metadata_table_files(table => '{self.name}')"
        assert [tuple(row) for row in self.session.sql(call).rows] == []
        assert self.rows_of_filters(BY_METADATA) == self.rows_of_filters(BY_LISTING)

    def rows_of_filters(self, options: dict[str, str]) -> list[tuple[int, int, int]]:
        """For each filter its number, and the count and the sum of `seq` of its rows."""
        view = f"kept_{len(options['hoodie.metadata.enable'])}"
        self.oracle.view(view, self.path, options=options)
        parts = [
            f"SELECT {number} AS filter, count(*) AS found, coalesce(sum(seq), 0) AS total FROM {view} WHERE {where}"
            for number, where in enumerate(FILTERS)
        ]
        found = self.oracle.sql(" UNION ALL ".join(parts)).to_pylist()
        return sorted(tuple(row.values()) for row in found)


@pytest.mark.parametrize(
    "name",
    parameters(["partitioned", "not_partitioned", "merge_on_read"], in_ci=["partitioned", "merge_on_read"]),
)
def test_a_bootstrapped_table_is_read_right_by_default(
    session: Any, oracle_120: HudiOracle, name: str, tmp_path: Path
) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = SHAPE_OF[name]
    shape = replace(shape, name=f"kept_{name}")
    made = bootstrap_shape(session, shape, tmp_path, table_version="9")
    table = KeptTable(oracle_120, session, made.path, f"oracle.{shape.name}", shape)
    table.check()
    table.ours("UPDATE {t} SET note = 'ours' WHERE seq IN (3, 14, 77)")
    table.ours("DELETE FROM {t} WHERE seq = 20")
    table.theirs(30, 34)
    table.ours("UPDATE {t} SET note = NULL, seq = seq + 1000 WHERE seq IN (4, 31, 78)")


ACTIONS = (
    "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') SELECT id, seq, total, fare, price, is_even, day, at, "
    "'ours', place, labels, extra FROM {t} WHERE dt = '2024-03-02' AND seq < 60",
    "ALTER TABLE {t} DROP PARTITION (dt = '2024-03-03')",
    "UPDATE {t} SET note = 'ours', day = date'2031-01-01' WHERE seq IN (3, 15, 16)",
    "CALL run_clustering(table => '{t}')",
    "CALL run_clean(table => '{t}', retain_commits => 1)",
    "ALTER TABLE {t} ADD COLUMNS (extra_note STRING)",
    "UPDATE {t} SET extra_note = 'new' WHERE seq = 6",
)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_each_action_keeps_the_metadata_table(
    session: Any, oracle_120: HudiOracle, table_type: str, tmp_path: Path
) -> None:
    shape = replace(SHAPE_OF["partitioned"], name=f"kept_{table_type[:5].lower()}", table_type=table_type)
    made = bootstrap_shape(session, shape, tmp_path, table_version="9")
    table = KeptTable(oracle_120, session, made.path, f"oracle.{shape.name}", shape)
    for action in ACTIONS:
        if table_type == "MERGE_ON_READ" and "clustering" in action:
            action = "CALL run_compaction(op => 'scheduleandexecute', table => '{t}')"
        table.ours(action)
    table.theirs(90, 92)
    session.sql(f"CALL delete_metadata_table(table => '{table.name}')")
