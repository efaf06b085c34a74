"""The interactive shell: history, statements over several lines until `;`, Control-C and Control-D."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from hudisql import __version__
from hudisql.cli.batch import BatchOptions, Script, print_error, run_statement
from hudisql.cli.commands import ShellCommand, find_shell_command, run_shell_command
from hudisql.errors import HudisqlError
from hudisql.sql.text.script import is_complete, split_script

if TYPE_CHECKING:
    from hudisql.session import Session


def run_shell(session: Session, options: BatchOptions) -> None:
    """Read and run statements until Control-D, `quit` or `exit`."""
    prompt = open_prompt()
    if not options.silent:
        print(
            f"hudisql {__version__}: statements end with ';', CALL help() lists procedures, quit leaves",
            file=sys.stderr,
        )
    while True:
        try:
            text = prompt.prompt(
                FormattedText([("bold", f"{session.context.current_database}> ")]),
                prompt_continuation="... ",
            )
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        try:
            if run_text(session, text, options):
                return
        except KeyboardInterrupt:
            # It came while the text was split into statements, or between two of them.
            print("interrupted", file=sys.stderr, flush=True)


def run_text(session: Session, text: str, options: BatchOptions) -> bool:
    """Run what was typed; the first failed statement drops the rest of it. True if it asks to leave."""
    try:
        statements = split_script(text)
    except HudisqlError as error:
        print_error(error)
        return False
    for statement in statements:
        command = find_shell_command(statement.text)
        if command is ShellCommand.QUIT:
            return True
        if command is not None:
            run_shell_command(command)
        elif run_statement(session, statement, Script(text, "shell"), options):
            return False
    return False


def open_prompt(history_file: Path | None = None) -> PromptSession[str]:
    """The prompt: Enter ends a whole statement, else it makes a new line."""
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
        history=open_history(history_file),
        multiline=True,
        key_bindings=bindings,
        lexer=PygmentsLexer(SqlLexer),
        enable_history_search=True,
    )


def open_history(path: Path | None = None) -> History:
    """The history in the user's state directory, or one in memory where that cannot be written."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    file = path or Path(state) / "hudisql" / "history"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))
