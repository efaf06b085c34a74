"""The reads that are set side by side, as one statement's parts for every engine.

`data` expressions mean the same on plain parquet and on Hudi tables; `meta` ones exist only on Hudi tables.
Plain parquet is measured with the data expressions alone: that is what a rewrite would have to offer.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.lineitem import COLUMNS

META_AGGREGATES = (
    "max(_hoodie_record_key)",
    "min(_hoodie_commit_time)",
    "count(_hoodie_commit_seqno)",
    "max(_hoodie_partition_path)",
    "count(_hoodie_file_name)",
)


@dataclass(frozen=True)
class Read:
    """One read: `goal` is the most CPU seconds it may take, in plain parquet's (None: no goal)."""

    name: str
    data: tuple[str, ...]
    meta: tuple[str, ...] = ()
    where: str | None = None
    goal: float | None = None

    def statement(self, table: str, *, with_meta: bool) -> str:
        """The SELECT over `table`."""
        chosen = (*self.data, *(self.meta if with_meta else ()))
        columns = ", ".join(f"{text} AS c{number}" for number, text in enumerate(chosen))
        condition = f" WHERE {self.where}" if self.where else ""
        return f"SELECT {columns} FROM {table}{condition}"


READS = (
    Read("all data columns", tuple(f"max({column})" for column in COLUMNS), goal=1.1),
    Read(
        "all columns with the five meta columns",
        tuple(f"max({column})" for column in COLUMNS),
        META_AGGREGATES,
        goal=1.5,
    ),
    Read("two columns", ("sum(l_quantity)", "max(l_shipdate)"), goal=1.1),
    Read(
        "count with a filter",
        ("count(*)",),
        where="l_shipdate >= date'1998-06-01' AND l_quantity < 10",
        goal=1.1,
    ),
    Read("record key and one column", ("sum(l_extendedprice)",), ("max(_hoodie_record_key)",)),
)
