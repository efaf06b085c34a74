"""The calls of HiveServer2's `TCLIService`: from the fields of a request to those of its response.

Field numbers are those of Hive's `TCLIService.thrift`, protocol V8. Errors are responses with an error
status, which clients show; only malformed messages close a connection (`thrift_binary`).
"""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import (
    HudisqlError,
    InvalidHandleError,
    RightMissingError,
    ServerBusyError,
    StatementCancelledError,
)
from hudisql.server import catalog_questions
from hudisql.server.client_session import EXECUTE_STATEMENT, ClientSession, SessionConsole
from hudisql.server.column_bytes import encode_column
from hudisql.server.error_status import error_status
from hudisql.server.operation import Operation, OperationState, as_hudisql_error, statement_kind
from hudisql.server.result_pages import batch_of, pages_of_table
from hudisql.server.result_types import ResultColumn
from hudisql.server.rights.rights_file import ALL_RIGHTS, UserRights
from hudisql.server.server_info import server_info
from hudisql.server.statement_progress import log_progress, progress_response
from hudisql.server.thrift_binary import (
    BOOL,
    DOUBLE,
    I32,
    I64,
    LIST,
    MAP,
    STRING,
    STRUCT,
    Fields,
    ListOf,
    MapOf,
    StructValue,
)
from hudisql.server.thrift_limits import ServerLimits

if TYPE_CHECKING:
    from hudisql.server.rights.statement_guard import StatementGuard
    from hudisql.session import Session

PROTOCOL_V8: Final = 7
_PROTOCOL_V6: Final = 5
_SUCCESS: Final = 0
_ERROR: Final = 3
_INVALID_HANDLE: Final = 4
_FETCH_FIRST: Final = 4
_FETCH_LOG: Final = 1
_POLL_SECONDS: Final = 0.5
_PROXY_USER: Final = "hive.server2.proxy.user"
_MOST_ROWS: Final = 100_000
_OK: Final = (1, STRUCT, ((1, I32, _SUCCESS),))
_LOG_COLUMN: Final = ResultColumn("log")
# For clients that wait for a result where there is none: an empty one, as in Spark's Thrift server.
_NO_RESULT: Final = ResultColumn("Result")
# The calls that a removed user may still make.
_ENDS: Final = frozenset({"CloseSession", "CloseOperation", "CloseImpalaOperation", "CancelOperation"})
Call = Callable[["Caller", Fields], StructValue]
Question = Callable[["Session", Fields, UserRights], catalog_questions.Answer]
# The metadata requests with their `TOperationType`.
_QUESTIONS: Final[dict[str, tuple[int, Question]]] = {
    "GetTypeInfo": (1, catalog_questions.list_types),
    "GetCatalogs": (2, catalog_questions.list_catalogs),
    "GetSchemas": (3, catalog_questions.list_schemas),
    "GetTables": (4, catalog_questions.list_tables),
    "GetTableTypes": (5, catalog_questions.list_table_types),
    "GetColumns": (6, catalog_questions.list_columns),
    "GetFunctions": (7, catalog_questions.list_functions),
    "GetPrimaryKeys": (8, catalog_questions.list_primary_keys),
    "GetCrossReference": (8, catalog_questions.list_cross_references),
}


class Caller:
    """One connection's view of the service: its user, and the sessions that it opened."""

    def __init__(self, user: str | None, is_gone: Callable[[], bool] = lambda: False) -> None:
        """`is_gone` says whether the client has disconnected, which cancels a statement that it waits for."""
        self.user = user
        self.has_ticket = False
        self.proxied: str | None = None
        self.is_gone = is_gone
        self.sessions: list[ClientSession] = []


class CliService:
    """Sessions of all clients over one hudisql session."""

    def __init__(
        self,
        session: Session,
        limits: ServerLimits,
        check_known: Callable[[str], None] | None = None,
        guard: StatementGuard | None = None,
    ) -> None:
        """`check_known` raises AuthenticationError for a user that was removed.

        With `guard` each statement needs the rights of its user.
        """
        self._guard = guard
        self._session = session
        self._check_known = check_known
        self._limits = limits
        self._lock = threading.Lock()
        self._sessions: dict[bytes, ClientSession] = {}
        self._opening = 0
        self.is_draining = False
        self._calls: dict[str, Call] = {
            "OpenSession": self._open_session,
            "CloseSession": self._close_session,
            "GetInfo": self._get_info,
            "ExecuteStatement": self._execute,
            "GetOperationStatus": self._status,
            "CancelOperation": self._cancel,
            "CloseOperation": self._close_operation,
            "CloseImpalaOperation": self._close_counted,
            "GetResultSetMetadata": self._metadata,
            "FetchResults": self._fetch,
            **{name: partial(self._ask_catalog, *question) for name, question in _QUESTIONS.items()},
        }

    def answer(self, caller: Caller, method: str, arguments: Fields) -> StructValue | None:
        """The fields of `<method>_result`; None for an unknown method."""
        call = self._calls.get(method)
        if call is None:
            return None
        request = arguments.get(1, {})
        try:
            if not isinstance(request, dict):
                raise InvalidHandleError(f"the request of {method} is not a struct")
            user = None if caller.has_ticket else caller.user
            if self._check_known is not None and user is not None and method not in _ENDS:
                self._check_known(user)
            response = call(caller, request)
        except Exception as error:
            response = ((1, STRUCT, _error_status(as_hudisql_error(error))),)
        return ((0, STRUCT, response),)

    @property
    def sessions(self) -> list[ClientSession]:
        """The open sessions."""
        with self._lock:
            return list(self._sessions.values())

    def close_session(self, session: ClientSession) -> None:
        """End a session and its statements."""
        with self._lock:
            self._sessions.pop(session.guid, None)
        session.close()

    def end_idle_sessions(self) -> None:
        """End the sessions that have been idle for too long."""
        now = time.monotonic()
        for session in self.sessions:
            if now - session.last_used > self._limits.idle_seconds and not session.is_busy:
                self.close_session(session)

    def end_long_statements(self) -> None:
        """Cancel the statements that exceed their time limit."""
        most = self._limits.statement_seconds
        if not most:
            return
        for session in self.sessions:
            for operation in session.operations:
                if not operation.has_ended and time.time() - operation.started_at > most:
                    session.cancel(
                        operation,
                        state=OperationState.ERROR,
                        error=StatementCancelledError(
                            f"the statement took longer than the server's limit of {most:g} seconds",
                            hint="run it in smaller parts, or by `hudisql -f`",
                        ),
                        wait=0,
                    )

    def _open_session(self, caller: Caller, request: Fields) -> StructValue:
        asked = request.get(1)
        if asked is not None and asked < _PROTOCOL_V6:
            raise InvalidHandleError(
                f"the client speaks protocol V{asked + 1}; columns travel from V6 on",
                hint="use a newer driver",
            )
        given = {_text(key): _text(value) for key, value in (request.get(4) or {}).items()}
        hivevar = {
            key.removeprefix("set:hivevar:"): value
            for key, value in given.items()
            if key.startswith("set:hivevar:")
        }
        self._refuse_while_draining()
        login = caller.user or _text(request.get(2) or b"anonymous")
        user = self._proxied_user(caller, given) or login
        with self._place_of_session():
            console = SessionConsole()
            made = self._session.new_session(console, hivevar=hivevar)
            session = ClientSession(made, console, user, self._limits.session_operations, self._guard, login)
            try:
                session.configure(given)
            except BaseException:
                session.close()
                raise
            with self._lock:
                self._sessions[session.guid] = session
        caller.sessions.append(session)
        handle = ((1, STRUCT, ((1, STRING, session.guid), (2, STRING, session.secret))),)
        version = PROTOCOL_V8 if asked is None else min(PROTOCOL_V8, asked)
        return (_OK, (2, I32, version), (3, STRUCT, handle), (4, MAP, MapOf(STRING, STRING, ())))

    def _proxied_user(self, caller: Caller, given: dict[str, str]) -> str | None:
        """The user that the client asks to act as; its key is taken out of the settings.

        Raises RightMissingError if the user of the connection may not.
        """
        # With a prefix (`set:hiveconf:`) or, from the JDBC driver, without one.
        names = [key for key in given if key.endswith(_PROXY_USER)]
        users = {given.pop(name) for name in names}
        if caller.proxied is not None:
            users.add(caller.proxied)
        if users <= {caller.user}:
            return None
        if self._guard is None or caller.user is None:
            raise ServerBusyError(
                "nobody can act as another user here: the server runs without --rights",
                hint=f"leave out {_PROXY_USER}",
            )
        if len(users) > 1 or "" in users:
            raise RightMissingError(
                f"user {caller.user!r} may not act as several users, or one without a name",
                hint=f"give one {_PROXY_USER}, or doAs, with a name",
            )
        (user,) = users
        self._guard.require_proxy(caller.user, user)
        return user

    @contextmanager
    def _place_of_session(self) -> Iterator[None]:
        """Reserve one of the allowed sessions while it is opened."""
        with self._lock:
            count = len(self._sessions) + self._opening
            if count >= self._limits.sessions:
                raise ServerBusyError(
                    f"{count} sessions are open, as many as the server allows",
                    hint="close one, or try again later",
                )
            self._opening += 1
        try:
            yield
        finally:
            with self._lock:
                self._opening -= 1

    def _close_session(self, caller: Caller, request: Fields) -> StructValue:
        session = self._session_of(caller, request)
        if session in caller.sessions:
            caller.sessions.remove(session)
        self.close_session(session)
        return (_OK,)

    def _get_info(self, caller: Caller, request: Fields) -> StructValue:
        self._session_of(caller, request)
        return (_OK, (2, STRUCT, server_info(request.get(2))))

    def _execute(self, caller: Caller, request: Fields) -> StructValue:
        session = self._session_of(caller, request)
        self._refuse_while_draining()
        statement = _text(request.get(2) or b"")
        operation = session.add(Operation(EXECUTE_STATEMENT, statement, statement_kind(statement)))
        worker = threading.Thread(target=session.run, args=(operation,), name="statement", daemon=True)
        worker.start()
        seconds = request.get(5) or 0
        if seconds > 0:
            timer = threading.Timer(
                seconds, session.cancel, (operation,), {"state": OperationState.TIMEDOUT, "wait": 0}
            )
            timer.daemon = True
            timer.start()
            operation.on_end(timer.cancel)
        if not request.get(4):
            _wait_for(caller, session, operation)
            if operation.state is not OperationState.FINISHED:
                session.close_operation(operation)
                raise operation.error or StatementCancelledError("the statement was cancelled")
            operation.has_result = operation.pages is not None or operation.is_change
        return (_OK, (2, STRUCT, _handle_of(operation)))

    def _ask_catalog(self, kind: int, question: Question, caller: Caller, request: Fields) -> StructValue:
        session = self._session_of(caller, request)
        operation = session.add(Operation(kind))
        try:
            rights = (
                ALL_RIGHTS
                if self._guard is None
                else self._guard.rights_of(session.user, login=session.login)
            )
            operation.finish(pages_of_table(*question(session.session, request, rights)))
        except BaseException:
            session.close_operation(operation)
            raise
        return (_OK, (2, STRUCT, _handle_of(operation)))

    def _status(self, caller: Caller, request: Fields) -> StructValue:
        session, operation = self._operation_of(caller, request)
        operation.wait(_POLL_SECONDS)
        wants_progress = bool(request.get(2)) and operation.kind == EXECUTE_STATEMENT
        progress = progress_response(operation, session.session.spark) if wants_progress else None
        error = None if operation.error is None else error_status(operation.error)
        ended = operation.ended_at
        return (
            _OK,
            (2, I32, int(operation.state)),
            (3, STRING, None if error is None else error.state),
            (4, I32, None if error is None else error.code),
            (5, STRING, None if error is None else error.message),
            (7, I64, int(operation.started_at * 1000)),
            (8, I64, None if ended is None else int(ended * 1000)),
            # impyla does not fetch rows of a change by this flag; other clients use the handle.
            (9, BOOL, operation.has_result and not operation.is_change),
            (10, STRUCT, progress),
        )

    def _cancel(self, caller: Caller, request: Fields) -> StructValue:
        session, operation = self._operation_of(caller, request)
        session.cancel(operation)
        return (_OK,)

    def _close_operation(self, caller: Caller, request: Fields) -> StructValue:
        session, operation = self._operation_of(caller, request)
        session.close_operation(operation)
        return (_OK,)

    def _close_counted(self, caller: Caller, request: Fields) -> StructValue:
        """Impala's call to close a statement, by which impyla gets the number of changed rows."""
        session, operation = self._operation_of(caller, request)
        with operation.fetching:
            pages = operation.pages if operation.is_change else None
            changed = None if pages is None else pages.changed_rows()
        session.close_operation(operation)
        if changed is None:
            return (_OK,)
        rows_by_partition = MapOf(STRING, I64, [("", changed)])
        return (_OK, (2, STRUCT, ((1, MAP, rows_by_partition),)))

    def _metadata(self, caller: Caller, request: Fields) -> StructValue:
        session, operation = self._operation_of(caller, request)
        _wait_for(caller, session, operation)
        pages = operation.pages
        columns = (_NO_RESULT,) if pages is None else pages.columns
        described = [column.description(position) for position, column in enumerate(columns, 1)]
        return (_OK, (2, STRUCT, ((1, LIST, ListOf(STRUCT, described)),)))

    def _fetch(self, caller: Caller, request: Fields) -> StructValue:
        session, operation = self._operation_of(caller, request)
        most = min(max(1, request.get(3) or 1), _MOST_ROWS)
        is_first = request.get(2) == _FETCH_FIRST
        if request.get(4) == _FETCH_LOG:
            if operation.kind == EXECUTE_STATEMENT:
                log_progress(operation, session.session.spark)
            lines = operation.log.read(most, from_start=is_first)
            pages = pages_of_table((_LOG_COLUMN,), [(line,) for line in lines])
            return _page_response(0, pages.next_page(max(most, 1)), (_LOG_COLUMN,), has_more=False)
        _wait_for(caller, session, operation)
        session.last_used = time.monotonic()
        if operation.state is not OperationState.FINISHED:
            raise operation.error or InvalidHandleError(
                f"the statement has no rows to fetch: it is {operation.state.name.lower()}"
            )
        if operation.pages is None:
            return _page_response(0, None, (_NO_RESULT,), has_more=False)
        with operation.fetching:
            rows = operation.pages
            if is_first and rows.rows_given:
                raise InvalidHandleError(
                    "the rows of this result can be fetched once, from first to last", hint="run it again"
                )
            start = rows.rows_given
            page = rows.next_page(most)
            self._check_result_size(rows.bytes_given)
            return _page_response(start, page, rows.columns, has_more=rows.has_more)

    def _check_result_size(self, size: int) -> None:
        most = self._limits.result_bytes
        if most and size > most:
            raise ServerBusyError(
                f"the result has more than {most} bytes, the server's limit for one statement",
                hint="read fewer rows or columns (LIMIT), or write the rows into a table",
            )

    def _refuse_while_draining(self) -> None:
        if self.is_draining:
            raise ServerBusyError("the server is shutting down", hint="connect again in a moment")

    def _session_of(self, caller: Caller, request: Fields) -> ClientSession:
        identifier = _identifier((request.get(1) or {}).get(1))
        with self._lock:
            session = self._sessions.get(identifier[0])
        if session is None or not hmac.compare_digest(session.secret, identifier[1]):
            raise InvalidHandleError("the session is not open", hint="connect again")
        if not _owns(caller, session):
            raise InvalidHandleError("the session is another user's", hint="connect again")
        session.last_used = time.monotonic()
        return session

    def _operation_of(self, caller: Caller, request: Fields) -> tuple[ClientSession, Operation]:
        guid, secret = _identifier((request.get(1) or {}).get(1))
        for session in self.sessions:
            operation = session.operation(guid)
            if operation is None or not hmac.compare_digest(operation.secret, secret):
                continue
            if _owns(caller, session):
                return session, operation
        raise InvalidHandleError("the statement is not open", hint="run it again")


def _owns(caller: Caller, session: ClientSession) -> bool:
    """True if the caller opened the session, and for the user that it acts as."""
    return caller.user in (None, session.login) and caller.proxied in (None, session.user)


def _wait_for(caller: Caller, session: ClientSession, operation: Operation) -> None:
    """Wait for a statement's end; cancel it if its client disconnects."""
    while not operation.wait(_POLL_SECONDS):
        if caller.is_gone():
            session.cancel(operation, wait=0)


def _identifier(handle: Any) -> tuple[bytes, bytes]:
    if not isinstance(handle, dict):
        raise InvalidHandleError("the request names no session or statement")
    guid, secret = handle.get(1), handle.get(2)
    if not isinstance(guid, bytes) or not isinstance(secret, bytes):
        raise InvalidHandleError("the request names no session or statement")
    return guid, secret


def _handle_of(operation: Operation) -> StructValue:
    identifier = ((1, STRING, operation.guid), (2, STRING, operation.secret))
    return (
        (1, STRUCT, identifier),
        (2, I32, operation.kind),
        (3, BOOL, operation.has_result),
        (4, DOUBLE, None),
    )


def _page_response(start: int, page: Any, columns: Any, *, has_more: bool) -> StructValue:
    if page is None:
        page = batch_of(columns)
    encoded = [
        encode_column(values, column.wire) for values, column in zip(page.columns, columns, strict=True)
    ]
    rows = (
        (1, I64, start),
        (2, LIST, ListOf(STRUCT)),
        (3, LIST, ListOf(STRUCT, encoded)),
    )
    return (_OK, (2, BOOL, has_more), (3, STRUCT, rows))


def _error_status(error: HudisqlError) -> StructValue:
    status, code = error_status(error), _INVALID_HANDLE if isinstance(error, InvalidHandleError) else _ERROR
    # No infoMessages: the JDBC driver shows them as a stack trace of several lines.
    return ((1, I32, code), (3, STRING, status.state), (4, I32, status.code), (5, STRING, status.message))


def _text(value: Any) -> str:
    if not isinstance(value, bytes):
        raise InvalidHandleError("the request has a number where it needs a text")
    return value.decode(errors="replace")
