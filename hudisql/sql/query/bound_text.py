"""A statement's text with its references to Hudi tables and views over them replaced, as values.

`relations.TableBinder` makes them; they know no session's state and read nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudisql.sql.query.references import Span, TimeTravel
from hudisql.sql.query.table_functions import FunctionCall
from hudisql.sql.query.views import ViewDefinition
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHARED_ALIAS = re.compile(r"__hudisql_[0-9a-f]{8}_of_")


@dataclass(frozen=True)
class HudiEntry:
    """A Hudi table under its name in the metastore; `path` is its qualified base path.

    With `omits_meta_columns` only queries that name Hudi's meta columns see them.
    """

    database: str
    name: str
    path: str
    read_optimized: bool = False
    omits_meta_columns: bool = False


@dataclass(frozen=True)
class HudiRelation:
    """One reference to a Hudi table at offset `at`; `view_name` replaces it in the bound text.

    `time_travel` is evaluated in `session`. With `call` it is the rows of a table function. Without
    `shows_meta_columns` it has the table's own columns alone.
    """

    view_name: str
    entry: HudiEntry
    written: str
    session: SparkSession = field(compare=False, repr=False)
    time_travel: TimeTravel | None = None
    at: int = -1
    call: FunctionCall | None = None
    shows_meta_columns: bool = True

    def schema_of(self, table: HudiTable) -> pa.Schema:
        """The columns of the reference to this table."""
        return table.full_schema if self.shows_meta_columns else table.schema

    @property
    def names_meta_columns(self) -> bool:
        """True if it has meta columns because the query names one, and `*` has to leave them out."""
        return self.entry.omits_meta_columns and self.shows_meta_columns and self.call is None

    @property
    def is_scan(self) -> bool:
        """True if it scans the table, with only the columns and rows that are needed."""
        return self.call is None or self.call.is_latest_state


@dataclass(frozen=True)
class ViewRelation:
    """One reference to a view that reads Hudi tables, with its own query bound.

    `session` has the settings of the view's creation: its query is analyzed there.
    """

    view_name: str
    definition: ViewDefinition
    body: BoundText
    session: SparkSession = field(compare=False, repr=False)


@dataclass(frozen=True)
class BoundText:
    """A text whose Hudi tables and views over them are replaced by names of temporary views.

    `plan` is Spark's unresolved plan of `original`, which is parsed once.
    """

    original: str
    text: str
    plan: Any = field(compare=False, repr=False)
    relations: tuple[HudiRelation | ViewRelation, ...] = ()
    replacements: tuple[tuple[Span, str], ...] = field(default=(), repr=False)

    @cached_property
    def hudi_relations(self) -> tuple[HudiRelation, ...]:
        """Every reference to a Hudi table, those inside views too."""
        relations: list[HudiRelation] = []
        for relation in self.relations:
            relations += relation.body.hudi_relations if isinstance(relation, ViewRelation) else [relation]
        return tuple(relations)

    @cached_property
    def view_relations(self) -> tuple[ViewRelation, ...]:
        """Every reference to a view over Hudi tables, those inside views too."""
        direct = [relation for relation in self.relations if isinstance(relation, ViewRelation)]
        return tuple(
            view for view_relation in direct for view in (view_relation, *view_relation.body.view_relations)
        )

    def original_offset(self, offset: int) -> int:
        """The offset in the user's text of an offset of `text`."""
        shift = 0
        for (start, end), new_text in self.replacements:
            if start + shift > offset:
                break
            if offset < start + shift + len(new_text):
                return start
            shift += len(new_text) - (end - start)
        return offset - shift

    def restore_names(self, message: str) -> str:
        """`message` with the names of temporary views replaced by what the user wrote."""
        for relation in self.relations:
            written = relation.written if isinstance(relation, HudiRelation) else relation.definition.name
            message = re.sub(rf"`?{relation.view_name}\b`?", written.replace("\\", r"\\"), message)
            if isinstance(relation, ViewRelation):
                message = relation.body.restore_names(message)
        return _SHARED_ALIAS.sub("", message)
