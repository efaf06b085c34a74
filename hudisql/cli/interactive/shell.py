"""The interactive shell: reads statements over several lines until `;` and runs them."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.patch_stdout import patch_stdout

from hudisql import __version__
from hudisql.cli.batch import BatchOptions, Script, print_error, run_script
from hudisql.cli.interactive.background_start import BackgroundStart
from hudisql.cli.interactive.completion import CatalogNames
from hudisql.cli.interactive.prompt import open_prompt
from hudisql.cli.interactive.screen import Screen
from hudisql.errors import HudisqlError
from hudisql.sql.dispatch import may_have_extensions
from hudisql.sql.text.shell_commands import ShellCommand, find_shell_command

if TYPE_CHECKING:
    from hudisql.session import Session


def run_shell(session: Session, options: BatchOptions) -> None:
    """Read and run statements until Control-D, `quit` or `exit`; Spark starts behind the prompt."""
    start = BackgroundStart(session)
    screen, last, edits = Screen(options), "", False
    names = CatalogNames(session.context)
    prompt = open_prompt(names, lambda: start.status, lambda: not screen.has_extensions)
    start.begin(prompt.app.invalidate)
    if not options.silent:
        print(
            f"hudisql {__version__}: statements end with ';', Tab completes, help explains, quit leaves",
            file=sys.stderr,
        )
    while True:
        screen.has_extensions = may_have_extensions(session.context)
        try:
            text = _read(prompt, session.context.current_database, last if edits else None)
        except KeyboardInterrupt:
            edits = False
            continue
        except EOFError:
            return
        line = find_shell_command(text)
        edits = line is not None and line.command is ShellCommand.EDIT
        if line is None:
            last = text
        try:
            if edits or (line is not None and screen.take(line)):
                continue
            if _has_quit(session, text, screen):
                return
        except KeyboardInterrupt:
            # Control-C came while the text was split into statements, or between two statements.
            print("interrupted", file=sys.stderr, flush=True)


def _read(prompt: PromptSession[str], database: str, edited: str | None) -> str:
    """What is typed at the prompt, or made of `edited` in $EDITOR. Raises KeyboardInterrupt, EOFError."""

    def open_editor() -> None:
        get_app().current_buffer.open_in_editor()

    with patch_stdout(raw=True):
        return prompt.prompt(
            FormattedText([("bold", f"{database}> ")]),
            default=edited or "",
            pre_run=None if edited is None else open_editor,
        )


def _has_quit(session: Session, text: str, screen: Screen) -> bool:
    """Run the text; after a failed statement the rest is skipped. True for `quit` or `exit`."""
    options = replace(screen.options, force=False)
    try:
        return run_script(session, Script(text, "shell"), options, screen.display).has_quit
    except HudisqlError as error:
        # Spark or the metastore did not start: the next statement tries again.
        print_error(error)
        return False
