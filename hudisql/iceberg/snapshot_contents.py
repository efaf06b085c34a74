"""The current snapshot of a published table, read from its files, and whether these agree with each other.

Follows the Iceberg spec, "Snapshots", "Manifest Lists" and "Manifests". Looks at no data file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hudisql.errors import CorruptTableError, NoSuchPathError, StorageError
from hudisql.iceberg.earlier_manifests import (
    manifest_list_name,
    manifest_name,
    read_manifest_records,
    with_row_ids,
)
from hudisql.iceberg.iceberg_location import metadata_directory, reader_uri
from hudisql.iceberg.iceberg_schema import iceberg_fields, name_mapping
from hudisql.iceberg.manifest_files import ADDED, DATA, DELETED, EXISTING, PartitionField
from hudisql.iceberg.metadata_files import LastMetadata, hint_path, metadata_path
from hudisql.iceberg.publication_problem import (
    MANIFEST_MISSING,
    MANIFEST_WRONG,
    METADATA_WRONG,
    PublicationProblem,
)
from hudisql.iceberg.snapshot_manifests import Layout, manifest_counts, partition_summaries
from hudisql.iceberg.snapshot_totals import totals_of
from hudisql.storage import join
from hudisql.storage.parallel_reads import read_small
from hudisql.table.hudi_table import HudiTable

_Entries = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class SnapshotContents:
    """The current snapshot: the files of its manifests (the spec's `data_file`), and what is wrong with them.

    `is_complete` is False if a manifest could not be read, so that files are missing.
    """

    files: tuple[Mapping[str, Any], ...]
    problems: tuple[PublicationProblem, ...]
    is_complete: bool


def read_snapshot(table: HudiTable, last: LastMetadata, fields: Sequence[PartitionField]) -> SnapshotContents:
    """The current snapshot of the metadata, whose partition columns are `fields`. Raises StorageError."""
    current = last.snapshots[-1]
    directory = metadata_directory(table)
    try:
        records = read_manifest_records(table.storage, join(directory, manifest_list_name(current)))
    except CorruptTableError as error:
        return SnapshotContents((), (_unreadable(table, manifest_list_name(current), error),), False)
    read = read_small(lambda record: _entries_of(table, record), records, directory)
    lengths = {info.name: info.length for info in table.storage.list_directory(directory)}
    problems: list[PublicationProblem] = []
    files: list[Mapping[str, Any]] = []
    for record, entries in zip(records, read, strict=True):
        if isinstance(entries, PublicationProblem):
            problems.append(entries)
            continue
        problems += _record_problems(table, record, lengths, current)
        problems += _row_id_problems(table, last, record, entries)
        problems += _manifest_problems(table, record, entries, fields)
        files += [entry["data_file"] for entry in entries if entry["status"] != DELETED]
    is_complete = all(not isinstance(entries, PublicationProblem) for entries in read)
    if is_complete:
        problems += _total_problems(table, last, files)
    problems += _repeated_files(table, files)
    problems += _missing_of_past_snapshots(table, last, lengths)
    return SnapshotContents(tuple(files), tuple(problems), is_complete)


def metadata_problems(table: HudiTable, last: LastMetadata, layout: Layout) -> Iterator[PublicationProblem]:
    """What the newest metadata file says otherwise than the table: columns, partition fields, snapshots.

    `layout` is that of the table at the published instant. Raises StorageError.
    """
    document, path = last.document, metadata_path(table, last.version)
    assert document is not None  # the caller has looked
    yield from _hint_problems(table, last.version)
    schemas = {schema["schema-id"]: schema["fields"] for schema in document["schemas"]}
    properties = document["properties"]
    wrong = {
        "the columns are not those of the table": schemas.get(document["current-schema-id"])
        != iceberg_fields(table.schema, layout.ids),
        "the partition fields are not those of the table": document["partition-specs"][-1]["fields"]
        != [field.document() for field in layout.partition],
        "the name mapping does not have the ids of the columns": json.loads(
            properties["schema.name-mapping.default"]
        )
        != name_mapping(layout.ids),
        "columns have ids above last-column-id": document["last-column-id"]
        < max(layout.ids.values(), default=0),
        "the branch main is not at the current snapshot": document["refs"]["main"]["snapshot-id"]
        != document["current-snapshot-id"],
        "gc.enabled is not false: maintenance of other engines would delete source files": properties.get(
            "gc.enabled"
        )
        != "false",
    }
    for detail, is_wrong in wrong.items():
        if is_wrong:
            yield PublicationProblem(METADATA_WRONG, None, path, detail)


def _hint_problems(table: HudiTable, version: int) -> Iterator[PublicationProblem]:
    path = hint_path(table)
    try:
        named = table.storage.read(path).decode(errors="replace").strip()
    except NoSuchPathError:
        named = "nothing"
    if named != str(version):
        detail = f"it names {named}, the newest version is {version}: CALL sync_iceberg lets it name that"
        yield PublicationProblem(METADATA_WRONG, None, path, detail)


def _entries_of(table: HudiTable, record: Mapping[str, Any]) -> _Entries | PublicationProblem:
    name = manifest_name(record)
    try:
        return read_manifest_records(table.storage, join(metadata_directory(table), name))
    except CorruptTableError as error:
        return _unreadable(table, name, error)


def _unreadable(table: HudiTable, name: str, error: CorruptTableError) -> PublicationProblem:
    return PublicationProblem(MANIFEST_MISSING, None, join(metadata_directory(table), name), error.message)


def _record_problems(
    table: HudiTable, record: Mapping[str, Any], lengths: Mapping[str, int], snapshot: Mapping[str, Any]
) -> Iterator[PublicationProblem]:
    """What the manifest list says otherwise than the manifest's file and the snapshot."""
    path = join(metadata_directory(table), manifest_name(record))
    if record["manifest_path"] != reader_uri(table, path):
        detail = f"the manifest list names it {record['manifest_path']}"
        yield PublicationProblem(MANIFEST_WRONG, None, path, detail)
    length = lengths.get(manifest_name(record), record["manifest_length"])
    if length != record["manifest_length"]:
        detail = f"it has {length:,} bytes, the manifest list says {record['manifest_length']:,}"
        yield PublicationProblem(MANIFEST_WRONG, None, path, detail)
    if record["sequence_number"] > snapshot["sequence-number"]:
        detail = f"its sequence number {record['sequence_number']} is above the snapshot's"
        yield PublicationProblem(MANIFEST_WRONG, None, path, detail)


def _row_id_problems(
    table: HudiTable, last: LastMetadata, record: Mapping[str, Any], entries: _Entries
) -> Iterator[PublicationProblem]:
    """Data files of format version 3 without row ids, or with ids that the table has not given yet."""
    following = (last.document or {}).get("next-row-id")
    if following is None or record["content"] != DATA:
        return
    path = join(metadata_directory(table), manifest_name(record))
    if record.get("first_row_id") is None:
        yield PublicationProblem(MANIFEST_WRONG, None, path, "the manifest list gives it no first row id")
        return
    for entry in with_row_ids(record, entries):
        file = entry["data_file"]
        end = file["first_row_id"] + file["record_count"]
        if end > following:
            detail = f"{file['file_path']} has row ids up to {end:,}, the table's next is {following:,}"
            yield PublicationProblem(MANIFEST_WRONG, None, path, detail)


def _manifest_problems(
    table: HudiTable, record: Mapping[str, Any], entries: _Entries, fields: Sequence[PartitionField]
) -> Iterator[PublicationProblem]:
    """What the manifest list says otherwise than the entries of the manifest."""
    path = join(metadata_directory(table), manifest_name(record))
    for name, expected_count in manifest_counts(entries).items():
        if record[name] != expected_count:
            detail = f"the manifest list says {name} {record[name]}, the manifest has {expected_count}"
            yield PublicationProblem(MANIFEST_WRONG, None, path, detail)
    expected_summaries = partition_summaries(entries, fields)
    for field, expected, summary in zip(fields, expected_summaries, record["partitions"] or (), strict=False):
        if expected != summary:
            detail = f"its bounds of the partition column {field.name} are not those of its files"
            yield PublicationProblem(MANIFEST_WRONG, None, path, detail)
    for entry in entries:
        file, problem = entry["data_file"], _entry_problem(entry, record)
        if problem is not None:
            yield PublicationProblem(
                MANIFEST_WRONG, None, path, f"the entry of {file['file_path']} {problem}"
            )


def _entry_problem(entry: Mapping[str, Any], record: Mapping[str, Any]) -> str | None:
    status, sequence = entry["status"], entry["sequence_number"]
    if (entry["data_file"]["content"] == DATA) != (record["content"] == DATA):
        return f"has the content {entry['data_file']['content']}, its manifest {record['content']}"
    if status not in (ADDED, EXISTING, DELETED):
        return f"has the status {status}"
    if status != ADDED and sequence is None:
        return "has no sequence number"
    is_live = status != DELETED and sequence is not None
    if is_live and not record["min_sequence_number"] <= sequence <= record["sequence_number"]:
        return f"has the sequence number {sequence}, outside of its manifest's"
    return None


def _total_problems(
    table: HudiTable, last: LastMetadata, files: Sequence[Mapping[str, Any]]
) -> Iterator[PublicationProblem]:
    for name, expected in totals_of(table, {}, files, []).items():
        if last.summary[name] != expected:
            detail = f"the snapshot says {name} {last.summary[name]}, its manifests have {expected}"
            yield PublicationProblem(MANIFEST_WRONG, None, metadata_path(table, last.version), detail)


def _repeated_files(table: HudiTable, files: Sequence[Mapping[str, Any]]) -> Iterator[PublicationProblem]:
    for path, count in Counter(file["file_path"] for file in files).items():
        if count > 1:
            detail = f"{path} is {count} times in the snapshot"
            yield PublicationProblem(MANIFEST_WRONG, None, metadata_directory(table), detail)


def _missing_of_past_snapshots(
    table: HudiTable, last: LastMetadata, names: Collection[str]
) -> Iterator[PublicationProblem]:
    """The manifest lists and manifests of past snapshots that are gone; `names` are the files there."""
    for snapshot in last.snapshots[:-1]:
        list_name = manifest_list_name(snapshot)
        missing = [list_name] if list_name not in names else []
        if not missing:
            try:
                records = read_manifest_records(table.storage, join(metadata_directory(table), list_name))
                missing = [name for record in records if (name := manifest_name(record)) not in names]
            except (CorruptTableError, StorageError):
                missing = [list_name]
        for name in missing:
            detail = f"it is gone or unreadable, and the past snapshot {snapshot['snapshot-id']} needs it"
            yield PublicationProblem(MANIFEST_MISSING, None, join(metadata_directory(table), name), detail)
