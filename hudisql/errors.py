"""The one tree of errors that hudisql raises.

Each class names a situation a user can be in. Every message says what is wrong, where (file, column,
partition, line of SQL) and, as `hint`, what to do next. Errors also inherit the built-in exception that
fits, so callers may catch either. This module imports nothing of the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

# `scheme://user:secret@host`; secrets may contain slashes. Only bucket names have no port that a path may
# follow.
_CREDENTIALS: Final = re.compile(
    r"((?:s3[an]?://)|(?:[A-Za-z][A-Za-z0-9+.-]*://)(?![^\s/:@]+:\d+/))[^\s/:@'\"`,]+:[^\s@'\"`,]+@"
)


def hide_credentials(text: str) -> str:
    """The text with asterisks instead of what stands between `://` and `@` in its URIs."""
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
    """The session was closed; a Spark that it started has stopped."""


class SqlSyntaxError(HudisqlError, ValueError):
    """A statement cannot be parsed; the message carries line, column and the marked text."""


class UndefinedVariableError(SqlSyntaxError):
    """A `${name}` in a script has no value."""


class UnsupportedStatementError(HudisqlError, NotImplementedError):
    """hudisql does not support this change of a Hudi table: nothing was run."""


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
    """The requested past state of a table does not exist, or its files or instants are deleted."""


class TableExistsError(HudisqlError, FileExistsError):
    """The target table, its metastore entry or its directory is already taken."""


class UnsupportedTableError(HudisqlError, NotImplementedError):
    """A Hudi table uses a feature that hudisql does not support (version, log blocks, index)."""


class CorruptTableError(HudisqlError, ValueError):
    """A table's own files contradict each other or cannot be decoded."""


class StorageError(HudisqlError, OSError):
    """A file system refused or failed an operation; the message has path, operation and the store's error."""


class NoSuchPathError(StorageError, FileNotFoundError):
    """A path does not exist."""


class PathExistsError(StorageError, FileExistsError):
    """An atomic creation failed because the path exists."""


class WriteAheadLogError(StorageError):
    """The write-ahead log of pushed rows refused a batch: its disk is full or failed, or it is closed."""


class WriteAheadLogInUseError(WriteAheadLogError):
    """Another process has opened the directory of the write-ahead log."""


class CorruptWriteAheadLogError(WriteAheadLogError):
    """Acknowledged batches of a write-ahead log cannot be read: the message names the file and the offset."""


class PushRefusedError(HudisqlError):
    """A push of rows is rejected: `status` is the HTTP status, `code` a name for programs.

    `retry_after` is in seconds; `bad_rows` are line numbers, counted from 1, with the reason; `owner` has the
    addresses of the process that accepts the rows, by protocol.
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
    """A bootstrap source is not supported (not parquet, another table format, missing)."""


class SourceChangedError(SourceError):
    """An external (bootstrap source) file is missing or differs from what the bootstrap index recorded."""


class BootstrapBlockedError(SourceError):
    """The bootstrap plan has blockers: each is listed, nothing was written."""

    def __init__(self, message: str, *, blockers: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.blockers = tuple(blockers)


class VerificationFailedError(HudisqlError):
    """A table does not match its source, or its Iceberg table does not match it: what differs is listed."""


class DataTestFailedError(HudisqlError):
    """A test of a project of layers found rows: the message shows the first of them."""


class RollbackRefusedError(HudisqlError):
    """A rollback or restore would lose rows, undo what later instants need, or change source files."""


class WriteConflictError(HudisqlError):
    """Another writer changed the table or removed the instant meanwhile: nothing became visible."""


class PendingCleanError(WriteConflictError):
    """A pending clean deletes a partition to which a commit has written: nothing became visible."""


class TimelineChangedError(WriteConflictError, NoSuchPathError):
    """An instant of the timeline is gone and not archived: another writer has rolled it back."""


class TableLockedError(WriteConflictError):
    """Another writer held the table's lock for longer than the configured wait."""


class WriteRefusedError(HudisqlError, ValueError):
    """Rows cannot be written as given (null keys, several source rows for one target row, bad types)."""


class UnknownColumnError(WriteRefusedError, InvalidArgumentError):
    """A statement or an argument names a column that the table, the source or the query does not have."""


class RepeatedKeysError(WriteRefusedError):
    """Several new rows of one statement have one record key and partition."""


class RegisterOnlyError(WriteRefusedError):
    """A write affects register-only partitions, `partitions` (paths), which must be lifted first."""

    def __init__(self, message: str, *, partitions: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.partitions = tuple(partitions)


class MetastoreError(HudisqlError):
    """The Hive Metastore refused a request; the message is the server's."""


class MetastoreUnavailableError(MetastoreError, ConnectionError):
    """The configured Hive Metastore does not answer."""


class SyncFailedError(MetastoreError):
    """The commit succeeded, but the metastore sync failed; the hint says how to repeat the sync."""


class MigrationConflictError(HudisqlError):
    """Migration scripts contradict their history (changed, missing or late, unknown outcome): nothing ran."""


class EventsLostError(HudisqlError, LookupError):
    """A source has deleted events by its retention before the table read them."""


class KafkaError(HudisqlError, ConnectionError):
    """Kafka refused a request or cannot be reached; the message has Kafka's error."""


class EntryChangedError(MetastoreError):
    """Another client of the metastore has changed an entry meanwhile; nothing was stored."""


class SchemaRegistryError(HudisqlError, ConnectionError):
    """A schema registry does not answer, refuses the request, or has an unusable schema."""


class ProtocolError(HudisqlError, ValueError):
    """A client of `hudisql serve` sent an invalid or too large message."""


class ServerBusyError(HudisqlError, RuntimeError):
    """A limit of `hudisql serve` is reached, or it is shutting down: nothing was run."""


class InvalidHandleError(HudisqlError, LookupError):
    """A client of `hudisql serve` named a session or statement that is closed or another user's."""


class StatementCancelledError(HudisqlError, InterruptedError):
    """A statement was cancelled or exceeded its time limit."""


class AuthenticationError(HudisqlError, PermissionError):
    """A client of `hudisql serve` sent no valid user and password."""


class RightMissingError(HudisqlError, PermissionError):
    """A user of `hudisql serve` lacks a right that the statement needs: nothing was run."""


class ExecutorEnvironmentError(HudisqlError, RuntimeError):
    """The executors' Python cannot run hudisql's tasks (other Python, pyarrow or missing dependency)."""


def error_chain(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes and contexts, newest first; each once, even in a cycle."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
