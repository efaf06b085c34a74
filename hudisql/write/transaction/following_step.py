"""A step that follows a commit of a block of code while the commit's lock is still held.

So the step sees the table as the commit has left it, and does not acquire the lock again. It must be short,
since other writers wait, and its failure is its own: the commit is complete. Services in other threads do not
get it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hudisql.table.hudi_table import HudiTable

Step = Callable[[HudiTable], None]
"""Gets the table with a `listing` of what the commit has changed."""

_current: ContextVar[Step | None] = ContextVar("following_step", default=None)


@contextmanager
def followed_by(step: Step) -> Iterator[None]:
    """Let the step follow every commit that this thread completes inside."""
    token = _current.set(step)
    try:
        yield
    finally:
        _current.reset(token)


def following_step() -> Step | None:
    """The step of the current block."""
    return _current.get()
