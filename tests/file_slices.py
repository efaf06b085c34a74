"""Paths of a slice's files, where a test knows that the slice has them."""

from __future__ import annotations

from hudisql.table.file_slice import FileSlice


def base_file_path(file_slice: FileSlice) -> str:
    """The path of the slice's base file or skeleton."""
    assert file_slice.base_file is not None, f"{file_slice.file_id} has log files only"
    return file_slice.base_file.path


def external_file_path(file_slice: FileSlice) -> str:
    """The path of the source file that the slice's skeleton stands for."""
    assert file_slice.external_file is not None, f"{file_slice.file_id} was not bootstrapped"
    return file_slice.external_file.path
