"""The SASL handshake of HiveServer2's binary transport: PLAIN, or GSSAPI (Kerberos).

A step is a status byte, a length and a payload; the client begins with the name of a mechanism.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Final

from hudisql.errors import AuthenticationError, ProtocolError
from hudisql.kerberos import KerberosError
from hudisql.server.transport import Login, SocketSource

if TYPE_CHECKING:
    from hudisql.server.users import UserChecks

START: Final = 1
_OK: Final = 2
_BAD: Final = 3
_COMPLETE: Final = 5
_LONGEST_STEP: Final = 64 << 10
_MOST_STEPS: Final = 10


def shake_hands(connection: socket.socket, source: SocketSource, users: UserChecks | None) -> Login:
    """Authenticate the client by the mechanism that it asks for; without `users` any name is taken.

    Raises ProtocolError and AuthenticationError, which the client is sent, too.
    """
    status, mechanism = _read_step(source)
    if status == START and mechanism == b"PLAIN" and (users is None or users.password is not None):
        return _plain(connection, source, users)
    if status == START and mechanism == b"GSSAPI" and users is not None and users.kerberos is not None:
        return _kerberos(connection, source, users)
    offered = "PLAIN" if users is None else " or ".join(users.mechanisms)
    _send_step(connection, _BAD, f"the SASL mechanism is {offered}".encode())
    raise ProtocolError(f"the client asks for the SASL mechanism {mechanism[:40]!r}; there is {offered}")


def _plain(connection: socket.socket, source: SocketSource, users: UserChecks | None) -> Login:
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
        if users is not None and users.password is not None:
            users.password(user, password)
    except AuthenticationError as error:
        _send_step(connection, _BAD, error.message.encode())
        raise
    _send_step(connection, _COMPLETE, b"")
    return Login(user)


def _kerberos(connection: socket.socket, source: SocketSource, users: UserChecks) -> Login:
    assert users.kerberos is not None
    try:
        server = users.kerberos()
        for _ in range(_MOST_STEPS):
            status, response = _read_step(source)
            if status not in (_OK, _COMPLETE):
                raise ProtocolError("the client broke off the login by Kerberos")
            challenge = server.step(response)
            if server.user is not None:
                _send_step(connection, _COMPLETE, b"")
                return Login(server.user, server.layer)
            _send_step(connection, _OK, challenge)
    except KerberosError as error:
        _send_step(connection, _BAD, str(error).encode())
        raise AuthenticationError(f"a login by Kerberos failed: {error}", hint=error.hint) from error
    _send_step(connection, _BAD, b"the login takes too many steps")
    raise ProtocolError("a login by Kerberos takes too many steps")


def _read_step(source: SocketSource) -> tuple[int, bytes]:
    status, length = struct.unpack(">Bi", source.take(5))
    if not 0 <= length <= _LONGEST_STEP:
        raise ProtocolError(f"a handshake of {length} bytes")
    return status, source.take(length)


def _send_step(connection: socket.socket, status: int, payload: bytes) -> None:
    connection.sendall(struct.pack(">Bi", status, len(payload)) + payload)
