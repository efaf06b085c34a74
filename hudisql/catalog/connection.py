"""One Thrift connection to one of several Hive Metastores: opening, fail-over, SASL, calling.

Knows only the transport; `client.py` knows the calls. The plain transport is Hive's default; SASL is Thrift's
own transport with pure-sasl, Kerberos (GSSAPI) with the `kerberos` package besides.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from hudisql.errors import MetastoreUnavailableError, SettingsError
from hudisql.retry import retry

DEFAULT_PORT = 9083
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 3.0

# Thrift logs every refused connection as an error; here they become one exception, or a fail-over.
logging.getLogger("thrift").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class MetastoreSecurity:
    """How to log in: `mechanism` NONE, PLAIN (`user`, `password`) or GSSAPI (`service` is the first part
    of the server's principal, a ticket must be in the credential cache)."""

    mechanism: str = "NONE"
    service: str = "hive"
    host: str | None = None
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"MetastoreSecurity({self.mechanism}, service={self.service!r}, user={self.user!r})"


def kerberos_security(principal: str = "") -> MetastoreSecurity:
    """Kerberos login to a metastore of this principal (`service/host@REALM`; `_HOST` or no host: the URI's).

    Raises SettingsError if the text is not a principal.
    """
    service, _, host = principal.partition("@")[0].partition("/")
    if principal and not service:
        raise SettingsError(f"bad Kerberos principal {principal!r}", hint="write service/host@REALM")
    return MetastoreSecurity("GSSAPI", service or "hive", None if host in ("", "_HOST") else host)


@dataclass(frozen=True, slots=True)
class MetastoreAddress:
    """Host and port of one metastore."""

    host: str
    port: int

    @property
    def uri(self) -> str:
        """`thrift://host:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"thrift://{host}:{self.port}"


class ConnectionLostError(Exception):
    """The connection broke during a call; whether the server ran the call is not known."""


def parse_metastore_uris(uris: str | Sequence[str]) -> tuple[MetastoreAddress, ...]:
    """`thrift://a:9083,thrift://b` (a text or a list) to addresses. Raises SettingsError."""
    texts = uris.split(",") if isinstance(uris, str) else list(uris)
    addresses = []
    for text in (text.strip() for text in texts):
        if not text:
            continue
        try:
            parts = urlsplit(text if "://" in text else f"thrift://{text}")
            port = parts.port or DEFAULT_PORT
        except ValueError as error:
            raise SettingsError(f"bad metastore URI {text!r}: {error}") from error
        if parts.scheme != "thrift" or not parts.hostname or parts.path.strip("/"):
            raise SettingsError(f"bad metastore URI {text!r}", hint="write thrift://host:port[,thrift://…]")
        addresses.append(MetastoreAddress(parts.hostname, port))
    if not addresses:
        raise SettingsError("no metastore URI given", hint="write thrift://host:port[,thrift://…]")
    return tuple(addresses)


class MetastoreConnection:
    """A lazily opened connection, safe to share among threads: calls run one after the other."""

    def __init__(
        self,
        addresses: Sequence[MetastoreAddress],
        security: MetastoreSecurity,
        timeout: float,
        attempts: int,
    ) -> None:
        self._addresses = tuple(addresses)
        self._security = security
        self._timeout = timeout
        self._attempts = attempts
        self._lock = threading.RLock()
        self._client: Any = None
        _check_security(security)

    def call(self, request: Callable[[Any], Any], *, repeatable: bool = True) -> Any:
        """Run `request(thrift client)`, opening the connection first and failing over to other servers.

        A connection that breaks is opened again and the request repeated, unless it is not `repeatable`: then
        the connection is tested beforehand and a break raises ConnectionLostError. Errors of the server are
        raised unchanged. Raises MetastoreUnavailableError if no server answers.
        """
        with self._lock:
            try:
                if repeatable:
                    return self._call_again(request)
                self._call_again(lambda client: client.getStatus())
                return self._call_once(request)
            except ConnectionLostError as error:
                if not repeatable:
                    raise
                raise MetastoreUnavailableError(
                    f"the metastore at {self._described()} broke the connection, {self._attempts} times: "
                    f"{error}",
                    hint="its log says why",
                ) from error

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        with self._lock:
            client, self._client = self._client, None
            if client is not None:
                client.close()

    def _call_again(self, request: Callable[[Any], Any]) -> Any:
        return retry(
            partial(self._call_once, request),
            lambda error: isinstance(error, ConnectionLostError),
            (
                min(_FIRST_PAUSE_SECONDS * 2**number, _LONGEST_PAUSE_SECONDS)
                for number in range(self._attempts - 1)
            ),
        )

    def _call_once(self, request: Callable[[Any], Any]) -> Any:
        from thrift.transport.TTransport import TTransportException

        client = self._client or self._open()
        try:
            return request(client)
        except (TTransportException, OSError, EOFError) as error:
            self.close()
            raise ConnectionLostError(str(error) or type(error).__name__) from error
        except BaseException as error:
            # After an interrupt, or an answer that could not be decoded, the stream is in an unknown state.
            if not _is_answer(error):
                self.close()
            raise

    def _open(self) -> Any:
        from thrift.transport.TTransport import TTransportException

        failures = []
        for address in self._addresses:
            try:
                client = _connect(address, self._security, self._timeout)
            except (TTransportException, OSError, EOFError) as error:
                failures.append(f"{address.uri}: {error}")
                continue
            self._client = client
            return client
        raise MetastoreUnavailableError(
            f"no metastore answers: {'; '.join(failures)}",
            hint="check the address given with --metastore, and that the server runs and is reachable",
        )

    def _described(self) -> str:
        return ",".join(address.uri for address in self._addresses)


def _connect(address: MetastoreAddress, security: MetastoreSecurity, timeout: float) -> Any:
    from hmsclient import HMSClient
    from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport, TSaslClientTransport

    socket = TSocket(address.host, address.port)
    # A dead host must not take the whole timeout of a call.
    socket.setTimeout(min(timeout, 20) * 1000)
    if security.mechanism == "NONE":
        transport = TBufferedTransport(socket)
    else:
        login = {"username": security.user, "password": security.password}
        transport = TSaslClientTransport(
            socket,
            security.host or address.host,
            security.service,
            security.mechanism,
            **(login if security.mechanism == "PLAIN" else {}),
        )
    client = HMSClient(iprot=TBinaryProtocolAccelerated(transport, fallback=True))
    try:
        _log_in(client, security)
    except BaseException:
        socket.close()
        raise
    socket.setTimeout(timeout * 1000)
    return client


def _log_in(client: Any, security: MetastoreSecurity) -> None:
    """Open the transport, with its SASL handshake if it has one, and send the user name."""
    from thrift.Thrift import TApplicationException
    from thrift.transport.TTransport import TTransportException

    if security.mechanism == "NONE":
        client.open()
        # Directories that the server creates then belong to this user, as with Hive's own client.
        with contextlib.suppress(TApplicationException):
            client.set_ugi(security.user or user_name(), [])
        return
    try:
        client.open()
    except (TTransportException, OSError, EOFError):
        raise
    except Exception as error:
        # pure-sasl's own errors, and those of the Kerberos library below it, have no common class.
        raise TTransportException(message=f"SASL {security.mechanism} failed: {error}") from error


def user_name() -> str:
    """The name of the current user; `hudisql` for one without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "hudisql"


def _is_answer(error: BaseException) -> bool:
    from thrift.Thrift import TException

    return isinstance(error, TException)


def _check_security(security: MetastoreSecurity) -> None:
    """Refuse a login that cannot work, naming what is missing."""
    if security.mechanism not in ("NONE", "PLAIN", "GSSAPI"):
        raise SettingsError(
            f"unknown metastore authentication {security.mechanism!r}", hint="use NONE, PLAIN or GSSAPI"
        )
    if security.mechanism == "NONE":
        return
    if importlib.util.find_spec("puresasl") is None:
        raise SettingsError(
            f"{security.mechanism} authentication needs the package pure-sasl", hint="pip install pure-sasl"
        )
    if security.mechanism == "GSSAPI":
        if importlib.util.find_spec("kerberos") is None and importlib.util.find_spec("winkerberos") is None:
            raise SettingsError(
                "Kerberos (GSSAPI) authentication needs the package `kerberos`, which is not installed",
                hint="pip install kerberos (it compiles against the MIT Kerberos headers), then run kinit",
            )
    elif not security.user:
        raise SettingsError("PLAIN authentication needs a user name")
