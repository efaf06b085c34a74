"""A table that a worker owns: one whose events it reads, or one that waits for its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.table_feed import OpenFeed, TableFeed


class IngestTable(Protocol):
    """A table with a declaration."""

    @property
    def name(self) -> str:
        """`database.name`."""

    @property
    def declaration(self) -> IngestDeclaration:
        """How its events are taken."""

    def feed(self, owner: str) -> TableFeed:
        """A new feed of the table."""


@dataclass(eq=False)
class FedTable:
    """A table whose events are read; `ended` are those of its source partitions whose end was reached."""

    table: IngestTable
    feed: OpenFeed
    failures: int = 0
    partitions: set[SourcePartition] = field(default_factory=set)
    ended: set[SourcePartition] = field(default_factory=set)
    is_halted: bool = False

    @property
    def name(self) -> str:
        """`database.name`."""
        return self.table.name

    @property
    def source_name(self) -> str:
        """The source of its events."""
        return self.table.declaration.source_name


@dataclass(frozen=True)
class WaitingTable:
    """A table to start at the time `not_before`.

    It has failed `failures` times since its last commit, at last with `error`.
    """

    table: IngestTable
    failures: int = 0
    not_before: float = 0.0
    error: str | None = None
