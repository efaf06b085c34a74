"""The interactive shell: reads statements over several lines until `;` and runs them."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.patch_stdout import patch_stdout
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from hudisql import __version__
from hudisql.cli.batch import BatchOptions, Script, print_error, run_script, standard_output
from hudisql.cli.interactive.completion import CatalogNames, StatementCompleter
from hudisql.cli.interactive.pager import is_paged, paged_output
from hudisql.cli.output import Output
from hudisql.errors import HudisqlError
from hudisql.sql.text.script import is_complete
from hudisql.sql.text.shell_commands import ShellCommand, find_shell_command

if TYPE_CHECKING:
    from hudisql.session import Session

_VERTICAL = "vertical"
_SECONDS_BETWEEN: Final = 0.5


def run_shell(session: Session, options: BatchOptions) -> None:
    """Read and run statements until Control-D, `quit` or `exit`; Spark starts behind the prompt."""
    start = BackgroundStart(session)
    prompt = open_prompt(CatalogNames(session.context), lambda: start.status)
    start.begin(prompt.app.invalidate)
    if not options.silent:
        print(
            f"hudisql {__version__}: statements end with ';', Tab completes, help explains, quit leaves",
            file=sys.stderr,
        )
    while True:
        try:
            with patch_stdout(raw=True):
                text = prompt.prompt(FormattedText([("bold", f"{session.context.current_database}> ")]))
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        line = find_shell_command(text)
        if line is not None and line.command is ShellCommand.VERTICAL:
            options = _toggled(options)
            continue
        try:
            if _has_quit(session, text, options):
                return
        except KeyboardInterrupt:
            # Control-C came while the text was split into statements, or between two statements.
            print("interrupted", file=sys.stderr, flush=True)


def _has_quit(session: Session, text: str, options: BatchOptions) -> bool:
    """Run the text; after a failed statement the rest is skipped. True for `quit` or `exit`."""

    def open_output() -> AbstractContextManager[Output]:
        return paged_output() if is_paged(options.form) else standard_output()

    try:
        return run_script(session, Script(text, "shell"), replace(options, force=False), open_output).has_quit
    except HudisqlError as error:
        # Spark or the metastore did not start: the next statement tries again.
        print_error(error)
        return False


def _toggled(options: BatchOptions) -> BatchOptions:
    form = "table" if options.form == _VERTICAL else _VERTICAL
    print(f"results are shown as {'a table' if form == 'table' else 'one column a line'}", file=sys.stderr)
    return replace(options, form=form)


class BackgroundStart:
    """The start of a session's Spark in a thread of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._began = time.monotonic()
        self._failure: str | None = None
        self._is_running = False

    def begin(self, changed: Callable[[], None]) -> None:
        """Start, unless Spark is running; `changed` is called in other threads when `status` changes."""
        if self._session.context.started_spark is None:
            self._is_running = True
            threading.Thread(target=self._run, daemon=True).start()
            threading.Thread(target=self._tell, args=(changed,), daemon=True).start()

    @property
    def status(self) -> str | None:
        """The status for the user; None once Spark runs."""
        if self._is_running:
            return f"Spark is starting ({time.monotonic() - self._began:.0f} s); statements wait for it"
        if self._failure is not None and self._session.context.started_spark is None:
            return f"Spark did not start: {self._failure}; the next statement tries again"
        return None

    def _tell(self, changed: Callable[[], None]) -> None:
        while self._is_running:
            time.sleep(_SECONDS_BETWEEN)
            changed()

    def _run(self) -> None:
        try:
            _ = self._session.spark
        except HudisqlError as error:
            self._failure = error.message
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
        finally:
            self._is_running = False


def open_prompt(names: CatalogNames, status: Callable[[], str | None]) -> PromptSession[str]:
    """The prompt: Enter ends a whole statement, else it makes a new line; Tab completes.

    Control-X Control-E opens the text in $EDITOR. `status` returns the line below the prompt.
    """
    bindings = KeyBindings()

    @Condition
    def is_unfinished() -> bool:
        from prompt_toolkit.application import get_app

        text = get_app().current_buffer.text
        return not (is_complete(text) or find_shell_command(text))

    @bindings.add("enter", filter=is_unfinished)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline()

    @bindings.add("enter", filter=~is_unfinished)
    def _accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return PromptSession(
        history=open_history(),
        multiline=True,
        prompt_continuation="... ",
        key_bindings=bindings,
        lexer=PygmentsLexer(SqlLexer),
        completer=StatementCompleter(names),
        complete_while_typing=False,
        complete_in_thread=True,
        enable_history_search=True,
        enable_open_in_editor=True,
        tempfile_suffix=".sql",
        bottom_toolbar=status,
    )


def open_history(path: Path | None = None) -> History:
    """The history in the user's state directory, or in memory if that is not writable."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    file = path or Path(state) / "hudisql" / "history"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))
