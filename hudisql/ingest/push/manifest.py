"""The manifest of a write-ahead log: its identity, its segments, and the sequence numbers that are reserved.

It is one file of two slots with a generation and a checksum each, written in turn and in place: an
interrupted write leaves the other slot, and a log on a full disk can still release segments. Knows no frames.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from hudisql.errors import CorruptWriteAheadLogError
from hudisql.ingest.push.log_files import LogFiles

MANIFEST_NAME: Final = "manifest"
_UNFINISHED_NAME: Final = "manifest.new"
_SLOT_BYTES: Final = 1 << 18
_SLOT_HEADER: Final = struct.Struct("<4sIQI")
_SLOT_MAGIC: Final = b"hPm1"


@dataclass(frozen=True)
class Manifest:
    """`segments` maps numbers to where they end, None for the one that was written last.

    All sequence numbers up to `reserved_sequence` may have been given to clients.
    """

    log_id: str
    reserved_sequence: int = 0
    segments: Mapping[int, int | None] = field(default_factory=dict)
    generation: int = 0


class ManifestFile:
    """The manifest as it is on disk. Raises OSError."""

    def __init__(self, files: LogFiles, descriptor: int, current: Manifest) -> None:
        self._files = files
        self._descriptor = descriptor
        self.current = current

    def write(self, manifest: Manifest) -> None:
        """Make `manifest` the current one, durably."""
        following = replace(manifest, generation=self.current.generation + 1)
        offset = following.generation % 2 * _SLOT_BYTES
        self._files.write(self._descriptor, [_encode_slot(following)], offset)
        self._files.sync(self._descriptor)
        self.current = following

    def close(self) -> None:
        """Close the file."""
        self._files.close_file(self._descriptor)


def open_manifest(files: LogFiles) -> ManifestFile:
    """The manifest of a directory, a new one without a log. Raises CorruptWriteAheadLogError."""
    names = files.names()
    if MANIFEST_NAME not in names:
        _refuse_segments_without_manifest(files, names)
        return _create_manifest(files)
    content = files.read(MANIFEST_NAME)
    slots = [_decode_slot(content[start : start + _SLOT_BYTES]) for start in (0, _SLOT_BYTES)]
    valid = [slot for slot in slots if slot is not None]
    if not valid:
        raise CorruptWriteAheadLogError(
            f"{files.directory / MANIFEST_NAME} is damaged at offset 0: none of its two copies is whole",
            hint="restore the file; without it acknowledged rows cannot be distinguished from others",
        )
    newest = max(valid, key=lambda manifest: manifest.generation)
    return ManifestFile(files, files.open(MANIFEST_NAME), newest)


def _refuse_segments_without_manifest(files: LogFiles, names: list[str]) -> None:
    others = [name for name in names if name != _UNFINISHED_NAME]
    if others:
        raise CorruptWriteAheadLogError(
            f"{files.directory} has no file {MANIFEST_NAME}, but other files: {', '.join(others[:3])}",
            hint="restore the file, or choose an empty directory for the write-ahead log",
        )


def _create_manifest(files: LogFiles) -> ManifestFile:
    files.delete(_UNFINISHED_NAME)
    descriptor = files.create(_UNFINISHED_NAME, 2 * _SLOT_BYTES)
    file = ManifestFile(files, descriptor, Manifest(uuid.uuid4().hex))
    try:
        file.write(file.current)
        files.replace(_UNFINISHED_NAME, MANIFEST_NAME)
        files.sync_directory()
    except OSError:
        file.close()
        raise
    return file


def _encode_slot(manifest: Manifest) -> bytes:
    text = json.dumps(
        {
            "log_id": manifest.log_id,
            "reserved_sequence": manifest.reserved_sequence,
            "segments": {str(number): end for number, end in manifest.segments.items()},
        },
        separators=(",", ":"),
    ).encode()
    assert len(text) + _SLOT_HEADER.size <= _SLOT_BYTES
    checksum = zlib.crc32(text, manifest.generation & 0xFFFFFFFF)
    return _SLOT_HEADER.pack(_SLOT_MAGIC, checksum, manifest.generation, len(text)) + text


def _decode_slot(content: bytes) -> Manifest | None:
    if len(content) < _SLOT_HEADER.size:
        return None
    magic, checksum, generation, length = _SLOT_HEADER.unpack_from(content)
    text = content[_SLOT_HEADER.size : _SLOT_HEADER.size + length]
    if magic != _SLOT_MAGIC or zlib.crc32(text, generation & 0xFFFFFFFF) != checksum:
        return None
    fields = json.loads(text)
    segments = {int(number): end for number, end in fields["segments"].items()}
    return Manifest(fields["log_id"], fields["reserved_sequence"], segments, generation)
