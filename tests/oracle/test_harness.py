"""The oracles themselves: Apache Hudi, as the harness drives it, gives the golden tables' known rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.comparison import META_COLUMNS, golden_rows

pytestmark = pytest.mark.oracle

VERSION_6_TABLES = (
    "cow_bootstrap_meta",
    "cow_bootstrap_2part",
    "cow_bootstrap_meta_nonpart",
    "cow_bootstrap_mixed",
    "cow_bootstrap_then_upsert_delete",
    "mor_parquet_log",
)


def _by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["id"], row["seq"]))


def _assert_golden(oracle: HudiOracle, golden: Any) -> None:
    table = oracle.read(golden.table)
    data_columns = [field["name"] for field in golden.schema["fields"]]
    assert _by_key(golden_rows(table.select(data_columns))) == _by_key(golden.rows)
    meta_rows = table.select(META_COLUMNS).to_pylist()
    assert sorted(meta_rows, key=str) == sorted(golden.meta_rows, key=str)


@pytest.mark.parametrize("name", VERSION_6_TABLES)
def test_hudi_015_reads_the_golden_rows(
    oracle_015: HudiOracle, golden: Callable[[str], Any], name: str
) -> None:
    _assert_golden(oracle_015, golden(name))


@pytest.mark.parametrize("name", [*VERSION_6_TABLES, "cow_bootstrap_meta_v120"])
def test_hudi_120_reads_the_golden_rows(
    oracle_120: HudiOracle, golden: Callable[[str], Any], name: str
) -> None:
    _assert_golden(oracle_120, golden(name))


def _rows(first: int, last: int, note: str) -> pa.Table:
    numbers = range(first, last)
    return pa.table(
        {
            "id": [f"k{number}" for number in numbers],
            "seq": pa.array(numbers, pa.int32()),
            "note": [note for _ in numbers],
        }
    )


@pytest.mark.parametrize("oracle_name", ["oracle_015", "oracle_120"])
def test_an_oracle_bootstraps_upserts_and_answers_sql(
    request: pytest.FixtureRequest, oracle_name: str, tmp_path: Path
) -> None:
    oracle: HudiOracle = request.getfixturevalue(oracle_name)
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    oracle.write(_rows(0, 50, "first"), source, {}, mode="overwrite", format="parquet")
    keys = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
    }
    oracle.bootstrap(source, target, keys)
    oracle.upsert(_rows(40, 60, "second"), target, keys)
    oracle.view("harness_t", target)
    counts = oracle.sql("SELECT note, count(*) AS rows FROM harness_t GROUP BY note ORDER BY note")
    assert counts.to_pydict() == {"note": ["first", "second"], "rows": [40, 20]}
    assert "hoodie.table.version=6" in (tmp_path / "target/.hoodie/hoodie.properties").read_text()


def test_what_hudi_refuses_is_an_error_with_its_own_words(oracle_015: HudiOracle, tmp_path: Path) -> None:
    with pytest.raises(OracleError, match=r"PATH_NOT_FOUND|does not exist|TableNotFound"):
        oracle_015.read(str(tmp_path / "nothing"))
