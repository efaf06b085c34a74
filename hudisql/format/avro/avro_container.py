"""One record as an Avro object container file, as Hudi stores index values and timeline payloads.

Follows the Avro 1.11 specification (object container files, null codec). The header with the schema is the
same for every record of one schema and is built once. Loads the schemas that ship beside it, and knows no
others.
"""

from __future__ import annotations

import io
import json
import secrets
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, cast

import fastavro
import numpy as np
from fastavro.schema import SchemaParseException

from hudisql.errors import CorruptTableError
from hudisql.format.encoding.varints import encode_zigzag_varint

CONTAINER_MAGIC = b"Obj\x01"
"""The first bytes of every Avro object container file."""
_SYNC_BYTES = 16
_LONGEST_SHIFT = 63
# The errors of fastavro for damaged bytes and invalid schemas.
_DAMAGED = (
    EOFError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    StopIteration,
    SchemaParseException,
)
_MOST_SCHEMAS = 64
_LARGE_BYTES = 1 << 20


@dataclass(frozen=True)
class AvroRecordCodec:
    """Writes and reads containers that hold exactly one record of one schema (its JSON text)."""

    schema_text: str
    _parsed: Any = field(init=False, repr=False, compare=False)
    _header: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        schema = json.loads(self.schema_text)
        object.__setattr__(self, "_parsed", fastavro.parse_schema(schema))
        text = self.schema_text.encode()
        header = CONTAINER_MAGIC + b"\x02" + encode_bytes(b"avro.schema") + encode_bytes(text) + b"\x00"
        object.__setattr__(self, "_header", header)

    def encode(self, record: dict[str, Any], sync: bytes | None = None) -> bytes:
        """The container's bytes; `sync` is the 16-byte marker, by default a random one."""
        return self.enclose(self.encode_body(record), sync)

    def encode_body(self, record: dict[str, Any]) -> bytes:
        """The record in Avro's binary form, without a container."""
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._parsed, record)
        return body.getvalue()

    def decode_body(self, content: bytes) -> dict[str, Any]:
        """A record in Avro's binary form, without a container.

        The value of a union of several records is a pair of the record's name and the record.
        """
        body = io.BytesIO(content)
        record = fastavro.schemaless_reader(
            body, self._parsed, None, return_record_name=True, return_record_name_override=True
        )
        return cast("dict[str, Any]", record)

    def enclose(self, content: bytes, sync: bytes | None = None) -> bytes:
        """The container's bytes around a record that is already in Avro's binary form."""
        marker = secrets.token_bytes(_SYNC_BYTES) if sync is None else sync
        return b"".join((self._header, marker, b"\x02", encode_zigzag_varint(len(content)), content, marker))

    def decode(self, content: bytes, name: str = "Avro container") -> dict[str, Any]:
        """The one record, by the schema that its writer stored. Raises CorruptTableError naming `name`."""
        if content.startswith(self._header):
            start = len(self._header) + _SYNC_BYTES
            stream = io.BytesIO(content)
            stream.seek(start)
            try:
                if _read_avro_long(stream) == 1:
                    return cast("dict[str, Any]", _read_record(stream, self._parsed))
            except _DAMAGED as error:
                raise CorruptTableError(f"cannot decode {name}: {error}") from error
        return decode_container(content, name)


def decode_container(content: bytes, name: str) -> dict[str, Any]:
    """The one record of a container, whatever its schema is. Raises CorruptTableError naming `name`."""
    try:
        record = _decode_plain(content)
        if record is not None:
            return record
        records = list(fastavro.reader(io.BytesIO(content)))
    except _DAMAGED as error:
        raise CorruptTableError(f"cannot decode {name}: {error}") from error
    if len(records) != 1 or not isinstance(records[0], dict):
        raise CorruptTableError(f"{name} holds {len(records)} Avro records, one was expected")
    return records[0]


def decode_member(content: bytes, name: str, member: str) -> Any:
    """One field of the one record of a container, a map as its pairs; None if the schema lacks it.

    Of a large container the other fields are skipped by compiled code. Raises CorruptTableError that names
    `name`.
    """
    if len(content) < _LARGE_BYTES:
        return decode_container(content, name).get(member)
    from hudisql.format.avro.avro_rows import decode_rows

    try:
        stream = io.BytesIO(content)
        schema = _schema_of_plain(stream, content)
        if schema is None:
            return decode_container(content, name).get(member)
        length, start = _read_avro_long(stream), stream.tell()
        if length < 0 or start + length + _SYNC_BYTES != len(content):
            raise CorruptTableError(f"cannot decode {name}: the Avro container is cut off")
    except _DAMAGED as error:
        raise CorruptTableError(f"cannot decode {name}: {error}") from error
    spans = np.array([start]), np.array([start + length])
    fields = decode_rows(np.frombuffer(content, np.uint8), *spans, schema.decode(), {member})
    return fields.column(0)[0].as_py() if fields.num_columns else None


def _decode_plain(content: bytes) -> dict[str, Any] | None:
    """The record of a container with one block of one record and without compression, as Hudi writes it.

    A timeline has thousands of them: unlike fastavro's reader it parses each schema once. None for others.
    """
    stream = io.BytesIO(content)
    schema = _schema_of_plain(stream, content)
    if schema is None:
        return None
    record = _read_record(stream, _parsed_schema(schema))
    is_last = stream.tell() + _SYNC_BYTES == len(content)
    return record if is_last and isinstance(record, dict) else None


def _schema_of_plain(stream: io.BytesIO, content: bytes) -> bytes | None:
    """The schema of a container as in `_decode_plain`, whose record `stream` is then at; None for others."""
    if stream.read(len(CONTAINER_MAGIC)) != CONTAINER_MAGIC:
        return None
    metadata: dict[bytes, bytes] = {}
    while entries := _read_avro_long(stream):
        if entries < 0:
            return None
        for _ in range(entries):
            key = _read_avro_bytes(stream)
            metadata[key] = _read_avro_bytes(stream)
    sync = stream.read(_SYNC_BYTES)
    if not content.endswith(sync) or metadata.get(b"avro.codec", b"null") != b"null":
        return None
    return metadata[b"avro.schema"] if _read_avro_long(stream) == 1 else None


def _read_record(stream: io.BytesIO, schema: Any) -> Any:
    """The record of a block with one record."""
    body = io.BytesIO(_read_avro_bytes(stream))
    record = fastavro.schemaless_reader(body, schema, None)
    if body.read(1):
        raise ValueError("the record ends before its block")
    return record


@lru_cache(_MOST_SCHEMAS)
def _parsed_schema(text: bytes) -> Any:
    return fastavro.parse_schema(json.loads(text))


@cache
def load_codec(schema_name: str) -> AvroRecordCodec:
    """The codec of one of Hudi's own schemas (`HoodieBootstrapIndexInfo`, ...), exactly as Hudi writes it."""
    text = (files("hudisql.format") / "avro" / f"{schema_name}.avsc").read_text()
    return AvroRecordCodec(json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False))


def encode_bytes(content: bytes) -> bytes:
    """Bytes or UTF-8 text in Avro's binary form."""
    return encode_zigzag_varint(len(content)) + content


def _read_avro_bytes(stream: io.BytesIO) -> bytes:
    length = _read_avro_long(stream)
    if length < 0:
        raise ValueError("a length is negative")
    content = stream.read(length)
    if len(content) < length:
        raise EOFError("the Avro container is cut off")
    return content


def _read_avro_long(stream: io.BytesIO) -> int:
    value = shift = 0
    while True:
        byte = stream.read(1)
        if not byte:
            raise EOFError("the Avro container is cut off")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        if shift > _LONGEST_SHIFT:
            raise ValueError("a number has more than 64 bits")
