"""The one tree of errors that hudisql raises.

Each class names a situation a user can be in. Every message says what is wrong, where (file, column,
partition, line of SQL) and, as `hint`, what to do next. Errors also inherit the built-in exception that
fits, so callers may catch either. This module imports nothing of the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

# `scheme://user:secret@host`; secrets may hold slashes. Only buckets have no port, which a path may follow.
_CREDENTIALS: Final = re.compile(
    r"((?:s3[an]?://)|(?:[A-Za-z][A-Za-z0-9+.-]*://)(?![^\s/:@]+:\d+/))[^\s/:@'\"`,]+:[^\s@'\"`,]+@"
)


def hide_credentials(text: str) -> str:
    """The text with stars for what stands between `://` and `@` in its URIs."""
    return _CREDENTIALS.sub(r"\1******@", text)


class HudisqlError(Exception):
    """Root of every error hudisql raises on purpose: `message` says what and where, `hint` what to do.

    `condition` is the name of Spark's error condition (`UNRESOLVED_COLUMN.WITH_SUGGESTION`), if Spark has
    refused or failed.
    """

    condition: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = hide_credentials(message)
        self.hint = None if hint is None else hide_credentials(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark tasks): rebuild from state, whatever the subclass's signature.
        return (_rebuild_error, (type(self), self.args, self.__dict__))


def _rebuild_error(
    error_class: type[HudisqlError], args: tuple[object, ...], state: dict[str, object]
) -> HudisqlError:
    error = error_class.__new__(error_class)
    error.args = args
    error.__dict__.update(state)
    return error


class SettingsError(HudisqlError, ValueError):
    """A setting (file, environment, command line) is unknown or has a bad value."""


class SessionClosedError(HudisqlError, RuntimeError):
    """The session was closed: its Spark, if it had one of its own, has stopped."""


class SqlSyntaxError(HudisqlError, ValueError):
    """A statement cannot be parsed; the message carries line, column and the marked text."""


class UndefinedVariableError(SqlSyntaxError):
    """A `${name}` in a script has no value."""


class UnsupportedStatementError(HudisqlError, NotImplementedError):
    """A statement would change a Hudi table in a way that hudisql does not know: nothing was run."""


class InvalidArgumentError(HudisqlError, ValueError):
    """A procedure or API argument is missing, unknown, of a wrong type or of a bad value."""


class UnknownParameterError(InvalidArgumentError):
    """CALL names a parameter that the procedure does not have."""


class NoSuchProcedureError(InvalidArgumentError):
    """CALL names a procedure that does not exist."""


class QueryError(HudisqlError):
    """Spark refused or failed to run a statement; the message is Spark's, without its stack trace."""


class SourceProtectedError(UnsupportedStatementError):
    """The statement would delete or move files that a bootstrapped table reads; nothing was run."""


class NoSuchTableError(HudisqlError, LookupError):
    """There is no table of that name, or no Hudi table at that path."""


class NoSuchDatabaseError(NoSuchTableError):
    """There is no database of that name."""


class NoSuchInstantError(HudisqlError, LookupError):
    """The timeline of a table has no such instant."""


class HollowCommitError(HudisqlError, RuntimeError):
    """An incremental query would skip a commit that is still pending while later ones are completed."""


class NoSuchStateError(HudisqlError, LookupError):
    """A past state of a table was asked for that never was, or whose files or instants are gone."""


class TableExistsError(HudisqlError, FileExistsError):
    """The target table, its metastore entry or its directory is already taken."""


class UnsupportedTableError(HudisqlError, NotImplementedError):
    """A Hudi table uses something hudisql cannot read or write right (version, log blocks, index)."""


class CorruptTableError(HudisqlError, ValueError):
    """A table's own files contradict each other or cannot be decoded."""


class StorageError(HudisqlError, OSError):
    """A file system refused or failed: path, operation and the store's own words."""


class NoSuchPathError(StorageError, FileNotFoundError):
    """A path does not exist."""


class PathExistsError(StorageError, FileExistsError):
    """An atomic creation lost: the path exists already."""


class WriteAheadLogError(StorageError):
    """The write-ahead log of pushed rows took no batch: its disk is full or failed, or it is closed."""


class WriteAheadLogInUseError(WriteAheadLogError):
    """Another process has opened the directory of the write-ahead log."""


class CorruptWriteAheadLogError(WriteAheadLogError):
    """Acknowledged batches of a write-ahead log cannot be read: the message names the file and the offset."""


class PushRefusedError(HudisqlError):
    """A push of rows is answered by an error: `status` is that of HTTP, `code` its name for programs.

    `retry_after` is in seconds; `bad_rows` are line numbers, counted from 1, with what is wrong; `owner` has
    the addresses of the process that takes the rows, by protocol.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: int = 400,
        code: str = "bad_request",
        retry_after: int | None = None,
        bad_rows: Sequence[tuple[int, str]] = (),
        owner: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.bad_rows = tuple(bad_rows)
        self.owner = owner


class SourceError(HudisqlError, ValueError):
    """A bootstrap source cannot be taken as it is (not parquet, another table format, no such source)."""


class SourceChangedError(SourceError):
    """An external (bootstrap source) file is missing or differs from what the bootstrap index recorded."""


class BootstrapBlockedError(SourceError):
    """The bootstrap plan has blockers: each is listed, nothing was written."""

    def __init__(self, message: str, *, blockers: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.blockers = tuple(blockers)


class VerificationFailedError(HudisqlError):
    """A bootstrap is committed, but the table does not match its source: the message lists what differs."""


class DataTestFailedError(HudisqlError):
    """A test of a project of layers found rows: the message shows the first of them."""


class RollbackRefusedError(HudisqlError):
    """A rollback or restore would lose rows, undo what later instants need, or touch source files."""


class WriteConflictError(HudisqlError):
    """Another writer changed the table meanwhile, or took the instant away: nothing became visible."""


class TimelineChangedError(WriteConflictError, NoSuchPathError):
    """An instant that the timeline listed is gone, and was not archived: another writer has undone it."""


class TableLockedError(WriteConflictError):
    """Other writers have held the table's lock for longer than this one was told to wait."""


class WriteRefusedError(HudisqlError, ValueError):
    """Rows cannot be written as given (null keys, several source rows for one target row, bad types)."""


class UnknownColumnError(WriteRefusedError, InvalidArgumentError):
    """A statement or an argument names a column that the table, the source or the query does not have."""


class RepeatedKeysError(WriteRefusedError):
    """Several new rows of one statement have one record key and partition."""


class RegisterOnlyError(WriteRefusedError):
    """A write touches register-only partitions, `partitions` (paths), that have to be lifted before."""

    def __init__(self, message: str, *, partitions: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.partitions = tuple(partitions)


class MetastoreError(HudisqlError):
    """The Hive Metastore refused a request; the message is the server's."""


class MetastoreUnavailableError(MetastoreError, ConnectionError):
    """No given Hive Metastore answers."""


class SyncFailedError(MetastoreError):
    """The commit stands, but the metastore could not follow it; the hint says how to run the sync again."""


class MigrationConflictError(HudisqlError):
    """Migration scripts do not agree with their history: nothing was run (checksum, gap, unknown outcome)."""


class EventsLostError(HudisqlError, LookupError):
    """A source no longer has events that the table has not taken: its retention has deleted them."""


class KafkaError(HudisqlError, ConnectionError):
    """Kafka refused a request or cannot be reached; the message has its words."""


class EntryChangedError(MetastoreError):
    """Another client of the metastore has changed an entry meanwhile; nothing was stored."""


class SchemaRegistryError(HudisqlError, ConnectionError):
    """A schema registry does not answer, refuses, or has a schema that cannot be used."""


class ProtocolError(HudisqlError, ValueError):
    """A client of `hudisql serve` sent bytes that are no message of the protocol, or too many."""


class ServerBusyError(HudisqlError, RuntimeError):
    """A limit of `hudisql serve` is reached, or it is shutting down: nothing was run."""


class InvalidHandleError(HudisqlError, LookupError):
    """A client of `hudisql serve` named a session or statement that is not open, or is another user's."""


class StatementCancelledError(HudisqlError, InterruptedError):
    """A statement was cancelled, or took longer than it may."""


class AuthenticationError(HudisqlError, PermissionError):
    """A client of `hudisql serve` gave no user with this password."""


class ExecutorEnvironmentError(HudisqlError, RuntimeError):
    """The executors' Python cannot run hudisql's tasks (other Python, pyarrow or missing dependency)."""


def error_chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from or during, newest first; each once, even in a circle."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
