"""A parquet file of a Hudi table as an Iceberg data file: what readers would misread, and its metrics.

Follows the Iceberg spec, "Manifests" (data_file) and "Appendix D: Single-value serialization". Metrics come
from the footer. Floating point columns have no bounds, since engines order NaN and -0.0 unlike Iceberg.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.iceberg.iceberg_schema import children, is_list, misfit, primitive_name
from hudisql.read.calendar.hybrid_calendar import FIRST_COMMON_DAY, FIRST_COMMON_MICRO, rebases_of

EPOCH_ORDINAL: Final = 719_163
"""`date(1970, 1, 1).toordinal()`."""
_TEXT_BOUND: Final = 16
_NUMBER_FORMATS: Final[Mapping[str, str]] = {
    "boolean": "<?",
    "int": "<i",
    "date": "<i",
    "long": "<q",
    "timestamp": "<q",
    "timestamptz": "<q",
}


@dataclass(frozen=True, eq=False)
class FileColumns:
    """The columns of parquet files: their parquet schema, its Arrow form, that with Iceberg's view of INT96
    (which Arrow takes as ns), and the paths of the leaves.
    """

    parquet: Any
    arrow: pa.Schema
    schema: pa.Schema
    paths: tuple[str, ...]

    def are_those_of(self, metadata: pq.FileMetaData) -> bool:
        """True for a file with the same columns."""
        # Parquet schemas are equal if their leaves are, whatever is between these and the columns.
        return (
            self.parquet.equals(metadata.schema)
            and self.arrow.equals(metadata.schema.to_arrow_schema(), check_metadata=True)
            and (len(self.paths) == len(self.arrow) or self.paths == _leaf_paths(metadata))
        )


@dataclass(frozen=True)
class Footer:
    """The parquet footer of a data file."""

    metadata: pq.FileMetaData
    columns: FileColumns

    @property
    def schema(self) -> pa.Schema:
        """The columns as Iceberg has them."""
        return self.columns.schema

    def chunks(self, leaf: int) -> list[Any]:
        """The parts of a leaf in the row groups."""
        return [self.metadata.row_group(group).column(leaf) for group in range(self.metadata.num_row_groups)]


def footer_of(metadata: pq.FileMetaData, like: Footer | None = None) -> Footer:
    """The footer that was read from a parquet file; a file `like` it may have the same columns."""
    if like is not None and like.columns.are_those_of(metadata):
        return Footer(metadata, like.columns)
    leaves = iter(range(metadata.num_columns))
    arrow = metadata.schema.to_arrow_schema()
    schema = pa.schema([_with_int96(field, metadata.schema, leaves) for field in arrow])
    return Footer(metadata, FileColumns(metadata.schema, arrow, schema, _leaf_paths(metadata)))


def _leaf_paths(metadata: pq.FileMetaData) -> tuple[str, ...]:
    return tuple(metadata.schema.column(leaf).path for leaf in range(metadata.num_columns))


def _with_int96(field: pa.Field, parquet: Any, leaves: Iterator[int]) -> pa.Field:
    if not children(field.type):
        is_int96 = parquet.column(next(leaves)).physical_type == "INT96"
        return field.with_type(pa.timestamp("us", "UTC")) if is_int96 else field
    if pa.types.is_struct(field.type):
        inner = [field.type.field(index) for index in range(field.type.num_fields)]
        return field.with_type(pa.struct([_with_int96(child, parquet, leaves) for child in inner]))
    for _ in _leaf_types(field.type):
        next(leaves)
    return field


def _leaf_types(data_type: pa.DataType) -> Iterator[pa.DataType]:
    inner = children(data_type)
    if not inner:
        yield data_type
    for _, child in inner:
        yield from _leaf_types(child)


def misread(footer: Footer, schema: pa.Schema) -> str | None:
    """Why Iceberg readers would give other values than the table has in this file; None if they do not."""
    return misread_columns(footer.columns, schema) or old_calendar(footer, schema)


def misread_columns(columns: FileColumns, schema: pa.Schema) -> str | None:
    """`misread` for all files with these columns, but for the calendar of their dates."""
    by_name = {field.name: field for field in schema}
    by_lower = {name.lower(): name for name in by_name}
    for stored in columns.schema:
        current = by_name.get(stored.name)
        if current is None:
            if stored.name.lower() in by_lower:
                return f"column {stored.name} is {by_lower[stored.name.lower()]} in the table"
            continue
        if _has_field_ids(stored):
            return f"column {stored.name} has a field id, which readers take for the table's"
        problem = misfit(stored.type, current.type, stored.name)
        if problem is not None:
            return problem
    return _old_layout(columns)


def _has_field_ids(field: pa.Field) -> bool:
    found = (field.metadata or {}).get(b"PARQUET:field_id")
    if found is not None and int(found) >= 0:
        return True
    kind = field.type
    if pa.types.is_struct(kind):
        return any(_has_field_ids(kind.field(index)) for index in range(kind.num_fields))
    if is_list(kind):
        return _has_field_ids(kind.value_field)
    return pa.types.is_map(kind) and (_has_field_ids(kind.key_field) or _has_field_ids(kind.item_field))


def _old_layout(columns: FileColumns) -> str | None:
    """A problem if a list or map is not stored in the three levels of the parquet specification."""
    leaf = 0
    for field in columns.schema:
        for names in _layouts(field.name, field.type):
            stored = columns.paths[leaf]
            if stored not in names:
                return f"column {field.name} is stored as {stored}, in the layout of old writers"
            leaf += 1
    return None


def _layouts(path: str, data_type: pa.DataType) -> Iterator[frozenset[str]]:
    """For each leaf the paths that the specification gives it."""
    inner: list[tuple[tuple[str, ...], pa.DataType]]
    if is_list(data_type):
        inner = [((f"{path}.list.element", f"{path}.list.item"), data_type.value_type)]
    elif pa.types.is_map(data_type):
        entries = f"{path}.key_value"
        inner = [((f"{entries}.key",), data_type.key_type), ((f"{entries}.value",), data_type.item_type)]
    else:
        inner = [((f"{path}.{name}",), child) for name, child in children(data_type)]
    if not inner:
        yield frozenset((path,))
    for starts, child in inner:
        yield from _merged([list(_layouts(start, child)) for start in starts])


def _merged(alternatives: list[list[frozenset[str]]]) -> Iterator[frozenset[str]]:
    for same_leaf in zip(*alternatives, strict=True):
        yield frozenset().union(*same_leaf)


def old_calendar(footer: Footer, schema: pa.Schema) -> str | None:
    """A problem if the file may have dates or timestamps that only a rebase to the new calendar reads."""
    arrow, paths = footer.columns.arrow, footer.columns.paths
    for name in rebases_of(footer.columns.parquet, arrow, footer.metadata.metadata):
        if name not in schema.names:
            continue
        least = FIRST_COMMON_DAY if pa.types.is_date(arrow.field(name).type) else FIRST_COMMON_MICRO
        limits = column_limits(footer, paths.index(name)) if name in paths else None
        if limits is None or (limits and limits[0] < least):
            return f"column {name} has, or may have, days of the calendar before 1582"
    return None


def column_limits(footer: Footer, leaf: int) -> tuple[Any, Any] | tuple[()] | None:
    """The least and greatest physical value of a leaf; () if all are null, None if that is not known."""
    chunks = footer.chunks(leaf)
    return _limits(chunks, [chunk.statistics for chunk in chunks])


def _limits(chunks: Iterable[Any], statistics: Iterable[Any]) -> tuple[Any, Any] | tuple[()] | None:
    least: list[Any] = []
    greatest: list[Any] = []
    for chunk, of_chunk in zip(chunks, statistics, strict=True):
        if of_chunk is None or chunk.physical_type == "INT96":
            return None
        if of_chunk.has_null_count and of_chunk.null_count == chunk.num_values:
            continue
        if not of_chunk.has_min_max:
            return None
        least.append(of_chunk.min_raw)
        greatest.append(of_chunk.max_raw)
    return (min(least), max(greatest)) if least else ()


def has_only(footer: Footer, leaf: int, value: Any, kind: str | None) -> bool:
    """False if a leaf has other values than this one, by the statistics; True if they do not tell."""
    limits = column_limits(footer, leaf)
    if limits is None or footer.metadata.num_rows == 0:
        return True
    if value is None or not limits:
        return value is None and not limits
    physical = value.toordinal() - EPOCH_ORDINAL if kind == "date" else value
    bounds = _bounds(limits, kind)
    return bounds is None or bounds == _bounds((physical, physical), kind)


def metrics(footer: Footer, schema: pa.Schema, ids: Mapping[str, int]) -> dict[str, Any]:
    """The sizes, counts and bounds of the data file by column id, in the manifest's form."""
    metadata = footer.metadata
    sizes, values, nulls, lower, upper = ({} for _ in range(5))
    types = {field.name: field.type for field in schema}
    for leaf, path in enumerate(footer.columns.paths):
        if path not in ids:
            continue
        column, chunks = ids[path], footer.chunks(leaf)
        sizes[column] = sum([chunk.total_compressed_size for chunk in chunks])
        values[column] = sum([chunk.num_values for chunk in chunks])
        statistics = [chunk.statistics for chunk in chunks]
        if all(of_chunk is not None and of_chunk.has_null_count for of_chunk in statistics):
            nulls[column] = sum([of_chunk.null_count for of_chunk in statistics])
        limits = _limits(chunks, statistics) if path in types else None
        bounds = _bounds(limits, primitive_name(types[path])) if limits else None
        if bounds is not None:
            lower[column] = bounds[0]
            if bounds[1] is not None:
                upper[column] = bounds[1]
    starts = [_chunks_start(metadata.row_group(group)) for group in range(metadata.num_row_groups)]
    metrics_of_columns = {"column_sizes": sizes, "value_counts": values, "null_value_counts": nulls}
    metrics_of_columns |= {"lower_bounds": lower, "upper_bounds": upper}
    entries = {
        name: [{"key": key, "value": value} for key, value in of.items()]
        for name, of in metrics_of_columns.items()
    }
    return {"record_count": metadata.num_rows, "split_offsets": sorted(starts), **entries}


def _chunks_start(group: Any) -> int:
    first = group.column(0)
    dictionary = first.dictionary_page_offset
    return int(min(first.data_page_offset, dictionary) if dictionary else first.data_page_offset)


def _bounds(limits: tuple[Any, ...], kind: str | None) -> tuple[bytes, bytes | None] | None:
    if kind == "string":
        try:
            texts = [limit.decode() if isinstance(limit, bytes) else limit for limit in limits]
        except UnicodeDecodeError:
            # Bytes that are no UTF-8: parquet does not check them.
            return None
        return texts[0][:_TEXT_BOUND].encode(), _upper_text(texts[1])
    if kind is None or kind not in _NUMBER_FORMATS:
        return None
    return single_value(limits[0], kind), single_value(limits[1], kind)


def single_value(value: Any, kind: str) -> bytes:
    """The bytes of one value (days of a date, microseconds of a timestamp) of an Iceberg type."""
    return str(value).encode() if kind == "string" else struct.pack(_NUMBER_FORMATS[kind], value)


def _upper_text(text: str) -> bytes | None:
    """The text, or the least text of 16 characters or fewer that is greater than all with its beginning."""
    if len(text) <= _TEXT_BOUND:
        return text.encode()
    for end in range(_TEXT_BOUND - 1, -1, -1):
        following = ord(text[end]) + 1
        if 0xD800 <= following <= 0xDFFF:
            following = 0xE000
        if following <= 0x10FFFF:
            return (text[:end] + chr(following)).encode()
    return None
