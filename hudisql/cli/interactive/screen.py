r"""What the commands of the shell change: how results are shown and where they go (`\x`, `\f`, `\o` …)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, get_args

from hudisql.cli.batch import BatchOptions, print_error
from hudisql.cli.display import Display, FormDisplay, standard_output
from hudisql.cli.interactive.pager import has_pager, paged_output
from hudisql.cli.output import Output
from hudisql.cli.terminal_display import TERMINAL_FORMS, Expanded, TerminalDisplay
from hudisql.config.settings import OUTPUT_FORMATS
from hudisql.errors import HudisqlError, InvalidArgumentError
from hudisql.sql.text.shell_commands import CommandLine, ShellCommand

MOST_ROWS: Final = 10_000
_EXPANDED_SAID: Final[dict[Expanded, str]] = {
    "auto": "as a table, or one column a line where that is too wide",
    "on": "one column a line",
    "off": "as a table",
}


@dataclass
class Screen:
    """The state of the shell's screen. `most` rows of a query are fetched; None: all.

    `has_extensions` if Spark may have statements of others.
    """

    options: BatchOptions
    expanded: Expanded | None = None
    most: int | None = MOST_ROWS
    file: Path | None = None
    has_extensions: bool = False

    @property
    def display(self) -> Display:
        """How the next result is shown."""
        form = self.options.form
        if self.file is not None:
            return FormDisplay(form, self._appended_file)
        if form not in TERMINAL_FORMS or not sys.stdout.isatty():
            return FormDisplay(form)
        return TerminalDisplay(form, self.expanded, self.most, self._open_screen)

    def take(self, line: CommandLine) -> bool:
        """Run a command that concerns the screen only; false for another one."""
        take = _COMMANDS.get(line.command)
        if take is None:
            return False
        try:
            take(self, line.argument)
        except HudisqlError as error:
            print_error(error)
        return True

    def _open_screen(self) -> AbstractContextManager[Output]:
        return paged_output(cuts_lines=self.expanded == "off") if has_pager() else standard_output()

    @contextmanager
    def _appended_file(self) -> Iterator[Output]:
        assert self.file is not None
        with _opened(self.file, "a") as file:
            yield file

    def _expand(self, word: str) -> None:
        form = self.options.form if self.options.form in TERMINAL_FORMS else "table"
        now = self.expanded or TERMINAL_FORMS[form]
        wanted: Expanded | None = "auto" if now == "on" else "on"
        if word:
            wanted = next((arg for arg in get_args(Expanded) if arg == word.lower()), None)
        if wanted is None:
            raise InvalidArgumentError(f"\\x {word}: it must be one of {', '.join(get_args(Expanded))}")
        self.options, self.expanded = replace(self.options, form=form), wanted
        _say(f"results are shown {_EXPANDED_SAID[wanted]}")

    def _set_form(self, word: str) -> None:
        if word and word not in OUTPUT_FORMATS:
            raise InvalidArgumentError(f"\\f {word}: it must be one of {', '.join(OUTPUT_FORMATS)}")
        if word:
            self.options, self.expanded = replace(self.options, form=word), None
        _say(f"the form of results is {self.options.form}")

    def _limit(self, word: str) -> None:
        if word.lower() in ("off", "all", "0"):
            self.most = None
        elif word.isdecimal():
            self.most = int(word)
        elif word:
            raise InvalidArgumentError(f"\\limit {word}: it must be a number of rows, or off")
        _say("all rows are fetched" if self.most is None else f"at most {self.most} rows are fetched")

    def _time(self, word: str) -> None:
        if word.lower() not in ("", "on", "off"):
            raise InvalidArgumentError(f"\\timing {word}: it must be on or off")
        silent = word.lower() == "off" if word else not self.options.silent
        self.options = replace(self.options, silent=silent)
        _say(f"times are {'not shown' if silent else 'shown'}")

    def _send(self, word: str) -> None:
        if not word:
            self.file = None
            _say("results go to the screen")
            return
        file = Path(word).expanduser()
        with _opened(file, "w"):
            self.file = file
        _say(f"results go to {file}")

    def _run_system(self, command: str) -> None:
        if not command:
            raise InvalidArgumentError("!COMMAND runs a command of the system", hint="!ls")
        status = subprocess.run(command, shell=True, check=False).returncode
        if status:
            _say(f"exit status {status}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def _opened(file: Path, mode: str) -> Iterator[Output]:
    try:
        with file.open(mode, encoding="utf-8") as stream:
            yield stream
    except OSError as error:
        raise InvalidArgumentError(f"cannot write {file}: {error.strerror}") from error


def _refuse(_screen: Screen, problem: str) -> None:
    raise InvalidArgumentError(problem)


_COMMANDS: Final[dict[ShellCommand, Callable[[Screen, str], None]]] = {
    ShellCommand.EXPANDED: Screen._expand,
    ShellCommand.FORM: Screen._set_form,
    ShellCommand.LIMIT: Screen._limit,
    ShellCommand.TIMING: Screen._time,
    ShellCommand.OUTPUT: Screen._send,
    ShellCommand.SYSTEM: Screen._run_system,
    ShellCommand.UNKNOWN: _refuse,
}
