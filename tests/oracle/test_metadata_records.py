"""The records of metadata tables that hudisql makes and keeps decode to the same in Apache Hudi."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.opened import open_kept
from tests.oracle.client import HudiOracle
from tests.oracle.shapes import SHAPES, bootstrap_shape, noted_rows
from tests.oracle.test_record_index import OURS, WITH_INDEX
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE = next(shape for shape in SHAPES if shape.name == "partitioned")
# Types of records: of all partitions, of one, column_stats and record_index.
TYPES = {1, 2, 3, 5}
PARTITION_STATS = 6


@pytest.mark.parametrize(
    ("version", "table_type"),
    parameters(
        [(version, kind) for version in ("6", "9") for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")],
        in_ci=[("6", "MERGE_ON_READ"), ("9", "MERGE_ON_READ")],
    ),
)
def test_hudi_decodes_each_record_as_hudisql_does(
    session: Any,
    version: str,
    table_type: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """A process of 1.2 that did not write a metadata table before it reads one fails: docs/facts.md."""
    oracle: HudiOracle = request.getfixturevalue("oracle_015" if version == "6" else "oracle_120")
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE, table_type=table_type, name=f"decoded_{table_type[:5].lower()}_{version}")
    made = bootstrap_shape(
        session, shape, tmp_path, table_version=version, indexes="column_stats,record_index"
    )
    for statement in OURS:
        session.sql(statement.replace("{t}", f"oracle.{shape.name}"))
    open_kept(made.path)
    if version == "9":
        oracle.upsert(
            noted_rows(shape, 0, 1), str(tmp_path / "first"), {**shape.write_options(), **WITH_INDEX}
        )
    theirs = _records(
        oracle.read(f"{made.path}/.hoodie/metadata")
        if version == "6"
        else oracle.sql(f"SELECT * FROM hudi_metadata('{made.path}')")
    )
    assert _records(session.sql(f"SELECT * FROM hudi_metadata('{made.path}')").arrow()) == theirs
    types = {kind for kind, _ in theirs}
    assert types == TYPES | ({PARTITION_STATS} if version == "9" else set())


def _records(rows: Any) -> dict[tuple[int, str], Any]:
    """The records by type and key, without nulls: Hudi shows more types of values, and meta columns."""
    records = rows.to_pylist()
    found = {(record["type"], record["key"]): _filled(record) for record in records}
    assert len(found) == len(records) > 200
    for record in found.values():
        statistics = record.get("ColumnStatsMetadata", {})
        for bound in statistics.keys() & {"minValue", "maxValue"}:
            statistics[bound] = _value(statistics[bound])
    return found


def _filled(value: Any) -> Any:
    if isinstance(value, list):
        return dict(value)
    if not isinstance(value, dict):
        return value
    filled = {name: _filled(each) for name, each in value.items() if not name.startswith("_hoodie_")}
    return {name: each for name, each in filled.items() if each is not None}


def _value(members: dict[str, dict[str, Any]]) -> Any:
    """0.15 shows days as integers, and decimals as the bytes of their 10 ** 15 fold."""
    ((_, wrapper),) = members.items()
    value = wrapper["value"]
    return Decimal(int.from_bytes(value, signed=True)).scaleb(-15) if isinstance(value, bytes) else value
