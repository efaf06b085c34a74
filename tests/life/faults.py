"""A storage that dies at a chosen change, or lets another writer in: faults in one process."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import current_thread
from typing import Any

from hudisql.storage import Storage
from tests.fault_injection import CALLS


class ProcessKilled(BaseException):
    """Stands for SIGKILL: the storage refuses all that is done to clear up."""


@dataclass(frozen=True)
class DyingStorage(Storage):
    """A storage that changes nothing any more from the `step`-th change of its process on."""

    step: int = 0
    process: int = field(default_factory=os.getpid)
    changes: list[str] = field(default_factory=list, compare=False)

    def before_change(self, method: str) -> None:
        if os.getpid() != self.process:
            return
        if len(self.changes) >= self.step:
            raise ProcessKilled
        self.changes.append(method)


@dataclass(frozen=True)
class SharedStorage(Storage):
    """A storage that does `meanwhile`, once, before the `step`-th change of its process."""

    step: int = 0
    meanwhile: list[Callable[[], None]] = field(default_factory=list, compare=False)
    process: int = field(default_factory=os.getpid)
    changes: list[str] = field(default_factory=list, compare=False)

    def before_change(self, method: str) -> None:
        if os.getpid() != self.process:
            return
        self.changes.append(method)
        if len(self.changes) > self.step and self.meanwhile:
            self.meanwhile.pop()()

    def __reduce__(self) -> Any:
        # Tasks change the table on behalf of their driver; none of them stands for another writer.
        return Storage, (dict(self.hadoop_configuration),)


def _counted(method: str) -> Any:
    original = getattr(Storage, method)

    def call(self: Any, *arguments: Any) -> Any:
        try:
            self.before_change(method)
        except ProcessKilled:
            if not current_thread().name.startswith("heartbeat-"):
                raise
            # The thread of a process that is dead: pytest would report how it ends.
            return None
        return original(self, *arguments)

    return call


for _class in (DyingStorage, SharedStorage):
    for _method in CALLS:
        setattr(_class, _method, _counted(_method))
