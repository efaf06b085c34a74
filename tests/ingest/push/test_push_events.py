"""Pushed rows as a worker takes them: in order, again after a failed flush, behind its last commit."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hudisql.errors import CorruptWriteAheadLogError, InvalidArgumentError
from hudisql.ingest.event_source import Polled
from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.push import push_events
from hudisql.ingest.push.accepted_tables import AcceptedTables
from hudisql.ingest.push.frames import PayloadFormat
from hudisql.ingest.push.push_events import PushEvents
from hudisql.ingest.push.write_ahead_log import WriteAheadLog

NDJSON, ARROW = PayloadFormat.NDJSON, PayloadFormat.ARROW_STREAM


def append(log: WriteAheadLog, table: str, payload: bytes, format: PayloadFormat = NDJSON) -> int:
    return log.append(table, format, payload, rows=1).result(10)


def partition(log: WriteAheadLog, table: str) -> SourcePartition:
    return f"push/{log.log_id}/{table}", 0


def opened(log: WriteAheadLog, *tables: str, committed: int = 0) -> PushEvents:
    events = PushEvents(log, AcceptedTables())
    events.assign({partition(log, table): committed + 1 for table in tables})
    return events


def values(polled: Polled) -> list[list[bytes | None]]:
    return [list(batch.values) for batch in polled.batches]


def test_pushes_are_joined_in_order_and_streams_stay_alone(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    events = opened(log, "s.t")
    numbers = [append(log, "s.t", b'{"id": 1}'), append(log, "s.t", b'{"id": 2}\n')]
    numbers += [append(log, "s.t", b"arrow%d" % number, ARROW) for number in range(2)]
    append(log, "s.other", b"{}")
    polled = events.poll(0)
    assert values(polled) == [[b'{"id": 1}', b'{"id": 2}'], [b"arrow0"], [b"arrow1"]]
    assert [(batch.offsets.tolist(), batch.next_offset) for batch in polled.batches] == [
        (numbers[:2], numbers[1] + 1),
        ([numbers[2]], numbers[2] + 1),
        ([numbers[3]], numbers[3] + 1),
    ]
    assert not events.poll(0).batches
    log.close()


def test_polls_go_on_behind_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = WriteAheadLog(tmp_path)
    events = opened(log, "s.t")
    for number in range(4):
        append(log, "s.t", b"%d\n" % number)
    monkeypatch.setattr(push_events, "_BATCH_BYTES", 4)
    assert values(events.poll(0)) == [[b"0", b"1"]]
    monkeypatch.setattr(push_events, "_BATCH_BYTES", 1)
    assert values(events.poll(0)) == [[b"2"]]
    assert values(events.poll(0)) == [[b"3"]]
    log.close()


def test_a_worker_that_was_restarted_gets_what_the_last_commit_lacks(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    events = opened(log, "s.t")
    numbers = [append(log, "s.t", b"%d\n" % number) for number in range(3)]
    events.poll(0)
    # The commit is on the timeline, but the process ended before it could call `committed`.
    log.close()
    log = WriteAheadLog(tmp_path)
    events = opened(log, "s.t", committed=numbers[1])
    assert values(events.poll(0)) == [[b"2"]]
    events.committed({partition(log, "s.t"): numbers[2] + 1})
    assert log.unreleased_bytes == 0
    log.close()


def test_only_open_tables_with_new_rows_are_polled(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    events = opened(log, "s.a", "s.b")
    assert set(events.poll(0).ended) == {partition(log, "s.a"), partition(log, "s.b")}
    append(log, "s.a", b"1")
    append(log, "s.closed", b"1")
    assert [batch.source for batch in events.poll(0).batches] == [partition(log, "s.a")]
    assert not events.poll(0).batches
    threading.Timer(0.05, lambda: append(log, "s.b", b"1")).start()
    while not (batches := events.poll(5).batches):
        pass
    assert [batch.source for batch in batches] == [partition(log, "s.b")]
    append(log, "s.b", b"2")
    events.unassign([partition(log, "s.b")])
    assert not events.poll(0).batches
    assert log.tables().keys() == {"s.a", "s.b", "s.closed"}
    log.close()


def test_what_would_lose_rows_is_refused(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    with pytest.raises(CorruptWriteAheadLogError, match="which ends at"):
        opened(log, "s.t", committed=1 << 50)
    events = opened(log, "s.t")
    number = append(log, "s.t", b"1")
    with pytest.raises(InvalidArgumentError, match="cannot be committed"):
        events.committed({partition(log, "s.t"): number + 1})
    assert len(events.poll(0).batches) == 1
    log.close()


def test_the_rows_that_no_commit_has_are_counted(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    events = PushEvents(log, AcceptedTables())
    source = f"push/{log.log_id}/s.t", 0
    events.assign({source: 1})
    assert events.events_left(source, 1) == 0
    log.append("s.t", NDJSON, b"{}\n{}\n", rows=2).result(10)
    log.append("s.other", NDJSON, b"{}\n", rows=1).result(10)
    last = log.append("s.t", NDJSON, b"{}\n{}\n{}\n", rows=3).result(10)
    assert events.events_left(source, 1) == 5
    first, _ = events.poll(1.0).batches[0].offsets[[0, -1]].tolist()
    events.committed({source: first + 1})
    assert events.events_left(source, first + 1) == 3
    events.committed({source: last + 1})
    assert events.events_left(source, last + 1) == 0
    log.close()
