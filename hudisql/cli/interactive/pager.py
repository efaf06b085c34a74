"""Shows long results in a pager, $PAGER or less, so that nothing scrolls away."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rich.cells import cell_len

# Keep colours, leave the text on the screen afterwards.
_LESS_OPTIONS: Final = "-RX"
# More than a pipe holds: a pager that has taken this much reads its input.
_MOST_KEPT: Final = 2 << 20


def has_pager() -> bool:
    """True if standard output is a terminal and a pager exists."""
    return sys.stdout.isatty() and _pager_command() is not None


@contextmanager
def paged_output(*, cuts_lines: bool = False) -> Iterator[PagedOutput]:
    """Show what is written in the block by the pager if it is longer than the screen, else print it.

    With `cuts_lines`, `less` cuts long lines at the edge, and arrow keys move.
    """
    output = PagedOutput(os.get_terminal_size(sys.stdout.fileno()), cuts_lines=cuts_lines)
    try:
        yield output
    finally:
        output.finish()


class PagedOutput:
    """Buffers text until it exceeds the screen, and sends it to the pager from then on."""

    def __init__(self, screen: os.terminal_size, *, cuts_lines: bool = False) -> None:
        self._screen = screen
        self._cuts_lines = cuts_lines
        self._kept: list[str] = []
        self._lines = 0
        self._pager: subprocess.Popen[str] | None = None
        self._is_unpaged = False
        self._sent: list[str] = []
        self._sent_size = 0

    def write(self, text: str) -> int:
        """Write text that ends with a line's end. Output is discarded after the pager exits."""
        if self._pager is None and not self._is_unpaged:
            self._kept.append(text)
            self._lines += self._screen_lines(text)
            # One line for the statement's time, one for the prompt. Some terminals report the size 0.
            if self._lines > (self._screen.lines or 24) - 2:
                self._open_pager()
        else:
            self._send(text)
        return len(text)

    def finish(self) -> None:
        """Print what fits the screen, or wait for the pager to exit.

        If the pager failed, print the buffered text that it may not have shown.
        """
        if self._pager is None:
            sys.stdout.write("".join(self._kept))
            sys.stdout.flush()
            return
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            assert self._pager.stdin is not None
            with suppress(BrokenPipeError):
                self._pager.stdin.close()
            status = self._pager.wait()
        finally:
            signal.signal(signal.SIGINT, before)
        if status > 0 and self._sent:
            print(f"WARNING: the pager failed ($PAGER): exit status {status}", file=sys.stderr, flush=True)
            sys.stdout.write("".join(self._sent))
            sys.stdout.flush()

    def _screen_lines(self, text: str) -> int:
        """How many lines of the screen the text takes; a long line wraps."""
        columns = self._screen.columns or 80
        return sum(max(1, -(-cell_len(line) // columns)) for line in text.splitlines())

    def _open_pager(self) -> None:
        command = _pager_command()
        assert command is not None
        options = f"{_LESS_OPTIONS}S" if self._cuts_lines else _LESS_OPTIONS
        environment = {"LESS": options, **os.environ}
        try:
            self._pager = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=environment)
        except OSError as error:
            print(f"WARNING: the pager does not start ($PAGER): {error}", file=sys.stderr, flush=True)
            self._is_unpaged = True
        self._send("".join(self._kept))
        self._kept.clear()

    def _send(self, text: str) -> None:
        if self._pager is None:
            sys.stdout.write(text)
            return
        assert self._pager.stdin is not None
        self._keep(text)
        with suppress(BrokenPipeError):
            self._pager.stdin.write(text)

    def _keep(self, text: str) -> None:
        """Buffer what was sent, until the pager must have read some of it."""
        if self._sent_size <= _MOST_KEPT:
            self._sent.append(text)
            self._sent_size += len(text)
            if self._sent_size > _MOST_KEPT:
                self._sent.clear()


def _pager_command() -> list[str] | None:
    """The pager, None if there is none or $PAGER is empty."""
    given = os.environ.get("PAGER")
    if given is not None:
        try:
            return shlex.split(given) or None
        except ValueError:
            # An unclosed quote: use the text as a program name, whose failed start is a warning.
            return [given]
    found = shutil.which("less")
    return None if found is None else [found]
