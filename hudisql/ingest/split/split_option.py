"""The option `split` of an ingested table, as a typed value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from hudisql.errors import InvalidArgumentError

_COUNTED = re.compile(r"(rows|days)\s*:\s*([0-9][0-9_]*)", re.ASCII)


class SplitKind(StrEnum):
    """How a partition's split point is chosen."""

    AUTO = "auto"
    """By the days on which rows arrived in the table's partitions so far."""
    ROWS = "rows"
    DAYS = "days"
    NEVER = "never"
    NOW = "now"


@dataclass(frozen=True, slots=True)
class SplitOption:
    """`count` is the number of rows for ROWS, of days for DAYS, else 0."""

    kind: SplitKind = SplitKind.AUTO
    count: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.count}" if self.count else str(self.kind)


def parse_split_option(text: str) -> SplitOption:
    """Read `auto`, `rows:N`, `days:N`, `never` or `now`, in any case. Raises InvalidArgumentError."""
    plain = text.strip().lower()
    counted = _COUNTED.fullmatch(plain)
    if counted is not None and int(counted[2]) > 0:
        return SplitOption(SplitKind(counted[1]), int(counted[2]))
    if plain in (SplitKind.AUTO, SplitKind.NEVER, SplitKind.NOW):
        return SplitOption(SplitKind(plain))
    raise InvalidArgumentError(
        f"unknown split point: split is '{text}'",
        hint="write 'auto', 'rows:N' (rows of a partition), 'days:N' (days since its first write), with N "
        "from 1 on, 'never' or 'now'",
    )
