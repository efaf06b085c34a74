"""What a bootstrap or its rollback has left in a folder: a table, a run at work or killed, half a removal.

The marks are files in `.hoodie`: `hoodie.properties` makes a table, a claim file a run that has not finished,
a rollback mark a removal that has begun. Reads only.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from hudisql.format.bootstrap_index import partition_index_path
from hudisql.format.instant import (
    FULL_BOOTSTRAP_INSTANT_TIME,
    METADATA_BOOTSTRAP_INSTANT_TIME,
    parse_instant_file_name,
)
from hudisql.format.table_properties import PROPERTIES_BACKUP_FILE, PROPERTIES_FILE
from hudisql.format.timeline import TIMELINE_FOLDER
from hudisql.storage import Storage, join

CLAIM_FILE: Final = ".hoodie/.hudisql-bootstrap"
ROLLBACK_FILE: Final = ".hoodie/.hudisql-rollback"
BOOTSTRAP_INSTANT_TIMES: Final = frozenset({METADATA_BOOTSTRAP_INSTANT_TIME, FULL_BOOTSTRAP_INSTANT_TIME})

_CLOCK_SLACK_SECONDS: Final = 5.0


class FolderState(Enum):
    """What a target folder holds."""

    NOTHING = "nothing of a bootstrap"
    TABLE = "a Hudi table"
    RUN = "a bootstrap that did not finish"
    ROLLBACK = "a rollback that did not finish"


@dataclass(frozen=True, slots=True)
class Claim:
    """Who writes or wrote to a folder; parts that the file does not tell are None."""

    table: str | None
    host: str | None
    process: int | None
    written_ms: int

    @property
    def is_gone(self) -> bool:
        """True if it is certain that the process has ended: it was one of this host."""
        if self.host != socket.gethostname() or self.process is None:
            return False
        return not _is_running_since(self.process, self.written_ms / 1000)

    def __str__(self) -> str:
        return f"process {self.process or 'unknown'} on {self.host or 'an unknown host'}"


def folder_state(storage: Storage, base_path: str) -> FolderState:
    """What the folder holds, by the marks in it. Raises StorageError."""
    marks = (PROPERTIES_FILE, PROPERTIES_BACKUP_FILE, ROLLBACK_FILE, CLAIM_FILE)
    properties, backup, rollback, claim = storage.infos([join(base_path, mark) for mark in marks])
    if properties is not None or backup is not None:
        return FolderState.TABLE
    if rollback is not None:
        return FolderState.ROLLBACK
    if claim is not None or _is_abandoned(storage, base_path):
        return FolderState.RUN
    return FolderState.NOTHING


def read_claim(storage: Storage, base_path: str) -> Claim | None:
    """The claim of a run, None if it left none (it dies without one just before the table is published)."""
    path = join(base_path, CLAIM_FILE)
    info = storage.info(path)
    if info is None:
        return None
    try:
        told: Any = json.loads(storage.read(path))
    except ValueError:
        told = {}
    if not isinstance(told, dict):
        told = {}
    table, host, process = told.get("table"), told.get("host"), told.get("process")
    return Claim(
        table if isinstance(table, str) else None,
        host if isinstance(host, str) else None,
        process if isinstance(process, int) else None,
        info.modification_time_ms,
    )


def _is_abandoned(storage: Storage, base_path: str) -> bool:
    """True for a timeline folder without properties that holds a bootstrap's files, or nothing, only."""
    timeline = join(base_path, TIMELINE_FOLDER)
    info = storage.info(timeline)
    if info is None or not info.is_directory:
        return False
    # Hidden files are staged ones and checksums.
    names = [
        entry.name
        for entry in storage.list_directory(timeline)
        if not entry.is_directory and not entry.name.startswith(".")
    ]
    if not names:
        has_index = storage.exists(partition_index_path(base_path))
        return has_index or all(file.name.startswith(".") for file in storage.list_files(timeline))
    instants = [parse_instant_file_name(name) for name in names]
    return all(instant is not None and instant.timestamp in BOOTSTRAP_INSTANT_TIMES for instant in instants)


def _is_running_since(process: int, claimed_at: float) -> bool:
    """True if the process runs and can have made a claim at that time (epoch seconds)."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    except (OverflowError, ValueError):
        return False
    started = _start_of(process)
    # Numbers are given again, in containers soon: a younger process is another one.
    return started is None or started <= claimed_at + _CLOCK_SLACK_SECONDS


def _start_of(process: int) -> float | None:
    """When the process began (epoch seconds), None where the system does not tell; a zombie is over."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        booted = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime")
        )
        if fields[0] == "Z":
            return float("inf")
        return booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None
