from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.read.merge.merge_mode import InstantRange, LogMergeConfig, RecordMergeMode
from hudisql.read.scan.match_cache import MatchCache, match_scope
from hudisql.read.slice.replaced_rows import LogMatch
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice, LogFile

SLICE = FileSlice("p", "f", "1", None, (LogFile("/t/p/.f_1.log.1_0", 10, "f", "1", 1, "0"),))


def _match(rows: int) -> LogMatch:
    return LogMatch(rows, np.arange(rows), np.arange(rows))


def test_a_log_file_that_has_grown_is_matched_again() -> None:
    cache = MatchCache()
    cache.add("a", [(SLICE, _match(3))])
    grown = replace(SLICE, log_files=(replace(SLICE.log_files[0], length=11),))
    assert cache.find("a", [SLICE, grown]).keys() == {SLICE}
    assert cache.find("b", [SLICE]) == {}


def test_slices_whose_external_file_may_have_other_rows_are_not_kept() -> None:
    cache = MatchCache()
    accepted = replace(SLICE, accepts_changed_source=True)
    cache.add("a", [(accepted, _match(3))])
    assert cache.find("a", [accepted]) == {}


def test_the_least_recently_used_slices_give_way() -> None:
    slices = [replace(SLICE, file_id=str(number)) for number in range(4)]
    cache = MatchCache(most_bytes=3 * (2 * 8 * 1000 + 2000))
    cache.add("a", [(each, _match(1000)) for each in slices[:3]])
    assert len(cache.find("a", [slices[0]])) == 1
    cache.add("a", [(slices[3], _match(1000))])
    assert cache.find("a", slices).keys() == {slices[0], slices[2], slices[3]}


def test_what_changes_the_merge_is_another_scope() -> None:
    instants = InstantRange(committed=frozenset({"1", "2"}), active_from="1", as_of=None)
    config = LogMergeConfig(instants, RecordMergeMode((pa.field("ts", pa.int64()),)))
    others = (
        replace(config, instant_range=replace(instants, committed=frozenset({"1"}))),
        replace(config, instant_range=replace(instants, as_of="1")),
        replace(config, merge_mode=replace(config.merge_mode, keeps_newer_base_rows=True)),
        replace(config, merge_mode=RecordMergeMode((pa.field("ts", pa.int32()),))),
    )
    scopes = {match_scope(Storage(), each, DEFAULT_CALENDARS) for each in (config, *others)}
    assert len(scopes) == 5
    again = replace(config, instant_range=replace(instants, committed=frozenset({"2", "1"})))
    assert match_scope(Storage(), again, DEFAULT_CALENDARS) in scopes
