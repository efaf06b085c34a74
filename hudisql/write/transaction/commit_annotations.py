"""Extra metadata for the commits of a block of code, and the list of these commits.

A caller that must know after a crash whether a statement has committed gives it a mark: extra metadata, which
becomes visible with the rows in one step. This module does not interpret the mark. Services in other threads
do not get it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.write.metadata_table.metadata_commit import PreparedCommit


@dataclass(frozen=True, slots=True)
class RecordedCommit:
    """A completed commit; `before` is the table's latest commit before it, None if it had none."""

    base_path: str
    before: str | None
    instant_time: str


@dataclass(frozen=True, slots=True)
class CommitAnnotations:
    """The extra metadata of the commits of a block, and those that were completed, in their order.

    `makes_table` is called with the path of a table before it is created for following rows.
    """

    extra_metadata: Mapping[str, str]
    commits: list[RecordedCommit] = field(default_factory=list)
    makes_table: Callable[[str], None] | None = None


_current: ContextVar[CommitAnnotations | None] = ContextVar("commit_annotations", default=None)


@contextmanager
def annotate_commits(
    extra_metadata: Mapping[str, str], makes_table: Callable[[str], None] | None = None
) -> Iterator[CommitAnnotations]:
    """Add `extra_metadata` to every commit that this thread completes inside, and record these commits."""
    annotations = CommitAnnotations(extra_metadata, makes_table=makes_table)
    token = _current.set(annotations)
    try:
        yield annotations
    finally:
        _current.reset(token)


def annotated(metadata: CommitMetadata, prepared: PreparedCommit | None) -> CommitMetadata:
    """The metadata with what it says of indexes and with the extra metadata of the current block, if any."""
    annotations = _current.get()
    extra_metadata = {
        **metadata.extra_metadata,
        **({} if prepared is None else prepared.extra_metadata),
        **({} if annotations is None else annotations.extra_metadata),
    }
    return replace(metadata, extra_metadata=extra_metadata)


def record_commit(base_path: str, before: str | None, instant_time: str) -> None:
    """Record a completed commit for the current block."""
    annotations = _current.get()
    if annotations is not None:
        annotations.commits.append(RecordedCommit(base_path, before, instant_time))


def announce_table(base_path: str) -> None:
    """Announce to the current block a table that will be created and then filled by a commit."""
    annotations = _current.get()
    if annotations is not None and annotations.makes_table is not None:
        annotations.makes_table(base_path)
