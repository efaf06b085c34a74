"""Requests to the store of statements on record keys or indexed values: the same for every table size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.requests.counted_requests import A_FEW
from tests.requests.wide_tables import WideTable, wide_table

pytestmark = [pytest.mark.spark, pytest.mark.hms]

MOST_OF_A_QUERY = 14
MOST_OF_A_QUERY_BY_VALUE = 20
MOST_OF_A_CHANGE = 72
MOST_OF_A_CHANGE_IN_TWO_PARTITIONS = 96


@pytest.fixture(scope="module")
def tables(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WideTable, WideTable]]:
    directory = tmp_path_factory.mktemp("indexed")
    arguments = "table_version => 9"
    with (
        wide_table(session, "indexed_small", directory, 20, arguments=arguments) as small,
        wide_table(session, "indexed_large", directory, 80, arguments=arguments) as large,
    ):
        for table in (small, large):
            # A record index is made with it.
            session.sql(f"CREATE INDEX by_seq ON {table.name} (seq)")
        session.sql("SET hoodie.metadata.index.secondary.enable=true")
        yield small, large
        session.sql("RESET hoodie.metadata.index.secondary.enable")


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("SELECT seq, dt FROM {t} WHERE id = 'k27'", MOST_OF_A_QUERY),
        ("SELECT id, dt FROM {t} WHERE seq IN (26, 27)", MOST_OF_A_QUERY_BY_VALUE),
        ("UPDATE {t} SET price = 1 WHERE id = 'k27'", MOST_OF_A_CHANGE),
        ("DELETE FROM {t} WHERE id IN ('k28', 'k40')", MOST_OF_A_CHANGE_IN_TWO_PARTITIONS),
        (
            "MERGE INTO {t} AS t USING (SELECT 'k29' AS id, 100 AS seq) AS s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET seq = s.seq",
            MOST_OF_A_CHANGE,
        ),
    ],
)
def test_a_statement_asks_for_the_partitions_that_hold_its_keys(
    tables: tuple[WideTable, WideTable], text: str, most: int
) -> None:
    few, many = (table.requests(text)[0] for table in tables)
    assert abs(len(many) - len(few)) <= A_FEW
    assert len(many) <= most
