"""The definition of an incremental table in the properties of its metastore entry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import CorruptTableError
from hudisql.sql.incremental_tables.definition import IncrementalDefinition, definition_of
from hudisql.sql.incremental_tables.sources import is_fixed_time
from hudisql.sql.query.views import ViewColumn, ViewDefinition


def entry(parameters: dict[str, str]) -> MetastoreTable:
    return MetastoreTable("db", "t", "EXTERNAL_TABLE", "/t", (), parameters=parameters)


@pytest.mark.parametrize("length", [10, 10_000])
@pytest.mark.parametrize("key", [("id",), ("a`b", "c d")])
def test_properties_hold_the_definition(length: int, key: tuple[str, ...]) -> None:
    settings = {"spark.sql.session.timeZone": "Asia/Tokyo"} if length == 10 else {}
    made = IncrementalDefinition(
        "SELECT " + "x" * length, "shop", key, "ts" if length == 10 else None, settings
    )
    properties = made.properties()
    assert max(map(len, properties.values())) <= 4000
    assert definition_of(entry(properties)) == made


def test_other_tables_have_none_and_a_lost_key_is_an_error() -> None:
    assert definition_of(entry({"hudisql.other": "x"})) is None
    with pytest.raises(CorruptTableError, match=r"lacks the property hudisql\.incremental\.key"):
        definition_of(entry({"hudisql.incremental.query": "SELECT 1"}))


def test_a_view_is_told_from_its_successor() -> None:
    made = ViewDefinition("db.v", "db", "SELECT 1", (ViewColumn("a", "int"),))
    same = ViewDefinition("db.v", "db", "SELECT 1", (ViewColumn("a", "int"),))
    assert made.fingerprint == same.fingerprint
    other = [replace(made, text="SELECT 2"), replace(made, configuration={"spark.sql.ansi.enabled": "false"})]
    assert len({made.fingerprint, *(each.fingerprint for each in other)}) == 3


@pytest.mark.parametrize(
    ("text", "is_fixed"),
    [
        ("'2024-03-01'", True),
        (" TIMESTAMP '2024-03-01 12:00:00'", True),
        ("current_date()", False),
        ("'now'", False),
        ("TIMESTAMP 'yesterday'", False),
        ("date_sub(DATE '2024-03-01', 1)", False),
    ],
)
def test_past_states_by_expressions_may_move(text: str, is_fixed: bool) -> None:
    assert is_fixed_time(text) is is_fixed
