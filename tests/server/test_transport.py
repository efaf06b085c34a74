"""What a connection does while nobody speaks, and to whom it does not speak."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from hudisql.console import SilentConsole
from hudisql.errors import SessionClosedError
from hudisql.server.operation import Operation
from hudisql.server.service import Caller, CliService
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.thrift_server import ThriftServer, _has_left, listen_on
from hudisql.server.transport import SocketSource, Transport
from tests.server.test_hostile_clients import HELLO, QUICK, http, talk
from tests.server.test_wire_format import OPEN

LIMITS = ServerLimits(message_seconds=0.3, idle_seconds=0.3, sessions=3)


class SlowSessions:
    """Opens sessions, each after a moment."""

    spark: Any = None

    def new_session(self, *_given: Any, **_named: Any) -> Any:
        time.sleep(0.1)
        return SimpleNamespace(spark=None, close=lambda: None)


def test_a_slow_client_that_goes_on_reading_gets_the_whole_message() -> None:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
    content = bytes(1 << 20)
    got = bytearray()

    def read() -> None:
        while piece := theirs.recv(1 << 16):
            got.extend(piece)
            time.sleep(0.05)

    reader = threading.Thread(target=read)
    with theirs:
        reader.start()
        with ours:
            Transport(ours, SocketSource(ours), LIMITS).send(content)
        reader.join()
    assert got == content


def test_a_client_that_leaves_behind_unread_bytes_has_left() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        server = listener.accept()[0]
        with server:
            client.sendall(b"farewell")
            assert not _has_left(server)
            client.close()
            time.sleep(0.05)
            assert _has_left(server)


def test_a_connection_whose_statement_runs_is_not_idle() -> None:
    server: Any = ThriftServer(SlowSessions(), listen_on("127.0.0.1", 0), LIMITS, SilentConsole())  # type: ignore[arg-type]
    with closing(server), socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(OPEN.replace(b"\x00\x00\x00\x04lake", b"\x00\x00\x00\x00"))
        assert client.recv(1000)
        (session,) = server.service.sessions
        session.cancel = lambda *_given, **_named: None
        operation = session.add(Operation(0))
        client.settimeout(1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        operation.cancel(lambda _tag: None, wait=0)
        operation.run(lambda: None)
        assert client.recv(1) == b""


def test_a_session_whose_rows_are_computed_is_busy() -> None:
    service = CliService(SlowSessions(), LIMITS)  # type: ignore[arg-type]
    service.answer(Caller(None), "OpenSession", {1: {1: 7}})
    (session,) = service.sessions
    operation = session.add(Operation(0))
    operation.run(lambda: None)
    assert not session.is_busy
    with operation.fetching:
        assert session.is_busy


def test_sessions_that_open_at_the_same_time_are_no_more_than_the_limit() -> None:
    service = CliService(SlowSessions(), LIMITS)  # type: ignore[arg-type]
    threads = [
        threading.Thread(target=service.answer, args=(Caller(None), "OpenSession", {1: {1: 7}}))
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(service.sessions) == LIMITS.sessions


def test_the_watch_over_limits_goes_on_after_an_error() -> None:
    server: Any = ThriftServer(SlowSessions(), listen_on("127.0.0.1", 0), LIMITS, SilentConsole())  # type: ignore[arg-type]
    looks: list[float] = []

    def end_idle_sessions() -> None:
        looks.append(time.monotonic())
        raise SessionClosedError("the session is closed")

    with closing(server):
        server.service.end_idle_sessions = end_idle_sessions
        deadline = time.monotonic() + 4
        while len(looks) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
    assert len(looks) > 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_connections_are_taken_again_after_there_was_no_thread_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server: Any = ThriftServer(SlowSessions(), listen_on("127.0.0.1", 0), QUICK, SilentConsole())  # type: ignore[arg-type]
    start = threading.Thread.start

    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with closing(server):
        monkeypatch.setattr(threading.Thread, "start", fail)
        with suppress(OSError):
            assert talk(server, OPEN) == b""
        monkeypatch.setattr(threading.Thread, "start", start)
        assert server.open_connections == 0
        assert talk(server, http(OPEN)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("key", [b"hive.server2.proxy.user", b"set:hiveconf:hive.server2.proxy.user"])
def test_nobody_acts_as_another_user(key: bytes) -> None:
    service = CliService(SlowSessions(), LIMITS)  # type: ignore[arg-type]
    answer = service.answer(Caller(None), "OpenSession", {1: {1: 7, 4: {key: b"bo"}}})
    assert "another user" in str(answer)
    assert service.sessions == []


@pytest.mark.parametrize(
    ("request_bytes", "answer"),
    [
        (HELLO + b"\x02\x00\x00\x00\x06bo\0u\0p", b"\x03"),
        (http(OPEN).replace(b"/cliservice", b"/cliservice?doAs=bo"), b"HTTP/1.1 403"),
        (http(OPEN).replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nOrigin: http://a.example\r\n"), b"HTTP/1.1 403"),
        (http(OPEN).replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"), b"HTTP/1.1 411"),
    ],
)
def test_other_users_web_pages_and_chunks_are_refused(request_bytes: bytes, answer: bytes) -> None:
    server: Any = ThriftServer(SlowSessions(), listen_on("127.0.0.1", 0), QUICK, SilentConsole())  # type: ignore[arg-type]
    with closing(server):
        assert talk(server, request_bytes).startswith(answer)
        assert server.service.sessions == []
