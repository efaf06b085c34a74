"""The prompt: end of a statement at Enter, history, colours, completion, and the status line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from hudisql.cli.interactive.completion import Names, StatementCompleter
from hudisql.sql.text.script import is_complete
from hudisql.sql.text.shell_commands import find_shell_command


def open_prompt(names: Names, status: Callable[[], str | None]) -> PromptSession[str]:
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
