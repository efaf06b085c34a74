"""The bytes of one connection, and messages of HiveServer2's binary transport, framed or not.

A connection that is silent within a handshake or a message is closed.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import Final

from hudisql.errors import ProtocolError
from hudisql.kerberos import KerberosError, MessageLayer
from hudisql.server.thrift_limits import ServerLimits

_CHUNK: Final = 64 << 10


class ConnectionEnded(Exception):  # noqa: N818
    """The client has closed the connection between two messages."""


class ConnectionIdleError(ConnectionEnded):
    """The client has sent nothing within the idle timeout."""


class SocketSource:
    """Reads from a socket with a deadline, never more than requested."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = bytearray()
        self._deadline: float | None = None

    def wait_for_byte(self, seconds: float) -> int:
        """Wait for the first byte of the next message without consuming it.

        Raises ConnectionEnded, or ConnectionIdleError after the timeout.
        """
        self._deadline = time.monotonic() + seconds
        try:
            if not self._buffer and not self._receive():
                raise ConnectionEnded
        except ProtocolError as error:
            if time.monotonic() >= self._deadline:
                raise ConnectionIdleError from error
            raise ConnectionEnded from error
        return self._buffer[0]

    def begin(self, seconds: float) -> None:
        """Set the deadline of the following reads to `seconds` from now."""
        self._deadline = time.monotonic() + seconds

    def take(self, count: int) -> bytes:
        """The next bytes. Raises ProtocolError if they do not come."""
        while len(self._buffer) < count:
            if not self._receive():
                raise ProtocolError("the connection ended within a message")
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def take_until(self, end: bytes, most: int) -> bytes:
        """The bytes before `end`, which is consumed too. Raises ProtocolError for more than `most`."""
        while (found := self._buffer.find(end)) < 0:
            if len(self._buffer) > most:
                raise ProtocolError(f"the head of the request has more than {most} bytes")
            if not self._receive():
                raise ProtocolError("the connection ended within a message")
        return self.take(found + len(end))[: -len(end)]

    def _receive(self) -> bool:
        left = None if self._deadline is None else self._deadline - time.monotonic()
        if left is not None and left <= 0:
            raise ProtocolError("the client is silent within a message")
        self._socket.settimeout(left)
        try:
            received = self._socket.recv(_CHUNK)
        except TimeoutError:
            raise ProtocolError("the client is silent within a message") from None
        except OSError as error:
            raise ProtocolError(f"the connection broke: {error}") from error
        self._buffer += received
        return bool(received)


class BodySource:
    """Reads the bytes of a message that is here already."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self, count: int) -> bytes:
        """The next bytes. Raises ProtocolError if there are fewer."""
        taken = self._body[self._at : self._at + count]
        if len(taken) < count:
            raise ProtocolError("the body ends within the message")
        self._at += count
        return taken


@dataclass(frozen=True)
class Login:
    """Who is connected, and what the messages after the handshake go through (None: nothing)."""

    user: str
    layer: MessageLayer | None = None


class Transport:
    """Messages of one binary connection, framed or not, signed or encrypted or neither."""

    keeps_sessions: Final = False
    proxied: Final[str | None] = None
    """The user to act as comes with a session's settings, unlike over HTTP."""

    def __init__(self, connection: socket.socket, source: SocketSource, limits: ServerLimits) -> None:
        self._socket = connection
        self._limits = limits
        self._received = source
        self._layer: MessageLayer | None = None
        self.source: SocketSource | BodySource = source
        self.is_framed = False
        self.user: str | None = None
        self.has_ticket = False

    def log_in(self, login: Login) -> None:
        """Go on after a handshake: messages are frames from now on."""
        self.user = login.user
        self.has_ticket = login.layer is not None
        self.is_framed = True
        if login.layer is not None and login.layer.changes_messages:
            self._layer = login.layer

    def wait_for_message(self, seconds: float) -> None:
        """Wait until a message begins; of a framed one the length is then checked.

        Raises ConnectionEnded and ProtocolError.
        """
        self._received.wait_for_byte(seconds)
        self._received.begin(self._limits.message_seconds)
        if not self.is_framed:
            return
        (length,) = struct.unpack(">i", self._received.take(4))
        if not 0 < length <= self._limits.message_bytes:
            raise ProtocolError(f"a message of {length} bytes: the limit is {self._limits.message_bytes}")
        if self._layer is not None:
            try:
                self.source = BodySource(self._layer.unwrap(self._received.take(length)))
            except KerberosError as error:
                raise ProtocolError(f"a message is not signed or encrypted as agreed: {error}") from error

    def send(self, message: bytes) -> None:
        """Send one message. Raises OSError; a client that reads nothing for long counts as disconnected."""
        if self._layer is not None:
            message = self._layer.wrap(message)
        if self.is_framed:
            message = struct.pack(">i", len(message)) + message
        send_all(self._socket, message, self._limits.message_seconds)


def send_all(connection: socket.socket, content: bytes, seconds: float) -> None:
    """Send everything to a client that reads something every `seconds`. Raises OSError."""
    connection.settimeout(seconds)
    left = memoryview(content)
    # The timeout of `sendall` is for the whole, which may take longer on a slow network.
    while left:
        left = left[connection.send(left[:_CHUNK]) :]
