"""Each text of a statement is parsed once by Spark's parser before Spark runs it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hudisql.session import Session
from hudisql.sql.query import references

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the texts that hudisql has Spark parse."""
    texts: Counter[str] = Counter()
    parse_plan = references.parse_plan

    def count(spark: Any, text: str, source: Any = None) -> Any:
        texts[text] += 1
        return parse_plan(spark, text, source)

    for name, module in list(sys.modules.items()):
        if name.startswith("hudisql.") and hasattr(module, "parse_plan"):
            monkeypatch.setattr(module, "parse_plan", count)
    return texts


def test_statements_that_go_to_spark_are_parsed_once(
    session: Session, tmp_path: Path, parsed: Counter[str]
) -> None:
    statements = [
        "CREATE DATABASE parsed",
        f"CREATE TABLE parsed.t (id INT) USING parquet LOCATION '{tmp_path / 't'}'",
        "INSERT INTO parsed.t VALUES (1)",
        "INSERT OVERWRITE parsed.t SELECT 2",
        "SELECT * FROM parsed.t",
        "ALTER TABLE parsed.t SET TBLPROPERTIES ('a' = 'b')",
        "ANALYZE TABLE parsed.t COMPUTE STATISTICS",
        "DROP TABLE parsed.t",
        "DROP DATABASE parsed",
    ]
    for text in statements:
        session.sql(text)
    assert {text: parsed[text] for text in statements[:-1]} == dict.fromkeys(statements[:-1], 1)
