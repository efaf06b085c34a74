"""Partitions that Apache Hudi has deleted from the index `files`, and that get files again.

A clean of Hudi 1.2 deletes the record of a partition whose file groups are all replaced. Hudi merges the log
records of a key before it looks at the base file: with a new record on top of the deletion it forgets the
deletion, and lists the files of the base file again, which are gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.metadata_table.metadata_records import FILES, MetadataRecords
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.write.metadata_table.deltacommit_files import is_of_hudisql


def files_of_deleted_partitions(metadata: MetadataTable, keys: Collection[str]) -> dict[str, list[str]]:
    """The files that a new record of these keys of `files` has to delete, by key and sorted by name.

    Reads nothing unless Hudi has written to the index since it was compacted. Raises CorruptTableError,
    StorageError.
    """
    slices = metadata.latest_slices(FILES)
    if all(is_of_hudisql(log_file) for file_slice in slices for log_file in file_slice.log_files):
        return {}
    deleted = [deleted_with_keys(layers, keys) for layers in metadata.read_layers(FILES, keys)]
    return {key: sorted(names) for found in deleted for key, names in found.items() if names}


def deleted_with_keys(layers: Iterable[MetadataRecords], keys: Collection[str]) -> dict[str, set[str]]:
    """The files in records before the deletion of their key, without those in records after it.

    To Hudi, a file that two log records delete exists.
    """
    chosen = pa.array(keys, pa.string())
    known: defaultdict[str, set[str]] = defaultdict(set)
    deleted: defaultdict[str, set[str]] = defaultdict(set)
    for layer in layers:
        rows = pc.is_in(layer.keys, chosen)
        records = zip(layer.keys.filter(rows).to_pylist(), layer.values.filter(rows).to_pylist(), strict=True)
        for key, files in records:
            if files is None:
                deleted[key] |= known.pop(key, set())
            else:
                names = {name for name, _ in files}
                deleted[key] -= names
                known[key] |= names
    return deleted
