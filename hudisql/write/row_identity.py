"""Which stored row a change means: rows of one record key are told apart by their commit sequence numbers.

Hudi numbers every row that a commit writes into a file (`HoodieRecord.generateSequenceId`, skeletons too) and
keeps the number where it rewrites the row unchanged. Changes without a number are by key: they mean all rows
of it, as in `HoodieMergeHandle`. Works on Arrow columns inside one task; knows no files.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format import meta_columns
from hudisql.write.changes import RECORD_KEY, SEQUENCE_NUMBER

_SEPARATOR = "\0"


def selects_rows(changes: pa.Table) -> bool:
    """True if each of the changes of stored rows means one row, False if all rows of its key."""
    return bool(changes.num_rows) and changes.column(SEQUENCE_NUMBER).null_count == 0


def change_identities(changes: pa.Table) -> pa.StringArray:
    """A text for each change of a stored row, equal for changes that mean the same row."""
    keys = changes.column(RECORD_KEY).combine_chunks()
    numbers = changes.column(SEQUENCE_NUMBER).combine_chunks()
    return _identities(keys, numbers)


def key_of_identity(identity: str) -> str:
    """The record key of the row."""
    return identity.rpartition(_SEPARATOR)[0]


class ChangedRows:
    """The stored rows that changes mean (one change a row or key), to be found in the batches of a slice.

    `met` counts for each change the rows that it has met so far.
    """

    def __init__(self, changes: pa.Table) -> None:
        keys = changes.column(RECORD_KEY).combine_chunks()
        self._identities = change_identities(changes) if selects_rows(changes) else None
        self._keys = keys if self._identities is None else pc.unique(keys)
        self.met = np.zeros(len(keys), dtype=np.int64)

    @property
    def are_single(self) -> bool:
        """True if each change means one row, False if all rows of its key."""
        return self._identities is not None

    def find(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """The positions of the batch's rows that change, ascending, and the number of each one's change."""
        keys = batch.column(meta_columns.RECORD_KEY)
        found = pc.index_in(keys, value_set=self._keys)
        at = np.asarray(pc.indices_nonzero(pc.is_valid(found)), dtype=np.int64)
        if self._identities is not None and len(at):
            rows = pa.array(at)
            numbers = batch.column(meta_columns.COMMIT_SEQNO).take(rows)
            found = pc.index_in(_identities(keys.take(rows), numbers), value_set=self._identities)
            at = at[np.asarray(pc.is_valid(found).to_numpy(zero_copy_only=False))]
        change = found.drop_null().to_numpy()
        self.met += np.bincount(change, minlength=len(self.met))
        return at, change


def _identities(keys: pa.StringArray, numbers: pa.StringArray) -> pa.StringArray:
    # A number has no such separator in it, so that the last one ends the key.
    return pc.binary_join_element_wise(keys, pc.fill_null(numbers, ""), _SEPARATOR)
