"""Which conditions of a MERGE find each stored row that has the record key of an inserted row."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from hudisql.sql.dml.dml_rewrite import source_alias
from hudisql.sql.dml.inserted_keys import equalities_that_miss_nulls
from hudisql.sql.text.clauses import read_merge
from hudisql.sql.text.statements import Statement

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("dt", pa.string())])
SOURCE = StructType(
    [
        StructField("id", IntegerType()),
        StructField("other", LongType()),
        StructField("price", DoubleType()),
        StructField("dt", StringType()),
    ]
)
STAR = "WHEN NOT MATCHED THEN INSERT *"
QUOTED = "WHEN NOT MATCHED AND s.price > 1 THEN INSERT (`id`, `dt`) VALUES (s.`id`, s.`dt`)"
OTHER = "WHEN NOT MATCHED AND s.price > 1 THEN INSERT * WHEN NOT MATCHED THEN INSERT (id) VALUES (s.other)"


def missed(
    condition: str,
    clauses: str = STAR,
    key: tuple[str, ...] = ("id",),
    place: tuple[str, ...] = ("dt",),
    source: StructType = SOURCE,
) -> list[str] | None:
    merge = read_merge(Statement(f"MERGE INTO lake.t AS t USING src AS s ON {condition} {clauses}"))
    found = equalities_that_miss_nulls(merge, SCHEMA, source, source_alias(merge), key, place)
    return None if found is None else [equality.target.name for equality in found]


def finds(condition: str, clauses: str = STAR, place: tuple[str, ...] = ("dt",)) -> bool:
    return missed(condition, clauses, place=place) is not None


@pytest.mark.parametrize(
    ("condition", "key", "names"),
    [
        ("t.id = s.id", ("id",), []),
        ("t.id = s.id AND t.dt = s.dt", ("id",), ["dt"]),
        ("t.id = s.id AND t.dt <=> s.dt", ("id",), []),
        ("t.id = s.id AND t.dt = s.dt", ("id", "dt"), ["id", "dt"]),
        ("t.id <=> s.id AND t.dt = s.dt", ("id", "dt"), ["dt"]),
    ],
)
def test_an_equality_finds_no_stored_null(condition: str, key: tuple[str, ...], names: list[str]) -> None:
    assert missed(condition, key=key) == names
    required = StructType([StructField(each.name, each.dataType, nullable=False) for each in SOURCE])
    assert missed(condition, key=key, source=required) == []


@pytest.mark.parametrize(
    ("condition", "clauses"),
    [
        ("t.id = s.id", STAR),
        ("s.ID = T.id", STAR),
        ("t.`id` <=> s.`id`", QUOTED),
        ("t.id = s.id AND t.dt = s.dt", STAR),
        ("t.id = other", "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.other)"),
    ],
)
def test_equality_of_the_key_and_partition_finds_stored_keys(condition: str, clauses: str) -> None:
    assert finds(condition, clauses)


@pytest.mark.parametrize(
    ("condition", "clauses"),
    [
        ("t.id = s.id AND t.price = s.price", STAR),
        ("t.id = s.id AND t.price > 1", STAR),
        ("t.id = s.id OR t.dt = s.dt", STAR),
        ("t.dt = s.dt", STAR),
        ("false", STAR),
        ("t.id = s.price", "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.price)"),
        ("t.id = s.id", "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id + 1)"),
        ("t.id = s.id", OTHER),
        ("t.id = s.other", STAR),
        ("t.id = ${key}", STAR),
    ],
)
def test_every_other_condition_may_miss_a_stored_key(condition: str, clauses: str) -> None:
    assert not finds(condition, clauses)


def test_the_partition_does_not_count_where_a_key_is_unique_in_the_table() -> None:
    assert finds("t.id = s.id", place=())
    assert not finds("t.id = s.id AND t.dt = s.dt", place=())
