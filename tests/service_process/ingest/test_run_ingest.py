"""`CALL ingest_table` and workers: events of a real topic are rows of a real table, each once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.offsets import find_offsets
from hudisql.options.table_call import find_entry, location_of
from hudisql.service_process.ingest.run_ingest import WorkerOptions, run_worker
from tests.ingest.broker import KafkaBroker
from tests.opened import open_at
from tests.processes import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.kafka]


@pytest.fixture(scope="module")
def database(session: Any) -> str:
    session.sql("CREATE DATABASE IF NOT EXISTS ingest_db")
    return "ingest_db"


def make_table(session: Any, name: str, kind: str) -> None:
    session.sql(
        f"CREATE TABLE {name} (id bigint, name string, ts bigint, dt string) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = '{kind}', "
        "payloadClass = 'org.apache.hudi.common.model.DefaultHoodieRecordPayload') PARTITIONED BY (dt)"
    )


def events(numbers: Iterable[int], ts: int = 0, **more: object) -> list[bytes]:
    return [
        json.dumps(
            {"id": each, "name": f"n{ts}", "ts": ts, "dt": f"2024-01-0{each % 3 + 1}", **more}
        ).encode()
        for each in numbers
    ]


def keys(numbers: Iterable[int]) -> list[bytes]:
    return [str(each).encode() for each in numbers]


def catch_up(session: Any, group: str = "tests", **more: Any) -> bool:
    options = WorkerOptions(group=group, until_caught_up=True, **more)
    return run_worker(session.context, threading.Event(), options)


def declare(session: Any, table: str, topic: str, broker: KafkaBroker, *more: str) -> None:
    options = "".join(f", {each}" for each in more)
    session.sql(
        f"CALL ingest_table(table => '{table}', topic => '{topic}', "
        f"bootstrap_servers => '{broker.servers}'{options})"
    )


@contextmanager
def running_worker(session: Any) -> Iterator[None]:
    """A worker in a thread of this process, which ends as after SIGTERM."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(
            run_worker, session.context, stop, WorkerOptions(group="running", refresh_seconds=0.2)
        )
        try:
            yield
        finally:
            stop.set()
        assert worker.result(60)


def committed(session: Any, table: str) -> Mapping[tuple[str, int], int]:
    entry = find_entry(session.context, table)
    return find_offsets(open_at(location_of(entry))).offsets


ROUNDS: list[tuple[Sequence[int], int, dict[str, object]]] = [
    (range(300), 0, {}),
    (range(100), 5, {}),
    (range(50), 4, {}),
    (range(80, 100), 6, {"_hoodie_is_deleted": True}),
    (range(300, 310), 1, {}),
    (range(80, 90), 7, {}),
    (range(305, 310), 2, {}),
]


@pytest.mark.soak
@pytest.mark.parametrize("index_days", [0, 36_500])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_events_are_inserted_updated_and_deleted(
    session: Any, broker: KafkaBroker, database: str, kind: str, index_days: int
) -> None:
    topic = f"first_{kind}_{index_days}"
    table = f"{database}.{topic}"
    make_table(session, table, kind)
    broker.create_topic(topic, 3)
    declare(session, table, topic, broker, f"index_days => {index_days}, flush_seconds => 0.2")
    with running_worker(session):
        for number, (ids, ts, more) in enumerate(ROUNDS):
            broker.produce(topic, events(ids, ts, **more), keys(ids))
            taken = sum(len(ids) for ids, _, _ in ROUNDS[: number + 1])
            wait_for(lambda: sum(committed(session, table).values()) == taken)  # noqa: B023
    rows = session.sql(f"SELECT id, name, ts, dt FROM {table}").rows
    expected = {each: 5 if each < 80 else 7 if each < 90 else 0 for each in range(300)}
    expected = {each: ts for each, ts in expected.items() if not 90 <= each < 100}
    expected |= {each: 1 if each < 305 else 2 for each in range(300, 310)}
    assert {row.id: row.ts for row in rows} == expected
    assert len(rows) == len(expected)
    assert all(row.name == f"n{row.ts}" and row.dt == f"2024-01-0{row.id % 3 + 1}" for row in rows)
    (shown,) = session.sql(f"CALL show_ingest(table => '{table}')").rows
    assert (shown.lag, shown.epoch, shown.error) == (0, 1, None)
    session.sql(f"CALL drop_ingest(table => '{table}')")
    assert session.sql(f"CALL show_ingest(table => '{table}')").rows == []


@pytest.mark.soak
def test_events_that_are_no_rows_are_kept_apart(session: Any, broker: KafkaBroker, database: str) -> None:
    table, topic = f"{database}.bad", "bad"
    make_table(session, table, "mor")
    broker.create_topic(topic)
    declare(session, table, topic, broker)
    bad = [b"{", b'{"id": "x"}', b'{"id": null, "dt": "a"}', b'{"id": 7, "dt": "__HIVE_DEFAULT_PARTITION__"}']
    broker.produce(topic, [*events(range(5)), *bad, *events(range(5, 9))])
    assert catch_up(session)
    assert len(session.sql(f"SELECT * FROM {table}").rows) == 9
    kept = session.sql(f"SELECT * FROM {table}_dead_letter ORDER BY offset").rows
    assert [(row.topic, row.partition, row.offset, bytes(row.value)) for row in kept] == [
        (topic, 0, 5 + number, value) for number, value in enumerate(bad)
    ]
    assert "key (id) is null" in kept[2].reason
    session.sql(
        f"CALL ingest_table(table => '{table}', topic => '{topic}', "
        f"bootstrap_servers => '{broker.servers}', on_bad_record => 'stop')"
    )
    broker.produce(topic, [*events(range(20, 22)), b"[]", *events(range(30, 32))])
    assert not catch_up(session)
    assert len(session.sql(f"SELECT * FROM {table}").rows) == 9
    session.sql(f"CALL drop_ingest(table => '{table}')")


@pytest.mark.soak
def test_a_paused_table_takes_nothing_and_goes_on_later(
    session: Any, broker: KafkaBroker, database: str
) -> None:
    table, topic = f"{database}.paused", "paused"
    make_table(session, table, "cow")
    broker.create_topic(topic)
    broker.produce(topic, events(range(5)))
    session.sql(
        f"CALL ingest_table(table => '{table}', topic => '{topic}', start => 'latest', "
        f"bootstrap_servers => '{broker.servers}')"
    )
    assert catch_up(session)
    broker.produce(topic, events(range(10, 15)))
    session.sql(f"CALL pause_ingest(table => '{table}')")
    assert catch_up(session)
    assert session.sql(f"SELECT * FROM {table}").rows == []
    session.sql(f"CALL resume_ingest(table => '{table}')")
    assert catch_up(session)
    assert sorted(row.id for row in session.sql(f"SELECT id FROM {table}").rows) == [10, 11, 12, 13, 14]
    session.sql(f"CALL drop_ingest(table => '{table}')")


def test_a_worker_syncs_what_a_killed_one_has_left(session: Any, broker: KafkaBroker, database: str) -> None:
    table, topic = f"{database}.left", "left"
    broker.create_topic(topic)
    make_table(session, table, "cow")
    declare(session, table, topic, broker)
    session.sql("SET hudisql.sync = false")
    try:
        session.sql(f"INSERT INTO {table} SELECT 1, 'a', 1, '2024-01-01'")
    finally:
        session.sql("RESET hudisql.sync")
    assert not session.context.metastore.list_partitions(database, "left")
    assert catch_up(session, "left")
    (partition,) = session.context.metastore.list_partitions(database, "left")
    assert partition.values == ("2024-01-01",)
    session.sql(f"CALL drop_ingest(table => '{table}')")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("format => 'xml'", "format is 'xml'"),
        ("format => 'avro'", "schema_registry"),
        ("start => 'soon'", "start is 'soon'"),
        ("on_bad_record => 'ignore'", "on_bad_record is 'ignore'"),
        ("flush_bytes => 10", "flush_bytes must be at least"),
        ("bootstrap_servers => NULL", "must be given"),
    ],
)
def test_what_cannot_be_is_refused(session: Any, database: str, more: str, said: str) -> None:
    session.sql(
        f"CREATE TABLE IF NOT EXISTS {database}.refused (id bigint) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    given = "" if more.startswith("bootstrap") else "bootstrap_servers => 'x:1', "
    with pytest.raises(InvalidArgumentError, match=said):
        session.sql(f"CALL ingest_table(table => '{database}.refused', topic => 't', {given}{more})")
    assert session.sql("CALL show_ingest()").rows == []


def test_a_table_without_a_key_cannot_be_split(session: Any, database: str) -> None:
    session.sql(f"CREATE TABLE {database}.keyless (id bigint) USING hudi")
    with pytest.raises(InvalidArgumentError, match="no record key"):
        session.sql(
            f"CALL ingest_table(table => '{database}.keyless', topic => 't', bootstrap_servers => 'x:1', "
            "split => 'days:3')"
        )


def test_a_table_of_a_single_writer_is_refused(session: Any, database: str) -> None:
    session.sql(
        f"CREATE TABLE {database}.single (id bigint) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id', 'hoodie.cleaner.policy.failed.writes' = 'EAGER')"
    )
    with pytest.raises(InvalidArgumentError, match="share a table by a lock"):
        session.sql(
            f"CALL ingest_table(table => '{database}.single', topic => 't', bootstrap_servers => 'x:1')"
        )
