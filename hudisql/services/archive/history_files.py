"""Appends archived instants of timeline layout 2 to the history, whose files are merged in layers.

Follows `LSMTimelineWriter` and `MetadataConversionUtils.createLSMTimelineInstant` of Hudi 1.2. A new file of
layer 0 is valid once a new manifest lists it, and the version file names the manifest. A crash leaves files
that no manifest lists, or the newest manifest without its version file: the next run writes them again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.errors import UnsupportedTableError
from hudisql.format.timeline.instant import (
    CLEAN,
    CLUSTERING,
    COMPACTION,
    LOG_COMPACTION,
    REPLACE_COMMIT,
    Instant,
)
from hudisql.format.timeline.timeline_history import (
    MANIFEST_NAME,
    VERSION_FILE,
    HistoryFile,
    HistoryInstant,
    files_of_manifest,
    latest_history_version,
    manifest_path,
    read_history,
)
from hudisql.format.timeline.timeline_layout import TimelineLayoutV2
from hudisql.storage import Storage, join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.completion_times import completion_times, history_files
from hudisql.table.timeline.instant_files import read_instant, read_instants

# Hudi's `hoodie.timeline.compaction.batch.size`, `…target.file.max.bytes`, `…manifest.retained.versions`.
_FILES_MERGED: Final = 10
_MOST_BYTES: Final = 1000 << 20
_VERSIONS_KEPT: Final = 3
# The actions whose plans are in the history.
_PLANNED: Final = frozenset({CLEAN, COMPACTION, LOG_COMPACTION, CLUSTERING, REPLACE_COMMIT})
_NULLABLE_TEXT: Final = ["null", {"type": "string", "avro.java.string": "String"}]
_AVRO_SCHEMA: Final = {
    "type": "record",
    "name": "HoodieLSMTimelineInstant",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        *(
            {"name": name, "type": _NULLABLE_TEXT, "default": None}
            for name in ("instantTime", "completionTime", "action")
        ),
        *({"name": name, "type": ["null", "bytes"], "default": None} for name in ("metadata", "plan")),
        {"name": "version", "type": "int", "default": 1},
    ],
}
_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("instantTime", "completionTime", "action")),
        *(pa.field(name, pa.binary()) for name in ("metadata", "plan")),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
_FOOTER: Final = {
    "parquet.avro.schema": json.dumps(_AVRO_SCHEMA, separators=(",", ":")),
    "writer.model.name": "avro",
}


def history_instants(
    table: HudiTable, chosen: Sequence[Instant], pending: Collection[Instant]
) -> list[HistoryInstant]:
    """The completed instants as rows of the history, without those that it already has.

    `pending` are their existing pending states. Raises CorruptTableError, StorageError.
    """
    archived = _archived(table, chosen)
    fresh = [instant for instant in chosen if (instant.timestamp, instant.completed_action) not in archived]
    completions = completion_times(table, fresh)
    plans = {
        (instant.timestamp, instant.completed_action): instant
        for instant in pending
        if instant.action in _PLANNED and instant.state.name == "REQUESTED"
    }
    metadata = list(read_instants(table, fresh))
    return [
        HistoryInstant(instant.timestamp, completions[instant], instant.action, content or None, plan)
        for instant, content in zip(fresh, metadata, strict=True)
        for plan in [_plan(table, instant, plans)]
    ]


def _archived(table: HudiTable, chosen: Sequence[Instant]) -> set[tuple[str, str]]:
    """Times and actions that an interrupted archiving has already written to the history."""
    times = [instant.timestamp for instant in chosen]
    files = [file for file in history_files(table) if any(file.first <= time <= file.last for time in times)]
    return {(instant.timestamp, instant.action) for instant in read_history(table.storage, files)}


def _plan(table: HudiTable, instant: Instant, plans: dict[tuple[str, str], Instant]) -> bytes | None:
    requested = plans.get((instant.timestamp, instant.completed_action))
    return None if requested is None else read_instant(table, requested) or None


def append_to_history(table: HudiTable, instants: Sequence[HistoryInstant]) -> None:
    """Add a file with these instants, oldest first, then merge files and delete superseded ones.

    Called under the lock. Raises UnsupportedTableError for layouts without a history, CorruptTableError,
    StorageError.
    """
    layout = table.timeline.layout
    if not isinstance(layout, TimelineLayoutV2):
        raise UnsupportedTableError(f"{table.base_path} has no history of timeline layout 2")
    storage, directory = table.storage, layout.history_directory(table.base_path)
    storage.make_directories(directory)
    files = history_files(table)
    if instants:
        columns = [
            [instant.timestamp for instant in instants],
            [instant.completion_time for instant in instants],
        ]
        contents = [[instant.metadata for instant in instants], [instant.plan for instant in instants]]
        values = [*columns, [instant.action for instant in instants], *contents, [1] * len(instants)]
        rows = pa.table(values, schema=_SCHEMA)
        first, last = instants[0].timestamp, instants[-1].timestamp
        files = _publish(storage, directory, [*files, _write(storage, directory, first, last, 0, [rows])])
    merged = _merge_layers(storage, directory, files)
    _delete_superseded(storage, directory, _VERSIONS_KEPT + merged)


def _write(
    storage: Storage, directory: str, first: str, last: str, layer: int, rows: Iterable[pa.Table]
) -> HistoryFile:
    path = join(directory, f"{first}_{last}_{layer}.parquet")
    with (
        storage.open_output(path) as sink,
        pq.ParquetWriter(
            sink,
            _SCHEMA,
            compression="gzip",
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
        ) as writer,
    ):
        writer.add_key_value_metadata(_FOOTER)
        for row in rows:
            writer.write_table(row)
    info = storage.info(path)
    return HistoryFile(path, first, last, layer, 0 if info is None else info.length)


def _publish(storage: Storage, directory: str, files: Sequence[HistoryFile]) -> list[HistoryFile]:
    """Publish these files as the newest version of the history."""
    version = (latest_history_version(storage, directory) or 0) + 1
    named = [{"fileName": file.path.rpartition("/")[2], "fileLen": file.length} for file in files]
    # A crash left a manifest of this number without its version file.
    storage.delete_file(manifest_path(directory, version))
    storage.create(manifest_path(directory, version), json.dumps({"files": named}, indent=2).encode())
    storage.delete_file(join(directory, VERSION_FILE))
    storage.create(join(directory, VERSION_FILE), str(version).encode())
    return list(files)


def _merge_layers(storage: Storage, directory: str, files: Sequence[HistoryFile]) -> int:
    """Merge the oldest files of each layer that has enough of them; returns the number of merges."""
    layer = 0
    while True:
        own = sorted((file for file in files if file.layer == layer), key=lambda file: file.path)
        chosen = _within_size(own[:_FILES_MERGED])
        if len(own) < _FILES_MERGED or len(chosen) < 2:
            return layer
        first, last = (
            min(history_file.first for history_file in chosen),
            max(history_file.last for history_file in chosen),
        )
        merged = _write(storage, directory, first, last, layer + 1, _rows(storage, chosen))
        files = _publish(storage, directory, [*(file for file in files if file not in chosen), merged])
        layer += 1


def _within_size(files: Sequence[HistoryFile]) -> list[HistoryFile]:
    total, chosen = 0, []
    for file in files:
        total += file.length
        if total > _MOST_BYTES:
            break
        chosen.append(file)
    return chosen


def _rows(storage: Storage, files: Sequence[HistoryFile]) -> Iterator[pa.Table]:
    for file in files:
        with storage.open_input(file.path) as source:
            yield pq.read_table(source, columns=_SCHEMA.names).cast(_SCHEMA)


def _delete_superseded(storage: Storage, directory: str, kept: int) -> None:
    """Delete all manifests but the newest ones, and the files that none of these lists."""
    entries = storage.list_directory(directory)
    versions = {
        int(matched[1]): entry.path
        for entry in entries
        if (matched := MANIFEST_NAME.fullmatch(entry.name)) is not None
    }
    newest = sorted(versions)[-kept:]
    if len(newest) == len(versions):
        return
    named = {file.path for version in newest for file in files_of_manifest(storage, directory, version)}
    storage.delete_files([path for version, path in versions.items() if version not in newest])
    storage.delete_files(
        [entry.path for entry in entries if entry.name.endswith(".parquet") and entry.path not in named]
    )
