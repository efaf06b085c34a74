"""Limits of pushes: a request beyond them is refused before its body is read, so that memory is bounded.

Used by the event loop of the HTTP server and the threads of the Flight server alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Self

from hudisql.errors import InvalidArgumentError, PushRefusedError


@dataclass(frozen=True)
class PushLimits:
    """Bytes are those of rows as they go into the log, uncompressed."""

    body_bytes: int = 16 << 20
    rows: int = 1_000_000
    concurrent_requests: int = 256
    unflushed_bytes: int = 2 << 30
    unflushed_table_bytes: int = 512 << 20
    log_bytes: int = 16 << 30
    body_seconds: float = 30.0
    retry_seconds: int = 2

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise InvalidArgumentError(f"the limit {name} must be positive, not {value}")
        if self.body_bytes > self.unflushed_table_bytes or self.body_bytes > self.unflushed_bytes:
            raise InvalidArgumentError(
                f"the limit body_bytes ({self.body_bytes}) is above those of unflushed bytes",
                hint="such a body would be refused for ever",
            )


class Admission:
    """Counts the requests that are running and their bytes, and refuses what is beyond the limits."""

    def __init__(
        self,
        limits: PushLimits,
        unflushed: Callable[[], int],
        unflushed_of: Callable[[str], int],
        log_bytes: Callable[[], int],
    ) -> None:
        self.limits = limits
        self._unflushed = unflushed
        self._unflushed_of = unflushed_of
        self._log_bytes = log_bytes
        self._lock = Lock()
        self._requests = 0
        self._bytes = 0
        self.stopping = False

    @property
    def running(self) -> int:
        """How many requests are running."""
        return self._requests

    def admit(self, table: str) -> AdmittedRequest:
        """Admit a request. Raises PushRefusedError: 503 while stopping, 429 beyond the limits."""
        if self.stopping:
            raise PushRefusedError(
                "the server is shutting down",
                hint="push again in a moment",
                status=503,
                code="shutting_down",
                retry_after=self.limits.retry_seconds,
            )
        with self._lock:
            if self._requests >= self.limits.concurrent_requests:
                raise self._busy(f"{self._requests} requests are running", "too_many_requests")
            self._requests += 1
        return AdmittedRequest(self, table)

    def add_bytes(self, table: str, count: int) -> None:
        """Reserve memory and log for a request's bytes. Raises PushRefusedError, 429 beyond the limits."""
        limits = self.limits
        with self._lock:
            if self._bytes + self._unflushed() + count > limits.unflushed_bytes:
                raise self._busy(
                    f"{limits.unflushed_bytes} bytes of pushed rows are not yet in their tables", "log_full"
                )
            if self._unflushed_of(table) + count > limits.unflushed_table_bytes:
                raise self._busy(
                    f"{limits.unflushed_table_bytes} bytes of rows for {table} are not yet in the table",
                    "table_log_full",
                )
            if self._log_bytes() > limits.log_bytes:
                raise self._busy(f"the log takes more than {limits.log_bytes} bytes of its disk", "log_full")
            self._bytes += count

    def leave(self, count: int) -> None:
        """A request with `count` reserved bytes has ended."""
        with self._lock:
            self._requests -= 1
            self._bytes -= count

    def _busy(self, reason: str, code: str) -> PushRefusedError:
        return PushRefusedError(
            f"the server takes no more rows now: {reason}",
            hint=f"push again in {self.limits.retry_seconds} seconds",
            status=429,
            code=code,
            retry_after=self.limits.retry_seconds,
        )


class AdmittedRequest:
    """A running request, as a context; `reserve` grows what it may hold."""

    def __init__(self, admission: Admission, table: str) -> None:
        self._admission = admission
        self._table = table
        self._reserved = 0

    def reserve(self, size: int) -> None:
        """The body takes `size` bytes in all. Raises PushRefusedError: 413 if a body may not, 429 for now."""
        if size > self._admission.limits.body_bytes:
            raise PushRefusedError(
                f"the body for {self._table} has more than {self._admission.limits.body_bytes} bytes",
                hint="push smaller batches",
                status=413,
                code="body_too_large",
            )
        if size > self._reserved:
            self._admission.add_bytes(self._table, size - self._reserved)
            self._reserved = size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._admission.leave(self._reserved)
