"""Make the demo's source: TPC-H lineitem as an old Hive warehouse would hold it.

Generates lineitem with tpchgen-cli and rewrites it with Spark into plain parquet, partitioned by the year of
shipping, in the physical types that Hive and every Hudi reader get right (decimals as FIXED_LEN_BYTE_ARRAY,
timestamps in micros). Does nothing if the source is there already.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Write `<target>/ship_year=…/part-….parquet`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("--scale-factor", default="0.1", help="TPC-H scale factor: 0.1 is 600,000 rows")
    options = parser.parse_args()
    if (options.target / "_SUCCESS").exists():
        print(f"demo source: {options.target} is there already", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as scratch:
        _generate_lineitem(Path(scratch), options.scale_factor)
        shutil.rmtree(options.target, ignore_errors=True)
        _rewrite_for_hive(Path(scratch) / "lineitem.parquet", options.target)
    print(f"demo source: wrote {options.target}", file=sys.stderr)


def _generate_lineitem(directory: Path, scale_factor: str) -> None:
    generator = Path(sys.executable).parent / "tpchgen-cli"
    options = [
        "--scale-factor",
        scale_factor,
        "--tables",
        "lineitem",
        "--output-dir",
        str(directory),
        "--quiet",
    ]
    subprocess.run([str(generator), "parquet", *options], check=True)


def _rewrite_for_hive(generated: Path, target: Path) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    from hudisql.java_runtime import ensure_java_home

    ensure_java_home()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.writeLegacyFormat", "true")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .getOrCreate()
    )
    lineitem = spark.read.parquet(str(generated)).withColumn("ship_year", f.year("l_shipdate"))
    ordered = lineitem.repartitionByRange(3, "l_orderkey").sortWithinPartitions(
        "ship_year", "l_orderkey", "l_linenumber"
    )
    ordered.write.partitionBy("ship_year").parquet(str(target))
    spark.stop()


if __name__ == "__main__":
    main()
