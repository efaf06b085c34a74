"""Writes the manifests of a snapshot and their list: data manifests, and delete manifests beside them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeVar

from hudisql.iceberg.data_file import EPOCH_ORDINAL, Footer, metrics, single_value
from hudisql.iceberg.earlier_manifests import EarlierManifest, file_count
from hudisql.iceberg.iceberg_location import metadata_directory, reader_uri
from hudisql.iceberg.manifest_files import (
    ADDED,
    DATA,
    DELETED,
    EXISTING,
    FORMAT_VERSION,
    POSITION_DELETES,
    WITH_ROW_IDS,
    PartitionField,
    added_entry,
    deleted_entry,
    write_manifest,
    write_manifest_list,
)
from hudisql.iceberg.merged_slices import DELETED_PATH, DELETES_IDS
from hudisql.iceberg.published_files import PublishedFile
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable

_ENTRIES_OF_A_MANIFEST: Final = 100
_LEAST_ENTRIES: Final = 40

_Entries = Sequence[Mapping[str, Any]]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Layout:
    """The Iceberg form of the table's columns: ids by path, the schema and the partition fields."""

    ids: Mapping[str, int]
    schema: Mapping[str, Any]
    partition: Sequence[PartitionField]


@dataclass(frozen=True)
class SnapshotNumbers:
    """The Iceberg table's id, the snapshot's and its parent's, its sequence number, and the version of its
    metadata file.

    `first_row_id` is the first id of its new rows; None in format version 2, which has no row ids.
    """

    table_uuid: str
    snapshot_id: int
    parent_id: int | None
    sequence: int
    version: int
    first_row_id: int | None = None

    @property
    def format_version(self) -> int:
        """The format version of its manifests."""
        return FORMAT_VERSION if self.first_row_id is None else WITH_ROW_IDS

    @property
    def start(self) -> str:
        """The beginning of the names of its files."""
        return f"{self.snapshot_id}-v{self.version}"


def is_small(record: Mapping[str, Any]) -> bool:
    """True for a manifest that a publication writes again, together with others."""
    return file_count(record) < _LEAST_ENTRIES


def data_file_of(
    table: HudiTable, file: PublishedFile, footer: Footer | None, layout: Layout
) -> dict[str, Any]:
    """The file as a manifest has it (the spec's `data_file`); a puffin file has no footer."""
    values = {field.name: value for field, value in zip(layout.partition, file.values, strict=True)}
    place = {"file_path": reader_uri(table, file.path), "file_format": "PARQUET", "partition": values}
    sizes = {"file_size_in_bytes": file.length, "sort_order_id": None}
    deletes_from = "" if file.deletes_from is None else reader_uri(table, file.deletes_from)
    if file.vector is not None:
        return {
            "content": POSITION_DELETES,
            **place,
            **sizes,
            "file_format": "PUFFIN",
            "record_count": file.vector.positions,
            "referenced_data_file": deletes_from,
            "content_offset": file.vector.offset,
            "content_size_in_bytes": file.vector.length,
        }
    assert footer is not None  # all others are parquet files
    if file.deletes_from is None:
        return {"content": DATA, **place, **sizes, **metrics(footer, table.schema, layout.ids)}
    # Both bounds are the whole path: so readers know that the deletes are those of one file.
    bounds = [{"key": DELETED_PATH, "value": deletes_from.encode()}]
    counted = metrics(footer, footer.schema, DELETES_IDS) | {"lower_bounds": bounds, "upper_bounds": bounds}
    return {
        "content": POSITION_DELETES,
        **place,
        **sizes,
        **counted,
        "referenced_data_file": deletes_from,
    }


def write_manifests(
    table: HudiTable,
    numbers: SnapshotNumbers,
    earlier: Sequence[EarlierManifest],
    added: Iterable[Mapping[str, Any]],
    layout: Layout,
    ready: Sequence[Mapping[str, Any] | None] = (),
    present: Iterable[str] = (),
) -> tuple[dict[str, bytes], int]:
    """Write the manifests that change and the list of all; their contents by path, the list last, and the row
    id that follows.

    `ready` are the records of the first manifests, which are written already (None: without entries), and
    `present` the paths of their files. Files of a killed publication are replaced.
    """
    removed = {entry["data_file"]["file_path"]: entry for manifest in earlier for entry in manifest.removed}
    entries = [_entry_of(data_file, removed, numbers) for data_file in added]
    # Files that are looked at again, as after a change of columns, are not gone.
    there = {entry["data_file"]["file_path"] for entry in entries}.union(present)
    manifests: list[Mapping[str, Any]] = [record for record in ready if record is not None]
    written: list[tuple[int, _Entries]] = []
    for content in (DATA, POSITION_DELETES):
        alike = [manifest for manifest in earlier if manifest.record["content"] == content]
        new = [entry for entry in entries if entry["data_file"]["content"] == content]
        kept, changed = _regrouped(alike, new, layout, lambda entry: _gone(entry, there, numbers))
        manifests += kept
        written += [(content, some) for some in changed]
    contents: dict[str, bytes] = {}
    for number, (content, some) in enumerate(written, len(ready)):
        path = join(metadata_directory(table), f"{numbers.start}-m{number}.avro")
        contents[path], record = manifest_of(table, numbers, path, content, some, layout)
        table.storage.write(path, contents[path])
        manifests.append(record)
    manifests, following = _with_first_row_ids(manifests, numbers)
    path = join(metadata_directory(table), f"snap-{numbers.start}.avro")
    contents[path] = write_manifest_list(
        manifests, numbers.snapshot_id, numbers.parent_id, numbers.sequence, numbers.first_row_id
    )
    table.storage.write(path, contents[path])
    return contents, following


def _entry_of(
    data_file: Mapping[str, Any], removed: Mapping[str, Mapping[str, Any]], numbers: SnapshotNumbers
) -> dict[str, Any]:
    """The entry of a new file; a removed one that is present again keeps its sequence number and row ids."""
    entry = removed.get(data_file["file_path"])
    if entry is None or entry["data_file"]["file_size_in_bytes"] != data_file["file_size_in_bytes"]:
        return added_entry(data_file, numbers.snapshot_id)
    first_row_id = entry["data_file"].get("first_row_id")
    return {**entry, "status": EXISTING, "data_file": {**data_file, "first_row_id": first_row_id}}


def _with_first_row_ids(
    manifests: list[Mapping[str, Any]], numbers: SnapshotNumbers
) -> tuple[list[Mapping[str, Any]], int]:
    """The data manifests with their first row ids, which they keep, and the id that follows all.

    As the spec's "First Row ID Inheritance" has it: also manifests from before format version 3 get one.
    """
    following = numbers.first_row_id
    if following is None:
        return manifests, 0
    assigned: list[Mapping[str, Any]] = []
    for record in manifests:
        if record["content"] == DATA and record.get("first_row_id") is None:
            assigned.append({**record, "first_row_id": following})
            following += record["existing_rows_count"] + record["added_rows_count"]
        else:
            assigned.append(record)
    return assigned, following


def manifest_of(
    table: HudiTable, numbers: SnapshotNumbers, path: str, content: int, entries: _Entries, layout: Layout
) -> tuple[bytes, dict[str, Any]]:
    """The manifest of these entries at this path, and its record for the manifest list."""
    written = write_manifest(entries, layout.schema, layout.partition, content, numbers.format_version)
    sequence = numbers.sequence
    live = [entry["sequence_number"] or sequence for entry in entries if entry["status"] != DELETED]
    return written, {
        "manifest_path": reader_uri(table, path),
        "manifest_length": len(written),
        "partition_spec_id": 0,
        "content": content,
        "sequence_number": sequence,
        "min_sequence_number": min(live, default=sequence),
        "added_snapshot_id": numbers.snapshot_id,
        **manifest_counts(entries),
        "partitions": partition_summaries(entries, layout.partition),
    }


def _gone(entry: Mapping[str, Any], present: Collection[str], numbers: SnapshotNumbers) -> Sequence[Any]:
    """The entry of a removed file, unless it is present again."""
    is_present = entry["data_file"]["file_path"] in present
    return [] if is_present else [deleted_entry(entry, numbers.snapshot_id)]


def _regrouped(
    earlier: Sequence[EarlierManifest],
    added: _Entries,
    layout: Layout,
    gone: Callable[[Mapping[str, Any]], Sequence[Any]],
) -> tuple[list[Mapping[str, Any]], list[_Entries]]:
    """The manifests of one content that stay, and the entries of each new one, by `gone` of removed files.

    An added file goes where its partition is, so that the bounds of manifests stay narrow. Files of new
    partitions and of small manifests become manifests of their own.
    """
    stay = [manifest.record for manifest in earlier if not manifest.is_open]
    opened = [manifest for manifest in earlier if manifest.is_open]
    large = [manifest for manifest in opened if len(manifest.kept) >= _LEAST_ENTRIES]
    small = [manifest for manifest in opened if len(manifest.kept) < _LEAST_ENTRIES]
    place_of = {
        _partition_of(entry, layout): place
        for place, manifest in enumerate(large)
        for entry in (*manifest.kept, *manifest.removed)
    }
    added_to: dict[int | None, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in added:
        added_to[place_of.get(_partition_of(entry, layout))].append(entry)
    new: list[_Entries] = []
    for place, manifest in enumerate(large):
        if manifest.removed or added_to[place]:
            deleted = [entry for removed in manifest.removed for entry in gone(removed)]
            new += _pieces([*manifest.kept, *added_to[place]], deleted, layout)
        else:
            stay.append(manifest.record)
    filled = [manifest for manifest in small if manifest.kept]
    removed = [entry for manifest in small for entry in manifest.removed]
    if removed or added_to[None] or len(filled) > 1:
        entries = [*(entry for manifest in filled for entry in manifest.kept), *added_to[None]]
        new += _pieces(entries, [entry for removed_entry in removed for entry in gone(removed_entry)], layout)
    else:
        stay += [manifest.record for manifest in filled]
    return stay, new


def _partition_of(entry: Mapping[str, Any], layout: Layout) -> tuple[object | None, ...]:
    values = entry["data_file"]["partition"]
    return tuple(values[column.name] for column in layout.partition)


def _pieces(entries: _Entries, deleted: _Entries, layout: Layout) -> Iterator[_Entries]:
    """The entries of manifests of about equal length, by partition; the first has the deleted ones, too."""

    def order(entry: Mapping[str, Any]) -> tuple[Any, ...]:
        return partition_order(_partition_of(entry, layout), entry["data_file"]["file_path"])

    if not entries and not deleted:
        return
    pieces = in_pieces(sorted(entries, key=order)) or [[]]
    for place, piece in enumerate(pieces):
        yield [*(() if place else deleted), *piece]


def partition_order(values: Sequence[object | None], path: str) -> tuple[Any, ...]:
    """What files are sorted by in manifests: their partitions, nulls last, and paths."""
    return *((value is None, "" if value is None else value) for value in values), path


def in_pieces(ordered: Sequence[_T]) -> list[Sequence[_T]]:
    """The files or entries of manifests of about equal length."""
    pieces = math.ceil(len(ordered) / _ENTRIES_OF_A_MANIFEST)
    edges = [len(ordered) * piece // pieces for piece in range(pieces + 1)] if pieces else []
    return [ordered[start:end] for start, end in pairwise(edges)]


def manifest_counts(entries: _Entries) -> dict[str, int]:
    """What the manifest list says of a manifest with these entries: files and rows by their status."""
    counts = {}
    for name, status in (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED)):
        files = [entry["data_file"] for entry in entries if entry["status"] == status]
        counts[f"{name}_files_count"] = len(files)
        counts[f"{name}_rows_count"] = sum(file["record_count"] for file in files)
    return counts


def partition_summaries(entries: _Entries, partition: Sequence[PartitionField]) -> list[dict[str, Any]]:
    """For each partition field whether values are null, and the least and greatest of them."""
    summaries = []
    for column in partition:
        values = [entry["data_file"]["partition"][column.name] for entry in entries]
        present: list[Any] = [value for value in values if value is not None]
        summary: dict[str, Any] = {"contains_null": len(present) < len(values), "contains_nan": False}
        summary |= {"lower_bound": None, "upper_bound": None}
        if present:
            summary["lower_bound"] = _partition_value(min(present), column.type)
            summary["upper_bound"] = _partition_value(max(present), column.type)
        summaries.append(summary)
    return summaries


def _partition_value(value: Any, kind: str) -> bytes:
    return single_value(value.toordinal() - EPOCH_ORDINAL if kind == "date" else value, kind)
