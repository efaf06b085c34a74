"""Rows to change whose file group is not where they say: an error that names file and partition."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import CorruptTableError, WriteConflictError
from hudisql.format.schema.meta_columns import PARTITION_PATH
from hudisql.table.files.snapshot import load_file_slices
from hudisql.write.execution.changed_slices import check_slices_found
from tests.opened import open_at
from tests.soak import parameters
from tests.sql.changed_tables import DAYS, ChangedTable, setting


def _claim_partition(skeleton: Path, partition: str | None) -> None:
    """The skeleton's rows say that they are in this partition."""
    rows = pq.read_table(skeleton)
    at = rows.schema.get_field_index(PARTITION_PATH)
    claimed = pa.repeat(pa.scalar(partition, rows.schema.field(at).type), rows.num_rows)
    pq.write_table(rows.set_column(at, rows.schema.field(at), claimed), skeleton, store_schema=False)


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.parametrize("driver_bytes", parameters(["0", "8388608"], in_ci=["8388608"]))
@pytest.mark.parametrize(
    ("claimed", "text"),
    parameters(
        [
            ("dt=2024-03-09", "the partition 'dt=2024-03-09'"),
            (f"dt={DAYS[1]}", f"the partition 'dt={DAYS[1]}'"),
            (None, "NULL"),
        ],
        in_ci=[(None, "NULL")],
    ),
)
def test_a_skeleton_whose_rows_name_another_partition_is_named(
    table: ChangedTable, driver_bytes: str, claimed: str | None, text: str
) -> None:
    (skeleton,) = Path(table.path, f"dt={DAYS[0]}").glob("*.parquet")
    _claim_partition(skeleton, claimed)
    before = table.instants()
    said = f"{skeleton.name} lie in the partition 'dt={DAYS[0]}', but have {text} in _hoodie_partition_path"
    with setting(table.session, "hudisql.driver.max.bytes", driver_bytes):
        for statement in (
            "UPDATE {t} SET seq = seq + 1 WHERE id = 'k01'",
            "UPDATE {t} SET seq = seq + 1",
            "DELETE FROM {t} WHERE id = 'k01'",
        ):
            with pytest.raises(CorruptTableError, match=said):
                table.run(statement)
        assert [each for each in table.instants() if "rollback" not in each] == before
    columns, where = "id, seq, price, st, tags, at", f"dt = '{DAYS[0]}'"
    table.run(
        f"INSERT OVERWRITE {{t}} PARTITION ({where}) ({columns}) SELECT {columns} FROM {{t}} WHERE {where}"
    )
    assert table.run("UPDATE {t} SET seq = 100 WHERE id = 'k01'")["updated"] == 1


def test_a_file_group_that_is_gone_is_a_conflict(golden: Callable[[str], Any]) -> None:
    table = open_at(golden("cow_bootstrap_then_upsert_delete").table)
    slices = load_file_slices(table)
    check_slices_found(table, slices, [each.file_group for each in slices])
    gone = (slices[0].partition_path, "another-0")
    with pytest.raises(WriteConflictError, match=f"the file group another-0 of the partition '{gone[0]}'"):
        check_slices_found(table, slices, [gone])
    moved = ("dt=2020-01-01", slices[0].file_id)
    with pytest.raises(CorruptTableError, match=f"lie in the partition '{gone[0]}', but have .*'{moved[0]}'"):
        check_slices_found(table, [], [moved])
