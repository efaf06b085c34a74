"""The root of the `hudisql` command: turns uncaught errors into one line and an exit code.

These are errors of hudisql, missing packages of an extra, and errors of the operating system. Other
exceptions are bugs of hudisql and keep their traceback.
"""

from __future__ import annotations

import errno
import importlib.metadata
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer
from typer.core import TyperGroup

from hudisql.errors import HudisqlError, InvalidArgumentError, SettingsError

_REQUIREMENT: Final = re.compile(r"([\w.-]+).*extra\s*==\s*['\"]([\w-]+)['\"]")
# These extras are for hudisql's own development.
_OF_DEVELOPMENT: Final = ("test", "docs", "dev")


class CommandGroup(TyperGroup):
    """The group of all subcommands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The subcommand of the first word; for a script or a statement the error names its option."""
        if self.get_command(ctx, args[0]) is None and (meant := _meant(args)) is not None:
            ctx.fail(f"No such command '{args[0]}': {meant}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand; ends with an exit code and one line for an error that it did not catch."""
        with exit_after_errors():
            return super().invoke(ctx)


def _meant(words: list[str]) -> str | None:
    """How to run what looks like a script or a statement."""
    from hudisql.sql.dispatch import STATEMENT_HEADS

    if words[0].lower().endswith(".sql"):
        return f"hudisql -f {shlex.quote(words[0])} runs a script"
    first = words[0].split(None, 1)
    if first and first[0].upper() in STATEMENT_HEADS:
        return f"hudisql -e {shlex.quote(' '.join(words))} runs statements"
    return None


@contextmanager
def exit_after_errors() -> Iterator[None]:
    """Print an error that is not a bug of hudisql as one line, and raise `typer.Exit` with its exit code."""
    try:
        yield
    except (HudisqlError, ImportError, OSError) as error:
        described = _describe(error)
        if described is None:
            raise
        message, code = described
        print(f"ERROR: {message}", file=sys.stderr, flush=True)
        raise typer.Exit(code) from None


def _describe(error: HudisqlError | ImportError | OSError) -> tuple[str, int] | None:
    """The line and the exit code of an error; None for a bug, which keeps its traceback."""
    from hudisql.cli.batch import EXIT_FAILED, EXIT_USAGE

    if isinstance(error, HudisqlError):
        is_usage = isinstance(error, SettingsError | InvalidArgumentError)
        return str(error), EXIT_USAGE if is_usage else EXIT_FAILED
    if isinstance(error, ImportError):
        package, extra = _extra_of(error)
        hint = f"pip install 'hudisql[{extra}]'"
        return (f"this needs the package {package}\n  -> {hint}", EXIT_USAGE) if extra else None
    # click itself ends quietly when nobody reads the output any more.
    if error.errno == errno.EPIPE:
        return None
    place = f"{error.filename}: " if error.filename is not None else ""
    return f"{place}{error.strerror or error}", EXIT_FAILED


def _extra_of(error: ImportError) -> tuple[str, str | None]:
    """The package of a missing module and the extra that installs it; None if no extra does."""
    module = (error.name or "").partition(".")[0]
    for requirement in importlib.metadata.requires("hudisql") or ():
        matched = _REQUIREMENT.match(requirement)
        if matched is None or matched[2] in _OF_DEVELOPMENT:
            continue
        if matched[1].replace("-", "_").lower() == module.lower():
            return matched[1], matched[2]
    return module, None
