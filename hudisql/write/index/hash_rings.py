"""The rings of a table with a consistent hashing index, by partition: read, and made for a new partition.

Follows `ConsistentBucketIndexUtils` of Hudi 0.15: a partition has a file for each of its rings, named by the
instant of the resizing that made it, or by a fixed instant if the first write did. That file is created once,
whole, and belongs to no commit: a rolled-back write leaves it, and all writers use it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hudisql.errors import NoSuchPathError, PathExistsError, UnsupportedTableError
from hudisql.format.keys.hash_ring import INITIAL_INSTANT, HashRing, initial_ring, ring_from_json
from hudisql.format.timeline.timeline_layout import hashing_metadata_directory
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.replaced_groups import replaced_file_groups
from hudisql.write.index.record_index import HashBuckets

_METADATA: Final = ".hashing_meta"
_COMMITTED: Final = ".commit"
_CACHED: Final = "hash rings"


class HashRings:
    """The rings of a table as of its timeline. Pickled into tasks."""

    def __init__(self, table: HudiTable, count: int) -> None:
        self._storage = table.storage
        self._base_path = table.base_path
        self._completed = frozenset(commit.timestamp for commit in table.timeline.commits)
        self._pending = frozenset(instant.timestamp for instant in table.timeline.pending)
        self._is_of_1x = table.timeline.layout.has_completion_times
        self._count = count
        self._stored: dict[str, HashRing] = {}

    def of(self, path: str) -> HashRing:
        """The ring of the partition at this path; if it has none, the one that its first write makes.

        Raises UnsupportedTableError if it is not known which ring counts, CorruptTableError, StorageError.
        """
        return self._load(path) or initial_ring(path, self._count)

    def create(self, path: str) -> HashRing:
        """`of`, for rows to write: a first ring is stored, unless another writer does so just now."""
        ring = self._load(path)
        if ring is not None:
            return ring
        ring = initial_ring(path, self._count)
        try:
            self._storage.create(self._file(path, INITIAL_INSTANT + _METADATA), ring.to_json())
        except PathExistsError:
            return self.of(path)
        return ring

    def _file(self, path: str, name: str) -> str:
        return join(hashing_metadata_directory(self._base_path), path, name)

    def _load(self, path: str) -> HashRing | None:
        if path not in self._stored:
            instant_time = self._newest(path)
            if instant_time is None:
                return None
            file = self._file(path, instant_time + _METADATA)
            self._stored[path] = ring_from_json(self._storage.read(file), file)
        return self._stored[path]

    def _newest(self, path: str) -> str | None:
        """The instant of the ring that counts; None without one."""
        try:
            names = self._storage.list_file_names(self._file(path, ""))
        except NoSuchPathError:
            return None
        instants = {name.removesuffix(_METADATA) for name in names if name.endswith(_METADATA)}
        marked = {name.removesuffix(_COMMITTED) for name in names if name.endswith(_COMMITTED)}
        known = {each for each in instants if each == INITIAL_INSTANT or each in marked | self._completed}
        newest = max(known, default=None)
        doubtful = [each for each in instants - known - self._pending if newest is None or each > newest]
        if doubtful and self._is_marked_beside_data(path, max(doubtful)):
            self._mark(path, max(doubtful))
            return max(doubtful)
        if doubtful:
            raise UnsupportedTableError(
                f"the resizing {max(doubtful)} of the buckets of partition '{path}' of {self._base_path} is "
                "neither completed nor pending: which ring of its consistent hashing index counts is unknown",
                hint="write to the partition with Apache Hudi, which settles it",
            )
        if newest is not None and newest != INITIAL_INSTANT and newest not in marked:
            self._mark(path, newest)
        return newest

    def _is_marked_beside_data(self, path: str, instant_time: str) -> bool:
        """True if Hudi has recorded that the resizing is completed: it does so where it does not look."""
        return self._storage.exists(join(self._base_path, path, instant_time + _COMMITTED))

    def _mark(self, path: str, instant_time: str) -> None:
        """Record, as Hudi does, that the resizing is completed: its instant is archived some day.

        Hudi 0.15 looks for it where 1.x puts it, and then finds no ring at all while the next resizing is
        pending.
        """
        name = instant_time + _COMMITTED
        beside_data = join(self._base_path, path, name)
        try:
            self._storage.create(self._file(path, name) if self._is_of_1x else beside_data, b"")
        except PathExistsError:
            return


def store_ring(table: HudiTable, ring: HashRing) -> None:
    """Store the ring of a resizing, which counts once its instant is completed. Raises StorageError."""
    directory = hashing_metadata_directory(table.base_path)
    table.storage.write(join(directory, ring.partition_path, ring.instant_time + _METADATA), ring.to_json())


def remove_rings(table: HudiTable, instant_time: str) -> None:
    """Delete the rings of a resizing that is going to be undone, if there are any. Raises StorageError."""
    if not has_rings(table):
        return
    files = table.storage.list_files(hashing_metadata_directory(table.base_path))
    names = (instant_time + _METADATA, instant_time + _COMMITTED)
    table.storage.delete_files([file.path for file in files if file.path.rpartition("/")[2] in names])


def hash_rings(table: HudiTable, buckets: HashBuckets) -> HashRings:
    """The rings of the table, cached with its listing."""
    return table.list_once(_CACHED, lambda: HashRings(table, buckets.count))


def has_rings(table: HudiTable) -> bool:
    """True if a partition has a ring; copy-on-write tables have none. Raises StorageError."""
    return table.is_merge_on_read and table.storage.exists(hashing_metadata_directory(table.base_path))


def check_rings_writable(table: HudiTable, groups: Collection[tuple[str, str]]) -> None:
    """Raise UnsupportedTableError for buckets whose file groups were replaced, as by DROP PARTITION.

    No reader would see new rows in them, and the ring has no other file group for their keys.
    """
    gone = sorted(replaced_file_groups(table).intersection(groups))
    if gone:
        path, file_id = gone[0]
        raise UnsupportedTableError(
            f"the file group {file_id} of partition '{path}' of {table.base_path} is a bucket of the "
            "consistent hashing index, and an overwrite or a dropped partition has replaced it: readers "
            "would not see new rows in it",
            hint="write the rows to another partition, or to a new table; DELETE keeps buckets usable",
        )
