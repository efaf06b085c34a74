"""Incremental pulls that store their position: each reads what was committed since the one before.

A `DirectoryPull` stores its position as a file `<end instant>.json` in the checkpoint directory, created
atomically; the newest counts. Follows the checkpoint of Hudi's `HoodieIncrSource`. `target_pull` stores it in
the commits of the table that receives the rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hudisql.config.config_key import config_of_session
from hudisql.errors import (
    CorruptTableError,
    NoSuchTableError,
    PathExistsError,
    WriteConflictError,
)
from hudisql.options.unserved_settings import policy_of_places
from hudisql.sql.query.query_plan import run_query
from hudisql.sql.query.target_table import find_hudi_entry, open_hudi_entry
from hudisql.sql.query.time_travel import changes_window
from hudisql.sql.text.statements import TableName
from hudisql.sql_literals import quote_string
from hudisql.storage import join
from hudisql.table.history.taken_changes import Place, check_not_undone, place_at
from hudisql.table.history.timeline_window import EARLIEST, TimelineWindow
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context

_KEPT = 10


@dataclass
class IncrementalPull:
    """The changes of a table after `begin` up to and with `end` (instant times; equal if nothing is new).

    `df` has the rows that were written, as of `end`. It is evaluated lazily, and returns the same rows until
    the files are cleaned.
    """

    table: str
    begin: str
    end: str
    df: DataFrame
    _context: Context = field(repr=False)

    @property
    def is_empty(self) -> bool:
        """True if there is no commit after the last pull."""
        return self.begin == self.end

    @property
    def cdc(self) -> DataFrame:
        """Each change of each commit, including deletes: the rows of `hudi_table_changes(…, 'cdc', …)`."""
        return _changes(self._context, self.table, "cdc", self.begin, self.end)

    def commit(self) -> None:
        """Record that everything up to `end` was read."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()


@dataclass
class DirectoryPull(IncrementalPull):
    """A pull that stores its position in the directory `checkpoint`; `bootstrap` is that of its `Place`.

    A context manager: its end stores the position, unless the block raised an exception, so that a failed
    pull is repeated.
    """

    checkpoint: str = ""
    bootstrap: str = ""

    def commit(self) -> None:
        """Record that everything up to `end` was read. Raises WriteConflictError if another pull did."""
        if self.is_empty:
            return
        storage = self._context.storage
        place = {"table": self.table, "begin": self.begin, "end": self.end, "bootstrap": self.bootstrap}
        content = json.dumps(place).encode()
        try:
            storage.create(join(self.checkpoint, f"{self.end}.json"), content)
        except PathExistsError as error:
            raise WriteConflictError(
                f"another pull with the checkpoint {self.checkpoint} took the changes up to {self.end}",
                hint="give each pull a checkpoint of its own; rows taken twice are harmless if upserted",
            ) from error
        for name in _places(self._context, self.checkpoint)[:-_KEPT]:
            storage.delete_file(join(self.checkpoint, name))


def directory_pull(context: Context, table: str, checkpoint: str, begin: str = EARLIEST) -> DirectoryPull:
    """The changes of a Hudi table since the last pull with this checkpoint (a directory).

    The first pull starts after `begin`. Raises NoSuchTableError, InvalidArgumentError, HollowCommitError,
    NoSuchStateError if files of the changes were cleaned, the last pulled commit was rolled back or the table
    was created again, CorruptTableError for a checkpoint of another table.
    """
    source = open_source(context, table)
    directory = context.storage.qualify(checkpoint)
    last = _last_place(context, directory, source.base_path)
    window, df = pull_window(context, source, begin, last)
    end = place_at(source, window.as_of)
    return DirectoryPull(source.base_path, window.begin, end.until, df, context, directory, end.bootstrap)


def open_source(context: Context, table: str) -> HudiTable:
    """The table that a pull reads, by name. Raises NoSuchTableError, InvalidArgumentError."""
    name = ".".join(context.qualify_table_name(table))
    entry = find_hudi_entry(context, TableName(tuple(name.split("."))))
    if entry is None:
        raise NoSuchTableError(f"there is no Hudi table {table}")
    policy_of_places(config_of_session(context.spark).get, "pulls keep")
    return open_hudi_entry(context, entry)


def pull_window(
    context: Context, source: HudiTable, begin: str, place: Place | None
) -> tuple[TimelineWindow, DataFrame]:
    """The commits after the position of the pull, or, in the first pull, after `begin`; and their rows.

    Raises NoSuchStateError if the commit of the position was rolled back or the table created again.
    """
    if place is not None:
        check_not_undone(source, place)
    window = changes_window(context.spark, source, begin if place is None else place.until, None)
    return window, _changes(context, source.base_path, "latest_state", window.begin, window.as_of)


def _changes(context: Context, base_path: str, form: str, begin: str, end: str) -> DataFrame:
    arguments = ", ".join(map(quote_string, (base_path, form, begin, end)))
    return run_query(context, f"SELECT * FROM hudi_table_changes({arguments})")


def _last_place(context: Context, directory: str, base_path: str) -> Place | None:
    """The end of the newest pull; None before the first."""
    names = _places(context, directory)
    if not names:
        return None
    path = join(directory, names[-1])
    try:
        found = json.loads(context.storage.read(path))
        table, end = str(found["table"]), Place(str(found["end"]), str(found.get("bootstrap", "")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptTableError(f"{path} is not a checkpoint of a pull: {error}") from error
    if table != base_path:
        raise CorruptTableError(
            f"the checkpoint {directory} belongs to the Hudi table at {table}, not to {base_path}",
            hint="give each pull a checkpoint of its own; if the table was moved, correct the file",
        )
    return end


def _places(context: Context, directory: str) -> list[str]:
    storage = context.storage
    if not storage.exists(directory):
        return []
    names = [entry.name for entry in storage.list_directory(directory) if not entry.is_directory]
    return sorted(name for name in names if name.endswith(".json") and name[:-5].isdigit())
