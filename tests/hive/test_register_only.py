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
from tests.soak import parameters

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms]

QUERY = "SELECT dt, count(*) AS n, count(`_hoodie_record_key`) AS k, sum(seq) AS s FROM {} GROUP BY dt"
COLD, HOT = ("2024-03-01", 40, 0, 2340), [("2024-03-02", 40, 40, 2380), ("2024-03-03", 40, 40, 2420)]


@pytest.mark.parametrize("version", parameters(["015", "120"], in_ci=["015"]))
def test_hive_sees_register_only_partitions_and_spark_with_hudi_does_not(
    request: pytest.FixtureRequest, hive_server: HiveServer, session: Any, tmp_path: Path, version: str
) -> None:
    oracle: HudiOracle = request.getfixturevalue(f"oracle_{version}")
    shape, name = SHAPES[0], f"oracle.{SHAPES[0].name}"
    made = bootstrap_shape(session, shape, tmp_path, register_only_where="dt <= \\'2024-03-01\\'")
    hive, hudisql = ask_beeline(hive_server), ask_hudisql(session)
    assert_rows(hive(QUERY.format(name)), [COLD, *HOT])
    # A writer of Hudi leaves the properties and records of hudisql's as they are.
    oracle.upsert(noted_rows(shape, 1, 2), made.path, shape.write_options())
    assert_rows(ask_oracle(oracle)(QUERY.format(name)), HOT)
    assert_rows(hudisql(QUERY.format(name)), [COLD, *HOT])
    oracle.upsert(noted_rows(shape, 0, 1), made.path, shape.write_options())
    with pytest.raises(UnsupportedTableError, match="another writer, which does not know that"):
        hudisql(QUERY.format(name))
    assert_rows(hudisql(QUERY.format(name).replace(" GROUP", " WHERE dt > '2024-03-01' GROUP")), HOT)


@pytest.mark.soak
def test_hive_sees_them_by_all_names_of_a_merge_on_read_table(
    hive_server: HiveServer, session: Any, tmp_path: Path
) -> None:
    shape = next(each for each in SHAPES if each.name == "merge_on_read")
    bootstrap_shape(session, shape, tmp_path, register_only_where="dt <= \\'2024-03-01\\'")
    hive = ask_beeline(hive_server)
    assert_rows(hive(QUERY.format("oracle.merge_on_read_ro")), [COLD, *HOT])
    # Hive fails on the real-time names while the newest commit of a table wrote base files.
    session.sql("UPDATE oracle.merge_on_read SET note = 'changed' WHERE seq = 1")
    for name in ("merge_on_read", "merge_on_read_rt", "merge_on_read_ro"):
        assert_rows(hive(QUERY.format(f"oracle.{name}")), [COLD, *HOT])
