"""The table that is measured: TPC-H lineitem, as Spark writes it for Hive, in files whose keys are sorted.

tpchgen-cli makes the rows; plain Spark rewrites each file with `writeLegacyFormat` and TIMESTAMP_MICROS and
nullable columns: the form that Hive 2.3 and Apache Hudi read and merge right.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

KEY_COLUMNS = ("l_orderkey", "l_linenumber")
PRECOMBINE_COLUMN = "l_shipdate"
COLUMNS = (
    "l_orderkey",
    "l_partkey",
    "l_suppkey",
    "l_linenumber",
    "l_quantity",
    "l_extendedprice",
    "l_discount",
    "l_tax",
    "l_returnflag",
    "l_linestatus",
    "l_shipdate",
    "l_commitdate",
    "l_receiptdate",
    "l_shipinstruct",
    "l_shipmode",
    "l_comment",
)


def make_lineitem(directory: Path, *, scale_factor: float, files: int) -> Path:
    """Return the directory with lineitem in `files` files; kept from run to run."""
    target = directory / f"lineitem-sf{scale_factor:g}-{files}"
    if not (target / "_SUCCESS").exists():
        generated = directory / "generated"
        shutil.rmtree(generated, ignore_errors=True)
        shutil.rmtree(target, ignore_errors=True)
        _generate(generated, scale_factor, files)
        _rewrite(sorted((generated / "lineitem").glob("*.parquet"), key=_part_number), target)
        shutil.rmtree(generated)
    return target


def _generate(directory: Path, scale_factor: float, files: int) -> None:
    generator = Path(sys.executable).parent / "tpchgen-cli"
    options = [f"--scale-factor={scale_factor:g}", "--tables=lineitem", f"--parts={files}"]
    command = [str(generator), "parquet", *options, f"--output-dir={directory}", "--quiet"]
    subprocess.run(command, check=True)


def _part_number(path: Path) -> int:
    return int(path.stem.rsplit(".", 1)[-1])


def _rewrite(parts: list[Path], target: Path) -> None:
    from pyspark.sql import SparkSession

    from hudisql.java_runtime import ensure_java_home

    ensure_java_home()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.writeLegacyFormat", "true")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.parquet.compression.codec", "snappy")
        .getOrCreate()
    )
    for part in parts:
        spark.read.parquet(str(part)).coalesce(1).write.mode("append").parquet(str(target))
    spark.stop()
