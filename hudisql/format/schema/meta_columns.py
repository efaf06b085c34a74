"""The five `_hoodie_*` columns that Hudi keeps with every row, and the footer keys of its base files.

Follows `HoodieRecord`, `HoodieAvroUtils.RECORD_KEY_SCHEMA` and `HoodieAvroWriteSupport` of Hudi 0.15. Names
and schemas only; the writers make the values.
"""

from __future__ import annotations

import json

import pyarrow as pa

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
OPERATION = "_hoodie_operation"
"""A sixth column that change-data writers may add; never shown."""
IS_DELETED = "_hoodie_is_deleted"
"""A data column: writers delete rows in which it is true. It belongs to the table's schema."""

META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
META_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in META_COLUMNS])

SKELETON_AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "HoodieRecordKey",
        "doc": "",
        "fields": [
            {"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_COLUMNS
        ],
    },
    separators=(",", ":"),
)
"""Avro schema that skeleton files carry in their footer."""

FOOTER_MIN_RECORD_KEY = "hoodie_min_record_key"
FOOTER_MAX_RECORD_KEY = "hoodie_max_record_key"
FOOTER_BLOOM_FILTER = "org.apache.hudi.bloomfilter"
FOOTER_BLOOM_FILTER_TYPE = "hoodie_bloom_filter_type_code"
FOOTER_AVRO_SCHEMA = "parquet.avro.schema"
FOOTER_WRITER_MODEL = "writer.model.name"
BLOOM_FILTER_TYPE = "DYNAMIC_V0"


def is_meta_column(name: str) -> bool:
    """True for the columns that Hudi adds to every row, in any case of letters."""
    return name.lower() in META_COLUMNS or name.lower() == OPERATION
