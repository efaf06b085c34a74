"""Hudi's `hoodie.index.*` settings: the index by which a write finds stored rows.

The session's settings override the table's TBLPROPERTIES, which override `hoodie.properties`. Unknown values
are errors that name the setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import (
    BLOOM_MOVES,
    BUCKET_COUNT,
    BUCKET_ENGINE,
    BUCKET_FIELDS,
    INDEX_TYPE,
    SIMPLE_MOVES,
)
from hudisql.errors import SettingsError, UnsupportedTableError
from hudisql.write.index.record_index import HashBuckets, IndexKind, RecordIndex

if TYPE_CHECKING:
    from hudisql.table.hudi_table import HudiTable

# File ids have eight digits for them.
_MOST_BUCKETS: Final = 100_000_000
# Hudi itself uses the global simple index without a record index, which is in the metadata table.
_FALLBACKS: Final = {"RECORD_INDEX": IndexKind.GLOBAL_SIMPLE}


def record_index(config: HudiConfig, table: HudiTable) -> RecordIndex:
    """The index for writes to the table.

    Raises SettingsError for an invalid value, UnsupportedTableError for consistent hashing.
    """
    config = config.over(table.properties.get)
    kind = _kind(config)
    moves = SIMPLE_MOVES if kind is IndexKind.GLOBAL_SIMPLE else BLOOM_MOVES
    buckets = None
    if kind is IndexKind.BUCKET:
        if table.properties.generates_record_keys:
            raise UnsupportedTableError(
                f"{INDEX_TYPE} = BUCKET: a bucket index needs record key columns, and the keys "
                f"of {table.base_path} are generated",
                hint=f"SET {INDEX_TYPE} = BLOOM, or make the table with TBLPROPERTIES (primaryKey = '…')",
            )
        buckets = hash_buckets(config, table.properties.record_key_fields)
    return RecordIndex(kind, moves_rows=config.get(moves), buckets=buckets)


def hash_buckets(config: HudiConfig, record_key_fields: tuple[str, ...]) -> HashBuckets:
    """The buckets of a table with these key columns, by its settings.

    Raises SettingsError for invalid values, UnsupportedTableError for consistent hashing.
    """
    engine = config.get(BUCKET_ENGINE).upper()
    if engine != "SIMPLE":
        raise UnsupportedTableError(
            f"{BUCKET_ENGINE} = {engine} is not supported: hudisql supports a fixed number of buckets",
            hint="write to such a table with Apache Hudi's own Spark SQL",
        )
    count = config.get(BUCKET_COUNT)
    if not count.isdigit() or not 0 < int(count) < _MOST_BUCKETS:
        raise SettingsError(f"{BUCKET_COUNT} must be a whole number above 0, not '{count}'")
    fields = config.get(BUCKET_FIELDS)
    strangers = [name for name in fields if name not in record_key_fields]
    if strangers:
        raise SettingsError(
            f"{BUCKET_FIELDS} names '{strangers[0]}', which is not a column of the record key "
            f"({', '.join(record_key_fields)})"
        )
    return HashBuckets(int(count), fields or record_key_fields)


def _kind(config: HudiConfig) -> IndexKind:
    name = config.get(INDEX_TYPE)
    return _FALLBACKS.get(name) or IndexKind(name)
