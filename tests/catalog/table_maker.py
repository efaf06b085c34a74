"""Makes Hudi tables without rows: all that a metastore sync looks at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from operator import methodcaller
from pathlib import Path

import pyarrow as pa

from hudisql.catalog.client import MetastoreClient
from hudisql.format.paths.partition_metadata import PartitionMetadata, render_partition_metadata
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.table_properties import render_table_properties
from hudisql.format.timeline.commit_metadata import DELETE_PARTITION, CommitMetadata, WriteStat
from hudisql.table.hudi_table import HudiTable
from tests.opened import open_at

NOW = datetime(2024, 3, 1, tzinfo=UTC)


class TableMaker:
    """Makes Hudi tables without rows: their properties, commits, partition markers and empty files."""

    def __init__(self, base_path: Path) -> None:
        self.base_path = base_path
        self._commits = 0

    def create(self, schema: pa.Schema, partition_by: Sequence[str] = (), **properties: str) -> TableMaker:
        values = {
            "hoodie.table.name": "made",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "6",
            "hoodie.timeline.layout.version": "1",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.table.partition.fields": ",".join(partition_by),
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.partitionpath.urlencode": "true",
            **{name.replace("__", "."): value for name, value in properties.items()},
        }
        hoodie = self.base_path / ".hoodie"
        hoodie.mkdir(parents=True)
        (hoodie / "hoodie.properties").write_bytes(render_table_properties(values, NOW))
        return self.commit(schema)

    def commit(self, schema: pa.Schema, partitions: Sequence[str] = ()) -> TableMaker:
        self._commits += 1
        instant = self._instant
        metadata = CommitMetadata(
            partition_to_write_stats={
                path: (
                    WriteStat(file_id="f-0", path=f"{path}/f-0_0-0-0_{instant}.parquet", partition_path=path),
                )
                for path in partitions
            },
            extra_metadata={"schema": avro_from_arrow(schema, "made")},
            operation_type="UPSERT",
        )
        for path in partitions:
            directory = self.base_path / path
            directory.mkdir(parents=True, exist_ok=True)
            marker = render_partition_metadata(PartitionMetadata(instant, path.count("/") + 1), NOW)
            (directory / ".hoodie_partition_metadata").write_bytes(marker)
            (directory / f"f-0_0-0-0_{instant}.parquet").touch()
        return self._publish(instant, "commit", metadata)

    def drop(self, partitions: Sequence[str], file_id: str = "f-0") -> TableMaker:
        """A DROP PARTITION that saw one file group in each."""
        self._commits += 1
        metadata = CommitMetadata(
            partition_to_write_stats={},
            partition_to_replace_file_ids=dict.fromkeys(partitions, (file_id,)),
            extra_metadata={"schema": ""},
            operation_type=DELETE_PARTITION,
        )
        return self._publish(self._instant, "replacecommit", metadata)

    @property
    def _instant(self) -> str:
        return f"2024030100000{self._commits}000"

    def _publish(self, instant: str, action: str, metadata: CommitMetadata) -> TableMaker:
        inflight = ".inflight" if action == "commit" else f".{action}.inflight"
        for state in (f".{action}.requested", inflight, f".{action}"):
            (self.base_path / ".hoodie" / f"{instant}{state}").write_bytes(metadata.to_json())
        return self

    def open(self) -> HudiTable:
        return open_at(self.base_path)


def values_where(client: MetastoreClient, database: str, name: str, condition: str) -> list[tuple[str, ...]]:
    """The values of the partitions for which the metastore itself finds that Hive's condition holds."""
    found = client._connection.call(methodcaller("get_partitions_by_filter", database, name, condition, -1))
    return [tuple(partition.values) for partition in found]
