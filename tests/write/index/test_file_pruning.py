"""Slices without a MERGE's record keys are pruned by the record index, without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from hudisql.read.files.predicates import And, InSet, Predicate
from hudisql.read.scan.record_skipping import LookedUpGroups
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.metadata_table.metadata_table import find_metadata_table
from hudisql.table.metadata_table.record_lookup import find_records
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.write.index import file_pruning
from hudisql.write.index.file_pruning import prune_by_key_lookup
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from tests.opened import open_at


def test_the_record_index_tells_which_slices_hold_the_keys(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    path = str(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    table = open_at(path)
    every = {(each.partition_path, each.file_id) for each in load_file_slices(table)}
    keys = pa.array(["k0003", "k0004", "none"])
    found = set(find_records(find_metadata_table(table), keys).groups)
    assert found < every
    assert prune_by_key_lookup(cast("Any", None), table, InSet(("id",), keys)).only == found
    assert prune_by_key_lookup(cast("Any", None), table, InSet(("id",), keys[2:])).only == frozenset()


def test_a_partitioned_record_index_is_asked_in_the_partitions_of_the_source(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    (column,) = open_at(path).partition_columns
    keys = pa.array(["k0003", "k0004", "none"])
    places = set(find_records(find_metadata_table(open_at(path)), keys).groups)
    create_metadata_table(open_at(path), with_record_index=True, by_partition=True)
    table = open_at(path)
    values = {found.path: found.values[0] for found in list_partitions(table)}
    one, other = sorted(places)
    in_both = InSet((column.name,), pa.array([values[one[0]], values[other[0]]], column.type))
    in_one = InSet((column.name,), pa.array([values[one[0]]], column.type))

    def found(*parts: Predicate) -> LookedUpGroups:
        return prune_by_key_lookup(cast("Any", None), table, And((InSet(("id",), keys), *parts)))

    assert found(in_both).only == found().only == places
    assert found(in_one).only == {one}
    monkeypatch.setattr(file_pruning, "MOST_PARTITIONS", 1)
    assert found() == LookedUpGroups()
    assert found(in_both).only == places
    monkeypatch.setattr(file_pruning, "_MOST_KEYS_IN_PARTITIONS", 11)
    assert found(in_both) == LookedUpGroups()
    assert found(in_one).only == {one}
