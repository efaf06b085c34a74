"""Spark's optimizer says what a query needs; filters are translated only where they mean exactly the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudisql.read.files.predicates import Comparison, In, columns_of, restrict_predicate
from hudisql.sql.query.catalyst import (
    ScanNeeds,
    find_scan_needs,
    plan_without_running,
    prune_schema,
    read_placeholder,
)
from hudisql.sql.query.references import parse_plan
from tests.spark_versions import needs_spark

pytestmark = pytest.mark.spark

SCHEMA = """id STRING, a INT, b DOUBLE, f FLOAT, st STRUCT<x: INT, y: STRUCT<z: STRING, w: INT>>,
  arr ARRAY<STRUCT<p: INT, q: INT>>, m MAP<STRING, STRUCT<u: INT, v: INT>>, d DATE, ts TIMESTAMP,
  nt TIMESTAMP_NTZ,
  de DECIMAL(12, 2), bo BOOLEAN, bi BINARY, sm SMALLINT, dt STRING, n INT"""


@pytest.fixture
def needs(spark: Any, tmp_path: Any) -> Iterator[Any]:
    """A function from a query over h0 and h1 to what it needs of them."""
    from pyspark.sql.types import _parse_datatype_string

    names = ("h0", "h1")
    schema = _parse_datatype_string(SCHEMA).json()
    for name in names:
        read_placeholder(spark, name, schema, str(tmp_path)).createOrReplaceTempView(name)
    partition_columns = dict.fromkeys(names, ("dt", "n"))
    yield lambda text: find_scan_needs(
        spark, plan_without_running(spark, parse_plan(spark, text)), partition_columns
    )
    for name in names:
        spark.catalog.dropTempView(name)


def predicate_of(needs: Any, condition: str) -> str:
    return str(needs(f"SELECT id FROM h0 WHERE {condition}")["h0"].predicate)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a = 1", "a = 1"),
        ("1 < a", "a > 1"),
        ("a <=> 3", "a <=> 3"),
        ("a <=> NULL", "a IS NULL"),
        ("NOT (a = 1 AND b > 2)", "(NOT a = 1 OR b <= 2.0)"),
        ("a IN (1, 2, NULL)", "a IN (1, 2, NULL)"),
        ("a IS NULL OR st.y.z = 'q'", "(a IS NULL OR st.y.z = 'q')"),
        ("id LIKE 'k%'", "id STARTS WITH 'k'"),
        ("de <= 1.5", "de <= 1.50"),
        ("bo", "bo = True"),
        ("NOT bo", "NOT bo = True"),
        ("a > 1.5", "a > 1"),
        ("d >= '2024-01-02'", "d >= 2024-01-02"),
    ],
)
def test_filters_that_mean_the_same_are_translated(needs: Any, condition: str, expected: str) -> None:
    assert expected in predicate_of(needs, condition)


@pytest.mark.parametrize(
    "condition",
    [
        "lower(id) = 'x'",
        "id LIKE '%x'",
        "id LIKE 'a_c'",
        "CAST(id AS INT) = 5",
        "a + 1 = 2",
        "arr[0].p = 1",
        "m['k'].u = 1",
        pytest.param("id COLLATE UTF8_LCASE = 'X'", marks=needs_spark("4.0", "COLLATE")),
        "a = n",
        "rand() > 0.5",
        "a > (SELECT max(a) FROM h1)",
        "lower(id) = 'x' OR a = 1",
        "NOT (lower(id) = 'x' AND a = 1)",
        "size(arr) > 0",
    ],
)
def test_filters_that_could_mean_something_else_are_left_to_spark(needs: Any, condition: str) -> None:
    predicate = needs(f"SELECT id FROM h0 WHERE {condition}")["h0"].predicate
    # Spark infers `IS NOT NULL` beside; nothing else may come of it.
    assert (
        all("IS NOT NULL" in part for part in str(predicate).strip("()").split(" AND ")) or predicate is None
    )


def test_values_keep_their_types(needs: Any) -> None:
    # Spark 3.5 compares dates with texts as texts.
    days = ", ".join(f"CAST('2020-01-{day:02}' AS DATE)" for day in range(1, 13))
    found = needs(
        "SELECT 1 FROM h0 WHERE d = DATE'2024-02-29' AND ts = TIMESTAMP'2024-02-29 01:02:03.000004' AND "
        "nt = TIMESTAMP_NTZ'1960-01-01 00:00:00' AND de = 7 AND bi = X'00FF' AND sm = 3 AND b = 'NaN' AND "
        f"d IN ({days}) OR false"
    )["h0"].predicate
    values = {part.column[0]: part.value for part in found.parts if isinstance(part, Comparison)}
    assert values["d"] == date(2024, 2, 29)
    assert values["ts"] == datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)
    assert values["nt"] == datetime(1960, 1, 1)
    assert values["de"] == Decimal("7.00")
    assert values["bi"] == b"\x00\xff"
    assert (values["sm"], str(values["b"])) == (3, "nan")
    (dates,) = (part for part in found.parts if isinstance(part, In))
    assert set(dates.values) == {date(2020, 1, day) for day in range(1, 13)}


def test_columns_and_nested_fields_reach_through_joins_and_subqueries(needs: Any) -> None:
    found = needs(
        "WITH c AS (SELECT * FROM h0) SELECT c.st.y.w, arr.q FROM c WHERE EXISTS "
        "(SELECT 1 FROM h1 WHERE h1.id = c.id AND h1.dt = 'x') AND a > (SELECT avg(a) FROM h1 WHERE n = 3)"
    )
    assert found["h0"].fields == {"id": None, "a": None, "st": {"y": {"w": None}}, "arr": {"q": None}}
    # Two scans of one placeholder give one need that serves both.
    assert found["h1"].fields == {"id": None, "dt": None, "a": None, "n": None}
    assert columns_of(found["h1"].predicate) == {("dt",), ("n",)}
    assert needs("SELECT count(*) FROM h0")["h0"] == ScanNeeds({})


def test_a_table_that_cannot_change_the_result_is_not_read_but_one_in_a_command_always_is(needs: Any) -> None:
    assert not needs("SELECT * FROM h0 WHERE 1 = 0")["h0"].is_read
    assert not needs("SELECT h0.a FROM h0 LEFT JOIN (SELECT DISTINCT id FROM h1) q ON h0.id = q.id")[
        "h1"
    ].is_read
    found = needs("CREATE TABLE absent USING parquet AS SELECT a FROM h0 WHERE b = 1")
    assert found["h0"].fields == {"a": None, "b": None}
    assert found["h1"].is_read


def test_filters_of_partition_columns_that_only_spark_understands_come_as_text(needs: Any) -> None:
    found = needs("SELECT id FROM h0 AS q WHERE dt = 5 AND n % 2 = 1 AND upper(id) = 'X' AND a = n")["h0"]
    assert len(found.partition_conditions) == 2
    assert any("% 2" in condition.text for condition in found.partition_conditions)


def test_part_of_a_predicate_speaks_of_some_columns_alone() -> None:
    from hudisql.read.files.predicates import And, Not, Or

    p, q = Comparison(("p",), "=", 1), Comparison(("q",), "=", 2)
    assert restrict_predicate(And((p, q)), {"p"}) == p
    assert restrict_predicate(Or((And((p, q)), p)), {"p"}) == Or((p, p))
    assert restrict_predicate(Or((p, q)), {"p"}) is None
    assert restrict_predicate(Not(And((p, q))), {"p"}) is None
    assert restrict_predicate(Not(p), {"p"}) == Not(p)


def test_a_schema_is_pruned_below_structs_and_lists() -> None:
    inner = pa.struct([("p", pa.int32()), ("q", pa.int32())])
    schema = pa.schema(
        [
            ("a", pa.int32()),
            ("l", pa.list_(pa.field("element", inner))),
            ("s", inner),
            ("m", pa.map_(pa.string(), inner)),
        ]
    )
    pruned = prune_schema(schema, {"l": {"q": None}, "s": {"p": None}, "m": None})
    assert pruned.names == ["l", "s", "m"]
    assert [field.name for field in pruned.field("l").type.value_type] == ["q"]
    assert pruned.field("l").type.value_field.name == "element"
    assert [field.name for field in pruned.field("s").type] == ["p"]
    assert pruned.field("m") == schema.field("m")
    assert prune_schema(schema, None) == schema


def test_placeholders_lie_on_the_driver_whatever_the_default_file_system_is(
    spark: Any, tmp_path: Any
) -> None:
    from pyspark.sql.types import _parse_datatype_string

    schema = _parse_datatype_string("a INT").json()
    spark.conf.set("fs.defaultFS", "viewfs://nowhere/")
    try:
        assert read_placeholder(spark, "h0", schema, str(tmp_path)).columns == ["a"]
    finally:
        spark.conf.unset("fs.defaultFS")
