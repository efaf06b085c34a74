"""The state of a bootstrap's target directory: nothing, a table, an unfinished bootstrap or rollback.

Marker files in `.hoodie` decide: `hoodie.properties` means a table, a lease file an unfinished bootstrap, a
rollback marker a removal that has begun. Reads only.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from hudisql.bootstrap.lease.skeleton_checkpoint import REQUEST_FILE
from hudisql.format.hfile.bootstrap_index import partition_index_path
from hudisql.format.table_properties import PROPERTIES_BACKUP_FILE, PROPERTIES_FILE
from hudisql.format.timeline.instant import BOOTSTRAP_INSTANT_TIMES
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY, TimelineLayoutV2, metadata_directory
from hudisql.storage import FileInfo, Storage, join
from hudisql.write.transaction.process_identity import ProcessIdentity, parse_identity

LEASE_FILE: Final = f"{METADATA_DIRECTORY}/.hudisql-bootstrap"
HEARTBEAT_FILE: Final = f"{METADATA_DIRECTORY}/.hudisql-alive"
ROLLBACK_FILE: Final = f"{METADATA_DIRECTORY}/.hudisql-rollback"

_LEASE_NAME: Final = re.compile(r"\.hudisql-bootstrap(?:-(\d+))?")
# Ten missed heartbeats; the clocks of hosts and stores may differ a little.
LEASE_TIMEOUT_MS: Final = 600_000


class TargetState(Enum):
    """The content of a target directory."""

    NOTHING = "nothing of a bootstrap"
    TABLE = "a Hudi table"
    RUN = "a bootstrap that did not finish"
    ROLLBACK = "a rollback that did not finish"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of a lease file: who holds the directory; missing values are None.

    A run that takes over an expired lease creates the lease of the next `fencing_epoch`. `heartbeat_ms` is
    the time of the last heartbeat (epoch ms).
    """

    table: str | None
    holder: ProcessIdentity | None
    written_ms: int
    heartbeat_ms: int = 0
    fencing_epoch: int = 0

    @property
    def is_expired(self) -> bool:
        """True if the process has ended, or, where that is not visible, sent no heartbeat for ten minutes."""
        has_ended = None if self.holder is None else self.holder.has_ended
        if has_ended is not None:
            return has_ended
        return time.time() * 1000 - max(self.written_ms, self.heartbeat_ms) > LEASE_TIMEOUT_MS

    def __str__(self) -> str:
        return "an unknown process" if self.holder is None else str(self.holder)


def lease_path(base_path: str, fencing_epoch: int) -> str:
    """The path of the lease of an epoch; 0 is the first run's."""
    return join(base_path, LEASE_FILE + (f"-{fencing_epoch}" if fencing_epoch else ""))


def lease_epochs(storage: Storage, base_path: str) -> list[int]:
    """The epochs of all lease files, ascending; several while a lease is being taken over."""
    timeline = join(base_path, METADATA_DIRECTORY)
    if not storage.exists(timeline):
        return []
    matches = (_LEASE_NAME.fullmatch(entry.name) for entry in storage.list_directory(timeline))
    return sorted(int(matched[1] or 0) for matched in matches if matched is not None)


def read_target_state(storage: Storage, base_path: str) -> TargetState:
    """The content of the directory, by its marker files. Raises StorageError."""
    markers = (PROPERTIES_FILE, PROPERTIES_BACKUP_FILE, ROLLBACK_FILE, REQUEST_FILE)
    properties, backup, rollback, checkpoint = storage.infos([join(base_path, name) for name in markers])
    if properties is not None or backup is not None:
        return TargetState.TABLE
    if rollback is not None:
        return TargetState.ROLLBACK
    if checkpoint is not None or lease_epochs(storage, base_path) or _is_abandoned(storage, base_path):
        return TargetState.RUN
    return TargetState.NOTHING


def read_lease(storage: Storage, base_path: str) -> LeaseRecord | None:
    """The latest lease; None if there is none (a failed run that is to be resumed releases its lease)."""
    fencing_epochs = lease_epochs(storage, base_path)
    if not fencing_epochs:
        return None
    path = lease_path(base_path, fencing_epochs[-1])
    info, heartbeat = storage.infos([path, join(base_path, HEARTBEAT_FILE)])
    if info is None:
        return None
    try:
        content: Any = json.loads(storage.read(path))
    except ValueError:
        content = {}
    if not isinstance(content, dict):
        content = {}
    table = content.get("table")
    return LeaseRecord(
        table if isinstance(table, str) else None,
        parse_identity(content),
        info.modification_time_ms,
        0 if heartbeat is None else heartbeat.modification_time_ms,
        fencing_epochs[-1],
    )


def _is_abandoned(storage: Storage, base_path: str) -> bool:
    """True for a timeline directory without properties that holds only a bootstrap's files, or nothing."""
    timeline = join(base_path, METADATA_DIRECTORY)
    info = storage.info(timeline)
    if info is None or not info.is_directory:
        return False
    # Hidden files are staged files and checksums.
    files = [file for file in _files_of_timelines(storage, base_path) if not file.name.startswith(".")]
    if not files:
        has_index = storage.exists(partition_index_path(base_path))
        return has_index or all(file.name.startswith(".") for file in storage.list_files(timeline))
    return all(_is_of_bootstrap(file.name) for file in files)


def instants_of_bootstrap(storage: Storage, base_path: str) -> list[str]:
    """The paths of the bootstrap's own instants, in the timeline of any version. Raises StorageError."""
    return [file.path for file in _files_of_timelines(storage, base_path) if _is_of_bootstrap(file.name)]


def _files_of_timelines(storage: Storage, base_path: str) -> list[FileInfo]:
    directory = TimelineLayoutV2().timeline_directory(base_path)
    directories = [metadata_directory(base_path), *([directory] if storage.exists(directory) else [])]
    return [
        info for infos in storage.list_directories(directories) for info in infos if not info.is_directory
    ]


def _is_of_bootstrap(name: str) -> bool:
    instant = TimelineLayoutV2().parse_file_name(name)
    return instant is not None and instant.timestamp in BOOTSTRAP_INSTANT_TIMES
