"""The checkpoint of a bootstrap: the finished skeletons, so that an interrupted run can be resumed.

It is in `.hoodie/.temp`, which readers ignore: the request, and small files of JSON lines that tasks create
atomically while they run, so that no store needs to append. A line has a finished skeleton and the
fingerprint (length, modification time, footer hash) of its source file. Knows neither Spark nor plans.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from hudisql.bootstrap.files.key_ranges import KeyRange
from hudisql.bootstrap.files.skeleton import SkeletonResult
from hudisql.errors import StorageError
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import Storage, join

CHECKPOINT_DIRECTORY: Final = f"{METADATA_DIRECTORY}/.temp/hudisql-bootstrap"
REQUEST_FILE: Final = f"{CHECKPOINT_DIRECTORY}/request.json"
VERSION: Final = 1
_FILE_SUFFIX: Final = ".jsonl"
# A kill costs a task at most this much work; 250,000 source files make a few thousand checkpoint files.
_SKELETONS_PER_FILE: Final = 500
_SECONDS_PER_FILE: Final = 10.0
_FILES_READ_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class FinishedSkeleton:
    """A written skeleton, its source file, and the task number in its sequence numbers."""

    source: ExternalFile
    footer_hash: str
    partition_path: str
    number: int
    result: SkeletonResult

    def stands_for(self, source: ExternalFile, footer_hash: str, partition_path: str) -> bool:
        """True if the source file is unchanged since the skeleton was written."""
        return (self.source, self.footer_hash, self.partition_path) == (source, footer_hash, partition_path)


def write_checkpoint_request(storage: Storage, base_path: str, request: Mapping[str, object]) -> None:
    """Create the checkpoint: `request` has everything that determines the skeletons, as JSON types."""
    content = json.dumps({"version": VERSION, "request": request}, indent=1).encode()
    storage.create(join(base_path, REQUEST_FILE), content)


def read_checkpoint_request(storage: Storage, base_path: str) -> dict[str, object] | None:
    """The request of the run that created the checkpoint; None if there is none.

    Raises StorageError for a checkpoint that this version cannot read.
    """
    path = join(base_path, REQUEST_FILE)
    if not storage.exists(path):
        return None
    try:
        content: Any = json.loads(storage.read(path))
        version, request = content["version"], content["request"]
    except (ValueError, TypeError, KeyError) as error:
        raise StorageError(f"cannot read the checkpoint {path}") from error
    if version != VERSION or not isinstance(request, dict):
        raise StorageError(
            f"the checkpoint {path} has version {version}; this hudisql reads version {VERSION}"
        )
    return request


def read_checkpoint(storage: Storage, base_path: str) -> Iterator[FinishedSkeleton]:
    """The finished skeletons; a source file may occur several times (tasks are retried)."""
    files = storage.list_files(join(base_path, CHECKPOINT_DIRECTORY))
    paths = [file.path for file in files if file.name.endswith(_FILE_SUFFIX)]
    for start in range(0, len(paths), _FILES_READ_AT_ONCE):
        for content in storage.read_files(paths[start : start + _FILES_READ_AT_ONCE]):
            for line in content.splitlines():
                yield _from_json(json.loads(line))


def delete_checkpoint(storage: Storage, base_path: str) -> None:
    """Remove the checkpoint; no error if there is none."""
    storage.delete_directory(join(base_path, CHECKPOINT_DIRECTORY))


def checkpointed(
    storage: Storage,
    base_path: str,
    finished: Iterable[FinishedSkeleton],
    fence_late_attempt: Callable[[Sequence[str]], None],
) -> Iterator[SkeletonResult]:
    """Pass the results on and save them in checkpoint files; on failure finished ones are saved, too.

    `fence_late_attempt` is called with the skeletons of each checkpoint file before it is written: for a task
    that outlived its run it deletes them and raises StorageError.
    """
    unsaved: list[FinishedSkeleton] = []
    begun = time.monotonic()
    try:
        for finished_skeleton in finished:
            unsaved.append(finished_skeleton)
            yield finished_skeleton.result
            if len(unsaved) >= _SKELETONS_PER_FILE or time.monotonic() - begun >= _SECONDS_PER_FILE:
                due, unsaved, begun = unsaved, [], time.monotonic()
                _write_checkpoint_file(storage, base_path, due, fence_late_attempt)
    except BaseException:
        if unsaved:
            # The first failure is raised; a second one here (a full disk) adds no information.
            with suppress(StorageError):
                _write_checkpoint_file(storage, base_path, unsaved, fence_late_attempt)
        raise
    if unsaved:
        _write_checkpoint_file(storage, base_path, unsaved, fence_late_attempt)


def _write_checkpoint_file(
    storage: Storage,
    base_path: str,
    finished: list[FinishedSkeleton],
    fence_late_attempt: Callable[[Sequence[str]], None],
) -> None:
    fence_late_attempt([finished_skeleton.result.path for finished_skeleton in finished])
    content = "".join(json.dumps(_to_json(finished_skeleton)) + "\n" for finished_skeleton in finished)
    path = join(base_path, CHECKPOINT_DIRECTORY, uuid.uuid4().hex + _FILE_SUFFIX)
    storage.create(path, content.encode())


def _to_json(finished: FinishedSkeleton) -> dict[str, object]:
    return {
        "source": [finished.source.path, finished.source.length, finished.source.modification_time_ms],
        "footer": finished.footer_hash,
        "partition": finished.partition_path,
        "number": finished.number,
        "skeleton": asdict(finished.result),
    }


def _from_json(line: dict[str, Any]) -> FinishedSkeleton:
    skeleton = dict(line["skeleton"])
    skeleton["null_key_samples"] = tuple(skeleton["null_key_samples"])
    if skeleton["key_range"] is not None:
        skeleton["key_range"] = KeyRange(**skeleton["key_range"])
    return FinishedSkeleton(
        ExternalFile(*line["source"]),
        line["footer"],
        line["partition"],
        line["number"],
        SkeletonResult(**skeleton),
    )
