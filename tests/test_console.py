"""What is not a result: notes, warnings and progress, on standard error or nowhere."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from hudisql.console import JsonConsole, PlainConsole, SilentConsole, TerminalConsole, open_console


def test_plain_progress_is_a_line_now_and_then_and_one_at_the_end() -> None:
    stream = io.StringIO()
    console = PlainConsole(stream, seconds_between_lines=0.0)
    with console.progress("skeletons", 4) as progress:
        progress.advance(detail="10 rows/s")
        progress.advance(3)
    lines = stream.getvalue().splitlines()
    assert re.fullmatch(r"skeletons: 1/4 \(10 rows/s\), \d+ s left", lines[0])
    assert lines[1] == "skeletons: 4/4 (10 rows/s)"
    assert re.fullmatch(r"skeletons: 4/4 \(10 rows/s\) in \d+\.\d s", lines[2])


def test_plain_progress_keeps_quiet_between_lines() -> None:
    stream = io.StringIO()
    with PlainConsole(stream).progress("footers", None) as progress:
        for _ in range(100):
            progress.advance()
    assert len(stream.getvalue().splitlines()) == 1
    assert stream.getvalue().startswith("footers: 100 in ")


def test_a_failed_piece_of_work_is_not_reported_as_done() -> None:
    stream = io.StringIO()

    def fail() -> None:
        with PlainConsole(stream).progress("work", 2) as progress:
            progress.advance()
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert stream.getvalue() == ""


def test_terminal_console_writes_to_standard_error_and_takes_brackets_literally(capsys: Any) -> None:
    console = TerminalConsole()
    console.info("array[1]")
    console.warning("[red] is text")
    with console.progress("work", 2) as progress:
        progress.advance(2, "done")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "array[1]\n" in shown.err
    assert "WARNING: [red] is text\n" in shown.err
    assert re.search(r"work: 2 in \d+\.\d s\n", shown.err)


def test_the_voice_fits_the_place(capsys: Any) -> None:
    assert isinstance(open_console(silent=True), SilentConsole)
    assert isinstance(open_console(), PlainConsole)
    silent = SilentConsole()
    silent.info("x")
    silent.warning("y")
    with silent.progress("z", 1) as progress:
        progress.advance()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("console_of", [PlainConsole, JsonConsole])
def test_a_log_that_cannot_be_written_ends_no_work(console_of: type[PlainConsole]) -> None:
    full = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115 (closing it fails)
    console = console_of(full)
    console.info("a note")
    console.warning("a warning")
    with console.progress("work", 1) as progress:
        progress.advance(1)
    with pytest.raises(OSError, match="No space left"):
        full.close()
