"""A SQL text composed of parts of the user's text, with the offset of each part there.

Spark gets the composed text; errors show positions in the user's text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hudisql.sql.text.clauses import SourceSpan
from hudisql.sql.text.spark_errors import SourceText


@dataclass
class MappedSql:
    """Parts in their order; plain text is hudisql's own, pieces are the user's."""

    parts: list[str] = field(default_factory=list)
    # (offset in the composed text, length, offset in the user's text) of each piece, in order.
    _origins: list[tuple[int, int, int]] = field(default_factory=list)
    _length: int = 0

    def add(self, *parts: str | SourceSpan) -> MappedSql:
        """Append the parts."""
        for part in parts:
            text = part if isinstance(part, str) else part.text
            if not isinstance(part, str):
                self._origins.append((self._length, len(text), part.start))
            self.parts.append(text)
            self._length += len(text)
        return self

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.parts)

    def original_offset(self, offset: int) -> int:
        """The offset in the user's text of an offset of the composed text."""
        nearest = 0
        for start, length, origin in self._origins:
            if offset < start:
                break
            nearest = origin + min(offset - start, length)
        return nearest

    def composed_offset(self, offset: int) -> int | None:
        """The composed offset of the piece that begins at an offset of the user's text; None without one."""
        return next((start for start, _, origin in self._origins if origin == offset), None)

    def source(self, statement: SourceText) -> SourceText:
        """Maps errors about the composed text to the user's statement."""
        return SourceText(statement.text, statement.line, statement.column, self.text, self.original_offset)


def source_from(start: int, text: str, statement: SourceText) -> SourceText:
    """Maps errors about the statement's text from an offset on, as its query, to the user's statement."""
    return MappedSql().add(SourceSpan(text[start:], start)).source(statement)
