"""The shapes of tables that the oracles look at: how rows lie in directories, their keys, their table
type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.oracle.sources import sample_rows, write_source


@dataclass(frozen=True)
class Shape:
    """One way to lay out a table. `partition_columns` gives each column's text for a row's `seq`."""

    name: str
    rows: int = 120
    files: int = 2
    record_key: tuple[str, ...] = ("id",)
    partition_columns: Mapping[str, Callable[[int], str]] = field(default_factory=dict)
    table_type: str = "COPY_ON_WRITE"

    def expected_rows(self) -> pa.Table:
        """All rows with their partition columns, as every reader must give them."""
        return self.with_partition_columns(sample_rows(0, self.rows))

    def with_partition_columns(self, rows: pa.Table) -> pa.Table:
        """`rows` with the partition columns that belong to their `seq`."""
        for column, value_of in self.partition_columns.items():
            rows = rows.append_column(column, [[value_of(number) for number in rows["seq"].to_pylist()]])
        return rows

    def partition_path(self, number: int) -> str:
        """The directory of the row with this `seq`."""
        return "/".join(f"{column}={value_of(number)}" for column, value_of in self.partition_columns.items())

    def record_key_of(self, number: int) -> str:
        """The record key of the row with this `seq`, as Hudi's upsert renders it."""
        values = {"id": f"k{number:06d}", "seq": str(number)}
        values |= {column: value_of(number) for column, value_of in self.partition_columns.items()}
        if len(self.record_key) == 1:
            return values[self.record_key[0]]
        return ",".join(f"{column}:{values[column]}" for column in self.record_key)

    def write_options(self) -> dict[str, str]:
        """What a writer of Apache Hudi is told to go on writing this table."""
        return {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.recordkey.field": ",".join(self.record_key),
            "hoodie.datasource.write.precombine.field": "seq",
            "hoodie.datasource.write.partitionpath.field": ",".join(self.partition_columns),
            # Hudi says false of a table without partitions, and refuses a writer that says otherwise.
            "hoodie.datasource.write.hive_style_partitioning": str(bool(self.partition_columns)).lower(),
        }


SHAPES = (
    Shape("partitioned", partition_columns={"dt": lambda n: f"2024-03-0{n % 3 + 1}"}),
    # Apache Hudi 0.15 cannot bootstrap directories of which one is a prefix of another: unsorted index keys.
    Shape("prefixed", partition_columns={"part": lambda n: ("1", "10", "100", "2")[n % 4]}),
    Shape("not_partitioned"),
    Shape(
        "two_columns",
        partition_columns={"region": lambda n: ("eu", "us")[n % 2], "dt": lambda n: f"2024-03-0{n % 3 + 1}"},
    ),
    Shape(
        "composite",
        record_key=("id", "seq", "dt"),
        partition_columns={"dt": lambda n: f"2024-03-0{n % 3 + 1}"},
    ),
    Shape(
        "merge_on_read",
        table_type="MERGE_ON_READ",
        partition_columns={"dt": lambda n: f"2024-03-0{n % 3 + 1}"},
    ),
)
MANY_FILES = Shape(
    "many_files", rows=6000, files=100, partition_columns={"dt": lambda n: f"2024-03-{n % 30 + 1:02d}"}
)


@dataclass(frozen=True)
class BootstrappedTable:
    """A table that hudisql made: where it lies, its source and its shape."""

    path: str
    source: str
    shape: Shape


def bootstrap_shape(session: Any, shape: Shape, directory: Path, **arguments: Any) -> BootstrappedTable:
    """Write the shape's source below `directory` and bootstrap it by SQL; `arguments` are added to the
    CALL.
    """
    source = write_source(
        directory / "source",
        sample_rows(0, shape.rows),
        shape.partition_path if shape.partition_columns else None,
        files=shape.files,
    )
    path = str(directory / "table")
    given = {
        "table": f"oracle.{shape.name}",
        "source": str(source),
        "record_key": ",".join(shape.record_key),
        "target_path": path,
        "table_type": shape.table_type,
        "precombine": "seq",
        **arguments,
    }
    call_bootstrap(session, given)
    return BootstrappedTable(path, str(source), shape)


def noted_rows(shape: Shape, start: int, stop: int, note: str = "first") -> pa.Table:
    """The sample rows with the shape's partition columns and one note for all."""
    rows = shape.with_partition_columns(sample_rows(start, stop))
    return rows.set_column(rows.column_names.index("note"), "note", pa.array([note] * len(rows)))


def call_bootstrap(session: Any, arguments: Mapping[str, str | Mapping[str, str]]) -> None:
    """Run CALL bootstrap_table with strings and maps; the metastore entry is replaced if there is one."""
    session.sql(f"DROP TABLE IF EXISTS {arguments['table']}")
    listed = ", ".join(f"{name} => {_literal(value)}" for name, value in arguments.items())
    session.sql(f"CALL bootstrap_table({listed})")


def _literal(value: str | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    pairs = [f"'{key}', '{each}'" for key, each in value.items()]
    return f"map({', '.join(pairs)})"
