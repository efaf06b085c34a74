"""The servers of one process that clients push rows to, and the log that keeps the rows until a commit."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_lock import LONGEST_NAME
from hudisql.console import Console
from hudisql.errors import HudisqlError, InvalidArgumentError
from hudisql.ingest.ownership import Ownership, OwnsAll
from hudisql.ingest.push.accepted_tables import AcceptedTables
from hudisql.ingest.push.bearer_tokens import TableTokens
from hudisql.ingest.push.flight_server import FlightPushServer
from hudisql.ingest.push.gateway import PushGateway
from hudisql.ingest.push.http_server import LOOPBACK, HttpPushServer, MetricsPage
from hudisql.ingest.push.leases import LEASE_SECONDS, LeaseOwnership
from hudisql.ingest.push.push_events import PushEvents
from hudisql.ingest.push.push_limits import PushLimits
from hudisql.ingest.push.write_ahead_log import WriteAheadLog
from hudisql.ingest.uvicorn_thread import host_and_port

_LEASE_TIMEOUT: Final = 30.0
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, kw_only=True)
class PushOptions:
    """How a process takes pushes.

    - `log`: the directory of the write-ahead log.
    - `http`, `flight`: where the servers listen, HOST:PORT; without both the rows in the log are committed.
    - `tokens`: a JSON file, for each table (or `*`) a list of hashes of its tokens; without it everyone may
      push, from this machine only.
    - `certificate`, `key`: TLS, as PEM files; `allow_plain_text`: a proxy with TLS stands before the servers.
    - `http_url`, `flight_url`: where clients of other workers reach these servers, by default from HOST:PORT.
    - `sole_worker`: no other process takes pushes for the tables, and leases are not used; else the
      leases of a worker that does not renew them end after `lease_seconds`.
    """

    log: Path
    http: str | None = None
    flight: str | None = None
    tokens: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    allow_plain_text: bool = False
    http_url: str | None = None
    flight_url: str | None = None
    limits: PushLimits = field(default_factory=PushLimits)
    sole_worker: bool = False
    lease_seconds: float = LEASE_SECONDS

    def addresses(self) -> dict[str, str]:
        """Where clients reach the servers, by protocol."""
        found = {}
        for protocol, listens, url, scheme in (
            ("http", self.http, self.http_url, "http{s}"),
            ("flight", self.flight, self.flight_url, "grpc+{tls}"),
        ):
            if listens is not None:
                host, port = host_and_port(listens)
                host = socket.getfqdn() if host in _EVERYWHERE else host
                secure = self.certificate is not None
                base = scheme.format(s="s" if secure else "", tls="tls" if secure else "tcp")
                found[protocol] = (url or f"{base}://{host}:{port}").rstrip("/")
        return found


class PushService:
    """The log, the tables that take pushes, and the servers.

    Raises InvalidArgumentError, StorageError, WriteAheadLogInUseError, CorruptWriteAheadLogError.
    """

    def __init__(self, options: PushOptions, console: Console) -> None:
        self._options = options
        self._console = console
        for listens in (options.http, options.flight):
            if listens is not None and options.tokens is None and host_and_port(listens)[0] not in LOOPBACK:
                raise InvalidArgumentError(
                    f"everyone who reaches {listens} could write to the tables",
                    hint="give a file of tokens (--tokens), or listen on 127.0.0.1",
                )
        self._tokens_read_at = _modified(options.tokens)
        tokens = read_tokens(options.tokens)
        self.log = WriteAheadLog(options.log)
        self.accepted = AcceptedTables()
        self.gateway = PushGateway(self.log, self.accepted.find, tokens, options.limits)
        self.events = PushEvents(self.log, self.accepted, self.stop_servers)
        self._servers: list[HttpPushServer | FlightPushServer] = []

    def ownership(self, metastore: MetastoreClient) -> Ownership:
        """The ownership of the tables of pushes. Raises InvalidArgumentError."""
        options = self._options
        if options.sole_worker:
            return OwnsAll()
        addresses = options.addresses()
        for address in addresses.values():
            if len(address) > LONGEST_NAME:
                raise InvalidArgumentError(
                    f"{address} is longer than the {LONGEST_NAME} characters that the metastore has for it",
                    hint="--http-url and --flight-url name other addresses of this worker",
                )
        leases = LeaseOwnership(
            metastore.another(timeout=_LEASE_TIMEOUT),
            self.log.log_id,
            addresses,
            self.log.tables,
            self._console.warning,
            options.lease_seconds,
        )
        self.accepted.find_owner = leases.owner
        return leases

    def start_servers(self, metrics: MetricsPage | None = None) -> None:
        """Let clients push; the HTTP server also answers with `metrics`.

        Raises InvalidArgumentError for an address that cannot be used.
        """
        options = self._options
        tls = {
            "certificate": options.certificate,
            "key": options.key,
            "allow_plain_text": options.allow_plain_text,
        }
        if options.http is not None:
            host, port = host_and_port(options.http)
            server = HttpPushServer(self.gateway, host=host, port=port, metrics=metrics, **tls)  # type: ignore[arg-type]
            server.start()
            self._servers.append(server)
        if options.flight is not None:
            host, port = host_and_port(options.flight)
            try:
                self._servers.append(FlightPushServer(self.gateway, host=host, port=port, **tls))  # type: ignore[arg-type]
            except (pa.ArrowException, OSError) as error:
                raise InvalidArgumentError(
                    f"the Flight server cannot listen on {options.flight}: {error}",
                    hint="choose an address of this machine and a port that is free",
                ) from error
        for protocol, address in options.addresses().items():
            self._console.info(f"rows are taken by {protocol} at {address}")

    def read_tokens_again(self) -> None:
        """Read the tokens again if their file has changed; warn if it cannot be read."""
        modified = _modified(self._options.tokens)
        if modified == self._tokens_read_at:
            return
        self._tokens_read_at = modified
        try:
            self.gateway.tokens = read_tokens(self._options.tokens)
        except HudisqlError as error:
            self._console.warning(f"{error.message}; the tokens stay as they are")

    def stop_servers(self) -> None:
        """Refuse further pushes, complete those that run, and stop."""
        self.gateway.stop()
        while self._servers:
            self._servers.pop().stop()

    def close(self) -> None:
        """Stop the servers, then let other processes open the log."""
        self.stop_servers()
        self.log.close()


def read_tokens(path: Path | None) -> TableTokens:
    """The tokens of a file; without one everyone may push. Raises InvalidArgumentError."""
    if path is None:
        return TableTokens(None)
    hint = 'it is JSON, for each table (or "*") a list of hashes: {"lake.trips": ["…"]}'
    try:
        hashes = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"the tokens of {path} cannot be read: {error}", hint=hint) from error
    if not isinstance(hashes, Mapping) or not all(
        isinstance(token_hashes, list) and all(isinstance(one, str) for one in token_hashes)
        for token_hashes in hashes.values()
    ):
        raise InvalidArgumentError(f"the tokens of {path} cannot be read: no lists of hashes", hint=hint)
    return TableTokens(hashes)


def _modified(path: Path | None) -> int:
    try:
        return 0 if path is None else path.stat().st_mtime_ns
    except OSError:
        return 0
