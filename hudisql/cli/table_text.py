"""Columns between lines: the form `table` of results. Long texts wrap at spaces, nothing is cut off."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Iterator, Sequence
from typing import Final

from rich.cells import cell_len

WRAP_AT: Final = 80
_Lines = Sequence[Sequence[Sequence[str]]]


class TableText:
    """A table of texts, each cell wrapped at `wrap_at` columns; the columns in `right` are aligned right."""

    def __init__(
        self,
        names: Sequence[str],
        cells: Sequence[Sequence[str]],
        *,
        wrap_at: int = WRAP_AT,
        right: Container[int] = (),
    ) -> None:
        self._right = right
        self._heads = [name.splitlines() or [""] for name in names]
        self._rows: _Lines = [[_cell_lines(cell, wrap_at) for cell in row] for row in cells]
        self._widths = [
            max((cell_len(line) for row in [self._heads, *self._rows] for line in row[index]), default=0)
            for index in range(len(names))
        ]

    @property
    def width(self) -> int:
        """The columns of the screen that it takes."""
        return sum(width + 3 for width in self._widths) + 1

    def lines(self) -> Iterator[str]:
        """The lines, each with its end."""
        rule = "+" + "+".join("-" * (width + 2) for width in self._widths) + "+\n"
        yield rule
        yield from self._lines_of(self._heads)
        yield rule
        for row in self._rows:
            yield from self._lines_of(row)
        if self._rows:
            yield rule

    def _lines_of(self, row: Sequence[Sequence[str]]) -> Iterator[str]:
        for level in range(max(len(cell) for cell in row)):
            padded = []
            for index, (cell, width) in enumerate(zip(row, self._widths, strict=True)):
                line = cell[level] if level < len(cell) else ""
                blanks = " " * (width - cell_len(line))
                padded.append(f" {blanks}{line} " if index in self._right else f" {line}{blanks} ")
            yield "|" + "|".join(padded) + "|\n"


def _cell_lines(cell: str, wrap_at: int) -> list[str]:
    lines = cell.expandtabs(4).splitlines() or [""]
    return [
        part
        for line in lines
        for part in (
            [line]
            if len(line) <= wrap_at
            else textwrap.wrap(line, wrap_at, break_long_words=False, break_on_hyphens=False)
        )
    ]
