"""CHAR(n) and VARCHAR(n): texts with a length, which Hudi's schemas do not have.

Apache Hudi stores both as STRING and checks nothing; the lengths are kept among the table's own properties.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hudisql.errors import CorruptTableError

_SIZED: Final = re.compile(r"(var)?char\((\d+)\)", re.ASCII)


@dataclass(frozen=True, slots=True)
class SizedText:
    """The type of a text column: at most `length` characters, exactly so many if `is_char`."""

    length: int
    is_char: bool = False

    @property
    def name(self) -> str:
        """Spark's name of the type."""
        return f"{'char' if self.is_char else 'varchar'}({self.length})"

    @property
    def stored(self) -> int | str:
        """The value in the table's properties: VARCHAR is its length alone."""
        return self.name if self.is_char else self.length


def parse_sized_text(text: object) -> SizedText | None:
    """The type by Spark's name, or by its value in the table's properties; None for other types."""
    if isinstance(text, int):
        return SizedText(text)
    matched = _SIZED.fullmatch(text) if isinstance(text, str) else None
    return None if matched is None else SizedText(int(matched[2]), is_char=matched[1] is None)


def render_column_lengths(columns: Mapping[str, SizedText]) -> str:
    """The columns' types as a table's properties keep them, a JSON object."""
    return json.dumps({name: sized.stored for name, sized in columns.items()})


def parse_column_lengths(text: str, property_name: str) -> dict[str, SizedText]:
    """The columns' types in the text of the property. Raises CorruptTableError."""
    try:
        found = {str(name): parse_sized_text(value) for name, value in json.loads(text).items()}
    except (ValueError, AttributeError) as error:
        raise CorruptTableError(f"{property_name} is not a JSON object: '{text}'") from error
    types = {name: sized for name, sized in found.items() if sized is not None}
    if len(types) < len(found):
        raise CorruptTableError(f"{property_name} has other values than lengths: '{text}'")
    return types
