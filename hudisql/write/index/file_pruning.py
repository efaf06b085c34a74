"""File pruning for MERGE: slices that hold none of the source's record keys are not read.

The record index of the table's metadata table tells it, otherwise the footers of the base files. Follows
`HoodieBloomIndex` of Hudi 0.15. The record keys and partitions come from the predicate that the source
implies for the target's columns (`sql.dml.runtime_filter`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.format.keys.record_keys import render_record_keys
from hudisql.format.paths.file_names import FileGroup
from hudisql.read.files.predicates import (
    In,
    InSet,
    IsNull,
    Or,
    Predicate,
    conjunction,
    split_conjuncts,
)
from hudisql.read.scan.partition_pruning import candidate_partitions
from hudisql.read.scan.record_skipping import (
    ANY_GROUP,
    MOST_PARTITIONS,
    LookedUpGroups,
    look_up_groups,
    record_index_of,
)
from hudisql.spark.python_worker import freeze_loaded_modules
from hudisql.spark.task_errors import carry_errors, spark_job
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, list_partitions
from hudisql.write.index.slice_key_lookup import possible_keys, read_key_footer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# With more keys hardly any file is pruned.
_MOST_KEYS: Final = 20_000
_MOST_KEYS_IN_PARTITIONS: Final = 1_000_000
_FEWEST_SLICES_TO_PRUNE: Final = 4


def prune_by_key_lookup(spark: SparkSession, table: HudiTable, predicate: Predicate) -> LookedUpGroups:
    """The file groups that may have rows for which the predicate is TRUE.

    Prunes only if the predicate names all values of the table's only record key column, and not too many.
    Raises CorruptTableError, StorageError.
    """
    values = {part.column: part.values for part in split_conjuncts(predicate) if isinstance(part, InSet)}
    names = table.properties.record_key_fields
    keys = values.get(names) if len(names) == 1 else None
    # Two texts, -0.0 and 0.0, are one number.
    if keys is None or not len(keys) or len(keys) > _MOST_KEYS or pa.types.is_floating(keys.type):
        return ANY_GROUP
    rows = pa.record_batch([keys], names=list(names))
    # Writers of several Hudi versions may have mixed both forms.
    forms = [render_record_keys(rows, names, complex_keys=is_pair).keys for is_pair in (False, True)]
    partitions = {
        column.name: known
        for column in table.partition_columns
        if (known := _known_values(values.get((column.name,)))) is not None
    }
    groups = _groups_by_index(table, forms, partitions)
    if groups is not None:
        return LookedUpGroups(only=groups)
    return LookedUpGroups(without=prune_by_bloom_filter(spark, table, pa.concat_arrays(forms), partitions))


def _known_values(values: pa.Array | None) -> frozenset[object] | None:
    """The values of a partition column; None if they are not known, or beyond the range of Python's dates."""
    try:
        return None if values is None else frozenset(values.to_pylist())
    except (OverflowError, ValueError):
        return None


def _groups_by_index(
    table: HudiTable, forms: Sequence[pa.StringArray], values: Mapping[str, Collection[object]]
) -> frozenset[FileGroup] | None:
    """The file groups that may have the keys by the table's record index; None if it does not tell them.

    A partitioned one is asked in the partitions with these values of partition columns, and if not all
    columns have some only in a few partitions.
    """
    metadata = record_index_of(table)
    if metadata is not None:
        return look_up_groups(metadata, forms)
    metadata = record_index_of(table, is_global=False)
    if metadata is None:
        return None
    paths = [partition.path for partition in _partitions_with(table, values)]
    is_known, asked = len(values) == len(table.partition_columns), sum(map(len, forms)) * len(paths)
    if asked > _MOST_KEYS_IN_PARTITIONS or (not is_known and len(paths) > MOST_PARTITIONS):
        return None
    return look_up_groups(metadata, forms, paths)


def prune_by_bloom_filter(
    spark: SparkSession, table: HudiTable, keys: pa.StringArray, values: Mapping[str, Collection[object]]
) -> frozenset[tuple[str, str]]:
    """(partition path, file id) of the slices whose footers exclude all of these record keys.

    `values` restricts the partitions: partitions with other values and slices with log files are not checked.
    Prunes nothing if there are only a few slices. Raises CorruptTableError, StorageError.
    """
    partitions = _partitions_with(table, values)
    slices = [
        file_slice
        for file_slice in load_file_slices(table, partitions)
        if file_slice.base_file is not None and not file_slice.has_log_files
    ]
    if len(slices) < _FEWEST_SLICES_TO_PRUNE:
        return frozenset()
    tasks = min(len(slices), 4 * spark.sparkContext.defaultParallelism)
    paths = [file_slice.base_file.path for file_slice in slices if file_slice.base_file is not None]
    storage = table.storage

    def rule_out(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                numbers = range(task, len(paths), tasks)
                footers = carry_errors(read_key_footer(storage, paths[number]) for number in numbers)
                ruled_out = [
                    number
                    for number, footer in zip(numbers, footers, strict=True)
                    if not len(possible_keys(footer, keys))
                ]
                yield pa.record_batch([pa.array(ruled_out, pa.int64())], names=["slice"])
        freeze_loaded_modules()

    positions = spark.range(0, tasks, 1, numPartitions=tasks)
    with spark_job("cannot read the footers of the table's files"):
        found = [slices[row[0]] for row in positions.mapInArrow(rule_out, "slice bigint").collect()]
    return frozenset(each.file_group for each in found)


def _partitions_with(table: HudiTable, values: Mapping[str, Collection[object]]) -> list[TablePartition]:
    """The partitions with these values of these partition columns."""
    schema = pa.schema(table.partition_columns)
    names = [name for name in schema.names if name in values]
    of_values = conjunction(_is_among(name, values[name]) for name in names)
    partitions = list_partitions(table) if of_values is None else candidate_partitions(table, of_values)
    positions = [schema.get_field_index(name) for name in names]
    return [
        partition
        for partition in partitions
        if all(
            partition.values[position] in values[name]
            for name, position in zip(names, positions, strict=True)
        )
    ]


def _is_among(name: str, values: Collection[object]) -> Predicate:
    present = In((name,), tuple(value for value in values if value is not None))
    return Or((present, IsNull((name,)))) if None in values else present
