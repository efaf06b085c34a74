"""Taking back data files whose commit does not stand: a commit that failed, or a task that was tried twice.

Base files of no commit are seen by nobody and go. A log file's name does not say which commit it is of, so
readers and the real Hudi's plans for compactions name it as soon as it is there, and fail for good if it then
goes: it stays, empty. Hudi leaves it whole and adds a rollback block instead, which is dear to every reader.
"""

from __future__ import annotations

from collections.abc import Collection

from hudisql.format.file_names import is_log_file
from hudisql.storage import Storage


def take_back_files(storage: Storage, paths: Collection[str]) -> None:
    """Delete the base files and empty the log files among these data files, as far as they are there.

    Raises StorageError.
    """
    storage.delete_files([path for path in paths if not is_log_file(path)])
    found = storage.infos([path for path in paths if is_log_file(path)])
    storage.write_files([each.path for each in found if each is not None], b"")
