"""Files of a bootstrap's source that are left out by name: glob patterns such as `*.csv`.

A pattern stands for whole file names, not for paths, and upper and lower case differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from hudisql.errors import InvalidArgumentError


def parse_ignored_names(text: str) -> tuple[str, ...]:
    """The patterns of a list with commas. Raises InvalidArgumentError."""
    patterns = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not patterns:
        raise InvalidArgumentError("ignore has no pattern", hint="such as '*.csv' or '*.csv,README*'")
    if paths := [pattern for pattern in patterns if "/" in pattern]:
        raise InvalidArgumentError(
            f"ignore takes patterns of file names, and '{paths[0]}' is one of a path",
            hint="partition_filter leaves out whole partitions",
        )
    return patterns


def is_ignored(name: str, patterns: Sequence[str]) -> bool:
    """True if a pattern stands for this file name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
