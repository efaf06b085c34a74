"""What was read from small files is taken again only while nothing can have changed them."""

from __future__ import annotations

from dataclasses import replace

from hudisql.storage import FileInfo
from hudisql.storage.unchanged_files import UnchangedFiles

READ_MS = 1_700_000_000_000
OLD = FileInfo("/t/a", 5, READ_MS - 60_001, is_directory=False)


def kept(file: FileInfo) -> UnchangedFiles:
    files = UnchangedFiles()
    files.keep(file, "read", READ_MS)
    return files


def test_a_value_is_given_for_the_same_length_and_time_only() -> None:
    files = kept(OLD)
    assert files.has("/t/a")
    assert files.get(OLD) == "read"
    assert files.get(replace(OLD, length=6)) is None
    assert files.get(replace(OLD, modification_time_ms=READ_MS)) is None
    assert files.get(replace(OLD, path="/t/b")) is None


def test_a_file_that_may_change_within_the_same_second_is_not_kept() -> None:
    files = kept(replace(OLD, modification_time_ms=READ_MS - 60_000))
    assert not files.has("/t/a")


def test_a_newer_read_takes_the_place_of_the_value() -> None:
    files = kept(OLD)
    files.keep(replace(OLD, modification_time_ms=READ_MS), "changed", READ_MS)
    assert not files.has("/t/a")


def test_the_files_used_last_are_kept() -> None:
    files = kept(OLD)
    for number in range(255):
        files.keep(replace(OLD, path=f"/t/{number}"), number, READ_MS)
    assert files.get(OLD) == "read"
    files.keep(replace(OLD, path="/t/z"), "z", READ_MS)
    assert files.has("/t/a")
    assert not files.has("/t/0")
