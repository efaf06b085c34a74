"""The schema by which a past state is read, whose files may have wider types than its commits.

Apache Hudi and hudisql write a compaction or clustering by the table's schema when it runs. One that was
planned before a column was widened belongs to the state before by its instant time, and has the wider type.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from hudisql.format.schema.type_widening import is_safe_widening
from hudisql.format.timeline.commit_metadata import SCHEMA_KEY
from hudisql.format.timeline.instant import COMMIT, REPLACE_COMMIT
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.archived_timeline import list_archive_files
from hudisql.table.timeline.instant_files import read_extra_metadata


def at_past_schema(table: HudiTable, as_of: str) -> HudiTable:
    """The table with the schema that it had at an instant time, for reads of that state.

    A column that was widened since has the widest type with which a service of the state has written it, or
    the latest one if commits are archived. Reads the services' schemas only if there is such a column. Raises
    TimelineChangedError, CorruptTableError, StorageError.
    """
    past = table.at_schema_of(as_of)
    if past.file_columns is not None:
        return past
    written = _widened(past.schema, [table.schema])
    if written and not list_archive_files(table):
        actions = (COMMIT, REPLACE_COMMIT) if table.is_merge_on_read else (REPLACE_COMMIT,)
        services = [each for each in table.timeline.commits_until(as_of) if each.action in actions]
        texts = {found.get(SCHEMA_KEY) for found in read_extra_metadata(table, services)}
        written = _widened(past.schema, [table.schema_of(text) for text in texts if text])
    if not written:
        return past
    return past.with_schema(
        pa.schema([field.with_type(written.get(field.name, field.type)) for field in past.schema])
    )


def _widened(schema: pa.Schema, others: Iterable[pa.Schema]) -> dict[str, pa.DataType]:
    """The columns that have a wider type in another schema, with the widest."""
    widest = {field.name: field.type for field in schema}
    for other in others:
        for field in other:
            known = widest.get(field.name)
            if known is not None and is_safe_widening(known, field.type):
                widest[field.name] = field.type
    return {field.name: widest[field.name] for field in schema if widest[field.name] != field.type}
