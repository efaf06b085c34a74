"""Small tables of real files and commits, written without Spark: what an index is built from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.format.paths.file_names import base_file_name
from hudisql.format.paths.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadata,
    render_partition_metadata,
)
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.format.timeline.commit_metadata import LogWriteStat, WriteStat, new_commit_metadata
from hudisql.read.files.conform import batch_of
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.properties.new_table import NewTable, publish_new_table
from hudisql.write.handle.base_file import base_file_avro_schema
from hudisql.write.handle.log_file import data_blocks, delete_block, write_log_file

STORAGE = Storage()
SCHEMA = pa.schema([pa.field("id", pa.string()), pa.field("dt", pa.string())])
AVRO = base_file_avro_schema(SCHEMA, "t")
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def instant_time(number: int) -> str:
    """The instant time of a commit: one a minute."""
    return f"20261101{number // 60:02d}{number % 60:02d}00000"


class SmallTable:
    """A merge-on-read table in the making; commits are written one by one, completed or not."""

    def __init__(self, path: Path, *, table_type: str = "MERGE_ON_READ") -> None:
        self.path = path
        table = NewTable("t", "d", table_type, ("id",), ("dt",))
        publish_new_table(STORAGE, str(path), table, NOW)
        self._versions: dict[str, int] = {}

    def open(self) -> HudiTable:
        """The table as it is now."""
        return open_table(STORAGE, str(self.path))

    def base_file(self, partition: str, file_id: str, number: int, keys: Sequence[str]) -> WriteStat:
        """A base file of commit `number` with these keys."""
        instant = instant_time(number)
        directory = self._directory(partition, instant)
        name = base_file_name(file_id, "0-0-0", instant)
        rows = self._rows(partition, file_id, instant, keys)
        pq.write_table(pa.Table.from_batches([rows]), directory / name)
        count = len(keys)
        return WriteStat(
            file_id=file_id,
            path=f"{partition}/{name}",
            partition_path=partition,
            num_writes=count,
            num_inserts=count,
        )

    def log_file(
        self,
        partition: str,
        file_id: str,
        base: int,
        number: int,
        keys: Sequence[str],
        deleted: Sequence[str] = (),
    ) -> WriteStat:
        """A log file of commit `number` on top of the slice of commit `base`."""
        instant = instant_time(number)
        directory = self._directory(partition, instant)
        blocks = []
        if keys:
            rows = self._rows(partition, file_id, instant, keys)
            blocks += [block for block, _ in data_blocks(rows, SCHEMA, AVRO, instant)]
        if deleted:
            blocks.append(delete_block(pa.array(deleted), partition, AVRO, instant))
        version = self._versions[file_id] = self._versions.get(file_id, 0) + 1
        log = write_log_file(STORAGE, str(directory), file_id, instant_time(base), version, "0-0-0", blocks)
        return WriteStat(
            file_id=file_id,
            path=f"{partition}/{Path(log.path).name}",
            partition_path=partition,
            num_writes=len(keys),
            num_update_writes=len(keys),
            num_deletes=len(deleted),
            log_write=LogWriteStat(log_version=version, log_offset=0, base_file=None, log_files=()),
        )

    def begin(self, number: int, action: str = "deltacommit") -> None:
        """A commit that is pending."""
        (self.path / ".hoodie" / f"{instant_time(number)}.{action}.requested").touch()
        (self.path / ".hoodie" / f"{instant_time(number)}.{action}.inflight").touch()

    def commit(
        self,
        number: int,
        stats: Iterable[WriteStat],
        *,
        action: str = "deltacommit",
        operation: str = "UPSERT",
        replaced: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Complete a commit."""
        metadata = new_commit_metadata(stats, AVRO, operation, replaced)
        (self.path / ".hoodie" / f"{instant_time(number)}.{action}").write_bytes(metadata.to_json())

    def _directory(self, partition: str, instant: str) -> Path:
        directory = self.path / partition
        marker = directory / PARTITION_METADATA_FILE
        if not marker.exists():
            directory.mkdir(parents=True, exist_ok=True)
            marker.write_bytes(render_partition_metadata(PartitionMetadata(instant, 1), NOW))
        return directory

    def _rows(self, partition: str, file_id: str, instant: str, keys: Sequence[str]) -> pa.RecordBatch:
        count = len(keys)
        meta = [[instant] * count, [f"{instant}_0_{n}" for n in range(count)], list(keys)]
        meta += [[partition] * count, [file_id] * count]
        values = [list(keys), [partition.removeprefix("dt=")] * count]
        columns = [pa.array(each, pa.string()) for each in (*meta, *values)]
        return batch_of(columns, pa.schema([*META_SCHEMA, *SCHEMA]), count)
