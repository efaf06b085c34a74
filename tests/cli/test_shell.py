"""The interactive shell: when Enter ends a statement, history, leaving."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from hudisql.cli.batch import BatchOptions
from hudisql.cli.shell import is_leaving, open_history, open_prompt, run_shell


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PipeInput]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def test_enter_makes_a_new_line_until_the_semicolon(keyboard: PipeInput) -> None:
    keyboard.send_text("select ';'\r  -- not yet;\rfrom t;\r")
    assert open_prompt().prompt("> ") == "select ';'\n  -- not yet;\n  from t;"


@pytest.mark.parametrize("text", ["quit", "EXIT;", "\\q", " exit "])
def test_words_that_leave_need_no_semicolon(keyboard: PipeInput, text: str) -> None:
    keyboard.send_text(f"{text}\r")
    assert is_leaving(open_prompt().prompt("> "))
    assert not is_leaving("select 'quit';")


def test_history_is_kept_in_the_user_s_state_folder(
    keyboard: PipeInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyboard.send_text("select 42;\r")
    open_prompt().prompt("> ")
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
    assert "CALL help() lists procedures" in capsys.readouterr().err
