"""Columns that hudisql adds to a table have statistics of all files: Apache Hudi 1.2 then loses no row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.metadata_table.metadata_records import COLUMN_STATS
from hudisql.table.metadata_table.statistics_columns import statistics_columns
from hudisql.table.metadata_table.statistics_types import OTHER_COLUMNS
from hudisql.table.properties.table_configuration import update_table_properties
from tests.opened import open_at, open_kept
from tests.oracle.client import HudiOracle
from tests.oracle.kept_table import SERVICE_OF, TableWithMetadata
from tests.oracle.shapes import SHAPES, bootstrap_shape, noted_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE_OF = {shape.name: shape for shape in SHAPES}
FILTERS = (
    "more = 'ours'",
    "more = 'theirs'",
    "more IS NULL",
    "more IS NULL AND seq > 20",
    "more IS NULL AND note = 'ours'",
    "more IS NOT NULL",
    "more > 'o' AND seq < 50",
    "more IS NULL AND dt = '2024-03-02' AND seq > 20",
    "amount IS NULL AND seq > 20",
    "amount > 2.5 OR more = 'ours'",
)


def _theirs(table: TableWithMetadata, hudi: HudiOracle, start: int, stop: int) -> None:
    rows = noted_rows(table.shape, start, stop, "theirs")
    added = {
        "more": pa.array(["theirs"] * len(rows)),
        "amount": pa.array([2.75] * len(rows), pa.float64()),
        "list": pa.array([[1]] * len(rows), pa.list_(pa.int32())),
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    given: Mapping[str, str] = {
        **table.shape.write_options(),
        "hoodie.metadata.enable": "true",
        "hoodie.write.table.version": "9",
        "hoodie.table.name": table.name.rpartition(".")[2],
    }
    hudi.upsert(rows, table.path, given)


@pytest.mark.parametrize(
    ("name", "is_long"),
    parameters(
        [("partitioned", False), ("partitioned", True), ("merge_on_read", True)],
        in_ci=[("partitioned", False)],
    ),
)
def test_hudi_loses_no_row_by_statistics_of_columns_that_hudisql_added(
    session: Any, oracle_120: HudiOracle, name: str, is_long: bool, tmp_path: Path
) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE_OF[name], name=f"added_{name}_{is_long}".lower())
    made = bootstrap_shape(session, shape, tmp_path, table_version="9")
    table = TableWithMetadata(
        (oracle_120,), session, made.path, f"oracle.{shape.name}", shape, filters=FILTERS
    )
    if is_long:
        table.ours("DELETE FROM {t} WHERE seq = 20")
    table.ours("ALTER TABLE {t} ADD COLUMNS (more STRING, amount DOUBLE, list ARRAY<INT>)")
    table.ours("UPDATE {t} SET more = 'ours', amount = seq, note = 'ours' WHERE seq IN (3, 14, 77)")
    _theirs(table, oracle_120, 30, 33)
    table.check()
    if is_long:
        table.ours("UPDATE {t} SET amount = 3.5 WHERE seq IN (5, 31, 90)")
        table.check()
        _theirs(table, oracle_120, 41, 43)
        table.ours(SERVICE_OF[shape.table_type])
        table.check()
    assert {"more", "amount"} <= {*(statistics_columns(open_at(table.path), ()) or ())}
    assert COLUMN_STATS in open_kept(table.path).indexes


@pytest.mark.soak
@pytest.mark.parametrize("is_of_hudi", [True, False])
def test_statistics_that_hudi_makes_again_stay(
    session: Any, oracle_120: HudiOracle, is_of_hudi: bool, tmp_path: Path
) -> None:
    """hudisql drops those of which it is not known whether files have the added column."""
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE_OF["partitioned"], name=f"again_{is_of_hudi}".lower())
    name, path = f"oracle.{shape.name}", str(tmp_path / "t")
    table = TableWithMetadata((oracle_120,), session, path, name, shape, filters=FILTERS)
    table.upsert(oracle_120, 0, 100, {"hoodie.write.table.version": "9"})
    session.sql(f"CALL hive_sync(table => '{name}', path => '{path}')")
    if not is_of_hudi:
        session.sql(f"CALL create_metadata_table(table => '{name}')")
        own = open_kept(path).own
        update_table_properties(own.storage, own.base_path, {OTHER_COLUMNS: None})
    assert COLUMN_STATS in open_kept(path).indexes
    table.ours("ALTER TABLE {t} ADD COLUMNS (more STRING, amount DOUBLE, list ARRAY<INT>)")
    assert COLUMN_STATS not in open_kept(path).indexes
    _theirs(table, oracle_120, 30, 33)
    assert COLUMN_STATS in open_kept(path).indexes
    table.ours("UPDATE {t} SET more = 'ours', amount = seq, note = 'ours' WHERE seq IN (3, 14, 77)")
    assert COLUMN_STATS in open_kept(path).indexes
    table.check()
    _theirs(table, oracle_120, 41, 43)
    table.ours("DELETE FROM {t} WHERE seq = 20")
    assert COLUMN_STATS in open_kept(path).indexes
    table.check()
