"""Files of models and tests: what they may hold, and what each declared test asks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hudisql.context import split_identifier
from hudisql.errors import HudisqlError, InvalidArgumentError
from hudisql.layers.declared_tests import DataTest, SqlFile, declared_tests
from hudisql.layers.model_files import FileReader, Model, NamesRead, find_files

CREATE = "CREATE INCREMENTAL TABLE Shop.T KEY (id) AS SELECT id FROM shop.orders"


def qualify(name: str) -> str:
    return ".".join(split_identifier(name)).lower()


READER = FileReader(
    substitute=lambda statement: statement.text.replace("${source}", "orders"),
    qualify=qualify,
    names_read=lambda query: NamesRead(tuple(map(qualify, re.findall(r"FROM (\S+)", query)))),
)


def model_of(path: Path, text: str) -> Model:
    path.write_text(text)
    return READER.model(SqlFile(path, path.name))


def declared(*lines: str) -> list[DataTest]:
    return list(declared_tests("shop.t", SqlFile(Path("t.sql"), "t.sql"), lines, qualify))


def test_a_model_has_its_name_query_sources_and_tests(tmp_path: Path) -> None:
    create = CREATE.replace("orders", "${source}")
    text = f"-- Orders.\n-- test: unique(id)\n-- Test : not_null(id)\n\n{create};\n"
    model = model_of(tmp_path / "t.sql", text)
    assert (model.name, model.reads, model.definition.key) == ("shop.t", ("shop.orders",), ("id",))
    assert model.query == "SELECT id FROM shop.orders"
    assert [(each.name, each.statement.line) for each in model.tests] == [
        ("shop.t: unique(id)", 2),
        ("shop.t: not_null(id)", 3),
    ]


@pytest.mark.parametrize(
    ("declaration", "query", "reads"),
    [
        (
            "unique(a, `b`)",
            "SELECT `a`, `b`, count(*) AS `rows` FROM `shop`.`t` WHERE `a` IS NOT NULL AND `b` IS NOT NULL "
            "GROUP BY `a`, `b` HAVING count(*) > 1",
            ("shop.t",),
        ),
        ("not_null(a, b)", "SELECT * FROM `shop`.`t` WHERE `a` IS NULL OR `b` IS NULL", ("shop.t",)),
        (
            "accepted_values(a, 'x, (y)', -2.5)",
            "SELECT `a`, count(*) AS `rows` FROM `shop`.`t` WHERE `a` NOT IN ('x, (y)', -2.5) GROUP BY `a`",
            ("shop.t",),
        ),
        (
            "relationships(a, other.people.id)",
            "SELECT c.`a`, count(*) AS `rows` FROM `shop`.`t` AS c LEFT ANTI JOIN `other`.`people` AS p "
            "ON c.`a` = p.`id` WHERE c.`a` IS NOT NULL GROUP BY c.`a`",
            ("shop.t", "other.people"),
        ),
    ],
)
def test_declared_tests_are_queries_that_must_give_no_rows(
    declaration: str, query: str, reads: tuple[str, ...]
) -> None:
    (test,) = declared(f"-- test: {declaration}")
    assert (test.statement.text, test.reads, test.name) == (query, reads, f"shop.t: {declaration}")


@pytest.mark.parametrize(
    "declaration",
    [
        *("uniqe(a)", "unique", "unique()", "unique(a", "unique(a) b", "unique('a')", "unique(a,, b)", ""),
        *("not_null(a.b)", "accepted_values(a)", "accepted_values('a', 'b')", "accepted_values(a, b)"),
        *("relationships(a)", "relationships(a, id)", "relationships(a, 'people.id')"),
    ],
)
def test_a_declaration_that_is_none_is_an_error_with_its_place(declaration: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^t\.sql:2: ") as caught:
        declared("-- other words", f"-- test: {declaration}")
    assert "can be declared" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1", "expected CREATE INCREMENTAL TABLE"),
        (f"{CREATE}; {CREATE}", "has 2 statements, expected one"),
        ("-- nothing", "has no statements"),
        ("CREATE INCREMENTAL TABLE t KEY id AS SELECT 1", r"'?\('? is missing"),
        ("CREATE INCREMENTAL TABLE t AS SELECT 'a", r"t\.sql: .*not closed"),
    ],
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(HudisqlError, match=message):
        model_of(tmp_path / "t.sql", text)


def test_files_below_tests_are_queries(tmp_path: Path) -> None:
    for name in ("dwd/t.sql", "tests/deep/few.sql", "tests.sql", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("SELECT * FROM shop.t")
    models, tests = find_files(tmp_path)
    assert [each.name for each in models] == ["dwd/t.sql", "tests.sql"]
    test = READER.test(tests[0])
    assert (test.name, test.reads) == ("deep/few", ("shop.t",))
    (tmp_path / "tests/deep/few.sql").write_text("DROP TABLE shop.t")
    with pytest.raises(InvalidArgumentError, match="expected a query as test"):
        READER.test(tests[0])
    for directory, message in ((tmp_path / "none", "is not a directory"), (tmp_path / "tests/deep", "")):
        if message:
            with pytest.raises(InvalidArgumentError, match=message):
                find_files(directory)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgumentError, match="has no models"):
        find_files(tmp_path / "empty")
