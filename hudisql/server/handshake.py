"""Detects HiveServer2's transports by the first byte of a connection.

0x01 begins a SASL handshake (mechanism PLAIN), after which each message is a frame with its length in front;
0x80 begins an unframed message (`auth=noSasl`), P a POST of the HTTP transport.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from hudisql.errors import AuthenticationError, ProtocolError
from hudisql.server.http_transport import HttpTransport
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.transport import CheckPassword, SocketSource, Transport

_HTTP: Final = ord("P")
_START: Final = 1
_OK: Final = 2
_BAD: Final = 3
_COMPLETE: Final = 5
_LONGEST_HANDSHAKE: Final = 16 << 10


def open_transport(
    connection: socket.socket, limits: ServerLimits, check_password: CheckPassword | None
) -> Transport | HttpTransport:
    """Detect the transport of a client and authenticate its user.

    Without `check_password` every user name is accepted and no handshake is needed. Raises ProtocolError,
    AuthenticationError and ConnectionEnded.
    """
    source = SocketSource(connection)
    transport = Transport(connection, source, limits)
    first = source.wait_for_byte(limits.handshake_seconds)
    if first == _HTTP:
        return HttpTransport(connection, source, limits, check_password)
    source.begin(limits.handshake_seconds)
    if first == _START:
        transport.user = _shake_hands(connection, source, check_password)
        transport.is_framed = True
    elif first != 0x80:
        raise ProtocolError(f"the connection begins with the byte {first:#04x}: neither SASL nor a message")
    elif check_password is not None:
        raise AuthenticationError(
            "this server has users: a connection without SASL is refused",
            hint="connect with a user and a password (PLAIN; not auth=noSasl)",
        )
    return transport


def _shake_hands(
    connection: socket.socket, source: SocketSource, check_password: CheckPassword | None
) -> str:
    status, mechanism = _read_step(source)
    if status != _START or mechanism != b"PLAIN":
        _send_step(connection, _BAD, b"the SASL mechanism is PLAIN")
        raise ProtocolError(f"the client asks for the SASL mechanism {mechanism[:40]!r}; there is PLAIN")
    status, response = _read_step(source)
    # authorization identity, user, password
    parts = response.split(b"\0")
    if status not in (_OK, _COMPLETE) or len(parts) != 3:
        _send_step(connection, _BAD, b"PLAIN needs a user and a password")
        raise ProtocolError("the answer of the client to PLAIN has no user and password")
    if parts[0] not in (b"", parts[1]):
        _send_step(connection, _BAD, b"nobody can act as another user here")
        raise AuthenticationError("a client asks to act as another user")
    user, password = parts[1].decode(errors="replace"), parts[2].decode(errors="replace")
    try:
        if check_password is not None:
            check_password(user, password)
    except AuthenticationError as error:
        _send_step(connection, _BAD, error.message.encode())
        raise
    _send_step(connection, _COMPLETE, b"")
    return user


def _read_step(source: SocketSource) -> tuple[int, bytes]:
    status, length = struct.unpack(">Bi", source.take(5))
    if not 0 <= length <= _LONGEST_HANDSHAKE:
        raise ProtocolError(f"a handshake of {length} bytes")
    return status, source.take(length)


def _send_step(connection: socket.socket, status: int, payload: bytes) -> None:
    connection.sendall(struct.pack(">Bi", status, len(payload)) + payload)
