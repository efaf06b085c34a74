"""The checkpoint of the current run and its lock: who applies scripts, and how far it is.

One sequence of small files, each with the whole state. A state is created atomically under the next number,
so every step is a compare-and-swap: of two runners one takes the step; one that was considered dead and
continues fails at its next step. The newest file is never deleted. Knows nothing of scripts and statements.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hudisql.errors import (
    CorruptTableError,
    MigrationConflictError,
    NoSuchPathError,
    PathExistsError,
    StorageError,
    TableLockedError,
)
from hudisql.storage import Storage, join
from hudisql.write.transaction.heartbeat import Heartbeat, start_heartbeat
from hudisql.write.transaction.process_identity import parse_identity, this_process

HEARTBEAT_MS: Final = 10_000
EXPIRY_MS: Final = 60_000
_PAUSE_SECONDS: Final = 0.5
_HEARTBEAT_PREFIX: Final = "heartbeat-"


@dataclass(frozen=True)
class CheckpointState:
    """The content of one file: the runner that holds the lock, and the unfinished run."""

    sequence: int = 0
    owner: dict[str, Any] | None = None
    run: dict[str, Any] | None = None

    def to_json(self) -> bytes:
        """The file's content as JSON."""
        return json.dumps({"owner": self.owner, "run": self.run}, ensure_ascii=False, indent=1).encode()


@dataclass
class RunCheckpoint:
    """The checkpoint in a directory; `acquire` before `advance`, `release` at the end."""

    storage: Storage
    directory: str
    state: CheckpointState = field(default_factory=CheckpointState)
    _id: str = field(default_factory=lambda: uuid.uuid4().hex)
    _heartbeat: Heartbeat | None = None

    def read(self) -> CheckpointState:
        """The newest state. Raises StorageError, CorruptTableError."""
        while True:
            numbers = self._numbers()
            if not numbers:
                return CheckpointState()
            path = self._path(numbers[-1])
            try:
                found = json.loads(self.storage.read(path))
                return CheckpointState(numbers[-1], found["owner"], found["run"])
            except NoSuchPathError:
                continue
            except (ValueError, KeyError, TypeError) as error:
                raise CorruptTableError(f"{path} is not a checkpoint of migrations: {error}") from error

    def acquire(self, wait_seconds: float, waits: Callable[[str], None]) -> None:
        """Take the lock; `waits` is called once with the current holder.

        A runner whose process has ended on this machine, or whose heartbeat is older than a minute, is
        considered dead. Raises TableLockedError after `wait_seconds`, StorageError.
        """
        self.storage.make_directories(self.directory)
        ends, has_reported = time.monotonic() + wait_seconds, False
        while True:
            self._start_heartbeat()
            checkpoint = self.read()
            if checkpoint.owner is None or not self._is_alive(checkpoint.owner):
                if self._step(replace(checkpoint, owner=self._self())):
                    return
                continue
            owner = checkpoint.owner
            who = f"process {owner['process']} on {owner['host']}, user {owner['user']}"
            if time.monotonic() > ends:
                raise TableLockedError(
                    f"another runner applies migrations since {checkpoint.owner['since']}: {who}",
                    hint=f"wait for it; a dead one loses the lock {EXPIRY_MS // 1000} s after its heartbeat",
                )
            if not has_reported:
                waits(who)
                has_reported = True
            time.sleep(_PAUSE_SECONDS)

    def advance(self, run: dict[str, Any] | None) -> None:
        """Record the progress of the run. Raises MigrationConflictError if another runner took over."""
        if not self._step(replace(self.state, run=run)):
            raise MigrationConflictError(
                "another runner took over the migrations while this one was silent",
                hint="wait for it, then run this again",
            )

    def release(self) -> None:
        """Release the lock; an unfinished run stays in the checkpoint."""
        if self.state.owner is not None:
            with suppress(StorageError):
                self._step(replace(self.state, owner=None))
        if self._heartbeat is not None:
            with suppress(StorageError):
                self._heartbeat.stop()
            self._heartbeat = None

    def _step(self, state: CheckpointState) -> bool:
        state = replace(state, sequence=state.sequence + 1)
        path = self._path(state.sequence)
        try:
            self.storage.create(path, state.to_json())
        except PathExistsError:
            return False
        numbers = self._numbers()
        if numbers[-1] != state.sequence:
            # The number was used and its file deleted before.
            self.storage.delete_file(path)
            return False
        self.storage.delete_files([self._path(number) for number in numbers[:-1]])
        self.state = state
        return True

    def _numbers(self) -> list[int]:
        try:
            entries = self.storage.list_directory(self.directory)
        except NoSuchPathError:
            return []
        stems = (entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json"))
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def _path(self, sequence: int) -> str:
        return join(self.directory, f"{sequence:010d}.json")

    def _self(self) -> dict[str, Any]:
        return {
            "id": self._id,
            **this_process().to_json(),
            "user": current_user(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        }

    def _start_heartbeat(self) -> None:
        if self._heartbeat is None:
            path = join(self.directory, f"{_HEARTBEAT_PREFIX}{self._id}")
            self._heartbeat = start_heartbeat(
                self.storage, path, HEARTBEAT_MS, EXPIRY_MS, is_owner=lambda: True
            )

    def _is_alive(self, owner: dict[str, Any]) -> bool:
        identity = parse_identity(owner)
        if identity is not None and identity.has_ended:
            return False
        beat, own = (self._last_heartbeat(runner) for runner in (owner["id"], self._id))
        # Both times are of the storage's clock: this machine's clock may be wrong.
        return beat is not None and own is not None and own - beat <= EXPIRY_MS

    def _last_heartbeat(self, runner: str) -> int | None:
        info = self.storage.info(join(self.directory, f"{_HEARTBEAT_PREFIX}{runner}"))
        return None if info is None else info.modification_time_ms


def current_user() -> str:
    """The name of the user that runs the migrations."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
