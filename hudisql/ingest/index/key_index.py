"""What an index of one partition's record keys can do, whatever keeps it.

An index never forgets single keys: two keys may share a hash, and a forgotten one that is in the table would
be inserted again. It may know keys that the table no longer has; a row of such a key goes to the file group
where the key was.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from hudisql.format.keys.key_hashes import Hashes

MOST_GROUPS: Final = 1 << 16
"""File groups that an index can number."""
UNKNOWN: Final = -1
AMBIGUOUS: Final = -2
GROUP_BITS: Final = 16

Groups = npt.NDArray[np.int32]
"""Numbers of file groups, from 0 to `MOST_GROUPS` - 1."""


class KeyIndex(Protocol):
    """Key hashes and the numbers of the file groups that hold their keys.

    Equal in the highest `hash_bits` means equal for the index. Not for several threads at once.
    """

    @property
    def hash_bits(self) -> int:
        """How many bits of a hash the index looks at."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory."""

    def __len__(self) -> int:
        """Its pairs of hash and file group."""

    def look_up(self, hashes: Hashes) -> Groups:
        """For each hash its group's number, `UNKNOWN`, or `AMBIGUOUS` if several groups have it."""

    def candidates(self, hashes: Hashes) -> tuple[npt.NDArray[np.int64], Groups]:
        """All groups of each hash: positions in `hashes` and groups, in order of both."""

    def add(self, hashes: Hashes, groups: Groups) -> None:
        """Add a key for each hash; pairs that are known change nothing."""

    def drop_groups(self, groups: Groups) -> None:
        """Forget all keys of the groups."""

    def close(self) -> None:
        """Free what it holds; it can't be used any more."""


def significant_bits(hashes: Hashes, hash_bits: int) -> Hashes:
    """The hashes with only their highest bits."""
    if hash_bits >= 64:
        return hashes
    return hashes & np.uint64(((1 << hash_bits) - 1) << (64 - hash_bits))
