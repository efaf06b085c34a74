"""The ring of a partition: stored once, by one of several writers; the one of the last completed resizing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format.keys.hash_ring import HashRing, initial_ring
from hudisql.format.timeline.active_timeline import timeline_of
from hudisql.format.timeline.instant import REPLACE_COMMIT, Instant, InstantState
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.write.index.hash_rings import HashRings

FIRST, SECOND = "20240101000000000", "20240102000000000"


@dataclass(frozen=True)
class _Table:
    base_path: str
    instants: tuple[Instant, ...] = ()
    storage: Storage = field(default_factory=Storage)

    @property
    def timeline(self) -> Any:
        return timeline_of(self.instants)


def _rings(base: Path, *instants: Instant, count: int = 4) -> HashRings:
    return HashRings(cast(HudiTable, _Table(str(base), instants)), count)


def _directory(base: Path) -> Path:
    return base / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata" / "p"


def _resized(base: Path, instant_time: str, number: int) -> HashRing:
    ring = replace(initial_ring("p", 2 << number), instant_time=instant_time, number=number)
    (_directory(base) / f"{instant_time}.hashing_meta").write_bytes(ring.to_json())
    return ring


def _instant(instant_time: str, state: InstantState = InstantState.COMPLETED) -> Instant:
    return Instant(instant_time, REPLACE_COMMIT, state)


def test_a_first_ring_is_stored_when_rows_are_written(tmp_path: Path) -> None:
    assert _rings(tmp_path).of("p") == initial_ring("p", 4)
    assert not _directory(tmp_path).exists()
    assert _rings(tmp_path).create("p") == initial_ring("p", 4)
    # Another number of buckets is for other partitions.
    assert _rings(tmp_path, count=8).create("p") == initial_ring("p", 4)
    assert [file.name for file in _directory(tmp_path).iterdir()] == ["00000000000000.hashing_meta"]


def test_several_writers_at_once_get_one_ring(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        rings = list(pool.map(lambda count: _rings(tmp_path, count=count).create("p"), range(2, 34)))
    assert len({ring.values for ring in rings}) == 1
    assert _rings(tmp_path).of("p") == rings[0]


def test_what_a_killed_writer_left_is_not_a_ring(tmp_path: Path) -> None:
    _directory(tmp_path).mkdir(parents=True)
    (_directory(tmp_path) / "00000000000000.hashing_meta.tmp.7").write_bytes(b'{"version')
    assert _rings(tmp_path).create("p") == initial_ring("p", 4)


def test_the_last_completed_resizing_counts(tmp_path: Path) -> None:
    first = _rings(tmp_path).create("p")
    resized = _resized(tmp_path, FIRST, 1)
    pending = _instant(FIRST, InstantState.INFLIGHT)
    assert _rings(tmp_path, pending).of("p") == first
    assert _rings(tmp_path, _instant(FIRST)).of("p") == resized
    # Marked as completed, so that the instant may be archived.
    assert _rings(tmp_path).of("p") == resized
    again = _resized(tmp_path, SECOND, 2)
    assert _rings(tmp_path, _instant(SECOND, InstantState.REQUESTED)).of("p") == resized
    # Not where Hudi 1.x does it: 0.15 would find no ring while the next resizing is pending.
    assert [file.name for file in (tmp_path / "p").iterdir()] == [f"{FIRST}.commit"]
    (tmp_path / "p" / f"{SECOND}.commit").touch()
    assert _rings(tmp_path).of("p") == again


def test_a_resizing_that_is_neither_completed_nor_pending_is_refused(tmp_path: Path) -> None:
    _rings(tmp_path).create("p")
    _resized(tmp_path, FIRST, 1)
    with pytest.raises(UnsupportedTableError, match="neither completed nor pending"):
        _rings(tmp_path, _instant(SECOND)).of("p")
