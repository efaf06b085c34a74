"""The entries of a manifest that is written again: their data files are copied as bytes, not built again.

A rewritten manifest has some hundred entries, of which a commit changes one or two. So only the columns that
a publication asks for are decoded; the others are when they are asked for. Follows the Avro specification,
"Object Container Files".
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import fastavro

_NEEDED: Final = frozenset({"content", "file_path", "partition", "record_count", "file_size_in_bytes"})
_DATA_FILE: Final = "data_file"
_MOST_SCHEMAS: Final = 64


class StoredFile(Mapping[str, Any]):
    """A `data_file` as a manifest has it: `encoded` are its bytes by the entry schema `schema`, as JSON."""

    __slots__ = ("_all", "_needed", "encoded", "schema")

    def __init__(self, needed: Mapping[str, Any], encoded: bytes, schema: str) -> None:
        self._needed = needed
        self._all: Mapping[str, Any] | None = None
        self.encoded, self.schema = encoded, schema

    def __getitem__(self, name: str) -> Any:
        return self._needed[name] if name in self._needed else self._decoded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return len(self._decoded())

    def _decoded(self) -> Mapping[str, Any]:
        if self._all is None:
            _, data_file, _ = _schemas(self.schema)
            decoded: Any = fastavro.schemaless_reader(io.BytesIO(self.encoded), data_file, None)
            self._all = decoded
        return self._all


def read_entries(content: bytes) -> list[dict[str, Any]]:
    """The entries of a manifest, in which `data_file` is a StoredFile. Raises ValueError."""
    try:
        entries: list[dict[str, Any]] = []
        blocks: Any = fastavro.block_reader(io.BytesIO(content))
        schema = json.dumps(json.loads(blocks.metadata["avro.schema"]), sort_keys=True)
        head, data_file, needed = _schemas(schema)
        for block in blocks:
            data = block.bytes_.getvalue()
            stream = io.BytesIO(data)
            for _ in range(block.num_records):
                entry: Any = fastavro.schemaless_reader(stream, head, None)
                start = stream.tell()
                values: Any = fastavro.schemaless_reader(stream, data_file, needed)
                entry[_DATA_FILE] = StoredFile(values, data[start : stream.tell()], schema)
                entries.append(entry)
    except (EOFError, IndexError, KeyError, TypeError, StopIteration) as error:
        raise ValueError(repr(error)) from error
    return entries


def write_entries(
    schema: Mapping[str, Any], entries: Iterable[Mapping[str, Any]], metadata: Mapping[str, str]
) -> bytes:
    """A manifest of these entries by this entry schema, with this metadata in its header."""
    text = json.dumps(_without_hints(fastavro.parse_schema(dict(schema))), sort_keys=True)
    head, data_file, _ = _schemas(text)
    body, count = io.BytesIO(), 0
    for entry in entries:
        fastavro.schemaless_writer(body, head, entry)
        file = entry[_DATA_FILE]
        if isinstance(file, StoredFile) and file.schema == text:
            body.write(file.encoded)
        else:
            fastavro.schemaless_writer(body, data_file, dict(_with_branches(file)))
        count += 1
    out, marker = io.BytesIO(), os.urandom(16)
    parsed = fastavro.parse_schema(dict(schema))
    fastavro.writer(out, parsed, [], codec="deflate", metadata=dict(metadata), sync_marker=marker)
    if count:
        compressor = zlib.compressobj(wbits=-15)
        packed = compressor.compress(body.getbuffer()) + compressor.flush()
        for number in (count, len(packed)):
            fastavro.schemaless_writer(out, "long", number)
        out.write(packed + marker)
    return out.getvalue()


def _with_branches(file: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields, arrays with their branch of the union: fastavro would look at all elements to find it."""
    for name, value in file.items():
        yield name, ("array", value) if isinstance(value, list) else value


def _without_hints(schema: Any) -> Any:
    """The schema without what fastavro adds to a parsed one."""
    if isinstance(schema, dict):
        return {key: _without_hints(value) for key, value in schema.items() if not key.startswith("__")}
    return [_without_hints(part) for part in schema] if isinstance(schema, list) else schema


@lru_cache(_MOST_SCHEMAS)
def _schemas(text: str) -> tuple[Any, Any, Any]:
    """The parsed schemas of the fields before the data file, of the data file, and of its needed fields."""
    document = json.loads(text)
    fields = document["fields"]
    if fields[-1]["name"] != _DATA_FILE:
        raise ValueError(f"the last field of a manifest entry is {fields[-1]['name']}, not {_DATA_FILE}")
    data_file = fields[-1]["type"]
    needed = [field for field in data_file["fields"] if field["name"] in _NEEDED]
    return (
        fastavro.parse_schema({**document, "fields": fields[:-1]}),
        fastavro.parse_schema(data_file),
        fastavro.parse_schema({**data_file, "fields": needed}),
    )
