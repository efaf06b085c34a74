"""Hive reads columns whose names have letters of other scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hive.server import HiveServer
from tests.sql.changed_tables import own_database

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]


# Hudi's reader of merged rows fails in Hive where a partition column has such a name.
@pytest.mark.parametrize(("kind", "partition"), [("mor", "area"), ("cow", "地区")])
def test_hive_reads_names_of_other_scripts(
    session: Any, hive_server: HiveServer, tmp_path: Path, kind: str, partition: str
) -> None:
    with own_database(session, "scripts"):
        session.sql(
            f"CREATE TABLE scripts.t (id INT, `名字` STRING, `größe` STRUCT<a: INT>, `{partition}` STRING) "
            f"USING hudi PARTITIONED BY (`{partition}`) LOCATION '{tmp_path / 't'}' "
            f"TBLPROPERTIES (primaryKey = 'id', type = '{kind}')"
        )
        session.sql("INSERT INTO scripts.t VALUES (1, '李', struct(1), '北京'), (2, '王', struct(2), '上海')")
        session.sql("UPDATE scripts.t SET `名字` = '李明' WHERE id = 1")
        found = hive_server.query(
            f"SELECT `名字` AS n, `größe`.a AS g, `{partition}` AS d FROM scripts.t ORDER BY g"
        )
        assert [tuple(row.values()) for row in found] == [("李明", "1", "北京"), ("王", "2", "上海")]
