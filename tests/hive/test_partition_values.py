"""Values and types that Hive meets in tables of hudisql: texts as partition values, INT96 timestamps."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hive.engines import ask_beeline, assert_rows
from tests.hive.server import HiveServer
from tests.oracle.shapes import call_bootstrap
from tests.oracle.test_partition_values import TEXTS

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms, pytest.mark.usefixtures("lake_database")]


def test_any_text_is_a_partition_value(hive_server: HiveServer, session: Any, tmp_path: Path) -> None:
    ask = ask_beeline(hive_server)
    session.sql(
        "CREATE TABLE lake.texts (id INT, p STRING) USING hudi PARTITIONED BY (p) "
        f"LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id')"
    )
    rows = session.spark.createDataFrame(list(enumerate(TEXTS)), "id int, p string")
    session.write(rows, "lake.texts", "insert")
    assert_rows(ask("SELECT id, p FROM lake.texts"), list(enumerate(TEXTS)))
    for value in ("a/b", "../up", "%2F"):
        assert_rows(ask(f"SELECT id, p FROM lake.texts WHERE p = '{value}'"), [(TEXTS.index(value), value)])


def test_int96_is_shown_once_its_file_groups_are_rewritten(
    hive_server: HiveServer, session: Any, tmp_path: Path
) -> None:
    ask = ask_beeline(hive_server)
    moments = [datetime(2024, 1, 1, 10) + timedelta(days=number) for number in range(5)]
    (tmp_path / "s").mkdir()
    pq.write_table(
        pa.table({"id": list(range(5)), "t": pa.array(moments, pa.timestamp("ns"))}),
        tmp_path / "s" / "a.parquet",
        use_deprecated_int96_timestamps=True,
        store_schema=False,
    )
    arguments = {
        "table": "lake.int96",
        "source": str(tmp_path / "s"),
        "record_key": "id",
        "target_path": str(tmp_path / "t"),
        "on_unsafe_type": "warn",
    }
    call_bootstrap(session, arguments)
    keys = [(number, str(number)) for number in range(5)]
    assert_rows(ask("SELECT id, `_hoodie_record_key` FROM lake.int96"), keys)
    # Hive's reader fails on the column, and beeline ends with no row.
    assert ask("SELECT id, t FROM lake.int96") == []
    session.sql("CALL rewrite_bootstrap_files(table => 'lake.int96')")
    micros = pa.array(moments, pa.timestamp("us")).cast(pa.int64()).to_pylist()
    assert_rows(ask("SELECT id, t FROM lake.int96"), list(enumerate(micros)))
