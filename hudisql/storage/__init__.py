"""Access to file systems: list, open, atomic create, delete. No other package accesses files.

All file access, on the driver and in tasks, uses a `Storage` value, which is pickled with the task. There is
one module per store: `local`, `s3`, `hdfs`; `Storage` chooses it by scheme.
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
