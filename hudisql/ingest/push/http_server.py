"""Pushes by HTTP: an ASGI application without a framework, and its server.

`POST /v1/tables/{database.table}/rows` takes NDJSON; `GET /health` and `GET /metrics` watch the process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from hudisql.errors import InvalidArgumentError, PushRefusedError
from hudisql.ingest.push.event_checks import RowCheck
from hudisql.ingest.push.frames import PayloadFormat
from hudisql.ingest.push.gateway import PushGateway, describe_refusal, refusal_of
from hudisql.ingest.push.push_limits import AdmittedRequest
from hudisql.ingest.uvicorn_thread import Receive, Scope, Send, UvicornThread, send_answer

_ROWS_PATH: Final = re.compile(r"/v1/tables/([^/]+)/rows")
# Larger bodies are checked in a thread: the event loop answers others meanwhile.
_INLINE_BYTES: Final = 32 << 10
_CHUNK_BYTES: Final = 1 << 20
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_LOG: Final = logging.getLogger(__name__)

MetricsPage = Callable[[], tuple[str, bytes]]
"""Gives the content type and the text of the metrics."""


class _DisconnectedError(Exception):
    """The client went away before its request was complete."""


class PushApplication:
    """The ASGI application; `metrics` is the page for Prometheus."""

    def __init__(self, gateway: PushGateway, metrics: MetricsPage | None = None) -> None:
        self._gateway = gateway
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            status, headers, body = await self._answer(scope, receive)
        except _DisconnectedError:
            return
        except Exception as error:
            refusal = refusal_of(error)
            if refusal.status == 500:
                _LOG.exception("push to %s failed", scope["path"])
            status, headers = refusal.status, _refusal_headers(refusal, scope["path"])
            body = json.dumps(describe_refusal(refusal)).encode()
        self._gateway.counters.answers[status] += 1
        await send_answer(send, status, headers, body)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        path, method = scope["path"], scope["method"]
        match = _ROWS_PATH.fullmatch(path)
        page = {"/health": self._health, "/metrics": self._metrics_page}.get(path)
        if match is None and page is None:
            raise PushRefusedError(
                f"there is nothing at {path[:200]}",
                hint="POST rows to /v1/tables/DATABASE.TABLE/rows",
                status=404,
                code="unknown_path",
            )
        expected = ("GET", "HEAD") if match is None else ("POST",)
        if method not in expected:
            raise PushRefusedError(f"{path[:200]} takes {expected[0]} only", status=405, code="bad_method")
        if page is not None:
            return page()
        assert match is not None
        return 200, _JSON, await self._take_rows(match[1], _headers_of(scope), receive)

    def _health(self) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        health = self._gateway.health()
        return 200 if health["status"] == "ok" else 503, _JSON, json.dumps(health).encode()

    def _metrics_page(self) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        if self._metrics is None:
            raise PushRefusedError("this server has no metrics", status=404, code="unknown_path")
        content_type, text = self._metrics()
        return 200, [(b"content-type", content_type.encode())], text

    async def _take_rows(self, table: str, headers: dict[bytes, str], receive: Receive) -> bytes:
        admitted, check = self._gateway.begin(table, headers.get(b"authorization"))
        with admitted:
            payload = await self._read_body(admitted, headers, receive)
            encoding = headers.get(b"content-encoding", "identity").strip().lower()
            if len(payload) <= _INLINE_BYTES and encoding == "identity":
                rows = self._gateway.check_ndjson(table, check, payload)
            else:
                payload, rows = await asyncio.to_thread(
                    self._decode_and_check, table, admitted, check, payload, encoding
                )
            key = headers.get(b"idempotency-key", "")
            future = self._gateway.append(table, PayloadFormat.NDJSON, payload, rows=rows.rows, key=key)
            sequence = await asyncio.wrap_future(future)
        answer: dict[str, object] = {"sequence": sequence, "rows": rows.rows}
        if rows.bad_rows:
            answer["bad_lines"] = [{"line": line, "reason": reason} for line, reason in rows.bad_rows]
        return json.dumps(answer).encode()

    def _decode_and_check(
        self, table: str, admitted: AdmittedRequest, check: RowCheck, payload: bytes, encoding: str
    ) -> tuple[bytes, Any]:
        payload = decompress(payload, encoding, admitted)
        return payload, self._gateway.check_ndjson(table, check, payload)

    async def _read_body(
        self, admitted: AdmittedRequest, headers: dict[bytes, str], receive: Receive
    ) -> bytes:
        length = headers.get(b"content-length", "")
        if length.isdigit():
            admitted.reserve(int(length))
        try:
            async with asyncio.timeout(self._gateway.limits.body_seconds):
                return await _receive_all(admitted, receive)
        except TimeoutError:
            raise PushRefusedError(
                f"the body took more than {self._gateway.limits.body_seconds:g} seconds to arrive",
                hint="push smaller batches",
                status=408,
                code="body_too_slow",
            ) from None


_JSON: Final = [(b"content-type", b"application/json")]


async def _receive_all(admitted: AdmittedRequest, receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _DisconnectedError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        admitted.reserve(size)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _headers_of(scope: Scope) -> dict[bytes, str]:
    return {name: value.decode("latin-1") for name, value in scope["headers"]}


def _refusal_headers(refusal: PushRefusedError, path: str) -> list[tuple[bytes, bytes]]:
    headers = list(_JSON)
    if refusal.retry_after is not None:
        headers.append((b"retry-after", str(refusal.retry_after).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status == 307 and refusal.owner is not None:
        headers.append((b"location", f"{refusal.owner['http']}{quote(path)}".encode()))
    if refusal.status == 405:
        headers.append((b"allow", b"POST" if refusal.message.startswith("/v1/") else b"GET"))
    if refusal.status == 408:
        # What else arrives is not waited for. After other refusals uvicorn reads the body and drops it, since
        # most clients read no answer before they have sent all.
        headers.append((b"connection", b"close"))
    return headers


def decompress(payload: bytes, encoding: str, admitted: AdmittedRequest) -> bytes:
    """The body as it was before its Content-Encoding.

    Raises PushRefusedError: 400 if it is damaged, 413 or 429 as soon as it is too large, 415 if the encoding
    is neither gzip nor zstd.
    """
    if encoding in ("", "identity"):
        return payload
    if encoding not in ("gzip", "zstd"):
        raise PushRefusedError(
            f"the content encoding {encoding!r} is not supported",
            hint="use gzip, zstd or none",
            status=415,
            code="bad_encoding",
        )
    try:
        return _gunzip(payload, admitted) if encoding == "gzip" else _unzstd(payload, admitted)
    except (zlib.error, OSError, EOFError) as error:
        if isinstance(error, PushRefusedError):
            raise
        raise PushRefusedError(
            f"the body is not {encoding}: {error}", status=400, code="bad_compression"
        ) from error


def _gunzip(payload: bytes, admitted: AdmittedRequest) -> bytes:
    parts: list[bytes] = []
    size = 0
    while payload:
        # A body may have several gzip members.
        stream = zlib.decompressobj(wbits=31)
        while not stream.eof:
            parts.append(stream.decompress(payload, _CHUNK_BYTES))
            payload = stream.unused_data if stream.eof else stream.unconsumed_tail
            size += len(parts[-1])
            admitted.reserve(size)
            if not stream.eof and not payload and not parts[-1]:
                raise EOFError("it ends too early")
    return b"".join(parts)


def _unzstd(payload: bytes, admitted: AdmittedRequest) -> bytes:
    parts: list[bytes] = []
    size = 0
    with pa.CompressedInputStream(pa.BufferReader(payload), "zstd") as stream:
        while part := stream.read(_CHUNK_BYTES):
            parts.append(part)
            size += len(part)
            admitted.reserve(size)
    return b"".join(parts)


class HttpPushServer(UvicornThread):
    """The push application and its server. TLS with `certificate` and `key`, files in PEM form.

    Raises InvalidArgumentError if tokens or rows would cross a network as plain text and `allow_plain_text`
    does not say that a proxy with TLS stands before the server.
    """

    def __init__(
        self,
        gateway: PushGateway,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        certificate: Path | None = None,
        key: Path | None = None,
        allow_plain_text: bool = False,
        metrics: MetricsPage | None = None,
    ) -> None:
        require_tls_or_loopback(host, certificate, key, allow_plain_text=allow_plain_text)
        self._gateway = gateway
        super().__init__(PushApplication(gateway, metrics), host, port, certificate, key)

    def stop(self) -> None:
        """Refuse new pushes, complete those that run, and stop. The log stays open."""
        self._gateway.stop()
        super().stop()


def require_tls_or_loopback(
    host: str, certificate: Path | None, key: Path | None, *, allow_plain_text: bool
) -> None:
    """Refuse a server that tokens would reach as plain text. Raises InvalidArgumentError."""
    if (certificate is None) != (key is None):
        raise InvalidArgumentError("TLS needs both a certificate and its key", hint="give two PEM files")
    for path in (certificate, key):
        if path is not None and not path.is_file():
            raise InvalidArgumentError(f"the TLS file {path} does not exist", hint="give two PEM files")
    if certificate is None and host not in LOOPBACK and not allow_plain_text:
        raise InvalidArgumentError(
            f"rows and tokens would reach {host} as plain text",
            hint="give a certificate and its key, or set allow_plain_text behind a proxy with TLS",
        )
