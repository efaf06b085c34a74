"""Slices without a MERGE's record keys are pruned by the record index, without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from hudisql.read.files.predicates import InSet
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from hudisql.table.metadata_table.metadata_table import find_metadata_table
from hudisql.table.metadata_table.record_lookup import find_records
from hudisql.write.index.file_pruning import prune_by_key_lookup


def test_the_record_index_tells_which_slices_hold_the_keys(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    path = str(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    table = open_table(Storage(), path)
    every = {(each.partition_path, each.file_id) for each in load_file_slices(table)}
    keys = pa.array(["k0003", "k0004", "none"])
    found = set(find_records(find_metadata_table(table), keys).groups)
    assert found < every
    assert prune_by_key_lookup(cast("Any", None), table, InSet(("id",), keys)).only == found
    assert prune_by_key_lookup(cast("Any", None), table, InSet(("id",), keys[2:])).only == frozenset()
