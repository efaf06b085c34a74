"""The index on disk, for partitions beyond memory: key hash -> file group numbers in RocksDB.

A database in a temporary directory, without a write-ahead log: it is rebuilt from the table, never recovered.
Keys are the 8 bytes of a hash, values the 2-byte numbers of its groups. Index and filter blocks stay outside
the block cache: with a small cache each look-up would read them again. RocksDB's Python API takes and gives
lists with an object for each key.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hudisql.errors import InvalidArgumentError
from hudisql.format.keys.key_hashes import Hashes
from hudisql.ingest.index.key_index import AMBIGUOUS, MOST_GROUPS, UNKNOWN, Groups, significant_bits

CACHE_BYTES: Final = 64 << 20
"""Block cache that all databases of a process share."""
_BUFFER_BYTES: Final = 4 << 20
_BLOOM_BITS: Final = 10
_ITEMS_AT_ONCE: Final = 1 << 16


class RocksDbIndex:
    """A `KeyIndex` in a new directory below `directory` (the system's temporary one by default)."""

    def __init__(self, directory: str | None = None, hash_bits: int = 64) -> None:
        if not 1 <= hash_bits <= 64:
            raise InvalidArgumentError(f"an index keeps 1 to 64 bits of a hash, not {hash_bits}")
        from rocksdict import Rdict

        self._hash_bits = hash_bits
        self._path = tempfile.mkdtemp(prefix="hudisql-index-", dir=directory)
        self._database: Any = Rdict(self._path, _options())
        self._write_options = _without_log()
        self._count = 0
        # Groups that are dropped, whose elements are left out; they are deleted when a number is used again.
        self._is_dropped = np.zeros(MOST_GROUPS, np.bool_)

    @property
    def hash_bits(self) -> int:
        """How many bits of a hash the index looks at."""
        return self._hash_bits

    @property
    def nbytes(self) -> int:
        """Bytes of its write buffers, index and filter blocks; the shared block cache is not in it."""
        names = ("rocksdb.cur-size-all-mem-tables", "rocksdb.estimate-table-readers-mem")
        return sum(self._database.property_int_value(name) or 0 for name in names)

    def __len__(self) -> int:
        """Its pairs of hash and file group, those of dropped groups included until they are deleted."""
        return self._count

    def look_up(self, hashes: Hashes) -> Groups:
        """For each hash its group's number, `UNKNOWN`, or `AMBIGUOUS` if several groups have it."""
        rows, groups = self.candidates(hashes)
        found = np.full(len(hashes), UNKNOWN, np.int32)
        found[rows] = groups
        found[np.bincount(rows, minlength=len(hashes)) > 1] = AMBIGUOUS
        return found

    def candidates(self, hashes: Hashes) -> tuple[npt.NDArray[np.int64], Groups]:
        """All groups of each hash: positions in `hashes` and groups, in order of both."""
        wanted, places = np.unique(significant_bits(hashes, self._hash_bits), return_inverse=True)
        rows, groups = _groups_in(self._values(wanted))
        is_kept = ~self._is_dropped[groups]
        rows, groups = rows[is_kept], groups[is_kept]
        # From distinct hashes to all of them: each has as many rows as its hash has groups.
        counts = np.bincount(rows, minlength=len(wanted))
        starts = np.cumsum(counts) - counts
        repeats = counts[places]
        positions = np.repeat(np.arange(len(hashes)), repeats)
        within = np.arange(len(positions)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        return positions, groups[np.repeat(starts[places], repeats) + within].astype(np.int32)

    def add(self, hashes: Hashes, groups: Groups) -> None:
        """Add a key for each hash; pairs that are known change nothing."""
        if not len(hashes):
            return
        if not 0 <= int(groups.min()) <= int(groups.max()) < MOST_GROUPS:
            raise InvalidArgumentError(f"file groups are numbered from 0 to {MOST_GROUPS - 1}")
        if self._is_dropped[groups].any():
            self._delete_dropped()
        wanted = significant_bits(hashes, self._hash_bits)
        distinct, places = np.unique(wanted, return_inverse=True)
        values = self._values(distinct)
        known_rows, known_groups = _groups_in(values)
        known = known_rows << 16 | known_groups
        pairs = np.sort(places.astype(np.int64) << 16 | groups)
        is_new = np.ones(len(pairs), np.bool_)
        is_new[1:] = pairs[1:] != pairs[:-1]
        if len(known):
            is_new &= ~np.isin(pairs, known)
        new = pairs[is_new]
        if not len(new):
            return
        self._count += len(new)
        if len(known):
            new = np.sort(np.concatenate([known[np.isin(known >> 16, new >> 16)], new]))
        self._write(distinct, new)

    def drop_groups(self, groups: Groups) -> None:
        """Forget all keys of the groups."""
        self._is_dropped[groups] = True

    def close(self) -> None:
        """Close the database and delete its directory."""
        self._database.close()
        shutil.rmtree(self._path, ignore_errors=True)

    def _values(self, hashes: Hashes) -> list[bytes | None]:
        found: list[bytes | None] = self._database.get(_keys(hashes)) if len(hashes) else []
        return found

    def _write(self, hashes: Hashes, pairs: npt.NDArray[np.int64]) -> None:
        """Put the groups of hashes: ascending pairs of a number in `hashes` and a group."""
        from rocksdict import WriteBatch

        starts = np.flatnonzero(np.diff(pairs >> 16, prepend=-1))
        rows = pairs[starts] >> 16
        content = (pairs & 0xFFFF).astype("<u2").tobytes()
        ends = [*(2 * starts[1:]).tolist(), len(content)]
        batch = WriteBatch(raw_mode=True)
        for key, start, end in zip(_keys(hashes[rows]), (2 * starts).tolist(), ends, strict=True):
            batch.put(key, content[start:end])
        self._database.write(batch, self._write_options)

    def _delete_dropped(self) -> None:
        """Delete the elements of dropped groups: goes over the whole database once."""
        from rocksdict import WriteBatch

        for keys, values in self._items():
            rows, groups = _groups_in(values)
            is_kept = ~self._is_dropped[groups]
            changed = np.unique(rows[~is_kept])
            if not len(changed):
                continue
            left = set(rows[is_kept].tolist())
            batch = WriteBatch(raw_mode=True)
            for row in changed.tolist():
                if row not in left:
                    batch.delete(keys[row])
            self._database.write(batch, self._write_options)
            is_kept &= np.isin(rows, changed)
            hashes = np.frombuffer(b"".join(keys), ">u8").astype(np.uint64)
            if is_kept.any():
                self._write(hashes, rows[is_kept] << 16 | groups[is_kept])
            self._count -= len(rows) - int((~self._is_dropped[groups]).sum())
        self._is_dropped[:] = False

    def _items(self) -> Iterator[tuple[list[bytes], list[bytes | None]]]:
        items: Iterator[Any] = iter(self._database.items())
        while some := list(islice(items, _ITEMS_AT_ONCE)):
            yield [key for key, _ in some], [value for _, value in some]


def _keys(hashes: Hashes) -> list[bytes]:
    """The hashes as RocksDB's keys: in the order of the numbers."""
    keys: list[bytes] = hashes.astype(">u8").view("V8").tolist()
    return keys


def _groups_in(values: list[bytes | None]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The number of the value and the group, for each group in the values."""
    texts = [value or b"" for value in values]
    counts = np.fromiter(map(len, texts), np.int64, len(texts)) >> 1
    groups = np.frombuffer(b"".join(texts), "<u2").astype(np.int64)
    return np.repeat(np.arange(len(texts)), counts), groups


@cache
def _block_cache() -> Any:
    from rocksdict import Cache

    return Cache(CACHE_BYTES)


def _options() -> Any:
    from rocksdict import BlockBasedOptions, DBCompressionType, Options

    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(_BLOOM_BITS, False)
    blocks.set_block_cache(_block_cache())
    blocks.set_cache_index_and_filter_blocks(False)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(_BUFFER_BYTES)
    return options


def _without_log() -> Any:
    from rocksdict import WriteOptions

    # rocksdict's type stub calls this property a method.
    options: Any = WriteOptions
    chosen = options()
    chosen.disable_wal = True
    return chosen
