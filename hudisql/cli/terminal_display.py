"""Results as a person at a terminal sees them.

A change of rows answers in a line. A table that is wider than the screen is shown a column a line instead.
Numbers stand right, and the text 'NULL' has quotes, which NULL has not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Final, Literal

from rich.filesize import decimal

from hudisql.cli.display import WriteRows, counted_rows, standard_output
from hudisql.cli.output import Output, fetch_first_rows, fetch_rows, text_of, vertical_lines
from hudisql.cli.table_text import WRAP_AT, TableText
from hudisql.result import LocalResult, Result

Expanded = Literal["auto", "on", "off"]
TERMINAL_FORMS: Final[Mapping[str, Expanded]] = {"table": "auto", "vertical": "on"}
"""The forms for people, each with when it shows a column a line."""
# A table whose long texts do not fit at the first width may fit at the second.
_WRAP_WIDTHS: Final = (WRAP_AT, WRAP_AT // 2)
_CHANGES: Final = {
    "rows_inserted": "inserted",
    "rows_updated": "updated",
    "rows_deleted": "deleted",
    "rows_moved": "moved",
    "rows_skipped_late": "skipped as late",
    "rows_combined": "combined",
}
_OF_CHANGE: Final = frozenset({"instant", "files_written", "bytes_written", *_CHANGES})


@dataclass(frozen=True)
class TerminalDisplay:
    """Shows rows in one of `TERMINAL_FORMS`, at most `most` of a query, where `open_output` opens.

    `expanded` is whether a row is shown a column a line; None: as the form has it. `width` is that of the
    screen; None: the terminal's.
    """

    form: str = "table"
    expanded: Expanded | None = None
    most: int | None = None
    open_output: Callable[[], AbstractContextManager[Output]] = standard_output
    width: int | None = None

    def fetch(self, result: Result) -> WriteRows:
        """Run the query, until it has given the rows that are shown, and lay them out. Raises QueryError."""
        if self.most is None or isinstance(result, LocalResult):
            fetched = fetch_rows(result)
        else:
            fetched = fetch_first_rows(result, self.most)
        names, rows = fetched.names, list(fetched.rows)
        expanded = self.expanded or TERMINAL_FORMS[self.form]
        if frozenset(names) == _OF_CHANGE and len(rows) == 1 and expanded == "auto":
            return partial(self._write_change, dict(zip(names, rows[0], strict=True)))
        lines = list(shown_lines(names, rows, expanded, self.width or _screen_width()))
        count = counted_rows(len(rows))
        if not fetched.has_more:
            return partial(self._write_lines, lines, count)
        lines.append(
            f"There are more than these {count}: \\limit off, then the statement again, fetches all\n"
        )
        return partial(self._write_lines, lines, f"the first {count}")

    def _write_change(self, row: Mapping[str, object], seconds: float | None) -> None:
        with self.open_output() as output:
            output.write(change_line(row, seconds) + "\n")

    def _write_lines(self, lines: Sequence[str], said: str, _seconds: float | None) -> str:
        with self.open_output() as output:
            for line in lines:
                output.write(line)
        return said


def _screen_width() -> int:
    """The columns of the terminal; some terminals report none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        return 80


def change_line(row: Mapping[str, object], seconds: float | None) -> str:
    """What a change of rows did, in a line: `20261124…: 1 inserted, 2 deleted in 3 files, 50 kB, 2.8 s`."""
    counts = [f"{row[name]:,} {verb}" for name, verb in _CHANGES.items() if row[name]]
    parts = [", ".join(counts) or "no row changed"]
    files = row["files_written"]
    if isinstance(files, int) and files:
        parts[0] += f" in {files:,} {'file' if files == 1 else 'files'}"
        parts.append(decimal(int(str(row["bytes_written"])), precision=0))
    if seconds is not None:
        parts.append(f"{seconds:.2f} s")
    instant = row["instant"]
    return ("" if instant is None else f"{instant}: ") + ", ".join(parts)


def shown_lines(
    names: Sequence[str], rows: Sequence[Sequence[object]], expanded: Expanded, width: int
) -> Iterator[str]:
    """The lines of a table that fits `width` columns, or of its rows a column a line; each with its end."""
    cells = [[_cell(value) for value in row] for row in rows]
    if len(cells) == 1 and len(names) == 1 and "\n" in cells[0][0] and expanded != "on":
        # One multi-line text (EXPLAIN, SHOW CREATE TABLE), not a cell.
        yield cells[0][0].rstrip("\n") + "\n"
        return
    table = None if expanded == "on" else _table(names, rows, cells, None if expanded == "off" else width)
    yield from vertical_lines(names, cells) if table is None else table.lines()


def _table(
    names: Sequence[str], rows: Sequence[Sequence[object]], cells: Sequence[Sequence[str]], width: int | None
) -> TableText | None:
    """The table, its long texts wrapped so that it fits; None if it does not."""
    right = {index for index in range(len(names)) if _is_numeric(row[index] for row in rows)}
    for wrap_at in _WRAP_WIDTHS:
        table = TableText(names, cells, wrap_at=wrap_at, right=right)
        if width is None or table.width <= width:
            return table
    # Without rows there is nothing to show a column a line.
    return None if cells else table


def _is_numeric(values: Iterable[object]) -> bool:
    found = [value for value in values if value is not None]
    return bool(found) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in found
    )


def _cell(value: object) -> str:
    text = text_of(value)
    if text is None:
        return "NULL"
    return "'NULL'" if text == "NULL" else text
