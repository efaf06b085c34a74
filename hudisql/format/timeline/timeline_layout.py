"""The layout of a table's timeline: directories, file names, payloads and order of instants.

Follows `TimelineLayout`, `HoodieInstant.getFileName` and `HoodieTableMetaClient` of Hudi 0.15 for layout
version 1 (table version 6), and `InstantFileNameGeneratorV2` and `InstantFileNameParserV2` of Hudi 1.2 for
version 2 (table versions 8 and 9). No other module builds such paths. Knows names only: it reads no files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

from hudisql.format.timeline.instant import (
    ACTIONS,
    COMMIT,
    Instant,
    InstantState,
)
from hudisql.storage import join

METADATA_DIRECTORY: Final = ".hoodie"
"""The directory for everything of a table except its data (Hudi's `METAFOLDER_NAME`)."""
TEMPORARY_NAME: Final = ".temp"
SCHEMA_NAME: Final = ".schema"
HEARTBEAT_NAME: Final = ".heartbeat"
METADATA_TABLE_NAME: Final = "metadata"
ICEBERG_NAME: Final = "iceberg"
"""The names of directories in it that most tables lack."""
ARCHIVE_DIRECTORY: Final = "archived"
"""Hudi's default for `hoodie.archivelog.folder`."""
DEFAULT_TIMELINE_DIRECTORY: Final = "timeline"
"""Hudi's default for `hoodie.timeline.path`."""
DEFAULT_HISTORY_DIRECTORY: Final = "history"
"""Hudi's default for `hoodie.timeline.history.path`."""
# The size of the cache of file names: a timeline is listed again and again.
_MOST_NAMES: Final = 1 << 16


def metadata_directory(base_path: str) -> str:
    """`.hoodie` of the table."""
    return join(base_path, METADATA_DIRECTORY)


def temporary_directory(base_path: str) -> str:
    """Temporary files of writers: markers, a directory for each instant."""
    return join(base_path, METADATA_DIRECTORY, TEMPORARY_NAME)


def schema_directory(base_path: str) -> str:
    """The versions of the internal schema, a file for each commit since the first change by ids."""
    return join(base_path, METADATA_DIRECTORY, SCHEMA_NAME)


def heartbeat_directory(base_path: str) -> str:
    """The heartbeats of writers, a file for each instant."""
    return join(base_path, METADATA_DIRECTORY, HEARTBEAT_NAME)


def auxiliary_directory(base_path: str) -> str:
    """Permanent files beside the timeline, such as the bootstrap index."""
    return join(base_path, METADATA_DIRECTORY, ".aux")


def hashing_metadata_directory(base_path: str) -> str:
    """The rings of a consistent hashing index, a directory for each partition."""
    return join(base_path, METADATA_DIRECTORY, ".bucket_index", "consistent_hashing_metadata")


def bucket_rules_directory(base_path: str, *, archived: bool = False) -> str:
    """The numbers of buckets by partition of a bucket index, a file for each time they were set."""
    return join(
        base_path,
        METADATA_DIRECTORY,
        ".bucket_index",
        "partition_bucket_index_meta",
        "archive" if archived else "configs",
    )


def iceberg_directory(base_path: str) -> str:
    """The Iceberg table that shows the same files, if it was published."""
    return join(base_path, METADATA_DIRECTORY, ICEBERG_NAME)


def metadata_table_directory(base_path: str) -> str:
    """The base path of the table's metadata table."""
    return join(base_path, METADATA_DIRECTORY, METADATA_TABLE_NAME)


def new_table_directories(layout_version: int) -> tuple[str, ...]:
    """The directories below `.hoodie` that a new table has, empty."""
    history = f"{DEFAULT_TIMELINE_DIRECTORY}/{DEFAULT_HISTORY_DIRECTORY}"
    return (ARCHIVE_DIRECTORY if layout_version == LAYOUT_V1.version else history, ".schema", ".temp")


def archive_directory(base_path: str, name: str) -> str:
    """Where archived instants are; `name` is the table's `hoodie.archivelog.folder`."""
    return join(base_path, METADATA_DIRECTORY, name)


@dataclass(frozen=True, slots=True)
class TimelineLayout:
    """Version 1 of the layout, and the base of later ones.

    Each state of an action is a file `<instant>.<action>[.requested|.inflight]` in `.hoodie` itself.
    """

    version: ClassVar[int] = 1
    """Hudi's `hoodie.timeline.layout.version`."""
    has_completion_times: ClassVar[bool] = False
    """True if the names of completed actions have their completion times.

    File slices then follow these times, and the name of a log file has the instant of the commit that wrote
    it, not that of its base file.
    """

    def timeline_directory(self, base_path: str) -> str:
        """The directory of the active timeline."""
        return metadata_directory(base_path)

    def file_name(self, instant: Instant) -> str:
        """The name of the file that stands for the instant in its state.

        A completed compaction is named after the commit that it makes.
        """
        if instant.state is InstantState.COMPLETED:
            return f"{instant.timestamp}.{instant.completed_action}"
        if instant.state is InstantState.INFLIGHT and instant.action == COMMIT:
            return f"{instant.timestamp}.inflight"
        return f"{instant.timestamp}.{instant.action}.{instant.state.name.lower()}"

    def parse_file_name(self, name: str) -> Instant | None:
        """The instant of a file in the timeline's directory, or None for other files."""
        return _instant_of(name)

    def sort_key(self, instant: Instant) -> tuple[str, str, int]:
        """Orders instants from the oldest to the newest, by the time at which an action was requested."""
        return instant.timestamp, instant.action, instant.state


@dataclass(frozen=True, slots=True)
class TimelineLayoutV2(TimelineLayout):
    """A completed action is a file `<instant>_<completion time>.<action>` in `.hoodie/timeline`.

    Pending states are named as in layout 1, but a pending clustering is an action of its own. Completed names
    without a completion time are those of tables that were upgraded by early writers. `directory` and
    `history` are the table's `hoodie.timeline.path` and `hoodie.timeline.history.path`.
    """

    directory: str = DEFAULT_TIMELINE_DIRECTORY
    history: str = DEFAULT_HISTORY_DIRECTORY
    version: ClassVar[int] = 2
    has_completion_times: ClassVar[bool] = True

    def timeline_directory(self, base_path: str) -> str:
        """The directory of the active timeline."""
        return join(metadata_directory(base_path), self.directory)

    def history_directory(self, base_path: str) -> str:
        """The directory of the archived instants."""
        return join(self.timeline_directory(base_path), self.history)

    def file_name(self, instant: Instant) -> str:
        """The name of the file; a completed compaction is named after the commit that it makes."""
        if instant.state is not InstantState.COMPLETED or not instant.completion_time:
            return LAYOUT_V1.file_name(instant)
        return f"{instant.timestamp}_{instant.completion_time}.{instant.completed_action}"

    def parse_file_name(self, name: str) -> Instant | None:
        """The instant of a file's name, or None for other files."""
        matched = _COMPLETED_NAME.fullmatch(name)
        if matched is None:
            return LAYOUT_V1.parse_file_name(name)
        timestamp, completion_time, action = matched.groups()
        return (
            Instant(timestamp, action, InstantState.COMPLETED, completion_time) if action in ACTIONS else None
        )


_COMPLETED_NAME: Final = re.compile(r"(\d{14,17})_(\d{14,17})\.([a-z]+)", re.ASCII)


@lru_cache(_MOST_NAMES)
def _instant_of(name: str) -> Instant | None:
    matched = _FILE_NAME.fullmatch(name)
    if matched is None:
        return None
    timestamp, action, suffix = matched.groups()
    if action == "inflight" and suffix is None:
        return Instant(timestamp, COMMIT, InstantState.INFLIGHT)
    if action not in ACTIONS:
        return None
    state = InstantState[suffix[1:].upper()] if suffix else InstantState.COMPLETED
    return Instant(timestamp, action, state)


# Each of a metadata table's own actions adds three digits to an instant.
_FILE_NAME: Final = re.compile(r"(\d{14,})(?:\.([a-z]+))?(\.requested|\.inflight)?", re.ASCII)
LAYOUT_V1: Final = TimelineLayout()
"""The layout of table version 6, and of all new tables."""


def timeline_layout(
    version: int, directory: str = DEFAULT_TIMELINE_DIRECTORY, history: str = DEFAULT_HISTORY_DIRECTORY
) -> TimelineLayout | None:
    """The layout of a `hoodie.timeline.layout.version`, or None if hudisql does not know it.

    `directory` and `history` are where layout 2 keeps its instants, below `.hoodie` and below `directory`.
    """
    if version == LAYOUT_V1.version:
        return LAYOUT_V1
    layout = TimelineLayoutV2(directory, history)
    return layout if version == layout.version else None


def instant_path(base_path: str, layout: TimelineLayout, instant: Instant) -> str:
    """The path of the file that stands for the instant in its state."""
    return join(layout.timeline_directory(base_path), layout.file_name(instant))
