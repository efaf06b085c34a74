"""What pushes cost: CPU time of the HTTP and the Flight server, and how fast the write-ahead log is.

`python -m benchmarks.ingest_push` runs each server as a process of its own and pushes rows of 13 columns from
`CLIENTS` clients at once, each over one connection. Each push is durable before its client goes on. Megabytes
are those of the rows as JSON, for Flight too. CPU time is that of the server's process, from before the first
push to after the last. Writes docs/benchmarks-ingest-push.md.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import flight

from benchmarks.pages import replace_part
from benchmarks.run import ROOT
from hudisql.ingest.push.bearer_tokens import TableTokens, hash_token
from hudisql.ingest.push.event_checks import CheckedRows, RowCheck
from hudisql.ingest.push.flight_server import FlightPushServer
from hudisql.ingest.push.frames import PayloadFormat
from hudisql.ingest.push.gateway import PushGateway
from hudisql.ingest.push.http_server import HttpPushServer
from hudisql.ingest.push.push_limits import PushLimits
from hudisql.ingest.push.write_ahead_log import WriteAheadLog
from tests.free_port import find_free_port

TITLE: Final = "Cost of pushes"
PAGE: Final = ROOT / "docs" / "benchmarks-ingest-push.md"
CLIENTS: Final = 16
TABLE: Final = "lake.events"
TOKEN: Final = "benchmark"
MILLION: Final = 1_000_000
# Rows of a push, and how many MB are pushed with such.
SIZES: Final = {"2.7 KB": (10, 20), "100 KB": (370, 400), "1 MB": (3700, 800)}
LOG_SIZES: Final = {"10 KB": (10_000, 50), "100 KB": (100_000, 400), "1 MB": (1_000_000, 1000)}
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("event_type", pa.string()),
        ("user_id", pa.int64()),
        ("session", pa.string()),
        ("page", pa.string()),
        ("country", pa.string()),
        ("device", pa.string()),
        ("amount", pa.float64()),
        ("quantity", pa.int64()),
        ("is_new", pa.bool_()),
        ("ts", pa.int64()),
        ("dt", pa.string()),
        ("note", pa.string()),
    ]
)


@dataclass(frozen=True)
class Measured:
    """A kind of pushes: CPU seconds of the server, seconds by the clock, and megabytes of JSON."""

    cpu: float
    seconds: float
    megabytes: float


class CountLines(RowCheck):
    """No check: what the server costs without the parser."""

    def check_batch(self, batch: pa.RecordBatch) -> CheckedRows:
        return CheckedRows(batch.num_rows)

    def check_ndjson(self, payload: bytes) -> CheckedRows:
        return CheckedRows(payload.count(b"\n"))


def make_rows(count: int) -> list[dict[str, object]]:
    return [
        {
            "id": 4_000_000_000 + number,
            "event_type": ("click", "view", "order")[number % 3],
            "user_id": number * 7919 % 1_000_003,
            "session": f"{number * 2_654_435_761 % 2**64:016x}",
            "page": f"/products/{number % 977}",
            "country": ("DE", "FR", "US")[number % 3],
            "device": ("phone", "desktop")[number % 2],
            "amount": round(number * 1.37 % 500, 2),
            "quantity": number % 9,
            "is_new": number % 5 == 0,
            "ts": 1_700_000_000_000 + number,
            "dt": "2024-03-01",
            "note": f"note {number % 31}",
        }
        for number in range(count)
    ]


def as_ndjson(rows: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def serve(kind: str, directory: str) -> None:
    """The server's process: prints its port and stops at the end of its input. Rows are released at once."""
    log = WriteAheadLog(Path(directory))
    check = CountLines(SCHEMA) if kind == "http-unchecked" else RowCheck(SCHEMA)
    tokens = TableTokens({TABLE: [hash_token(TOKEN)]})
    gateway = PushGateway(
        log, {TABLE: check}.get, tokens, PushLimits(unflushed_bytes=4 << 30, unflushed_table_bytes=4 << 30)
    )
    if kind == "flight":
        server: HttpPushServer | FlightPushServer = FlightPushServer(gateway)
        port = server.port
    else:
        port = find_free_port()
        server = HttpPushServer(gateway, port=port)
        server.start()
    print(port, flush=True)
    for _ in sys.stdin:
        log.release(TABLE, log.tables().get(TABLE, 0))
        print(time.process_time(), flush=True)
    server.stop()
    log.close()


@contextmanager
def server_process(kind: str) -> Iterator[tuple[int, Callable[[], float]]]:
    """A server's port, and a call that gives its CPU seconds so far."""
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.ingest_push", kind, directory],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            reader, writer = process.stdout, process.stdin

            def cpu_seconds() -> float:
                writer.write("\n")
                writer.flush()
                return float(reader.readline())

            yield int(reader.readline()), cpu_seconds
        process.wait()


def push_http(port: int, rows: list[dict[str, object]], count: int) -> None:
    body = as_ndjson(rows)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for _ in range(count):
        connection.request("POST", f"/v1/tables/{TABLE}/rows", body, {"Authorization": f"Bearer {TOKEN}"})
        response = connection.getresponse()
        if response.read() and response.status != 200:
            raise RuntimeError(f"the push failed: {response.status}")
    connection.close()


def push_flight(port: int, rows: list[dict[str, object]], count: int) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    with flight.connect(f"grpc://127.0.0.1:{port}") as client:
        writer, reader = client.do_put(flight.FlightDescriptor.for_path(TABLE), SCHEMA, options)
        with writer:
            for _ in range(count):
                writer.write_batch(batch)
                reader.read()
            writer.done_writing()


def measure_server(kind: str, row_count: int, megabytes: float) -> Measured:
    """Push from all clients at once."""
    rows = make_rows(row_count)
    size = len(as_ndjson(rows)) / MILLION
    count = max(1, round(megabytes / size / CLIENTS))
    push = push_flight if kind == "flight" else push_http
    with server_process(kind) as (port, cpu_seconds), ThreadPoolExecutor(CLIENTS) as pool:
        push(port, rows, 3)
        cpu, clock = cpu_seconds(), time.perf_counter()
        for each in [pool.submit(push, port, rows, count) for _ in range(CLIENTS)]:
            each.result()
        seconds = time.perf_counter() - clock
        return Measured(cpu_seconds() - cpu, seconds, size * count * CLIENTS)


def measure_log(payload_bytes: int, megabytes: int) -> Measured:
    """Append from one thread with 16 appends under way, and release what is durable."""
    payload = os.urandom(payload_bytes)
    count = megabytes * MILLION // payload_bytes
    with tempfile.TemporaryDirectory() as directory:
        log = WriteAheadLog(Path(directory))
        log.append(TABLE, PayloadFormat.NDJSON, payload).result()
        cpu, clock = time.process_time(), time.perf_counter()
        waiting = []
        for _ in range(count):
            waiting.append(log.append(TABLE, PayloadFormat.NDJSON, payload))
            if len(waiting) == CLIENTS:
                log.release(TABLE, waiting.pop(0).result())
        waiting[-1].result()
        measured = Measured(time.process_time() - cpu, time.perf_counter() - clock, megabytes)
        log.close()
    return measured


def measure_recovery(megabytes: int) -> Measured:
    """Open a log of frames of 100 KB that a process has left."""
    with tempfile.TemporaryDirectory() as directory:
        log = WriteAheadLog(Path(directory))
        payload = os.urandom(100_000)
        futures = [log.append(TABLE, PayloadFormat.NDJSON, payload) for _ in range(megabytes * 10)]
        futures[-1].result()
        log.close()
        cpu, clock = time.process_time(), time.perf_counter()
        log = WriteAheadLog(Path(directory))
        measured = Measured(time.process_time() - cpu, time.perf_counter() - clock, megabytes)
        log.close()
    return measured


def report() -> Iterator[str]:
    """The page, measured line by line."""
    yield f"# {TITLE}"
    yield ""
    yield (
        f"`python -m benchmarks.ingest_push`: {CLIENTS} clients at once, each waits until its push is "
        f"durable; rows of {len(as_ndjson(make_rows(1000))) // 1000} bytes of JSON, 13 columns; megabytes "
        f"are those of the JSON, for Flight too. CPU time is that of the server's process, log included. "
        f"{os.cpu_count()} cores, shared with the clients and, at {os.getloadavg()[0]:.0f} running processes "
        f"before the start, with others."
    )
    yield ""
    heads = [
        f"{kind}: CPU ms/MB | MB/s" for kind in ("HTTP, schema checked", "HTTP, lines counted", "Flight")
    ]
    yield f"| push of | {' | '.join(heads)} |"
    yield "|---|---|---|---|---|---|---|"
    for name, (rows, megabytes) in SIZES.items():
        each = [measure_server(kind, rows, megabytes) for kind in ("http", "http-unchecked", "flight")]
        cells = [f"{one.cpu * 1000 / one.megabytes:.1f} | {one.megabytes / one.seconds:.0f}" for one in each]
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""
    yield "| the log alone, 16 appends under way | MB/s | CPU ms/MB |"
    yield "|---|---|---|"
    for name, (size, megabytes) in LOG_SIZES.items():
        one = measure_log(size, megabytes)
        yield f"| frames of {name} | {_figures(one)} |"
    one = measure_recovery(500)
    yield f"| opening a log of 500 MB | {_figures(one)} |"


def _figures(one: Measured) -> str:
    return f"{one.megabytes / one.seconds:.0f} | {one.cpu * 1000 / one.megabytes:.1f}"


def main() -> None:
    lines = []
    for line in report():
        print(line, flush=True)
        lines.append(line)
    replace_part(PAGE, TITLE, "\n".join(lines))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        serve(sys.argv[1], sys.argv[2])
    else:
        main()
