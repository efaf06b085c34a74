"""The last micro batch of a stream that a table's commits have: what makes a streaming write exactly once.

Follows `HoodieStreamingSink` of Hudi 0.15: `_hudi_streaming_sink_checkpoint` in a commit's extra metadata is
a JSON object of batch numbers by the identifier of the writer, and a batch that is not newer is not written
again. Hudi cannot tell a new query with the same identifier, whose batches start at 0, and skips its rows.
hudisql also stores the id of the query, and refuses such a batch. Knows no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hudisql.errors import CorruptTableError, WriteConflictError, WriteRefusedError
from hudisql.format.timeline.commit_metadata import SINK_CHECKPOINT_KEY
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.rows_checkpoint import find_newest

QUERY_KEY: Final = "hudisql.streaming.query"
IDENTIFIER: Final = "hoodie.datasource.write.streaming.checkpoint.identifier"


@dataclass(frozen=True)
class StreamCheckpoint:
    """The batch `batch_id` of the query `query_id`, written under `identifier`.

    `previous` has the batches by identifier of the newest commit with this identifier.
    """

    identifier: str
    query_id: str
    batch_id: int
    previous: Mapping[str, str]

    @property
    def extra_metadata(self) -> Mapping[str, str]:
        """The extra metadata of the commit."""
        batches = {**self.previous, self.identifier: str(self.batch_id)}
        query = {self.identifier: f"{self.query_id} {self.batch_id}"}
        return {SINK_CHECKPOINT_KEY: json.dumps(batches), QUERY_KEY: json.dumps(query)}

    def check(self, target: HudiTable) -> None:
        """Raise WriteConflictError if another commit has batches of the identifier that are newer."""
        now = _newest_entries(target, SINK_CHECKPOINT_KEY, self.identifier)
        if now.get(self.identifier) != self.previous.get(self.identifier):
            raise WriteConflictError(
                f"another stream with the identifier '{self.identifier}' wrote into {target.base_path} "
                f"meanwhile: batch {self.batch_id} was not written",
                hint=f"set {IDENTIFIER} to a name of its own for each stream",
            )


def plan_batch(table: HudiTable, identifier: str, query_id: str, batch_id: int) -> StreamCheckpoint | None:
    """The checkpoint of the batch's commit; None if the table has the batch already.

    Raises WriteRefusedError for a batch of another query that Hudi would skip, or one before the last batch;
    CorruptTableError, StorageError.
    """
    previous = _newest_entries(table, SINK_CHECKPOINT_KEY, identifier)
    last = _batch_of(table, previous.get(identifier))
    if last is None or batch_id > last:
        return StreamCheckpoint(identifier, query_id, batch_id, previous)
    writer = _newest_entries(table, QUERY_KEY, identifier).get(identifier, "")
    last_query, _, query_batch = writer.partition(" ")
    # Hudi's sink stores no query: if it wrote the last batch, the number alone decides, as it does there.
    is_same_query = query_batch != str(last) or last_query == query_id
    if batch_id == last and is_same_query:
        return None
    raise WriteRefusedError(
        f"{table.base_path} has the batches of a stream with the identifier '{identifier}' up to {last}, and "
        f"this stream is at batch {batch_id} with another or an older checkpoint: nothing was written",
        hint=f"start it with the checkpointLocation of that stream, or set {IDENTIFIER} to a new name",
    )


def _newest_entries(table: HudiTable, key: str, identifier: str) -> Mapping[str, str]:
    """The JSON object of the newest commit whose `key` has the identifier; empty without one."""

    def entries_of(text: str) -> Mapping[str, str] | None:
        try:
            entries = {str(name): str(value) for name, value in json.loads(text).items()}
        except (ValueError, AttributeError) as error:
            raise CorruptTableError(
                f"a commit of {table.base_path} has {key} = '{text}', which is not valid: {error}"
            ) from error
        return entries if identifier in entries else None

    return find_newest(table, key, entries_of) or {}


def _batch_of(table: HudiTable, text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError as error:
        raise CorruptTableError(
            f"a commit of {table.base_path} has {SINK_CHECKPOINT_KEY} with the batch '{text}': not a number"
        ) from error
