"""How the rows of statements are shown: the protocol, and its form for scripts, all rows in one of the forms.

A closed reader of standard output (head, less) does not stop the statements.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hudisql.cli.output import Output, fetch_rows, write_rows

if TYPE_CHECKING:
    from hudisql.result import Result


@contextmanager
def standard_output() -> Iterator[Output]:
    """Write rows to standard output; after the reader closed it, output is discarded."""
    output = _Output()
    with suppress(_ReaderLeftError):
        yield output
        output.flush()


WriteRows = Callable[[float | None], str | None]
"""Writes the rows of a statement that took these seconds (None: no times are shown). Returns what the line of
its time says of them; None: the rows have said the time."""


class Display(Protocol):
    """Shows the rows of statements."""

    def fetch(self, result: Result) -> WriteRows:
        """Run the query, as far as its rows are shown, and lay them out. Raises QueryError."""


@dataclass(frozen=True)
class FormDisplay:
    """Writes all rows in one of the forms to standard output, or what `open_output` opens."""

    form: str
    open_output: Callable[[], AbstractContextManager[Output]] = standard_output

    def fetch(self, result: Result) -> WriteRows:
        """Run the query. Raises QueryError."""
        fetched = fetch_rows(result)

        def write(_seconds: float | None) -> str:
            count = None
            with self.open_output() as output:
                count = write_rows(fetched, self.form, output)
            return "" if count is None else counted_rows(count)

        return write


def counted_rows(count: int) -> str:
    """The number of rows, for people."""
    return f"{count} {'row' if count == 1 else 'rows'}"


def discard_output() -> None:
    """Discard all further output, including standard error if it had the same reader."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    has_same_reader = os.path.samestat(os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno()))
    os.dup2(nowhere, sys.stdout.fileno())
    if has_same_reader:
        os.dup2(nowhere, sys.stderr.fileno())
    os.close(nowhere)


class _ReaderLeftError(Exception):
    """The reader of standard output has closed it."""


class _Output:
    """The output of results; tells a closed reader from other errors."""

    def write(self, text: str) -> int:
        with self._told():
            return sys.stdout.write(text)

    def flush(self) -> None:
        with self._told():
            sys.stdout.flush()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError as error:
            discard_output()
            raise _ReaderLeftError from error
