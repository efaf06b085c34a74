"""Which index a statement finds stored rows by: Hudi's `hoodie.index.*` settings.

The session's count first, then the table's TBLPROPERTIES, then what its own properties say. Values that are
not understood are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from hudisql.errors import SettingsError
from hudisql.write.record_index import IndexKind, RecordIndex

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.table.hudi_table import HudiTable

INDEX_TYPE: Final = "hoodie.index.type"
BLOOM_MOVES: Final = "hoodie.bloom.index.update.partition.path"
SIMPLE_MOVES: Final = "hoodie.simple.index.update.partition.path"
# Hudi itself takes the global simple index where it finds no record index, which lies in the metadata table.
_FALLBACKS: Final = {"RECORD_INDEX": IndexKind.GLOBAL_SIMPLE}

Lookup = Callable[[str, str], str]


def record_index(
    context: Context, table: HudiTable, parameters: Mapping[str, str] | None = None
) -> RecordIndex:
    """The index for writes to the table, `parameters` being its TBLPROPERTIES.

    Raises SettingsError for a value that is not understood.
    """
    given = parameters or {}

    def lookup(key: str, default: str) -> str:
        of_table = given.get(key, table.properties.get(key, default))
        return str(context.spark.conf.get(key, of_table)).strip()

    kind = _kind(lookup)
    moves = SIMPLE_MOVES if kind is IndexKind.GLOBAL_SIMPLE else BLOOM_MOVES
    return RecordIndex(kind, moves_rows=_flag(lookup, moves))


def _kind(lookup: Lookup) -> IndexKind:
    text = lookup(INDEX_TYPE, IndexKind.BLOOM.value).upper()
    if text in _FALLBACKS:
        return _FALLBACKS[text]
    if text not in tuple(IndexKind):
        known = ", ".join((*IndexKind, *_FALLBACKS))
        raise SettingsError(f"{INDEX_TYPE} must be one of {known}, not '{text}'")
    return IndexKind(text)


def _flag(lookup: Lookup, key: str) -> bool:
    text = lookup(key, "true").lower()
    if text not in ("true", "false"):
        raise SettingsError(f"{key} must be true or false, not '{text}'")
    return text == "true"
