"""The files of slices: paths where a test knows that there is one, and log files without rows."""

from __future__ import annotations

from pathlib import Path

from hudisql.format.log_file.log_block import LOG_WITHOUT_ROWS
from hudisql.format.paths.file_names import is_log_file
from hudisql.table.file_slice import FileSlice


def base_file_path(file_slice: FileSlice) -> str:
    """The path of the slice's base file or skeleton."""
    assert file_slice.base_file is not None, f"{file_slice.file_id} has log files only"
    return file_slice.base_file.path


def external_file_path(file_slice: FileSlice) -> str:
    """The path of the source file that the slice's skeleton stands for."""
    assert file_slice.external_file is not None, f"{file_slice.file_id} was not bootstrapped"
    return file_slice.external_file.path


def has_lost_its_rows(path: Path) -> bool:
    """True for a log file as a rollback leaves it."""
    return is_log_file(path.name) and path.read_bytes() == LOG_WITHOUT_ROWS
