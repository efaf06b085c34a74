"""The shell on a real terminal, as the person in front of it sees it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from hudisql.cli.interactive.pager import PagedOutput
from tests.cli.interactive.terminal import CONTROL_C, Terminal, open_terminal

HUDISQL = str(Path(sys.executable).parent / "hudisql")


def shell(directory: Path, *options: str) -> AbstractContextManager[Terminal]:
    command = [HUDISQL, "--warehouse", str(directory / "warehouse"), *options]
    return open_terminal(command, {"XDG_STATE_HOME": str(directory), "HOME": str(directory)})


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A shell whose Spark runs, with a table `orders`."""
    with shell(tmp_path_factory.mktemp("shell")) as opened:
        opened.wait_for("default>")
        opened.wait_for("Spark is starting")
        # Nothing of Spark is needed for it, and it does not wait for Spark.
        opened.type("call help(cmd => 'drop_ingest');\r")
        opened.wait_for("drop_ingest: Removes")
        opened.type("create table orders (order_id int, amount int) using hudi\r")
        opened.type("tblproperties (primaryKey = 'order_id');\r")
        opened.wait_for("Time taken", seconds=120)
        yield opened


@pytest.fixture
def prompt(terminal: Terminal) -> Terminal:
    """The same, waiting for a statement on a clean screen."""
    terminal.type("clear\r")
    terminal.wait_until(lambda: terminal.screen.strip() == "default>", "a clean screen", 120)
    return terminal


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.hms
def test_tab_completes_tables_and_columns_of_the_metastore(prompt: Terminal) -> None:
    prompt.type("select order_id from ord\t")
    prompt.wait_for("select order_id from orders")
    prompt.type(" where am\t")
    prompt.wait_for("where amount")
    prompt.type(" > 1;\r")
    prompt.wait_for("0 rows")


@pytest.mark.spark
@pytest.mark.hms
def test_long_results_are_paged_and_only_the_first_rows_are_fetched(prompt: Terminal) -> None:
    prompt.type("select id from range(5000000);\r")
    prompt.wait_for("|   20 |")
    assert "Time taken" not in prompt.screen
    prompt.type("G")
    prompt.wait_for("| 9999 |")
    prompt.wait_for("There are more than these 10000 rows")
    prompt.type("q")
    prompt.wait_for("the first 10000 rows")


@pytest.mark.spark
@pytest.mark.hms
def test_changes_answer_in_a_line_and_wide_rows_a_column_a_line(prompt: Terminal) -> None:
    prompt.type("insert into orders values (1, 5), (2, 6);\r")
    prompt.wait_for(": 2 inserted in 1 file, ")
    assert "Time taken" not in prompt.screen
    prompt.type("select *, 'NULL' as note from orders where order_id = 2;\r")
    prompt.wait_for("_hoodie_record_key     : 2")
    prompt.wait_for("note                   : 'NULL'")
    prompt.type("\\x\r")
    prompt.wait_for("one column a line")
    prompt.type("delete from orders where order_id = 1;\r")
    prompt.wait_for("rows_deleted      : 1")
    prompt.type("\\x off\r")
    prompt.wait_for("results are shown as a table")
    prompt.type("update orders set amount = 7 where order_id = 2;\r")
    prompt.wait_for("| rows_inserted | rows_updated |")
    prompt.type("\\x auto\r")
    prompt.wait_for("as a table, or one column a line")


@pytest.mark.spark
@pytest.mark.hms
def test_words_that_begin_no_statement_are_answered_and_commands_of_the_system_run(prompt: Terminal) -> None:
    prompt.type("tables\r")
    prompt.wait_for("did you mean SHOW TABLES?")
    prompt.type("!echo $((6 * 7))\r")
    prompt.wait_for("\n42\n")


@pytest.mark.spark
@pytest.mark.hms
def test_control_c_ends_the_statement_and_its_bar_and_the_session_goes_on(prompt: Terminal) -> None:
    prompt.type("select sum(sqrt(a.id * b.id)) from range(4000000) a cross join range(100000) b;\r")
    prompt.wait_for("Spark tasks")
    prompt.type(CONTROL_C)
    prompt.wait_for("interrupted")
    prompt.type("select 'on' as goes;\r")
    prompt.wait_for("| on   |")
    assert "Spark tasks" not in prompt.screen


@pytest.mark.spark
@pytest.mark.hms
def test_helpers_and_sourced_files(prompt: Terminal, tmp_path: Path) -> None:
    prompt.type("\\d orders\r")
    prompt.wait_for("| order_id ")
    file = tmp_path / "answer.sql"
    file.write_text("select 42 as answer; quit; select 43 as answer;")
    prompt.type(f"source {file}\r")
    prompt.wait_for("|     42 |")
    prompt.type("\\x\r")
    prompt.wait_for("one column a line")
    prompt.type("select 5 as five;\r")
    prompt.wait_for("five : 5")
    assert "43" not in prompt.screen
    prompt.type("\\x\r")
    prompt.wait_for("as a table")


def test_the_prompt_says_why_spark_does_not_start_and_stays(tmp_path: Path) -> None:
    with shell(tmp_path, "--metastore", "thrift://127.0.0.1:1") as opened:
        opened.wait_for("Spark did not start")
        opened.type("show tables;\r")
        opened.wait_for("ERROR")
        opened.type("quit\r")
        assert opened.wait_for_end() == 0


_PAGED = """
from hudisql.cli.interactive.pager import paged_output
with paged_output() as output:
    for number in range({lines}):
        output.write("line " + str(number) + " " * {width} + "end\\n")
print("printed")
"""


def test_a_short_result_is_printed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PAGED.format(lines=5, width=200)]
    with open_terminal(command, {"HOME": str(tmp_path)}) as opened:
        opened.wait_for("printed")
        assert opened.wait_for_end() == 0
        assert "line 0" in opened.screen


@pytest.mark.parametrize(("lines", "width"), [(200, 10), (20, 200)])
def test_what_takes_more_lines_than_the_screen_has_waits_in_the_pager(
    tmp_path: Path, lines: int, width: int
) -> None:
    command = [sys.executable, "-c", _PAGED.format(lines=lines, width=width)]
    with open_terminal(command, {"HOME": str(tmp_path), "PAGER": "less"}) as opened:
        opened.wait_for("line 2")
        opened.type("q")
        opened.wait_for("printed")
        assert opened.wait_for_end() == 0


@pytest.mark.parametrize("pager", ["/no/such/pager", "'less"])
def test_a_pager_that_does_not_start_loses_nothing(
    pager: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAGER", pager)
    lines = [f"line {number}\n" for number in range(200)]
    output = PagedOutput(os.terminal_size((80, 24)))
    for line in lines:
        output.write(line)
    output.finish()
    said = capsys.readouterr()
    assert said.out == "".join(lines)
    assert "the pager does not start" in said.err


def test_what_a_pager_does_not_show_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAGER", "false")
    lines = [f"line {number} {'x' * 1000}\n" for number in range(200)]
    output = PagedOutput(os.terminal_size((80, 24)))
    for line in lines:
        output.write(line)
    output.finish()
    said = capsys.readouterr()
    assert said.out == "".join(lines)
    assert "the pager failed ($PAGER): exit status 1" in said.err


def test_a_terminal_that_does_not_tell_its_size_is_taken_for_a_usual_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = PagedOutput(os.terminal_size((0, 0)))
    output.write("a short line\n")
    output.finish()
    assert capsys.readouterr().out == "a short line\n"
