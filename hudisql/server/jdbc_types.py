"""SQL types as in JDBC's `DatabaseMetaData`: numbers of `java.sql.Types`, sizes, scales.

Follows `org.apache.hive.service.cli.Type` and `TypeDescriptor`; the names are Hive's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_ARGUMENTS: Final = re.compile(r"\((\d+)(?:,\s*(\d+))?\)")
_LONGEST: Final = 2_147_483_647


@dataclass(frozen=True)
class JdbcType:
    """`number` is that of `java.sql.Types`; `size` and `digits` are None where they do not apply."""

    number: int
    size: int | None = None
    digits: int | None = None
    radix: int | None = None
    is_text: bool = False
    is_nested: bool = False


JDBC_TYPES: Final = {
    "void": JdbcType(0),
    "boolean": JdbcType(16, 1),
    "tinyint": JdbcType(-6, 3, 0, 10),
    "smallint": JdbcType(5, 5, 0, 10),
    "int": JdbcType(4, 10, 0, 10),
    "bigint": JdbcType(-5, 19, 0, 10),
    "float": JdbcType(6, 7, 7, 10),
    "double": JdbcType(8, 15, 15, 10),
    "string": JdbcType(12, _LONGEST, is_text=True),
    "varchar": JdbcType(12, is_text=True),
    "char": JdbcType(1, is_text=True),
    "date": JdbcType(91, 10),
    "timestamp": JdbcType(93, 29, 9),
    "binary": JdbcType(-2, _LONGEST),
    "decimal": JdbcType(3, 38, 18, 10),
    "array": JdbcType(2003, is_nested=True),
    "map": JdbcType(2000, is_nested=True),
    "struct": JdbcType(2002, is_nested=True),
}
_OTHER: Final = JdbcType(1111)
_SYNONYMS: Final = {"integer": "int", "timestamp_ntz": "timestamp", "long": "bigint", "short": "smallint"}


def jdbc_type(text: str) -> JdbcType:
    """The JDBC type of a type's text: `decimal(12,2)`, `array<int>`."""
    name = re.split(r"[(<\s]", text.strip().lower(), maxsplit=1)[0]
    name = _SYNONYMS.get(name, name)
    known = JDBC_TYPES.get(name, _OTHER)
    arguments = _ARGUMENTS.search(text)
    if arguments is None or name not in ("decimal", "varchar", "char"):
        return known
    scale = int(arguments[2] or 0) if name == "decimal" else None
    return JdbcType(known.number, int(arguments[1]), scale, known.radix, known.is_text)
