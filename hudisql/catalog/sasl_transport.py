"""Thrift's SASL transport of a client: a handshake by a mechanism, then frames of any length.

Follows the byte layout of Apache Thrift's `TSaslTransport`: a status byte and a length before each message of
the handshake, a length before each frame. Thrift's own Python client refuses frames above 16 MB, which a
metastore sends for 1,000 partitions of a wide table.
"""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any, Final, Protocol

from thrift.transport.TTransport import CReadableTransport, TTransportBase, TTransportException

from hudisql.kerberos import MessageLayer

_START: Final = 1
_OK: Final = 2
_COMPLETE: Final = 5
_LONGEST_HANDSHAKE: Final = 1 << 20


class Mechanism(Protocol):
    """The client's side of a SASL mechanism."""

    @property
    def mechanism(self) -> str:
        """Its name in SASL."""

    @property
    def layer(self) -> MessageLayer:
        """What messages after the handshake go through."""

    def step(self, challenge: bytes | None = None) -> bytes:
        """The answer to a challenge; None asks for the first response."""


class PlainMechanism:
    """A user and a password, sent as they are (RFC 4616)."""

    mechanism: Final = "PLAIN"

    def __init__(self, user: str, password: str) -> None:
        self._response = f"\0{user}\0{password}".encode()
        self.layer = MessageLayer()

    def step(self, challenge: bytes | None = None) -> bytes:  # noqa: ARG002
        """User and password, whatever the challenge."""
        return self._response


class SaslTransport(TTransportBase, CReadableTransport):  # type: ignore[misc]
    """A Thrift transport over `socket`, a TSocket, that logs in when it is opened."""

    def __init__(self, socket: Any, mechanism: Mechanism) -> None:
        self._socket = socket
        self._mechanism = mechanism
        self._to_send = BytesIO()
        self._received = BytesIO()

    def isOpen(self) -> bool:  # noqa: N802
        """True if the socket is."""
        return bool(self._socket.isOpen())

    def open(self) -> None:
        """Connect and log in. Raises TTransportException with the server's text if it refuses."""
        if not self.isOpen():
            self._socket.open()
        self._send_step(_START, self._mechanism.mechanism.encode())
        self._send_step(_OK, self._mechanism.step())
        while True:
            status, text = self._receive_step()
            if status == _COMPLETE:
                return
            if status != _OK:
                raise RefusedLoginError(text.decode(errors="replace"))
            self._send_step(_OK, self._mechanism.step(text))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def read(self, sz: int) -> bytes:
        """At most `sz` bytes of the current frame, of the next one if it is used up."""
        taken = self._received.read(sz)
        if taken or sz == 0:
            return taken
        self._receive_frame()
        return self._received.read(sz)

    def write(self, buf: bytes) -> None:
        """Keep bytes until `flush`."""
        self._to_send.write(buf)

    def flush(self) -> None:
        """Send what was written as one frame."""
        message = self._mechanism.layer.wrap(self._to_send.getvalue())
        self._to_send = BytesIO()
        self._socket.write(struct.pack(">I", len(message)) + message)
        self._socket.flush()

    @property
    def cstringio_buf(self) -> BytesIO:
        """The frame that Thrift's accelerated protocol reads."""
        return self._received

    def cstringio_refill(self, partialread: bytes, reqlen: int) -> BytesIO:
        """A buffer that begins with `partialread` and has at least `reqlen` bytes."""
        parts, length = [partialread], len(partialread)
        while length < reqlen:
            self._receive_frame()
            parts.append(self._received.getvalue())
            length += len(parts[-1])
        self._received = BytesIO(b"".join(parts))
        return self._received

    def _receive_frame(self) -> None:
        (length,) = struct.unpack(">I", self._socket.readAll(4))
        self._received = BytesIO(self._mechanism.layer.unwrap(_read_all(self._socket, length)))

    def _send_step(self, status: int, text: bytes) -> None:
        self._socket.write(struct.pack(">BI", status, len(text)) + text)
        self._socket.flush()

    def _receive_step(self) -> tuple[int, bytes]:
        status, length = struct.unpack(">BI", self._socket.readAll(5))
        if length > _LONGEST_HANDSHAKE:
            raise TTransportException(message="the server does not answer in SASL")
        return status, self._socket.readAll(length) if length else b""


class RefusedLoginError(TTransportException):  # type: ignore[misc]
    """The server refused the login, with its text."""

    def __init__(self, text: str) -> None:
        super().__init__(message=f"the server refuses the login: {text}")


def _read_all(socket: Any, length: int) -> bytes:
    """`length` bytes, joined once: Thrift's `readAll` copies a long frame for each piece that arrives."""
    pieces, left = [], length
    while left:
        piece = socket.read(min(left, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
