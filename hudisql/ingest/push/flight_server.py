"""Pushes by Arrow Flight: DoPut with the descriptor path `database.table`, one acknowledgement a batch.

Each record batch of a stream is one batch of the log, written there as an Arrow IPC stream of its own. The
answer to each is JSON in `app_metadata`, `{"sequence": n, "rows": m}`, sent when the batch is durable. Errors
carry the JSON of the HTTP server's answers as `extra_info`.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from hudisql.errors import PushRefusedError
from hudisql.ingest.push.event_checks import schema_problems
from hudisql.ingest.push.frames import PayloadFormat
from hudisql.ingest.push.gateway import PushGateway, bad_rows_error, describe_refusal, refusal_of
from hudisql.ingest.push.http_server import require_tls_or_loopback

_AUTHORIZATION: Final = "authorization"
_ERRORS: Final = {
    401: flight.FlightUnauthenticatedError,
    403: flight.FlightUnauthorizedError,
    307: flight.FlightUnavailableError,
    421: flight.FlightUnavailableError,
    429: flight.FlightUnavailableError,
    503: flight.FlightUnavailableError,
    500: flight.FlightInternalError,
}
_PUSH_SECONDS: Final = 30.0
_STREAM_SECONDS: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class _Authorization(flight.ServerMiddleware):  # type: ignore[misc]
    """Keeps the header of a call."""

    def __init__(self, authorization: str | None) -> None:
        super().__init__()
        self.authorization = authorization


class _AuthorizationFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def start_call(self, info: Any, headers: dict[str, list[str]]) -> _Authorization:  # noqa: ARG002
        values = [
            value for name, given in headers.items() if name.lower() == _AUTHORIZATION for value in given
        ]
        return _Authorization(values[0] if values else None)


class FlightPushServer(flight.FlightServerBase):  # type: ignore[misc]
    """Serves from its construction on, in gRPC's threads, until `stop`. TLS as in `HttpPushServer`.

    Raises InvalidArgumentError without TLS on other addresses than the loopback, pyarrow's errors for an
    address that cannot be used.
    """

    waits_for_clients = False
    """True once a server was stopped with open streams: the end of the process waits for them, too."""

    def __init__(
        self,
        gateway: PushGateway,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        certificate: Path | None = None,
        key: Path | None = None,
        allow_plain_text: bool = False,
    ) -> None:
        require_tls_or_loopback(host, certificate, key, allow_plain_text=allow_plain_text)
        self._gateway = gateway
        tls: dict[str, object] = {}
        scheme = "grpc+tcp"
        if certificate is not None and key is not None:
            scheme = "grpc+tls"
            tls = {"tls_certificates": [(certificate.read_bytes(), key.read_bytes())]}
        super().__init__(
            f"{scheme}://{host}:{port}", middleware={_AUTHORIZATION: _AuthorizationFactory()}, **tls
        )

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Take the batches of one stream, one after the other."""
        with self._answered():
            table = _table_of(descriptor)
            authorization = context.get_middleware(_AUTHORIZATION).authorization
            self._refuse_schema(table, authorization, reader.schema)
            for batch in _batches(reader):
                writer.write(pa.py_buffer(self._take(table, authorization, batch)))
                self._gateway.counters.answers[200] += 1

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:  # noqa: ARG002
        """`health` answers with the JSON of the HTTP server's page."""
        if action.type != "health":
            raise flight.FlightServerError(f"unknown action {action.type}: only health exists")
        return iter([json.dumps(self._gateway.health()).encode()])

    def list_actions(self, context: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        """The actions of `do_action`."""
        return [("health", "the state of the server as JSON")]

    def stop(self) -> None:
        """Refuse new pushes, complete those that run, and stop. The log stays open."""
        self._gateway.stop()
        self._gateway.wait_until_idle(_PUSH_SECONDS)
        # It waits without end for clients that keep streams open and send nothing: what they send is refused.
        ending = threading.Thread(target=self.shutdown, name="push-flight-stop", daemon=True)
        ending.start()
        ending.join(_STREAM_SECONDS)
        if ending.is_alive():
            FlightPushServer.waits_for_clients = True

    def _refuse_schema(self, table: str, authorization: str | None, schema: pa.Schema) -> None:
        admitted, check = self._gateway.begin(table, authorization)
        with admitted:
            problems = schema_problems(schema, check.schema)
        if problems:
            raise PushRefusedError(
                f"the schema of the stream is not that of {table}: {'; '.join(problems)}",
                hint="send the columns of the table, in its types",
                code="bad_schema",
            )

    def _take(self, table: str, authorization: str | None, batch: pa.RecordBatch) -> bytes:
        """The answer to one batch, when it is durable."""
        # Each batch is authorized and admitted for itself: a stream may last for days.
        admitted, check = self._gateway.begin(table, authorization)
        with admitted:
            admitted.reserve(batch.get_total_buffer_size())
            self._gateway.check_row_count(table, batch.num_rows)
            bad_rows = check.check_batch(batch).bad_rows
            if bad_rows:
                raise bad_rows_error(table, bad_rows)
            payload = _as_stream(batch)
            admitted.reserve(len(payload))
            future = self._gateway.append(table, PayloadFormat.ARROW_STREAM, payload, rows=batch.num_rows)
            return json.dumps({"sequence": future.result(), "rows": batch.num_rows}).encode()

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Translate errors into Flight's."""
        try:
            yield
        except Exception as error:
            refusal = refusal_of(error)
            if refusal.status == 500:
                _LOG.exception("a push by Flight failed")
            self._gateway.counters.answers[refusal.status] += 1
            text = json.dumps(describe_refusal(refusal)).encode()
            error_class = _ERRORS.get(refusal.status, flight.FlightServerError)
            raise error_class(refusal.message, extra_info=text) from None


def _table_of(descriptor: Any) -> str:
    """`database.table`, in one part of the descriptor's path or in two."""
    parts = descriptor.path or []
    if not 1 <= len(parts) <= 2:
        raise PushRefusedError(
            "the descriptor of the stream has no path of one table",
            hint="use FlightDescriptor.for_path('database.table')",
            code="bad_descriptor",
        )
    try:
        return ".".join(part.decode() for part in parts)
    except UnicodeDecodeError:
        raise PushRefusedError("the path of the descriptor is not UTF-8", code="bad_descriptor") from None


def _batches(reader: Any) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_chunk().data
        except StopIteration:
            return
        if batch is not None:
            yield batch


def _as_stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream
