"""A real terminal for tests: a process on a pseudo-terminal, and the screen that its user would see."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import pexpect
import pyte

_COLUMNS: Final = 100
_LINES: Final = 30
CONTROL_C: Final = "\x03"


class _AnsweringScreen(pyte.Screen):
    def __init__(self, process: pexpect.spawn, lines: int, columns: int) -> None:
        super().__init__(columns, lines)
        self._process = process

    def write_process_input(self, data: str) -> None:
        self._process.send(data)


class Terminal:
    """A terminal that answers what programs ask it."""

    def __init__(self, process: pexpect.spawn, lines: int = _LINES, columns: int = _COLUMNS) -> None:
        self._process = process
        self._screen = _AnsweringScreen(process, lines, columns)
        self._stream = pyte.Stream(self._screen)

    def type(self, text: str) -> None:
        """Type the text; `\\r` is Enter."""
        self._process.send(text)

    @property
    def screen(self) -> str:
        """What is on the screen, without blanks at the lines' ends."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def characters(self) -> list[list[pyte.screens.Char]]:
        """The characters on the screen with their colours, line by line."""
        screen = self._screen
        return [
            [screen.buffer[line][column] for column in range(screen.columns)] for line in range(screen.lines)
        ]

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Read until the text is on the screen. Fails with the screen if it does not come."""
        self.wait_until(lambda: text in self.screen, text, seconds)

    def wait_for_end(self, seconds: float = 60) -> int:
        """Read until the process has ended; its exit code."""
        end = time.monotonic() + seconds
        while self._process.isalive() and time.monotonic() < end:
            self._read()
        self._process.close()
        assert self._process.exitstatus is not None
        return int(self._process.exitstatus)

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Read until the condition holds. Fails with the screen if it does not within the time."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{what} does not come:\n{self.screen}"
            self._read()

    def _read(self) -> None:
        with suppress(pexpect.TIMEOUT, pexpect.EOF):
            self._stream.feed(self._process.read_nonblocking(65_536, timeout=0.2))


@contextmanager
def open_terminal(
    command: Sequence[str], environment: Mapping[str, str], lines: int = _LINES, columns: int = _COLUMNS
) -> Iterator[Terminal]:
    """Run the command on a terminal; it is killed at the end if it still runs."""
    # The size is the terminal's, not that of the one that the tests run on.
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = pexpect.spawn(
        command[0],
        list(command[1:]),
        env={**inherited, "TERM": "xterm", **environment},
        encoding="utf-8",
        dimensions=(lines, columns),
    )
    try:
        yield Terminal(process, lines, columns)
    finally:
        process.close(force=True)
