"""How a commit writes: form and size of files, form of keys, which changes are late, how a load is sorted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hudisql.write.execution.partitioner import FileSizing
from hudisql.write.handle.base_file import BaseFileConfig
from hudisql.write.handle.log_file import LogFileConfig
from hudisql.write.index.record_index import RecordIndex
from hudisql.write.keygen.key_generator import KeyGenerator
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency

SortMode = Literal["partition", "none", "local", "global"]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How files are written and sized.

    `ordering` is the column by which an UPSERT may come late, if any; `precombine_field` the one that decides
    between several changes of one row, `log_form` how log files are written, `concurrency` how the table is
    shared with other writers. A bulk load sorts its rows in `sort_mode`, and by `sort_columns` where these
    are given. With `unique_new_keys` new rows of one record key and partition are refused; `combines` says
    whether of an INSERT's new rows with one key the newest alone is written (None: as its statement has it).
    `index` is how keys are found, `key_generator` makes partition paths where they are not the partition
    columns' values. With `complex_keys` record keys are `column:value` pairs.
    """

    form: BaseFileConfig = field(default_factory=BaseFileConfig)
    sizing: FileSizing = field(default_factory=FileSizing)
    ordering: str | None = None
    precombine_field: str | None = None
    log_form: LogFileConfig = field(default_factory=LogFileConfig)
    concurrency: Concurrency = SINGLE_WRITER
    sort_mode: SortMode = "partition"
    sort_columns: tuple[str, ...] = ()
    unique_new_keys: bool = False
    combines: bool | None = None
    index: RecordIndex = field(default_factory=RecordIndex)
    key_generator: KeyGenerator | None = None
    complex_keys: bool = False
