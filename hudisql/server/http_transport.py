"""HiveServer2's HTTP transport: each request is the body of a POST, and the reply that of its response.

Users authenticate with every request, by Basic authentication or a Kerberos ticket (Negotiate). Of HTTP/1.1
it supports what Thrift's clients use: `Content-Length` and persistent connections. A session does not end
with its connection.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from hudisql.errors import AuthenticationError, ProtocolError
from hudisql.kerberos import KerberosError, KerberosServer
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.transport import BodySource, SocketSource, send_all

if TYPE_CHECKING:
    from hudisql.server.users import UserChecks

_LONGEST_HEAD: Final = 16 << 10
_DO_AS: Final = "doas"
_END_OF_HEAD: Final = b"\r\n\r\n"


class HttpTransport:
    """Messages of one HTTP connection."""

    keeps_sessions: Final = True

    def __init__(
        self,
        connection: socket.socket,
        received: SocketSource,
        limits: ServerLimits,
        users: UserChecks | None,
        *,
        takes_proxies: bool = False,
    ) -> None:
        """With `takes_proxies` a request may name the user to act as, by `doAs`."""
        self._socket = connection
        self._received = received
        self._limits = limits
        self._users = users
        self._proof: bytes | None = None
        self.has_ticket = False
        self.source = BodySource(b"")
        self.user: str | None = None
        self.proxied: str | None = None
        self._takes_proxies = takes_proxies

    def wait_for_message(self, seconds: float) -> None:
        """Wait for a request and read its body.

        Raises ConnectionEnded, ProtocolError and AuthenticationError.
        """
        self._received.wait_for_byte(max(seconds, self._limits.idle_seconds))
        self._received.begin(self._limits.message_seconds)
        headers = self._read_head()
        if "origin" in headers:
            # Only browsers send it: a web page must not reach a server on the loopback, by whatever name.
            self._refuse(403, "requests of web pages are refused")
        if "transfer-encoding" in headers:
            self._refuse(411, "Content-Length is needed, not Transfer-Encoding")
        try:
            length = int(headers.get("content-length", "-1"))
        except ValueError:
            length = -1
        if not 0 < length <= self._limits.message_bytes:
            self._refuse(413 if length > 0 else 411, "Content-Length is needed, within the limit")
        self._authenticate(headers.get("authorization", ""))
        if headers.get("expect", "").lower() == "100-continue":
            self._socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.source = BodySource(self._received.take(length))

    def send(self, message: bytes) -> None:
        """Send the response. Raises OSError."""
        head = _head(200, "OK", len(message), "application/x-thrift", self._proofs())
        answer = head + message
        send_all(self._socket, answer, self._limits.message_seconds)

    def _read_head(self) -> dict[str, str]:
        head = self._received.take_until(_END_OF_HEAD, _LONGEST_HEAD).decode("latin-1")
        request, *lines = head.split("\r\n")
        method, _, rest = request.partition(" ")
        if method != "POST" or not rest.endswith(("HTTP/1.1", "HTTP/1.0")):
            self._refuse(405, "Thrift's messages come by POST")
        try:
            self.proxied = proxied_user(rest.rpartition(" ")[0])
        except ValueError as error:
            self._refuse(403, str(error))
        if self.proxied is not None and not self._takes_proxies:
            self._refuse(403, "nobody can act as another user here: the server runs without --rights")
        pairs = (line.partition(":") for line in lines if line)
        return {name.strip().lower(): value.strip() for name, _, value in pairs}

    def _authenticate(self, authorization: str) -> None:
        self._proof, self.has_ticket = None, False
        try:
            self.user = self._user_of(authorization)
        except AuthenticationError as error:
            self._answer(401, error.message)
            raise

    def _user_of(self, authorization: str) -> str | None:
        scheme, _, encoded = authorization.partition(" ")
        users = self._users
        if users is not None and users.kerberos is not None and scheme.lower() == "negotiate":
            # Hive's JDBC driver puts `: ` before its token.
            return self._negotiate(users.kerberos, encoded.lstrip(": "))
        user, password = _basic_user(scheme, encoded)
        if users is not None:
            if user is None or users.password is None:
                raise AuthenticationError("the request has no user")
            users.password(user, password)
        return user

    def _negotiate(self, kerberos: Callable[[], KerberosServer], encoded: str) -> str:
        """The user of a Kerberos ticket (SPNEGO, RFC 4559): one token, and the proof of this server."""
        try:
            user, self._proof = kerberos().accept_token(base64.b64decode(encoded, validate=True))
        # ValueError: not base64, or not even ASCII.
        except (KerberosError, ValueError) as error:
            raise AuthenticationError(f"a login by Kerberos failed: {error}") from error
        self.has_ticket = True
        return user

    def _refuse(self, status: int, words: str) -> None:
        self._answer(status, words)
        raise ProtocolError(f"a request was refused: {words}")

    def _answer(self, status: int, words: str) -> None:
        body = words.encode()
        asked = self._challenges() if status == 401 else ()
        self._socket.sendall(_head(status, "Refused", len(body), "text/plain; charset=utf-8", asked) + body)

    def _proofs(self) -> tuple[str, ...]:
        return () if not self._proof else (f"Negotiate {base64.b64encode(self._proof).decode()}",)

    def _challenges(self) -> tuple[str, ...]:
        users = self._users
        negotiate = ("Negotiate",) if users is not None and users.kerberos is not None else ()
        basic = ('Basic realm="hudisql"',) if users is None or users.password is not None else ()
        return (*negotiate, *basic)


def proxied_user(target: str) -> str | None:
    """The user of `doAs=user` in the target of a request, as Apache Knox and Hive write it; None without.

    Raises ValueError for a target that may be meant to name another user, and does not name one.
    """
    pairs = [pair.partition("=") for pair in target.partition("?")[2].split("&")]
    users = [unquote(value, errors="strict") for name, _, value in pairs if unquote(name).lower() == _DO_AS]
    if len(users) == 1 and users[0]:
        return users[0]
    # A gateway must not act as itself by mistake.
    if _DO_AS in unquote(unquote(target)).lower():
        raise ValueError("the user to act as is not named by one doAs=user behind the question mark")
    return None


def _head(status: int, words: str, length: int, kind: str, authenticate: tuple[str, ...] = ()) -> bytes:
    lines = [f"HTTP/1.1 {status} {words}", f"Content-Type: {kind}", f"Content-Length: {length}"]
    lines += [f"WWW-Authenticate: {challenge}" for challenge in authenticate]
    if status != 200:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _basic_user(scheme: str, encoded: str) -> tuple[str | None, str]:
    if scheme.lower() != "basic":
        return None, ""
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        # Not base64, not even ASCII, or not UTF-8.
        return None, ""
    return user, password
