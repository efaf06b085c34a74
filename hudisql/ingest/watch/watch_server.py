"""The HTTP server of a worker that is watched: `/metrics`, `/healthz` (it lives), `/readyz` (it owns tables).

Requests are answered in threads of their own, from what the worker told last.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.watch.metrics import CONTENT_TYPE, WorkerMetrics
from hudisql.ingest.watch.observer import CommittedEvents, FeedState, WorkerView

LIVE_SECONDS: Final = 900.0
"""The longest time in which a worker that lives looks at its tables: Kafka's group waits as long."""


class WorkerHealth:
    """An observer that knows whether the worker lives and is ready."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen_at = clock()
        self._view = WorkerView()

    def committed(self, commit: CommittedEvents) -> None:  # noqa: ARG002
        """The worker lives."""
        self.seen()

    def failed(self, table: str) -> None:  # noqa: ARG002
        """The worker lives."""
        self.seen()

    def looked(self, view: WorkerView) -> None:
        """Keep the view."""
        self._view = view
        self.seen()

    def seen(self) -> None:
        """The worker lives."""
        self._seen_at = self._clock()

    def described(self) -> dict[str, object]:
        """What `/healthz` and `/readyz` answer; `live` and `ready` decide between 200 and 503."""
        view, silent = self._view, self._clock() - self._seen_at
        is_live = silent < LIVE_SECONDS
        return {
            "live": is_live,
            "ready": is_live and view.is_settled,
            "tables": len(view.tables),
            "failed": sorted(each.name for each in view.tables if each.state is FeedState.FAILED),
            "seconds_since_last_turn": round(silent, 1),
        }


@contextmanager
def watch_server(address: str, metrics: WorkerMetrics, health: WorkerHealth) -> Iterator[str]:
    """Serve at `HOST:PORT` (port 0: a free one); gives the address. Raises InvalidArgumentError."""
    host, port = _parse_address(address)
    try:
        server = ThreadingHTTPServer((host, port), _handler_of(metrics, health))
    except OSError as error:
        raise InvalidArgumentError(
            f"cannot serve metrics at {address}: {error.strerror or error}", hint="--metrics HOST:PORT"
        ) from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True).start()
    try:
        yield f"{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _parse_address(address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 0xFFFF:
        raise InvalidArgumentError(
            f"'{address}' is no address to serve metrics at",
            hint="--metrics HOST:PORT, such as 0.0.0.0:9464",
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def _handler_of(metrics: WorkerMetrics, health: WorkerHealth) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # A client that says nothing must not keep a thread.
        timeout = 10.0

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(200, CONTENT_TYPE, metrics.page())
            elif path in ("/healthz", "/readyz"):
                found = health.described()
                is_well = found["live" if path == "/healthz" else "ready"]
                body = json.dumps(found).encode() + b"\n"
                self._answer(200 if is_well else 503, "application/json", body)
            else:
                self._answer(404, "text/plain", b"/metrics, /healthz, /readyz\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    return Handler
