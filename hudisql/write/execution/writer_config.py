"""The typed configuration of one write: the part of Hudi's `HoodieWriteConfig` that tasks and commits
need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hudisql.write.execution.partitioner import FileSizing
from hudisql.write.handle.base_file import BaseFileConfig
from hudisql.write.handle.log_file import LogFileConfig
from hudisql.write.index.record_index import RecordIndex
from hudisql.write.keygen.key_generator import KeyGenerator
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency
from hudisql.write.transaction.rows_checkpoint import CommitCheckpoint

SortMode = Literal["partition", "none", "local", "global"]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of files, file sizes, key look-up and concurrency.

    - `event_time_fields`: an UPSERT whose values in these columns are lower than the stored row's changes
      nothing, the first column that differs decides; none if the incoming row always wins.
    - `ordering_fields`: of several changes of one row, the one with the highest values is applied.
    - `sort_mode`, `sort_columns`: how a bulk insert sorts its rows; the columns take precedence.
    - `unique_new_keys`: new rows with the same record key and partition are refused.
    - `merges_inserts`: the inserts replace rows of their keys in the file slices that take them.
    - `combines`: an INSERT writes only the newest of several rows with one key (None: the statement decides).
    - `key_generator`: makes partition paths where they are not the values of the partition columns.
    - `complex_keys`: record keys are `column:value` pairs.
    - `checkpoint`: the place of the pull whose rows are written; the commit keeps it, even without rows.
    - `extra_metadata`: entries of the settings that the commit keeps (`hudisql.options.extra_metadata`).
    - `driver_max_bytes`: few changes of slices of together so many bytes are written without Spark tasks.
    """

    base_file_config: BaseFileConfig = field(default_factory=BaseFileConfig)
    sizing: FileSizing = field(default_factory=FileSizing)
    event_time_fields: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] = ()
    log_file_config: LogFileConfig = field(default_factory=LogFileConfig)
    concurrency: Concurrency = SINGLE_WRITER
    sort_mode: SortMode = "partition"
    sort_columns: tuple[str, ...] = ()
    unique_new_keys: bool = False
    merges_inserts: bool = False
    combines: bool | None = None
    index: RecordIndex = field(default_factory=RecordIndex)
    key_generator: KeyGenerator | None = None
    complex_keys: bool = False
    checkpoint: CommitCheckpoint | None = None
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    driver_max_bytes: int = 8 << 20
