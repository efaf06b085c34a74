"""Verifies all rows of bootstrapped slices: a hash of every column, source against table, as a Spark plan.

Spark's own parquet scan reads the source's external files, and hudisql's slice reader the table from
skeletons and external files, so that two independent readers must agree. Hashes are summed per file, which
needs no join of rows and names the file that differs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from hudisql.bootstrap.source.source_files import TableReadByName
from hudisql.bootstrap.source.table_rows import FILE_COLUMN, path_of_uri, rows_by_name
from hudisql.bootstrap.verify.verify_files import DATA_DIFFERS, Discrepancy
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.meta_columns import FILE_NAME, META_SCHEMA
from hudisql.format.schema.spark_schema import quote_name, spark_type_name
from hudisql.format.timeline.instant import FULL_BOOTSTRAP_INSTANT_TIME
from hudisql.read.files.splits import plan_splits
from hudisql.read.scan.scan_plan import ScannedSlice, ScanPlan
from hudisql.spark.task_errors import spark_job
from hudisql.table.file_slice import BaseFile, ExternalFile, FileSlice
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Rows, bitwise sum and sum of the low halves: together they detect missing, duplicate or other rows.
_Totals = tuple[int, int, int]
_NOTHING: Final[_Totals] = (0, 0, 0)
_FILE: Final = internal_column("file")
_LONGEST_OF_64_BITS: Final = 18  # digits; stored as BYTE_ARRAY, Spark 4's vectorised reader fails on them


def compare_all_rows(
    spark: SparkSession, table: HudiTable, slices: Sequence[ScannedSlice]
) -> list[Discrepancy]:
    """A discrepancy per slice whose rows, all data and partition columns, differ between source and table.

    The slices are bootstrapped ones with whole source files. Raises QueryError or the reader's own error if
    a file cannot be read to its end.
    """
    if not slices:
        return []
    with _comparing(table):
        of_source = _source_totals(spark, table, slices)
        of_table = _table_totals(spark, table, slices, table.schema)
    return [
        discrepancy
        for file_slice, _ in slices
        if (discrepancy := _compare(file_slice, of_source, of_table)) is not None
    ]


def compare_rewritten_rows(
    spark: SparkSession,
    table: HudiTable,
    slices: Sequence[ScannedSlice],
    sources: Mapping[str, Sequence[ExternalFile]],
    source_table: TableReadByName | None = None,
) -> list[str]:
    """The partition paths whose rows differ between `sources` and the base files of `slices`.

    Only Spark reads the files of `source_table`.

    Raises QueryError or the reader's own error if a file cannot be read to its end.
    """
    values = {file_slice.partition_path: partition_values for file_slice, partition_values in slices}
    external = [
        (_slice_of_source(path, number, file), values[path])
        for path, files in sources.items()
        for number, file in enumerate(files)
        if path in values
    ]
    if not external:
        return []
    partitions = {
        file_slice.external_file.path: file_slice.partition_path
        for file_slice, _ in external
        if file_slice.external_file
    }
    names = {
        file_slice.base_file.path.rsplit("/", 1)[-1]: file_slice.partition_path
        for file_slice, _ in slices
        if file_slice.base_file
    }
    with _comparing(table):
        if source_table is None:
            of_files = _source_totals(spark, table, external)
            of_table = _table_totals(spark, table, slices, table.schema)
        else:
            # Its file tells a row's partition; Spark gives other values for NULL partitions of some formats.
            partition_names = {column.name for column in table.partition_columns}
            columns = pa.schema([field for field in table.schema if field.name not in partition_names])
            of_files = _totals_by_name(spark, table, source_table, columns, partitions)
            of_table = _table_totals(spark, table, slices, columns)
        of_source = _added_up(of_files, partitions)
        of_table = _added_up(of_table, names)
    paths = sorted(of_source.keys() | of_table.keys())
    return [path for path in paths if of_source.get(path, _NOTHING) != of_table.get(path, _NOTHING)]


def _comparing(table: HudiTable) -> AbstractContextManager[None]:
    return spark_job(
        f"the rows of {table.base_path} cannot be compared",
        hint="level => 'sample' compares rows without Spark, whose reader does not support nanoseconds",
    )


def _slice_of_source(partition_path: str, number: int, file: ExternalFile) -> FileSlice:
    """The source file as its own slice: only its data columns are read."""
    file_id = f"{partition_path}-{number}"
    base_file = BaseFile(file.path, file.length, file_id, "0-0-0", FULL_BOOTSTRAP_INSTANT_TIME)
    return FileSlice(partition_path, file_id, FULL_BOOTSTRAP_INSTANT_TIME, base_file, external_file=file)


def _added_up(totals: Mapping[str, _Totals], partition_of: Mapping[str, str]) -> dict[str, _Totals]:
    """The totals of files summed per partition."""
    found: dict[str, _Totals] = {}
    for file, (rows, bits, low) in totals.items():
        before = found.get(partition_of[file], _NOTHING)
        found[partition_of[file]] = (before[0] + rows, before[1] ^ bits, before[2] + low)
    return found


def _compare(
    file_slice: FileSlice, of_source: Mapping[str, _Totals], of_table: Mapping[str, _Totals]
) -> Discrepancy | None:
    assert file_slice.external_file is not None
    assert file_slice.base_file is not None
    source_path = file_slice.external_file.path
    source = of_source.get(source_path, _NOTHING)
    shown = of_table.get(file_slice.base_file.path.rsplit("/", 1)[-1], _NOTHING)
    if source == shown:
        return None
    detail = (
        f"the source has {source[0]:,} rows, the table shows {shown[0]:,}"
        if source[0] != shown[0]
        else f"the {source[0]:,} rows do not have the same values in source and table"
    )
    return Discrepancy(DATA_DIFFERS, file_slice.partition_path, source_path, detail)


def _source_totals(
    spark: SparkSession, table: HudiTable, slices: Sequence[ScannedSlice]
) -> dict[str, _Totals]:
    from pyspark.sql import functions

    from hudisql.read.scan.native_scan import native_dataframe

    rows = native_dataframe(spark, _plan(spark, table, slices, table.schema))
    totals = _totals(rows, functions.input_file_name(), table.schema)
    return {table.storage.qualify(unquote(uri)): found for uri, found in totals.items()}


def _totals_by_name(
    spark: SparkSession,
    table: HudiTable,
    source: TableReadByName,
    columns: pa.Schema,
    known: Container[str],
) -> dict[str, _Totals]:
    """The totals of the `known` files of a source table that only Spark reads."""
    from pyspark.sql import functions

    rows = rows_by_name(spark, source, columns.names)
    # A hash depends on the type: smaller integers are ints in the table.
    typed = [
        functions.col(quote_name(column.name)).cast(spark_type_name(column.type)).alias(column.name)
        for column in columns
    ]
    file = functions.col(quote_name(FILE_COLUMN))
    totals = _totals(rows.select(*typed, file), file, columns)
    by_path = {path_of_uri(table.storage, uri, known): found for uri, found in totals.items()}
    return {path: found for path, found in by_path.items() if path in known}


def _table_totals(
    spark: SparkSession, table: HudiTable, slices: Sequence[ScannedSlice], columns: pa.Schema
) -> dict[str, _Totals]:
    from pyspark.sql import functions

    from hudisql.read.scan.arrow_scan import arrow_dataframe

    read = pa.schema([META_SCHEMA.field(FILE_NAME), *columns])
    rows = arrow_dataframe(spark, _plan(spark, table, slices, read))
    return _totals(rows, functions.col(FILE_NAME), columns)


def _plan(
    spark: SparkSession, table: HudiTable, slices: Sequence[ScannedSlice], columns: pa.Schema
) -> ScanPlan:
    partitions = len({file_slice.partition_path for file_slice, _ in slices})
    return ScanPlan(
        base_path=table.base_path,
        storage=table.storage,
        mode="stitched",
        output_schema=table.full_schema,
        columns=columns,
        partition_columns=table.partition_columns,
        predicate=None,
        partition_predicate=None,
        partitions_read=partitions,
        partitions_total=partitions,
        slices=tuple(slices),
        slices_total=None,
        tasks=plan_splits(slices, needs_data=True, parallelism=spark.sparkContext.defaultParallelism),
        splits_total=None,
        # The source of a rewritten partition may contain what the table's properties no longer describe.
        is_vectorized=not any(_holds_short_decimal(field.type) for field in table.schema),
    )


def _totals(rows: DataFrame, file: Any, schema: pa.Schema) -> dict[str, _Totals]:
    from pyspark.sql import functions

    columns = [_hashable(field) for field in schema]
    hashed = rows.select(file.alias(_FILE), functions.xxhash64(*columns).alias("hash"))
    summed = hashed.groupBy(_FILE).agg(
        functions.count("*").alias("rows"),
        functions.bit_xor("hash").alias("bits"),
        functions.sum(functions.col("hash").bitwiseAND(0xFFFFFFFF)).alias("low"),
    )
    return {row[0] or "": (row[1], row[2], row[3]) for row in summed.collect()}


def _hashable(field: pa.Field) -> Any:
    from pyspark.sql import functions

    column = functions.col(quote_name(field.name))
    # Spark cannot hash maps; their text has the entries in their order.
    return column.cast("string") if _holds_map(field.type) else column


def _holds_short_decimal(data_type: pa.DataType) -> bool:
    if pa.types.is_decimal(data_type):
        return bool(data_type.precision <= _LONGEST_OF_64_BITS)
    if pa.types.is_map(data_type):
        return _holds_short_decimal(data_type.key_type) or _holds_short_decimal(data_type.item_type)
    if pa.types.is_struct(data_type):
        return any(_holds_short_decimal(child.type) for child in data_type)
    return bool(pa.types.is_list(data_type) and _holds_short_decimal(data_type.value_type))


def _holds_map(data_type: pa.DataType) -> bool:
    if pa.types.is_map(data_type):
        return True
    if pa.types.is_struct(data_type):
        return any(_holds_map(child.type) for child in data_type)
    return pa.types.is_list(data_type) and _holds_map(data_type.value_type)
