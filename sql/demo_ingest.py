"""The demo of ingest: events of a local Kafka broker become rows of Hudi tables, without a Spark job.

Run by `make demo-ingest`. Starts a broker, declares two tables on the embedded metastore, produces JSON
events and Debezium's changes, and runs `hudisql ingest worker --until-caught-up`, twice.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.local_kafka import DEFAULT_PORT, LocalKafka, new_local_kafka, running

SQL = Path(__file__).parent
CLICKS = "clicks"
CUSTOMERS = "shop.public.customers"
CITIES = ("Berlin", "Lyon", "Porto")


def clicks(numbers: range, ts: int) -> Iterator[bytes]:
    """Clicks as JSON; the same numbers again are new states of the same rows."""
    for number in numbers:
        click = {
            "click_id": f"c{number:06d}",
            "user_id": number % 100,
            "url": f"/page/{number % 7}",
            "ts": ts,
            "dt": f"2026-11-{number % 3 + 1:02d}",
        }
        yield json.dumps(click).encode()


def customer(number: int, city: str) -> dict[str, object]:
    """A row of the database."""
    return {"customer_id": number, "name": f"customer {number}", "city": city}


def change(operation: str, lsn: int, before: object, after: object) -> bytes:
    """A change as Debezium's JSON converter writes it."""
    source = {"name": "shop", "schema": "public", "table": "customers", "lsn": lsn}
    return json.dumps({"before": before, "after": after, "source": source, "op": operation}).encode()


def produce_first(broker: LocalKafka, count: int) -> None:
    """New clicks, a fifth of them again with a later state, and a database's customers."""
    broker.produce(CLICKS, [*clicks(range(count), 1), *clicks(range(0, count, 5), 2)])
    inserted = [change("c", number, None, customer(number, CITIES[number % 3])) for number in range(100)]
    broker.produce(CUSTOMERS, inserted)


def produce_second(broker: LocalKafka, count: int) -> None:
    """More clicks and later states; customers that move to another city, and some that are deleted."""
    broker.produce(CLICKS, [*clicks(range(count // 2, count + count // 2), 3), b"no JSON"])
    moved = [
        change("u", 1000 + number, customer(number, CITIES[number % 3]), customer(number, "Oslo"))
        for number in range(0, 100, 10)
    ]
    deleted = [
        change("d", 2000 + number, customer(number, CITIES[number % 3]), None) for number in range(1, 100, 10)
    ]
    broker.produce(CUSTOMERS, [*moved, *deleted])


def run_demo(
    broker: LocalKafka, run_file: Callable[[Path], Any], run_worker: Callable[[], Any], count: int
) -> None:
    """All of it; `run_file` runs a file of SQL statements, `run_worker` a worker until it has caught up."""
    broker.create_topic(CLICKS, 3)
    broker.create_topic(CUSTOMERS)
    run_file(SQL / "demo_ingest.sql")
    produce_first(broker, count)
    run_worker()
    # What is shown has the lag of the events that came meanwhile.
    produce_second(broker, count)
    run_file(SQL / "demo_ingest_result.sql")
    run_worker()
    run_file(SQL / "demo_ingest_result.sql")


def main() -> None:
    """Run the demo in a directory, whose content of an earlier demo is removed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help="the broker's; the next one is used too"
    )
    parser.add_argument("--events", type=int, default=100_000)
    options = parser.parse_args()
    directory = options.directory.resolve()
    for name in ("kafka", "warehouse"):
        shutil.rmtree(directory / name, ignore_errors=True)
    with running(new_local_kafka(directory / "kafka", options.port)) as broker:
        print(f"\nA Kafka broker runs on {broker.servers}\n", flush=True)

        def hudisql(*arguments: str) -> None:
            command = [
                str(Path(sys.executable).parent / "hudisql"),
                "--warehouse",
                str(directory / "warehouse"),
            ]
            print(f"\n$ hudisql {' '.join(arguments)}\n", flush=True)
            subprocess.run([*command, *arguments], check=True)

        run_demo(
            broker,
            lambda file: hudisql("--hivevar", f"servers={broker.servers}", "-v", "-f", str(file)),
            lambda: hudisql("ingest", "worker", "--until-caught-up"),
            options.events,
        )


if __name__ == "__main__":
    main()
