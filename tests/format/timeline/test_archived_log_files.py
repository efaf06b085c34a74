"""Entries of archive files, all of them and those of one kind."""

from __future__ import annotations

from unittest.mock import Mock

import fastavro
import pytest

from hudisql.format.timeline.archived_log_files import (
    archived_entry,
    encode_archive_file,
    parse_archive_file,
    parse_archived_instants,
)
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import CLEAN, COMMIT, REPLACE_COMMIT, Instant, InstantState
from tests.table.history.test_past_state import clean_metadata

COMMITTED = CommitMetadata(partition_to_write_stats={}, operation_type="UPSERT").to_json()
ENTRIES = [
    archived_entry(Instant(f"202601{number:02d}000000000", action, state), content, None, "")
    for number in range(1, 13)
    for action, state, content in (
        (COMMIT, InstantState.REQUESTED, b""),
        (COMMIT, InstantState.COMPLETED, COMMITTED),
        (CLEAN, InstantState.COMPLETED, clean_metadata({"dt=a": ["f-0_0-0-0_1.parquet"]})),
        (REPLACE_COMMIT, InstantState.COMPLETED, COMMITTED),
    )
]


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        ("hoodieCommitMetadata", 24),
        ("hoodieCleanMetadata", 12),
        ("hoodieReplaceCommitMetadata", 12),
        ("hoodieCompactionPlan", 0),
        ("no_such_field", 0),
    ],
)
def test_entries_of_one_kind_are_those_that_have_its_payload(payload: str, count: int) -> None:
    content = encode_archive_file(ENTRIES)
    expected = [each for each in parse_archive_file(content, "file") if each.record.get(payload) is not None]
    assert len(expected) == count
    assert list(parse_archive_file(content, "file", payload)) == expected


def test_commits_are_not_decoded_for_cleans(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode_archive_file(ENTRIES)
    read = Mock(wraps=fastavro.schemaless_reader)
    monkeypatch.setattr(fastavro, "schemaless_reader", read)
    assert len(list(parse_archive_file(content, "file", "hoodieCleanMetadata"))) == 12
    # Replacements, whose payload comes later, begin with the same null as cleans.
    assert read.call_count == 24


def test_names_are_read_without_payloads() -> None:
    content = encode_archive_file(ENTRIES)
    assert list(parse_archived_instants(content, "file")) == [each.instant for each in ENTRIES]


def test_entries_without_a_text_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed = CommitMetadata(partition_to_write_stats={}, extra_metadata={"a.key": "value"}).to_json()
    entry = archived_entry(Instant("20260113000000000", COMMIT, InstantState.COMPLETED), keyed, None, "")
    content = encode_archive_file([*ENTRIES, entry])
    read = Mock(wraps=fastavro.schemaless_reader)
    monkeypatch.setattr(fastavro, "schemaless_reader", read)
    (found,) = parse_archive_file(content, "file", containing=b"a.key")
    assert found.instant == entry.instant
    assert read.call_count == 1
