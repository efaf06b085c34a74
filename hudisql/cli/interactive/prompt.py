"""The prompt of the shell: when Enter ends what is typed, completion, history, the line below it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from hudisql.cli.interactive.completion import CatalogNames, StatementCompleter
from hudisql.errors import SqlSyntaxError
from hudisql.sql.dispatch import unknown_head
from hudisql.sql.text.script import is_complete
from hudisql.sql.text.shell_commands import find_shell_command
from hudisql.sql.text.tokens import tokenize

_UNFINISHED: Final = "a statement ends with ';' (Enter then runs it), Control-C drops what was typed"


def is_finished(text: str, *, knows_heads: bool = True) -> bool:
    """True if Enter runs the text: it ends with `;`, or is a command, or begins no statement.

    `knows_heads` is false if Spark may have a parser with more statements.
    """
    if is_complete(text) or find_shell_command(text) is not None:
        return True
    if not knows_heads:
        return False
    try:
        return unknown_head(tokenize(text)) is not None
    except SqlSyntaxError:
        return False


def open_prompt(
    names: CatalogNames, status: Callable[[], str | None], knows_heads: Callable[[], bool] = lambda: True
) -> PromptSession[str]:
    """The prompt: Enter ends what `is_finished`, else it makes a new line; Tab completes.

    Control-X Control-E opens the text in $EDITOR. `status` returns the line below the prompt.
    """
    bindings = KeyBindings()
    completer = StatementCompleter(names)

    @Condition
    def is_unfinished() -> bool:
        return not is_finished(get_app().current_buffer.text, knows_heads=knows_heads())

    @bindings.add("enter", filter=is_unfinished)
    def _new_line(event: KeyPressEvent) -> None:
        # Keys that wait already were pasted, with an indentation of their own.
        event.current_buffer.newline(copy_margin=not event.key_processor.input_queue)

    @bindings.add("enter", filter=~is_unfinished)
    def _accept(event: KeyPressEvent) -> None:
        completer.remember(event.current_buffer.text)
        event.current_buffer.validate_and_handle()

    def toolbar() -> str | None:
        has_lines = "\n" in get_app().current_buffer.text
        return _UNFINISHED if has_lines and is_unfinished() else status()

    return PromptSession(
        history=open_history(),
        multiline=True,
        prompt_continuation="... ",
        key_bindings=bindings,
        lexer=PygmentsLexer(SqlLexer),
        completer=completer,
        complete_while_typing=False,
        complete_in_thread=True,
        enable_history_search=True,
        enable_open_in_editor=True,
        tempfile_suffix=".sql",
        bottom_toolbar=toolbar,
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
