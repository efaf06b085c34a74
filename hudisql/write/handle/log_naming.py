"""How a delta commit names its log files, by the layout of the timeline.

Follows `HoodieAppendHandle` of Hudi 0.15 and 1.2. In layout 1 log files are numbered on top of a base
instant, and others may already refer to a failed commit's log files. In layout 2 each log file belongs to one
delta commit, whose instant is in its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hudisql.format.timeline.timeline_layout import TimelineLayout
from hudisql.table.file_slice import FileSlice
from hudisql.write.handle.log_file import next_log_version


@dataclass(frozen=True, slots=True)
class LogNaming:
    """The names of one layout.

    `is_new_file` is true in layout 2, where a commit creates its log files (marker CREATE, deleted by
    rollbacks), and false in layout 1, where it may append to them.
    """

    is_new_file: bool

    def instant(self, file_slice: FileSlice, instant_time: str) -> str:
        """The instant in the names of the log files that the commit `instant_time` adds to the slice.

        In layout 1 that of the slice's base, or of a pending compaction of its group.
        """
        return instant_time if self.is_new_file else file_slice.log_base_instant

    def first_version(self, file_slice: FileSlice) -> int:
        """The version of the commit's first log file: in layout 2 nobody else writes such files."""
        return 1 if self.is_new_file else next_log_version(file_slice, file_slice.log_base_instant)

    def base_file(self, file_slice: FileSlice) -> str:
        """The base file's name in the statistics of the commit.

        Empty in layout 2, where completion times determine the slice, and if a pending compaction has begun
        the slice.
        """
        if self.is_new_file or file_slice.compaction_instant or file_slice.base_file is None:
            return ""
        return file_slice.base_file.path.rsplit("/", 1)[-1]


LOG_NAMING_V1: Final = LogNaming(is_new_file=False)
"""The names in tables of version 6."""


def log_naming(layout: TimelineLayout) -> LogNaming:
    """The names in tables with this layout of the timeline."""
    return LogNaming(is_new_file=layout.has_completion_times)
