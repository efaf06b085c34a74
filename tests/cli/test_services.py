"""`hudisql services run`: its options, and what the first and the second signal do."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hudisql.cli.command_end import stop_on_signals
from hudisql.cli.main import app


def test_the_first_signal_stops_and_the_second_has_its_ordinary_effect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    for number in (signal.SIGTERM, signal.SIGINT):
        with stop_on_signals() as stop:
            os.kill(os.getpid(), number)
            assert stop.wait(10)
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before
        assert f"{number.name}: stopping" in capsys.readouterr().err


def test_bad_usage_is_one_error_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, complaint in (
        (["--table", "a.b", "--database", "a"], "give --table or --database, not both"),
        (["--conf", "x"], "--conf: 'x' is not key=value"),
        (["--interval", "soon"], "Invalid value"),
    ):
        done = CliRunner().invoke(app, ["services", "run", *arguments])
        assert done.exit_code == 2
        assert complaint in done.stderr
    assert not list(tmp_path.iterdir())
