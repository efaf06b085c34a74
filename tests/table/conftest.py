"""Small tables of empty files, for what only names and metadata decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hudisql.format.table_properties import render_table_properties
from hudisql.format.timeline.commit_metadata import CommitMetadata, WriteStat

SCHEMA = (
    '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":['
    '{"name":"id","type":["null","string"],"default":null},'
    '{"name":"dt","type":["null","string"],"default":null}]}'
)


class TableDirectory:
    """A table in the making: instants, partitions and empty files are added one by one."""

    def __init__(self, path: Path, properties: Mapping[str, str]) -> None:
        self.path = path
        values = {
            "hoodie.table.name": "t",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "6",
            "hoodie.table.partition.fields": "dt",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            **properties,
        }
        self.file(".hoodie/hoodie.properties", render_table_properties(values, datetime.now(UTC)))

    def file(self, name: str, content: bytes = b"") -> str:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return str(target)

    def partition(self, path: str, marker: str = ".hoodie_partition_metadata") -> None:
        self.file(f"{path}/{marker}" if path else marker)

    def base_file(self, partition: str, file_id: str, instant_time: str, token: str = "0-0-0") -> str:
        return self.file(f"{partition}/{file_id}_{token}_{instant_time}.parquet")

    def log_file(
        self, partition: str, file_id: str, instant_time: str, version: int, content: bytes = b"#HUDI#"
    ) -> str:
        return self.file(f"{partition}/.{file_id}_{instant_time}.log.{version}_0-0-0", content)

    def instant(self, name: str, content: bytes = b"") -> None:
        self.file(f".hoodie/{name}", content)

    def commit(
        self,
        instant_time: str,
        action: str = "commit",
        *,
        schema: str | None = SCHEMA,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        written: tuple[str, ...] = (),
    ) -> None:
        stats: dict[str, tuple[WriteStat, ...]] = {}
        for path in written:
            partition = path.rpartition("/")[0]
            stat = WriteStat(file_id="f", path=path, partition_path=partition)
            stats[partition] = (*stats.get(partition, ()), stat)
        metadata = CommitMetadata(
            partition_to_write_stats=stats,
            extra_metadata={"schema": schema} if schema else {},
            partition_to_replace_file_ids=replaced,
        )
        self.instant(f"{instant_time}.{action}", metadata.to_json())


@pytest.fixture
def make_table(tmp_path: Path) -> Callable[..., TableDirectory]:
    return lambda **properties: TableDirectory(
        tmp_path / "table", {name.replace("__", "."): value for name, value in properties.items()}
    )
