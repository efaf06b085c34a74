"""The definitions of the indexes in a table's metadata table.

Follows `HoodieIndexMetadata` and `HoodieIndexDefinition` of Hudi 1.2, which writes them as JSON from table
version 8 on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from hudisql.errors import CorruptTableError
from hudisql.table.hudi_table import HudiTable

NAMED_PREFIXES: Final = ("secondary_index_", "expr_index_")
"""Behind them stand the names of the indexes that CREATE INDEX of Apache Hudi makes."""


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """An index: the name of its partition in the metadata table, its kind, the columns that it is about.

    `version` is that of the form of its records, empty if none is named. `options` are those of the index.
    `function` is what it has of the columns, empty for the one of its kind.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    version: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    function: str = ""

    @property
    def is_named(self) -> bool:
        """True for secondary and expression indexes, which CREATE INDEX makes."""
        return self.name.startswith(NAMED_PREFIXES)


def read_index_definitions(table: HudiTable) -> dict[str, IndexDefinition]:
    """The definitions by name; empty if the table has none. Raises CorruptTableError, StorageError."""
    file = table.index_definitions_file
    if file is None:
        return {}
    with _readable(file[0]):
        return {
            name: _definition(name, stored)
            for name, stored in json.loads(file[1])["indexDefinitions"].items()
        }


def _definition(name: str, stored: Mapping[str, Any]) -> IndexDefinition:
    columns, options = tuple(stored["sourceFields"]), dict(stored.get("indexOptions") or {})
    kind, version = stored["indexType"], stored.get("version") or ""
    function = stored.get("indexFunction") or ""
    for value in (kind, version, function, *columns, *options.values()):
        if not isinstance(value, str):
            raise TypeError(f"{value!r} in the definition of {name} must be a text")
    return IndexDefinition(name, kind, columns, version, options, function)


def remove_index_definitions(table: HudiTable, names: Collection[str]) -> None:
    """Write the file of definitions without these indexes. Raises CorruptTableError, StorageError."""
    with _rewritten(table) as definitions:
        for name in {*definitions} & {*names}:
            del definitions[name]


def set_index_columns(table: HudiTable, name: str, columns: Sequence[str]) -> None:
    """Write the file of definitions with these columns of one of its indexes.

    Raises CorruptTableError, StorageError.
    """
    with _rewritten(table) as definitions:
        definitions[name]["sourceFields"] = list(columns)


@contextmanager
def _rewritten(table: HudiTable) -> Iterator[dict[str, Any]]:
    """The definitions as they are stored now, to be changed; they are written then.

    There are none without a file.
    """
    file = table.index_definitions_file
    if file is None:
        yield {}
        return
    path = file[0]
    with _readable(path):
        document = json.loads(table.storage.read(path))
        yield document["indexDefinitions"]
    content = json.dumps(document, indent=2).encode()
    table.storage.write(path, content)
    vars(table)["index_definitions_file"] = (path, content)  # that of its cached property


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptTableError(
            f"the index definitions {path} cannot be read: {error}",
            hint="the next write of Apache Hudi makes the file again if it is removed",
        ) from error


def render_index_definitions(definitions: Iterable[IndexDefinition]) -> bytes:
    """The content of the file."""
    document = {
        definition.name: {
            "indexName": definition.name,
            "indexType": definition.kind,
            "indexFunction": definition.function or (definition.kind if definition.columns else ""),
            "sourceFields": list(definition.columns),
            "indexOptions": dict(definition.options),
            "version": definition.version,
        }
        for definition in definitions
    }
    return json.dumps({"indexDefinitions": document}, indent=2).encode()
