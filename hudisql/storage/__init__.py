"""Access to file systems: list, open, atomic create, delete. No other package accesses files.

Everything that touches bytes at rest, on the driver and in tasks, goes through a `Storage` value, which is
picklable and travels with the task. One file per store: `local`, `s3`, `hdfs`; the door picks by scheme.
"""

from __future__ import annotations

from hudisql.storage.file_system import FileInfo
from hudisql.storage.paths import (
    ancestors_of,
    check_holds_no_credentials,
    is_inside,
    is_staged,
    join,
    parent_of,
    scheme_of,
)
from hudisql.storage.storage import Storage

__all__ = [
    "FileInfo",
    "Storage",
    "ancestors_of",
    "check_holds_no_credentials",
    "is_inside",
    "is_staged",
    "join",
    "parent_of",
    "scheme_of",
]
