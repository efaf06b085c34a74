"""Partitions that Apache Hudi has deleted from the index `files`, and that get files again.

A clean of Hudi 1.2 deletes the record of a partition whose file groups are all replaced. Hudi merges the log
records of a key before it looks at the base file: with a new record on top of the deletion it forgets the
deletion, and lists the files of the base file again, which are gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.metadata_table.metadata_records import FILES, MetadataRecords
from hudisql.format.timeline.instant import CLEAN
from hudisql.table.file_slice import FileSlice, LogFile
from hudisql.table.metadata_table.metadata_table import MetadataTable


def files_of_deleted_partitions(metadata: MetadataTable, keys: Collection[str]) -> dict[str, list[str]]:
    """The files that a new record of these keys of `files` has to delete, by key and sorted by name.

    Reads log files of the index only after cleans since it was compacted. Raises CorruptTableError,
    UnsupportedTableError, StorageError.
    """
    deleted = sorted(_keys_deleted_in_logs(metadata).intersection(keys))
    if not deleted:
        return {}
    found = [deleted_with_keys(layers, deleted) for layers in metadata.read_layers_of_keys(FILES, deleted)]
    return {key: sorted(names) for files in found for key, names in files.items() if names}


def _keys_deleted_in_logs(metadata: MetadataTable) -> set[str]:
    """The keys that delete blocks of the index delete."""
    keys: set[str] = set()
    for file_slice in metadata.latest_slices(FILES):
        logs = replace(file_slice, base_file=None, log_files=_logs_with_cleans(metadata, file_slice))
        for _, layer in metadata.open_layers(logs):
            if isinstance(layer, pa.Array):
                keys.update(layer.to_pylist())
    return keys


def _logs_with_cleans(metadata: MetadataTable, file_slice: FileSlice) -> tuple[LogFile, ...]:
    """The log files that may hold records of cleans; in layout 1 their names do not say it."""
    cleans = {instant.timestamp for instant in metadata.table.timeline.completed if instant.action == CLEAN}
    if metadata.own.timeline.layout.has_completion_times:
        return tuple(log for log in file_slice.log_files if log.base_instant_time in cleans)
    return file_slice.log_files if max(cleans, default="") > file_slice.base_instant_time else ()


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
