"""Avro object containers of one record, by whichever writer: plain, compressed, damaged."""

from __future__ import annotations

import io

import fastavro
import pytest

from hudisql.errors import CorruptTableError
from hudisql.format.avro.avro_container import decode_container

SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Thing",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "sizes", "type": {"type": "map", "values": "long"}},
        ],
    }
)
RECORD: dict[str, object] = {"name": "a", "sizes": {"b": 3}}


def _container(*records: dict[str, object], codec: str = "null") -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, SCHEMA, records, codec=codec)
    return sink.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_record_is_read_with_and_without_compression(codec: str) -> None:
    assert decode_container(_container(RECORD, codec=codec), "it") == RECORD


def test_a_container_of_several_records_is_refused() -> None:
    with pytest.raises(CorruptTableError, match="it holds 2 Avro records"):
        decode_container(_container(RECORD, RECORD), "it")


@pytest.mark.parametrize("end", [3, 40, -20, -1])
def test_a_container_that_was_cut_off_is_an_error(end: int) -> None:
    with pytest.raises(CorruptTableError, match="cannot decode it"):
        decode_container(_container(RECORD)[:end], "it")


def test_a_container_whose_block_does_not_end_with_its_marker_is_an_error() -> None:
    content = _container(RECORD)
    with pytest.raises(CorruptTableError, match="cannot decode it"):
        decode_container(content[:-1] + bytes([content[-1] ^ 1]), "it")


def test_a_length_that_runs_into_the_marker_is_an_error() -> None:
    whole = _container(RECORD)
    body = whole[whole.rindex(b"\x02a") :]
    damaged = whole[: -len(body)] + bytes([2 * 9]) + body[1:]
    with pytest.raises(CorruptTableError, match="cannot decode it"):
        decode_container(damaged, "it")


@pytest.mark.parametrize(
    "content",
    [
        b"Obj\x01\x02" + b"\xfe" * 11 + b"\x01" + bytes(40),
        b"Obj\x01\x02\x16avro.schema\x021" + b"\0" + bytes(16) + b"\x02\x02\x02" + bytes(16),
        b"Obj\x01\x02\x16avro.schema\x22"
        + b'{"type":"record"}'
        + b"\0"
        + bytes(16)
        + b"\x02\x02\x02"
        + bytes(16),
    ],
    ids=["number", "schema_number", "schema_incomplete"],
)
def test_damaged_headers_are_an_error(content: bytes) -> None:
    with pytest.raises(CorruptTableError, match="cannot decode it"):
        decode_container(content, "it")
