"""Filters on record keys read only the file groups that the record index names."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.table_properties import KEY_GENERATOR_TYPE, METADATA_PARTITIONS
from hudisql.read.files.predicates import And, Comparison, In, Or, Predicate
from hudisql.read.scan import data_skipping
from hudisql.read.scan.record_skipping import keys_of_predicate, look_up_groups, record_index_of
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.record_lookup import find_records
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from tests.opened import open_at
from tests.write.crashed_commits import commit_a_file

ID, KEY = ("id",), ("_hoodie_record_key",)


@pytest.fixture
def table(golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HudiTable:
    monkeypatch.setattr(data_skipping, "FEWEST_TO_SKIP", 1)
    return open_at(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))


def _slices(table: HudiTable, predicate: Predicate, **options: Any) -> set[tuple[str, str]]:
    request = ScanRequest(table, table.full_schema, [predicate], skips_by_statistics=True, **options)
    return {(each.partition_path, each.file_id) for each, _ in plan_scan(request).slices}


@pytest.mark.parametrize(
    ("predicate", "keys"),
    [
        (Comparison(KEY, "=", "k0003"), [["k0003"]]),
        (Comparison(ID, "=", "k0003"), [["k0003"], ["id:k0003"]]),
        (In(ID, ("k1", None)), [["k1"], ["id:k1"]]),
        (And((Comparison(("seq",), "=", 3), In(KEY, ("k1", "k2")))), [["k1", "k2"]]),
        (Comparison(ID, ">", "k0003"), None),
        (Comparison(ID, "=", ""), None),
        (Comparison(("seq",), "=", 3), None),
        (Or((Comparison(ID, "=", "k1"), Comparison(("seq",), "=", 3))), None),
        (In(KEY, tuple(map(str, range(10_001)))), None),
    ],
)
def test_the_keys_of_a_filter(table: HudiTable, predicate: Predicate, keys: list[list[str]] | None) -> None:
    found = keys_of_predicate(table, predicate)
    assert (None if found is None else [form.to_pylist() for form in found]) == keys


def test_the_keys_of_a_users_generator_are_not_known(table: HudiTable) -> None:
    update_table_properties(table.storage, table.base_path, {KEY_GENERATOR_TYPE: "USER_PROVIDED"})
    assert keys_of_predicate(table.reopened(), Comparison(ID, "=", "k0003")) is None
    assert keys_of_predicate(table.reopened(), Comparison(KEY, "=", "k0003")) is not None


def test_a_filter_on_keys_reads_their_file_groups_alone(table: HudiTable) -> None:
    every = {(each.partition_path, each.file_id) for each in load_file_slices(table)}
    assert len(every) > 2
    found = _slices(table, Comparison(ID, "=", "k0003"))
    assert len(found) == 1
    assert found < every
    assert _slices(table, Comparison(KEY, "=", "k0003")) == found
    assert _slices(table, Comparison(ID, "=", "none")) == set()
    assert _slices(table, In(ID, ("k0003", "k0004", "k0005"))) > found
    # The index tells nothing of the past, nor of base files alone.
    latest = table.timeline.latest_commit
    assert latest is not None
    assert _slices(table, Comparison(KEY, "=", "none"), as_of=latest.timestamp) == every
    assert _slices(table, Comparison(KEY, "=", "none"), read_optimized=True) == every


def test_an_index_that_knows_later_commits_is_not_asked(table: HudiTable) -> None:
    assert record_index_of(table) is not None
    commit_a_file(Storage(), table.base_path, overwrites=True)
    assert record_index_of(table) is None
    assert record_index_of(table.reopened()) is not None


def test_an_index_that_is_being_deleted_is_not_asked(table: HudiTable) -> None:
    keys = pa.array([f"k{number:04}" for number in range(40)])
    metadata = record_index_of(table)
    assert metadata is not None
    whole = find_records(metadata, keys).numbers
    # What another process has deleted of it when its files are listed, after it has changed the properties.
    update_table_properties(table.storage, table.base_path, {METADATA_PARTITIONS: "column_stats,files"})
    for path in Path(table.base_path, ".hoodie/metadata/record_index").glob("*record-index-0001-0*"):
        path.unlink()
    late = record_index_of(table)
    assert late is not None
    assert (find_records(late, keys).numbers < 0).sum() > (whole < 0).sum()
    assert look_up_groups(late, [keys]) is None


def test_a_partitioned_index_is_asked_in_the_partitions_that_are_left(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_table = _slices(table, In(ID, ("k0003", "k0004")))
    create_metadata_table(table, with_record_index=True, by_partition=True)
    table = table.reopened()
    assert record_index_of(table) is None
    every = {(each.partition_path, each.file_id) for each in load_file_slices(table)}
    assert _slices(table, In(ID, ("k0003", "k0004"))) == of_table < every
    assert _slices(table, Comparison(KEY, "=", "none")) == set()
    (path, _), *_ = of_table
    in_partition = Comparison(("_hoodie_partition_path",), "=", path)
    assert _slices(table, And((In(ID, ("k0003", "k0004")), in_partition))) == {
        group for group in of_table if group[0] == path
    }
    with monkeypatch.context() as patched:
        patched.setattr(data_skipping, "MOST_PARTITIONS", 1)
        assert record_index_of(table, is_global=False) is not None
        looked_up: list[Any] = []
        patched.setattr(data_skipping, "look_up_groups", lambda *arguments: looked_up.append(arguments))
        assert of_table <= _slices(table, In(ID, ("k0003", "k0004")))
        assert looked_up == []
        _slices(table, And((Comparison(ID, "=", "k0003"), in_partition)))
        assert [arguments[2] for arguments in looked_up] == [[path]]
