"""Connections of `hudisql serve`: one thread for each, which reads messages and answers them.

A connection that sends a malformed message is closed; the message is not run. The sessions that a connection
opened end with it, as in HiveServer2 (`hive.server2.close.session.on.disconnect`).

The first byte of a connection tells its transport: 0x01 begins a SASL handshake, after which each
message is a frame with its length in front; 0x80 begins an unframed message (`auth=noSasl`), P a
POST of the HTTP transport.
"""

from __future__ import annotations

import ipaddress
import select
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from hudisql.console import Console
from hudisql.errors import AuthenticationError, ProtocolError, SettingsError
from hudisql.server import thrift_binary as thrift
from hudisql.server.http_transport import HttpTransport
from hudisql.server.rights.statement_guard import StatementGuard
from hudisql.server.sasl_handshake import START, shake_hands
from hudisql.server.service import Caller, CliService
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.transport import (
    ConnectionEnded,
    ConnectionIdleError,
    SocketSource,
    Transport,
)

if TYPE_CHECKING:
    from hudisql.server.rights.rights_file import RightsFile
    from hudisql.server.users import UserChecks
    from hudisql.session import Session

_UNKNOWN_METHOD: Final = 1
_LOOK_SECONDS: Final = 0.5
_BACKLOG: Final = 128
_HTTP: Final = ord("P")


class ThriftServer:
    """A listening server; `close` ends it at once, `drain` when the running statements have ended."""

    def __init__(
        self,
        session: Session,
        listener: socket.socket,
        limits: ServerLimits,
        console: Console,
        *,
        users: UserChecks | None = None,
        rights: RightsFile | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Serve the clients that connect to `listener` (see `listen_on`), and those already waiting.

        With `rights` a user may do what they say, and each statement is a note on `console`.
        """
        guard = None
        if rights is not None:
            guard = StatementGuard(rights, console.info, lambda: session.context.metastore)
        self.service = CliService(session, limits, None if users is None else users.known, guard)
        self._limits = limits
        self._console = console
        self._users = users
        self._takes_proxies = rights is not None
        self._tls = tls
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._answering = 0
        self._listener = listener
        self.host, self.port = self._listener.getsockname()[:2]
        self._threads = [
            threading.Thread(target=self._accept, name="accept", daemon=True),
            threading.Thread(target=self._watch, name="watch", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def open_connections(self) -> int:
        """How many clients are connected."""
        with self._lock:
            return len(self._connections)

    def drain(self, seconds: float) -> bool:
        """Refuse new connections and statements, and wait for the running ones; False after the timeout."""
        self._refuse_connections()
        deadline = time.monotonic() + seconds
        while self._answering or any(
            session.is_busy or session.is_fetching for session in self.service.sessions
        ):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def close(self) -> None:
        """Close everything and cancel running statements. Closing it again does nothing."""
        self._is_closed.set()
        self._refuse_connections()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for session in self.service.sessions:
            self.service.close_session(session)

    def _refuse_connections(self) -> None:
        self.service.is_draining = True
        # accept() goes on waiting on a listener that is only closed, not shut down.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._is_closed.is_set() or self.service.is_draining:
                    return
                # For example, no file descriptor is left: connections end, and the server goes on.
                time.sleep(_LOOK_SECONDS)
                continue
            with self._lock:
                is_full = len(self._connections) >= self._limits.connections
                if not is_full:
                    self._connections.add(connection)
            if is_full:
                self._console.warning(f"{self._limits.connections} connections are open: refused another one")
                connection.close()
                continue
            try:
                threading.Thread(target=self._serve, args=(connection,), name="client", daemon=True).start()
            except RuntimeError as error:
                # The system cannot start another thread.
                self._console.warning(f"refused a connection: {error}")
                with self._lock:
                    self._connections.discard(connection)
                connection.close()

    def _watch(self) -> None:
        while not self._is_closed.wait(_LOOK_SECONDS):
            # For example, a session that ends meanwhile must not stop the supervision of the others.
            for end in (self.service.end_idle_sessions, self.service.end_long_statements):
                try:
                    end()
                except Exception as error:
                    self._console.warning(f"the limits of sessions were not enforced: {error}")

    def _serve(self, connection: socket.socket) -> None:
        """Serve one connection from its first byte to its last."""
        caller: Caller | None = None
        opened = connection
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._tls is not None:
                connection.settimeout(self._limits.handshake_seconds)
                opened = self._tls.wrap_socket(connection, server_side=True)
                with self._lock:
                    # The first page of the result is read and empty.
                    self._connections.discard(connection)
                    self._connections.add(opened)
            transport = open_transport(opened, self._limits, self._users, takes_proxies=self._takes_proxies)
            caller = Caller(transport.user, lambda: _has_left(opened))
            self._converse(transport, caller)
        except (ProtocolError, AuthenticationError) as error:
            self._console.warning(f"closed the connection of {_peer(connection)}: {error.message}")
        except (ConnectionEnded, OSError):
            pass
        finally:
            if caller is not None and not transport.keeps_sessions:
                for session in caller.sessions:
                    self.service.close_session(session)
            with self._lock:
                self._connections -= {connection, opened}
            opened.close()
            connection.close()

    def _converse(self, transport: Transport | HttpTransport, caller: Caller) -> None:
        while not self._is_closed.is_set():
            # A connection without a session is idle.
            limits = self._limits
            try:
                transport.wait_for_message(limits.idle_seconds if caller.sessions else limits.message_seconds)
            except ConnectionIdleError:
                if any(session.is_busy for session in caller.sessions):
                    continue
                raise
            caller.user, caller.has_ticket = transport.user, transport.has_ticket
            caller.proxied = transport.proxied
            message = thrift.read_message(transport.source, self._limits.message_bytes)
            with self._lock:
                self._answering += 1
            try:
                transport.send(self._reply_to(message, caller))
            finally:
                with self._lock:
                    self._answering -= 1

    def _reply_to(self, message: thrift.Message, caller: Caller) -> bytes:
        answer = self.service.answer(caller, message.method, message.arguments)
        if answer is not None:
            return thrift.write_message(message.method, thrift.REPLY, message.number, answer)
        words = f"there is no method {message.method}"
        body = ((1, thrift.STRING, words), (2, thrift.I32, _UNKNOWN_METHOD))
        return thrift.write_message(message.method, thrift.EXCEPTION, message.number, body)


def listen_on(host: str, port: int, *, has_users: bool = False) -> socket.socket:
    """A socket on which clients can connect at once; their requests wait for the server.

    Raises SettingsError if the address is not available, or if other machines could connect without a user.
    """
    if not has_users and not _is_loopback(host):
        raise SettingsError(
            f"without users the server listens on the loopback only, not on {host}",
            hint="give it users (--users, --ldap-url or --keytab), and TLS",
        )
    try:
        return socket.create_server((host, port), backlog=_BACKLOG)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="give another --host or --port",
        ) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _has_left(connection: socket.socket) -> bool:
    """True if the client has closed its end; peeks without reading."""
    hung_up = getattr(select, "POLLRDHUP", 0)
    try:
        if hung_up:
            # It may come after unread data: TLS sends a closing message.
            poll = select.poll()
            poll.register(connection.fileno(), hung_up)
            return bool(poll.poll(0))
        with socket.fromfd(connection.fileno(), connection.family, connection.type) as raw:
            raw.setblocking(False)
            return raw.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except (OSError, ValueError):
        return True


def _peer(connection: socket.socket) -> str:
    try:
        host, port = connection.getpeername()[:2]
    except OSError:
        return "a client"
    return f"{host}:{port}"


def open_transport(
    connection: socket.socket,
    limits: ServerLimits,
    users: UserChecks | None,
    *,
    takes_proxies: bool = False,
) -> Transport | HttpTransport:
    """Detect the transport of a client and authenticate its user.

    Without `users` every user name is accepted and no handshake is needed. Raises ProtocolError,
    AuthenticationError and ConnectionEnded.
    """
    source = SocketSource(connection)
    transport = Transport(connection, source, limits)
    first = source.wait_for_byte(limits.handshake_seconds)
    if first == _HTTP:
        return HttpTransport(connection, source, limits, users, takes_proxies=takes_proxies)
    source.begin(limits.handshake_seconds)
    if first == START:
        transport.log_in(shake_hands(connection, source, users))
    elif first != 0x80:
        raise ProtocolError(f"the connection begins with the byte {first:#04x}: neither SASL nor a message")
    elif users is not None:
        raise AuthenticationError(
            "this server has users: a connection without SASL is refused",
            hint=f"connect with {' or '.join(users.mechanisms)}, not with auth=noSasl",
        )
    return transport
