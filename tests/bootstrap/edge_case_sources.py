"""Sources for the tests of odd input, and a bootstrapped table read in both ways at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudisql.bootstrap.plan.bootstrap_mode import UnsafeTypePolicy
from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan
from hudisql.bootstrap.run.plan_execution import run_bootstrap
from hudisql.context import Context
from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.read.scan.scan_dataframe import scan_to_dataframe
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.spark.versions import to_arrow
from hudisql.table.hudi_table import HudiTable
from tests.bootstrap.plans import plan_of
from tests.opened import open_at

Fill = Callable[[Any, Any], None]


def write_by_parquet_mr(spark: Any, path: Path, message: str, rows: Sequence[Fill]) -> Path:
    """Write one file of any schema by parquet-mr, the library of Hive, Spark and Hudi.

    `message` is parquet's own text of a schema; each of `rows` fills a group, with the JVM at hand.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    jvm = spark._jvm
    schema = jvm.org.apache.parquet.schema.MessageTypeParser.parseMessageType(message)
    writer = (
        jvm.org.apache.parquet.hadoop.example.ExampleParquetWriter.builder(
            jvm.org.apache.hadoop.fs.Path(f"file://{path}")
        )
        .withType(schema)
        .withConf(jvm.org.apache.hadoop.conf.Configuration())
        .build()
    )
    for fill in rows:
        group = jvm.org.apache.parquet.example.data.simple.SimpleGroup(schema)
        fill(group, jvm)
        writer.write(group)
    writer.close()
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    return path


def lenient_plan_of(context: Context, source: Path, target: Path, **changes: Any) -> BootstrapPlan:
    """The plan of a bootstrap of `source` that takes unsafe types as they are."""
    return plan_of(context, source, target, **{"on_unsafe_type": UnsafeTypePolicy.WARN, **changes})


def blockers_of(context: Context, source: Path, target: Path, **changes: Any) -> str:
    """All blockers of a bootstrap of `source` as one text."""
    plan = lenient_plan_of(context, source, target, **changes)
    return "\n".join(finding.message for finding in plan.findings if finding.is_blocker)


def bootstrap(context: Context, source: Path, target: Path, **changes: Any) -> HudiTable:
    """Bootstrap `source` and open the table."""
    plan = lenient_plan_of(context, source, target, **changes)
    assert [finding.message for finding in plan.findings if finding.is_blocker] == []
    run_bootstrap(context, plan)
    return open_at(target)


def read_both_ways(spark: Any, table: HudiTable, where: str = "true") -> pa.Table:
    """All data and partition columns, sorted by `id`, which both scans must agree on."""
    names = table.schema.names
    found = []
    for schema in (table.schema, pa.schema([*table.full_schema])):
        plan = plan_scan(ScanRequest(table, schema))
        if schema is not table.schema:
            plan = replace(plan, mode="stitched")
        frame = scan_to_dataframe(spark, plan).where(where)
        columns = [f"`{name}`" for name in (names if schema is table.schema else [*names, RECORD_KEY])]
        found.append(to_arrow(frame.select(*columns)).sort_by("id"))
    native, stitched = found
    assert native.to_pylist() == stitched.select(names).to_pylist()
    assert native.schema == stitched.select(names).schema
    if pa.types.is_string(stitched.schema.field("id").type):
        assert stitched[RECORD_KEY].to_pylist() == stitched["id"].to_pylist()
    return native
