"""Completion: what may stand for the word before the cursor."""

from __future__ import annotations

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from hudisql.cli.interactive.completion import StatementCompleter, candidates
from tests.cli.interactive.sample_names import SampleNames


def completed(text: str) -> list[str]:
    """The texts that may stand for the word before the cursor, which is at `|`."""
    before, _, after = text.partition("|")
    return [each.text for each in candidates(before, before + after, SampleNames())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sel|", ["select"]),
        ("SEL|", ["SELECT"]),
        ("select 1; ins|", ["insert"]),
        ("SELECT * FROM |", ["orders", "customers", "lake.", "raw."]),
        ("SELECT * FROM o|", ["orders"]),
        ("SELECT * FROM raw.|", ["raw.events"]),
        ("SELECT * FROM raw.EV|", ["raw.events"]),
        ("MERGE INTO lake.c|", ["lake.customers"]),
        ("MERGE INTO orders o USING c|", ["customers"]),
        ("SELECT a| FROM orders", ["amount", "add", "all", "alter", "analyze", "and", "anti", "as", "asc"]),
        (
            "SELECT o.| FROM orders o JOIN customers c",
            ["o.order_id", "o.amount", "o.dt", "o._hoodie_commit_time"],
        ),
        ("SELECT c.n| FROM orders AS o JOIN lake.customers AS c ON 1 = 1", ["c.name"]),
        ("SELECT o.| FROM raw.events", []),
        ("SELECT * FROM orders WHERE dt = '|", []),
        ("SELECT * FROM orders WHERE dt = 'from |", []),
        ("SELECT * FROM orders WHERE dt = '2024' an|", ["analyze", "and", "anti"]),
        ("-- select * from \nsel|", ["select"]),
        ("USE r|", ["raw"]),
        ("CREATE TABLE t (a int) USING |", ["hudi", "parquet"]),
        ("CALL bootstrap_t|", ["bootstrap_table("]),
        ("CALL pause_ingest(|", ["table => "]),
        ("CALL pause_ingest(table => 'x', |", []),
        ("CALL show_commits(table => 'lake.o|", ["lake.orders"]),
        ("CALL system.pause_ingest(ta|", ["table => "]),
        ("CALL nothing(|", []),
        ("\\d|", ["\\d+", "\\dt", "\\df"]),
        (
            "SELECT o| FROM raw.events; SELECT 1 FROM orders",
            ["on", "options", "or", "order", "outer", "over", "overwrite"],
        ),
        ("\\d c|", ["customers"]),
        ("\\c r|", ["raw"]),
    ],
)
def test_candidates(text: str, expected: list[str]) -> None:
    assert completed(text) == expected


def test_parameters_that_were_given_are_not_offered_again() -> None:
    offered = completed("CALL bootstrap_table(table => 'lake.t', |")
    assert "table => " not in offered
    assert "record_key => " in offered


def test_a_word_in_upper_case_gives_keywords_in_upper_case() -> None:
    assert completed("SELECT 1 FROM orders GRO|") == ["GROUP"]


def test_columns_before_a_from_are_those_of_the_last_table_and_meta_columns_come_last() -> None:
    completer = StatementCompleter(SampleNames())
    completer.remember("SELECT * FROM orders;")
    completer.remember("SELECT 1;")
    offered = [each.text for each in completer.get_completions(Document("SELECT "), CompleteEvent())]
    assert offered[:4] == ["order_id", "amount", "dt", "_hoodie_commit_time"]
