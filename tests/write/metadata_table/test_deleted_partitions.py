"""Records on top of a deleted one: Hudi merges the log records of a key first, then the base file's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudisql.format.metadata_table.listed_files import merge_listings
from hudisql.format.metadata_table.metadata_records import MetadataRecords, deleted_records
from hudisql.write.metadata_table.deleted_partitions import deleted_with_keys

KEY = "dt=a"
FILES = pa.map_(pa.string(), pa.struct([("size", pa.int64()), ("isDeleted", pa.bool_())]))
# True for deleted files by name; None deletes the key.
Record = dict[str, bool] | None


def _layer(record: Record) -> MetadataRecords:
    keys = pa.array([KEY])
    if record is None:
        return deleted_records(keys)
    files = [(name, {"size": 1, "isDeleted": deleted}) for name, deleted in record.items()]
    return MetadataRecords(keys, pa.array([files], FILES))


def _combined(older: dict[str, bool], newer: dict[str, bool]) -> dict[str, bool]:
    """`HoodieMetadataPayload.combineFileSystemMetadata`: of a file in both, a deletion leaves nothing."""
    merged = older | newer
    return {name: deleted for name, deleted in merged.items() if not (newer.get(name) and name in older)}


def _listed_by_hudi(base: dict[str, bool], logs: Sequence[Record]) -> set[str]:
    merged: Record = {}
    for record in logs:
        merged = None if record is None else _combined(merged or {}, record)
    found = {} if merged is None else _combined(base, merged)
    return {name for name, deleted in found.items() if not deleted}


@given(st.integers(0, 3), st.lists(st.sampled_from(["add", "add", "delete", "delete the key"]), max_size=12))
def test_hudi_lists_the_files_that_are_there(in_base: int, steps: list[str]) -> None:
    names = (f"f{number}" for number in count())
    base = {next(names): False for _ in range(in_base)}
    logs: list[Record] = []
    there = set(base)
    for step in steps:
        if step == "delete the key":
            logs.append(None)
            there = set()
            continue
        layers = [_layer(base), *map(_layer, logs)]
        record = dict.fromkeys(deleted_with_keys(layers, [KEY]).get(KEY, ()), True)
        if step == "add":
            record[name := next(names)] = False
            there.add(name)
        elif there:
            record[name := min(there)] = True
            there.remove(name)
        logs.append(record)
        assert _listed_by_hudi(base, logs) == there
    listed = merge_listings([_layer(base), *map(_layer, logs)]).get(KEY)
    assert (set() if listed is None else set(listed.names.to_pylist())) == there
