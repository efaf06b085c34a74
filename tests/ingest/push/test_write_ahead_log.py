"""The write-ahead log as its callers see it: numbers, order, segments, what is deleted, what is refused."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest

from hudisql.errors import (
    CorruptWriteAheadLogError,
    InvalidArgumentError,
    StorageError,
    WriteAheadLogError,
    WriteAheadLogInUseError,
)
from hudisql.ingest.push.frames import MAXIMUM_KEY_BYTES, NewFrame, PayloadFormat
from hudisql.ingest.push.log_files import LogFiles
from hudisql.ingest.push.manifest import MANIFEST_NAME
from hudisql.ingest.push.write_ahead_log import WriteAheadLog
from tests.ingest.push.log_frames import all_frames

NDJSON = PayloadFormat.NDJSON
SMALL = 8192


def append(log: WriteAheadLog, table: str, payload: bytes) -> int:
    return log.append(table, NDJSON, payload).result(10)


def segments(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("segment-"))


def payloads(log: WriteAheadLog, table: str, after: int = 0) -> list[bytes]:
    return [frame.payload for frame in all_frames(log, {table: after}) if frame.header.table == table]


def test_what_was_appended_is_replayed_in_order_behind_the_committed_number(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path / "log")
    numbers = [append(log, f"s.t{number % 2}", b"%d" % number) for number in range(6)]
    assert numbers == sorted(set(numbers))
    log.close()
    log = WriteAheadLog(tmp_path / "log")
    replayed = [
        (frame.sequence, frame.header.table, frame.payload) for frame in all_frames(log, {"s.t0": numbers[2]})
    ]
    expected = [(numbers[n], f"s.t{n % 2}", b"%d" % n) for n in (1, 3, 4, 5)]
    assert replayed == expected
    log.close()


def test_many_threads_get_one_number_each_and_keep_their_own_order(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
    given: dict[int, list[int]] = {}

    def push(thread: int) -> None:
        futures = [log.append(f"s.t{thread}", NDJSON, b"%d" % number) for number in range(100)]
        given[thread] = [future.result(30) for future in futures]

    pushing = [Thread(target=push, args=(number,)) for number in range(8)]
    for each in pushing:
        each.start()
    for each in pushing:
        each.join()
    numbers = [number for numbers in given.values() for number in numbers]
    assert len(set(numbers)) == 800
    for thread, own in given.items():
        assert own == sorted(own)
        assert payloads(log, f"s.t{thread}") == [b"%d" % number for number in range(100)]
    assert len(segments(tmp_path)) > 3
    log.close()


def test_a_segment_is_deleted_when_all_its_tables_are_committed(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
    for _ in range(10):
        last = {table: append(log, table, bytes(2000)) for table in ("s.fast", "s.slow")}
    count = len(segments(tmp_path))
    log.release("s.fast", last["s.fast"])
    assert len(segments(tmp_path)) == count
    log.release("s.slow", last["s.slow"])
    assert len(segments(tmp_path)) == 1
    assert log.disk_bytes == SMALL
    assert log.unreleased_bytes == 0
    assert log.tables() == {}
    log.close()


def test_a_slow_table_keeps_its_own_segments_only(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
    slow = append(log, "s.slow", b"first")
    for _ in range(20):
        fast = append(log, "s.fast", bytes(4000))
    log.release("s.fast", fast)
    assert len(segments(tmp_path)) == 2
    log.close()
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
    assert [(frame.sequence, frame.payload) for frame in all_frames(log, {"s.fast": fast})] == [
        (slow, b"first")
    ]
    log.close()


def test_numbers_are_never_given_twice_although_all_segments_are_gone(tmp_path: Path) -> None:
    last = 0
    identity = set()
    for _ in range(4):
        log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
        identity.add(log.log_id)
        for _ in range(5):
            number = append(log, "s.t", bytes(3000))
            assert number > last
            last = number
        log.release("s.t", last)
        log.close()
    assert len(identity) == 1


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
    append(log, "s.t", b"small")
    append(log, "s.t", bytes(100_000))
    append(log, "s.t", b"after")
    log.close()
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
    assert payloads(log, "s.t") == [b"small", bytes(100_000), b"after"]
    log.close()


def test_reading_goes_on_behind_a_number_and_gives_at_least_one_frame(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    numbers = [append(log, "s.t", bytes(100)) for _ in range(5)]
    assert [frame.sequence for frame in log.read("s.t", 0, 250)] == numbers[:2]
    assert [frame.sequence for frame in log.read("s.t", numbers[1], 1)] == numbers[2:3]
    assert log.read("s.t", numbers[4], 100) == []
    assert log.read("s.other", 0, 100) == []
    log.close()


def test_a_log_of_too_many_segments_takes_batches_again_after_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudisql.ingest.push.segments._MAXIMUM_SEGMENTS", 3)
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
    numbers = [append(log, "s.t", bytes(SMALL)) for _ in range(3)]
    with pytest.raises(WriteAheadLogError, match="too many segments: 3"):
        append(log, "s.t", bytes(SMALL))
    log.release("s.t", numbers[1])
    assert append(log, "s.t", bytes(SMALL)) > numbers[-1]
    log.close()


def test_two_processes_cannot_open_one_directory(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    with pytest.raises(WriteAheadLogInUseError, match=r"in use by process \d+") as refused:
        WriteAheadLog(tmp_path)
    assert refused.value.hint
    log.close()
    WriteAheadLog(tmp_path).close()


def test_a_closed_log_takes_no_batch_but_has_written_those_before(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    futures = [log.append("s.t", NDJSON, bytes(1000)) for _ in range(50)]
    log.close()
    assert all(future.result(0) for future in futures)
    with pytest.raises(WriteAheadLogError, match="is closed"):
        log.append("s.t", NDJSON, b"late")


def test_a_batch_whose_client_went_away_before_it_was_written_is_left_out(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    future = log.append("s.t", NDJSON, b"row")
    was_cancelled = future.cancel()
    append(log, "s.t", b"next")
    assert payloads(log, "s.t") == ([] if was_cancelled else [b"row"]) + [b"next"]
    log.close()


def test_names_and_keys_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="table's name"):
        NewFrame("", NDJSON, b"")
    with pytest.raises(InvalidArgumentError, match="idempotency key"):
        NewFrame("s.t", NDJSON, b"", key="k" * (MAXIMUM_KEY_BYTES + 1))


def test_segments_of_a_bad_size_and_a_directory_that_is_a_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="a segment takes"):
        WriteAheadLog(tmp_path, segment_bytes=1)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot open the write-ahead log"):
        WriteAheadLog(tmp_path / "file")


def test_a_committed_number_of_a_later_log_is_refused(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path)
    number = append(log, "s.t", b"row")
    assert all_frames(log, {"s.t": number}) == []
    with pytest.raises(CorruptWriteAheadLogError, match=r"the last commit of s\.t names sequence"):
        log.check_committed("s.t", number + (1 << 40))
    log.close()


class FullFiles(LogFiles):
    """A disk that can be made full: for a step of its own, or for all."""

    failing: str = ""

    def create(self, name: str, size: int) -> int:
        self._fail_at("create")
        return super().create(name, size)

    def write(self, descriptor: int, parts: list[bytes], offset: int) -> None:
        if self.failing == "write":
            super().write(descriptor, [b"".join(parts)[:30]], offset)
        self._fail_at("write")
        super().write(descriptor, parts, offset)

    def sync(self, descriptor: int) -> None:
        self._fail_at("sync")
        super().sync(descriptor)

    def sync_directory(self) -> None:
        self._fail_at("sync_directory")
        super().sync_directory()

    def _fail_at(self, step: str) -> None:
        if self.failing == step:
            raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["create", "write", "sync", "sync_directory"])
@pytest.mark.parametrize("fills_segment", [False, True])
def test_a_full_disk_fails_the_append_and_the_log_goes_on_with_space(
    tmp_path: Path, step: str, fills_segment: bool
) -> None:
    files = FullFiles(tmp_path)
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL, files=files)
    acknowledged = [append(log, "s.t", b"before")]
    files.failing = step
    failed = []
    for payload in (bytes(SMALL), b"x") if fills_segment else (b"x",):
        if step in ("write", "sync") or fills_segment:
            with pytest.raises(WriteAheadLogError, match="No space left") as raised:
                append(log, "s.t", payload)
            assert raised.value.hint == "free space on its disk, then push the batch again"
            failed.append(payload)
    files.failing = ""
    acknowledged += [append(log, "s.t", b"after"), append(log, "s.t", b"more")]
    assert payloads(log, "s.t") == [b"before", b"after", b"more"]
    log.close()
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
    assert [frame.sequence for frame in all_frames(log)] == acknowledged
    assert append(log, "s.t", b"next") > acknowledged[-1]
    log.close()


def written_log(directory: Path) -> None:
    log = WriteAheadLog(directory, segment_bytes=SMALL)
    for number in range(8):
        append(log, "s.t", b"%d" % number * 3000)
    log.close()


def test_a_torn_frame_at_the_end_of_the_last_segment_ends_the_log(tmp_path: Path) -> None:
    written_log(tmp_path)
    last = tmp_path / segments(tmp_path)[-1]
    content = bytearray(last.read_bytes())
    start = content.rindex(b"7" * 3000)
    content[start + 1000 : start + 1512] = bytes(512)
    last.write_bytes(content)
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
    assert payloads(log, "s.t") == [b"%d" % number * 3000 for number in range(7)]
    number = append(log, "s.t", b"next")
    assert payloads(log, "s.t", number - 1) == [b"next"]
    log.close()
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
    assert payloads(log, "s.t")[-1] == b"next"
    log.close()


@pytest.mark.parametrize("where", ["first segment", "last segment", "header", "missing", "manifest"])
def test_damage_to_acknowledged_frames_is_an_error_that_names_file_and_offset(
    tmp_path: Path, where: str
) -> None:
    written_log(tmp_path)
    first, last = (tmp_path / segments(tmp_path)[index] for index in (0, -1))
    name, place = first, "offset 0"
    if where == "first segment":
        content = bytearray(first.read_bytes())
        content[content.index(b"1" * 3000)] ^= 1
        first.write_bytes(content)
        place = "offset 3"
    elif where == "last segment":
        content = bytearray(last.read_bytes())
        content[content.index(b"6" * 3000)] ^= 1
        last.write_bytes(content)
        name, place = last, "offset 2"
    elif where == "header":
        first.write_bytes(b"xxxx" + first.read_bytes()[4:])
    elif where == "missing":
        first.unlink()
    else:
        name = tmp_path / MANIFEST_NAME
        name.write_bytes(bytes(len(name.read_bytes())))
    with pytest.raises(CorruptWriteAheadLogError, match=place) as raised:
        WriteAheadLog(tmp_path, segment_bytes=SMALL)
    assert str(name) in raised.value.message
    assert raised.value.hint
    # The directory is not locked by the attempt.
    LogFiles(tmp_path).close()


class SlowFiles(LogFiles):
    """A disk whose syncs wait while `may_sync` is not set."""

    may_sync: Event | None = None

    def sync(self, descriptor: int) -> None:
        assert self.may_sync is None or self.may_sync.wait(10)
        super().sync(descriptor)


def test_a_batch_is_counted_once_while_it_is_written_and_when_it_is_durable(tmp_path: Path) -> None:
    files = SlowFiles(tmp_path)
    log = WriteAheadLog(tmp_path, files=files)
    seen: list[int] = []
    append(log, "s.other", b"row")
    others = log.unreleased_bytes
    files.may_sync = Event()
    future = log.append("s.t", NDJSON, b"row" * 100)
    # The log's own thread calls this, as soon as the batch is durable.
    future.add_done_callback(lambda _: seen.append(log.unreleased_bytes))
    queued = log.unreleased_bytes
    files.may_sync.set()
    log.release("s.t", future.result(10))
    log.close()
    assert seen == [queued]
    assert queued - others >= 300
    assert log.unreleased_bytes == others


def test_segments_without_a_manifest_are_refused(tmp_path: Path) -> None:
    written_log(tmp_path)
    (tmp_path / MANIFEST_NAME).unlink()
    with pytest.raises(CorruptWriteAheadLogError, match="has no file manifest"):
        WriteAheadLog(tmp_path)


def test_damage_that_appears_while_the_log_is_open_is_found_on_reading(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path, segment_bytes=SMALL)
    append(log, "s.t", b"row" * 100)
    segment = tmp_path / segments(tmp_path)[0]
    with segment.open("r+b") as file:
        file.seek(100)
        file.write(b"!")
    with pytest.raises(CorruptWriteAheadLogError, match=f"{segment.name} is damaged at offset"):
        log.read("s.t", 0, 1000)
    log.close()
