"""Which of the declared tables are a worker's: by Kafka's group, by leases, or all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from hudisql.errors import HudisqlError
from hudisql.ingest.declaration import PUSH, IngestDeclaration

_RETRY_SECONDS: Final = 30.0

HandOver = Callable[[Callable[[str], bool], bool], None]
"""Called with a test of names and whether to commit: the tables it holds for are this worker's no longer."""


class DeclaredName(Protocol):
    """A table with a declaration, as an ownership knows it."""

    @property
    def name(self) -> str:
        """`database.name`."""

    @property
    def declaration(self) -> IngestDeclaration:
        """How its events are taken."""


class Ownership(Protocol):
    """Which tables are this worker's."""

    hand_over: HandOver

    @property
    def is_settled(self) -> bool:
        """True once it is known what this worker owns."""

    def owned(self, tables: Mapping[str, DeclaredName]) -> set[str]:
        """The names of those tables that this worker owns now; called often, with the same mapping as long
        as the declarations are the same. Raises HudisqlError.
        """

    def report(self, states: Mapping[str, str]) -> None:
        """Tell whoever asks for the workers of the group how this one's tables are."""

    def close(self) -> None:
        """Give all tables up, so that other workers take them at once."""


class OwnsAll:
    """The ownership of a worker that is the only one."""

    is_settled = True

    def __init__(self) -> None:
        self.hand_over: HandOver = lambda _is_left, _commits: None

    def owned(self, tables: Mapping[str, DeclaredName]) -> set[str]:
        """All of them."""
        return set(tables)

    def report(self, states: Mapping[str, str]) -> None:
        """Do nothing: there is nobody to tell."""

    def close(self) -> None:
        """Do nothing."""


class OwnershipBySource:
    """Tables of topics as the group has it, tables of pushes as `pushed` has it.

    `join_group` is called when there is a table of a topic: what fails then is told to `warn` and tried
    again, for the other tables go on.
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
        """What is called for tables that are this worker's no longer."""
        return self._hand_over

    @hand_over.setter
    def hand_over(self, hand_over: HandOver) -> None:
        self._hand_over = hand_over
        for each in self._parts():
            each.hand_over = hand_over

    @property
    def is_settled(self) -> bool:
        """True once both know what this worker owns."""
        is_waiting = bool(self._of_topics) and self._group is None
        return not is_waiting and all(each.is_settled for each in self._parts())

    def owned(self, tables: Mapping[str, DeclaredName]) -> set[str]:
        """The tables of either. Raises HudisqlError."""
        if tables is not self._tables:
            self._tables = tables
            self._of_pushes = {name: each for name, each in tables.items() if each.declaration.source == PUSH}
            self._of_topics = {name: each for name, each in tables.items() if name not in self._of_pushes}
        owned = self._pushed.owned(self._of_pushes)
        if self._of_topics and self._group is None and time.monotonic() >= self._not_before:
            self._join()
        return owned if self._group is None else owned | self._group.owned(self._of_topics)

    def report(self, states: Mapping[str, str]) -> None:
        """Tell the group of its tables."""
        for each in self._parts():
            each.report(states)

    def close(self) -> None:
        """Give all tables up."""
        for each in self._parts():
            each.close()

    def _join(self) -> None:
        try:
            self._group = self._join_group()
            self._group.hand_over = self._hand_over
        except HudisqlError as error:
            self._not_before = time.monotonic() + _RETRY_SECONDS
            self._warn(f"{error.message}; the tables of topics wait")

    def _parts(self) -> list[Ownership]:
        return [self._pushed] if self._group is None else [self._pushed, self._group]
