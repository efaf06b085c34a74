"""What the HTTP and the Flight server share: who may push, what is taken, and when it is acknowledged.

A push is authorized, admitted within the limits, checked, appended to the log, and acknowledged when it is
durable. Must not know either protocol; refusals carry HTTP's status, which Flight translates.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Final

from hudisql.errors import PushRefusedError, WriteAheadLogError
from hudisql.ingest.push.bearer_tokens import TableTokens
from hudisql.ingest.push.event_checks import CheckedRows, FindCheck, RowCheck
from hudisql.ingest.push.frames import MAXIMUM_KEY_BYTES, PayloadFormat
from hudisql.ingest.push.push_limits import Admission, AdmittedRequest, PushLimits
from hudisql.ingest.push.write_ahead_log import WriteAheadLog

_MAXIMUM_KEYS: Final = 100_000


@dataclass
class _RememberedKey:
    checksum: int
    expires: float
    appended: Future[int]


@dataclass
class PushCounters:
    """What was pushed since the start; `answers` counts HTTP's status codes, those of Flight too."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    answers: Counter[int] = field(default_factory=Counter)


class PushGateway:
    """Pushes of all clients of a process into one log.

    `find_check` knows the tables. Idempotency keys are remembered for `key_seconds`, after a restart
    those whose batches are still in the log.
    """

    def __init__(
        self,
        log: WriteAheadLog,
        find_check: FindCheck,
        tokens: TableTokens,
        limits: PushLimits | None = None,
        *,
        key_seconds: float = 600.0,
    ) -> None:
        self.log = log
        self.limits = limits or PushLimits()
        self.tokens = tokens
        self.counters = PushCounters()
        self._find_check = find_check
        self._admission = Admission(
            self.limits, lambda: log.unreleased_bytes, log.unreleased_bytes_of, lambda: log.disk_bytes
        )
        self._lock = Lock()
        self._key_seconds = key_seconds
        self._keys: OrderedDict[tuple[str, str], _RememberedKey] = OrderedDict()
        self._remember_keys_of_the_log()

    def begin(self, table: str, authorization: str | None) -> tuple[AdmittedRequest, RowCheck]:
        """Admit a push. Raises PushRefusedError: 307, 401, 403, 404, 421, 429 or 503."""
        try:
            self.tokens.authorize(table, authorization)
        except PushRefusedError as refusal:
            # Only a known client learns that the name of a table is wrong.
            if refusal.status != 403 or self._find_check(table) is not None:
                raise
        check = self._find_check(table)
        if check is None:
            raise PushRefusedError(
                f"the table {table} is unknown or takes no pushes",
                hint="name it as database.table, and declare it by CALL ingest_table",
                status=404,
                code="unknown_table",
            )
        if isinstance(check, PushRefusedError):
            raise check
        return self._admission.admit(table), check

    def check_ndjson(self, table: str, check: RowCheck, payload: bytes) -> CheckedRows:
        """Check a body's rows. Raises PushRefusedError: 400 for bad rows or none, 413 for too many."""
        checked = check.check_ndjson(payload)
        self.check_row_count(table, checked.rows)
        if checked.bad_rows and not check.takes_bad_rows:
            raise bad_rows_error(table, checked.bad_rows)
        return checked

    def check_row_count(self, table: str, rows: int) -> None:
        """Refuse batches without a row, or with too many. Raises PushRefusedError: 400, 413."""
        if not rows:
            raise PushRefusedError(f"the batch for {table} has no rows", status=400, code="no_rows")
        if rows > self.limits.rows:
            raise PushRefusedError(
                f"the batch for {table} has {rows} rows, more than {self.limits.rows}",
                hint="push smaller batches",
                status=413,
                code="too_many_rows",
            )

    def append(
        self, table: str, format: PayloadFormat, payload: bytes, *, rows: int, key: str = ""
    ) -> Future[int]:
        """The future has the sequence number when the batch is durable.

        A batch whose key is remembered is not appended again: its number is that of the first. Raises
        PushRefusedError: 400 for a bad key, 422 if another batch has it; its future, WriteAheadLogError.
        """
        if not key:
            return self._append(table, format, payload, rows, key)
        if len(key.encode()) > MAXIMUM_KEY_BYTES:
            raise PushRefusedError(
                f"the idempotency key has more than {MAXIMUM_KEY_BYTES} bytes", status=400, code="bad_key"
            )
        checksum = zlib.crc32(payload)
        with self._lock:
            self._forget_expired_keys()
            known = self._keys.get((table, key))
            if known is None:
                future = self._append(table, format, payload, rows, key)
                self._remember(table, key, checksum, future, time.time())
            elif known.checksum == checksum:
                return known.appended
        if known is not None:
            raise PushRefusedError(
                f"the idempotency key {key!r} was used for another batch of {table}",
                hint="use a new key for each batch",
                status=422,
                code="key_reused",
            )
        # Outside of the lock, since it is called at once if the append has failed already.
        future.add_done_callback(partial(self._forget_failed, (table, key)))
        return future

    def stop(self) -> None:
        """Refuse pushes from now on; those that run are completed."""
        self._admission.stopping = True

    def wait_until_idle(self, seconds: float) -> None:
        """Return when no push runs, or after so long."""
        deadline = time.monotonic() + seconds
        while self._admission.running and time.monotonic() < deadline:
            time.sleep(0.005)

    def health(self) -> dict[str, object]:
        """The answer to a health check; `status` is `ok` or `stopping`."""
        return {
            "status": "stopping" if self._admission.stopping else "ok",
            "log_id": self.log.log_id,
            "log_is_failing": self.log.is_failing,
            "log_bytes": self.log.disk_bytes,
            "unflushed_bytes": self.log.unreleased_bytes,
        }

    def _append(self, table: str, format: PayloadFormat, payload: bytes, rows: int, key: str) -> Future[int]:
        future = self.log.append(table, format, payload, rows=rows, key=key)
        self.counters.batches += 1
        self.counters.rows += rows
        self.counters.bytes += len(payload)
        return future

    def _remember_keys_of_the_log(self) -> None:
        for header in self.log.headers():
            if header.key:
                appended: Future[int] = Future()
                appended.set_result(header.sequence)
                arrived = header.arrival_ms / 1000
                self._remember(header.table, header.key, header.payload_checksum, appended, arrived)

    def _remember(self, table: str, key: str, checksum: int, appended: Future[int], arrived: float) -> None:
        self._keys[table, key] = _RememberedKey(checksum, arrived + self._key_seconds, appended)
        if len(self._keys) > _MAXIMUM_KEYS:
            self._keys.popitem(last=False)

    def _forget_expired_keys(self) -> None:
        now = time.time()
        while self._keys and next(iter(self._keys.values())).expires < now:
            self._keys.popitem(last=False)

    def _forget_failed(self, name: tuple[str, str], future: Future[int]) -> None:
        if future.cancelled() or future.exception() is not None:
            with self._lock:
                self._keys.pop(name, None)


def bad_rows_error(table: str, bad_rows: Sequence[tuple[int, str]]) -> PushRefusedError:
    """The refusal of a batch with bad rows."""
    line, reason = bad_rows[0]
    return PushRefusedError(
        f"line {line} is not a row of {table}: {reason}",
        hint="correct the lines and push the whole batch again: no row of it was taken",
        status=400,
        code="bad_rows",
        bad_rows=bad_rows,
    )


def refusal_of(error: Exception) -> PushRefusedError:
    """The refusal that a client gets for an error, without internal details."""
    if isinstance(error, PushRefusedError):
        return error
    if isinstance(error, WriteAheadLogError):
        return PushRefusedError(
            "the rows could not be made durable, and may or may not be taken",
            hint="push the batch again, later",
            status=503,
            code="log_failed",
            retry_after=5,
        )
    return PushRefusedError("the server failed on this request", status=500, code="internal_error")


def describe_refusal(refusal: PushRefusedError) -> dict[str, object]:
    """The refusal as the JSON of an answer."""
    described: dict[str, object] = {
        "code": refusal.code,
        "message": refusal.message,
        "hint": refusal.hint,
        "retry_after": refusal.retry_after,
        "owner": dict(refusal.owner or {}),
        "lines": [{"line": line, "reason": reason} for line, reason in refusal.bad_rows],
    }
    return {"error": {name: value for name, value in described.items() if value}}
