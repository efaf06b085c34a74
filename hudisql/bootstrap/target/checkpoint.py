"""The journal of a bootstrap: which skeletons are finished, so that a killed run can be taken up again.

It lies in `.hoodie/.temp`, where no reader looks: what was asked for, and small files of JSON lines that
tasks add while they work, each created whole in one step, so that no store needs to append. A line tells a
finished skeleton and the fingerprint (length, modification time, footer hash) of the file it stands for.
Knows neither Spark nor what a plan is.
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
from hudisql.format.bootstrap_index import ExternalFile
from hudisql.format.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import Storage, join

JOURNAL_DIRECTORY: Final = f"{METADATA_DIRECTORY}/.temp/hudisql-bootstrap"
REQUEST_FILE: Final = f"{JOURNAL_DIRECTORY}/request.json"
VERSION: Final = 1
_PIECE_SUFFIX: Final = ".jsonl"
# A kill costs a task at most this much of its work; at 250,000 files the pieces stay a few thousand.
_FILES_A_PIECE: Final = 500
_SECONDS_A_PIECE: Final = 10.0
_PIECES_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class FinishedSkeleton:
    """A skeleton that is written, the file it stands for, and the number its sequence numbers carry."""

    source: ExternalFile
    footer_hash: str
    partition_path: str
    number: int
    result: SkeletonResult

    def stands_for(self, source: ExternalFile, footer_hash: str, partition_path: str) -> bool:
        """True if the source file is still what it was when the skeleton was written."""
        return (self.source, self.footer_hash, self.partition_path) == (source, footer_hash, partition_path)


def write_checkpoint_request(storage: Storage, base_path: str, request: Mapping[str, object]) -> None:
    """Begin a journal: `request` is what decides how skeletons look, in JSON's types."""
    content = json.dumps({"version": VERSION, "request": request}, indent=1).encode()
    storage.create(join(base_path, REQUEST_FILE), content)


def read_checkpoint_request(storage: Storage, base_path: str) -> dict[str, object] | None:
    """What the run that began the journal was asked for; None if there is no journal.

    Raises StorageError for a journal that this version cannot read.
    """
    path = join(base_path, REQUEST_FILE)
    if not storage.exists(path):
        return None
    try:
        told: Any = json.loads(storage.read(path))
        version, request = told["version"], told["request"]
    except (ValueError, TypeError, KeyError) as error:
        raise StorageError(f"the journal {path} cannot be read") from error
    if version != VERSION or not isinstance(request, dict):
        raise StorageError(f"the journal {path} is of version {version}, this hudisql knows {VERSION}")
    return request


def read_checkpoint(storage: Storage, base_path: str) -> Iterator[FinishedSkeleton]:
    """The finished skeletons; one source file may come several times (tasks are tried again)."""
    files = storage.list_files(join(base_path, JOURNAL_DIRECTORY))
    pieces = [file.path for file in files if file.name.endswith(_PIECE_SUFFIX)]
    for start in range(0, len(pieces), _PIECES_AT_ONCE):
        for content in storage.read_files(pieces[start : start + _PIECES_AT_ONCE]):
            for line in content.splitlines():
                yield _parsed(json.loads(line))


def delete_checkpoint(storage: Storage, base_path: str) -> None:
    """Remove the journal; no error if there is none."""
    storage.delete_directory(join(base_path, JOURNAL_DIRECTORY))


def checkpointed(
    storage: Storage,
    base_path: str,
    finished: Iterable[FinishedSkeleton],
    fence_late_attempt: Callable[[Sequence[str]], None],
) -> Iterator[SkeletonResult]:
    """Pass the results on and write them down in pieces; what was finished is written down on failure, too.

    `fence_late_attempt` is called with the skeletons of a piece that is due: of a task that outlives its run
    it takes them back and raises StorageError, as nobody will name them.
    """
    waiting: list[FinishedSkeleton] = []
    begun = time.monotonic()
    try:
        for each in finished:
            waiting.append(each)
            yield each.result
            if len(waiting) >= _FILES_A_PIECE or time.monotonic() - begun >= _SECONDS_A_PIECE:
                due, waiting, begun = waiting, [], time.monotonic()
                _write_piece(storage, base_path, due, fence_late_attempt)
    except BaseException:
        if waiting:
            # What failed is told; that the journal could not be written either (a full disk) is not news.
            with suppress(StorageError):
                _write_piece(storage, base_path, waiting, fence_late_attempt)
        raise
    if waiting:
        _write_piece(storage, base_path, waiting, fence_late_attempt)


def _write_piece(
    storage: Storage,
    base_path: str,
    finished: list[FinishedSkeleton],
    fence_late_attempt: Callable[[Sequence[str]], None],
) -> None:
    fence_late_attempt([each.result.path for each in finished])
    content = "".join(json.dumps(_told(each)) + "\n" for each in finished)
    path = join(base_path, JOURNAL_DIRECTORY, uuid.uuid4().hex + _PIECE_SUFFIX)
    storage.create(path, content.encode())


def _told(finished: FinishedSkeleton) -> dict[str, object]:
    return {
        "source": [finished.source.path, finished.source.length, finished.source.modification_time_ms],
        "footer": finished.footer_hash,
        "partition": finished.partition_path,
        "number": finished.number,
        "skeleton": asdict(finished.result),
    }


def _parsed(told: dict[str, Any]) -> FinishedSkeleton:
    skeleton = dict(told["skeleton"])
    skeleton["null_key_samples"] = tuple(skeleton["null_key_samples"])
    if skeleton["key_range"] is not None:
        skeleton["key_range"] = KeyRange(**skeleton["key_range"])
    return FinishedSkeleton(
        ExternalFile(*told["source"]),
        told["footer"],
        told["partition"],
        told["number"],
        SkeletonResult(**skeleton),
    )
