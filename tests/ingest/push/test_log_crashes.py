"""Crashes of the write-ahead log: processes killed, the power lost, the disk full.

Always the same is asked: what was acknowledged is there, in order and once; what is there was appended;
and no number is given twice.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import Future
from pathlib import Path
from threading import Event

import pytest

from hudisql.ingest.push.frames import Frame, PayloadFormat
from hudisql.ingest.push.write_ahead_log import WriteAheadLog
from tests import soak
from tests.ingest.push.log_frames import all_frames
from tests.ingest.push.log_writer import SEGMENT_BYTES
from tests.ingest.push.power_loss import LossyFiles

ROOT = Path(__file__).parents[3]


class Acknowledged:
    """What clients were told, and the check of a log against it."""

    def __init__(self) -> None:
        self.by_table: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self.seen: dict[int, str] = {}
        self.highest = 0

    def add(self, table: str, sequence: int, text: str) -> None:
        assert sequence not in self.by_table[table]
        self.by_table[table][sequence] = text

    def check(self, frames: list[Frame], released: dict[str, int] | None = None) -> None:
        sequences = [frame.sequence for frame in frames]
        assert sequences == sorted(set(sequences))
        found = {(frame.header.table, frame.sequence): text_of(frame) for frame in frames}
        for table, given in self.by_table.items():
            for sequence, text in given.items():
                if sequence > (released or {}).get(table, 0):
                    assert found.get((table, sequence)) == text
        texts = [text_of(frame) for frame in frames]
        assert len(texts) == len(set(texts))
        for frame in frames:
            # A number that was seen once never means another batch.
            assert self.seen.setdefault(frame.sequence, text_of(frame)) == text_of(frame)

    def last(self) -> int:
        given = [max(sequences) for sequences in self.by_table.values() if sequences]
        return max([*given, *self.seen], default=0)


def text_of(frame: Frame) -> str:
    return frame.payload.rstrip(b".").decode()


def kill_a_writer(directory: Path, name: str, seconds: float, acknowledged: Acknowledged) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.ingest.push.log_writer", str(directory), name],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stdin is not None
    with writer.stdout, writer.stdin:
        lines = [writer.stdout.readline()]
        time.sleep(seconds)
        writer.kill()
        lines += writer.stdout.read().splitlines(keepends=True)
        writer.wait()
    for line in lines:
        if line.endswith("\n"):
            table, sequence, text = line.split()
            acknowledged.add(table, int(sequence), text)


@pytest.mark.parametrize("rounds", soak.parameters([4, 60], in_ci=[4]))
def test_every_acknowledged_frame_outlives_kill_9(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(rounds)
    acknowledged = Acknowledged()
    for number in range(rounds):
        before = acknowledged.last()
        kill_a_writer(tmp_path, f"round{number}", chance.random() * 0.5, acknowledged)
        log = WriteAheadLog(tmp_path, segment_bytes=SEGMENT_BYTES)
        frames = all_frames(log)
        last = max(acknowledged.by_table["s.released"], default=0)
        acknowledged.check(frames, released={"s.released": last - 100})
        new = [frame for frame in frames if text_of(frame).startswith(f"round{number}-")]
        assert new
        assert min(frame.sequence for frame in new) > before
        log.close()
    assert len(acknowledged.by_table["s.kept"]) > rounds * 5


class LostPower:
    """Copies what a disk may hold when an operation is about to happen, and lets none happen after it."""

    def __init__(self, directory: Path, target: Path, chance: random.Random, step: int) -> None:
        self.chance, self.target, self.steps_left = chance, target, step
        self.happened = Event()
        self.files = LossyFiles(directory)
        self.files.before = self.before

    def before(self, operation: str) -> None:
        if self.happened.is_set():
            raise OSError(5, f"no power for {operation}")
        self.steps_left -= 1
        if self.steps_left < 0:
            self.happened.set()
            self.files.after_power_loss(self.target, self.chance)
            raise OSError(5, f"no power for {operation}")


def run_until_power_loss(
    source: Path,
    target: Path,
    name: str,
    chance: random.Random,
    state: Acknowledged,
    released: dict[str, int],
) -> None:
    """Append and release at random on `source` until the power is lost; `target` is the disk afterwards."""
    power = LostPower(source, target, chance, step=int(chance.expovariate(1 / 30)))
    try:
        log = WriteAheadLog(source, segment_bytes=8192, files=power.files)
    except OSError:
        assert power.happened.is_set()
        return
    acknowledged: dict[str, int] = {}
    number = 0
    while not power.happened.is_set():
        futures: list[tuple[str, str, Future[int]]] = []
        for _ in range(chance.randint(1, 6)):
            table, text = chance.choice(("s.a", "s.b")), f"{name}-{number}"
            number += 1
            payload = text.encode() + b"." * chance.choice((10, 700, 3000))
            futures.append((table, text, log.append(table, PayloadFormat.NDJSON, payload)))
        for table, text, future in futures:
            if future.exception(30) is None:
                state.add(table, future.result(), text)
                acknowledged[table] = future.result()
        if chance.random() < 0.3:
            for table, sequence in acknowledged.items():
                released[table] = sequence
                log.release(table, sequence)
    log.close()


@pytest.mark.parametrize("seed", soak.parameters(range(400), in_ci=range(25)))
def test_every_acknowledged_frame_outlives_power_losses(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    state, released = Acknowledged(), dict[str, int]()
    (tmp_path / "disk0").mkdir()
    for number in range(4):
        source, target = tmp_path / f"disk{number}", tmp_path / f"disk{number + 1}"
        before = state.last()
        run_until_power_loss(source, target, f"round{number}", chance, state, released)
        log = WriteAheadLog(target, segment_bytes=8192)
        frames = all_frames(log)
        state.check(frames, released)
        own = [frame.sequence for frame in frames if text_of(frame).startswith(f"round{number}-")]
        assert all(sequence > before for sequence in own)
        log.close()


def test_a_disk_that_drops_what_it_acknowledged_is_noticed(tmp_path: Path) -> None:
    """The test of the test: with an fdatasync that does nothing, power losses lose acknowledged frames."""

    class Lying(LossyFiles):
        def sync(self, descriptor: int) -> None:
            pass

    lost = 0
    for seed in range(10):
        directory, target = tmp_path / str(seed), tmp_path / f"{seed}-after"
        files = Lying(directory)
        log = WriteAheadLog(directory, segment_bytes=8192, files=files)
        state = Acknowledged()
        for number in range(5):
            text = f"lying-{number}"
            state.add("s.t", log.append("s.t", PayloadFormat.NDJSON, text.encode()).result(10), text)
        files.after_power_loss(target, random.Random(seed))
        log.close()
        try:
            after = WriteAheadLog(target, segment_bytes=8192)
        except OSError:
            lost += 1
            continue
        try:
            state.check(all_frames(after))
        except AssertionError:
            lost += 1
        after.close()
    assert lost > 0


def test_a_full_disk_refuses_batches_and_takes_them_again_with_space(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.ingest.push.log_writer", "disk-full", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = [line.split(" ", 2) for line in ended.stdout.splitlines()]
    acknowledged = {int(number): text for kind, number, text in lines if kind == "acknowledged"}
    refused = {int(limit): message for kind, limit, message in lines if kind == "refused"}
    # No byte, and no whole segment, can be written.
    assert set(refused) == {0, 20_000}
    assert all("was not taken: cannot write the log" in message for message in refused.values())
    assert len(acknowledged) >= 6 * 4
    log = WriteAheadLog(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert {frame.sequence: text_of(frame) for frame in all_frames(log)} == acknowledged
    log.close()
