"""Values and types that Hive meets in tables of hudisql: texts as partition values, INT96 timestamps."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hive.engines import ask_beeline
from tests.hive.server import HiveServer
from tests.oracle.shapes import call_bootstrap
from tests.oracle.test_partition_values import TEXTS

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms]


def test_scratch(hive_server: HiveServer, session: Any, tmp_path: Path) -> None:
    ask = ask_beeline(hive_server)
    session.sql("CREATE DATABASE IF NOT EXISTS lake")
    session.sql(
        f"CREATE TABLE lake.texts (id INT, p STRING) USING hudi PARTITIONED BY (p) "
        f"LOCATION '{tmp_path / 'x'}' "
        "TBLPROPERTIES (primaryKey = 'id', 'hoodie.datasource.write.partitionpath.urlencode' = 'true')"
    )
    rows = session.spark.createDataFrame(list(enumerate(TEXTS)), "id int, p string")
    session.write(rows, "lake.texts", "insert")
    print("FACT all", sorted(ask("SELECT id, p FROM lake.texts")))
    for number, value in enumerate(TEXTS):
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
        try:
            print("FACT", value, ask(f"SELECT id, p FROM lake.texts WHERE p = '{quoted}'"), number)
        except Exception as error:
            print("FACT", value, str(error)[:300])
    moments = [datetime(2024, 1, 1, 10) + timedelta(days=number) for number in range(5)]
    (tmp_path / "s").mkdir()
    pq.write_table(
        pa.table({"id": list(range(5)), "t": pa.array(moments, pa.timestamp("ns"))}),
        tmp_path / "s" / "a.parquet",
        use_deprecated_int96_timestamps=True,
        store_schema=False,
    )
    call_bootstrap(
        session,
        {
            "table": "lake.int96",
            "source": str(tmp_path / "s"),
            "record_key": "id",
            "target_path": str(tmp_path / "t"),
            "on_unsafe_type": "warn",
        },
    )
    print("FACT", ask("DESCRIBE lake.int96"))
    for label in ("as it is", "rewritten"):
        for columns in ("id, `_hoodie_record_key`", "id, t"):
            try:
                print("FACT", label, columns, ask(f"SELECT {columns} FROM lake.int96"))
            except Exception as error:
                print("FACT", label, columns, str(error)[:600])
        session.sql("CALL rewrite_bootstrap_files(table => 'lake.int96')")
