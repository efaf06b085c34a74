"""Spark's own scan of files on S3: through Hadoop's s3a where Spark has it, else by hudisql's reader."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.plan.bootstrap_plan import plan_bootstrap
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.bootstrap.run.plan_execution import run_bootstrap
from hudisql.bootstrap.verify.verification import VerifyLevel, verify_bootstrap
from hudisql.catalog.client import MetastoreClient
from hudisql.context import Context
from hudisql.errors import QueryError
from hudisql.iceberg.iceberg_verification import IcebergLevel
from hudisql.iceberg.publication import publish
from hudisql.options.iceberg_check import check_iceberg
from hudisql.read.scan.scan_dataframe import scan_to_dataframe
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.storage import Storage, join
from hudisql.table.hudi_table import open_table
from scripts.setup_oracles import s3a_jars
from tests.storage.servers import BUCKET

pytestmark = [pytest.mark.spark, pytest.mark.hms]
ROWS = 40


def write_source(storage: Storage, root: str) -> str:
    """Two partitions of two files each."""
    for number in range(4):
        ids = range(number * 10, number * 10 + 10)
        content = io.BytesIO()
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "v": [each / 4 for each in ids]}), content)
        path = join(root, "source", f"dt=2024-03-0{number // 2 + 1}", f"part-{number}.parquet")
        storage.write(path, content.getvalue())
    return join(root, "source")


def test_without_s3a_queries_are_read_by_hudisql_and_a_full_verification_says_what_is_missing(
    spark: Any, metastore_uri: str, s3_settings: dict[str, str]
) -> None:
    storage, root = Storage(s3_settings), f"s3a://{BUCKET}/{uuid.uuid4().hex}"
    request = BootstrapRequest(
        database="db",
        name="t",
        record_key=("id",),
        source_path=write_source(storage, root),
        target_path=join(root, "t"),
        sync=False,
    )
    with MetastoreClient(metastore_uri) as metastore:
        context = Context(spark, metastore, storage)
        run_bootstrap(context, plan_bootstrap(context, request))
        table = open_table(storage, join(root, "t"))
        plan = plan_scan(ScanRequest(table, table.schema))
        assert plan.mode == "native"
        recipe = r"no file system for s3a:// .*slower.*spark.jars.packages=org.apache.hadoop:hadoop-aws:3\."
        with pytest.warns(RuntimeWarning, match=recipe):
            rows = scan_to_dataframe(spark, plan).select("id", "v").collect()
        assert sorted((row.id, row.v) for row in rows) == [(each, each / 4) for each in range(ROWS)]
        with pytest.raises(QueryError, match="no file system for s3a://") as raised:
            verify_bootstrap(context, table, VerifyLevel.FULL)
        assert raised.value.hint is not None
        assert "org.apache.hadoop:hadoop-aws:3." in raised.value.hint
        publish(table)
        verified = check_iceberg(context, table, None, IcebergLevel.FULL)
        assert (verified.problems, verified.compared_rows) == ((), ROWS)
        assert verified.compared_by == "hudisql's own reading"
        storage.write(join(root, "source", "dt=2024-03-01", "part-0.parquet"), b"PAR1" * 9)
        problems = check_iceberg(context, table, None, IcebergLevel.FULL).problems
        assert [problem.kind for problem in problems] == ["source changed", "file changed"]


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.soak
@pytest.mark.parametrize("scheme", ["s3a", "s3"])
def test_with_s3a_spark_scans_the_source_files_itself(
    scheme: str, metastore_uri: str, s3_settings: dict[str, str]
) -> None:
    jars = s3a_jars()
    assert jars, "Hadoop's s3a is not set up: run `make oracles`"
    root = f"{scheme}://{BUCKET}/{uuid.uuid4().hex}"
    source, target = write_source(Storage(s3_settings), root), f"{root}/t"
    kept = f"FROM hudi.`{target}` WHERE dt = '2024-03-02' AND id > 24 ORDER BY id"
    statements = (
        f"CALL bootstrap_table(table => 't', source => '{source}', record_key => 'id',"
        f" target_path => '{target}', sync => false)",
        f"EXPLAIN SELECT id, v, dt {kept}",
        f"SELECT id, v, dt {kept}",
        f"EXPLAIN SELECT id, v, dt, _hoodie_record_key AS k {kept}",
        f"SELECT id, v, dt, _hoodie_record_key AS k {kept}",
        f"CALL verify_bootstrap(path => '{target}', level => 'full')",
    )
    settings = {f"spark.hadoop.{key}": value for key, value in s3_settings.items()}
    settings["spark.jars"] = ",".join(map(str, jars))
    command = [sys.executable, "-m", "hudisql", "--metastore", metastore_uri, "--master", "local[2]", "-S"]
    command += [word for item in settings.items() for word in ("--conf", "=".join(item))]
    ended = subprocess.run(
        [*command, "--format", "jsonl", "-e", ";".join(statements)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONWARNINGS": "error::RuntimeWarning"},
    )
    assert ended.returncode == 0, ended.stderr
    shown = [json.loads(line) for line in ended.stdout.splitlines()]
    plans = [row["plan"] for row in shown if "plan" in row]
    assert "FileScan parquet" in plans[0]
    assert "MapInArrow" in plans[1]
    rows = [row for row in shown if "id" in row]
    expected = [{"id": each, "v": each / 4, "dt": "2024-03-02"} for each in range(25, ROWS)]
    assert rows[: len(expected)] == expected
    assert rows[len(expected) :] == [{**each, "k": str(each["id"])} for each in expected]
    summary = shown[-1]
    assert (summary["finding"], summary["severity"]) == ("SUMMARY", "ok")
    assert f"{ROWS} rows of 4 files compared" in summary["detail"]
