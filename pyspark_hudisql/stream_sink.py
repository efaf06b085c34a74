"""A Hudi table as the sink of a stream: each micro batch is one commit, written exactly once.

Follows PySpark's `DataSourceStreamArrowWriter`. Spark makes another writer in the process that commits, so
tasks only send their rows; that process looks up the batch among the table's commits and writes it as
`df.write.format("hudi")` does. What is killed before the commit leaves at most files that the next write
rolls back; after it the batch is known and not written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudisql.config.hudi_config import WRITE_OPERATION
from hudisql.errors import InvalidArgumentError, StorageError, WriteRefusedError
from hudisql.spark.python_worker import complete_input
from hudisql.storage import Storage
from hudisql.table.hudi_table import find_table_root, open_table
from pyspark_hudisql.read_options import plain_errors, storage_of
from pyspark_hudisql.sink import MOST_BYTES, SentRows, compressed_rows, make_writer
from pyspark_hudisql.stream_checkpoint import IDENTIFIER, StreamCheckpoint, plan_batch

_PREFIX: Final = "hoodie.datasource.write.streaming."
_DEFAULT_IDENTIFIER: Final = "default_single_writer"
# Values that ask for what this sink does anyway.
_FOLLOWED: Final = {f"{_PREFIX}ignore.failed.batch": "false", f"{_PREFIX}disable.compaction": "true"}
_CHECKPOINT: Final = "checkpointlocation"
# Spark hands the name of a query to its sink as an option.
_OPTIONS_OF_THE_QUERY: Final = (_CHECKPOINT, "queryname")
_OPERATION: Final = WRITE_OPERATION.name
_OPERATIONS: Final = ("upsert", "insert", "bulk_insert")


class HudiStreamWriter(DataSourceStreamArrowWriter):
    """The commits of a stream, one for each micro batch."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """Check the options; touches no table. Raises InvalidArgumentError."""
        given = {name.lower(): value.strip() for name, value in options.items()}
        _check_options(given, overwrite)
        self._schema = schema
        self._identifier = given.get(IDENTIFIER) or _DEFAULT_IDENTIFIER
        self._checkpoint_location = given[_CHECKPOINT]
        self._options = {
            name: value
            for name, value in options.items()
            if name.lower() not in _OPTIONS_OF_THE_QUERY and not name.lower().startswith(_PREFIX)
        }

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task. Raises WriteRefusedError for more than the driver takes."""
        sent = compressed_rows([batch for batch in complete_input(iterator) if batch.num_rows])
        if len(sent) > MOST_BYTES:
            raise WriteRefusedError(
                f"the sink of a stream writes on Spark's driver, and one task has {len(sent)} bytes of rows, "
                f"more than {MOST_BYTES}; nothing was written",
                hint="smaller micro batches, more partitions, or hudisql.write_table in foreachBatch",
            )
        return SentRows(sent)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Write the batch as one commit, unless the table has it. Raises HudisqlError."""
        with plain_errors():
            storage = storage_of(self._options)
            checkpoint = self._checkpoint_of(storage, batchId)
            if checkpoint is None:
                return
            streams = [message.stream for message in messages if isinstance(message, SentRows)]
            batches = [
                batch
                for stream in streams
                if stream
                for batch in pa.ipc.open_stream(stream).read_all().to_batches()
            ]
            writer = make_writer(storage, self._options, self._schema, False, checkpoint)
            try:
                message = writer.write_rows(batches)
            except BaseException:
                writer.abort([])
                raise
            writer.commit([message])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is written before `commit`, which rolls its own failures back."""

    def _checkpoint_of(self, storage: Storage, batch_id: int) -> StreamCheckpoint | None:
        query_id = self._query_id(storage)
        path = storage.qualify(self._options["path"])
        if find_table_root(storage, path) != path:
            # make_writer refuses a path within another table.
            return StreamCheckpoint(self._identifier, query_id, batch_id, {})
        return plan_batch(open_table(storage, path), self._identifier, query_id, batch_id)

    def _query_id(self, storage: Storage) -> str:
        """The id that Spark keeps for the query in its checkpoint directory. Raises InvalidArgumentError."""
        path = storage.qualify(f"{self._checkpoint_location.rstrip('/')}/metadata")
        try:
            return str(json.loads(storage.read(path))["id"])
        except (StorageError, FileNotFoundError, ValueError, KeyError, TypeError) as error:
            raise InvalidArgumentError(
                f"{path} does not have the id of the query, by which batches are recognized: {error}",
                hint="set option('checkpointLocation', …) to a directory that the driver reads",
            ) from error


def _check_options(given: Mapping[str, str], overwrite: bool) -> None:
    if overwrite:
        raise InvalidArgumentError(
            "a stream into a Hudi table has the output mode append, not complete: nothing was written",
            hint="outputMode('append'), or hudisql.write_table in foreachBatch",
        )
    for name in ("path", _CHECKPOINT):
        if not given.get(name):
            shown = "checkpointLocation" if name == _CHECKPOINT else name
            raise InvalidArgumentError(
                f"the option {shown} of a stream into a Hudi table is not set",
                hint="df.writeStream.format('hudi').option('checkpointLocation', …).start('<path>')",
            )
    operation = given.get(_OPERATION, "upsert").lower()
    if operation not in _OPERATIONS:
        raise InvalidArgumentError(
            f"{_OPERATION} is '{operation}'; a stream into a Hudi table takes {', '.join(_OPERATIONS)}"
        )
    for name, value in given.items():
        if name.startswith(_PREFIX) and name != IDENTIFIER and _FOLLOWED.get(name) != value.lower():
            raise InvalidArgumentError(
                f"a stream into a Hudi table does not follow {name} = {value}",
                hint="leave the option out: a failed batch ends the query, and a restart writes it again",
            )
