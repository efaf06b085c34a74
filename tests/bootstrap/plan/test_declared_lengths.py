"""CHAR(n) and VARCHAR(n) columns stay what they are when their table is bootstrapped or migrated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.bootstrap.plan.declared_lengths import declared_lengths
from hudisql.bootstrap.source.source_files import DeclaredColumn
from hudisql.errors import HudisqlError
from hudisql.format.schema.sized_text import SizedText
from hudisql.session import Session
from tests.rows import rows
from tests.sql.changed_tables import own_database


def test_texts_keep_their_types_but_a_char_that_is_a_key() -> None:
    declared = [
        DeclaredColumn("K", "char(3)", None),
        DeclaredColumn("c", "char(5)", None),
        DeclaredColumn("v", "varchar(7)", None),
        DeclaredColumn("n", "varchar(9)", None),
    ]
    names = {"k": pa.string(), "c": pa.string(), "v": pa.string(), "n": pa.int32()}
    lengths, findings = declared_lengths(declared, pa.schema(list(names.items())), ["k", "n"])
    assert lengths == {"c": SizedText(5, is_char=True), "v": SizedText(7)}
    assert [finding.message.partition(":")[0] for finding in findings] == ["column k char(3) becomes string"]


@pytest.fixture
def source(session: Session, tmp_path: Path) -> Iterator[str]:
    with own_database(session, "declared"):
        session.spark.sql(
            "CREATE TABLE declared.t (id INT, c CHAR(5), v VARCHAR(5)) USING parquet "
            f"LOCATION '{tmp_path / 'source'}'"
        )
        session.spark.sql("INSERT INTO declared.t VALUES (1, 'ab', 'ab'), (2, 'abcde', 'x'), (3, NULL, NULL)")
        yield "declared.t"


@pytest.mark.spark
@pytest.mark.hms
def test_old_queries_of_a_migrated_table_give_the_same_rows(
    session: Session, tmp_path: Path, source: str
) -> None:
    queries = (
        f"SELECT id, concat(c, '.'), v FROM {source} ORDER BY id",
        f"SELECT id FROM {source} WHERE c = 'ab'",
        f"SELECT id FROM {source} WHERE c IN ('abcde', 'x')",
    )
    before = [rows(session, query) for query in queries]
    session.sql(
        f"CALL migrate_table(table => '{source}', record_key => 'id', target_path => '{tmp_path / 'hudi'}')"
    )
    assert [rows(session, query) for query in queries] == before
    described = dict(row[:2] for row in rows(session, f"DESCRIBE {source}"))
    assert (described["c"], described["v"]) == ("char(5)", "varchar(5)")
    session.sql(f"UPDATE {source} SET c = 'q' WHERE c = 'ab'")
    assert rows(session, f"SELECT id, c FROM {source} WHERE c = 'q'") == [(1, "q    ")]
    with pytest.raises(HudisqlError, match=r"is VARCHAR\(5\)"):
        session.sql(f"UPDATE {source} SET v = 'longer' WHERE id = 2")
