"""Hudi's `hoodie.index.*` settings: the index by which a write finds stored rows.

The session's settings override the table's TBLPROPERTIES, which override `hoodie.properties`. Unknown values
are errors that name the setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hudisql.errors import SettingsError, UnsupportedTableError
from hudisql.write.index.record_index import HashBuckets, IndexKind, RecordIndex
from hudisql.write.setting_lookup import Lookup, read_flag

if TYPE_CHECKING:
    from hudisql.table.hudi_table import HudiTable

INDEX_TYPE: Final = "hoodie.index.type"
BLOOM_MOVES: Final = "hoodie.bloom.index.update.partition.path"
SIMPLE_MOVES: Final = "hoodie.simple.index.update.partition.path"
BUCKET_COUNT: Final = "hoodie.bucket.index.num.buckets"
BUCKET_FIELDS: Final = "hoodie.bucket.index.hash.field"
BUCKET_ENGINE: Final = "hoodie.index.bucket.engine"
_DEFAULT_BUCKETS: Final = 256
# File ids have eight digits for them.
_MOST_BUCKETS: Final = 100_000_000
# Hudi itself takes the global simple index where it finds no record index, which lies in the metadata table.
_FALLBACKS: Final = {"RECORD_INDEX": IndexKind.GLOBAL_SIMPLE}


def record_index(given: Lookup, table: HudiTable) -> RecordIndex:
    """The index for writes to the table; `given` gives the text of a setting, or a default.

    Raises SettingsError for a value that is not understood, UnsupportedTableError for consistent hashing.
    """

    def lookup(key: str, default: str) -> str:
        return given(key, table.properties.get(key) or default)

    kind = _kind(lookup)
    moves = SIMPLE_MOVES if kind is IndexKind.GLOBAL_SIMPLE else BLOOM_MOVES
    buckets = None
    if kind is IndexKind.BUCKET:
        if table.properties.generates_record_keys:
            raise UnsupportedTableError(
                f"{INDEX_TYPE} = BUCKET: a bucket index needs record key columns, and the keys "
                f"of {table.base_path} are generated",
                hint=f"SET {INDEX_TYPE} = BLOOM, or make the table with TBLPROPERTIES (primaryKey = '…')",
            )
        buckets = hash_buckets(lookup, table.properties.record_key_fields)
    return RecordIndex(kind, moves_rows=read_flag(lookup, moves, True), buckets=buckets)


def hash_buckets(lookup: Lookup, record_key_fields: tuple[str, ...]) -> HashBuckets:
    """The buckets of a table with these key columns, by its settings.

    Raises SettingsError for values that are not understood, UnsupportedTableError for consistent hashing.
    """
    engine = lookup(BUCKET_ENGINE, "SIMPLE").upper()
    if engine != "SIMPLE":
        raise UnsupportedTableError(
            f"{BUCKET_ENGINE} = {engine} is not supported: hudisql knows buckets of a fixed number",
            hint="write to such a table with Apache Hudi's own Spark SQL",
        )
    count = lookup(BUCKET_COUNT, str(_DEFAULT_BUCKETS))
    if not count.isdigit() or not 0 < int(count) < _MOST_BUCKETS:
        raise SettingsError(f"{BUCKET_COUNT} must be a whole number above 0, not '{count}'")
    fields = tuple(part.strip() for part in lookup(BUCKET_FIELDS, "").split(",") if part.strip())
    strangers = [name for name in fields if name not in record_key_fields]
    if strangers:
        raise SettingsError(
            f"{BUCKET_FIELDS} names '{strangers[0]}', which is not a column of the record key "
            f"({', '.join(record_key_fields)})"
        )
    return HashBuckets(int(count), fields or record_key_fields)


def _kind(lookup: Lookup) -> IndexKind:
    text = lookup(INDEX_TYPE, IndexKind.BLOOM.value).upper()
    if text in _FALLBACKS:
        return _FALLBACKS[text]
    if text not in tuple(IndexKind):
        known = ", ".join((*IndexKind, *_FALLBACKS))
        raise SettingsError(f"{INDEX_TYPE} must be one of {known}, not '{text}'")
    return IndexKind(text)
