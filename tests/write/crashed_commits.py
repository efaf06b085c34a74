"""Commits without Spark, each in a process of its own that may be killed before any of its steps.

Run as a program this forks for every line of JSON that it reads, so that a crash costs milliseconds; what
a commit does between its first and its last step is as in `hudisql.write.execution.commit_files`, on real
files.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from hudisql.errors import StorageError
from hudisql.format.paths.external_file import ExternalFile
from hudisql.ingest.offsets import find_offsets
from hudisql.ingest.split.rewrite_partition import SplitRequest, split_partition
from hudisql.ingest.split.table_splits import SPLITS_KEY, SeenCommits
from hudisql.services.rollback.restore import restore_to_savepoint
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.services.rollback.savepoint import create_savepoint
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.partitions.resynced_sources import ResyncedSource, read_resync_lists, record_resync
from hudisql.write.execution.commit_files import Begun, WriteResult, commit_files
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.overwrite import Overwrite
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency, FailedWrites
from hudisql.write.transaction.lock import FileSystemLock, LockRetryPolicy
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker
from tests.fault_injection import ROOT, FaultyStorage
from tests.oracle.line_process import LineProcess, start_line_process

PARTITION = "dt=2024-03-01"
AT_ONCE = LockRetryPolicy(retries=0)


def sharing(storage: Storage, base_path: str, *, is_shared: bool, expire_minutes: int = 0) -> Concurrency:
    """Alone, or as one of several writers: a lock file, heartbeats every minute of which two may fail."""
    if not is_shared:
        return SINGLE_WRITER
    lock = FileSystemLock(storage, f"{base_path}/.hoodie", expire_minutes)
    return Concurrency(True, FailedWrites.LAZY, lock, AT_ONCE)


def commit_a_file(
    storage: Storage,
    base_path: str,
    *,
    is_shared: bool = False,
    expire_minutes: int = 0,
    overwrites: bool = False,
    end: Literal["committed", "failed", "killed"] = "committed",
    begun: Begun | None = None,
) -> WriteResult:
    """One commit of one new file group; `end` says what comes once its files are there."""
    table = open_table(storage, base_path)
    rows = next(Path(base_path, PARTITION).glob("*.parquet")).read_bytes()

    def write(commit: OpenCommit) -> list[WrittenFile]:
        written = [_write_file(storage, commit, rows) for _ in range(2)]
        if end == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if end == "failed":
            raise StorageError("the task failed")
        # The other file is that of a task which was tried twice.
        return written[:1]

    return commit_files(
        table,
        "INSERT_OVERWRITE" if overwrites else "INSERT",
        table.schema,
        write,
        Overwrite("touched") if overwrites else None,
        concurrency=sharing(storage, base_path, is_shared=is_shared, expire_minutes=expire_minutes),
        begun=begun,
    )


def resync_files(storage: Storage, base_path: str, *, files: int, is_shared: bool = False) -> list[str]:
    """A resync of a source with so many files, which writes one base file; gives the paths that it took."""
    table = open_table(storage, base_path)
    lists = read_resync_lists(table)
    paths = [path for path in map(str, range(files)) if path not in lists.taken]
    sources = [ResyncedSource(PARTITION, ExternalFile(path, 1, 1)) for path in paths]

    def begun(commit: OpenCommit) -> dict[str, str]:
        return {"list": str(record_resync(commit.table, commit.instant_time, lists, sources))}

    if paths:
        commit_a_file(storage, base_path, is_shared=is_shared, begun=begun)
    return paths


def _write_file(storage: Storage, commit: OpenCommit, rows: bytes) -> WrittenFile:
    base_path, file_id = commit.table.base_path, f"{uuid.uuid4()}-0"
    name = f"{file_id}_0-0-0_{commit.instant_time}.parquet"
    create_marker(storage, base_path, commit.instant_time, Marker(PARTITION, name, MarkerKind.CREATE))
    path = f"{base_path}/{PARTITION}/{name}"
    storage.write(path, rows)
    counts: Any = dict.fromkeys(
        ("rows", "inserted", "updated", "deleted", "late_arriving", "moved", "changes"), 0
    )
    return WrittenFile(file_id, path, PARTITION, None, bytes=len(rows), milliseconds=1, **counts)


def start_committer(directory: Path) -> LineProcess:
    """Start the program: it takes the arguments of `_run_with_fault` and answers with the `code`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return start_line_process("committer", [sys.executable, "-m", __name__], directory, environment)


def crash(committer: LineProcess, base_path: str, step: int, **told: object) -> bool:
    """An action that is killed before its `step`-th change of the store; False if it had fewer."""
    code = committer.request({"base_path": base_path, "step": step, **told}, seconds=60)["code"]
    assert code in (0, 1, -signal.SIGKILL)
    return code == -signal.SIGKILL


def split_of_the_partition(
    storage: Storage, base_path: str, partition: str, bucket_bytes: int, *, is_shared: bool = False
) -> WriteResult:
    """An ingest worker splits a partition."""
    table = open_table(storage, base_path)
    request = SplitRequest(
        partition, bucket_bytes, find_offsets(table), {SPLITS_KEY: SeenCommits().to_text()}
    )
    options = WriteOptions(concurrency=sharing(storage, base_path, is_shared=is_shared))
    return split_partition(table, options, request)


ACTIONS: dict[str, Callable[..., object]] = {
    "commit": commit_a_file,
    "resync": resync_files,
    "split": split_of_the_partition,
    "savepoint": lambda storage, path: create_savepoint(open_table(storage, path)),
    "rollback": lambda storage, path, instant: roll_back_commit(open_table(storage, path), instant),
    "restore": lambda storage, path: restore_to_savepoint(open_table(storage, path)),
}


def _run_with_fault(base_path: str, step: int, action: str = "commit", **told: Any) -> int:
    """Run the action in a child, killed before its `step`-th change of the store; gives its exit code."""
    child = os.fork()
    if not child:
        try:
            ACTIONS[action](FaultyStorage(target=base_path, step=step), base_path, **told)
        except StorageError:
            os._exit(1)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps({"ok": True, "code": _run_with_fault(**json.loads(line))}), flush=True)
