"""Inserts that are merged with the rows of the file slice that takes them.

Follows `hoodie.merge.allow.duplicate.on.inserts = false` of Hudi 1.2: new rows in a small file go through
`HoodieMergeHandle`, and not through `HoodieConcatHandle`. Works on Arrow tables inside one task.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.read.merge.merged_log_scanner import marked_deletes
from hudisql.read.merge.precombine import newest_rows
from hudisql.storage import Storage
from hudisql.write.changes import CHANGE_COLUMNS, OPERATION, RECORD_KEY, RowOperation
from hudisql.write.handle.merge_handle import MergeTask
from hudisql.write.index.slice_key_lookup import SliceLookup, find_keys
from hudisql.write.keygen.new_row_keys import NewRowKeys


def merged_inserts(storage: Storage, task: MergeTask, inserts: pa.Table) -> pa.Table:
    """The inserts (columns of `change_schema`) as changes of the slice, one for each record key.

    Of several new rows with one key the newest stays, by the ordering fields, else the last one. Rows whose
    key is in the slice are upserts, or deletes if they are marked so; marked rows of new keys are left out.
    Raises WriteRefusedError for rows without a record key, SourceChangedError, CorruptTableError,
    StorageError.
    """
    naming, file_slice = task.file_naming, task.file_slice
    row_keys = NewRowKeys(
        task.record_key_fields, task.complex_keys, naming.instant_time, naming.task_partition_id
    )
    rows = inserts.drop_columns(list(CHANGE_COLUMNS)).combine_chunks()
    keyed = rows.append_column(RECORD_KEY, row_keys.of(rows, naming.partition_path))
    newest = newest_rows(keyed, (RECORD_KEY,), task.ordering_fields, task.merge_mode, last_of_equals=True)
    keys = newest.column(RECORD_KEY).combine_chunks()
    lookup = SliceLookup(file_slice, log_merge_config=task.log_merge_config)
    found = find_keys(storage, lookup, keys, prunes_by_footer=True)
    stored = pa.chunked_array([batch.column(0) for batch in found], pa.string())
    is_stored = pc.is_in(keys, value_set=stored)
    is_deleted = pa.array(marked_deletes(newest, task.merge_mode))
    operations = pc.if_else(is_deleted, int(RowOperation.DELETE), int(RowOperation.UPSERT))
    columns = {
        OPERATION: pc.if_else(is_stored, operations, int(RowOperation.INSERT)).cast(pa.int8()),
        RECORD_KEY: keys,
        **{name: newest.column(name) for name in rows.column_names},
    }
    nothing = pa.nulls(newest.num_rows, pa.string())
    changes = pa.table([columns.get(name, nothing) for name in inserts.column_names], schema=inserts.schema)
    return changes.filter(pc.or_(is_stored, pc.invert(is_deleted)))
