"""The layouts of the timeline: names, directories and payloads of instants."""

from __future__ import annotations

import pytest

from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.format.timeline.timeline_layout import LAYOUT_V1, TimelineLayoutV2, instant_path, timeline_layout

REQUESTED, INFLIGHT, COMPLETED = InstantState

NAMES = {
    "00000000000001.commit.requested": ("00000000000001", "commit", InstantState.REQUESTED),
    "00000000000001.inflight": ("00000000000001", "commit", InstantState.INFLIGHT),
    "00000000000001.commit": ("00000000000001", "commit", InstantState.COMPLETED),
    "00000000000001.deltacommit.inflight": ("00000000000001", "deltacommit", InstantState.INFLIGHT),
    "20261120215259220.compaction.requested": ("20261120215259220", "compaction", InstantState.REQUESTED),
    "20261120215308455.clean.inflight": ("20261120215308455", "clean", InstantState.INFLIGHT),
    "20261120215303207.savepoint": ("20261120215303207", "savepoint", InstantState.COMPLETED),
    "20261120215303207.replacecommit.requested": (
        "20261120215303207",
        "replacecommit",
        InstantState.REQUESTED,
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_instant_file_names_are_read_and_written_alike(name: str) -> None:
    instant = LAYOUT_V1.parse_file_name(name)
    assert instant == Instant(*NAMES[name])
    assert LAYOUT_V1.file_name(instant) == name


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        ".00000000000001.commit.crc",
        "00000000000001.commit.crc",
        "00000000000001",
        "20261120215303207.unknown",
        "20261120215303207_20261120215303300.commit",
        "archived",
    ],
)
def test_other_files_are_no_instants(name: str) -> None:
    assert LAYOUT_V1.parse_file_name(name) is None


def test_a_completed_compaction_is_named_commit() -> None:
    completed = Instant("20260101000000000", "compaction", InstantState.COMPLETED)
    assert LAYOUT_V1.file_name(completed) == "20260101000000000.commit"


def test_instants_lie_in_the_metadata_directory_itself() -> None:
    commit = Instant("20260101000000000", "commit", InstantState.COMPLETED)
    assert instant_path("/t", LAYOUT_V1, commit) == "/t/.hoodie/20260101000000000.commit"


def test_layouts_1_and_2_are_known() -> None:
    assert timeline_layout(1) is LAYOUT_V1
    assert timeline_layout(2, "instants", "old") == TimelineLayoutV2("instants", "old")
    assert timeline_layout(3) is None


@pytest.mark.parametrize(
    ("name", "instant"),
    [
        ("20260101000000000.commit.requested", Instant("20260101000000000", "commit", REQUESTED)),
        ("20260101000000000.inflight", Instant("20260101000000000", "commit", INFLIGHT)),
        ("20260101000000000.clustering.inflight", Instant("20260101000000000", "clustering", INFLIGHT)),
        (
            "20260101000000000_20260101000001000.replacecommit",
            Instant("20260101000000000", "replacecommit", COMPLETED, "20260101000001000"),
        ),
        ("20260101000000000.deltacommit", Instant("20260101000000000", "deltacommit", COMPLETED)),
    ],
)
def test_names_of_layout_2_are_read_and_written(name: str, instant: Instant) -> None:
    layout = TimelineLayoutV2()
    found = layout.parse_file_name(name)
    assert found == instant
    assert found.completion_time == instant.completion_time
    assert layout.file_name(instant) == name
    assert layout.parse_file_name("20260101000000000_20260101000001000.unknown") is None
    assert layout.parse_file_name("20260101000000000_20260101000001000.commit.requested") is None


def test_layout_2_has_its_instants_below_its_own_directories() -> None:
    layout = TimelineLayoutV2("instants", "old")
    assert layout.timeline_directory("/t") == "/t/.hoodie/instants"
    assert layout.history_directory("/t") == "/t/.hoodie/instants/old"
