"""Files of register-only partitions: a publication looks at them, since they change without a commit.

Each publication keeps a sum of them, by which the next one tells whether they are still the same. Statements
do not list these directories: of the sum they take the files that their own commit has ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hudisql.format.paths.external_file import ExternalFile
from hudisql.iceberg.published_state import PublishedState
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.registered_partitions import (
    ended_registrations,
    files_of_registered,
    registered_partitions,
)

_SUMS: Final = 1 << 64


@dataclass(frozen=True)
class RegisteredFiles:
    """The partitions (paths) that are looked at since they are register-only, or were until now; the sum of
    their files, and whether those that are published are the same files still.
    """

    partitions: frozenset[str]
    file_sum: str
    are_same: bool


def sum_of_files(files: Iterable[ExternalFile], before: str = "", sign: int = 1) -> str:
    """The sum `before` with the files, or for the sign -1 without them; "" for no files.

    It follows from paths, lengths and modification times.
    """
    total = int(before or "0", 16)
    for file in files:
        text = f"{file.path} {file.length} {file.modification_time_ms}"
        total += sign * int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return f"{total % _SUMS:x}" if total % _SUMS else ""


def registered_files(
    table: HudiTable, published: PublishedState | None, *, is_whole: bool, are_listed: bool
) -> RegisteredFiles:
    """What a publication of the whole table, or behind a published state, looks at in these partitions.

    Raises SourceChangedError if a directory is gone, CorruptTableError, StorageError.
    """
    if not table.properties.has_register_only_partitions:
        return RegisteredFiles(frozenset(), "", are_same=True)
    ended, expected = frozenset[str](), None if published is None else published.registered
    if published is not None and not is_whole:
        new = {commit.timestamp for commit in table.timeline.commits}.difference(published.completed)
        taken = ended_registrations(table, new)
        ended = frozenset(taken)
        left = sum_of_files((file for files in taken.values() for file in files), published.registered, -1)
        if not are_listed:
            return RegisteredFiles(ended, left, are_same=True)
        expected = left
    by_path = registered_partitions(table).by_path
    listed = files_of_registered(table, list(by_path.values()))
    found = sum_of_files(file for files in listed for file in files)
    if found == expected:
        return RegisteredFiles(ended, found, are_same=True)
    return RegisteredFiles(ended | by_path.keys(), found, are_same=False)
