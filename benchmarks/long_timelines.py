"""Tables with long timelines of tiny base files, for what costs grow with instants and files, not with rows.

The first commit writes every file group, each later one rewrites one of them, the groups in turn. All files
are real: both engines read the rows, and their sums tell whether they chose the same files. Tables for
planning only have files of one byte, and are merge-on-read, too: their later commits then write log files,
and the middle commit is a compaction of all groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.format.paths.file_names import base_file_name, log_file_name
from hudisql.format.paths.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadata,
    render_partition_metadata,
)
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.format.table_properties import COPY_ON_WRITE, MERGE_ON_READ
from hudisql.format.timeline.commit_metadata import WriteStat, new_commit_metadata
from hudisql.format.timeline.commit_metadata_avro import render_commit_metadata
from hudisql.format.timeline.instant import COMMIT, DELTA_COMMIT, Instant, InstantState
from hudisql.format.timeline.timeline_layout import instant_path, timeline_layout
from hudisql.storage import Storage
from hudisql.table.hudi_table import LAYOUT_OF_VERSION
from hudisql.table.properties.new_table import (
    NewTable,
    make_timeline_directories,
    new_table_properties,
    publish_properties,
)

_BYTE = b"#"
FIRST_COMMIT = datetime(2026, 1, 1, tzinfo=UTC)
AVRO_SCHEMA = (
    '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":['
    '{"name":"id","type":["null","long"],"default":null},'
    '{"name":"version","type":["null","long"],"default":null},'
    '{"name":"dt","type":["null","string"],"default":null}]}'
)


@dataclass(frozen=True)
class LongTimeline:
    """How many file groups, spread over how many partitions, and how many commits; of which table."""

    groups: int
    partitions: int
    commits: int
    table_type: str = COPY_ON_WRITE
    version: int = 6
    has_rows: bool = True

    @property
    def name(self) -> str:
        """A name for a table of this shape."""
        return f"groups_{self.groups}"

    def instant_time(self, commit: int) -> str:
        """The instant time of a commit, counted from 0; one a minute."""
        return (FIRST_COMMIT + timedelta(minutes=commit)).strftime("%Y%m%d%H%M%S%f")[:17]

    def groups_of(self, commit: int) -> Iterator[int]:
        """The file groups that a commit writes."""
        yield from range(self.groups) if self.writes_all(commit) else ((commit - 1) % self.groups,)

    def writes_all(self, commit: int) -> bool:
        """True for the first commit and for the compaction."""
        return commit == 0 or (self.table_type == MERGE_ON_READ and commit == self.commits // 2)

    def writes_log(self, commit: int) -> bool:
        """True for a commit that writes a log file."""
        return self.table_type == MERGE_ON_READ and not self.writes_all(commit)

    def base_commit(self, commit: int) -> int:
        """The commit that wrote the base files onto which a commit's log file is merged."""
        return self.commits // 2 if commit > self.commits // 2 else 0

    def partition_of(self, group: int) -> str:
        """The partition path of a file group."""
        return f"dt={group % self.partitions:04d}"


def make_table(path: Path, shape: LongTimeline) -> Path:
    """Write the table `bench.<directory>`: a row a file, whose `version` is the number of its commit."""
    storage = Storage()
    make_timeline_directories(storage, str(path), shape.version)
    for number in range(shape.partitions):
        directory = path / shape.partition_of(number)
        directory.mkdir()
        metadata = render_partition_metadata(PartitionMetadata(shape.instant_time(0), 1), FIRST_COMMIT)
        (directory / PARTITION_METADATA_FILE).write_bytes(metadata)
    for commit in range(shape.commits):
        _write_commit(path, shape, commit)
    table = NewTable(path.name, "bench", shape.table_type, ("id",), ("dt",), "version", version=shape.version)
    publish_properties(storage, str(path), new_table_properties(table), FIRST_COMMIT)
    return path


def _write_commit(path: Path, shape: LongTimeline, commit: int) -> None:
    instant_time = shape.instant_time(commit)
    write = _write_log if shape.writes_log(commit) else _write_file
    stats = [write(path, shape, commit, group) for group in shape.groups_of(commit)]
    operation = "UPSERT" if commit else "BULK_INSERT"
    if commit and shape.writes_all(commit):
        operation = "COMPACT"
    layout = timeline_layout(LAYOUT_OF_VERSION[shape.version])
    assert layout is not None
    metadata = new_commit_metadata(stats, AVRO_SCHEMA, operation)
    completion_time = shape.instant_time(commit)[:-5] + "30000" if layout.has_completion_times else ""
    action = DELTA_COMMIT if shape.writes_log(commit) else COMMIT
    contents = {
        InstantState.REQUESTED: b"",
        InstantState.INFLIGHT: b"",
        InstantState.COMPLETED: render_commit_metadata(metadata) if completion_time else metadata.to_json(),
    }
    for state, content in contents.items():
        instant = Instant(instant_time, action, state, completion_time)
        Path(instant_path(str(path), layout, instant)).write_bytes(content)


def _write_log(path: Path, shape: LongTimeline, commit: int, group: int) -> WriteStat:
    partition, file_id = shape.partition_of(group), _file_id(group)
    base = shape.base_commit(commit)
    number = (commit - 1 - base) // shape.groups + 1
    is_own = LAYOUT_OF_VERSION[shape.version] != 1
    name = log_file_name(
        file_id,
        shape.instant_time(commit if is_own else base),
        1 if is_own else number,
        f"{group}-0-{commit}",
    )
    (path / partition / name).write_bytes(_BYTE)
    return WriteStat(
        file_id=file_id,
        path=f"{partition}/{name}",
        partition_path=partition,
        prev_commit=shape.instant_time(commit if is_own else base),
        num_writes=1,
        num_update_writes=1,
        total_write_bytes=1,
        file_size_in_bytes=1,
    )


def _write_file(path: Path, shape: LongTimeline, commit: int, group: int) -> WriteStat:
    instant_time, partition = shape.instant_time(commit), shape.partition_of(group)
    file_id = _file_id(group)
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
    if shape.has_rows:
        pq.write_table(rows, file, compression="none", use_dictionary=False, write_statistics=False)
    else:
        file.write_bytes(_BYTE)
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


def _file_id(group: int) -> str:
    return f"{UUID(int=group + 1)}-0"
