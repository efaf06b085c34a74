"""The demo of layers: ODS, DWD, DWS and ADS on TPC-H, kept up to date through rounds of changes.

Run by `make demo-warehouse`. Generates orders, line items and customers, and bootstraps them. Their changes
come from a local Kafka broker, whose events an ingest worker writes, or by MERGE where there is no broker.
`hudisql run apply` takes each round through the layers.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from hudisql.errors import HudisqlError
from scripts.local_kafka import DEFAULT_PORT, LocalKafka, new_local_kafka, running
from sql.warehouse_events import TOPICS, events_of_round

WAREHOUSE: Final = Path(__file__).parent / "warehouse"
MODELS: Final = WAREHOUSE / "models"
_TABLES: Final = ("customer", "orders", "lineitem")
_REPORTS: Final = ("ads.months", "ads.segments", "ads.best_days")

Run = Callable[[Sequence[str]], Any]
"""Runs `hudisql` with these arguments."""


def make_source(directory: Path, scale_factor: str) -> None:
    """Write the three tables as parquet files whose types Hive and every Hudi reader get right."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as scratch:
        generator = Path(sys.executable).parent / "tpchgen-cli"
        command = [
            str(generator),
            "parquet",
            "--scale-factor",
            scale_factor,
            "--output-dir",
            scratch,
            "--quiet",
        ]
        subprocess.run([*command, "--tables", ",".join(_TABLES)], check=True)
        for name in _TABLES:
            target = directory / name / "part-0.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            table = pq.read_table(Path(scratch) / f"{name}.parquet")
            pq.write_table(table.cast(_plain_schema(table.schema)), target, store_schema=False)


def _plain_schema(schema: Any) -> Any:
    import pyarrow as pa

    return pa.schema(
        [(each.name, pa.string() if pa.types.is_string_view(each.type) else each.type) for each in schema]
    )


def run_demo(source: Path, rounds: int, hudisql: Run, broker: LocalKafka | None = None) -> None:
    """Bootstrap, and take so many rounds of changes through the layers, from the broker if there is one."""
    hudisql(["--hivevar", f"source={source}", "-f", str(WAREHOUSE / "ods.sql")])
    if broker is not None:
        broker.create_topics(TOPICS.values())
        hudisql(["--hivevar", f"servers={broker.servers}", "-f", str(WAREHOUSE / "ods_from_kafka.sql")])
    hudisql(["run", "apply", str(MODELS)])
    for number in range(1, rounds + 1):
        if broker is None:
            hudisql(["--hivevar", f"round={number}", "-f", str(WAREHOUSE / "changes.sql")])
        else:
            for name, events in events_of_round(source, number).items():
                broker.produce(TOPICS[name], events)
            hudisql(["ingest", "worker", "--until-caught-up"])
        if number == rounds > 1:
            hudisql(["run", "plan", str(MODELS)])
        hudisql(["run", "apply", str(MODELS)])
    hudisql(["-f", str(WAREHOUSE / "report.sql")])


@contextmanager
def found_broker(directory: Path, port: int) -> Iterator[LocalKafka | None]:
    """A Kafka broker that runs on this machine; None if its jars cannot be fetched or it does not start."""
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(running(new_local_kafka(directory, port)))
        except (OSError, RuntimeError, subprocess.SubprocessError, HudisqlError) as error:
            print(f"\nNo Kafka broker ({error}): changes come by MERGE", flush=True)
            yield None
            return
        print(f"\nA Kafka broker runs on {broker.servers}", flush=True)
        yield broker


def main() -> None:
    """Run the demo in a directory, whose content of an earlier demo is removed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--scale-factor", default="0.01", help="TPC-H scale factor: 0.01 is 60,000 line items"
    )
    parser.add_argument("--merge", action="store_true", help="changes come by MERGE, without a broker")
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help="the broker's; the next one is used too"
    )
    options = parser.parse_args()
    directory = options.directory.resolve()
    for name in ("kafka", "source", "warehouse"):
        shutil.rmtree(directory / name, ignore_errors=True)
    make_source(directory / "source", options.scale_factor)
    command = [str(Path(sys.executable).parent / "hudisql"), "--warehouse", str(directory / "warehouse")]

    def hudisql(arguments: Sequence[str]) -> None:
        print(f"\n$ hudisql {' '.join(arguments)}\n", flush=True)
        subprocess.run([*command, *arguments], check=True)

    found = nullcontext() if options.merge else found_broker(directory / "kafka", options.port)
    with found as broker:
        run_demo(directory / "source", options.rounds, hudisql, broker)
    hudisql(["services", "run", "--once"])
    hudisql(["run", "docs", str(MODELS), "--output", str(directory / "docs")])
    print(f"\nThe tables in beeline: hudisql --warehouse {directory / 'warehouse'} serve, and then")
    for name in _REPORTS:
        print(f"  beeline -u jdbc:hive2://127.0.0.1:10000/ -e 'SELECT * FROM {name} LIMIT 5;'")


if __name__ == "__main__":
    main()
