"""How a writer shares its table with others, as Hudi's settings say: concurrency mode, lock, failed writes.

Follows `HoodieWriteConfig`, `HoodieLockConfig` and `HoodieCleanConfig` of Hudi 0.15, defaults included. A
lock provider that hudisql does not support is refused by name: writing without it would break mutual
exclusion. Unlike Hudi, hudisql also locks tables whose settings name no provider, with the file of
`FileSystemBasedLockProvider`. Hudi's writers without a provider do not use this file (their default is
ZooKeeper).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from hudisql.config.config_key import ConfigKey, HudiConfig
from hudisql.config.hudi_config import (
    CONCURRENCY_MODE,
    CONFLICT_RETRIES,
    CONFLICT_STRATEGY,
    FAILED_WRITES,
    HEARTBEAT_INTERVAL,
    HEARTBEAT_MISSES,
    INDEX_TYPE,
    LOCK_EXPIRE,
    LOCK_PATH,
    LOCK_PROVIDER,
    LOCK_RETRIES,
    LOCK_RETRY_WAIT,
    LOCK_WAIT,
    WRITE_LOCK,
)
from hudisql.errors import SettingsError, UnsupportedTableError
from hudisql.format.timeline.timeline_layout import metadata_directory
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.lock import (
    FileSystemLock,
    HeldLock,
    InProcessLock,
    LockRetryPolicy,
    TableLock,
    hold_lock,
)

_LOCK_PACKAGE: Final = "org.apache.hudi.client.transaction.lock"
FILE_SYSTEM_PROVIDER: Final = f"{_LOCK_PACKAGE}.FileSystemBasedLockProvider"
IN_PROCESS_PROVIDER: Final = f"{_LOCK_PACKAGE}.InProcessLockProvider"
_OPTIMISTIC: Final = "OPTIMISTIC_CONCURRENCY_CONTROL"
_SINGLE_WRITER: Final = "SINGLE_WRITER"
_LEAST_INTERVAL_MS: Final = 1000
_POLL_MS: Final = 20
_SETTINGS_OF_OTHER_LOCKS: Final = tuple(
    f"hoodie.write.lock.{kind}.{name}"
    for kind, names in {
        "zookeeper": "url port base_path lock_key session_timeout_ms connection_timeout_ms",
        "dynamodb": "table partition_key region billing_mode read_capacity write_capacity "
        "table_creation_timeout endpoint_url",
        "hivemetastore": "database table uris",
    }.items()
    for name in names.split()
)

LockFactory = Callable[[], TableLock]


class FailedWrites(StrEnum):
    """The policy for rolling back failed writes (Hudi's `HoodieFailedWritesCleaningPolicy`).

    EAGER: the next writer; LAZY: the next writer after the heartbeat has expired; NEVER: nobody.
    """

    EAGER = "EAGER"
    LAZY = "LAZY"
    NEVER = "NEVER"


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How a writer shares the table; by default it is the only writer.

    With `optimistic` concurrent commits to other file groups are allowed. `conflict_retries` is how often a
    statement is retried after a conflict. `has_heartbeats` is false for writes by several processes.
    `after_completion` gets the table as a commit has left it, with a `listing` of what has changed, while the
    commit's lock is still held. It must be short, since other writers wait, and raise no HudisqlError.
    """

    optimistic: bool = False
    failed_writes: FailedWrites = FailedWrites.EAGER
    lock: TableLock | None = None
    lock_retry_policy: LockRetryPolicy = field(default_factory=LockRetryPolicy)
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL.default_value
    tolerable_misses: int = HEARTBEAT_MISSES.default_value
    conflict_retries: int = CONFLICT_RETRIES.default_value
    has_heartbeats: bool = True
    after_completion: Callable[[HudiTable], None] | None = None

    def hold(self) -> AbstractContextManager[HeldLock]:
        """Hold the lock, if there is one, while a block runs: `hold_lock` with these rules."""
        return hold_lock(self.lock, self.lock_retry_policy)

    @property
    def names_lock(self) -> bool:
        """True if the table's settings name its lock: writers of other engines may use the table."""
        return self.lock is not None and not (isinstance(self.lock, FileSystemLock) and self.lock.is_default)

    @property
    def gives_heartbeats(self) -> bool:
        """True if commits get a heartbeat, by which other writers recognize active ones."""
        shares = self.failed_writes is FailedWrites.LAZY or self.lock is not None
        return self.has_heartbeats and shares

    @property
    def heartbeat_tolerance_ms(self) -> int:
        """A heartbeat expires after this time."""
        return self.heartbeat_interval_ms * self.tolerable_misses

    @property
    def known_by_heartbeats_ms(self) -> int | None:
        """The tolerance if only heartbeats show which writes have failed (the LAZY policy), else None."""
        return self.heartbeat_tolerance_ms if self.failed_writes is FailedWrites.LAZY else None


SINGLE_WRITER: Final = Concurrency()


def read_concurrency(
    config: HudiConfig,
    storage: Storage,
    base_path: str,
    more_locks: Mapping[str, LockFactory] | None = None,
) -> Concurrency:
    """The rules that the settings give for the table at `base_path`.

    `more_locks` creates the locks of further provider classes. Raises SettingsError for invalid values,
    UnsupportedTableError for a mode, lock provider or strategy that hudisql lacks.
    """
    optimistic = _is_optimistic(config, base_path)
    lock = _lock(config, storage, base_path, more_locks or {}, is_needed=optimistic)
    is_default = isinstance(lock, FileSystemLock) and lock.is_default
    policy = config.get(FAILED_WRITES)
    interval = config.get(HEARTBEAT_INTERVAL)
    if interval < _LEAST_INTERVAL_MS:
        raise SettingsError(f"{HEARTBEAT_INTERVAL} must be at least {_LEAST_INTERVAL_MS}, not {interval}")
    return Concurrency(
        optimistic=optimistic,
        # As in Hudi the setting is ignored: other writers' inflight commits are not failed writes.
        failed_writes=FailedWrites.LAZY if optimistic else FailedWrites(policy),
        lock=lock,
        lock_retry_policy=LockRetryPolicy(
            retries=config.get(LOCK_RETRIES),
            wait_ms=config.get(LOCK_RETRY_WAIT),
            attempt_ms=config.get(LOCK_WAIT),
            poll_ms=_POLL_MS if is_default else 0,
        ),
        heartbeat_interval_ms=interval,
        tolerable_misses=config.get(HEARTBEAT_MISSES),
        conflict_retries=config.get(CONFLICT_RETRIES),
    )


def default_lock(
    storage: Storage, base_path: str, expire_minutes: int = 0, directory: str = ""
) -> FileSystemLock:
    """The lock of a table whose settings name none; its file is that of `FileSystemBasedLockProvider`.

    The file is in the `directory`, by default in the table's `.hoodie`.
    """
    path = storage.qualify(directory) if directory else metadata_directory(base_path)
    return FileSystemLock(storage, path, expire_minutes, is_default=True)


def _is_optimistic(config: HudiConfig, base_path: str) -> bool:
    mode = config.get(CONCURRENCY_MODE).upper()
    if mode not in (_SINGLE_WRITER, _OPTIMISTIC):
        raise _refused(base_path, CONCURRENCY_MODE, mode, f"{_SINGLE_WRITER} and {_OPTIMISTIC}")
    strategy, known = config.get(CONFLICT_STRATEGY), CONFLICT_STRATEGY.default
    if strategy != known:
        raise _refused(base_path, CONFLICT_STRATEGY, strategy, known.rpartition(".")[2])
    if mode == _OPTIMISTIC and config.lookup(INDEX_TYPE.name, "").upper() == "BUCKET":
        raise _refused(base_path, INDEX_TYPE, "BUCKET", "other indexes for concurrent writers")
    return mode == _OPTIMISTIC


def _lock(
    config: HudiConfig,
    storage: Storage,
    base_path: str,
    more_locks: Mapping[str, LockFactory],
    *,
    is_needed: bool,
) -> TableLock | None:
    provider = config.get(LOCK_PROVIDER)
    if not provider:
        if config.get(WRITE_LOCK) == "file":
            _refuse_other_locks(config, base_path)
            return default_lock(storage, base_path, config.get(LOCK_EXPIRE), config.get(LOCK_PATH))
        if is_needed:
            raise SettingsError(
                f"{CONCURRENCY_MODE} = {_OPTIMISTIC} needs a lock, and {WRITE_LOCK} = none turns it off for "
                f"the Hudi table at {base_path}",
                hint=f"remove {WRITE_LOCK}, or set {LOCK_PROVIDER}",
            )
        return None
    if provider == FILE_SYSTEM_PROVIDER:
        directory = config.get(LOCK_PATH) or metadata_directory(base_path)
        return FileSystemLock(storage, storage.qualify(directory), config.get(LOCK_EXPIRE))
    if provider == IN_PROCESS_PROVIDER:
        return InProcessLock(base_path)
    if provider in more_locks:
        return more_locks[provider]()
    known = ", ".join(name.rpartition(".")[2] for name in (FILE_SYSTEM_PROVIDER, *more_locks))
    raise _refused(base_path, LOCK_PROVIDER, provider, known)


def _refuse_other_locks(config: HudiConfig, base_path: str) -> None:
    """Raise UnsupportedTableError if settings without a provider belong to a lock other than a file."""
    for name in _SETTINGS_OF_OTHER_LOCKS:
        if config.lookup(name, ""):
            raise UnsupportedTableError(
                f"hudisql does not write to the Hudi table at {base_path} with {name} and without "
                f"{LOCK_PROVIDER}: other writers may use that lock, and hudisql would use a file",
                hint=f"set {LOCK_PROVIDER}, the same for all writers of the table, or remove {name}",
            )


def _refused(base_path: str, key: ConfigKey[Any], value: str, known: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"hudisql does not write to the Hudi table at {base_path} with {key} = {value}",
        hint=f"hudisql knows {known}; all writers of a table must agree",
    )
