"""Spark's index of exactly the files that a plan scans.

An InMemoryFileIndex with the plan's files and partition values. Spark would look at each file on the driver,
one after the other; the plan knows the files' lengths from its own listings, so the index is given them. On
HDFS Spark asks for the files itself, since it then also gets the hosts of their blocks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.errors import SourceChangedError
from hudisql.format.schema.spark_schema import spark_json_from_arrow
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.spark.few_rows import local_frame
from hudisql.spark.jvm import executed_plan, java_class, scala_object
from hudisql.spark.versions import sequence_of_array
from hudisql.storage import parent_of, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudisql.read.scan.scan_plan import ScanPlan

DATASOURCES: Final = "org.apache.spark.sql.execution.datasources"
_PYTHON_UTILS: Final = "org.apache.spark.api.python.PythonUtils"
_JACKSON: Final = "com.fasterxml.jackson"
_BLOCK_BYTES: Final = 128 << 20
_CACHE_BYTES: Final = (1 << 63) - 1
_CACHE_FOREVER: Final = -1
READ_OPTIONS: Final = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "mergeSchema": "false"}


def planned_file_index(
    spark: SparkSession, scanning: Any, plan: ScanPlan, file_schema: pa.Schema, partition_schema: pa.Schema
) -> Any:
    """The InMemoryFileIndex of the plan's `scanned_files` in the JVM's session `scanning`.

    A refresh of the index finds the same files. Raises SourceChangedError if Spark finds other files than
    the plan has; Py4JError, AttributeError or TypeError if this Spark lacks the classes.
    """
    paths = plan.scanned_files()
    roots = _hadoop_paths(spark, [plan.storage.hadoop_uri(path) for path in paths])
    asks_spark = any(scheme_of(path) == "hdfs" for path in paths)
    # A listing of the base path is found in the cache, and has all files.
    listed = roots if asks_spark else _hadoop_paths(spark, [plan.storage.hadoop_uri(plan.base_path)])
    option = java_class(spark, "scala.Option")
    j_partition_schema = java_struct(spark, partition_schema)
    index = java_class(spark, f"{DATASOURCES}.InMemoryFileIndex")(
        scanning,
        listed,
        scala_map(spark, READ_OPTIONS),
        option.apply(java_struct(spark, file_schema)),
        scala_object(spark, f"{DATASOURCES}.NoopCache")
        if asks_spark
        else _planned_cache(spark, plan, paths, listed.head()),
        option.apply(_partition_spec(spark, plan, paths, partition_schema, j_partition_schema)),
        option.empty(),
    )
    if not asks_spark:
        _set_field(index, "rootPaths", roots)
    if index.allFiles().size() != len(paths):
        raise SourceChangedError(f"files of {plan.base_path} vanished while the query was planned")
    if asks_spark and index.sizeInBytes() != sum(plan.scanned_bytes()):
        raise SourceChangedError(f"files of {plan.base_path} have other lengths than planned")
    return index


def _planned_cache(spark: SparkSession, plan: ScanPlan, paths: Sequence[str], root: Any) -> Any:
    """A FileStatusCache in which the plan's files are the listing of `root`."""
    shared = java_class(spark, f"{DATASOURCES}.SharedInMemoryCache")(_CACHE_BYTES, _CACHE_FOREVER)
    cache = shared.createForNewClient()
    cache.putLeafFiles(root, _file_statuses(spark, plan, paths))
    return cache


def _file_statuses(spark: SparkSession, plan: ScanPlan, paths: Sequence[str]) -> Any:
    """A Java array with Hadoop's FileStatus of each file.

    All in one call, as JSON that Jackson puts into the fields, since py4j's round trips are slow.
    """
    described = [
        {
            "path": plan.storage.hadoop_uri(path),
            "length": length,
            "isdir": False,
            "block_replication": 1,
            "blocksize": _BLOCK_BYTES,
        }
        for path, length in zip(paths, plan.scanned_bytes(), strict=True)
    ]
    return _field_mapper(spark).readValue(json.dumps(described), _array_class(spark, "fs.FileStatus"))


def _field_mapper(spark: SparkSession) -> Any:
    """A Jackson mapper that sets fields and calls no setters."""
    mapper = java_class(spark, f"{_JACKSON}.databind.ObjectMapper")()
    accessor = java_class(spark, f"{_JACKSON}.annotation.PropertyAccessor")
    visibility = java_class(spark, f"{_JACKSON}.annotation.JsonAutoDetect$Visibility")
    for kind in ("SETTER", "GETTER", "IS_GETTER"):
        mapper.setVisibility(getattr(accessor, kind), visibility.NONE)
    mapper.setVisibility(accessor.FIELD, visibility.ANY)
    return mapper


def _array_class(spark: SparkSession, name: str) -> Any:
    return java_class(spark, "java.lang.Class").forName(f"[Lorg.apache.hadoop.{name};")


def _set_field(target: Any, name: str, value: Any) -> None:
    declared = target.getClass().getDeclaredField(name)
    declared.setAccessible(True)
    declared.set(target, value)


def _hadoop_paths(spark: SparkSession, uris: Sequence[str]) -> Any:
    """Scala's sequence of Hadoop's paths, by a few calls for any number of them."""
    strings = java_class(spark, "org.apache.hadoop.util.StringUtils")
    j_paths = strings.stringToPath(strings.getStrings("\0".join(uris), "\0"))
    return sequence_of_array(spark, j_paths)


def _partition_spec(
    spark: SparkSession, plan: ScanPlan, paths: Sequence[str], schema: pa.Schema, j_schema: Any
) -> Any:
    """The partition values of each directory that holds files of the plan."""
    directories = {
        parent_of(path): tuple(values[name] for name in schema.names)
        for path, (_, values) in zip(paths, plan.slices, strict=True)
    }
    j_partitions = java_class(spark, "java.util.ArrayList")()
    if schema.names:
        columns = [
            pa.array([values[position] for values in directories.values()], field.type)
            for position, field in enumerate(schema)
        ]
        # Spark converts the typed values to its internal rows itself, all at once.
        frame = local_frame(spark, pa.Table.from_arrays(columns, schema=schema), spark_struct(schema))
        rows = executed_plan(frame).executeCollect()
        partition_path = java_class(spark, f"{DATASOURCES}.PartitionPath")
        hadoop_path = java_class(spark, "org.apache.hadoop.fs.Path")
        for row, directory in zip(rows, directories, strict=True):
            j_partitions.add(partition_path(row, hadoop_path(plan.storage.hadoop_uri(directory))))
    j_sequence = java_class(spark, _PYTHON_UTILS).toSeq(j_partitions)
    return java_class(spark, f"{DATASOURCES}.PartitionSpec")(j_schema, j_sequence)


def java_struct(spark: SparkSession, schema: pa.Schema) -> Any:
    """The Arrow schema as the JVM's StructType."""
    return java_class(spark, "org.apache.spark.sql.types.StructType").fromJson(spark_json_from_arrow(schema))


def scala_map(spark: SparkSession, items: Mapping[str, str]) -> Any:
    """Scala's map of the items."""
    j_map = java_class(spark, "java.util.HashMap")()
    for key, value in items.items():
        j_map.put(key, value)
    return java_class(spark, _PYTHON_UTILS).toScalaMap(j_map)
