"""One Thrift connection to one of several Hive Metastores: opening, fail-over, SASL, calling.

Knows only the transport; `client.py` knows the calls. The plain transport is Hive's default.
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from hudisql.catalog.metastore_login import MetastoreSecurity, check_security, hint_of_failure, open_mechanism
from hudisql.errors import MetastoreUnavailableError, SettingsError
from hudisql.kerberos import KerberosError
from hudisql.retry import retry

DEFAULT_PORT = 9083
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 3.0

# Thrift logs every refused connection as an error; here they become one exception, or a fail-over.
logging.getLogger("thrift").addHandler(logging.NullHandler())


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
        check_security(security)

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

        failures: list[_Failure] = []
        for address in self._addresses:
            try:
                client = _connect(address, self._security, self._timeout)
            except (TTransportException, OSError, EOFError, KerberosError) as error:
                failures.append(_Failure(f"{address.uri}: {error}", hint_of_failure(error, self._security)))
                continue
            self._client = client
            return client
        raise MetastoreUnavailableError(
            f"no metastore answers: {'; '.join(failure.text for failure in failures)}",
            hint="; ".join(dict.fromkeys(failure.hint for failure in failures)),
        )

    def _described(self) -> str:
        return ",".join(address.uri for address in self._addresses)


@dataclass(frozen=True)
class _Failure:
    text: str
    hint: str


def _connect(address: MetastoreAddress, security: MetastoreSecurity, timeout: float) -> Any:
    from hmsclient import HMSClient
    from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport

    from hudisql.catalog.sasl_transport import SaslTransport

    socket = TSocket(address.host, address.port)
    # A dead host must not take the whole timeout of a call.
    socket.setTimeout(min(timeout, 20) * 1000)
    try:
        if security.mechanism == "NONE":
            transport = TBufferedTransport(socket)
        else:
            transport = SaslTransport(socket, open_mechanism(address.host, security))
        client = HMSClient(iprot=TBinaryProtocolAccelerated(transport, fallback=True))
        client.open()
        if security.mechanism == "NONE":
            _send_user(client, security)
    except BaseException:
        socket.close()
        raise
    socket.setTimeout(timeout * 1000)
    return client


def _send_user(client: Any, security: MetastoreSecurity) -> None:
    """Directories that the server creates then belong to this user, as with Hive's own client."""
    from thrift.Thrift import TApplicationException

    with contextlib.suppress(TApplicationException):
        client.set_ugi(security.user or user_name(), [])


def user_name() -> str:
    """The name of the current user; `hudisql` for one without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "hudisql"


def _is_answer(error: BaseException) -> bool:
    from thrift.Thrift import TException

    return isinstance(error, TException)
