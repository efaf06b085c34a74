"""Partitions that ALTER TABLE … ADD PARTITION has added to the metastore before they hold rows.

A sync drops other partitions without rows, which are dropped ones and those of failed writes. An added one
has a mark among its properties until a sync finds rows in it. Knows no SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_table import MetastorePartition, MetastoreTable
from hudisql.catalog.sync_entries import wanted_partition
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition

_ADDED: Final = "hudisql.added_partition"


def is_added(partition: MetastorePartition) -> bool:
    """True for a partition that was added and in which no sync has found rows."""
    return partition.parameters.get(_ADDED) == "true"


def without_added_mark(parameters: Mapping[str, str]) -> dict[str, str]:
    """The properties of a partition that holds rows."""
    return {name: value for name, value in parameters.items() if name != _ADDED}


def add_partitions(
    client: MetastoreClient,
    table: HudiTable,
    entries: Sequence[MetastoreTable],
    partitions: Sequence[TablePartition],
) -> None:
    """Add the partitions to each entry; existing ones are not changed. Raises MetastoreError."""
    for entry in entries:
        wanted = [wanted_partition(table, entry, partition) for partition in partitions]
        marked = [
            replace(partition, parameters={**partition.parameters, _ADDED: "true"}) for partition in wanted
        ]
        client.add_partitions(entry, marked)


def added_among(
    client: MetastoreClient, table: HudiTable, entry: MetastoreTable, partitions: Sequence[TablePartition]
) -> frozenset[str]:
    """The paths of those of the partitions that were added and hold no rows. Raises MetastoreError."""
    if not partitions or not entry.partition_columns:
        return frozenset()
    by_values = {wanted_partition(table, entry, partition).values: partition.path for partition in partitions}
    found = client.find_partitions(entry, list(by_values))
    return frozenset(by_values[partition.values] for partition in found if is_added(partition))
