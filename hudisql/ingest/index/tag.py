"""Tagging: which file group holds each record key of one flush, by the partition's index.

Follows `HoodieIndex.tagLocation` of Hudi 0.15. The index knows hashes; where one could mean several keys or
several file groups, the stored keys themselves decide. Knows no rows, only keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import NoSuchStateError
from hudisql.format.keys.key_hashes import Hashes, repeated_hashes, xxhash64
from hudisql.ingest.index.key_index import AMBIGUOUS, UNKNOWN, Groups, significant_bits
from hudisql.ingest.index.partition_index import PartitionIndex
from hudisql.read.merge.merge_mode import log_merge_config_for
from hudisql.table.files.snapshot import file_slices_at
from hudisql.table.hudi_table import HudiTable
from hudisql.write.index.slice_key_lookup import SliceLookup, find_keys

FindKeys = Callable[[str, pa.StringArray], list[pa.Array]]
"""Which of distinct keys the file group with this id holds."""


@dataclass(frozen=True, slots=True)
class TaggedKeys:
    """For each key the id of the file group it belongs to, null if the partition does not have it.

    A key that was not looked up itself may be new, though its hash is known: then its row goes to the logs of
    that file group alone, where later look-ups find it. A merge of base files must look for the key and
    insert the row if it is not there.
    """

    file_ids: pa.DictionaryArray
    hashes: Hashes


def tag_keys(index: PartitionIndex, keys: pa.Array, find: FindKeys, *, compares: bool = False) -> TaggedKeys:
    """Tag distinct record keys; `find` looks keys up in a file group.

    With `compares` each key whose hash is known is looked up itself: deleted ones are then new. Raises
    InvalidArgumentError for null keys.
    """
    hashes = xxhash64(keys)
    groups = index.keys.look_up(hashes)
    known = groups != UNKNOWN
    unsure = known.copy() if compares else groups == AMBIGUOUS
    if known.any() and not compares:
        unsure |= known & _is_repeated(significant_bits(hashes, index.keys.hash_bits))
    rows = np.flatnonzero(unsure)
    if len(rows):
        groups[rows] = _settle(index, keys.take(pa.array(rows)), hashes[rows], find)
    return TaggedKeys(index.file_ids_of(groups), hashes)


def _is_repeated(hashes: Hashes) -> npt.NDArray[np.bool_]:
    repeated = repeated_hashes(np.sort(hashes))
    if not len(repeated):
        return np.zeros(len(hashes), np.bool_)
    return np.isin(hashes, repeated)


def _settle(index: PartitionIndex, keys: pa.Array, hashes: Hashes, find: FindKeys) -> Groups:
    """The group that holds each key itself, `UNKNOWN` where none of its candidates does."""
    texts = pc.cast(keys, pa.string())
    found = np.full(len(keys), UNKNOWN, np.int32)
    rows, groups = index.keys.candidates(hashes)
    for group in np.unique(groups).tolist():
        asked = rows[groups == group]
        asked = asked[found[asked] == UNKNOWN]
        if not len(asked):
            continue
        wanted = texts.take(pa.array(asked))
        held = find(index.file_ids[group], wanted)
        if held:
            is_held = pc.is_in(wanted, pa.chunked_array(held, pa.string()).combine_chunks())
            found[asked[is_held.to_numpy(zero_copy_only=False)]] = group
    return found


def find_in_partition(table: HudiTable, path: str) -> FindKeys:
    """Look keys up in the latest file slices of a partition, which are listed when the first key is doubtful.

    The result raises NoSuchStateError for a file group that the table no longer has: refresh the index first.
    """

    @cache
    def lookups() -> dict[str, SliceLookup]:
        slices = file_slices_at(table, [path])
        config = log_merge_config_for(table, slices)
        return {file_slice.file_id: SliceLookup(file_slice, log_merge_config=config) for file_slice in slices}

    def find(file_id: str, keys: pa.StringArray) -> list[pa.Array]:
        lookup = lookups().get(file_id)
        if lookup is None:
            raise NoSuchStateError(
                f"the ingest index of partition '{path}' names the file group {file_id}, which the "
                f"Hudi table at {table.base_path} does not have",
                hint="another writer replaced it: refresh the index and tag again",
            )
        found = find_keys(table.storage, lookup, keys, prunes_by_footer=True)
        return [batch.column(0) for batch in found]

    return find
