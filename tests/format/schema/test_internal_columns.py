"""Internal columns have names that no column of a Hudi table can have, all by one rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hudisql
from hudisql.errors import WriteRefusedError
from hudisql.format.schema.avro_schema import is_avro_name
from hudisql.format.schema.internal_columns import internal_column, internal_prefix, refuse_internal_names

_NO_COLUMNS = {
    "__hudisql_",
    "__hudisql_source_",
    "__hudisql_refresh_",
    "__hudisql_values_",
    "__hudisql_rows_",
    "__hudisql_[0-9a-f]{8}_of_",
    "_hudisql_known",
    "_hudisql_serving",
}
"""What the names of temporary views begin with, and attributes of Python objects."""


def test_no_column_of_a_table_has_an_internal_name() -> None:
    assert not is_avro_name(internal_column("partition"))
    assert not is_avro_name(internal_prefix("stored") + "partition")
    assert internal_column("stored_partition") != internal_prefix("stored") + "partition"


def test_columns_of_a_query_with_internal_names_are_refused() -> None:
    internal = [internal_column("action")]
    refuse_internal_names(["id", "__hudisql_action"], "the source", internal)
    with pytest.raises(WriteRefusedError, match="the source has the column '__HUDISQL:action'"):
        refuse_internal_names(["id", "__HUDISQL:action"], "the source", internal)


def test_all_internal_names_are_made_in_one_module() -> None:
    package = Path(hudisql.__file__).parent
    texts = [
        (path.name, text)
        for path in package.rglob("*.py")
        if path.name != "internal_columns.py"
        for text in _texts(path)
        if text.startswith(("__hudisql", "_hudisql_"))
    ]
    assert texts
    assert {text for _, text in texts} <= _NO_COLUMNS, texts


def _texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
