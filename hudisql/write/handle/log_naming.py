"""How a delta commit names its log files, by the layout of the timeline.

Follows `HoodieAppendHandle` of Hudi 0.15 and 1.2. In layout 1 log files are numbered on top of a base
instant, and what a failed commit has appended may be known to others already. In layout 2 each log file is
of one delta commit, whose instant its name tells.
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
        """True if a log file counts as created (markers CREATE, deleted by rollbacks), not as appended to."""

    def instant(self, file_slice: FileSlice, instant_time: str, /) -> str:
        """The instant in the names of the log files that the commit `instant_time` adds to the slice."""

    def first_version(self, file_slice: FileSlice, /) -> int:
        """The version of the first of them."""

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
        """The one after those that are known."""
        return next_log_version(file_slice, file_slice.log_base_instant)

    def base_file(self, file_slice: FileSlice, /) -> str:
        """Its name; the slice that a pending compaction has begun has no base file yet."""
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
        """Nobody else writes log files of the commit."""
        return 1

    def base_file(self, _file_slice: FileSlice, /) -> str:
        """None: completion times tell the slice."""
        return ""


LOG_NAMING_V1: Final[LogNaming] = LogNamingV1()
"""The names in tables of version 6."""


def log_naming(layout: TimelineLayout) -> LogNaming:
    """The names in tables with this layout of the timeline."""
    return LogNamingV2() if layout.has_completion_times else LOG_NAMING_V1
