"""Tables that rows are pushed to, and a model of the rows that they must have. Made without Spark."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.sync import sync_table
from hudisql.context import Context
from hudisql.format import table_properties as keys
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.ingest.dead_letters import SUFFIX
from hudisql.ingest.offsets import TableOffsets, find_offsets
from hudisql.ingest.push.bearer_tokens import hash_token
from hudisql.procedures.ingest.ingest_table import (
    IngestTableArguments,
    ingest_table,
    pause_ingest,
)
from hudisql.procedures.registry import NamedTableArguments
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.properties.new_table import NewTable, publish_new_table
from tests.free_port import find_free_port
from tests.ingest.fed_tables import SCHEMA, TYPES
from tests.ingest.push.servers import Answer
from tests.ingest.worker_processes import WorkerProcess, WorkerServer
from tests.oracle.comparison import our_rows

STORAGE = Storage()
DATABASE = "pushed"
TOKEN = "a-token-of-all"


def pause(table: PushedTable) -> None:
    """`CALL pause_ingest`."""
    pause_ingest(_context(table.client), NamedTableArguments(table=table.full_name))


def _context(client: MetastoreClient) -> Context:
    return Context(None, client, STORAGE)  # type: ignore[arg-type]


def rows_of(numbers: Iterable[int], ts: int, **more: object) -> list[dict[str, Any]]:
    """The rows' states of one moment."""
    return [
        {"id": each, "name": f"n{ts}", "ts": ts, "dt": f"2024-01-0{each % 3 + 1}", **more} for each in numbers
    ]


def as_ndjson(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in rows)


@dataclass
class PushingWorker:
    """A worker with servers, and what a client sees of them."""

    process: WorkerProcess
    http_port: int
    flight_port: int

    def push(self, table: str, body: bytes, token: str = TOKEN, **headers: str) -> Answer:
        """One push by HTTP. Raises ConnectionError, HTTPException if the worker is not there."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            path = f"/v1/tables/{table}/rows"
            connection.request("POST", path, body, {"Authorization": f"Bearer {token}", **named})
            response = connection.getresponse()
            given = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, given, response.read().decode())
        finally:
            connection.close()

    def push_batch(self, table: str, batch: pa.RecordBatch, token: str = TOKEN) -> Any:
        """One push by Flight. Raises flight.FlightError."""
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        with flight.connect(f"grpc+tcp://127.0.0.1:{self.flight_port}") as client:
            writer, reader = client.do_put(flight.FlightDescriptor.for_path(table), batch.schema, options)
            with writer:
                writer.write_batch(batch)
                answer = json.loads(reader.read().to_pybytes())
                writer.done_writing()
                return answer


@dataclass
class PushedTable:
    """A table that takes pushes; `model` has the `ts` of each row by its id."""

    client: MetastoreClient
    name: str
    path: Path
    model: dict[int, int] = field(default_factory=dict)
    clock: int = 0

    @property
    def full_name(self) -> str:
        return f"{DATABASE}.{self.name}"

    @property
    def table(self) -> HudiTable:
        return open_table(STORAGE, str(self.path))

    def declare(self, **more: Any) -> None:
        """`CALL ingest_table` with these arguments."""
        given = {"source": "push", "flush_seconds": 0.3, **more}
        ingest_table(_context(self.client), IngestTableArguments(table=self.full_name, **given))

    def push(self, worker: PushingWorker, numbers: Iterable[int], deleted: Iterable[int] = ()) -> Answer:
        """Push the rows' state of one more moment; the model has them if they are acknowledged."""
        self.clock += 1
        states, gone = list(numbers), list(deleted)
        rows = rows_of(states, self.clock) + rows_of(gone, self.clock, _hoodie_is_deleted=True)
        answer = worker.push(self.full_name, as_ndjson(rows))
        if answer.status == 200:
            self.model.update(dict.fromkeys(states, self.clock))
            for each in gone:
                self.model.pop(each, None)
        return answer

    def push_batch(self, worker: PushingWorker, numbers: Iterable[int]) -> None:
        """The same by Flight."""
        self.clock += 1
        states = list(numbers)
        batch = pa.RecordBatch.from_pylist(rows_of(states, self.clock), SCHEMA)
        assert worker.push_batch(self.full_name, batch)["rows"] == len(states)
        self.model.update(dict.fromkeys(states, self.clock))

    def forget_dead(self) -> None:
        """Let the lock and heartbeats of workers that were killed be as old as they need to be."""
        hidden = self.path / ".hoodie"
        for left in [hidden / "lock", *hidden.glob(".heartbeat/*")]:
            if left.exists():
                os.utime(left, (0, 0))

    def offsets(self) -> TableOffsets:
        return find_offsets(self.table)

    def states(self) -> dict[int, int]:
        """The `ts` of each row by its id; each id is there once."""
        rows = our_rows(self.table)
        ids = rows["id"].to_pylist()
        assert len(ids) == len(set(ids)), sorted(each for each in set(ids) if ids.count(each) > 1)
        return dict(zip(ids, rows["ts"].to_pylist(), strict=True))

    def dead_letters(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = our_rows(open_table(STORAGE, f"{self.path}{SUFFIX}")).to_pylist()
        return rows


@dataclass
class PushedTables:
    """Makes tables and workers; a worker's log is the directory `log` of its name."""

    client: MetastoreClient
    server: WorkerServer
    directory: Path
    made: list[PushedTable] = field(default_factory=list)

    def make(self, name: str, kind: str = "mor", **declared: Any) -> PushedTable:
        """A table without rows, with its declaration."""
        table = PushedTable(self.client, name, self.directory / name)
        self.register(table, kind)
        self.made.append(table)
        table.declare(**declared)
        return table

    def register(self, table: PushedTable, kind: str = "mor") -> None:
        """Make the table's directory and its entry."""
        others = {keys.CREATE_SCHEMA: avro_from_arrow(SCHEMA, table.name)}
        # The row with the highest ts counts, whichever log it comes from.
        payload = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
        new = NewTable(table.name, DATABASE, TYPES[kind], ("id",), ("dt",), "ts", payload, others=others)
        publish_new_table(STORAGE, str(table.path), new, datetime.now(UTC))
        sync_table(self.client, table.table, DATABASE, table.name)

    def start(self, log: str = "log", *, servers: bool = True, **told: Any) -> PushingWorker:
        """A worker of its own log; it may not listen yet."""
        tokens = self.directory / "tokens.json"
        tokens.write_text(json.dumps({"*": [hash_token(TOKEN)]}))
        push: dict[str, Any] = {"log": str(self.directory / log), "tokens": str(tokens), "lease_seconds": 2.0}
        push.update(told.pop("push", {}))
        ports = find_free_port(), find_free_port()
        if servers:
            push.update(http=f"127.0.0.1:{ports[0]}", flight=f"127.0.0.1:{ports[1]}")
        return PushingWorker(self.server.start(push=push, **told), *ports)

    def catch_up(self, log: str = "log", **told: Any) -> str:
        """A worker without servers commits what the log has, and ends well; what it said."""
        worker = self.start(log, servers=False, until_caught_up=True, **told).process
        assert worker.end() == 0, worker.said()
        return worker.said()

    def drop(self) -> None:
        """Unregister the tables, so that no later worker finds them."""
        for table in self.made:
            for name in self.client.list_tables(DATABASE):
                if name.startswith(table.name):
                    self.client.drop_table(DATABASE, name)
        self.made.clear()


@contextmanager
def pushed_tables(client: MetastoreClient, server: WorkerServer, directory: Path) -> Iterator[PushedTables]:
    """Tables of one test."""
    client.create_database(DATABASE)
    tables = PushedTables(client, server, directory)
    try:
        yield tables
    finally:
        tables.drop()
