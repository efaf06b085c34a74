"""Which of the declared tables a worker owns: by Kafka's group, by leases, or all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from hudisql.errors import HudisqlError
from hudisql.ingest.declaration import PUSH, IngestDeclaration

_RETRY_SECONDS: Final = 30.0

HandOver = Callable[[Callable[[str], bool], bool], None]
"""Called with a test of names and whether to commit: the worker gives up the tables that pass the test."""


class DeclaredName(Protocol):
    """A table with a declaration, as an ownership knows it."""

    @property
    def name(self) -> str:
        """`database.name`."""

    @property
    def declaration(self) -> IngestDeclaration:
        """How its events are taken."""


class Ownership(Protocol):
    """Decides which tables this worker owns."""

    hand_over: HandOver

    @property
    def is_settled(self) -> bool:
        """True once the tables of this worker are known."""

    def owned(self, tables: Mapping[str, DeclaredName]) -> set[str]:
        """The names of those tables that this worker owns now; called often, with the same mapping as long
        as the declarations are the same. Raises HudisqlError.
        """

    def report(self, states: Mapping[str, str]) -> None:
        """Publish the states of this worker's tables for the other members of the group."""

    def close(self) -> None:
        """Give up all tables, so that other workers take them at once."""


class OwnsAll:
    """The ownership of the only worker."""

    is_settled = True

    def __init__(self) -> None:
        self.hand_over: HandOver = lambda _is_left, _commits: None

    def owned(self, tables: Mapping[str, DeclaredName]) -> set[str]:
        """All of them."""
        return set(tables)

    def report(self, states: Mapping[str, str]) -> None:
        """Do nothing: there are no other workers."""

    def close(self) -> None:
        """Do nothing."""


class OwnershipBySource:
    """Tables of topics as the group has it, tables of pushes as `pushed` has it.

    `join_group` is called for the first table of a topic. If it fails, `warn` gets the error, the tables of
    pushes go on, and it is called again later.
    """

    def __init__(
        self, join_group: Callable[[], Ownership], pushed: Ownership, warn: Callable[[str], None]
    ) -> None:
        self._join_group = join_group
        self._pushed = pushed
        self._warn = warn
        self._group: Ownership | None = None
        self._not_before = 0.0
        self._tables: Mapping[str, DeclaredName] = {}
        self._of_pushes: Mapping[str, DeclaredName] = {}
        self._of_topics: Mapping[str, DeclaredName] = {}
        self._hand_over: HandOver = lambda _is_left, _commits: None

    @property
    def hand_over(self) -> HandOver:
        """Called for tables that this worker no longer owns."""
        return self._hand_over

    @hand_over.setter
    def hand_over(self, hand_over: HandOver) -> None:
        self._hand_over = hand_over
        for part in self._parts():
            part.hand_over = hand_over

    @property
    def is_settled(self) -> bool:
        """True once both are settled."""
        is_waiting = bool(self._of_topics) and self._group is None
        return not is_waiting and all(part.is_settled for part in self._parts())

    def owned(self, tables: Mapping[str, DeclaredName]) -> set[str]:
        """The tables of both. Raises HudisqlError."""
        if tables is not self._tables:
            self._tables = tables
            self._of_pushes = {
                name: table for name, table in tables.items() if table.declaration.source == PUSH
            }
            self._of_topics = {name: table for name, table in tables.items() if name not in self._of_pushes}
        owned = self._pushed.owned(self._of_pushes)
        if self._of_topics and self._group is None and time.monotonic() >= self._not_before:
            self._join()
        return owned if self._group is None else owned | self._group.owned(self._of_topics)

    def report(self, states: Mapping[str, str]) -> None:
        """Report to both."""
        for part in self._parts():
            part.report(states)

    def close(self) -> None:
        """Give up all tables."""
        for part in self._parts():
            part.close()

    def _join(self) -> None:
        try:
            self._group = self._join_group()
            self._group.hand_over = self._hand_over
        except HudisqlError as error:
            self._not_before = time.monotonic() + _RETRY_SECONDS
            self._warn(f"{error.message}; the tables of topics wait")

    def _parts(self) -> list[Ownership]:
        return [self._pushed] if self._group is None else [self._pushed, self._group]
