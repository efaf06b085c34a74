"""The counts of a bootstrap or a change of rows, for reports, read from its result rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hudisql.result import LocalResult, Result

_COUNTS: Final = ("rows", "files", "bytes", "written_bytes", "seconds", "partitions")
_CHANGES: Final = ("rows_inserted", "rows_updated", "rows_deleted", "rows_moved", "files_written")


def counts_of(result: Result) -> Mapping[str, Any]:
    """The counts of the statement by name; empty for a query."""
    if not isinstance(result, LocalResult) or not result.values:
        return {}
    names = result.names
    wanted = _CHANGES if "rows_inserted" in names else _COUNTS if "files" in names else ()
    # A bootstrap's total is its last row.
    row = dict(zip(names, result.values[-1], strict=True))
    return {name: row[name] for name in wanted if isinstance(row.get(name), int | float)}
