"""Pushed rows as a worker takes them: in order, again after a failed flush, behind its last commit."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hudisql.errors import CorruptWriteAheadLogError, InvalidArgumentError
from hudisql.ingest.push.accepted_tables import AcceptedTables
from hudisql.ingest.push.frames import PayloadFormat
from hudisql.ingest.push.push_events import PushEvents
from hudisql.ingest.push.push_source import LogPushSource
from hudisql.ingest.push.write_ahead_log import WriteAheadLog

NDJSON, ARROW = PayloadFormat.NDJSON, PayloadFormat.ARROW_STREAM


def append(log: WriteAheadLog, table: str, payload: bytes, format: PayloadFormat = NDJSON) -> int:
    return log.append(table, format, payload, rows=1).result(10)


def test_pushes_are_joined_in_order_and_streams_stay_alone(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    source = LogPushSource(log)
    source.open_table("s.t", 0)
    numbers = [append(log, "s.t", b'{"id": 1}'), append(log, "s.t", b'{"id": 2}\n')]
    numbers += [append(log, "s.t", b"arrow%d" % number, ARROW) for number in range(2)]
    append(log, "s.other", b"{}")
    batches = source.poll("s.t", 1 << 20)
    assert [(batch.format, batch.payload) for batch in batches] == [
        (NDJSON, b'{"id": 1}\n{"id": 2}\n'),
        (ARROW, b"arrow0"),
        (ARROW, b"arrow1"),
    ]
    assert batches[0].pushes == ((numbers[0], 1), (numbers[1], 1))
    assert [(batch.pushes[0][0], batch.last_sequence) for batch in batches] == [
        (numbers[0], numbers[1]),
        (numbers[2], numbers[2]),
        (numbers[3], numbers[3]),
    ]
    assert source.poll("s.t", 1 << 20) == []
    log.close()


def test_polls_go_on_behind_the_last_one(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    source = LogPushSource(log)
    source.open_table("s.t", 0)
    for number in range(4):
        append(log, "s.t", b"%d\n" % number)
    assert source.poll("s.t", 4)[0].payload == b"0\n1\n"
    assert source.poll("s.t", 1)[0].payload == b"2\n"
    assert source.poll("s.t", 100)[0].payload == b"3\n"
    log.close()


def test_a_worker_that_was_restarted_gets_what_the_last_commit_lacks(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    source = LogPushSource(log)
    source.open_table("s.t", 0)
    numbers = [append(log, "s.t", b"%d\n" % number) for number in range(3)]
    source.poll("s.t", 100)
    # The commit is on the timeline, but the process ended before it could call `committed`.
    log.close()
    log = WriteAheadLog(tmp_path)
    source = LogPushSource(log)
    source.open_table("s.t", numbers[1])
    assert [batch.payload for batch in source.poll("s.t", 100)] == [b"2\n"]
    source.committed("s.t", numbers[2])
    assert log.unreleased_bytes == 0
    log.close()


def test_only_open_tables_with_new_rows_are_ready(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    source = LogPushSource(log)
    source.open_table("s.a", 0)
    source.open_table("s.b", 0)
    assert source.ready() == []
    append(log, "s.a", b"1")
    append(log, "s.closed", b"1")
    assert source.ready() == ["s.a"]
    source.poll("s.a", 100)
    assert source.ready() == []
    threading.Timer(0.05, lambda: append(log, "s.b", b"1")).start()
    while not source.ready():
        source.wait(5)
    assert source.ready() == ["s.b"]
    source.close_table("s.b")
    assert source.ready() == []
    assert log.tables().keys() == {"s.a", "s.b", "s.closed"}
    log.close()


def test_what_would_lose_rows_is_refused(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    source = LogPushSource(log)
    with pytest.raises(InvalidArgumentError, match="are not open"):
        source.poll("s.t", 1)
    with pytest.raises(CorruptWriteAheadLogError, match="which ends at"):
        source.open_table("s.t", 1 << 50)
    source.open_table("s.t", 0)
    number = append(log, "s.t", b"1")
    with pytest.raises(InvalidArgumentError, match="cannot be committed"):
        source.committed("s.t", number)
    assert len(source.poll("s.t", 1)) == 1
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
