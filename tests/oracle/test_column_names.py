"""Column names with letters of other scripts: Apache Hudi reads and writes what hudisql makes of them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.client import HudiOracle
from tests.soak import parameters
from tests.sql.changed_tables import own_database

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

CASES = [
    ("cow", "6", "015"),
    ("mor", "6", "015"),
    ("mor", "6", "120"),
    ("cow", "9", "120"),
    ("mor", "9", "120"),
]
PRICE = Decimal("1.50")
COLUMNS = ["id", "ts", "名字", "größe", "价格", "地区"]


@pytest.mark.parametrize(("kind", "version", "writer"), parameters(CASES, in_ci=[]))
def test_names_of_other_scripts_are_read_and_written_by_both(
    session: Any,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    tmp_path: Path,
    kind: str,
    version: str,
    writer: str,
) -> None:
    oracle = {"015": oracle_015, "120": oracle_120}[writer]
    path = str(tmp_path / "t")

    with own_database(session, "names"):
        session.sql(
            "CREATE TABLE names.t (id INT, ts INT, `名字` STRING, `größe` STRUCT<a: INT>, "
            "`价格` DECIMAL(10, 2), `地区` STRING) "
            f"USING hudi PARTITIONED BY (`地区`) LOCATION '{path}' TBLPROPERTIES (type = '{kind}', "
            f"primaryKey = 'id', preCombineField = 'ts', 'hoodie.write.table.version' = '{version}')"
        )
        session.sql(
            "INSERT INTO names.t VALUES (1, 1, '李', struct(1), 1.5, '北京'), "
            "(2, 1, '王', struct(2), 2.5, '上海')"
        )
        session.sql("UPDATE names.t SET `名字` = '李明' WHERE `名字` = '李'")
        one, two = (1, 1, "李明", {"a": 1}, PRICE, "北京"), (2, 1, "王", {"a": 2}, Decimal("2.50"), "上海")
        theirs = oracle.read(path).select(COLUMNS).to_pylist()
        assert sorted(tuple(row.values()) for row in theirs) == [one, two]
        rows = [(2, 2, "王王", {"a": 3}, PRICE, "上海"), (3, 1, "张", {"a": 4}, PRICE, "北京")]
        schema = pa.schema(
            [
                *(pa.field("id", pa.int32()), pa.field("ts", pa.int32()), pa.field("名字", pa.string())),
                pa.field("größe", pa.struct([("a", pa.int32())])),
                pa.field("价格", pa.decimal128(10, 2)),
                pa.field("地区", pa.string()),
            ]
        )
        options = {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "地区",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind],
            "hoodie.write.table.version": version,
        }
        oracle.upsert(
            pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], schema),
            path,
            options,
        )
        session.sql("UPDATE names.t SET `größe` = struct(5) WHERE `地区` = '北京' AND id = 3")
        if kind == "mor":
            session.sql("CALL run_compaction(table => 'names.t', op => 'scheduleAndExecute')")
        found = session.sql(f"SELECT {', '.join(f'`{name}`' for name in COLUMNS)} FROM names.t").rows
        expected = [one, rows[0], (3, 1, "张", {"a": 5}, PRICE, "北京")]
        assert sorted((*row[:3], row[3].asDict(), *row[4:]) for row in found) == expected
        theirs = oracle.read(path).select(COLUMNS).to_pylist()
        assert sorted(tuple(row.values()) for row in theirs) == expected
