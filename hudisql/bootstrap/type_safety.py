"""The parquet types that a bootstrapped table supports, and the readers that are incompatible with each.

A metadata-only bootstrap keeps the source's physical types; only this module knows how Apache Hudi's mergers
and Hive handle them. Every entry of `TYPE_INCOMPATIBILITIES` was observed with Apache Hudi 0.15.0 or 1.2.0,
or with Hive 2.3. Works on parquet schemas only: no Spark, no storage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from hudisql.format.schema.avro_schema import LOCAL_TIMESTAMP, TIMESTAMP
from hudisql.read.files.conform import is_list_like

_REWRITE = "rewrite the files with Spark's {setting}"
_OLD_DATES = "dates before 1582-10-15 or timestamps before 1900"
_BIGINT_IN_HIVE = (
    "Hive 2.3 cannot read timestamps of Hudi tables: the metastore shows it as bigint of {unit},"
    " while Spark still sees a timestamp"
)


@dataclass(frozen=True, slots=True)
class TypeIncompatibility:
    """A physical type of a column that some reader or writer is incompatible with.

    `stored` describes the type, `consequences` say what fails where. `is_blocker`: no file with it can stay
    as it is. `is_unsafe`: rows or queries are wrong, so that a bootstrap stops unless `on_unsafe_type` allows
    it. One that is neither is only a warning. `fixed_by_full_record`: rewriting the partition removes it.
    """

    stored: str
    consequences: tuple[str, ...]
    is_blocker: bool = False
    hint: str | None = None
    is_unsafe: bool = False
    fixed_by_full_record: bool = False


TYPE_INCOMPATIBILITIES: Final[Mapping[str, TypeIncompatibility]] = {
    "int96": TypeIncompatibility(
        "INT96 timestamp",
        (
            "Hudi 0.15 and 1.2 read it, but their copy-on-write merges fail (nothing is committed) until the"
            " file group is rewritten",
            "Hive 2.3 gives no rows to queries of the column until then",
        ),
        hint=_REWRITE.format(setting="spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS"),
        is_unsafe=True,
        fixed_by_full_record=True,
    ),
    "timestamp_nanos": TypeIncompatibility(
        "timestamp in nanoseconds",
        ("Spark and Hudi 0.15 refuse it",),
        is_blocker=True,
        hint="rewrite the files with timestamps in microseconds (full_record cuts what is below them)",
        is_unsafe=True,
        fixed_by_full_record=True,
    ),
    "timestamp_ntz_nanos": TypeIncompatibility(
        "timestamp without time zone in nanoseconds",
        ("Spark and Hudi 0.15 refuse it",),
        is_blocker=True,
        hint="rewrite the files with timestamps in microseconds, adjusted to UTC",
    ),
    "time": TypeIncompatibility(
        "time of day", ("Hudi's schema has no such type that Spark and Hive read",), True
    ),
    "null_type": TypeIncompatibility("column of type null", ("Hudi's Avro schema cannot carry it",), True),
    "uint64": TypeIncompatibility(
        "unsigned 64-bit integer", ("Avro has no such type: Hudi and Hive read other numbers",), True
    ),
    "float16": TypeIncompatibility("half-precision float", ("Spark, Hive and Hudi cannot read it",), True),
    "unsupported": TypeIncompatibility("type that Spark cannot read", ("Spark, Hive and Hudi",), True),
    "map_key": TypeIncompatibility(
        "map whose keys are not strings", ("Hudi's Avro schema cannot carry it",), True
    ),
    "empty_struct": TypeIncompatibility(
        "struct without fields", ("Hudi's Avro schema cannot carry it",), True
    ),
    "integer_decimal": TypeIncompatibility(
        "decimal stored as INT32/INT64",
        (
            "Hudi 0.15 and 1.2 multiply untouched values by 10^scale in every merge"
            " (upsert, delete, compaction)",
            "Hive 2.3 cannot read the column",
        ),
        hint=_REWRITE.format(setting="spark.sql.parquet.writeLegacyFormat=true"),
        is_unsafe=True,
        fixed_by_full_record=True,
    ),
    "binary_decimal": TypeIncompatibility(
        "decimal of up to 18 digits stored as BYTE_ARRAY",
        (
            "Hudi 0.15 cannot read the column (1.2 can)",
            "Spark 4's vectorised reader fails on it (NullPointerException): hudisql reads the table by rows",
        ),
        hint="other readers on Spark 4 need spark.sql.parquet.enableVectorizedReader=false",
        is_unsafe=True,
        fixed_by_full_record=True,
    ),
    "timestamp_micros": TypeIncompatibility(
        "timestamp in microseconds",
        (_BIGINT_IN_HIVE.format(unit="microseconds"),),
    ),
    "timestamp_millis": TypeIncompatibility(
        "timestamp in milliseconds",
        (
            "Hudi 0.15's merges take the milliseconds for microseconds (2020 becomes 1970)",
            _BIGINT_IN_HIVE.format(unit="milliseconds"),
        ),
        hint=_REWRITE.format(setting="spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS"),
        is_unsafe=True,
        fixed_by_full_record=True,
    ),
    "timestamp_ntz": TypeIncompatibility(
        "timestamp without time zone",
        ("Hudi 0.15 cannot read the column (1.2 can)", "Hive 2.3 is shown it as bigint of the stored unit"),
        hint="rewrite the files with timestamps adjusted to UTC",
        is_unsafe=True,
    ),
    "uint32": TypeIncompatibility(
        "unsigned 32-bit integer",
        ("Hudi 0.15 and 1.2 turn values above 2^31 negative in every merge",),
        is_unsafe=True,
        fixed_by_full_record=True,
    ),
    "single_field_struct_list": TypeIncompatibility(
        "3-level list of structs with one field",
        ("Hudi 0.15's upserts fail with a ClassCastException",),
        is_unsafe=True,
    ),
    "fixed_binary": TypeIncompatibility(
        "FIXED_LEN_BYTE_ARRAY without a logical type",
        ("Hudi 0.15's upserts fail on it",),
        is_unsafe=True,
        fixed_by_full_record=True,
    ),
    "small_integer": TypeIncompatibility(
        "8- or 16-bit integer, without a dictionary or nested",
        ("Hudi 0.15 cannot read the column (1.2 can)",),
        is_unsafe=True,
        fixed_by_full_record=True,
    ),
    "uuid": TypeIncompatibility(
        "UUID",
        ("Hudi 0.15 and 1.2 on Spark 3 can read no column of a file that has one",),
        is_unsafe=True,
        fixed_by_full_record=True,
    ),
    "older_calendar": TypeIncompatibility(
        f"{_OLD_DATES} in the calendar of Spark 2",
        ("Hudi 0.15 and 1.2 move untouched values by days in every merge: 1500-02-28 becomes 1500-03-09",),
        hint=_REWRITE.format(setting="spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED"),
        is_unsafe=True,
        fixed_by_full_record=True,
    ),
    "unknown_calendar": TypeIncompatibility(
        f"{_OLD_DATES} in a calendar that the files do not name",
        (
            "Hudi 0.15 and 1.2 on Spark 3 refuse to read them",
            "Spark 4 and hudisql take them for today's calendar: other days than Spark 2 or Hive 2 wrote",
        ),
        hint="set spark.sql.parquet.datetimeRebaseModeInRead to LEGACY if Spark 2 or Hive 2 wrote them, else"
        " to CORRECTED, for full_record and in every reader",
        is_unsafe=True,
        fixed_by_full_record=True,
    ),
    "old_dates": TypeIncompatibility(
        _OLD_DATES,
        (
            "Hudi's merges write files that do not name their calendar, which Spark 3 refuses to read unless"
            " spark.sql.parquet.datetimeRebaseModeInRead=CORRECTED is set",
        ),
    ),
}

# Compression codecs of data pages that a reader lacks, by pyarrow's name of the codec.
CODEC_INCOMPATIBILITIES: Final[Mapping[str, str]] = {
    "ZSTD": "Hive 2.3 has no zstd codec and cannot read these files",
    "LZ4": "Hive 2.3 has no lz4 codec and cannot read these files",
    "LZ4_RAW": "Hive 2.3 has no lz4 codec and cannot read these files",
}
# Codecs that only hudisql reads, so that every other reader would fail on unchanged files.
UNSHARED_CODECS: Final = frozenset({"BROTLI"})


@dataclass(frozen=True, slots=True)
class ClassifiedType:
    """A column's type in the table (None: unsupported) and the names of its incompatibilities."""

    type: pa.DataType | None
    incompatibilities: frozenset[str]


def classify_columns(schema: Any) -> list[tuple[str, ClassifiedType]]:
    """Name and classified type of every top-level column of a parquet schema (`pq.ParquetSchema`)."""
    leaves = iter([schema.column(index) for index in range(len(schema))])
    columns = []
    for field in schema.to_arrow_schema():
        incompatibilities: set[str] = set()
        arrow_type = _classify(field.type, leaves, incompatibilities)
        columns.append((field.name, ClassifiedType(arrow_type, frozenset(incompatibilities))))
    return columns


def _classify(shape: pa.DataType, leaves: Iterator[Any], incompatibilities: set[str]) -> pa.DataType | None:
    """The table's type for one node; takes the node's leaves from `leaves`, in the schema's order."""
    if isinstance(shape, pa.BaseExtensionType):
        shape = shape.storage_type
    if pa.types.is_struct(shape):
        children = [(child.name, _classify(child.type, leaves, incompatibilities)) for child in shape]
        if not children:
            incompatibilities.add("empty_struct")
        if not children or any(child is None for _, child in children):
            return None
        return pa.struct([pa.field(name, child) for name, child in children])
    if pa.types.is_map(shape):
        key = _classify(shape.key_type, leaves, incompatibilities)
        value = _classify(shape.item_type, leaves, incompatibilities)
        if key is not None and not pa.types.is_string(key):
            incompatibilities.add("map_key")
            return None
        return None if key is None or value is None else pa.map_(key, value)
    if is_list_like(shape):
        return _classify_list(shape, leaves, incompatibilities)
    return _classify_leaf(next(leaves), incompatibilities)


def _classify_list(
    shape: pa.DataType, leaves: Iterator[Any], incompatibilities: set[str]
) -> pa.DataType | None:
    element = shape.value_type
    watched = _WatchedLeaves(leaves)
    item = _classify(element, watched, incompatibilities)
    if pa.types.is_struct(element) and element.num_fields == 1 and not watched.has_two_level_list():
        incompatibilities.add("single_field_struct_list")
    return None if item is None else pa.list_(pa.field("element", item))


class _WatchedLeaves:
    """Leaves read through a list, whose paths distinguish a 3-level list from the older 2-level one."""

    def __init__(self, leaves: Iterator[Any]) -> None:
        self._leaves = leaves
        self._paths: list[str] = []

    def __iter__(self) -> _WatchedLeaves:
        return self

    def __next__(self) -> Any:
        leaf = next(self._leaves)
        self._paths.append(leaf.path)
        return leaf

    def has_two_level_list(self) -> bool:
        """True if the repeated group itself is the element (`array`, `<name>_tuple`), per parquet's rules."""
        groups = self._paths[0].split(".")[:-1] if self._paths else []
        return bool(groups) and (groups[-1] == "array" or groups[-1].endswith("_tuple"))


def _classify_leaf(leaf: Any, incompatibilities: set[str]) -> pa.DataType | None:
    logical = json.loads(leaf.logical_type.to_json())
    arrow_type, incompatibility = _LEAF_RULES.get(leaf.physical_type, _refuse)(logical)
    if incompatibility is not None:
        incompatibilities.add(incompatibility)
    return arrow_type


_LeafVerdict = tuple[pa.DataType | None, str | None]


def _refuse(_logical: Mapping[str, Any]) -> _LeafVerdict:
    return None, "unsupported"


def _decimal(logical: Mapping[str, Any], incompatibility: str | None) -> _LeafVerdict:
    if logical["precision"] > 38:
        return None, "unsupported"
    return pa.decimal128(logical["precision"], logical["scale"]), incompatibility


def _int32(logical: Mapping[str, Any]) -> _LeafVerdict:
    kind = logical["Type"]
    if kind == "None":
        return pa.int32(), None
    if kind == "Int":
        if not logical["isSigned"] and logical["bitWidth"] == 32:
            return pa.int64(), "uint32"
        return pa.int32(), None
    if kind == "Decimal":
        return _decimal(logical, "integer_decimal")
    if kind == "Date":
        return pa.date32(), None
    return None, {"Time": "time", "Null": "null_type"}.get(kind, "unsupported")


def _int64(logical: Mapping[str, Any]) -> _LeafVerdict:
    kind = logical["Type"]
    if kind == "None":
        return pa.int64(), None
    if kind == "Int":
        return (pa.int64(), None) if logical["isSigned"] else (None, "uint64")
    if kind == "Decimal":
        return _decimal(logical, "integer_decimal")
    if kind == "Timestamp":
        return _timestamp(logical)
    return None, {"Time": "time", "Null": "null_type"}.get(kind, "unsupported")


def _timestamp(logical: Mapping[str, Any]) -> _LeafVerdict:
    if logical["timeUnit"] == "nanoseconds":
        if not logical["isAdjustedToUTC"]:
            return None, "timestamp_ntz_nanos"
        return TIMESTAMP, "timestamp_nanos"
    if not logical["isAdjustedToUTC"]:
        return LOCAL_TIMESTAMP, "timestamp_ntz"
    return TIMESTAMP, "timestamp_millis" if logical["timeUnit"] == "milliseconds" else "timestamp_micros"


def _byte_array(logical: Mapping[str, Any]) -> _LeafVerdict:
    kind = logical["Type"]
    if kind in ("String", "Enum", "JSON"):
        return pa.string(), None
    if kind in ("None", "BSON"):
        return pa.binary(), None
    if kind == "Decimal":
        return _decimal(logical, "binary_decimal" if logical["precision"] <= 18 else None)
    return None, "null_type" if kind == "Null" else "unsupported"


def _fixed_byte_array(logical: Mapping[str, Any]) -> _LeafVerdict:
    kind = logical["Type"]
    if kind == "Decimal":
        return _decimal(logical, None)
    if kind in ("None", "UUID"):
        return pa.binary(), "uuid" if kind == "UUID" else "fixed_binary"
    return None, "float16" if kind == "Float16" else "unsupported"


_LEAF_RULES: Final[Mapping[str, Callable[[Mapping[str, Any]], _LeafVerdict]]] = {
    "BOOLEAN": lambda _logical: (pa.bool_(), None),
    "INT32": _int32,
    "INT64": _int64,
    "INT96": lambda _logical: (TIMESTAMP, "int96"),
    "FLOAT": lambda _logical: (pa.float32(), None),
    "DOUBLE": lambda _logical: (pa.float64(), None),
    "BYTE_ARRAY": _byte_array,
    "FIXED_LEN_BYTE_ARRAY": _fixed_byte_array,
}
