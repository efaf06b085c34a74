"""Writes the manifests of a snapshot and their list: data manifests, and delete manifests beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hudisql.iceberg.data_file import Footer, metrics, single_value
from hudisql.iceberg.earlier_manifests import EarlierManifests
from hudisql.iceberg.iceberg_location import metadata_directory, reader_uri
from hudisql.iceberg.manifest_files import (
    ADDED,
    DATA,
    POSITION_DELETES,
    PartitionField,
    added_entry,
    write_manifest,
    write_manifest_list,
)
from hudisql.iceberg.merged_slices import DELETED_PATH, DELETES_IDS
from hudisql.iceberg.published_files import PublishedFile
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable

_ENTRIES_OF_A_MANIFEST: Final = 250
_EPOCH_ORDINAL: Final = 719_163  # date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Layout:
    """The Iceberg form of the table's columns: ids by path, the schema and the partition fields."""

    ids: Mapping[str, int]
    schema: Mapping[str, Any]
    partition: Sequence[PartitionField]


@dataclass(frozen=True)
class SnapshotNumbers:
    """The snapshot's id, its sequence number, and the version of its metadata file."""

    snapshot_id: int
    sequence: int
    version: int

    @property
    def start(self) -> str:
        """The beginning of the names of its files."""
        return f"{self.snapshot_id}-v{self.version}"


def data_file_of(table: HudiTable, file: PublishedFile, footer: Footer, layout: Layout) -> dict[str, Any]:
    """The file as a manifest has it (the spec's `data_file`)."""
    values = {field.name: value for field, value in zip(layout.partition, file.values, strict=True)}
    place = {"file_path": reader_uri(table, file.path), "file_format": "PARQUET", "partition": values}
    sizes = {"file_size_in_bytes": file.length, "sort_order_id": None}
    if file.deletes_from is None:
        return {"content": DATA, **place, **sizes, **metrics(footer, table.schema, layout.ids)}
    deletes_from = reader_uri(table, file.deletes_from)
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
    earlier: EarlierManifests,
    added: Iterable[Mapping[str, Any]],
    layout: Layout,
) -> str:
    """Write manifests of the kept entries and the added files, and their list; the list's path.

    Files of a killed publication are replaced.
    """
    entries = [*earlier.entries, *(added_entry(data_file, numbers.snapshot_id) for data_file in added)]
    entries.sort(key=lambda entry: (entry["data_file"]["content"], entry["data_file"]["file_path"]))
    manifests = list(earlier.manifests)
    for number, (content, some) in enumerate(_pieces(entries)):
        written = write_manifest(some, layout.schema, layout.partition, content)
        path = join(metadata_directory(table), f"{numbers.start}-m{number}.avro")
        table.storage.write(path, written)
        sequence = numbers.sequence
        manifests.append(
            {
                "manifest_path": reader_uri(table, path),
                "manifest_length": len(written),
                "partition_spec_id": 0,
                "content": content,
                "sequence_number": sequence,
                "min_sequence_number": min(entry["sequence_number"] or sequence for entry in some),
                "added_snapshot_id": numbers.snapshot_id,
                **_manifest_counts(some),
                "partitions": _partition_summaries(some, layout.partition),
            }
        )
    path = join(metadata_directory(table), f"snap-{numbers.start}.avro")
    table.storage.write(path, write_manifest_list(manifests, numbers.snapshot_id, numbers.sequence))
    return reader_uri(table, path)


def _pieces(entries: Sequence[Mapping[str, Any]]) -> Iterable[tuple[int, Sequence[Mapping[str, Any]]]]:
    """The entries of each manifest, with their content."""
    for content in (DATA, POSITION_DELETES):
        alike = [entry for entry in entries if entry["data_file"]["content"] == content]
        for first in range(0, len(alike), _ENTRIES_OF_A_MANIFEST):
            yield content, alike[first : first + _ENTRIES_OF_A_MANIFEST]


def _manifest_counts(entries: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    rows = [
        sum(entry["data_file"]["record_count"] for entry in entries if (entry["status"] == ADDED) is is_added)
        for is_added in (True, False)
    ]
    added = sum(entry["status"] == ADDED for entry in entries)
    files = {"added_files_count": added, "existing_files_count": len(entries) - added}
    counted = {"added_rows_count": rows[0], "existing_rows_count": rows[1]}
    return {**files, **counted, "deleted_files_count": 0, "deleted_rows_count": 0}


def _partition_summaries(
    entries: Sequence[Mapping[str, Any]], partition: Sequence[PartitionField]
) -> list[dict[str, Any]]:
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
    return single_value(value.toordinal() - _EPOCH_ORDINAL if kind == "date" else value, kind)
