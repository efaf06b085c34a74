"""Register-only partitions by name: Hive reads their rows, Spark with Apache Hudi gives none of them.

This is what `CALL check_readers` says of such a table, and why hudisql makes one only if it is told to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import UnsupportedTableError
from tests.hive.engines import ask_beeline, ask_hudisql, ask_oracle, assert_rows
from tests.hive.server import HiveServer
from tests.oracle.client import HudiOracle
from tests.oracle.shapes import SHAPES, bootstrap_shape, noted_rows

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms]

QUERY = "SELECT dt, count(*) AS n, count(`_hoodie_record_key`) AS k, sum(seq) AS s FROM {} GROUP BY dt"
COLD, HOT = ("2024-03-01", 40, 0, 2340), [("2024-03-02", 40, 40, 2380), ("2024-03-03", 40, 40, 2420)]


def test_hive_sees_register_only_partitions_and_spark_with_hudi_does_not(
    hive_server: HiveServer,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    session: Any,
    tmp_path: Path,
) -> None:
    shape, name = SHAPES[0], f"oracle.{SHAPES[0].name}"
    made = bootstrap_shape(session, shape, tmp_path, register_only_where="dt <= \\'2024-03-01\\'")
    hive, hudisql = ask_beeline(hive_server), ask_hudisql(session)
    assert_rows(hive(QUERY.format(name)), [COLD, *HOT])
    for oracle in (oracle_015, oracle_120):
        # Their writers leave the other partitions' rows, properties and records of hudisql's as they are.
        oracle.upsert(noted_rows(shape, 1, 2), made.path, shape.write_options())
        assert_rows(ask_oracle(oracle)(QUERY.format(name)), HOT)
        assert_rows(hudisql(QUERY.format(name)), [COLD, *HOT])
    oracle_015.upsert(noted_rows(shape, 0, 1), made.path, shape.write_options())
    with pytest.raises(UnsupportedTableError, match="another writer, which does not know that"):
        hudisql(QUERY.format(name))
    assert_rows(hudisql(QUERY.format(name).replace(" GROUP", " WHERE dt > '2024-03-01' GROUP")), HOT)
