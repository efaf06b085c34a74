"""The HTTP server that monitors a worker: `/metrics`, `/healthz` (it lives), `/readyz` (it has its tables).

Requests are answered in a thread of their own, from the last state that the observers got.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from hudisql.ingest.uvicorn_thread import Receive, Scope, Send, UvicornThread, host_and_port, send_answer
from hudisql.ingest.watch.metrics import WorkerMetrics
from hudisql.ingest.watch.observer import CommittedEvents, FeedState, IngestObserver, WorkerView

LIVE_SECONDS: Final = 900.0
"""The longest time in which a worker that lives looks at its tables: Kafka's group waits as long."""


class WorkerHealth(IngestObserver):
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
        """The answer of `/healthz` and `/readyz`; `live` and `ready` decide between 200 and 503."""
        view, silent = self._view, self._clock() - self._seen_at
        is_live = silent < LIVE_SECONDS
        return {
            "live": is_live,
            "ready": is_live and view.is_settled,
            "tables": len(view.tables),
            "failed": sorted(table.name for table in view.tables if table.state is FeedState.FAILED),
            "seconds_since_last_turn": round(silent, 1),
        }


class WatchApplication:
    """The ASGI application of `/metrics`, `/healthz` and `/readyz`."""

    def __init__(self, metrics: WorkerMetrics, health: WorkerHealth) -> None:
        self._metrics = metrics
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Answer one request."""
        status, content_type, body = self._answer(scope["path"])
        await send_answer(send, status, [(b"content-type", content_type.encode())], body)

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        if path == "/metrics":
            return 200, *self._metrics.page()
        if path not in ("/healthz", "/readyz"):
            return 404, "text/plain", b"/metrics, /healthz, /readyz\n"
        health = self._health.described()
        is_well = health["live" if path == "/healthz" else "ready"]
        return 200 if is_well else 503, "application/json", json.dumps(health).encode() + b"\n"


@contextmanager
def watch_server(address: str, metrics: WorkerMetrics, health: WorkerHealth) -> Iterator[str]:
    """Serve at `HOST:PORT` (port 0: a free one); gives the address. Raises InvalidArgumentError."""
    host, port = host_and_port(address, lowest_port=0)
    server = UvicornThread(WatchApplication(metrics, health), host, port)
    server.start()
    try:
        yield f"{host}:{server.port}"
    finally:
        server.stop()
