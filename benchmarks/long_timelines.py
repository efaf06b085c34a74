"""Tables with long timelines of tiny base files, for what costs grow with instants and files, not with rows.

The first commit writes every file group, each later one rewrites one of them, the groups in turn. All files
are real: both engines read the rows, and their sums tell whether they chose the same files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.format.commit_metadata import WriteStat, new_commit_metadata
from hudisql.format.file_names import base_file_name
from hudisql.format.meta_columns import META_COLUMNS
from hudisql.format.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadata,
    render_partition_metadata,
)
from hudisql.storage import Storage
from hudisql.table.new_table import (
    NewTable,
    make_timeline_directories,
    new_table_properties,
    publish_properties,
)

FIRST_COMMIT = datetime(2026, 1, 1, tzinfo=UTC)
AVRO_SCHEMA = (
    '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":['
    '{"name":"id","type":["null","long"],"default":null},'
    '{"name":"version","type":["null","long"],"default":null},'
    '{"name":"dt","type":["null","string"],"default":null}]}'
)


@dataclass(frozen=True)
class LongTimeline:
    """How many file groups, spread over how many partitions, and how many commits."""

    groups: int
    partitions: int
    commits: int

    @property
    def name(self) -> str:
        """A name for a table of this shape."""
        return f"groups_{self.groups}"

    def instant_time(self, commit: int) -> str:
        """The instant time of a commit, counted from 0; one a minute."""
        return (FIRST_COMMIT + timedelta(minutes=commit)).strftime("%Y%m%d%H%M%S%f")[:17]

    def groups_of(self, commit: int) -> Iterator[int]:
        """The file groups that a commit writes."""
        yield from range(self.groups) if commit == 0 else ((commit - 1) % self.groups,)

    def partition_of(self, group: int) -> str:
        """The partition path of a file group."""
        return f"dt={group % self.partitions:04d}"


def make_table(path: Path, shape: LongTimeline) -> Path:
    """Write the table `bench.<directory>`: a row a file, whose `version` is the number of its commit."""
    storage = Storage()
    make_timeline_directories(storage, str(path))
    for number in range(shape.partitions):
        directory = path / shape.partition_of(number)
        directory.mkdir()
        metadata = render_partition_metadata(PartitionMetadata(shape.instant_time(0), 1), FIRST_COMMIT)
        (directory / PARTITION_METADATA_FILE).write_bytes(metadata)
    for commit in range(shape.commits):
        _write_commit(path, shape, commit)
    table = NewTable(path.name, "bench", "COPY_ON_WRITE", ("id",), ("dt",), "version")
    publish_properties(storage, str(path), new_table_properties(table), FIRST_COMMIT)
    return path


def _write_commit(path: Path, shape: LongTimeline, commit: int) -> None:
    instant_time = shape.instant_time(commit)
    stats = [_write_file(path, shape, commit, group) for group in shape.groups_of(commit)]
    operation = "UPSERT" if commit else "BULK_INSERT"
    timeline = path / ".hoodie"
    (timeline / f"{instant_time}.commit.requested").touch()
    (timeline / f"{instant_time}.inflight").touch()
    (timeline / f"{instant_time}.commit").write_bytes(
        new_commit_metadata(stats, AVRO_SCHEMA, operation).to_json()
    )


def _write_file(path: Path, shape: LongTimeline, commit: int, group: int) -> WriteStat:
    instant_time, partition = shape.instant_time(commit), shape.partition_of(group)
    file_id = f"{UUID(int=group + 1)}-0"
    name = base_file_name(file_id, f"{group}-0-{commit}", instant_time)
    meta = (instant_time, f"{instant_time}_{group}_0", str(group), partition, name)
    columns = {column: [value] for column, value in zip(META_COLUMNS, meta, strict=True)}
    file = path / partition / name
    rows = pa.table(
        {
            **columns,
            "id": pa.array([group], pa.int64()),
            "version": pa.array([commit], pa.int64()),
            "dt": [partition.removeprefix("dt=")],
        }
    )
    pq.write_table(rows, file, compression="none", use_dictionary=False, write_statistics=False)
    previous = commit - shape.groups if commit > shape.groups else 0
    return WriteStat(
        file_id=file_id,
        path=f"{partition}/{name}",
        partition_path=partition,
        prev_commit=shape.instant_time(previous) if commit else "null",
        num_writes=1,
        num_inserts=0 if commit else 1,
        num_update_writes=1 if commit else 0,
        total_write_bytes=file.stat().st_size,
        file_size_in_bytes=file.stat().st_size,
    )
