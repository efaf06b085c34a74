"""A worker's metrics for Prometheus, by table.

Commits and failures are counted when they happen. The states of tables come from the worker's last view when
the page is requested: a thousand idle tables cost nothing in between, and a table that went to another worker
is not shown twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hudisql.ingest.watch.observer import CommittedEvents, FeedState, IngestObserver, WorkerView

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_TABLE = ("table",)
_COMMIT_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60)


class WorkerMetrics(Collector, IngestObserver):
    """An observer whose page Prometheus reads."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._view = WorkerView()
        self._lags: dict[str, int | None] = {}
        self._rows = Counter("hudisql_ingest_rows", "Rows changed", ("table", "kind"), registry=registry)
        self._events = Counter("hudisql_ingest_events", "Events committed", _TABLE, registry=registry)
        self._bytes = Counter("hudisql_ingest_event_bytes", "Bytes of them", _TABLE, registry=registry)
        self._written = Counter("hudisql_ingest_written_bytes", "Bytes of files", _TABLE, registry=registry)
        self._flushes = Counter("hudisql_ingest_flushes", "Commits", _TABLE, registry=registry)
        self._bad = Counter(
            "hudisql_ingest_bad_records", "Events that cannot become rows", _TABLE, registry=registry
        )
        self._failures = Counter("hudisql_ingest_failures", "Failures", _TABLE, registry=registry)
        self._seconds = Histogram(
            "hudisql_ingest_commit_seconds",
            "Seconds of a commit",
            _TABLE,
            registry=registry,
            buckets=_COMMIT_SECONDS,
        )
        self._last_commit = Gauge(
            "hudisql_ingest_last_commit_timestamp_seconds",
            "Time of the last commit",
            _TABLE,
            registry=registry,
        )
        registry.register(self)
        ProcessCollector(registry=registry)

    def page(self) -> tuple[str, bytes]:
        """The content type and the text of the metrics, for Prometheus; called by any thread."""
        return _CONTENT_TYPE, bytes(generate_latest(self._registry))

    def committed(self, commit: CommittedEvents) -> None:
        """Count a commit."""
        table, result = commit.table, commit.result
        changed = {"inserted": result.inserted, "updated": result.updated, "deleted": result.deleted}
        for kind, rows in changed.items():
            self._rows.labels(table, kind).inc(rows)
        self._events.labels(table).inc(commit.events.events)
        self._bytes.labels(table).inc(commit.events.bytes)
        self._bad.labels(table).inc(commit.events.bad)
        self._written.labels(table).inc(result.bytes)
        self._flushes.labels(table).inc()
        self._seconds.labels(table).observe(commit.seconds)
        self._last_commit.labels(table).set(time.time())
        self._lags[table] = commit.lag

    def failed(self, table: str) -> None:
        """Count a failure."""
        self._failures.labels(table).inc()

    def looked(self, view: WorkerView) -> None:
        """Keep the view for the next page."""
        self._view, self._lags = view, {}

    def collect(self) -> Iterator[Metric]:
        """The states of the tables of the last view."""
        view, newer = self._view, dict(self._lags)
        lag = GaugeMetricFamily("hudisql_ingest_lag_events", "Events that no commit has yet", labels=_TABLE)
        memory = GaugeMetricFamily("hudisql_ingest_memory_bytes", "Rows in memory", labels=_TABLE)
        index = GaugeMetricFamily("hudisql_ingest_index_bytes", "Indexes in memory", labels=_TABLE)
        state = GaugeMetricFamily(
            "hudisql_ingest_state", "1 for the table's state", labels=("table", "state")
        )
        for table in view.tables:
            events = newer.get(table.name, table.lag)
            if events is not None:
                lag.add_metric([table.name], events)
            memory.add_metric([table.name], table.memory)
            index.add_metric([table.name], table.index_bytes)
            for feed_state in FeedState:
                state.add_metric([table.name, feed_state], float(table.state is feed_state))
        yield from (lag, memory, index, state)
        yield GaugeMetricFamily("hudisql_ingest_tables", "Tables of this worker", value=len(view.tables))
