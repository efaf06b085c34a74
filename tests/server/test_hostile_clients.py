"""Bytes that no client of good will sends: nothing runs, nothing stays open, others are served."""

from __future__ import annotations

import base64
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hudisql.console import SilentConsole
from hudisql.errors import AuthenticationError, SettingsError
from hudisql.kerberos import KerberosError, KerberosServer
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.thrift_server import ThriftServer, listen_on
from hudisql.server.users import UserChecks
from tests.server.test_wire_format import EXECUTE, OPEN

HELLO = b"\x01\x00\x00\x00\x05PLAIN"
ANSWER = b"\x02\x00\x00\x00\x04\0u\0p"
QUICK = ServerLimits(connections=20, message_bytes=4096, handshake_seconds=0.3, message_seconds=0.3)


class UntouchedSession:
    """A session of which nothing may be asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        raise AssertionError(f"the session was asked for {name}")


@pytest.fixture(scope="module")
def untouched() -> UntouchedSession:
    return UntouchedSession()


@pytest.fixture(scope="module")
def open_server(untouched: Any) -> Iterator[ThriftServer]:
    started = ThriftServer(untouched, listen_on("127.0.0.1", 0), QUICK, SilentConsole())
    yield started
    started.close()


def without_a_key() -> KerberosServer:
    raise KerberosError("the keytab is gone", "export it again")


@pytest.fixture(scope="module")
def guarded_server(untouched: Any) -> Iterator[ThriftServer]:
    def check(user: str, password: str) -> None:
        if (user, password) != ("ada", "right"):
            raise AuthenticationError("no user with this password")

    started = ThriftServer(
        untouched,
        listen_on("127.0.0.1", 0),
        QUICK,
        SilentConsole(),
        users=UserChecks(check, kerberos=without_a_key),
    )
    yield started
    started.close()


def talk(server: ThriftServer, *pieces: bytes, ends: bool = True) -> bytes:
    """Send the pieces, and then nothing more; what the server says until it closes the connection."""
    said = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
            if ends:
                client.shutdown(socket.SHUT_WR)
            while received := client.recv(65536):
                said += received
        except ConnectionError:
            pass
    return said


def wait_until_nobody_is_connected(server: ThriftServer) -> None:
    deadline = time.monotonic() + 5
    while server.open_connections and time.monotonic() < deadline:
        time.sleep(0.005)
    assert server.open_connections == 0
    assert not [thread for thread in threading.enumerate() if thread.name == "statement"]


@given(
    begin=some.sampled_from([b"", b"\x80\x01\x00\x01", HELLO, HELLO + ANSWER, b"POST ", EXECUTE[:40]]),
    content=some.binary(max_size=300),
)
def test_random_bytes_run_nothing_and_leave_nothing(
    open_server: ThriftServer, untouched: UntouchedSession, begin: bytes, content: bytes
) -> None:
    talk(open_server, begin + content)
    wait_until_nobody_is_connected(open_server)
    assert untouched.asked == []


@given(
    at=some.integers(0, len(EXECUTE) - 1),
    byte=some.integers(0, 255),
    cut=some.integers(1, len(EXECUTE)),
    is_framed=some.booleans(),
)
def test_a_damaged_statement_is_not_run(
    open_server: ThriftServer, untouched: UntouchedSession, at: int, byte: int, cut: int, is_framed: bool
) -> None:
    damaged = (EXECUTE[:at] + bytes([byte]) + EXECUTE[at + 1 :])[:cut]
    framed = HELLO + ANSWER + struct.pack(">i", len(EXECUTE)) + damaged
    talk(open_server, framed if is_framed else damaged)
    wait_until_nobody_is_connected(open_server)
    assert untouched.asked == []


@pytest.mark.parametrize("length", [-1, 0, 4097, (1 << 31) - 1])
def test_a_frame_of_a_wrong_length_ends_the_connection(open_server: ThriftServer, length: int) -> None:
    said = talk(open_server, HELLO + ANSWER + struct.pack(">i", length), ends=False)
    assert said == b"\x05\x00\x00\x00\x00"
    wait_until_nobody_is_connected(open_server)


@pytest.mark.parametrize("begin", [b"", HELLO[:3], HELLO, EXECUTE[:9], b"POST /cliservice HTTP/1.1\r\nHo"])
def test_a_client_that_falls_silent_is_closed(open_server: ThriftServer, begin: bytes) -> None:
    began = time.monotonic()
    talk(open_server, begin, ends=False)
    assert time.monotonic() - began < 3
    wait_until_nobody_is_connected(open_server)


def test_connections_beyond_the_limit_are_closed_and_others_are_served(open_server: ThriftServer) -> None:
    held = [socket.create_connection(("127.0.0.1", open_server.port)) for _ in range(QUICK.connections)]
    try:
        deadline = time.monotonic() + 5
        while open_server.open_connections < QUICK.connections and time.monotonic() < deadline:
            time.sleep(0.005)
        assert talk(open_server, b"", ends=False) == b""
    finally:
        for each in held:
            each.close()
    wait_until_nobody_is_connected(open_server)
    assert talk(open_server, EXECUTE)[:4] == b"\x80\x01\x00\x02"


def http(body: bytes, user: str = "") -> bytes:
    return http_by(f"Basic {base64.b64encode(user.encode()).decode()}" if user else "", body)


def http_by(credentials: str, body: bytes) -> bytes:
    authorization = f"Authorization: {credentials}\r\n" if credentials else ""
    head = f"POST /cliservice HTTP/1.1\r\n{authorization}Content-Length: {len(body)}\r\n\r\n"
    return head.encode("latin-1") + body


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (OPEN, b""),
        (HELLO + b"\x02\x00\x00\x00\x0a\0ada\0wrong", b"\x03"),
        (HELLO + b"\x02\x00\x00\x00\x05\0ada\0", b"\x03"),
        (http(OPEN), b"HTTP/1.1 401"),
        (http(OPEN, "ada:wrong"), b"HTTP/1.1 401"),
        (http_by("Basic \xe9", OPEN), b"HTTP/1.1 401"),
        (http_by("Negotiate \xe9", OPEN), b"HTTP/1.1 401"),
        (http_by("Negotiate YQ==", OPEN), b"HTTP/1.1 401"),
    ],
)
def test_without_the_right_password_nothing_is_answered(
    guarded_server: ThriftServer, untouched: UntouchedSession, given: bytes, answer: bytes
) -> None:
    said = talk(guarded_server, given)
    assert said.startswith(answer)
    assert b"\x80\x01\x00\x02" not in said
    assert untouched.asked == []


def test_a_server_without_users_listens_on_the_loopback_only() -> None:
    with pytest.raises(SettingsError, match="loopback only, not on"):
        listen_on("0.0.0.0", 0)


def test_a_client_that_comes_before_the_server_waits_for_it(untouched: Any) -> None:
    listener = listen_on("127.0.0.1", 0)
    with socket.create_connection(listener.getsockname(), timeout=5) as client:
        client.sendall(HELLO + ANSWER)
        with closing(ThriftServer(untouched, listener, QUICK, SilentConsole())):
            assert client.recv(5) == b"\x05\x00\x00\x00\x00"


def test_an_address_that_is_taken_is_an_error() -> None:
    with listen_on("127.0.0.1", 0) as listener, pytest.raises(SettingsError, match="cannot listen on 127"):
        listen_on("127.0.0.1", listener.getsockname()[1])
