"""The forms of results: nothing rounded, cut off or lost."""

from __future__ import annotations

import csv
import datetime
import io
import json
from decimal import Decimal
from typing import Any

import pytest

from hudisql.cli.output import fetch_first_rows, json_value, result_rows, text_of, write_result
from hudisql.result import LocalResult
from hudisql.session import Session


class Rows(LocalResult):
    """A result without Spark."""

    def __init__(self, names: list[str], rows: list[tuple[Any, ...]]) -> None:
        self._columns = tuple((name, "string") for name in names)
        self._values = rows


SAMPLE = Rows(
    ["id", "text", "price"],
    [(1, 'a,"b"\n c', Decimal("10.00")), (2, None, None), (3, "", Decimal("-0.5"))],
)


def written(form: str, result: LocalResult = SAMPLE) -> str:
    stream = io.StringIO()
    assert write_result(result, form, stream) == len(result.values)
    return stream.getvalue()


def test_table_aligns_columns_and_lines() -> None:
    assert written("table").splitlines() == [
        "+----+-------+-------+",
        "| id | text  | price |",
        "+----+-------+-------+",
        '| 1  | a,"b" | 10.00 |',
        "|    |  c    |       |",
        "| 2  | NULL  | NULL  |",
        "| 3  |       | -0.5  |",
        "+----+-------+-------+",
    ]


def test_table_counts_wide_characters_as_the_terminal_shows_them() -> None:
    lines = written("table", Rows(["名前"], [("東京",), ("ab",)])).splitlines()
    assert lines == ["+------+", "| 名前 |", "+------+", "| 東京 |", "| ab   |", "+------+"]


def test_csv_reads_back_and_tells_null_from_empty() -> None:
    text = written("csv")
    assert list(csv.reader(io.StringIO(text)))[1] == ["1", 'a,"b"\n c', "10.00"]
    assert text.splitlines()[0] == "id,text,price"
    assert text.splitlines()[-2:] == ["2,,", '3,"",-0.5']


def test_tsv_escapes_what_would_break_a_line() -> None:
    result = Rows(["a\tb"], [("x\ty\nz\\",), (None,)])
    assert written("tsv", result) == "a\\tb\nx\\ty\\nz\\\\\n\\N\n"


def test_json_is_one_array_of_objects() -> None:
    assert json.loads(written("json")) == [
        {"id": 1, "text": 'a,"b"\n c', "price": "10.00"},
        {"id": 2, "text": None, "price": None},
        {"id": 3, "text": "", "price": "-0.5"},
    ]
    assert json.loads(written("json", Rows(["a"], []))) == []


def test_jsonl_is_one_object_a_line() -> None:
    lines = written("jsonl").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1, 2, 3]
    assert written("jsonl", Rows(["a"], [])) == ""


def test_columns_of_one_name_stay_apart_in_objects() -> None:
    result = Rows(["a", "a", "a_2"], [(1, 2, 3)])
    assert json.loads(written("jsonl", result)) == {"a": 1, "a_2": 2, "a_2_2": 3}


def test_vertical_shows_a_column_a_line() -> None:
    result = Rows(["id", "text"], [(1, "a\nb"), (2, None)])
    assert written("vertical", result) == (
        "-[ 1 ]-\nid   : 1\ntext : a\n       b\n-[ 2 ]-\nid   : 2\ntext : NULL\n"
    )


@pytest.mark.parametrize(
    ("value", "text", "in_json"),
    [
        (None, None, None),
        (True, "true", True),
        (1.5, "1.5", 1.5),
        (float("nan"), "NaN", "NaN"),
        (float("-inf"), "-Infinity", "-Infinity"),
        (Decimal("1E+3"), "1000", "1000"),
        (2**60, str(2**60), 2**60),
        (datetime.date(2024, 3, 1), "2024-03-01", "2024-03-01"),
        (datetime.datetime(2024, 3, 1, 1, 2, 3, 500000), "2024-03-01 01:02:03.5", "2024-03-01 01:02:03.5"),
        (datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC), "2024-03-01 00:00:00", "2024-03-01 00:00:00"),
        (b"\x00\xff", "00FF", "00FF"),
        ([1, None], "[1, null]", [1, None]),
        ({"a": Decimal("1.0")}, '{"a": "1.0"}', {"a": "1.0"}),
    ],
)
def test_values_as_text_and_in_json(value: object, text: str | None, in_json: object) -> None:
    assert text_of(value) == text
    assert json_value(value) == in_json


def test_long_texts_wrap_at_spaces_and_nothing_is_cut_off() -> None:
    text = "decimals stored as INT64 " * 8 + "x" * 100
    lines = written("table", Rows(["a", "b"], [("1", text)])).splitlines()
    shown = [line.split("|")[2].strip() for line in lines[3:-1]]
    assert len(shown) == 4
    assert " ".join(shown) == text


def test_one_text_of_several_lines_is_printed_as_it_is() -> None:
    plan = "== Hudi Tables ==\n  scan  native\n"
    assert written("table", Rows(["plan"], [(plan,)])) == plan


@pytest.mark.spark
@pytest.mark.hms
def test_nested_values_that_are_empty_or_null_can_be_printed(session: Session) -> None:
    text = (
        "SELECT st, m, map() AS e, array(map(1.5D, X'ff')) AS am, X'00ff' AS b, "
        "struct(map('k', n) AS q) AS sm "
        "FROM (SELECT 1 AS id, CAST(NULL AS INT) AS n, map_from_arrays(array(), array()) AS m) "
        "LEFT JOIN (SELECT 2 AS id, struct(1 AS a, array(1) AS b) AS st) USING (id)"
    )
    stream = io.StringIO()
    write_result(session.sql(text), "jsonl", stream)
    assert json.loads(stream.getvalue()) == {
        **{"st": None, "m": {}, "e": {}, "am": [{"1.5": "FF"}], "b": "00FF"},
        "sm": {"q": {"k": None}},
    }
    stream = io.StringIO()
    text = "SELECT 1 AS k, max(struct(id)) AS m, map() AS e FROM range(0)"
    write_result(session.sql(text), "csv", stream)
    assert stream.getvalue() == "k,m,e\n1,,{}\n"
    assert session.sql("SELECT max(struct(id)) AS m FROM range(0)").arrow().to_pylist() == [{"m": None}]


@pytest.mark.spark
@pytest.mark.hms
def test_the_first_rows_have_the_values_that_all_rows_have(session: Session) -> None:
    text = (
        "SELECT id, NULL AS n, array(id, NULL) AS a, map('k', named_struct('d', DATE'2024-03-01')) AS m, "
        "X'ff' AS b, CAST(id AS FLOAT) AS f, 1.50 AS c, TIMESTAMP'2024-03-01 01:02:03.5' AS t, "
        "INTERVAL '1' DAY AS i, CAST('NaN' AS DOUBLE) AS x FROM range(20)"
    )
    rows = list(result_rows(session.sql(text)))
    fetched = fetch_first_rows(session.sql(text), 20)
    assert (repr(fetched.rows), fetched.has_more) == (repr(rows), False)
    fetched = fetch_first_rows(session.sql(text), 7)
    assert (repr(fetched.rows), fetched.has_more) == (repr(rows[:7]), True)
