"""What it costs until a report shows a change of ODS: refreshes of all layers, and rebuilds by plain Spark.

`python -m benchmarks.incremental_tables [--rows N …] [--output FILE]` makes orders of 100 days (default: 1, 4
and 16 million rows) and three layers over them, changes orders and refreshes each layer. Beside it plain
Spark runs the same queries over the same rows as parquet files and writes parquet files. Both run in one warm
session, twice at each size, of which the second time counts. The page says how the changes are spread.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import hudisql
from benchmarks.process_tree import started_clock
from benchmarks.run import UnequalResultsError

ROOT: Final = Path(__file__).parent.parent
OUTPUT: Final = ROOT / "docs" / "benchmarks-layers.md"
GOAL: Final = 10.0
FIXED: Final = 10_000
ORDER_COLUMNS: Final = "id, customer, product, quantity, price, discount, state, note, day"
SOURCES: Final = ("ods.orders", "ods.customers")
DATABASES: Final = ("ods", "dwd", "dws", "ads")

_INTRODUCTION: Final = """\
`python -m benchmarks.incremental_tables --rows {rows}`: orders of {days} days, one
partition a day, and a hundredth as many customers. DWD joins and cleans them, DWS has a row for each customer
and day, ADS one a region and day:

<!-- not run -->"""
_METHOD: Final = """\
One MERGE changes orders; then each layer is refreshed, from below to above. Beside it plain Spark runs the
three queries over the same rows as parquet files and writes parquet files, without partitions. CPU seconds
are user + system of the whole process tree (driver, JVM, Python workers) in one session, which before had
refreshed layers of {rows} orders {rounds} times, and rebuilt them as often. At each size every change is made
twice, each with its refreshes, and the layers are rebuilt twice: the second time counts, since the JVM
compiles what runs often, and the first stands beside it. Start-up and the MERGE into ODS are left out.
Compare CPU seconds: those by the clock depend on what else runs on the machine. After the last change each
layer was compared with the rebuilt one, and is equal.

- *Recent days*, as orders come in: half of the changes are new orders of today, whose partition the first
  time makes, the other half updates of orders of the last three days, spread evenly over their rows.
- *All days alike*, the worst case: updates spread evenly over all rows, so that each file of each layer is
  rewritten."""


@dataclass(frozen=True)
class Orders:
    """How many orders there are, of how many days; a hundredth as many customers."""

    rows: int
    days: int = 100

    @property
    def customers(self) -> int:
        """Their number."""
        return self.rows // 100


CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.master": "local[2]",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "8",
}
WARM_UP: Final = Orders(20_000, days=10)
WARM_ROUNDS: Final = 12
TIMES: Final = 2
"""That each change, and the rebuild, is done at each size: the last time counts."""


@dataclass(frozen=True)
class Layer:
    """A table, its clauses between name and AS, and its query."""

    name: str
    clauses: str
    query: str


LAYERS: Final = (
    Layer(
        "dwd.sales",
        "KEY (id) PARTITIONED BY (day)",
        "SELECT o.id, o.customer, c.region, o.product, o.quantity, "
        "CAST(o.quantity * o.price * (1 - o.discount) AS DECIMAL(18,2)) AS revenue, "
        "upper(trim(o.state)) AS state, o.note, o.day "
        "FROM ods.orders o JOIN ods.customers c ON o.customer = c.id WHERE o.state <> 'cancelled'",
    ),
    Layer(
        "dws.customer_days",
        "PARTITIONED BY (day)",
        "SELECT customer, region, count(*) AS orders, sum(quantity) AS quantity, "
        "CAST(sum(revenue) AS DECIMAL(22,2)) AS revenue, day FROM dwd.sales GROUP BY customer, region, day",
    ),
    Layer(
        "ads.regions",
        "",
        "SELECT day, region, sum(orders) AS orders, count(*) AS customers, "
        "CAST(sum(revenue) AS DECIMAL(25,2)) AS revenue FROM dws.customer_days GROUP BY day, region",
    ),
)


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU of all processes, and by the clock."""

    cpu: float
    seconds: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cpu + other.cpu, self.seconds + other.seconds)


@dataclass(frozen=True)
class Change:
    """How changed orders are spread: their number, of `rows` in all, and the days that they are of."""

    name: str
    changed: Callable[[int], int]
    is_recent: bool = True


CHANGES: Final = (
    Change("1 %, recent days", lambda rows: rows // 100),
    Change(f"{FIXED:,} rows, recent days", lambda _: FIXED),
    Change("1 %, all days alike", lambda rows: rows // 100, is_recent=False),
)


@dataclass(frozen=True)
class Measurement:
    """The costs of one number of rows by layer: of refreshes by the change's name, and of the rebuild.

    Each is given for all its times, of which the last counts.
    """

    rows: int
    refreshes: Mapping[str, Sequence[Mapping[str, Cost]]]
    rebuild: Sequence[Mapping[str, Cost]]


def measured(work: Callable[[], object]) -> Cost:
    """The cost of `work`, in this process and its children."""
    clock = started_clock(os.getpid())
    before, began = clock.seconds(), time.monotonic()
    work()
    cost = Cost(clock.seconds() - before, time.monotonic() - began)
    clock.stop()
    return cost


def orders_of(ids: range, day: str, customers: int) -> str:
    """A query that makes orders of these ids."""
    return (
        f"SELECT id, CAST(pmod(xxhash64(id), {customers}) AS INT) AS customer, "
        "CAST(id % 997 AS INT) AS product, CAST(1 + id % 9 AS INT) AS quantity, "
        "CAST(1 + id % 10007 / 100 AS DECIMAL(12,2)) AS price, "
        "CAST(id % 11 / 100 AS DECIMAL(4,2)) AS discount, "
        "CASE id % 20 WHEN 0 THEN 'cancelled' WHEN 1 THEN 'open' ELSE 'paid' END AS state, "
        f"md5(CAST(id AS STRING)) AS note, CAST({day} AS INT) AS day FROM range({ids.start}, {ids.stop})"
    )


def make_tables(session: Any, orders: Orders) -> None:
    """Fill the sources, and create the layers."""
    for database in DATABASES:
        session.sql(f"CREATE DATABASE {database}")
    made = orders_of(range(orders.rows), f"id * {orders.days} / {orders.rows}", orders.customers)
    session.sql(
        f"CREATE TABLE ods.orders USING hudi PARTITIONED BY (day) TBLPROPERTIES (primaryKey = 'id') AS {made}"
    )
    session.sql(
        "CREATE TABLE ods.customers USING hudi TBLPROPERTIES (primaryKey = 'id') AS "
        "SELECT CAST(id AS INT) AS id, concat('customer ', id) AS name, concat('region ', id % 50) AS region "
        f"FROM range({orders.customers})"
    )
    for layer in LAYERS:
        session.sql(f"CREATE INCREMENTAL TABLE {layer.name} {layer.clauses} AS {layer.query}")


def drop_tables(session: Any) -> None:
    """Drop the sources and the layers, with their files."""
    for name in (*SOURCES, *(layer.name for layer in LAYERS)):
        session.sql(f"DROP TABLE {name} PURGE")
    for database in DATABASES:
        session.sql(f"DROP DATABASE {database}")


def change_orders(session: Any, change: Change, orders: Orders, number: int) -> None:
    """Change orders by one MERGE: recent changes are new orders of today, and updates of three days."""
    count, today = change.changed(orders.rows), orders.days
    if change.is_recent:
        new = count // 2
        first = (10 + number) * orders.rows
        added = orders_of(range(first, first + new), str(today), orders.customers)
        recent = orders.rows * 3 // orders.days
        updated = picked(f"day BETWEEN {today - 3} AND {today - 1}", recent // (count - new), number)
        changed = f"{added} UNION ALL {updated}"
    else:
        changed = picked(f"day < {today}", orders.rows // count, number)
    session.sql(
        f"MERGE INTO ods.orders t USING ({changed}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def picked(where: str, of: int, number: int) -> str:
    """About every so manieth order, by a hash of its key, with another price and state."""
    columns = ORDER_COLUMNS.replace("price", f"CAST(price + {number + 1} AS DECIMAL(12,2)) AS price").replace(
        "state", "CASE state WHEN 'open' THEN 'paid' ELSE state END AS state"
    )
    return f"SELECT {columns} FROM ods.orders WHERE {where} AND pmod(xxhash64(id), {max(of, 1)}) = 0"


def refresh_layers(session: Any) -> dict[str, Cost]:
    """The cost of each layer's refresh, from below to above."""
    costs = {}
    for layer in LAYERS:
        text = f"REFRESH INCREMENTAL TABLE {layer.name}"
        found: list[Any] = []
        costs[layer.name] = measured(lambda text=text, found=found: found.extend(session.sql(text).rows))
        print(f"  {layer.name}: {costs[layer.name]}, {found[0]}", flush=True)
    return costs


def write_sources(session: Any, directory: Path) -> None:
    """The sources as they are now, as plain parquet files."""
    for name in SOURCES:
        columns = ORDER_COLUMNS if name == "ods.orders" else "id, name, region"
        session.sql(f"SELECT {columns} FROM {name}").df.write.parquet(str(directory / name))


def rebuild_layers(session: Any, directory: Path) -> dict[str, Cost]:
    """The cost of each layer's query by plain Spark, parquet files in and parquet files out."""
    costs = {}
    for layer in LAYERS:
        query, target = layer.query, directory / layer.name
        shutil.rmtree(target, ignore_errors=True)
        for name in (*SOURCES, *(each.name for each in LAYERS)):
            query = query.replace(f" {name}", f" parquet.`{directory / name}`")
        costs[layer.name] = measured(
            lambda query=query, target=target: session.spark.sql(query).write.parquet(str(target))
        )
        print(f"  rebuild {layer.name}: {costs[layer.name]}", flush=True)
    return costs


def check_equal(session: Any, directory: Path) -> None:
    """Raise UnequalResultsError if a layer differs from the rebuilt one, by the sum of the rows' hashes."""
    for layer in LAYERS:
        rebuilt = session.spark.read.parquet(str(directory / layer.name))
        kept = session.sql(f"SELECT {', '.join(rebuilt.columns)} FROM {layer.name}").df
        sums = [
            frame.selectExpr("count(*)", "sum(CAST(xxhash64(*) AS DECIMAL(38, 0)))").collect()[0]
            for frame in (rebuilt, kept)
        ]
        if sums[0] != sums[1]:
            raise UnequalResultsError(f"{layer.name} differs from the rebuilt one: {sums}")


def warm_up(session: Any, directory: Path) -> None:
    """Refresh and rebuild small layers until the JVM has compiled most of what runs."""
    make_tables(session, WARM_UP)
    for number in range(WARM_ROUNDS):
        change_orders(session, CHANGES[0], WARM_UP, number)
        refresh_layers(session)
    write_sources(session, directory)
    for _ in range(WARM_ROUNDS):
        rebuild_layers(session, directory)
    drop_tables(session)


def measure(session: Any, rows: int, directory: Path) -> Measurement:
    """All changes of one number of rows, and the rebuild behind them."""
    began, orders = time.monotonic(), Orders(rows)
    make_tables(session, orders)
    print(f"{rows:,} rows: made in {time.monotonic() - began:.0f} s", flush=True)
    refreshes: dict[str, list[Mapping[str, Cost]]] = {}
    for number, change in enumerate(CHANGES):
        if change is CHANGES[1] and CHANGES[0].changed(rows) == FIXED:
            refreshes[change.name] = refreshes[CHANGES[0].name]
            continue
        refreshes[change.name] = []
        for time_of in range(TIMES):
            change_orders(session, change, orders, TIMES * number + time_of)
            print(f"{rows:,} rows, {change.name}", flush=True)
            refreshes[change.name].append(refresh_layers(session))
    write_sources(session, directory)
    rebuilds = [rebuild_layers(session, directory) for _ in range(TIMES)]
    check_equal(session, directory)
    drop_tables(session)
    return Measurement(rows, refreshes, rebuilds)


def render_page(measurements: Sequence[Measurement]) -> str:
    """The page."""
    return "\n".join([*_setup(measurements), *_table(measurements), *_layers(measurements), ""])


def _setup(measurements: Sequence[Measurement]) -> Iterator[str]:
    yield "# Freshness of layers"
    yield ""
    rows = " ".join(str(each.rows) for each in measurements)
    yield from _INTRODUCTION.format(days=Orders(0).days, rows=rows).splitlines()
    yield "```sql"
    for layer in LAYERS:
        clauses = f" {layer.clauses}" if layer.clauses else ""
        yield f"CREATE INCREMENTAL TABLE {layer.name}{clauses} AS\n  {layer.query};"
    yield "```"
    yield ""
    yield from _METHOD.format(rounds=WARM_ROUNDS, rows=f"{WARM_UP.rows:,}").splitlines()
    yield ""
    yield f"Machine: {os.cpu_count()} cores, `local[2]`, 8 shuffle partitions, PySpark {version('pyspark')}."
    yield ""


def _table(measurements: Sequence[Measurement]) -> Iterator[str]:
    yield (
        "| orders | change | refresh, CPU s | refresh, s | rebuild, CPU s | rebuild, s | CPU ratio "
        "| first time: refresh, CPU s | rebuild, CPU s | CPU ratio |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for each in measurements:
        first_rebuild, rebuild = total(each.rebuild[0]), total(each.rebuild[-1])
        for name, times in each.refreshes.items():
            first, refresh = total(times[0]), total(times[-1])
            yield (
                f"| {each.rows:,} | {name} | {refresh.cpu:.1f} | {refresh.seconds:.1f} | {rebuild.cpu:.1f} | "
                f"{rebuild.seconds:.1f} | {rebuild.cpu / refresh.cpu:.1f} | {first.cpu:.1f} | "
                f"{first_rebuild.cpu:.1f} | {first_rebuild.cpu / first.cpu:.1f} |"
            )
    yield ""
    largest = max(measurements, key=lambda each: each.rows)
    ratio = total(largest.rebuild[-1]).cpu / total(largest.refreshes[CHANGES[0].name][-1]).cpu
    met = "met" if ratio >= GOAL else "**missed**"
    said = f"{ratio:.1f} × fewer CPU seconds (goal: {GOAL:g} ×): {met}"
    yield f"- {CHANGES[0].name}, of {largest.rows:,} rows: {said}"
    yield ""


def _layers(measurements: Sequence[Measurement]) -> Iterator[str]:
    yield "CPU seconds of each layer:"
    yield ""
    yield f"| orders | change | {' | '.join(layer.name for layer in LAYERS)} |"
    yield "|---|---|" + "---|" * len(LAYERS)
    for each in measurements:
        for name, times in (*each.refreshes.items(), ("rebuild", each.rebuild)):
            costs = " | ".join(f"{cost.cpu:.1f}" for cost in times[-1].values())
            yield f"| {each.rows:,} | {name} | {costs} |"


def total(costs: Mapping[str, Cost]) -> Cost:
    """The cost of all layers."""
    return sum(costs.values(), Cost(0, 0))


def main() -> int:
    """Measure each size in one warm session, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 4_000_000, 16_000_000])
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="incremental-tables-") as name,
        hudisql.connect(warehouse=f"{name}/warehouse", conf=CONF) as session,
    ):
        warm_up(session, Path(name) / "plain")
        measurements = []
        for rows in given.rows:
            measurements.append(measure(session, rows, Path(name) / f"plain-{rows}"))
            page = render_page(measurements)
            print(page, flush=True)
    given.output.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
