"""What a refresh costs when 1 % of a source changes, against the full rebuild by plain Spark.

`python -m benchmarks.incremental_tables [ROWS …]` makes a source of so many rows (default 1, 4 and 16
million) in days, changes 1 % of them (the newest day, as events do), refreshes a filtered table and an
aggregate over it, and runs the same queries over plain parquet as Spark jobs that write parquet. Prints CPU
seconds and seconds of each.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import hudisql
from benchmarks.process_tree import started_clock

DAYS: Final = 100
PAID: Final = "SELECT id, customer, amount, day FROM bench.orders WHERE state <> 2"
SALES: Final = (
    "SELECT day, customer % 100 AS branch, sum(amount) AS total, count(*) AS n "
    "FROM bench.orders GROUP BY 1, 2"
)


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU of all processes, and by the clock."""

    cpu: float
    seconds: float


def measured(work: Callable[[], object]) -> Cost:
    """The cost of `work`, in this process and its children."""
    clock = started_clock(os.getpid())
    before, began = clock.seconds(), time.monotonic()
    work()
    cost = Cost(clock.seconds() - before, time.monotonic() - began)
    clock.stop()
    return cost


def compare(session: Any, rows: int, directory: Path) -> None:
    """One size: makes the tables, changes 1 % and prints a line for each query."""
    session.sql("CREATE DATABASE IF NOT EXISTS bench")
    session.sql(
        "CREATE TABLE bench.orders (id BIGINT, customer BIGINT, amount BIGINT, state INT, day INT) "
        f"USING hudi PARTITIONED BY (day) LOCATION '{directory / 'orders'}' TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql(
        "INSERT INTO bench.orders "
        f"SELECT id, id % 10007, id % 997, id % 5, CAST(id * {DAYS} / {rows} AS INT) "
        f"FROM range({rows})"
    )
    session.sql(f"CREATE INCREMENTAL TABLE bench.paid KEY (id) PARTITIONED BY (day) AS {PAID}")
    session.sql(f"CREATE INCREMENTAL TABLE bench.sales KEY (day, branch) AS {SALES}")
    session.sql(f"UPDATE bench.orders SET amount = amount + 1, state = 1 WHERE day = {DAYS - 1}")
    columns = "id, customer, amount, state, day"
    plain = str(directory / "plain")
    session.sql(f"SELECT {columns} FROM bench.orders").df.write.parquet(plain)
    session.spark.read.parquet(plain).createOrReplaceTempView("plain_orders")
    for name, query in (("paid", PAID), ("sales", SALES)):
        refreshed = measured(lambda name=name: session.sql(f"REFRESH INCREMENTAL TABLE bench.{name}").rows)
        text = query.replace("bench.orders", "plain_orders")
        target = str(directory / f"rebuilt-{name}")
        rebuilt = measured(lambda text=text, target=target: session.spark.sql(text).write.parquet(target))
        settled = measured(lambda name=name: session.sql(f"REFRESH INCREMENTAL TABLE bench.{name}").rows)
        print(
            f"{rows:>12,} {name:6} refresh {refreshed.cpu:7.1f} cpu s {refreshed.seconds:7.1f} s   rebuild "
            f"{rebuilt.cpu:7.1f} cpu s {rebuilt.seconds:7.1f} s   nothing changed {settled.seconds:6.3f} s",
            flush=True,
        )
    session.sql("DROP DATABASE bench CASCADE")


def main() -> None:
    """Run each size in a warm session of its own directory."""
    sizes = [int(each) for each in sys.argv[1:]] or [1_000_000, 4_000_000, 16_000_000]
    for rows in sizes:
        with tempfile.TemporaryDirectory(prefix="incremental-tables-") as directory:
            conf = {"spark.ui.enabled": "false", "spark.master": "local[2]", "spark.driver.memory": "3g"}
            with hudisql.connect(warehouse=f"{directory}/warehouse", conf=conf) as session:
                compare(session, rows, Path(directory))


if __name__ == "__main__":
    main()
