"""Run a scan plan by Spark's own vectorised parquet scan over exactly the plan's files.

A HadoopFsRelation over `file_index`, so that partition filters still prune. If Spark lacks the internal
classes (another version, missing jars of a store), the slice reader gives the same rows; callers that need
Spark's own reader get an error.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import QueryError
from hudisql.format.schema.internal_columns import internal_column
from hudisql.read.scan.arrow_scan import complete_columns, spark_struct
from hudisql.read.scan.file_index import DATASOURCES, READ_OPTIONS, java_struct, planned_file_index, scala_map
from hudisql.read.scan.scan_method import has_floats_in_structs
from hudisql.spark.jvm import java_class, java_session
from hudisql.spark.versions import metadata_column
from hudisql.storage import scheme_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from hudisql.read.scan.scan_plan import ScanPlan

_NO_FILE_SYSTEM: Final = re.compile(
    r"No FileSystem for scheme"
    r"|(?:ClassNotFoundException|NoClassDefFoundError): (?:Class )?(?:org[./]apache[./]hadoop|software)[./]"
)
# Spark knows only `s3a`, while metastores of other engines use `s3` for the same store.
_ONE_TASK_FILES: Final = 4
_ONE_TASK_BYTES: Final = 4 << 20
_S3_ALIASES: Final = frozenset({"s3", "s3n"})
_S3_FILE_SYSTEM: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_ROW: Final = internal_column("row")
_POSITION_BITS: Final = 32


def native_dataframe(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The rows of the plan's files by Spark's parquet scan; see `scan_to_dataframe` for the columns.

    Raises QueryError if this Spark cannot scan the files, SourceChangedError if some are known to be gone.
    """
    names = _names_in_files(plan)
    if not plan.slices:
        empty = spark.createDataFrame([], spark_struct(_subset(plan.output_schema, names)))
        return complete_columns(empty, plan, names)
    frame, _ = _scan_files(spark, plan, names)
    whole = complete_columns(frame, plan, names, unpushable=_floating(plan, names))
    return whole.coalesce(1) if _is_small(plan) else whole


@dataclass(frozen=True)
class ScannedFiles:
    """All rows of a plan's files, with Spark's `_metadata` column."""

    frame: DataFrame
    _spark: SparkSession
    _plan: ScanPlan
    _index: Any

    def where(self, condition: Callable[[Column], Column]) -> DataFrame:
        """The rows by a condition on `_metadata`."""
        return self.frame.where(condition(self._metadata))

    def without(self, replaced: Callable[[Mapping[str, int]], DataFrame]) -> DataFrame:
        """The rows except those in `replaced`, whose only column has one long for each row.

        `replaced` gets a number for each of the plan's files, by path; a row's long is `number << 32 |
        position in the file`. Raises QueryError if two files have the same number.
        """
        from pyspark.sql import functions

        uris = _uris(self._spark, self._plan, self._index)
        numbers = {path: zlib.crc32(uri.encode()) for path, uri in uris.items()}
        if len(set(numbers.values())) < len(numbers):
            raise QueryError("two files of the scan have the same checksum of their paths")
        number = functions.shiftleft(functions.crc32(self._metadata["file_path"]), _POSITION_BITS)
        numbered = self.frame.withColumn(_ROW, number.bitwiseOR(self._metadata["row_index"]))
        left = functions.broadcast(replaced(numbers).toDF(_ROW))
        return numbered.join(left, _ROW, "left_anti").drop(_ROW)

    @property
    def _metadata(self) -> Column:
        # A column of the table may have this name, too.
        return metadata_column(self.frame, "_metadata")


def native_dataframe_of(
    spark: SparkSession, plan: ScanPlan, choose: Callable[[ScannedFiles], DataFrame]
) -> DataFrame:
    """As `native_dataframe`, with the rows that `choose` selects."""
    names = _names_in_files(plan)
    frame, index = _scan_files(spark, plan, names)
    chosen = choose(ScannedFiles(frame, spark, plan, index))
    return complete_columns(chosen, plan, names, unpushable=_floating(plan, names))


def replaced_rows_of(number: int, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The longs of these rows of the file with this number."""
    return (np.int64(number) << _POSITION_BITS) | positions


def _names_in_files(plan: ScanPlan) -> list[str]:
    """The columns of the plan that its files and partitions have, in order.

    All data columns are listed, and Spark reads those that the query needs. Meta columns are listed only if
    they are needed, since external files have none.
    """
    from hudisql.format.schema.meta_columns import META_COLUMNS

    wanted = set(plan.columns.names)
    partition_names = {field.name for field in plan.partition_columns}
    needs_data = plan.needs_data or not wanted & set(META_COLUMNS)
    return [
        name
        for name in plan.output_schema.names
        if (name in wanted if name in META_COLUMNS else needs_data or name in partition_names)
    ]


def _scan_files(spark: SparkSession, plan: ScanPlan, names: list[str]) -> tuple[DataFrame, Any]:
    """The files' rows, and Spark's index of the files."""
    from py4j.protocol import Py4JError

    try:
        return _file_relation(spark, plan, names)
    except (Py4JError, AttributeError, TypeError) as error:
        raise _describe_failure(spark, plan, error) from error


def _describe_failure(spark: SparkSession, plan: ScanPlan, error: Exception) -> QueryError:
    """The message about what Spark lacks; for a store's file system the hint with the setting."""
    from py4j.protocol import Py4JJavaError

    if not isinstance(error, Py4JJavaError):
        return QueryError(
            f"Spark's parquet scan cannot be used with this version of Spark ({type(error).__name__})"
        )
    text = str(error.java_exception.toString())
    files = plan.scanned_files()
    path = next((file for file in files if scheme_of(file)), files[0])
    if _NO_FILE_SYSTEM.search(text) is None:
        return QueryError(f"Spark's parquet scan cannot open files such as {path}: {text.splitlines()[0]}")
    what = f"Spark has no file system for {scheme_of(path)}:// paths such as {path}"
    if not scheme_of(path).startswith("s3"):
        return QueryError(f"{what} ({text.splitlines()[0]})")
    version = java_class(spark, "org.apache.hadoop.util.VersionInfo").getVersion()
    return QueryError(
        what, hint=f"start with --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:{version}"
    )


def _floating(plan: ScanPlan, names: list[str]) -> list[str]:
    """The columns by which Spark must not skip row groups.

    Files written by parquet-cpp, parquet-rs and others leave NaN out of their statistics, but for Spark SQL
    NaN is greater than any number: a pushed `x > 3` would lose rows.
    """
    return [
        field.name for field in plan.output_schema if field.name in names and pa.types.is_floating(field.type)
    ]


def _is_small(plan: ScanPlan) -> bool:
    """True if one task reads the files faster than several tasks would with their overhead."""
    total = sum(file_slice.length for file_slice, _ in plan.slices)
    return len(plan.slices) <= _ONE_TASK_FILES and total <= _ONE_TASK_BYTES


def _file_relation(spark: SparkSession, plan: ScanPlan, names: list[str]) -> tuple[DataFrame, Any]:
    from pyspark.sql import DataFrame

    session = java_session(spark)
    scanning = _scan_session(session, plan)
    partition_names = [field.name for field in plan.partition_columns]
    file_schema = _subset(plan.output_schema, [name for name in names if name not in partition_names])
    partition_schema = pa.schema(plan.partition_columns)

    index = planned_file_index(spark, scanning, plan, file_schema, partition_schema)
    relation = java_class(spark, f"{DATASOURCES}.HadoopFsRelation")(
        index,
        java_struct(spark, partition_schema),
        java_struct(spark, file_schema),
        java_class(spark, "scala.Option").empty(),
        java_class(spark, f"{DATASOURCES}.parquet.ParquetFileFormat")(),
        scala_map(spark, READ_OPTIONS),
        scanning,
    )
    return DataFrame(session.baseRelationToDataFrame(relation), spark), index


def _uris(spark: SparkSession, plan: ScanPlan, index: Any) -> dict[str, str]:
    """Each file's URI as `_metadata.file_path` has it, by its path."""
    strings = java_class(spark, "org.apache.hadoop.util.StringUtils")
    listed = str(strings.join("\0", index.inputFiles())).split("\0")
    # For local files `_metadata` has Hadoop's form, with one slash.
    uris = {unquote(uri): uri for uri in (re.sub("^file:///", "file:/", each) for each in listed)}
    found = {path: uris.get(plan.storage.hadoop_uri(path)) for path in plan.scanned_files()}
    unknown = [path for path, uri in found.items() if uri is None]
    if unknown:
        raise QueryError(f"Spark's file index has another name for {unknown[0]}")
    return {path: uri for path, uri in found.items() if uri is not None}


def _scan_session(session: Any, plan: ScanPlan) -> Any:
    """A copy of the user's session that differs in how parquet files are found, listed and filtered.

    Where Spark asks for the files itself, it starts a job for many of them only: by default for 32. Filters
    on decimals do not skip row groups: if a file's decimal has fewer digits than the table's, Spark fails on
    values that do not fit. If structs have floats, no filter skips row groups (see `_floating`). INT96
    timestamps are taken as UTC, as the slice reader takes them.
    """
    scanning = session.cloneSession()
    configuration = scanning.sessionState().conf()
    configuration.setConfString("spark.sql.sources.parallelPartitionDiscovery.threshold", "1000")
    configuration.setConfString("spark.sql.parquet.filterPushdown.decimal", "false")
    if has_floats_in_structs(plan.columns):
        configuration.setConfString("spark.sql.parquet.filterPushdown", "false")
    configuration.setConfString("spark.sql.parquet.int96TimestampConversion", "false")
    # A struct is not NULL because the file lacks the requested members.
    configuration.setConfString("spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing", "false")
    schemes = {scheme_of(path) for path in plan.scanned_files()}
    for setting in (f"fs.{scheme}.impl" for scheme in _S3_ALIASES & schemes):
        if session.sessionState().newHadoopConf().get(setting) is None:
            configuration.setConfString(setting, _S3_FILE_SYSTEM)
    if not plan.is_vectorized:
        configuration.setConfString("spark.sql.parquet.enableVectorizedReader", "false")
    return scanning


def _subset(schema: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])
