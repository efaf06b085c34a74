"""The definition of an incremental table: properties of its metastore entry.

Long values are split, since some metastores store at most 4,000 characters in one. Knows no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Final

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import CorruptTableError
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.spark_schema import quote_name
from hudisql.sql_literals import quote_string

PREFIX: Final = "hudisql.incremental."
_PART_LENGTH: Final = 3500


@dataclass(frozen=True, slots=True)
class IncrementalDefinition:
    """The query as written, the database of its unqualified names, the target's key, and the ordering column.

    Of several rows with one key the one with the highest value of `ordering` stays; without it a key is
    unique. `settings` are the Spark settings with which the query is run.
    """

    query: str
    database: str
    key: tuple[str, ...]
    ordering: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The query, with a selection of one row for each key."""
        if self.ordering is None:
            return self.query
        key = ", ".join(map(quote_name, self.key))
        ordering = quote_name(self.ordering)
        place = quote_name(internal_column("place"))
        return (
            f"SELECT * EXCEPT ({place}) FROM (SELECT *, row_number() OVER (PARTITION BY {key} "
            f"ORDER BY {ordering} DESC NULLS LAST, xxhash64(*)) AS {place} FROM (\n{self.query}\n))"
            f" WHERE {place} = 1"
        )

    @property
    def document(self) -> dict[str, object]:
        """The definition as JSON."""
        content = asdict(self) | {"key": list(self.key)}
        if not self.settings:
            # Tables from before settings were stored lack them.
            del content["settings"]
        return content

    def properties(self) -> dict[str, str]:
        """The properties of the metastore entry."""
        values = {
            "query": self.query,
            "database": self.database,
            "key": ",".join(map(quote_name, self.key)),
            "ordering": self.ordering or "",
            "settings": json.dumps(dict(self.settings), sort_keys=True) if self.settings else "",
        }
        return {name: text for key, value in values.items() for name, text in _parts(PREFIX + key, value)}


def definition_of(entry: MetastoreTable) -> IncrementalDefinition | None:
    """The definition of an incremental table; None for any other table. Raises CorruptTableError."""
    if not is_incremental(entry):
        return None
    values = {
        definition_field.name: _joined(entry.parameters, PREFIX + definition_field.name)
        for definition_field in fields(IncrementalDefinition)
    }
    if not values["key"]:
        raise CorruptTableError(
            f"the metastore entry of {entry.full_name} lacks the property {PREFIX}key of its definition",
            hint=f"ALTER INCREMENTAL TABLE {entry.full_name} AS … writes the definition again",
        )
    key = tuple(part.strip("`").replace("``", "`") for part in values["key"].split("`,`"))
    settings = json.loads(values["settings"] or "{}")
    return IncrementalDefinition(
        values["query"], values["database"], key, values["ordering"] or None, settings
    )


def is_incremental(entry: MetastoreTable) -> bool:
    """True if the entry defines an incremental table."""
    return any(name.startswith(PREFIX + "query") for name in entry.parameters)


def create_statement(entry: MetastoreTable, definition: IncrementalDefinition, clauses: str) -> str:
    """The CREATE INCREMENTAL TABLE of such a table; `clauses` are those of CREATE TABLE."""
    lines = [f"CREATE INCREMENTAL TABLE {quote_name(entry.database)}.{quote_name(entry.name)}"]
    lines.append(f"KEY ({', '.join(map(quote_name, definition.key))})")
    if definition.ordering is not None:
        lines.append(f"ORDERING {quote_name(definition.ordering)}")
    if clauses:
        lines.append(clauses)
    return "\n".join([*lines, f"AS {definition.query}"])


def properties_clause(properties: Mapping[str, str]) -> str:
    """TBLPROPERTIES (…); empty without any."""
    pairs = ", ".join(f"{quote_string(key)} = {quote_string(value)}" for key, value in properties.items())
    return f"TBLPROPERTIES ({pairs})" if pairs else ""


def _parts(name: str, value: str) -> list[tuple[str, str]]:
    if len(value) <= _PART_LENGTH:
        return [(name, value)]
    starts = range(0, len(value), _PART_LENGTH)
    return [(f"{name}.{number}", value[start : start + _PART_LENGTH]) for number, start in enumerate(starts)]


def _joined(parameters: Mapping[str, str], name: str) -> str:
    if name in parameters:
        return parameters[name]
    parts: list[str] = []
    while (part := parameters.get(f"{name}.{len(parts)}")) is not None:
        parts.append(part)
    return "".join(parts)
