"""Which manifests of the last publication are read, and which entries the next manifests have."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from hudisql.iceberg import snapshot_manifests
from hudisql.iceberg.earlier_manifests import EarlierManifest, may_have_files_of
from hudisql.iceberg.manifest_files import ADDED, DELETED, EXISTING, PartitionField, added_entry
from hudisql.iceberg.snapshot_manifests import Layout, _regrouped, partition_summaries

KINDS = {"day": "date", "number": "int", "city": "string"}
COLUMNS = [
    PartitionField(name, place, 1000 + place, kind) for place, (name, kind) in enumerate(KINDS.items())
]
LAYOUT = Layout({}, {}, COLUMNS)


def entry(path: str, *values: object) -> dict[str, Any]:
    """The entry of a new file of a partition with these values, of which some may be missing at the end."""
    partition = dict(zip(KINDS, (*values, *[None] * (3 - len(values))), strict=True))
    return added_entry({"file_path": path, "partition": partition, "content": 0, "record_count": 1}, 7)


@pytest.mark.parametrize(
    ("values", "is_there"),
    [
        ((date(1969, 12, 31), -3, "a"), True),
        ((date(1970, 1, 2), 5, "ü"), True),
        ((date(1969, 12, 30), 0, "b"), False),
        ((date(1970, 1, 1), 6, "b"), False),
        ((date(1970, 1, 1), 0, "z"), True),
        ((date(1970, 1, 1), 0, "€"), False),
        ((date(1970, 1, 1), 0, None), True),
        ((None, 0, "a"), False),
    ],
)
def test_bounds_say_which_manifests_may_have_a_partition(
    values: tuple[object | None, ...], is_there: bool
) -> None:
    first, last = (date(1969, 12, 31), -3, "a"), (date(1970, 1, 2), 5, "ü")
    entries = [entry("x", *first), entry("y", *last), entry("z", *first[:2])]
    record = {"partitions": partition_summaries(entries, COLUMNS)}
    assert may_have_files_of(record, {values}, COLUMNS) is is_there
    assert may_have_files_of(record, {values, first}, COLUMNS)


def _manifest(name: str, *paths: str, removed: tuple[str, ...] = (), day: int) -> EarlierManifest:
    def existing(path: str) -> dict[str, Any]:
        return {**entry(path, date(2024, 1, day)), "status": EXISTING}

    return EarlierManifest({"name": name}, True, tuple(map(existing, paths)), tuple(map(existing, removed)))


def test_files_go_to_the_manifest_of_their_partition_and_small_ones_are_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_manifests, "_LEAST_ENTRIES", 2)
    monkeypatch.setattr(snapshot_manifests, "_ENTRIES_OF_A_MANIFEST", 3)
    earlier = [
        EarlierManifest({"name": "closed"}),
        _manifest("same", "s1", "s2", day=1),
        _manifest("changed", "c1", "c2", "c3", removed=("c4",), day=2),
        _manifest("small", "t1", day=3),
        _manifest("gone", removed=("g1",), day=4),
    ]
    added = [entry("n2", date(2024, 1, 2)), entry("n5", date(2024, 1, 5))]

    def gone(removed: Any) -> list[dict[str, Any]]:
        return [{**removed, "status": DELETED}]

    stay, new = _regrouped(earlier, added, LAYOUT, gone)
    assert [record["name"] for record in stay] == ["closed", "same"]
    written = [[(each["data_file"]["file_path"], each["status"]) for each in some] for some in new]
    assert written == [
        [("c4", DELETED), ("c1", EXISTING), ("c2", EXISTING)],
        [("c3", EXISTING), ("n2", ADDED)],
        [("g1", DELETED), ("t1", EXISTING), ("n5", ADDED)],
    ]
    stay, new = _regrouped([earlier[3], EarlierManifest({"name": "empty"}, True)], [], LAYOUT, gone)
    assert ([record["name"] for record in stay], new) == (["small"], [])
