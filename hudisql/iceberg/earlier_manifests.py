"""The manifests of the last publication: what the next one keeps of them.

Only manifests that may have files of the changed partitions are read, by the bounds in the manifest list, and
small ones, which are written again so that they do not become many. So the footer of a file is read once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from hudisql.errors import CorruptTableError, NoSuchPathError
from hudisql.iceberg.data_file import EPOCH_ORDINAL
from hudisql.iceberg.manifest_files import ADDED, DELETED, EXISTING, PartitionField, read_records
from hudisql.iceberg.recent_files import keep_content, recent_content
from hudisql.iceberg.stored_entries import read_entries
from hudisql.storage import Storage, join
from hudisql.storage.parallel_reads import read_small

_NUMBERS: Final[Mapping[str, str]] = {"boolean": "<?", "int": "<i", "date": "<i", "long": "<q"}
PartitionValues = tuple[object | None, ...]
"""The values of the partition columns of a file."""


@dataclass(frozen=True)
class EarlierManifest:
    """A manifest, `record` in the manifest list. If it was read (`is_open`), the entries of files that stay,
    as EXISTING, and of those that go.
    """

    record: Mapping[str, Any]
    is_open: bool = False
    kept: tuple[dict[str, Any], ...] = ()
    removed: tuple[dict[str, Any], ...] = ()


def file_count(record: Mapping[str, Any]) -> int:
    """The number of files that a manifest has in its snapshot."""
    return int(record["added_files_count"]) + int(record["existing_files_count"])


def read_earlier_manifests(
    storage: Storage,
    directory: str,
    list_name: str,
    is_chosen: Callable[[Mapping[str, Any]], bool],
    stays: Callable[[Mapping[str, Any]], bool],
) -> list[EarlierManifest]:
    """The manifests of the manifest list `list_name` in the metadata directory, those chosen with entries.

    `stays` says of a data file whether the new snapshot has it. Raises CorruptTableError, StorageError.
    """
    records = read_manifest_records(storage, join(directory, list_name))
    chosen = [record for record in records if is_chosen(record)]
    names = [join(directory, manifest_name(record)) for record in chosen]
    contents = read_small(lambda name: _read(storage, name, read_entries), names, directory)
    opened = {
        manifest_name(record): _opened(record, entries, stays)
        for record, entries in zip(chosen, contents, strict=True)
    }
    return [opened.get(manifest_name(record)) or EarlierManifest(record) for record in records]


def _opened(
    record: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    stays: Callable[[Mapping[str, Any]], bool],
) -> EarlierManifest:
    current = [_as_existing(entry, record) for entry in with_row_ids(record, entries)]
    kept = tuple(entry for entry in current if stays(entry["data_file"]))
    removed = tuple(entry for entry in current if not stays(entry["data_file"]))
    return EarlierManifest(record, True, kept, removed)


def with_row_ids(
    record: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """The entries of a manifest that are not deleted; data files of format version 3 with their first row id.

    A file that has none takes it from its manifest and the files before it (the spec's "First Row ID
    Inheritance").
    """
    following = record.get("first_row_id")
    for entry in entries:
        if entry["status"] == DELETED:
            continue
        data_file = entry["data_file"]
        if following is None or data_file.get("first_row_id") is not None:
            yield entry
            continue
        yield {**entry, "data_file": {**data_file, "first_row_id": following}}
        following += data_file["record_count"]


def manifest_name(record: Mapping[str, Any]) -> str:
    """The name of a manifest's file in the metadata directory."""
    return str(record["manifest_path"]).rpartition("/")[2]


def manifest_list_name(snapshot: Mapping[str, Any]) -> str:
    """The name of the file of a snapshot's manifest list in the metadata directory."""
    return str(snapshot["manifest-list"]).rpartition("/")[2]


def _as_existing(entry: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The entry as another snapshot's; an added one takes its sequence numbers from its manifest."""
    if entry["status"] != ADDED:
        return dict(entry)
    sequence = manifest["sequence_number"]
    numbers = {"sequence_number": sequence, "file_sequence_number": sequence}
    return {**entry, "status": EXISTING, **numbers}


def may_have_files_of(
    record: Mapping[str, Any], partitions: Collection[PartitionValues], columns: Sequence[PartitionField]
) -> bool:
    """True if the manifest may have a file of one of the partitions, by its bounds."""
    bounds = [
        (
            summary["contains_null"],
            _value(summary["lower_bound"], column.type),
            _value(summary["upper_bound"], column.type),
        )
        for summary, column in zip(record["partitions"] or (), columns, strict=True)
    ]
    return any(
        all(_is_within(value, *bound) for value, bound in zip(values, bounds, strict=True))
        for values in partitions
    )


def _is_within(value: object | None, has_null: bool, lower: Any, upper: Any) -> bool:
    if value is None:
        return has_null
    return lower is not None and lower <= value <= upper


def _value(bound: bytes | None, kind: str) -> object | None:
    if bound is None or kind == "string":
        return None if bound is None else bound.decode()
    [number] = struct.unpack(_NUMBERS[kind], bound)
    return date.fromordinal(number + EPOCH_ORDINAL) if kind == "date" else number


def read_manifest_records(storage: Storage, path: str) -> list[dict[str, Any]]:
    """The records of a manifest or a manifest list. Raises CorruptTableError, StorageError."""
    return _read(storage, path, read_records)


def _read(
    storage: Storage, path: str, parse: Callable[[bytes], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    hint = "delete the table's directory .hoodie/iceberg and publish again"
    try:
        content = recent_content(path)
        if content is None:
            content = storage.read(path)
            keep_content(path, content)
        return parse(content)
    except NoSuchPathError as error:
        raise CorruptTableError(f"{path} of the Iceberg table is missing", hint=hint) from error
    except ValueError as error:
        raise CorruptTableError(f"{path} is not a manifest of Iceberg: {error}", hint=hint) from error
