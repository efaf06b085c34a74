"""The definition of an incremental table in the properties of its metastore entry."""

from __future__ import annotations

import pytest

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import CorruptTableError
from hudisql.sql.incremental_tables.definition import IncrementalDefinition, definition_of


def entry(parameters: dict[str, str]) -> MetastoreTable:
    return MetastoreTable("db", "t", "EXTERNAL_TABLE", "/t", (), parameters=parameters)


@pytest.mark.parametrize("length", [10, 10_000])
@pytest.mark.parametrize("key", [("id",), ("a`b", "c d")])
def test_properties_hold_the_definition(length: int, key: tuple[str, ...]) -> None:
    made = IncrementalDefinition("SELECT " + "x" * length, "shop", key, "ts" if length == 10 else None)
    properties = made.properties()
    assert max(map(len, properties.values())) <= 4000
    assert definition_of(entry(properties)) == made


def test_other_tables_have_none_and_a_lost_key_is_an_error() -> None:
    assert definition_of(entry({"hudisql.other": "x"})) is None
    with pytest.raises(CorruptTableError, match=r"lacks the property hudisql\.incremental\.key"):
        definition_of(entry({"hudisql.incremental.query": "SELECT 1"}))
