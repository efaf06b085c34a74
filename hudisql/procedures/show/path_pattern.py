"""Paths with `*`, `?`, `[…]` and `{a,b}`, as some of Hudi's procedures take them.

Follows Hadoop's `Globber`: each part of the path matches one level of directories. Only directories on the
way are listed, each once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hudisql.storage import FileInfo, Storage

_SPECIAL = frozenset("*?[{")


def find_paths(storage: Storage, pattern: str) -> list[FileInfo]:
    """The existing paths that match, sorted; possibly none. Raises StorageError."""
    from hudisql.storage import join
    from hudisql.table.partitions.path_glob import glob_pattern

    parts = storage.qualify(pattern).split("/")
    fixed = next((at for at, part in enumerate(parts) if _SPECIAL & set(part)), len(parts))
    if fixed == len(parts):
        found = storage.info(storage.qualify(pattern))
        return [] if found is None else [found]
    directories = ["/".join(parts[:fixed]) or "/"]
    for at in range(fixed, len(parts)):
        is_last = at == len(parts) - 1
        if not is_last and not _SPECIAL & set(parts[at]):
            directories = [join(directory, parts[at]) for directory in directories]
            continue
        name = glob_pattern(parts[at])
        listings = storage.list_directories(directories, missing_ok=True)
        found_here = [entry for entries in listings for entry in entries if name.fullmatch(entry.name)]
        if is_last:
            return sorted(found_here, key=lambda each: each.path)
        directories = [each.path for each in found_here if each.is_directory]
    return []
