"""The interactive shell: when Enter ends a statement, history, leaving."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from hudisql.cli.batch import HELP, BatchOptions
from hudisql.cli.interactive.prompt import is_finished, open_history, open_prompt
from hudisql.cli.interactive.shell import run_shell
from hudisql.cli.interrupts import clean_interrupts
from hudisql.sql.text.shell_commands import CommandLine, ShellCommand, find_shell_command
from tests.cli.interactive.sample_names import SampleNames


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PipeInput]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def opened() -> PromptSession[str]:
    return open_prompt(SampleNames(), lambda: None)


def test_enter_makes_a_new_line_until_the_semicolon_and_adds_nothing_to_pasted_lines(
    keyboard: PipeInput,
) -> None:
    keyboard.send_text("select ';'\r  -- not yet;\rfrom t;\r")
    assert opened().prompt("> ") == "select ';'\n  -- not yet;\nfrom t;"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("quit", ShellCommand.QUIT),
        ("EXIT;", ShellCommand.QUIT),
        ("\\q", ShellCommand.QUIT),
        (" exit ", ShellCommand.QUIT),
        ("!quit", ShellCommand.QUIT),
        ("Help;", ShellCommand.HELP),
        ("?", ShellCommand.HELP),
        (".quit", ShellCommand.QUIT),
        ("clear", ShellCommand.CLEAR),
    ],
)
def test_words_that_are_no_sql_need_no_semicolon(
    keyboard: PipeInput, text: str, command: ShellCommand
) -> None:
    keyboard.send_text(f"{text}\r")
    assert find_shell_command(opened().prompt("> ")) == CommandLine(command)
    for sql in ("select 'quit';", "clear cache", "help me"):
        assert find_shell_command(sql) is None


@pytest.mark.parametrize(
    ("text", "command", "argument"),
    [
        ("\\dt;", ShellCommand.STATEMENT, "SHOW TABLES"),
        ("\\d t;", ShellCommand.STATEMENT, "DESCRIBE TABLE t"),
        (".tables", ShellCommand.STATEMENT, "SHOW TABLES"),
        ("\\dt o*", ShellCommand.STATEMENT, "SHOW TABLES LIKE 'o*'"),
        ("\\timing on", ShellCommand.TIMING, "on"),
        ("\\o /tmp/a b.csv", ShellCommand.OUTPUT, "/tmp/a b.csv"),
        ("\\e", ShellCommand.EDIT, ""),
        (".mode csv", ShellCommand.FORM, "csv"),
        ("!ls -l", ShellCommand.SYSTEM, "ls -l"),
        ("\\tining", ShellCommand.UNKNOWN, "there is no command \\tining; did you mean \\timing?"),
        (
            "\\set a 1",
            ShellCommand.UNKNOWN,
            "there is no command \\set; SET hivevar:name=value, used as ${name}",
        ),
        ("\\d a b", ShellCommand.UNKNOWN, "\\d does not take 'a b'; help lists the commands"),
    ],
)
def test_commands_of_psql_and_duckdb(text: str, command: ShellCommand, argument: str) -> None:
    assert find_shell_command(text) == CommandLine(command, argument)


@pytest.mark.parametrize(
    ("text", "runs"),
    [("tables", True), ("shwo tables", True), ("SHOW TABLES", False), ("(select", False), ("-- note", True)],
)
def test_enter_answers_what_begins_no_statement_at_once(text: str, runs: bool) -> None:
    assert is_finished(text) == runs


def test_enter_makes_a_new_line_until_a_block_ends(keyboard: PipeInput) -> None:
    keyboard.send_text("begin select 1;\rselect case when true then 2 end;\rend;\r")
    assert opened().prompt("> ") == "begin select 1;\nselect case when true then 2 end;\nend;"


def test_history_is_kept_in_the_user_s_state_directory(
    keyboard: PipeInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyboard.send_text("select 42;\r")
    opened().prompt("> ")
    file = tmp_path / "hudisql" / "history"
    assert "+select 42;" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert isinstance(open_history(), FileHistory)
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert isinstance(open_history(), InMemoryHistory)


@pytest.mark.spark
@pytest.mark.hms
def test_statements_run_and_errors_do_not_end_the_shell(
    keyboard: PipeInput, session: Any, capsys: Any
) -> None:
    keyboard.send_text("select 1 a; select 'its'\r b;\rselect nope;\rselect 'open;\r';\r")
    keyboard.send_text("values (3);\rquit\r")
    run_shell(session, BatchOptions("csv", silent=True))
    shown = capsys.readouterr()
    assert shown.out == 'a\n1\nb\nits\n"open;\n"\n"open;\n"\ncol1\n3\n'
    assert shown.err.count("ERROR (shell, line 1)") == 1
    assert "UNRESOLVED_COLUMN" in shown.err


@pytest.mark.spark
@pytest.mark.hms
def test_control_d_leaves(keyboard: PipeInput, session: Any, capsys: Any) -> None:
    keyboard.send_text("\x04")
    run_shell(session, BatchOptions("csv"))
    assert "Tab completes" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.hms
def test_help_prints_and_quit_leaves_from_the_middle_of_a_line(
    keyboard: PipeInput, session: Any, capsys: Any
) -> None:
    keyboard.send_text("help\rclear;\rselect 1 a; quit; select 2 b;\rselect 3 c;\r")
    run_shell(session, BatchOptions("csv", silent=True))
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (f"{HELP}\na\n1\n", "")


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.parametrize("function", ["split_script", "parse_plan"])
def test_control_c_while_a_statement_is_parsed_drops_just_that_statement(
    keyboard: PipeInput, session: Any, capsys: Any, caplog: pytest.LogCaptureFixture, function: str
) -> None:
    pressed = threading.Event()
    main_thread = threading.get_ident()

    def interrupt_inside_of_the_function() -> None:
        while not pressed.is_set():
            frame = sys._current_frames().get(main_thread)
            while frame is not None and frame.f_code.co_name != function:
                frame = frame.f_back
            if frame is not None:
                pressed.set()
                os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=interrupt_inside_of_the_function)
    # As much as a pipe takes at once: milliseconds to split and to parse.
    text = "select array(" + ",".join(["''"] * 20_000) + ") a;"
    keyboard.send_text(f"\x1b[200~{text}\x1b[201~\rselect 'on' a;\rquit\r")
    watcher.start()
    try:
        with clean_interrupts(session):
            run_shell(session, BatchOptions("csv", silent=True))
    finally:
        pressed.set()
        watcher.join()
    assert capsys.readouterr() == ("a\non\n", "interrupted\n")
    assert [record for record in caplog.records if "sending command" in record.getMessage()] == []
