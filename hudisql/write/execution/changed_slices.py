"""The check that the file slices of changed rows exist."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hudisql.errors import CorruptTableError, WriteConflictError
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable


def check_slices_found(
    table: HudiTable, slices: Sequence[FileSlice], changed: Collection[tuple[str | None, str]]
) -> None:
    """Raise unless each changed file group (partition path, file id) has a slice.

    The partition path is that in the changed rows. Raises CorruptTableError if it is not the directory of
    their file, WriteConflictError if the file group is gone.
    """
    missing = set(changed) - {file_slice.file_group for file_slice in slices}
    if not missing:
        return
    # A damaged file may have NULL.
    path, file_id = min(missing, key=str)
    elsewhere = [file_slice for file_slice in load_file_slices(table) if file_slice.file_id == file_id]
    if elsewhere:
        found = elsewhere[0]
        file = found.base_file.path if found.base_file is not None else found.log_files[0].path
        claimed = "NULL" if path is None else f"the partition '{path}'"
        raise CorruptTableError(
            f"rows of {file} lie in the partition '{found.partition_path}', but have {claimed} in "
            "_hoodie_partition_path; nothing was written",
            hint="rewrite the partition with INSERT OVERWRITE from a query of its rows",
        )
    raise WriteConflictError(
        f"the file group {file_id} of the partition '{path}' of {table.base_path} is gone: another writer "
        "has replaced or removed it while the statement ran; nothing was written",
        hint="run the statement again: it then uses the table as of that writer's commit",
    )
