"""The stored row that a change is for: rows of one record key differ in their commit sequence numbers.

Hudi numbers every row that a commit writes into a file (`HoodieRecord.generateSequenceId`, skeletons too) and
keeps the number if it rewrites the row unchanged. Changes without a number apply to all rows of the key, as
in `HoodieMergeHandle`. Works on Arrow columns inside one task; knows no files.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.schema import meta_columns
from hudisql.write.changes import RECORD_KEY, SEQUENCE_NUMBER

_SEPARATOR = "\0"


def selects_rows(changes: pa.Table) -> bool:
    """True if each of the changes is for one stored row, False if for all rows of its key."""
    return bool(changes.num_rows) and changes.column(SEQUENCE_NUMBER).null_count == 0


def change_identities(changes: pa.Table) -> pa.StringArray:
    """A text for each change of a stored row, equal for changes of the same row."""
    keys = changes.column(RECORD_KEY).combine_chunks()
    numbers = changes.column(SEQUENCE_NUMBER).combine_chunks()
    return _identities(keys, numbers)


def key_of_identity(identity: str) -> str:
    """The record key of the row."""
    return identity.rpartition(_SEPARATOR)[0]


class ChangedRows:
    """Finds the stored rows of changes (one change for each row or key) in the batches of a slice.

    `matched` counts for each change the rows found so far.
    """

    def __init__(self, changes: pa.Table) -> None:
        self._keys = changes.column(RECORD_KEY).combine_chunks()
        self._numbers = changes.column(SEQUENCE_NUMBER).combine_chunks() if selects_rows(changes) else None
        self._identities: pa.StringArray | None = None
        if self._numbers is not None and len(pc.unique(self._numbers)) < len(self._numbers):
            # Numbers alone identify rows unless a file has rows of several writers.
            self._identities = change_identities(changes)
        self.matched = np.zeros(len(self._keys), dtype=np.int64)

    @property
    def are_single(self) -> bool:
        """True if each change is for one row, False if for all rows of its key."""
        return self._numbers is not None

    def find(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """The positions of the batch's changed rows, ascending, and the number of each row's change."""
        keys = batch.column(meta_columns.RECORD_KEY)
        if self._numbers is None:
            at, change = _places(keys, self._keys)
        elif self._identities is not None:
            rows = _identities(keys, batch.column(meta_columns.COMMIT_SEQNO))
            at, change = _places(rows, self._identities)
        else:
            numbers = pc.fill_null(batch.column(meta_columns.COMMIT_SEQNO), "")
            at, change = _places(numbers, self._numbers)
            same_key = pc.equal(keys.take(pa.array(at)), self._keys.take(pa.array(change)))
            is_same = np.asarray(same_key.to_numpy(zero_copy_only=False), dtype=bool)
            at, change = at[is_same], change[is_same]
        self.matched += np.bincount(change, minlength=len(self.matched))
        return at, change


def _places(
    values: pa.StringArray, wanted: pa.StringArray
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The positions of values that are in `wanted` (distinct), and their indices in it."""
    found = pc.index_in(values, value_set=wanted)
    return np.asarray(pc.indices_nonzero(pc.is_valid(found)), dtype=np.int64), found.drop_null().to_numpy()


def _identities(keys: pa.StringArray, numbers: pa.StringArray) -> pa.StringArray:
    # A number does not contain the separator, so the last separator ends the key.
    return pc.binary_join_element_wise(keys, pc.fill_null(numbers, ""), _SEPARATOR)
