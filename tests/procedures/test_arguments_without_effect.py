"""Arguments that only Apache Hudi follows are taken with a warning; misspelt ones are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hudisql
from hudisql.errors import InvalidArgumentError, UnknownParameterError
from hudisql.session import Session
from tests.warning_console import WarningConsole

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.fixture
def console() -> WarningConsole:
    return WarningConsole()


@pytest.fixture
def session(spark: Any, console: WarningConsole, tmp_path: Path) -> Iterator[Session]:
    with hudisql.connect(spark=spark, console=console) as opened:
        opened.sql(
            f"CREATE TABLE default.argued (id INT) USING hudi LOCATION '{tmp_path / 't'}' "
            "TBLPROPERTIES (primaryKey = 'id')"
        )
        opened.sql("INSERT INTO default.argued VALUES (1)")
        console.texts.clear()
        yield opened
        opened.sql("DROP TABLE default.argued")


def test_an_argument_of_hudi_without_effect_is_warned_of(session: Session, console: WarningConsole) -> None:
    session.sql("CALL run_clean(table => 'default.argued', skip_locking => NULL)")
    assert console.texts == []
    session.sql("CALL run_clean(table => 'default.argued', skip_locking => true)")
    assert console.texts == [
        "run_clean: the argument 'skip_locking' has no effect: a clean locks the table as its settings say"
    ]
    with pytest.raises(InvalidArgumentError, match="'skip_locking' must be of type boolean"):
        session.sql("CALL run_clean(table => 'default.argued', skip_locking => 'maybe')")


def test_a_misspelt_argument_is_refused_with_the_nearest_name(session: Session) -> None:
    with pytest.raises(UnknownParameterError, match="has no parameter 'skip_lokcing'") as caught:
        session.sql("CALL run_clean(table => 'default.argued', skip_lokcing => true)")
    assert "skip_locking" in str(caught.value.hint)


def test_invalid_parquet_files_are_filtered_and_not_deleted(
    session: Session, console: WarningConsole, tmp_path: Path
) -> None:
    broken = [tmp_path / "t" / f"{name}-0_0-0-0_20240301000000000.parquet" for name in ("a", "b")]
    for path in broken:
        path.write_bytes(b"broken")
    call = f"CALL show_invalid_parquet('{tmp_path / 't'}', 4, 5, true, filter => \"path LIKE '%/b-%'\")"
    assert [Path(row[0]).name for row in session.sql(call).rows] == [broken[1].name]
    assert [path.exists() for path in broken] == [True, True]
    assert [text.split("'")[1] for text in console.texts] == ["parallelism", "needDelete"]


def test_help_is_called_without_brackets_too(session: Session) -> None:
    assert session.sql("CALL help").rows == session.sql("call system.help()").rows
    ((text,),) = session.sql("CALL help(cmd => ' run_clean ')").rows
    assert "skip_locking" in text
