"""File slices that a MERGE need not read: the bloom filters of their footers know none of its source's keys.

Takes what the target's columns must be (`match_values`) apart into record keys and partitions. The footers
are `write.index.key_lookup`'s matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.read.predicates import InSet, Predicate, split_conjuncts
from hudisql.table.hudi_table import HudiTable
from hudisql.write.index.key_encoding import uses_complex_key_encoding
from hudisql.write.index.key_lookup import prune_by_bloom_filter
from hudisql.write.keygen.record_keys import render_record_keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# More of them hardly ever miss a file.
_MOST_KEYS: Final = 20_000


def prune_by_key_lookup(
    spark: SparkSession, table: HudiTable, predicate: Predicate
) -> frozenset[tuple[str, str]]:
    """(partition path, file id) of slices that hold no row for which the predicate is TRUE.

    Nothing is asked unless it names all values of the table's only record key column, and not too many.
    Raises CorruptTableError, StorageError.
    """
    values = {part.column: part.values for part in split_conjuncts(predicate) if isinstance(part, InSet)}
    names = table.properties.record_key_fields
    keys = values.get(names) if len(names) == 1 else None
    if keys is None or not len(keys) or len(keys) > _MOST_KEYS:
        return frozenset()
    rows = pa.record_batch([keys], names=list(names))
    texts = render_record_keys(rows, names, complex_keys=uses_complex_key_encoding(table)).keys
    partitions = {
        column.name: frozenset(values[(column.name,)].to_pylist())
        for column in table.partition_columns
        if (column.name,) in values
    }
    return prune_by_bloom_filter(spark, table, texts, partitions)
