"""Incremental pulls that store their position in the commits of the target table: exactly once.

Rows and position become visible by one commit, so that a killed pull is neither lost nor repeated.
`write.transaction.pull_checkpoint` describes how the position is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import MetastoreTable, is_hudi_table
from hudisql.errors import InvalidArgumentError, NoSuchTableError
from hudisql.result import LocalResult, Result
from hudisql.sql.dataframe.incremental_pull import IncrementalPull, open_source, pull_window
from hudisql.sql.dataframe.write_frames import write_frame
from hudisql.sql.dml.dml_execution import OUTPUT, result_row, run_dml
from hudisql.sql.query.target_table import find_entry, find_hudi_entry, open_hudi_entry
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement
from hudisql.sql.text.spark_errors import SourceText, translated_spark_errors
from hudisql.table.history.taken_changes import place_at
from hudisql.table.history.timeline_window import EARLIEST
from hudisql.write.execution.commit_files import WriteResult
from hudisql.write.transaction.pull_checkpoint import PullCheckpoint, find_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context

_CHANGES = (st.InsertStatement, st.MergeStatement, st.UpdateStatement, st.DeleteStatement)


@dataclass
class TargetPull(IncrementalPull):
    """A pull into the table `into`: one call of `write` or `sql` writes the changes and the position.

    A context manager, whose end checks that this was done. Without changes both do nothing.
    """

    into: str = ""
    checkpoint: PullCheckpoint | None = None
    _is_written: bool = field(default=False, repr=False)

    def write(self, df: DataFrame | None = None, operation: str | None = None, **options: str) -> WriteResult:
        """Write rows derived from the changes (by default `df`) as one commit, with the position.

        Operations and options are those of `Session.write`; a commit is made even without rows. Raises
        WriteConflictError if another pull has written the changes meanwhile.
        """
        if not self._begin_write():
            return WriteResult(None)
        rows = self.df if df is None else df
        result = write_frame(self._checkpointed, rows, self.into, operation, options)
        self._is_written = True
        return result

    def sql(self, text: str) -> Result:
        """Run one MERGE, INSERT, UPDATE or DELETE on the table as one commit, with the position.

        `df.createOrReplaceTempView("changes")` makes the changes available to it. Raises InvalidArgumentError
        for other statements, WriteConflictError if another pull has written the changes meanwhile.
        """
        statement = self._parse_statement(text)
        if not self._begin_write():
            return LocalResult(self._context.spark, OUTPUT, [result_row(WriteResult(None))])
        source = SourceText(statement.text)
        with translated_spark_errors(source):
            result = run_dml(self._checkpointed, self._target(), statement, source)
        self._is_written = True
        return result

    def commit(self) -> None:
        """Check that the changes were written. Raises InvalidArgumentError."""
        if not self.is_empty and not self._is_written:
            raise InvalidArgumentError(
                f"the pull from {self.table} into {self.into} was not written: its position stays",
                hint="pull.write(pull.df) or pull.sql('MERGE INTO …') writes rows and place in one commit",
            )

    @property
    def _checkpointed(self) -> Context:
        return self._context.with_checkpoint(self.checkpoint)

    def _begin_write(self) -> bool:
        if self._is_written:
            raise InvalidArgumentError(
                f"the pull from {self.table} into {self.into} has been written",
                hint="write all of its changes by one statement, or begin a new pull",
            )
        return not self.is_empty

    def _target(self) -> MetastoreTable:
        entry = find_hudi_entry(self._context, _table_name(self.into))
        if entry is None:
            raise NoSuchTableError(f"there is no Hudi table {self.into}", hint="pull.write(df, …) makes it")
        return entry

    def _parse_statement(self, text: str) -> st.ChangeStatement:
        statement = parse_statement(text)
        if isinstance(statement, _CHANGES):
            named = statement.targets if isinstance(statement, st.InsertStatement) else (statement.table,)
            if [".".join(self._context.qualify_table_name(str(name))) for name in named] == [self.into]:
                return statement
        raise InvalidArgumentError(
            f"the pull keeps its place in commits of {self.into}: it takes one INSERT, UPDATE, DELETE or "
            "MERGE of that table",
            hint="session.sql(…) runs other statements",
        )


def target_pull(context: Context, table: str, into: str, begin: str = EARLIEST) -> TargetPull:
    """The changes of a Hudi table since the last pull from it into the table `into`.

    The first pull starts after `begin`; the first write may create the table. Raises NoSuchTableError,
    InvalidArgumentError, HollowCommitError, NoSuchStateError if files of the changes were cleaned, the last
    pulled commit was rolled back or the source was created again, CorruptTableError.
    """
    source = open_source(context, table)
    name = ".".join(context.qualify_table_name(into))
    entry = find_entry(context, _table_name(name))
    if entry is not None and not is_hudi_table(entry):
        raise NoSuchTableError(f"{name} is not a Hudi table", hint="choose another name")
    target = None if entry is None else open_hudi_entry(context, entry)
    if target is not None and target.base_path == source.base_path:
        raise InvalidArgumentError(
            f"{name} would pull its own changes, without end", hint="name the table that the rows go to"
        )
    place = None if target is None else find_checkpoint(target, source.base_path)
    window, df = pull_window(context, source, begin, place)
    checkpoint = PullCheckpoint(source.base_path, place, place_at(source, window.as_of))
    return TargetPull(
        source.base_path, window.begin, window.as_of, df, context, into=name, checkpoint=checkpoint
    )


def _table_name(name: str) -> st.TableName:
    return st.TableName(tuple(name.split(".")))
