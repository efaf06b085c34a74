"""How a commit writes: form and size of files, form of keys, which changes are late, how a load is sorted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hudisql.write.base_file import BaseFileForm
from hudisql.write.concurrency import ALONE, Concurrency
from hudisql.write.log_file import LogForm
from hudisql.write.path_generator import PathGenerator
from hudisql.write.record_index import RecordIndex
from hudisql.write.work_plan import FileSizing

LoadOrder = Literal["partition", "none", "local", "global"]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How files are written and sized.

    `ordering` is the column by which an UPSERT may come late, if any; `newest_by` the one that decides
    between several changes of one row, `log_form` how log files are written, `concurrency` how the table is
    shared with other writers. A bulk load sorts its rows in `load_order`, and by `load_columns` where these
    are given. With `unique_new_keys` new rows of one record key and partition are refused; `combines` says
    whether of an INSERT's new rows with one key the newest alone is written (None: as its statement has it).
    `index` is how keys are found, `path_generator` makes partition paths where they are not the partition
    columns' values. With `composite_keys` record keys are `column:value` pairs.
    """

    form: BaseFileForm = field(default_factory=BaseFileForm)
    sizing: FileSizing = field(default_factory=FileSizing)
    ordering: str | None = None
    newest_by: str | None = None
    log_form: LogForm = field(default_factory=LogForm)
    concurrency: Concurrency = ALONE
    load_order: LoadOrder = "partition"
    load_columns: tuple[str, ...] = ()
    unique_new_keys: bool = False
    combines: bool | None = None
    index: RecordIndex = field(default_factory=RecordIndex)
    path_generator: PathGenerator | None = None
    composite_keys: bool = False
