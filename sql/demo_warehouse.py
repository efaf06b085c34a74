"""The demo of layers: ODS, DWD, DWS and ADS on TPC-H, kept up to date through rounds of changes.

Run by `make demo-warehouse`. Generates orders, line items and customers, bootstraps them, and changes them by
MERGE; `hudisql run apply` takes each round through the layers.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

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


def run_demo(source: Path, rounds: int, hudisql: Run) -> None:
    """Bootstrap, and take so many rounds of changes through the layers."""
    hudisql(["--hivevar", f"source={source}", "-f", str(WAREHOUSE / "ods.sql")])
    hudisql(["run", "apply", str(MODELS)])
    for number in range(1, rounds + 1):
        hudisql(["--hivevar", f"round={number}", "-f", str(WAREHOUSE / "changes.sql")])
        if number == rounds:
            hudisql(["run", "plan", str(MODELS)])
        hudisql(["run", "apply", str(MODELS)])
    hudisql(["-f", str(WAREHOUSE / "report.sql")])


def main() -> None:
    """Run the demo in a directory, whose content of an earlier demo is removed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--scale-factor", default="0.01", help="TPC-H scale factor: 0.01 is 60,000 line items"
    )
    options = parser.parse_args()
    directory = options.directory.resolve()
    for name in ("source", "warehouse"):
        shutil.rmtree(directory / name, ignore_errors=True)
    make_source(directory / "source", options.scale_factor)
    command = [str(Path(sys.executable).parent / "hudisql"), "--warehouse", str(directory / "warehouse")]

    def hudisql(arguments: Sequence[str]) -> None:
        print(f"\n$ hudisql {' '.join(arguments)}\n", flush=True)
        subprocess.run([*command, *arguments], check=True)

    run_demo(directory / "source", options.rounds, hudisql)
    hudisql(["run", "docs", str(MODELS), "--output", str(directory / "docs")])
    print(f"\nThe tables in beeline: hudisql --warehouse {directory / 'warehouse'} serve, and then")
    for name in _REPORTS:
        print(f"  beeline -u jdbc:hive2://127.0.0.1:10000/ -e 'SELECT * FROM {name} LIMIT 5'")


if __name__ == "__main__":
    main()
