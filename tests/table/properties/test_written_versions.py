"""Which tables writes are refused for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hudisql.table.properties.written_versions import unwritten_rule
from tests.opened import open_at
from tests.table.conftest import SCHEMA, TableDirectory


def test_several_ordering_columns_must_be_columns_of_the_table(
    make_table: Callable[..., TableDirectory],
) -> None:
    ordering = {"hoodie__table__ordering__fields": "id,meta.ts"}
    directory = make_table(hoodie__table__version="9", hoodie__table__create__schema=SCHEMA, **ordering)
    (directory.path / ".hoodie" / "timeline").mkdir()
    found = unwritten_rule(open_at(directory.path))
    assert found == "it orders rows by several columns, of which some are nested (id, meta.ts)"


@pytest.mark.parametrize(("ordering", "reason"), [("id", None), ("id,dt", r"by several columns (id,dt)")])
def test_version_6_is_not_written_if_several_columns_order_its_rows(
    make_table: Callable[..., TableDirectory], ordering: str, reason: str | None
) -> None:
    directory = make_table(hoodie__table__precombine__field=ordering)
    found = unwritten_rule(open_at(directory.path))
    assert (found or "").endswith(reason or "")
    assert (found is None) is (reason is None)
