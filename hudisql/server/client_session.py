"""The session of one client: a hudisql session with its own Spark session, and its statements.

Statements of one session run one after the other, as in the shell; those of different sessions in parallel.
The settings of a client's connection follow `org.apache.hive.service.cli.session.HiveSessionImpl`.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from hudisql.console import PlainConsole
from hudisql.errors import InvalidHandleError, ServerBusyError, SettingsError, SqlSyntaxError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.result import LocalResult, Result
from hudisql.server.operation import Operation
from hudisql.server.rights.statement_guard import AllowedStatement, StatementGuard
from hudisql.spark.current_user import set_current_user
from hudisql.spark.versions import set_active_session
from hudisql.sql.text.script import ScriptStatement

if TYPE_CHECKING:
    from hudisql.server.result_pages import ResultPages
    from hudisql.session import Session

_PREFIX: Final = "set:"
HIVE_SHOW_TABLES: Final = "hudisql.serve.hive.show.tables"
"""With `true` SHOW TABLES returns only names, as in Hive: PyHive's SQLAlchemy dialect takes the first column.
DESCRIBE of a query then needs the word QUERY.
"""
_DESCRIBE_QUERY: Final = re.compile(r"\s*DESC(?:RIBE)?\s+(?:SELECT|WITH|VALUES|FROM)\s", re.IGNORECASE)
_SHOW_TABLES: Final = re.compile(r"\s*SHOW\s+TABLES\b", re.IGNORECASE)
_SECONDS_BETWEEN_FETCHES: Final = 5.0
EXECUTE_STATEMENT: Final = 0


class SessionConsole(PlainConsole):
    """Writes notes and progress of the session's running statement into its log."""

    def __init__(self) -> None:
        super().__init__(seconds_between_lines=1.0)
        self.operation: Operation | None = None

    def info(self, text: str) -> None:
        """Write the lines of a note into the log."""
        if self.operation is not None and text.strip():
            self.operation.log.write(text)


class ClientSession:
    """An open session of `user`, which `login` opened; `close` ends its statements."""

    def __init__(
        self,
        session: Session,
        console: SessionConsole,
        user: str,
        most_operations: int,
        guard: StatementGuard | None = None,
        login: str | None = None,
    ) -> None:
        """With `guard` each statement needs the rights of the user.

        `login` is the user of the connection where that is another one, who acts as `user`.
        """
        self.guid = secrets.token_bytes(16)
        self.secret = secrets.token_bytes(16)
        self.user = user
        self.login = user if login is None else login
        self.session = session
        self.last_used = time.monotonic()
        self.guard = guard
        self._console = console
        self._most_operations = most_operations
        self._operations: dict[bytes, Operation] = {}
        self._lock = threading.Lock()
        self._running = threading.Lock()
        self.is_closed = False

    def configure(self, given: Mapping[str, str]) -> None:
        """Apply the settings of a client's connection: `use:database`, `set:hiveconf:name`.

        Raises HudisqlError for an unknown database, or a setting that cannot or may not be applied.
        """
        spark = self.session.spark
        for key, value in given.items():
            name = key.removeprefix(_PREFIX)
            if key == "use:database":
                if value and value != "default":
                    self.session.sql(self._allowed(f"USE {quote_name(value)}").text)
            elif name and not name.startswith(("hivevar:", "system:", "env:", "metaconf:")):
                if self.guard is not None:
                    self.guard.check_setting(self.user, name.removeprefix("hiveconf:"), login=self.login)
                try:
                    spark.conf.set(name.removeprefix("hiveconf:"), value)
                except Exception as error:
                    raise SettingsError(
                        f"the setting {name} cannot be given to a session: {error}"
                    ) from error

    def add(self, operation: Operation) -> Operation:
        """Add an operation. Raises ServerBusyError if too many are open."""
        with self._lock:
            if self.is_closed:
                raise InvalidHandleError("the session is closed", hint="connect again")
            if len(self._operations) >= self._most_operations:
                raise ServerBusyError(
                    f"the session has {len(self._operations)} open statements",
                    hint="close statements that are no longer needed",
                )
            self._operations[operation.guid] = operation
        return operation

    def operation(self, guid: bytes) -> Operation | None:
        """An open operation."""
        with self._lock:
            return self._operations.get(guid)

    @property
    def operations(self) -> list[Operation]:
        """The open operations."""
        with self._lock:
            return list(self._operations.values())

    @property
    def is_busy(self) -> bool:
        """True while a statement runs, or a page of its rows is computed."""
        return any(not operation.has_stopped or operation.fetching.locked() for operation in self.operations)

    @property
    def is_fetching(self) -> bool:
        """True while a client fetches rows: it did so within the last seconds."""
        has_rows = any(
            operation.pages is not None and operation.pages.has_more for operation in self.operations
        )
        return has_rows and time.monotonic() - self.last_used < _SECONDS_BETWEEN_FETCHES

    def run(self, operation: Operation) -> None:
        """Run a statement to its end in this thread, after those that are running."""
        with self._running:
            self._console.operation = operation
            try:
                operation.run(lambda: self._result_of(operation))
            finally:
                self._console.operation = None

    def cancel(self, operation: Operation, **how: Any) -> None:
        """Cancel a statement (`Operation.cancel`)."""
        operation.cancel(self.session.spark.sparkContext.cancelJobsWithTag, **how)

    def close_operation(self, operation: Operation) -> None:
        """Remove an operation; a running one is cancelled."""
        with self._lock:
            self._operations.pop(operation.guid, None)
        if not operation.has_stopped or (operation.pages is not None and operation.pages.has_more):
            with suppress(Exception):
                self.cancel(operation, wait=0)
        operation.close()

    def close(self) -> None:
        """End the session and its statements; closing it again does nothing."""
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
        for operation in self.operations:
            self.close_operation(operation)
        self.session.close()

    def _result_of(self, operation: Operation) -> ResultPages | None:
        from hudisql.server.result_pages import pages_of_result

        spark: Any = self.session.spark
        # Spark's parser takes its settings from the thread's session.
        set_active_session(spark)
        spark.sparkContext.addJobTag(operation.tag)
        set_current_user(spark, self.user)
        try:
            self._refuse_unmarked_query(operation)
            allowed = self._allowed(operation.statement)
            result = allowed.shown(self.session.execute(ScriptStatement(allowed.text)))
            result = self._as_hive_shows(result, operation)
            pages = pages_of_result(result) if result.has_rows else None
            if result.error is not None:
                operation.log.write(f"ERROR: {result.error}")
            return pages
        finally:
            self.last_used = time.monotonic()
            with suppress(Exception):
                spark.sparkContext.removeJobTag(operation.tag)
            with suppress(Exception):
                set_current_user(spark, None)

    def _allowed(self, statement: str) -> AllowedStatement:
        """Raises RightMissingError if the user lacks a right."""
        if self.guard is None:
            return AllowedStatement(statement)
        return self.guard.allow(self.session, self.user, statement, login=self.login)

    def _shows_as_hive(self) -> bool:
        return self.session.spark.conf.get(HIVE_SHOW_TABLES, "false") == "true"

    def _refuse_unmarked_query(self, operation: Operation) -> None:
        """Raise SqlSyntaxError for DESCRIBE of a query without the word QUERY, as Hive does.

        `pandas.read_sql` checks by PyHive's DESCRIBE whether its query is a table name.
        """
        if _DESCRIBE_QUERY.match(operation.statement) is not None and self._shows_as_hive():
            raise SqlSyntaxError(
                f"DESCRIBE takes a query behind the word QUERY where {HIVE_SHOW_TABLES} is true",
                hint="DESCRIBE QUERY SELECT …",
            )

    def _as_hive_shows(self, result: Result, operation: Operation) -> Result:
        if _SHOW_TABLES.match(operation.statement) is None or isinstance(result, LocalResult):
            return result
        if not self._shows_as_hive():
            return result
        return Result(result.df.select(result.df["tableName"].alias("tab_name")), guard=result.guard)
