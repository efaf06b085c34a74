"""Archived instants: the log files below `.hoodie/archived` with the contents of the timeline's files.

Follows `HoodieArchivedTimeline`, `MetadataConversionUtils` and `HoodieArchivedMetaEntry` of Hudi 0.15: files
`.commits_.archive.<n>_1-0-1` of Avro data blocks, an entry for each state of each instant. Values and bytes;
`services/archive` decides which instants are archived.
"""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

import fastavro

from hudisql.errors import CorruptTableError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.log_file.log_block import (
    BlockType,
    CorruptBlock,
    HeaderKey,
    LogBlock,
    encode_log_block,
    parse_log_blocks,
)
from hudisql.format.log_file.log_block_content import DATA_BLOCK_VERSION
from hudisql.format.timeline.commit_metadata import (
    CommitMetadata,
    parse_commit_document,
    parse_commit_metadata,
)
from hudisql.format.timeline.instant import (
    CLEAN,
    COMMIT_ACTIONS,
    COMPACTION,
    LOG_COMPACTION,
    REPLACE_COMMIT,
    ROLLBACK,
    Instant,
    InstantState,
)

_NAMES: Final = frozenset({"commitTime", "actionType", "actionState", "stateTransitionTime"})
_COMMIT_PAYLOADS: Final = frozenset(
    {"hoodieCommitMetadata", "hoodieReplaceCommitMetadata", "HoodieInflightReplaceMetadata"}
)
_ENTRIES_A_BLOCK: Final = 10
_FILE_NAME: Final = re.compile(r"\.commits_\.archive\.(\d+)(?:_.*)?", re.ASCII)
_PREFIX: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">i")
_ROLLING_STAT: Final = "ROLLING_STAT"
_STAT_FIELDS: Final = (
    "fileId",
    "path",
    "prevCommit",
    "numWrites",
    "numDeletes",
    "numUpdateWrites",
    "totalWriteBytes",
    "totalWriteErrors",
    "partitionPath",
    "totalLogRecords",
    "totalUpdatedRecordsCompacted",
    "numInserts",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
    "fileSizeInBytes",
)


@dataclass(frozen=True, slots=True)
class ArchivedEntry:
    """One state of an archived instant: the fields of its Avro record, and when the state was reached.

    `transition_time` is in the timeline's time zone, None in archives of old writers.
    """

    instant: Instant
    record: Mapping[str, Any]
    transition_time: str | None

    @property
    def commit_metadata(self) -> CommitMetadata | None:
        """The metadata of a completed commit, deltacommit or replacecommit, as far as archives keep it."""
        is_replacement = self.instant.action == REPLACE_COMMIT
        found = self.record.get("hoodieReplaceCommitMetadata" if is_replacement else "hoodieCommitMetadata")
        if not self.instant.is_completed or found is None:
            return None
        return parse_commit_metadata(json.dumps(found).encode())


def archive_file_number(name: str) -> int | None:
    """The number of an archive file; later files have greater ones. None for another file."""
    matched = _FILE_NAME.fullmatch(name)
    return int(matched[1]) if matched else None


def archive_file_name(number: int) -> str:
    """The name of an archive file."""
    return f".commits_.archive.{number}_1-0-1"


def encode_archive_file(entries: Sequence[ArchivedEntry]) -> bytes:
    """The content of an archive file."""
    codec = load_codec("HoodieArchivedMetaEntry")
    blocks = []
    for start in range(0, len(entries), _ENTRIES_A_BLOCK):
        some = entries[start : start + _ENTRIES_A_BLOCK]
        parts = [_PREFIX.pack(DATA_BLOCK_VERSION, len(some))]
        for entry in some:
            body = codec.encode_body(dict(entry.record))
            parts += [_LENGTH.pack(len(body)), body]
        header: dict[int, str] = {HeaderKey.SCHEMA: codec.schema_text}
        blocks.append(encode_log_block(LogBlock(BlockType.AVRO_DATA, header, b"".join(parts))))
    return b"".join(blocks)


def parse_archive_file(
    content: bytes, path: str, payload: str | None = None, containing: bytes = b""
) -> Iterator[ArchivedEntry]:
    """The entries of an archive file in their order; torn blocks, which a crash leaves, are skipped.

    With `payload` only entries that have this field, such as `hoodieCleanMetadata`, and with `containing`
    only entries whose Avro bytes contain it are decoded. Raises CorruptTableError, UnsupportedTableError.
    """
    for block in _data_blocks(content, path):
        for record in _records(block, path, payload, containing):
            if payload is None or record.get(payload) is not None:
                yield _entry(record, path)


def parse_archived_instants(content: bytes, path: str) -> Iterator[Instant]:
    """The instants of an archive file's entries, whose payloads are skipped.

    Raises CorruptTableError, UnsupportedTableError.
    """
    for block in _data_blocks(content, path):
        for record in _records(block, path, names_alone=True):
            yield _entry(record, path).instant


def _data_blocks(content: bytes, path: str) -> Iterator[LogBlock]:
    for block in parse_log_blocks(content, path):
        if not isinstance(block, CorruptBlock) and block.block_type is BlockType.AVRO_DATA:
            yield block


def _records(
    block: LogBlock,
    path: str,
    payload: str | None = None,
    containing: bytes = b"",
    *,
    names_alone: bool = False,
) -> Iterator[dict[str, Any]]:
    schema_text = block.header.get(HeaderKey.SCHEMA, "null")
    schema = _parsed(schema_text)
    wanted = _parsed_names(schema_text) if names_alone else None
    nulls = b"" if payload is None else _nulls_before(schema, payload)
    content = bytes(block.content)
    try:
        version, count = _PREFIX.unpack_from(content, 0)
        if version != DATA_BLOCK_VERSION:
            raise CorruptTableError(f"{path} has a data block of the unknown version {version}")
        position = _PREFIX.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(content, position)
            position += _LENGTH.size
            # An entry has one payload. The unions before it are null, one byte each.
            if (
                content.startswith(nulls, position)
                and content.find(containing, position, position + length) >= 0
            ):
                body = io.BytesIO(content[position : position + length])
                yield cast("dict[str, Any]", fastavro.schemaless_reader(body, schema, wanted))
            position += length
    except (struct.error, EOFError, ValueError, IndexError, KeyError, TypeError) as error:
        raise CorruptTableError(f"cannot decode {path}: {error}") from error


def _nulls_before(schema: Any, payload: str) -> bytes:
    """The first bytes of a record with this field as first payload; empty if the schema leaves them open."""
    fields = schema["fields"]
    names = [field["name"] for field in fields]
    before = fields[: names.index(payload)] if payload in names else []
    are_payloads = all(isinstance(field["type"], list) and field["type"][0] == "null" for field in before)
    return bytes(len(before)) if are_payloads else b""


@cache
def _parsed(schema_text: str) -> Any:
    return fastavro.parse_schema(json.loads(schema_text))


@cache
def _parsed_names(schema_text: str) -> Any:
    """The schema without payloads."""
    schema = json.loads(schema_text)
    return fastavro.parse_schema(
        {**schema, "fields": [field for field in schema["fields"] if field["name"] in _NAMES]}
    )


def _entry(record: dict[str, Any], path: str) -> ArchivedEntry:
    try:
        instant = Instant(record["commitTime"], record["actionType"], InstantState[record["actionState"]])
    except KeyError as error:
        raise CorruptTableError(f"{path} has an entry without a known state: {error}") from error
    return ArchivedEntry(instant, record, record.get("stateTransitionTime"))


def archived_entry(instant: Instant, content: bytes, transition_time: str | None, path: str) -> ArchivedEntry:
    """The entry for one state of an instant.

    `content` is that of the state's file, `path` stands in errors. Raises CorruptTableError.
    """
    field, payload = _payload(instant, content, path)
    record = {
        "commitTime": instant.timestamp,
        "actionType": instant.action,
        "actionState": instant.state.name,
        "version": None,
        "stateTransitionTime": transition_time,
    }
    if field is not None and payload is not None:
        record[field] = payload
    return ArchivedEntry(instant, record, transition_time)


def archived_content(entry: ArchivedEntry) -> bytes:
    """The content of the file of the entry's instant and state, as far as archives keep it."""
    for name, payload in entry.record.items():
        if name in _NAMES or name == "version" or payload is None:
            continue
        if name in _COMMIT_PAYLOADS:
            return json.dumps(payload).encode()
        return load_codec(name[0].upper() + name[1:]).encode(payload)
    return b""


def _payload(instant: Instant, content: bytes, path: str) -> tuple[str | None, Any]:
    """The field of the entry with the content of the instant's file, and its record; None without one."""
    action, state = instant.action, instant.state
    if action == REPLACE_COMMIT and state is InstantState.REQUESTED:
        return "hoodieRequestedReplaceMetadata", _decoded("HoodieRequestedReplaceMetadata", content, path)
    if action == REPLACE_COMMIT and state is InstantState.INFLIGHT:
        return "HoodieInflightReplaceMetadata", _commit_record(content, path) if content else None
    if action == REPLACE_COMMIT:
        return "hoodieReplaceCommitMetadata", _commit_record(content, path)
    if action in COMMIT_ACTIONS:
        return "hoodieCommitMetadata", _commit_record(content, path)
    if action in (COMPACTION, LOG_COMPACTION) and state is InstantState.REQUESTED:
        return "hoodieCompactionPlan", _decoded("HoodieCompactionPlan", content, path)
    if action == CLEAN and state is InstantState.COMPLETED:
        return "hoodieCleanMetadata", _decoded("HoodieCleanMetadata", content, path)
    if action == CLEAN:
        return "hoodieCleanerPlan", _decoded("HoodieCleanerPlan", content, path)
    if action == ROLLBACK and state is InstantState.COMPLETED:
        return "hoodieRollbackMetadata", _decoded("HoodieRollbackMetadata", content, path)
    return None, None


def _decoded(schema_name: str, content: bytes, path: str) -> dict[str, Any] | None:
    return load_codec(schema_name).decode(content, path) if content else None


def _commit_record(content: bytes, path: str) -> dict[str, Any]:
    """A commit's file as the archive's `HoodieCommitMetadata` or `HoodieReplaceCommitMetadata`."""
    try:
        document: Any = parse_commit_document(content) if content else {"operationType": "UNKNOWN"}
        stats = document.get("partitionToWriteStats") or {}
        record: dict[str, Any] = {
            "partitionToWriteStats": {
                partition: [{name: stat.get(name) for name in _STAT_FIELDS} for stat in some]
                for partition, some in stats.items()
            },
            "extraMetadata": {
                key: value
                for key, value in {**(document.get("extraMetadata") or {}), _ROLLING_STAT: ""}.items()
                if value is not None
            },
            "version": None,
            "operationType": "COMPACT" if document.get("compacted") else document.get("operationType"),
        }
        if document.get("partitionToReplaceFileIds") is not None:
            record["partitionToReplaceFileIds"] = document["partitionToReplaceFileIds"]
    except (ValueError, AttributeError, TypeError) as error:
        raise CorruptTableError(f"cannot decode {path}: {error}") from error
    return record
