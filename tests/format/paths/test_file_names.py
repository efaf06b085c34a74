from __future__ import annotations

import pytest

from hudisql.format.paths.file_names import (
    base_file_name,
    change_log_name,
    log_file_name,
    new_file_id,
    parse_base_file_name,
    parse_change_log_name,
    parse_log_file_name,
    write_token,
)

FILE_ID = "19b730fd-855b-4d4a-b900-b632395e318c"


@pytest.mark.parametrize("file_id", [FILE_ID, f"{FILE_ID}-0"])
def test_base_file_names_are_read_and_written_alike(file_id: str) -> None:
    name = base_file_name(file_id, write_token(2, 13, 41), "00000000000001")
    assert name == f"{file_id}_2-13-41_00000000000001.parquet"
    assert parse_base_file_name(name) == (file_id, "2-13-41", "00000000000001")


def test_log_file_names_are_read_and_written_alike() -> None:
    name = f".{FILE_ID}_00000000000001.log.12_0-887-1453"
    assert log_file_name(FILE_ID, "00000000000001", 12, "0-887-1453") == name
    assert parse_log_file_name(name) == (FILE_ID, "00000000000001", 12, "0-887-1453")


def test_log_files_of_old_writers_have_no_token() -> None:
    assert parse_log_file_name(f".{FILE_ID}_20200101000000.log.1") == (FILE_ID, "20200101000000", 1, "")


@pytest.mark.parametrize(
    "name",
    [
        ".hoodie_partition_metadata",
        "part-00000-fa8a6a73-3c8d-45fe-b059-48cbc54fd071-c000.snappy.parquet",
        f".{FILE_ID}_2-13-41_00000000000001.parquet.crc",
        f".{FILE_ID}_2-13-41_00000000000001.parquet",
        f"..{FILE_ID}_00000000000001.log.1_0-887-1453.crc",
        f".{FILE_ID}_00000000000001.log.1_0-887-1453.cdc",
        f"{FILE_ID}_2-13-41_00000000000001.orc",
        "_SUCCESS",
    ],
)
def test_other_files_are_neither_base_nor_log_files(name: str) -> None:
    assert parse_base_file_name(name) is None
    assert parse_log_file_name(name) is None


def test_change_logs_are_named_as_the_logs_of_a_commit() -> None:
    name = change_log_name(FILE_ID, "00000000000001", "0-887-1453")
    assert parse_change_log_name(name) == (FILE_ID, "00000000000001", 1, "0-887-1453")
    assert parse_change_log_name(name.removesuffix(".cdc")) is None
    assert parse_change_log_name(f".{name}.crc") is None


def test_file_ids_are_bare_uuids_and_differ() -> None:
    assert len(new_file_id()) == 36
    assert new_file_id() != new_file_id()
