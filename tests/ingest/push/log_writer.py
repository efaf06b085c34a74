"""A process that appends to a write-ahead log until it is killed, and prints what was acknowledged.

`python -m tests.ingest.push.log_writer DIRECTORY ROUND` appends batches of two tables from four threads, each
line of its output being a table, a sequence number and a batch's text. `disk-full DIRECTORY` appends with
and without room for its files, and prints what was acknowledged and what was refused.
"""

from __future__ import annotations

import resource
import sys
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Lock, Thread

from hudisql.errors import WriteAheadLogError
from hudisql.ingest.push.frames import PayloadFormat
from hudisql.ingest.push.write_ahead_log import WriteAheadLog

SEGMENT_BYTES = 1 << 16
_printing = Lock()


def payload_of(text: str) -> bytes:
    """The text, and as much more that batches take from 50 bytes to 20 KB."""
    return text.encode() + b"." * (50 + hash(text) % 7 * 3000)


def _push(log: WriteAheadLog, table: str, name: str) -> None:
    def report(text: str, future: Future[int]) -> None:
        with _printing:
            sys.stdout.write(f"{table} {future.result()} {text}\n")
            sys.stdout.flush()

    number = 0
    while True:
        waiting = []
        for _ in range(5):
            number += 1
            text = f"{name}-{number}"
            future = log.append(table, PayloadFormat.NDJSON, payload_of(text))
            future.add_done_callback(partial(report, text))
            waiting.append(future)
        last = waiting[-1].result()
        if name.endswith("releases"):
            log.release(table, last - 200)


def _append_until_killed(directory: Path, name: str) -> None:
    log = WriteAheadLog(directory, segment_bytes=SEGMENT_BYTES)
    for table in ("s.kept", "s.released"):
        for thread in range(2):
            own = f"{name}-{thread}" + ("-releases" if table == "s.released" else "")
            Thread(target=_push, args=(log, table, own), daemon=True).start()
    Thread(target=lambda: sys.stdin.read(), daemon=False).start()


def _append_on_a_full_disk(directory: Path) -> None:
    log = WriteAheadLog(directory, segment_bytes=SEGMENT_BYTES)
    for limit in (-1, 0, -1, 20_000, 1 << 20, -1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
        for number in range(6):
            text = f"{limit}-{number}"
            future = log.append("s.t", PayloadFormat.NDJSON, text.encode().ljust(15_000, b"."))
            try:
                print("acknowledged", future.result(), text)
            except WriteAheadLogError as error:
                print("refused", limit, error.message)
    log.close()


if __name__ == "__main__":
    if sys.argv[1] == "disk-full":
        _append_on_a_full_disk(Path(sys.argv[2]))
    else:
        _append_until_killed(Path(sys.argv[1]), sys.argv[2])
