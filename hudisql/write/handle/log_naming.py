"""How a delta commit names its log files, by the layout of the timeline.

Follows `HoodieAppendHandle` of Hudi 0.15 and 1.2. In layout 1 log files are numbered on top of a base
instant, and others may already refer to a failed commit's log files. In layout 2 each log file belongs to one
delta commit, whose instant is in its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from hudisql.format.timeline.timeline_layout import TimelineLayout
from hudisql.table.file_slice import FileSlice
from hudisql.write.handle.log_file import next_log_version


class LogNaming(Protocol):
    """The names of one layout."""

    @property
    def is_new_file(self) -> bool:
        """True if a log file is created (marker CREATE, deleted by rollbacks), False if it is appended to."""

    def instant(self, file_slice: FileSlice, instant_time: str, /) -> str:
        """The instant in the names of the log files that the commit `instant_time` adds to the slice."""

    def first_version(self, file_slice: FileSlice, /) -> int:
        """The version of the commit's first log file."""

    def base_file(self, file_slice: FileSlice, /) -> str:
        """The base file's name in the statistics of the commit."""


@dataclass(frozen=True, slots=True)
class LogNamingV1:
    """Named after the slice's base instant, or that of a pending compaction of its group."""

    is_new_file: bool = False

    def instant(self, file_slice: FileSlice, _instant_time: str, /) -> str:
        """The base instant."""
        return file_slice.log_base_instant

    def first_version(self, file_slice: FileSlice, /) -> int:
        """The next version after the known ones."""
        return next_log_version(file_slice, file_slice.log_base_instant)

    def base_file(self, file_slice: FileSlice, /) -> str:
        """The base file's name; empty if a pending compaction has begun the slice."""
        base_file = None if file_slice.compaction_instant else file_slice.base_file
        return "" if base_file is None else base_file.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class LogNamingV2:
    """Named after the delta commit itself, from version 1."""

    is_new_file: bool = True

    def instant(self, _file_slice: FileSlice, instant_time: str, /) -> str:
        """The delta commit's."""
        return instant_time

    def first_version(self, _file_slice: FileSlice, /) -> int:
        """Always 1: nobody else writes log files of the commit."""
        return 1

    def base_file(self, _file_slice: FileSlice, /) -> str:
        """Empty: completion times determine the slice."""
        return ""


LOG_NAMING_V1: Final[LogNaming] = LogNamingV1()
"""The names in tables of version 6."""


def log_naming(layout: TimelineLayout) -> LogNaming:
    """The names in tables with this layout of the timeline."""
    return LogNamingV2() if layout.has_completion_times else LOG_NAMING_V1
