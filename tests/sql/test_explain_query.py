"""EXPLAIN says for each Hudi table what is read, and shows Spark's plan."""

from __future__ import annotations

from typing import Any

import pytest

from hudisql.context import Context
from hudisql.sql.dispatch import execute

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("golden_tables")]


def explained(context: Context, text: str) -> str:
    result = execute(context, text)
    ((plan,),) = result.rows
    assert [field.name for field in result.schema.fields] == ["plan"]
    return str(plan)


def test_explain_shows_slices_columns_filters_and_the_way_of_reading_for_each_reference(
    context: Context,
) -> None:
    plan = explained(
        context,
        "EXPLAIN EXTENDED SELECT a.st.b, c._hoodie_record_key FROM db.t a JOIN db.t c ON a.id = c.id "
        "WHERE a.dt = '2024-03-02' AND a.seq > 3",
    )
    hudi, spark_plan = plan.split("\n\n", 1)
    first, second = hudi.split("(2) db.t")
    assert first.startswith("== Hudi Tables ==\n(1) db.t\n")
    facts = {
        line.strip().split("  ")[0]: line.strip().split("  ")[-1].strip() for line in first.splitlines()[2:]
    }
    assert facts["scan"] == "native"
    assert facts["partitions"] == "1 of 3"
    assert facts["file slices"].startswith("2 of 6")
    assert facts["columns"] == "id, seq, st<b>, dt"
    assert "seq > 3" in facts["row filter"]
    assert "dt = '2024-03-02'" in facts["partition filter"]
    assert "stitched" in second
    assert "_hoodie_record_key, id" in second
    assert "== Physical Plan ==" in spark_plan
    assert "__hudisql" not in plan


@pytest.mark.parametrize("mode", ["", "FORMATTED "])
def test_only_explain_extended_counts_what_is_left_out(context: Context, mode: str) -> None:
    text = "SELECT id FROM db.t WHERE dt = '2024-03-02'"
    counted = explained(context, f"EXPLAIN EXTENDED {text}")
    assert "file slices       2 of 6 (" in counted
    plan = explained(context, f"EXPLAIN {mode}{text}")
    assert "file slices       2 (" in plan
    assert " of 6" not in plan


def test_explain_formatted_of_an_insert_names_the_table_as_the_user_does(
    context: Context, tmp_path: Any
) -> None:
    plan = explained(
        context,
        f"EXPLAIN EXTENDED INSERT OVERWRITE DIRECTORY '{tmp_path}/o' USING parquet "
        "SELECT id FROM db.n WHERE seq = 1",
    )
    assert "(1) db.n" in plan
    assert "== Parsed Logical Plan ==" in plan
    assert "UnresolvedRelation [db.n]" in plan
    assert not (tmp_path / "o").exists()


def test_explain_says_when_a_table_does_not_matter(context: Context) -> None:
    assert "not read" in explained(context, "EXPLAIN SELECT id FROM db.t WHERE 1 = 0")


def test_explain_without_hudi_tables_is_sparks_own(context: Context) -> None:
    assert explained(context, "EXPLAIN SELECT 1 AS x").startswith("== Physical Plan ==")
