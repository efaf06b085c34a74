"""Filters on columns with a secondary index read only the file groups of the rows with their values."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from hudisql.read.files.predicates import And, Comparison, In, Predicate
from hudisql.read.scan import data_skipping, secondary_skipping
from hudisql.read.scan.record_skipping import record_index_of
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.secondary_skipping import indexed_values, keys_of_values
from hudisql.read.scan.table_scan import plan_scan
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table import secondary_lookup
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from hudisql.write.metadata_table.secondary_index_files import define_secondary_index
from tests.opened import open_at


@pytest.fixture
def table(golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HudiTable:
    """Three partitions; rows have a day each in `d`, and names from n0 to n6 or nulls."""
    monkeypatch.setattr(data_skipping, "FEWEST_TO_SKIP", 1)
    path = str(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    table = open_at(path)
    indexes = [define_secondary_index(table, f"by_{name}", name) for name in ("name", "fare", "ts", "d")]
    create_metadata_table(table, with_record_index=True, secondary=indexes)
    return table.reopened()


def _keys(table: HudiTable, predicate: Predicate) -> list[str] | None:
    values, metadata = indexed_values(table, predicate), record_index_of(table)
    assert metadata is not None
    keys = None if values is None else keys_of_values(metadata, values)
    return None if keys is None else sorted(keys.to_pylist())


@pytest.mark.parametrize(
    ("predicate", "keys"),
    [
        (Comparison(("name",), "=", "n4"), ["k0004", "k0011"]),
        (Comparison(("name",), "=", "n"), []),
        (In(("name",), ("n4", None)), ["k0004", "k0011"]),
        (In(("name",), (None,)), []),
        (And((Comparison(("seq",), ">", 3), Comparison(("d",), "=", date(2024, 1, 6)))), ["k0005"]),
        (Comparison(("fare",), "=", 2.5), None),
        (Comparison(("name",), "=", "\ud800"), None),
        (Comparison(("ts",), "=", datetime(2024, 1, 1, 4, tzinfo=UTC)), ["k0004"]),
        (Comparison(("d",), "<=>", date(2024, 1, 6)), ["k0005"]),
        (Comparison(("d",), "=", "2024-01-06"), None),
        (Comparison(("d",), ">", date(2024, 1, 6)), None),
        (Comparison(("seq",), "=", 4), None),
        (In(("name",), tuple(map(str, range(1_001)))), None),
    ],
)
def test_the_keys_of_a_filter(table: HudiTable, predicate: Predicate, keys: list[str] | None) -> None:
    assert _keys(table, predicate) == keys


def test_values_of_too_many_rows_are_not_looked_up(table: HudiTable, monkeypatch: pytest.MonkeyPatch) -> None:
    names = In(("name",), ("n4", "n5"))
    assert len(_keys(table, names) or ()) > 1
    monkeypatch.setattr(secondary_skipping, "_MOST_KEYS", 1)
    assert _keys(table, names) is None
    monkeypatch.undo()
    for limit in ("_MOST_BLOCK_BYTES", "_MOST_GROUPS", "_MOST_LOG_BYTES"):
        monkeypatch.setattr(secondary_lookup, limit, -1)
        assert _keys(table, names) is None
        monkeypatch.undo()


def test_a_filter_reads_the_file_groups_of_its_rows_alone(table: HudiTable) -> None:
    every = {(found.partition_path, found.file_id) for found in load_file_slices(table)}

    def slices(predicate: Predicate) -> set[tuple[str, str]]:
        request = ScanRequest(
            table,
            table.full_schema,
            [predicate],
            skips_by_statistics=True,
            asks_secondary_indexes=is_asked,
        )
        return {(found.partition_path, found.file_id) for found, _ in plan_scan(request).slices}

    is_asked = True
    found = slices(In(("d",), (date(2024, 1, 6), date(1999, 1, 1))))
    assert len(found) == 1
    assert found < every
    assert slices(Comparison(("name",), "=", "n3x")) == set()
    is_asked = False
    assert slices(Comparison(("name",), "=", "n3x")) != set()


def test_the_index_of_a_merge_on_read_table_is_not_asked(table: HudiTable) -> None:
    """The log writes of Hudi 1.2 bring one of several indexes up to date."""
    update_table_properties(table.storage, table.base_path, {"hoodie.table.type": "MERGE_ON_READ"})
    assert indexed_values(table.reopened(), Comparison(("name",), "=", "n4")) is None


def test_an_index_without_all_its_file_groups_is_not_asked(table: HudiTable) -> None:
    directory = Path(table.base_path, ".hoodie/metadata/secondary_index_by_name")
    for path in directory.glob("*-0003-0*"):
        path.unlink()
    assert _keys(table, Comparison(("name",), "=", "n4")) is None
