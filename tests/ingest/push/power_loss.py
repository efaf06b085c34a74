"""A directory of which a power loss leaves only what was synced, and by chance parts of the rest.

`LossyFiles` works on a real directory and notes what is not durable yet. `after_power_loss` makes the
directory that a disk could hold then: each sector written since the file's last sync is there or not, a size
is the synced or the last one, and each creation, rename and deletion since the directory's last sync has
happened or not.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock

from hudisql.ingest.push.log_files import LogFiles

SECTOR = 512


@dataclass
class _Inode:
    """A file's content as the process sees it and as it was synced, and the sectors that differ."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    dirty: set[int] = field(default_factory=set)

    def write(self, data: bytes, offset: int) -> None:
        end = offset + len(data)
        if end > len(self.content):
            self.content.extend(bytes(end - len(self.content)))
        self.content[offset:end] = data
        self.dirty.update(range(offset // SECTOR, (end + SECTOR - 1) // SECTOR))

    def sync(self) -> None:
        self.synced = bytes(self.content)
        self.dirty.clear()

    def after_power_loss(self, chance: random.Random) -> bytes:
        size = chance.choice((len(self.synced), len(self.content)))
        left = bytearray(self.synced[:size].ljust(size, b"\0"))
        kept = chance.random()
        for sector in self.dirty:
            start = sector * SECTOR
            if start < size and chance.random() < kept:
                left[start : start + SECTOR] = self.content[start : min(start + SECTOR, size)]
        return bytes(left)


class LossyFiles(LogFiles):
    """Keeps each file's synced content apart, and calls `before` with the name of each operation."""

    def __init__(self, directory: Path, before: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(directory)
        self.before = before
        self.guard = RLock()
        self.descriptors: dict[int, _Inode] = {}
        self.entries: dict[str, _Inode] = {}
        for name in self.names():
            content = self.read(name)
            self.entries[name] = _Inode(bytearray(content), content)
        self.synced_entries = dict(self.entries)
        self.operations: list[tuple[str, str, _Inode | None]] = []

    def create(self, name: str, size: int) -> int:
        self.before("create")
        with self.guard:
            descriptor = super().create(name, size)
            inode = self.descriptors[descriptor] = self.entries[name] = _Inode()
            inode.content.extend(bytes(size))
            self.operations.append(("set", name, inode))
            return descriptor

    def open(self, name: str) -> int:
        with self.guard:
            descriptor = super().open(name)
            self.descriptors[descriptor] = self.entries[name]
            return descriptor

    def write(self, descriptor: int, parts: list[bytes], offset: int) -> None:
        self.before("write")
        with self.guard:
            super().write(descriptor, parts, offset)
            self.descriptors[descriptor].write(b"".join(parts), offset)
        self.before("written")

    def sync(self, descriptor: int) -> None:
        self.before("sync")
        with self.guard:
            self.descriptors[descriptor].sync()

    def sync_directory(self) -> None:
        self.before("sync_directory")
        with self.guard:
            self.synced_entries = dict(self.entries)
            self.operations.clear()

    def close_file(self, descriptor: int) -> None:
        with self.guard:
            super().close_file(descriptor)
            del self.descriptors[descriptor]

    def truncate(self, name: str, size: int) -> None:
        self.before("truncate")
        with self.guard:
            super().truncate(name, size)
            del self.entries[name].content[size:]

    def replace(self, name: str, new_name: str) -> None:
        self.before("replace")
        with self.guard:
            super().replace(name, new_name)
            inode = self.entries[new_name] = self.entries.pop(name)
            self.operations.append(("rename " + name, new_name, inode))

    def delete(self, name: str) -> None:
        self.before("delete")
        with self.guard:
            super().delete(name)
            if self.entries.pop(name, None) is not None:
                self.operations.append(("delete", name, None))

    def after_power_loss(self, target: Path, chance: random.Random) -> None:
        """Fill `target` with what a disk could hold if the power were lost now."""
        with self.guard:
            entries = dict(self.synced_entries)
            kept = chance.random()
            for kind, name, inode in self.operations:
                if chance.random() >= kept:
                    continue
                if inode is None:
                    entries.pop(name, None)
                    continue
                entries[name] = inode
                if kind.startswith("rename "):
                    entries.pop(kind.removeprefix("rename "), None)
            target.mkdir()
            for name, inode in entries.items():
                Path(target, name).write_bytes(inode.after_power_loss(chance))
