"""The interactive shell: reads statements over several lines until `;` and runs them."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.patch_stdout import patch_stdout

from hudisql import __version__
from hudisql.cli.batch import BatchOptions, Script, print_error, run_script, standard_output
from hudisql.cli.interactive.background_start import BackgroundStart
from hudisql.cli.interactive.catalog_names import CatalogNames
from hudisql.cli.interactive.pager import is_paged, paged_output
from hudisql.cli.interactive.prompt import open_prompt
from hudisql.cli.output import Output
from hudisql.errors import HudisqlError
from hudisql.sql.text.shell_commands import ShellCommand, find_shell_command

if TYPE_CHECKING:
    from hudisql.session import Session

_VERTICAL = "vertical"


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
