"""One statement of a client: its kind, state, log and result, and how it is cancelled.

States and their numbers are those of `TOperationState`. A statement runs in a thread of its own; Spark's jobs
carry a tag, by which they are cancelled, also while rows are fetched.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Final

from hudisql.errors import HudisqlError, StatementCancelledError
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement

if TYPE_CHECKING:
    from hudisql.server.result_pages import ResultPages

_LOG_LINES: Final = 10_000
_CANCELLATIONS_APART: Final = 0.2
_WAIT_FOR_CANCELLED: Final = 5.0


class OperationState(IntEnum):
    """`TOperationState`."""

    INITIALIZED = 0
    RUNNING = 1
    FINISHED = 2
    CANCELED = 3
    CLOSED = 4
    ERROR = 5
    PENDING = 7
    TIMEDOUT = 8


_ENDED: Final = frozenset(
    {
        OperationState.FINISHED,
        OperationState.CANCELED,
        OperationState.CLOSED,
        OperationState.ERROR,
        OperationState.TIMEDOUT,
    }
)


class StatementKind(Enum):
    """Rows, no rows, or a change of rows: hudisql returns one row of counts, Hive and Spark none."""

    QUERY = auto()
    COMMAND = auto()
    CHANGE = auto()


_CHANGES: Final = (
    st.InsertStatement,
    st.UpdateStatement,
    st.DeleteStatement,
    st.MergeStatement,
    st.CreateTableAsStatement,
    st.CreateIncrementalTableStatement,
    st.RefreshIncrementalTableStatement,
)
_COMMANDS: Final = (
    st.UseStatement,
    st.CreateViewStatement,
    st.CreateTableStatement,
    st.TruncateStatement,
    st.AlterTableStatement,
    st.CommentOnStatement,
    st.DropTableStatement,
    st.DropDatabaseStatement,
    st.MsckRepairStatement,
    st.RefreshTableStatement,
)
_CHANGE_HEADS: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_COMMAND_HEADS: Final = frozenset(
    {"ALTER", "ANALYZE", "CLEAR", "COMMENT", "CREATE", "DECLARE", "DROP", "LOAD", "REFRESH", "TRUNCATE"}
)


class Operation:
    """A statement or a metadata request; `kind` is its `TOperationType`."""

    def __init__(
        self, kind: int, statement: str = "", statement_kind: StatementKind = StatementKind.QUERY
    ) -> None:
        self.guid = secrets.token_bytes(16)
        self.secret = secrets.token_bytes(16)
        self.kind = kind
        self.statement = statement
        self.is_change = statement_kind is StatementKind.CHANGE
        self.has_result = statement_kind is not StatementKind.COMMAND
        self.tag = f"hudisql-serve-{secrets.token_hex(8)}"
        self.state = OperationState.INITIALIZED
        self.error: HudisqlError | None = None
        self.pages: ResultPages | None = None
        self.started_at = time.time()
        self.ended_at: float | None = None
        self.progress_told_at = 0.0
        self.log = OperationLog()
        self.fetching = threading.Lock()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread_ended = threading.Event()
        self._wanted_end: OperationState | None = None
        self._wanted_error: HudisqlError | None = None
        self._at_end: list[Callable[[], None]] = []

    def run(self, work: Callable[[], ResultPages | None]) -> None:
        """Run the statement in this thread until a final state. Does not raise."""
        try:
            with self._lock:
                if self._wanted_end is not None:
                    raise StatementCancelledError("the statement was cancelled before it began")
                self.state = OperationState.RUNNING
            pages = work()
        except Exception as error:
            self._end(OperationState.ERROR, error=as_hudisql_error(error))
        else:
            self._end(OperationState.FINISHED, pages)
        finally:
            self._thread_ended.set()

    def finish(self, pages: ResultPages) -> None:
        """End with a given result."""
        self._end(OperationState.FINISHED, pages)
        self._thread_ended.set()

    def wait(self, seconds: float | None) -> bool:
        """Wait for a final state; False after the timeout."""
        return self._ended.wait(seconds)

    def on_end(self, action: Callable[[], None]) -> None:
        """Call `action` when the statement ends, or now if it has."""
        with self._lock:
            if self.state not in _ENDED:
                self._at_end.append(action)
                return
        action()

    @property
    def has_ended(self) -> bool:
        """True in a final state."""
        return self.state in _ENDED

    @property
    def has_stopped(self) -> bool:
        """True if no thread works on the statement."""
        return self._thread_ended.is_set()

    def cancel(
        self,
        cancel_jobs: Callable[[str], None],
        state: OperationState = OperationState.CANCELED,
        error: HudisqlError | None = None,
        wait: float = _WAIT_FOR_CANCELLED,
    ) -> None:
        """Cancel the statement: Spark's jobs are cancelled until its thread has ended.

        A statement that ended before keeps its state. One that has not stopped after `wait` seconds shows
        `state` while its jobs are still being cancelled.
        """
        with self._lock:
            if self.state in _ENDED and self.state is not OperationState.FINISHED:
                return
            if self._wanted_end is None:
                self._wanted_end, self._wanted_error = state, error
        if self.has_stopped:
            cancel_jobs(self.tag)
            return
        threading.Thread(target=self._cancel_until_ended, args=(cancel_jobs,), daemon=True).start()
        if not self._thread_ended.wait(wait):
            self._end(OperationState.ERROR, error=None)

    def close(self) -> None:
        """Discard the rows that were not fetched."""
        with self._lock:
            self.state = OperationState.CLOSED
            pages, self.pages = self.pages, None
        self._ended.set()
        if pages is not None:
            pages.close()

    def _cancel_until_ended(self, cancel_jobs: Callable[[str], None]) -> None:
        while not self._thread_ended.is_set():
            with suppress(Exception):
                cancel_jobs(self.tag)
            self._thread_ended.wait(_CANCELLATIONS_APART)

    def _end(
        self, state: OperationState, pages: ResultPages | None = None, error: HudisqlError | None = None
    ) -> None:
        with self._lock:
            if self.state not in _ENDED:
                if state is OperationState.ERROR and self._wanted_end is not None:
                    state, error = self._wanted_end, self._wanted_error
                self.state, self.error, self.pages = state, error, pages
                self.ended_at = time.time()
                pages = None
            actions, self._at_end = self._at_end, []
        self._ended.set()
        for action in actions:
            action()
        if pages is not None:
            pages.close()


class OperationLog:
    """The last lines of a statement's notes and progress; any thread may write."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_LOG_LINES)
        self._read = 0
        self._written = 0
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        """Add the lines of a text."""
        with self._lock:
            for line in text.splitlines():
                self._lines.append(line)
                self._written += 1

    def read(self, most: int, *, from_start: bool = False) -> list[str]:
        """The lines that were not read yet, or all that are kept."""
        with self._lock:
            oldest = self._written - len(self._lines)
            begin = oldest if from_start else max(self._read, oldest)
            lines = list(self._lines)[begin - oldest : begin - oldest + most]
            self._read = begin + len(lines)
            return lines


def as_hudisql_error(error: BaseException) -> HudisqlError:
    """The error, or a HudisqlError that reports an internal failure."""
    if isinstance(error, HudisqlError):
        return error
    return HudisqlError(f"hudisql itself failed: {type(error).__name__}: {error}")


def statement_kind(text: str) -> StatementKind:
    """COMMAND for statements that certainly return no rows; a QUERY without rows has an empty result."""
    try:
        statement = parse_statement(text)
    except HudisqlError:
        return StatementKind.QUERY
    if isinstance(statement, st.PassThroughStatement):
        head = statement.text.split(None, 1)[0].upper()
        is_change, is_command = head in _CHANGE_HEADS, head in _COMMAND_HEADS
    else:
        is_change, is_command = isinstance(statement, _CHANGES), isinstance(statement, _COMMANDS)
    if is_change:
        return StatementKind.CHANGE
    return StatementKind.COMMAND if is_command else StatementKind.QUERY
