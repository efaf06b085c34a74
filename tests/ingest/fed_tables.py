"""Tables that events are written to, and a model of the rows that they must have. Made without Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.sync import sync_table
from hudisql.context import Context
from hudisql.format import table_properties as keys
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.ingest.dead_letters import SUFFIX
from hudisql.ingest.kafka.kafka_source import KafkaSource
from hudisql.ingest.offsets import TableOffsets, find_offsets
from hudisql.procedures.ingest.ingest_table import IngestTableArguments, ingest_table
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.properties.new_table import NewTable, publish_new_table
from tests.ingest.broker import KafkaBroker
from tests.oracle.comparison import our_rows

STORAGE = Storage()
DATABASE = "fed"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("dt", pa.string()),
    ]
)
TYPES = {"cow": keys.COPY_ON_WRITE, "mor": keys.MERGE_ON_READ}


@dataclass
class FedTable:
    """A table with a topic; `model` has the `ts` of each row by its id."""

    broker: KafkaBroker
    source: KafkaSource
    client: MetastoreClient
    name: str
    path: Path
    partitions: int = 2
    model: dict[int, int] = field(default_factory=dict)
    bad: int = 0
    clock: int = 0

    @property
    def full_name(self) -> str:
        return f"{DATABASE}.{self.name}"

    @property
    def table(self) -> HudiTable:
        return open_table(STORAGE, str(self.path))

    def declare(self, **more: Any) -> None:
        """`CALL ingest_table` with these arguments."""
        given = {"topic": self.name, "bootstrap_servers": self.broker.servers, **more}
        context = Context(None, self.client, STORAGE)  # type: ignore[arg-type]
        ingest_table(context, IngestTableArguments(table=self.full_name, **given))

    def produce(self, upserted: Iterable[int], deleted: Iterable[int] = (), bad: int = 0) -> None:
        """Events of one more moment: the rows' new state, some again as they were, deletes, bad ones."""
        self.clock += 1
        states = dict.fromkeys(upserted, self.clock)
        late = [(each, self.model[each] - 1) for each in list(states)[::5] if self.model.get(each, 0) > 1]
        events = [*states.items(), *late]
        values = [_event(number, ts) for number, ts in events]
        values += [_event(number, self.clock, _hoodie_is_deleted=True) for number in deleted]
        numbers = [*(number for number, _ in events), *deleted, *range(bad)]
        values += [b"{"] * bad
        for at in range(self.partitions):
            mine = [n for n, number in enumerate(numbers) if number % self.partitions == at]
            self.broker.produce(self.name, [values[n] for n in mine], partition=at)
        self.model.update(states)
        for number in deleted:
            self.model.pop(number, None)
        self.bad += bad

    def forget_dead(self) -> None:
        """Let the locks and heartbeats of workers that were killed be as old as they need to be."""
        for base in (self.path, Path(f"{self.path}{SUFFIX}")):
            hidden = base / ".hoodie"
            for left in [hidden / "lock", *hidden.glob(".heartbeat/*")]:
                if left.exists():
                    os.utime(left, (0, 0))

    def offsets(self) -> TableOffsets:
        return find_offsets(self.table)

    def ends(self) -> dict[tuple[str, int], int]:
        """The topic's ends."""
        sources = [(self.name, at) for at in range(self.partitions)]
        return {each: self.source.retained(each)[1] for each in sources}

    def client_partitions(self) -> list[int]:
        """The numbers of the topic's partitions; from here on the client knows them."""
        return self.source.partitions(self.name)

    def rows(self) -> pa.Table:
        return our_rows(self.table)

    def check(self) -> None:
        """The rows are the model's, each key is there once, and the offsets are the topic's ends."""
        rows = self.rows()
        ids = rows["id"].to_pylist()
        assert len(ids) == len(set(ids)), sorted(each for each in set(ids) if ids.count(each) > 1)
        assert dict(zip(ids, rows["ts"].to_pylist(), strict=True)) == self.model
        ends = self.ends()
        assert self.offsets().offsets == ends
        if self.bad:
            kept = our_rows(open_table(STORAGE, f"{self.path}{SUFFIX}"))["event"].to_pylist()
            assert len(kept) == len(set(kept)) == self.bad


def _event(number: int, ts: int, **more: object) -> bytes:
    row = {"id": number, "name": f"n{ts}", "ts": ts, "dt": f"2024-01-0{number % 3 + 1}", **more}
    return json.dumps(row).encode()


@dataclass
class FedTables:
    """Makes tables."""

    broker: KafkaBroker
    source: KafkaSource
    client: MetastoreClient
    directory: Path
    made: list[FedTable] = field(default_factory=list)

    def make(
        self, name: str, kind: str = "mor", *, partitions: int = 2, has_topic: bool = False, **declared: Any
    ) -> FedTable:
        """A table without rows, its topic (unless it has one) and its declaration."""
        path = self.directory / name
        new = NewTable(
            name,
            DATABASE,
            TYPES[kind],
            ("id",),
            ("dt",),
            "ts",
            others={keys.CREATE_SCHEMA: avro_from_arrow(SCHEMA, name)},
        )
        publish_new_table(STORAGE, str(path), new, datetime.now(UTC))
        table = FedTable(self.broker, self.source, self.client, name, path, partitions)
        sync_table(self.client, table.table, DATABASE, name)
        if not has_topic:
            self.broker.create_topic(name, partitions)
        self.made.append(table)
        table.declare(**declared)
        return table

    def drop(self) -> None:
        """Unregister the tables, so that no later worker finds them."""
        for table in self.made:
            for name in self.client.list_tables(DATABASE):
                if name.startswith(table.name):
                    self.client.drop_table(DATABASE, name)
        self.made.clear()


def fed_tables(broker: KafkaBroker, client: MetastoreClient, directory: Path) -> Iterator[FedTables]:
    """Tables of one test."""
    client.create_database(DATABASE)
    with closing(KafkaSource(broker.servers)) as source:
        tables = FedTables(broker, source, client, directory)
        yield tables
        tables.drop()
