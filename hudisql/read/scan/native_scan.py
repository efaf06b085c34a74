"""Run a scan plan by Spark's own vectorised parquet scan over exactly the plan's files.

All use of Spark's internal classes through py4j is in this module: a HadoopFsRelation over an
InMemoryFileIndex of just these files with given partition values, so that partition filters still prune. If
Spark lacks the classes (another version, missing jars of a store), the slice reader gives the same rows;
callers that need Spark's own reader get an error.
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

from hudisql.errors import QueryError, SourceChangedError
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.spark_schema import spark_json_from_arrow
from hudisql.read.scan.arrow_scan import complete_columns, spark_struct
from hudisql.read.scan.scan_method import has_floats_in_structs
from hudisql.spark.few_rows import local_frame
from hudisql.spark.jvm import executed_plan, java_class, java_session
from hudisql.spark.versions import metadata_column, sequence_of_array
from hudisql.storage import parent_of, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from hudisql.read.scan.table_scan import ScanPlan

_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_PYTHON_UTILS = "org.apache.spark.api.python.PythonUtils"
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
_OPTIONS = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "mergeSchema": "false"}


def native_dataframe(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The rows of the plan's files by Spark's parquet scan; see `scan_to_dataframe` for the columns.

    Raises QueryError if this Spark cannot scan the files, SourceChangedError if some are gone.
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
        """The rows by a condition on `_metadata`. Raises SourceChangedError if a file's length has
        changed.
        """
        if self._index.sizeInBytes() != sum(self._plan.scanned_bytes()):
            raise SourceChangedError(f"files of {self._plan.base_path} have other lengths than planned")
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

    paths = plan.scanned_files()
    directories = {
        parent_of(path): tuple(values[name] for name in partition_names)
        for path, (_, values) in zip(paths, plan.slices, strict=True)
    }
    j_partition_schema = _java_struct(spark, partition_schema)
    j_file_schema = _java_struct(spark, file_schema)
    options = _scala_map(spark, _OPTIONS)
    option = java_class(spark, "scala.Option")
    index = java_class(spark, f"{_DATASOURCES}.InMemoryFileIndex")(
        scanning,
        # The roots are the files themselves, so that a refresh of the index finds only these.
        _hadoop_paths(spark, [plan.storage.hadoop_uri(path) for path in paths]),
        options,
        option.apply(j_file_schema),
        java_class(spark, f"{_DATASOURCES}.FileStatusCache").getOrCreate(session),
        option.apply(_partition_spec(spark, plan, directories, partition_schema, j_partition_schema)),
        option.empty(),
    )
    if index.allFiles().size() != len(paths):
        raise SourceChangedError(f"files of {plan.base_path} vanished while the query was planned")
    relation = java_class(spark, f"{_DATASOURCES}.HadoopFsRelation")(
        index,
        j_partition_schema,
        j_file_schema,
        option.empty(),
        java_class(spark, f"{_DATASOURCES}.parquet.ParquetFileFormat")(),
        options,
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

    Files are listed on the driver: Spark by default starts a job for 32 paths or more. Filters on decimals do
    not skip row groups: if a file's decimal has fewer digits than the table's, Spark fails on values that do
    not fit. If structs have floats, no filter skips row groups (see `_floating`). INT96 timestamps are taken
    as UTC, as the slice reader takes them.
    """
    scanning = session.cloneSession()
    configuration = scanning.sessionState().conf()
    configuration.setConfString("spark.sql.sources.parallelPartitionDiscovery.threshold", "1000000000")
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


def _hadoop_paths(spark: SparkSession, uris: list[str]) -> Any:
    # A few calls for any number of paths, since py4j's round trips are slow.
    strings = java_class(spark, "org.apache.hadoop.util.StringUtils")
    j_paths = strings.stringToPath(strings.getStrings("\0".join(uris), "\0"))
    return sequence_of_array(spark, j_paths)


def _partition_spec(
    spark: SparkSession,
    plan: ScanPlan,
    directories: Mapping[str, tuple[object, ...]],
    schema: pa.Schema,
    j_schema: Any,
) -> Any:
    j_partitions = java_class(spark, "java.util.ArrayList")()
    if schema.names:
        columns = [
            pa.array([values[position] for values in directories.values()], field.type)
            for position, field in enumerate(schema)
        ]
        # Spark converts the typed values to its internal rows itself, all at once.
        frame = local_frame(spark, pa.Table.from_arrays(columns, schema=schema), spark_struct(schema))
        rows = executed_plan(frame).executeCollect()
        partition_path = java_class(spark, f"{_DATASOURCES}.PartitionPath")
        hadoop_path = java_class(spark, "org.apache.hadoop.fs.Path")
        for row, directory in zip(rows, directories, strict=True):
            j_partitions.add(partition_path(row, hadoop_path(plan.storage.hadoop_uri(directory))))
    j_sequence = java_class(spark, _PYTHON_UTILS).toSeq(j_partitions)
    return java_class(spark, f"{_DATASOURCES}.PartitionSpec")(j_schema, j_sequence)


def _java_struct(spark: SparkSession, schema: pa.Schema) -> Any:
    return java_class(spark, "org.apache.spark.sql.types.StructType").fromJson(spark_json_from_arrow(schema))


def _scala_map(spark: SparkSession, items: Mapping[str, str]) -> Any:
    j_map = java_class(spark, "java.util.HashMap")()
    for key, value in items.items():
        j_map.put(key, value)
    return java_class(spark, _PYTHON_UTILS).toScalaMap(j_map)


def _subset(schema: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])
